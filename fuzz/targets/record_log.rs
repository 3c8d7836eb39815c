//! Logs of `trace record`, and the datagrams that they come from: refused with file and line or
//! read, and made a slot matrix of.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulmar_lab::fuzzing::record_log(bytes));
