//! The MAVLink parser and its tables against recorded traffic and the public definitions.
//!
//! The data lie beside the checkout (or where FULMAR_SHARED says) and are not part of it: without
//! them these tests say that they are skipped.
#![expect(clippy::disallowed_methods, reason = "these tests read recordings")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fulmar_proto::Instant;
use fulmar_proto::select::{
    Class, Direction, MavlinkFrames, NotForwarded, Selector, SelectorConfig, StreamFramer,
    message_definition,
};

/// Reads a file of the shared MAVLink data, or says that the test is skipped.
fn shared(test: &str, name: &str) -> Option<Vec<u8>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("FULMAR_SHARED").map_or(beside, PathBuf::from);
    let path = folder.join("mavlink").join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            println!("SKIPPED: {test}: {}: {error}", path.display());
            None
        }
    }
}

/// Splits a recording into frames: each behind eight bytes of time. Stops at the first bad one.
fn recorded_frames(log: &[u8]) -> (Vec<&[u8]>, usize) {
    let (mut frames, mut at) = (Vec::new(), 0);
    while let Some(rest) = log.get(at + 8..) {
        let mut parser = MavlinkFrames::new(rest);
        match parser.next() {
            Some(frame) if parser.skipped() == 0 => {
                frames.push(frame.bytes);
                at += 8 + frame.bytes.len();
            }
            _ => break,
        }
    }
    (frames, at)
}

#[test]
fn every_frame_of_the_simulated_flights_parses() {
    let test = "every_frame_of_the_simulated_flights_parses";
    for (name, least) in [
        ("sitl_arducopter_v2_bidirectional.tlog", 15_000),
        ("sitl_px4_v2_bidirectional.tlog", 20_000),
        ("sitl_arducopter_mavproxy_session.tlog", 1_000),
    ] {
        let Some(log) = shared(test, name) else { continue };
        let (frames, end) = recorded_frames(&log);
        assert_eq!(end, log.len(), "{name}");
        assert!(frames.len() >= least, "{name}: {} frames", frames.len());
        println!("{name}: {} frames", frames.len());
    }
}

#[test]
fn stream_framer_finds_its_way_through_a_corrupted_recording() {
    let test = "stream_framer_finds_its_way_through_a_corrupted_recording";
    let Some(log) = shared(test, "dronekit_flight_replay.tlog") else { return };
    let (mut framer, mut found, mut bytes) = (StreamFramer::default(), 0_u64, 0_u64);
    for piece in log.chunks(97) {
        framer.push(Instant::ZERO, piece, |frame| {
            found += 1;
            bytes += frame.bytes.len() as u64;
        });
    }
    println!("{found} frames, {:?}", framer.take_loss());
    // A parser that is told where the eight bytes of time before every frame stand finds 75,477.
    let noise = log.len() as u64 - bytes - 8 * found;
    assert!(found > 75_300 && noise * 50 < log.len() as u64, "{noise} bytes of noise");
}

#[test]
fn frames_survive_aggregation_splitting_and_noise() {
    let test = "frames_survive_aggregation_splitting_and_noise";
    let Some(log) = shared(test, "sitl_arducopter_v2_bidirectional.tlog") else { return };
    let (frames, _) = recorded_frames(&log);
    for group in frames.chunks(7) {
        let datagram = group.concat();
        let parsed: Vec<_> = MavlinkFrames::new(&datagram).map(|frame| frame.bytes).collect();
        assert_eq!(parsed, group);
    }
    let mut found = Vec::new();
    let mut framer = StreamFramer::default();
    let stream = frames.join(&b"??"[..]);
    for piece in stream.chunks(61) {
        framer.push(Instant::ZERO, piece, |frame| found.push(frame.bytes.to_vec()));
    }
    assert_eq!(found.len(), frames.len());
    assert!(found.iter().zip(&frames).all(|(found, frame)| found == frame));
}

#[test]
fn every_class_of_a_flight_is_recognised() {
    let test = "every_class_of_a_flight_is_recognised";
    let Some(log) = shared(test, "sitl_arducopter_v2_bidirectional.tlog") else { return };
    let (frames, _) = recorded_frames(&log);
    let mut selector = Selector::new(&SelectorConfig::default(), Direction::ToVehicle);
    let mut classes: BTreeMap<Class, u32> = BTreeMap::new();
    for frame in &frames {
        for selected in selector.select_frames(1, frame) {
            *classes.entry(selected.policy.class).or_default() += 1;
        }
    }
    println!("{classes:?}");
    let expected = [Class::Liveness, Class::Live, Class::Control, Class::Telemetry, Class::Message];
    assert!(classes.keys().copied().eq(expected));
    assert_eq!(selector.counters().frames, frames.len() as u64);
    assert!(selector.not_forwarded().all(|(_, rule, _)| rule != NotForwarded::Broken));
}

#[test]
fn tables_agree_with_the_public_definitions() {
    let test = "tables_agree_with_the_public_definitions";
    let Some(csv) = shared(test, "message_ids.csv") else { return };
    let csv = String::from_utf8(csv).expect("text");
    let mut seen = BTreeSet::new();
    for line in csv.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let id: u32 = fields[0].parse().expect("an id");
        let known = message_definition(id).unwrap_or_else(|| panic!("{id} is missing"));
        assert_eq!(known.name, fields[1]);
        assert_eq!(known.crc_extra.to_string(), fields[2], "{}", known.name);
        let offset = |offset: Option<u8>| offset.map_or(String::new(), |at| at.to_string());
        assert_eq!(offset(known.target_system), fields[4], "{}", known.name);
        assert_eq!(offset(known.target_component), fields[5], "{}", known.name);
        seen.insert(id);
    }
    assert!(seen.len() >= 391);
}
