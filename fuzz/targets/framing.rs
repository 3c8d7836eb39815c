//! A stream of datagrams with their lengths in front, from whoever has connected.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sys::fuzzing::framing(bytes));
