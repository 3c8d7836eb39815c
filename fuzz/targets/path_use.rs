//! What a peer says of the use of paths, in any frames, while the paths come and go: each class has
//! a path that may carry it, and control has one.

#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| proto::fuzzing::path_use(script));
