//! Source and destination of coded generations, whatever is lost, delayed, repeated or forged between them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proto::fuzzing::generations(bytes));
