//! Frames of a peer that has the keys and no sense: nothing panics, hangs or grows.
//!
//! The input is cut into datagrams as in `datagram`, but each one is sealed by the other end.

#![no_main]

use proto::Duration;
use proto::fuzzing::Pair;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut pair = Pair::new();
    let mut input = input;
    while let [control, len, rest @ ..] = input {
        let (frames, tail) = rest.split_at(usize::from(*len).min(rest.len()));
        input = tail;
        let to_station = control & 1 != 0;
        let path = control >> 1 & 1;
        if let Some(datagram) = pair.seal(!to_station, path, frames) {
            pair.inject(to_station, if to_station { path + 1 } else { 9 }, &datagram);
        }
        pair.run(Duration::from_millis(u64::from(control >> 4)));
    }
    pair.run(Duration::from_millis(100));
});
