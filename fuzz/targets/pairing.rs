//! Pairing codes, and what is said while a drone is enrolled: refused with a reason, or all of it
//! makes sense.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fulmar::fuzzing::pairing(text);
    }
});
