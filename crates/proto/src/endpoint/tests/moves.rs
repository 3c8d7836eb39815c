//! The station gets another address while it is spoken to.

use super::*;
use crate::event::PathState;

const SECOND: Duration = Duration::from_secs(1);
const NEW: &str = "192.0.2.9:2000";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// The station's address changes: the old one is nobody's from now on.
fn readdress(wire: &mut Wire, tell: bool) {
    let now = wire.now;
    wire.hosts[1].addresses[0] = address(NEW);
    if tell {
        wire.hosts[1].endpoint.move_local(now, |_, local| {
            (local == address("192.0.2.1:2000").ip()).then_some(address(NEW))
        });
    }
}

fn active(wire: &Wire, session: SessionId) -> usize {
    let status = wire.hosts[0].endpoint.status(wire.now, session).expect("a session");
    let is_there = |path: &&crate::PathStatus| {
        path.state == PathState::Active && path.remote == address(NEW).into()
    };
    status.paths.iter().filter(is_there).count()
}

#[test]
fn a_station_that_moves_is_followed_on_every_path() {
    let (mut wire, session) = Wire::pair(1);
    wire.run_for(2 * SECOND);
    readdress(&mut wire, true);
    wire.run_for(SECOND / 4);
    assert_eq!(active(&wire, session), 2);
    wire.assert_carries(0, session, 1, SECOND / 10);
    // New keys, 120 s later, are asked for where the station is now.
    wire.run_for(130 * SECOND);
    assert!(wire.hosts[0].count(|event| *event == Event::Rekeyed) >= 1);
    assert_eq!(active(&wire, session), 2);
    assert_eq!(wire.hosts[0].connections(), 1);
}

#[test]
fn an_address_that_was_suggested_is_tried_and_taken_when_it_answers() {
    let (mut wire, session) = Wire::pair(2);
    wire.firewall = Some(BTreeSet::new());
    wire.run_for(2 * SECOND);
    readdress(&mut wire, false);
    wire.run_for(SECOND);
    assert_eq!(active(&wire, session), 0, "nothing from there gets through to the drone");
    let now = wire.now;
    let suggest = |wire: &mut Wire, remote: &str| {
        for path in [PathId(0), PathId(1)] {
            wire.hosts[0].endpoint.suggest_remote(now, session, path, address(remote));
        }
    };
    suggest(&mut wire, "192.0.2.77:2000");
    wire.run_for(SECOND);
    suggest(&mut wire, NEW);
    wire.run_for(SECOND / 4);
    assert_eq!(active(&wire, session), 2);
    wire.assert_carries(0, session, 1, SECOND / 10);
}

#[test]
fn handshakes_go_to_an_address_that_was_suggested() {
    let mut wire = Wire::new(3);
    wire.add_drone(1, 0);
    wire.add_station(0);
    wire.hosts[1].addresses[0] = address(NEW);
    let session = wire.introduce();
    wire.run_for(2 * SECOND);
    assert_eq!(wire.hosts[0].connections(), 0);
    let now = wire.now;
    wire.hosts[0].endpoint.suggest_remote(now, session, PathId(1), address(NEW));
    wire.run_for(SECOND);
    assert_eq!(wire.hosts[0].connections(), 1);
    assert_eq!(active(&wire, session), 1);
    wire.assert_carries(0, session, 1, SECOND / 10);
}

#[test]
fn over_a_living_path_the_drone_is_told_where_the_station_is_on_the_other() {
    let mut wire = Wire::new(4);
    wire.firewall = Some(BTreeSet::new());
    wire.add_drone(1, 0);
    let remotes = ["192.0.2.1:2000", "198.51.100.1:2000"];
    wire.hosts.push(Host::new(200, 0, true, &remotes, wire.now));
    let session = wire.introduce_by(&[(0, remotes[0]), (1, remotes[1])]);
    wire.run_for(2 * SECOND);
    readdress(&mut wire, true);
    wire.run_for(SECOND / 4);
    assert_eq!(active(&wire, session), 1);
    let told = Event::PathTold { path: PathId(0), remote: address(NEW).into() };
    assert_eq!(wire.hosts[0].count(|event| *event == told), 1);
    let status = wire.hosts[0].endpoint.status(wire.now, session).expect("a session");
    assert!(status.paths.iter().all(|path| path.state == PathState::Active));
}

#[test]
fn a_station_does_not_follow_what_a_drone_says_of_addresses() {
    let (mut wire, session) = Wire::pair(5);
    wire.run_for(2 * SECOND);
    let mut frames = Vec::new();
    let frame =
        crate::wire::Frame::PathAddress { path: PathId(0), address: address("203.0.113.7:9") };
    frame.encode(&mut frames);
    let sealed = wire.hosts[0].endpoint.seal_frames(session, PathId(0), &frames);
    let bytes = sealed.expect("a session with keys");
    let (source, destination) = (wire.hosts[0].addresses[0], wire.hosts[1].addresses[0]);
    wire.send(Flight { source, destination, bytes });
    wire.run_for(2 * SECOND);
    assert!(wire.log.iter().all(|(_, flight)| flight.destination != address("203.0.113.7:9")));
}
