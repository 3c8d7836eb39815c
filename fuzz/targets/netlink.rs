//! Answers of the kernel about links, addresses and sockets, cut and altered.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sys::fuzzing::netlink_answer(bytes));
