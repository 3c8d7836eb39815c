//! Scenario files: refused with a reason or accepted, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = netem::Scenario::from_toml(text, "fuzz.toml") {
        assert!(error.to_string().starts_with("fuzz.toml"), "{error}");
    }
});
