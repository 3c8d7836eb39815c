//! A peer whose session the station ends: its key is removed while it flies, or it cheats.

use super::*;

fn ended(host: &Host) -> Vec<&'static str> {
    let reason = |(_, event): &(SessionId, Event)| match event {
        Event::Disconnected { reason } => Some(*reason),
        _ => None,
    };
    host.events.iter().filter_map(reason).collect()
}

fn peer_at_station(wire: &Wire) -> PeerId {
    wire.hosts[1].endpoint.sessions().next().expect("a session").1
}

#[test]
fn a_revoked_peers_session_ends_at_once_and_both_ends_say_why() {
    let (mut wire, session) = Wire::pair(1);
    wire.run_for(Duration::from_secs(2));
    let peer = peer_at_station(&wire);
    let now = wire.now;
    wire.hosts[1].endpoint.remove_peer(now, peer);
    wire.run_for(Duration::from_millis(100));
    assert_eq!(ended(&wire.hosts[1]), ["its key was removed here"]);
    assert!(ended(&wire.hosts[0])[0].contains("removed there"), "{:?}", ended(&wire.hosts[0]));
    assert_eq!(wire.hosts[1].endpoint.sessions().count(), 0);

    // It asks on, is told that nobody knows it, and nothing of it gets in.
    wire.run_for(Duration::from_secs(30));
    assert!(wire.hosts[0].endpoint.is_refused(session));
    assert_eq!((wire.hosts[0].connections(), wire.hosts[1].connections()), (1, 1));
    assert_eq!(ended(&wire.hosts[0]).len(), 1);

    // Known again, it is back.
    let key = wire.hosts[0].key;
    wire.hosts[1].endpoint.add_peer(key, None);
    wire.run_for(Duration::from_secs(2));
    assert_eq!((wire.hosts[0].connections(), wire.hosts[1].connections()), (2, 2));
    wire.assert_carries(0, session, 1, Duration::from_millis(100));
}

#[test]
fn what_a_revoked_peer_had_asked_for_is_not_answered() {
    let (mut wire, _) = Wire::pair(2);
    let peer = PeerId(0);
    while wire.sent(RESPONSE).is_empty() {
        wire.run_for(Duration::from_millis(1));
    }
    let now = wire.now;
    wire.hosts[1].endpoint.remove_peer(now, peer);
    wire.run_for(Duration::from_secs(10));
    assert_eq!(wire.hosts[1].connections(), 0, "the keys that waited are gone");
    assert_eq!(wire.hosts[1].endpoint.sessions().count(), 0);
}

#[test]
fn other_peers_do_not_notice() {
    let mut wire = Wire::new(3);
    wire.add_drone(1, 0);
    wire.add_drone(2, 0);
    wire.add_station(0);
    let station = wire.hosts[2].key;
    for drone in [0, 1] {
        let key = wire.hosts[drone].key;
        wire.hosts[2].endpoint.add_peer(key, None);
        wire.connect(drone, station);
    }
    wire.run_for(Duration::from_secs(2));
    let now = wire.now;
    wire.hosts[2].endpoint.remove_peer(now, PeerId(0));
    wire.run_for(Duration::from_secs(5));
    assert_eq!((ended(&wire.hosts[0]).len(), ended(&wire.hosts[1]).len()), (1, 0));
    assert_eq!(wire.hosts[1].connections(), 1);
}

#[test]
fn a_peer_that_acknowledges_what_was_never_sent_loses_its_session() {
    let (mut wire, session) = Wire::pair(4);
    wire.run_for(Duration::from_secs(1));
    let bulk = Source::Declared { channel: 1, policy: Policy::BULK };
    let theirs = wire.hosts[1].endpoint.sessions().next().expect("a session").0;
    for _ in 0..2_500 {
        let now = wire.now;
        wire.hosts[1].endpoint.send(now, theirs, bulk, &[0; 1_000]).expect("there is room");
        wire.run_for(Duration::from_millis(2));
    }
    assert!(ended(&wire.hosts[1]).is_empty(), "an honest peer is not taken for another");
    for path in [PathId(0), PathId(1)] {
        let status = wire.hosts[1].endpoint.status(wire.now, theirs).expect("a session");
        let sent = status.paths.iter().find(|at| at.id == path).expect("a path").sent.0;
        let ack = crate::wire::AckFrame {
            path,
            ranges: crate::wire::AckRanges::new(0..=sent - 1),
            received_at_us: wire.now.as_micros(),
            delay_us: 0,
            ecn_ce: 0,
        };
        let mut frames = Vec::new();
        crate::wire::Frame::Ack(ack).encode(&mut frames);
        let sealed = wire.hosts[0].endpoint.seal_frames(session, path, &frames);
        let interface = usize::from(path.0);
        let source = wire.hosts[0].addresses[interface];
        let destination = wire.hosts[1].addresses[0];
        wire.send(Flight { source, destination, bytes: sealed.expect("keys") });
    }
    wire.run_for(Duration::from_millis(100));
    assert_eq!(ended(&wire.hosts[1]), ["the peer acknowledges what was never sent"]);
}
