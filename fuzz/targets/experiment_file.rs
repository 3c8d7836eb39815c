//! Files of experiments, `fulmar-lab run FILE.toml`: refused with a reason or accepted, never a
//! panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fulmar_lab::fuzzing::experiment_file(text);
    }
});
