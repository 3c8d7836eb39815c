//! Symbols, repair symbols and feedback that no honest peer would send.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proto::fuzzing::message_frames(bytes));
