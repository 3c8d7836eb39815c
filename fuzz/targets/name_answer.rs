//! What a name server says, or whoever answers in its place.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulmar::fuzzing::name_answer(bytes));
