//! Answers of a status socket, which `fulmar status` reads and lays out. The daemon reads nothing
//! from it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulmar::fuzzing::status_answer(bytes));
