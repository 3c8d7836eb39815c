//! Handshakes behind valid codes, and frames under valid keys, of a peer without sense.

#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| proto::fuzzing::mad_peer(script));
