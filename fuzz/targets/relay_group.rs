//! Relays that come and go, and frames that are lost, late and repeated, while datagrams travel.

#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| proto::fuzzing::relay_group(script));
