//! Packets of the tunnel in the daemon: whose they are, their segment size, and the answer to large
//! ones.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulmar::fuzzing::tunnel_packet(bytes));
