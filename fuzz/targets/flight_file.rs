//! Flight files, `fulmar-lab trace synth FLIGHT.toml`: every mistake told with file and line, or
//! flown and drawn; never a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fulmar_lab::fuzzing::flight_file(text);
    }
});
