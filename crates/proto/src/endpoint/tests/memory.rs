//! What all sessions hold together has a bound: what happens when it is reached, and to whom.

use super::*;
use crate::limits;
use crate::rejection::Rejection;
use crate::wire::{Frame, RepairFrame, SourceFrame};

const SECOND: Duration = Duration::from_secs(1);
const ROUTINE: Source = Source::Message { channel: 7, stream: STREAM };
const STREAM: crate::MessageStream =
    crate::MessageStream { id: 1, order: crate::MessageOrder::InOrder, deadline: None };

impl Wire {
    /// Hands messages of so many bytes in until no more are taken; returns how many were.
    fn fill(&mut self, host: usize, session: SessionId, bytes: usize) -> usize {
        let (now, endpoint) = (self.now, &mut self.hosts[host].endpoint);
        let mut sent = || endpoint.send(now, session, ROUTINE, &vec![7; bytes]);
        (0..1_000).take_while(|_| sent().is_ok()).count()
    }

    /// The first session of a host.
    fn first(&self, host: usize) -> SessionId {
        self.hosts[host].endpoint.sessions().next().expect("a session").0
    }

    fn held(&self, host: usize) -> usize {
        self.hosts[host].endpoint.memory_held()
    }
}

#[test]
fn coders_give_their_memory_back_when_nothing_waits() {
    let (mut wire, session) = Wire::pair(1);
    wire.run_for(SECOND);
    wire.loss = 0.05;
    assert!(wire.fill(0, session, 100_000) > 30);
    wire.run_for(SECOND / 2);
    assert!(wire.held(0) > 1 << 20 && wire.held(1) > 1 << 19, "{} {}", wire.held(0), wire.held(1));
    wire.run_for(60 * SECOND);
    let least = limits::SESSION_BYTES + (16 << 10);
    assert!(wire.held(0) <= least && wire.held(1) <= least, "{} {}", wire.held(0), wire.held(1));
}

#[test]
fn writers_wait_where_memory_is_short_and_what_was_taken_arrives() {
    let (mut wire, session) = Wire::pair(2);
    for host in &mut wire.hosts {
        host.endpoint.set_memory_bound(limits::SESSION_SHARE);
    }
    wire.run_for(SECOND);
    wire.loss = 0.05;
    let taken = wire.fill(0, session, 100_000);
    assert_eq!(
        taken,
        limits::SESSION_SHARE / 2 * 7 / 8 / 100_000,
        "seven parts in eight of a side"
    );
    let control = Source::Declared { channel: 1, policy: Policy::DECLARED };
    assert!(wire.hosts[0].endpoint.send(wire.now, session, control, b"arm").is_ok());
    // Both directions at once: neither keeps the other from going on.
    let back = wire.first(1);
    assert_eq!(wire.fill(1, back, 100_000), taken);
    wire.run_for(30 * SECOND);
    for (host, others) in [(0, 0), (1, 1)] {
        let messages = wire.hosts[host].delivered.iter().filter(|bytes| bytes.len() == 100_000);
        assert_eq!(messages.count(), taken);
        assert_eq!(wire.hosts[host].delivered.len(), taken + others);
        assert_eq!(wire.hosts[host].count(|event| *event == Event::RoomForMessages), 1);
    }
}

/// Two drones at a station that has memory for two shares and one more.
fn two() -> (Wire, SessionId, SessionId) {
    let mut wire = Wire::new(3);
    wire.add_drone(1, 0);
    wire.add_drone(2, 0);
    wire.add_station(0);
    let thief = wire.hosts[1].key;
    wire.hosts[2].endpoint.add_peer(thief, None);
    wire.hosts[2].endpoint.set_memory_bound(3 * limits::SESSION_SHARE);
    let honest = wire.introduce();
    let station = wire.hosts[2].key;
    let thief = wire.connect(1, station);
    wire.run_for(5 * SECOND);
    assert_eq!(wire.hosts[2].connections(), 2);
    (wire, honest, thief)
}

/// Lets the second drone send symbols that the station can only keep: of far ahead, and
/// combinations.
fn hoard(wire: &mut Wire, session: SessionId) {
    let payload = [9; limits::SYMBOL_BYTES];
    for step in 0..600_u64 {
        let id = 1 + step * 7 % 4_000;
        let source = Frame::Source(SourceFrame { coder: 0, id, back: id, payload: &payload });
        let first = 1 + step % 512;
        let (repair, count) = (step, 300);
        let repair = RepairFrame { coder: 0, repair, first, count, payload: &payload };
        for frame in [source, Frame::Repair(repair)] {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            let sealed = wire.hosts[1].endpoint.seal_frames(session, PathId(0), &bytes);
            let (source, destination) = (wire.hosts[1].addresses[0], wire.hosts[2].addresses[0]);
            wire.deliver(&Flight { source, destination, bytes: sealed.expect("a session") });
        }
        wire.drain();
        assert!(wire.held(2) <= 3 * limits::SESSION_SHARE, "{} bytes", wire.held(2));
    }
}

#[test]
fn a_peer_that_fills_all_it_can_leaves_the_others_their_share() {
    let (mut wire, honest, thief) = two();
    hoard(&mut wire, thief);
    let endpoint = &wire.hosts[2].endpoint;
    let rejected = endpoint.sessions().filter_map(|(id, _)| endpoint.status(wire.now, id));
    let rejected: Vec<_> = rejected.map(|it| it.rejected.of(Rejection::BeyondBound)).collect();
    assert_eq!(rejected.iter().filter(|count| **count > 0).count(), 1, "{rejected:?}");
    wire.assert_carries(0, honest, 2, SECOND / 4);
    assert!(wire.fill(0, honest, 100_000) > 0);
    let before = wire.hosts[2].delivered.len();
    wire.run_for(2 * SECOND);
    assert!(wire.hosts[2].delivered.len() > before);
}

#[test]
fn a_session_for_which_there_is_no_share_is_refused_until_there_is_one() {
    let (mut wire, ..) = two();
    wire.hosts[2].endpoint.set_memory_bound(2 * limits::SESSION_SHARE);
    wire.add_drone(3, 0);
    let (key, station) = (wire.hosts[3].key, wire.hosts[2].key);
    wire.hosts[2].endpoint.add_peer(key, None);
    wire.connect(3, station);
    wire.run_for(3 * SECOND);
    let refused = wire.hosts[2].endpoint.counters().sessions_without_memory;
    assert!(refused > 0 && wire.hosts[2].endpoint.sessions().count() == 2);
    wire.hosts[2].endpoint.set_memory_bound(3 * limits::SESSION_SHARE);
    wire.run_for(20 * SECOND);
    assert_eq!(wire.hosts[2].endpoint.sessions().count(), 3);
}
