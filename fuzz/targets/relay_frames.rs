//! Frames of a node that has the group's key and no sense, at each role.

#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| proto::fuzzing::relay_frames(script));
