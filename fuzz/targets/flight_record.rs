//! Flight records, whole, cut or forged: shown as a table, a page, CSV, and made a scenario of.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fulmar::fuzzing::flight_record(bytes);
    fulmar_lab::fuzzing::flight_record(bytes);
});
