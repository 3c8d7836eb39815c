//! Pieces of datagrams, as a peer with a valid key may send them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proto::fuzzing::join_pieces(bytes));
