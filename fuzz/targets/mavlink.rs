//! MAVLink in datagrams and in byte streams: every frame comes out as it went in, nothing twice.
#![no_main]

use proto::select::{Direction, MavlinkFrames, Selector, SelectorConfig, StreamFramer};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let in_datagram: Vec<Vec<u8>> =
        MavlinkFrames::new(bytes).map(|frame| frame.bytes.to_vec()).collect();
    let total: usize = in_datagram.iter().map(Vec::len).sum();
    assert!(total <= bytes.len(), "frames do not overlap");

    // In a stream, however it is cut, no frame is longer than the longest of MAVLink 2.
    let cut = bytes.first().map_or(1, |byte| usize::from(*byte % 61) + 1);
    let mut framer = StreamFramer::new();
    let mut framed = 0;
    for piece in bytes.chunks(cut) {
        framer.push(piece, |frame| {
            assert!(frame.len() <= 280);
            framed += frame.len();
        });
    }
    assert!(framed <= bytes.len());

    let mut selector = Selector::new(&SelectorConfig::default(), Direction::ToVehicle);
    for selected in selector.select_frames(1, bytes) {
        assert!(selected.frame.len() <= bytes.len());
    }
});
