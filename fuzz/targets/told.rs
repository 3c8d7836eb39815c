//! What a peer tells of its endpoints, for people: nothing that is shown steers a terminal or has
//! no end.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| fulmar::fuzzing::told(text));
