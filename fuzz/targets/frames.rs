//! The plaintext of a data datagram: any bytes are frames or an error.

#![no_main]

libfuzzer_sys::fuzz_target!(|plaintext: &[u8]| proto::fuzzing::decode_frames(plaintext));
