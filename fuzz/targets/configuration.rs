//! Configurations: refused with lines that say where and why, or all of it makes sense.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fulmar::fuzzing::configuration(text);
    }
});
