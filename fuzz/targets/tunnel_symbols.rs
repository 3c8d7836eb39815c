//! Both halves of tunnel delivery, whatever is lost, delayed or forged between them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proto::fuzzing::tunnel_symbols(bytes));
