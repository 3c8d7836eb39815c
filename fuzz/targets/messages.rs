//! Symbols of any bytes become messages or nothing, within the bounds.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proto::fuzzing::reconstruct_messages(bytes));
