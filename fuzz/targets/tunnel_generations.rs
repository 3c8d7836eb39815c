//! Both halves of the coded generations of the tunnel, whatever is lost, delayed, repeated or
//! forged between them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proto::fuzzing::tunnel_generations(bytes));
