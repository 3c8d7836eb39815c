//! What each end tells the other of itself.

use super::hostile::inject;
use super::*;
use crate::rejection::Rejection;
use crate::wire::{Frame, NoteFrame};

const SECOND: Duration = Duration::from_secs(1);

/// What a host was told, in its only session.
fn told(host: &Host) -> Vec<(u16, String)> {
    let (session, _) = host.endpoint.sessions().next().expect("a session");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    host.endpoint.notes(session).map(|(name, bytes)| (name, text(bytes))).collect()
}

#[test]
fn both_ends_are_told_over_lossy_links_and_by_a_session_that_begins_anew() {
    for seed in 0..20 {
        let (mut wire, session) = Wire::pair(seed);
        (wire.loss, wire.jitter) = (0.3, Duration::from_millis(30));
        wire.hosts[0].endpoint.set_note(session, 1, b"wifi");
        wire.run_for(SECOND * 3);
        let theirs = wire.hosts[1].endpoint.sessions().next().expect("a session").0;
        wire.hosts[1].endpoint.set_note(theirs, 7, b"its own line");
        // What was said is replaced while it may be under way.
        for text in ["a", "b", "lte"] {
            wire.hosts[0].endpoint.set_note(session, 2, text.as_bytes());
            wire.run_for(Duration::from_millis(7));
        }
        wire.run_for(SECOND * 5);
        let both = vec![(1, "wifi".to_owned()), (2, "lte".to_owned())];
        assert_eq!(told(&wire.hosts[1]), both, "seed {seed}");
        assert_eq!(told(&wire.hosts[0]), [(7, "its own line".to_owned())], "seed {seed}");
        wire.hosts[0].endpoint.set_note(session, 1, b"");
        wire.hosts.pop();
        wire.add_station(1);
        let drone = wire.hosts[0].key;
        wire.hosts[1].endpoint.add_peer(drone, None);
        wire.run_for(SECOND * 10);
        assert_eq!(told(&wire.hosts[1]), both[1..], "seed {seed}: a station that restarted");
    }
}

#[test]
fn a_note_is_there_when_the_first_datagram_is() {
    let (mut wire, session) = Wire::pair(3);
    wire.hosts[0].endpoint.set_note(session, 1, b"wifi");
    while wire.hosts[1].connections() == 0 {
        wire.run_for(Duration::from_millis(1));
    }
    assert_eq!(told(&wire.hosts[1]), [(1, "wifi".to_owned())]);
}

#[test]
fn notes_without_end_are_bounded_and_what_stands_before_an_unknown_frame_is_taken() {
    let (mut wire, session) = Wire::pair(4);
    wire.run_for(SECOND);
    let send = |wire: &mut Wire, frames: &[u8]| {
        let drone = &mut wire.hosts[0];
        let datagram = drone.endpoint.seal_frames(session, PathId(0), frames).expect("a session");
        let source = drone.addresses[0];
        inject(wire, 1, source, &datagram);
        let station = &wire.hosts[1].endpoint;
        let (id, _) = station.sessions().next().expect("a session");
        station.status(wire.now, id).expect("a session").rejected
    };
    let frames = |names: core::ops::Range<u16>, bytes: &mut Vec<u8>| {
        for name in names {
            let note = NoteFrame { name, change: 1, text: b"a name" };
            Frame::Note(note).encode(bytes);
        }
    };
    for first in (0..640).step_by(64) {
        let mut bytes = Vec::new();
        frames(first..first + 64, &mut bytes);
        let refused = send(&mut wire, &bytes).of(Rejection::BeyondBound);
        assert_eq!(refused, u64::from(first), "all but the first 64");
    }
    // Longer than a note may be.
    let long = [0x0d, 9, 0, 1, 65].into_iter().chain([b'x'; 65]).collect::<Vec<_>>();
    assert_eq!(send(&mut wire, &long).of(Rejection::Malformed), 1);
    assert_eq!(told(&wire.hosts[1]).len(), limits::NOTES);
    // An end that does not know notes takes what stands before: here, a type that nobody knows.
    let mut bytes = Vec::new();
    Frame::Note(NoteFrame { name: 1, change: 2, text: b"changed" }).encode(&mut bytes);
    bytes.extend_from_slice(&[0x0f, 1, 2, 3]);
    assert_eq!(send(&mut wire, &bytes).of(Rejection::Malformed), 2);
    assert!(told(&wire.hosts[1]).contains(&(1, "changed".to_owned())));
    wire.assert_carries(0, session, 1, SECOND);
}
