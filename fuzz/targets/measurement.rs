//! Measurements of links in every form that the lab reads: tables, iperf3, ping, mahimahi.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulmar_lab::fuzzing::measurement(bytes));
