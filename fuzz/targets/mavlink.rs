//! MAVLink in datagrams and in byte streams: every frame comes out as it went in, nothing twice.
#![no_main]

use proto::select::{
    Direction, MavlinkFrame, MavlinkFrames, Selector, SelectorConfig, StreamFramer,
};
use proto::{Duration, Instant};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let in_datagram: Vec<Vec<u8>> =
        MavlinkFrames::new(bytes).map(|frame| frame.bytes.to_vec()).collect();
    let total: usize = in_datagram.iter().map(Vec::len).sum();
    assert!(total <= bytes.len(), "frames do not overlap");

    // In a stream, however it is cut, no frame is longer than the longest of MAVLink 2.
    let cut = bytes.first().map_or(1, |byte| usize::from(*byte % 61) + 1);
    let mut framer = StreamFramer::default();
    let (mut framed, mut now) = (0, Instant::ZERO);
    let mut each = |frame: &MavlinkFrame<'_>| {
        assert!(frame.bytes.len() <= 280);
        framed += frame.bytes.len();
    };
    for piece in bytes.chunks(cut) {
        framer.push(now, piece, &mut each);
        now += Duration::from_millis(u64::from(piece[0]));
        framer.handle_timeout(now, &mut each);
        assert!(framer.timeout().is_none_or(|due| due > now), "nothing waits for longer");
    }
    framer.end(&mut each);
    assert_eq!(framed as u64 + framer.take_loss().bytes, bytes.len() as u64, "no byte is lost silently");

    let mut selector = Selector::new(&SelectorConfig::default(), Direction::ToVehicle);
    for selected in selector.select_frames(1, bytes) {
        assert!(selected.frame.len() <= bytes.len());
    }
});
