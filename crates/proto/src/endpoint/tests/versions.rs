//! Ends of different versions of the wire: no session, and both know why.

use super::*;
use crate::crypto::OtherVersion;

const SECOND: Duration = Duration::from_secs(1);
const VERSION: u8 = 7;

/// What each end knows of the other's version.
fn known(wire: &Wire) -> [Option<OtherVersion>; 2] {
    let of = |host: usize, other: usize| {
        let endpoint = &wire.hosts[host].endpoint;
        let key = wire.hosts[other].key;
        let peer = endpoint.peers.named(&key).expect("a peer");
        endpoint.other_version(peer)
    };
    [of(0, 1), of(1, 0)]
}

fn said(wire: u8) -> Option<OtherVersion> {
    Some(OtherVersion { wire: Some(wire), release: env!("CARGO_PKG_VERSION").into() })
}

#[test]
fn both_ends_are_told_which_version_the_other_speaks_even_over_lossy_links() {
    for seed in 0..10 {
        let (mut wire, session) = Wire::pair(seed);
        wire.hosts[0].endpoint.wire = WIRE_VERSION + 1;
        wire.loss = 0.3;
        wire.run_for(SECOND * 10);
        assert_eq!(known(&wire), [said(WIRE_VERSION), said(WIRE_VERSION + 1)], "seed {seed}");
        assert_eq!(wire.hosts.iter().map(Host::connections).sum::<usize>(), 0);
        // It is installed anew: all is well, and nothing is said any more.
        wire.hosts[0].endpoint.wire = WIRE_VERSION;
        wire.loss = 0.0;
        wire.run_for(SECOND * 20);
        assert_eq!(known(&wire), [None, None], "seed {seed}");
        wire.assert_carries(0, session, 1, SECOND);
    }
}

#[test]
fn a_responder_that_knows_no_versions_is_known_by_its_silence() {
    let (mut wire, _) = Wire::pair(1);
    wire.hosts[0].endpoint.wire = WIRE_VERSION + 1;
    for _ in 0..1_500 {
        wire.run_for(Duration::from_millis(10));
        wire.flights.retain(|_, flight| flight.bytes[0] != VERSION);
    }
    assert_eq!(known(&wire), [Some(OtherVersion::default()), Some(OtherVersion::default())]);
    // Where it answers at all, it is not called another version for what the links lose.
    let (mut wire, _) = Wire::pair(2);
    wire.loss = 0.5;
    for _ in 0..200 {
        wire.run_for(Duration::from_millis(100));
        assert_eq!(known(&wire), [None, None]);
    }
}

#[test]
fn what_is_forged_or_replayed_says_nothing_and_answers_are_no_longer_than_questions() {
    let (mut wire, _) = Wire::pair(3);
    wire.hosts[0].endpoint.wire = WIRE_VERSION + 1;
    wire.run_for(SECOND);
    let versions = wire.sent(VERSION);
    assert!(versions.len() >= 2 && versions.iter().all(|flight| flight.bytes.len() == 46));
    let from_station = versions.iter().find(|flight| flight.source.port() == 2_000);
    let from_drone = versions.iter().find(|flight| flight.source.port() != 2_000);
    let [from_station, from_drone] =
        [from_station, from_drone].map(|one| one.expect("both").clone());
    // Another pair of hosts with the same keys, of one version: nobody has asked.
    let (mut wire, session) = Wire::pair(4);
    wire.run_for(SECOND);
    for flight in [&from_station, &from_drone] {
        wire.deliver(flight);
        for byte in 0..flight.bytes.len() {
            let mut forged = flight.clone();
            forged.bytes[byte] ^= 1;
            wire.deliver(&forged);
        }
    }
    assert_eq!(known(&wire), [None, None]);
    wire.assert_carries(0, session, 1, SECOND);
}
