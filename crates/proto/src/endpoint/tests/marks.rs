//! Networks that do something about marks: drop what is marked as control, or write marks of their
//! own.

use super::*;
use crate::event::PathState;
use crate::status::PathStatus;

const SECOND: Duration = Duration::from_secs(1);

/// Returns what both ends say of their paths.
fn paths(wire: &Wire) -> Vec<Vec<PathStatus>> {
    let of = |host: &Host| {
        let (session, _) = host.endpoint.sessions().next()?;
        let mut paths = host.endpoint.status(wire.now, session)?.paths;
        paths.sort_by_key(|path| path.id);
        Some(paths)
    };
    wire.hosts.iter().filter_map(of).collect()
}

/// Lets both ends talk for a while, fifty messages a second each way; returns how many did not
/// arrive within a second.
fn talk(wire: &mut Wire, session: SessionId, time: Duration) -> usize {
    let end = wire.now + time;
    wire.hosts.iter_mut().for_each(|host| host.delivered.clear());
    let mut sent = 0;
    while wire.now < end {
        let declared = Source::Declared { channel: 1, policy: Policy::DECLARED };
        for host in 0..2 {
            let (now, text) = (wire.now, format!("{sent} of {host}"));
            let taken = wire.hosts[host].endpoint.send(now, session, declared, text.as_bytes());
            assert!(taken.is_ok(), "{taken:?}");
            sent += 1;
        }
        wire.run_for(SECOND / 50);
    }
    wire.run_for(SECOND);
    sent - wire.hosts.iter().map(|host| host.delivered.len()).sum::<usize>()
}

/// Joins a drone of one link and a station.
fn one_link(seed: u64, drops_marked: &[usize]) -> (Wire, SessionId) {
    let mut wire = Wire::new(seed);
    wire.drops_marked = drops_marked.to_vec();
    wire.add_drone(1, 0);
    wire.add_station(0);
    let session = wire.introduce_by(&[(0, STATION)]);
    (wire, session)
}

#[test]
fn a_network_that_drops_what_is_marked_carries_a_session_and_control_unmarked() {
    let (mut wire, session) = one_link(1, &[0, 1]);
    wire.run_for(3 * SECOND);
    assert_eq!(wire.hosts[0].connections(), 1, "a handshake goes unmarked in turn");
    talk(&mut wire, session, 3 * SECOND);
    for path in paths(&wire).concat() {
        assert!(path.marks_dropped && path.state == PathState::Active, "{path:?}");
    }
    let before = wire.marked.len();
    assert_eq!(talk(&mut wire, session, 30 * SECOND), 0);
    assert_eq!(wire.marked.len(), before, "nothing is marked there any more");
    for path in paths(&wire).concat() {
        assert_eq!((path.loss < 0.01, path.loss_in < 0.01), (true, true), "{path:?}");
    }
    // New keys, too.
    wire.run_for(130 * SECOND);
    assert!(wire.hosts[0].count(|event| *event == Event::Rekeyed) >= 1);
    // One day the network takes them again: that is tried once a minute.
    wire.drops_marked.clear();
    wire.run_for(70 * SECOND);
    assert!(paths(&wire).concat().iter().all(|path| !path.marks_dropped));
    let before = wire.marked.len();
    assert_eq!(talk(&mut wire, session, SECOND), 0);
    assert!(wire.marked.len() >= before + 100);
}

#[test]
fn one_direction_that_drops_what_is_marked_is_used_unmarked_and_the_other_one_marked() {
    for from in 0..2 {
        let (mut wire, session) = one_link(4, &[from]);
        wire.run_for(3 * SECOND);
        assert_eq!(wire.hosts[0].connections(), 1);
        talk(&mut wire, session, 3 * SECOND);
        let dropped: Vec<bool> = paths(&wire).concat().iter().map(|it| it.marks_dropped).collect();
        assert_eq!(dropped, [from == 0, from == 1]);
        assert_eq!(talk(&mut wire, session, 10 * SECOND), 0);
    }
}

#[test]
fn a_link_that_begins_to_drop_what_is_marked_is_used_unmarked_and_the_other_one_marked() {
    let (mut wire, session) = Wire::pair(2);
    wire.run_for(SECOND);
    assert_eq!(talk(&mut wire, session, 3 * SECOND), 0);
    assert!(paths(&wire).concat().iter().all(|path| !path.marks_dropped));
    wire.drops_marked = vec![0, 1];
    assert_eq!(talk(&mut wire, session, 5 * SECOND), 0);
    for end in paths(&wire) {
        let dropped: Vec<bool> = end.iter().map(|path| path.marks_dropped).collect();
        assert_eq!(dropped, [true, false]);
        assert!(end.iter().all(|path| path.state == PathState::Active), "{end:?}");
    }
}

#[test]
fn a_mark_of_congestion_that_nobody_asked_for_means_nothing() {
    let windows = [0, 3].map(|ecn| {
        let (mut wire, session) = Wire::pair(3);
        wire.ecn = ecn;
        for _ in 0..2_000 {
            let now = wire.now;
            for host in 0..2 {
                let _ = wire.hosts[host].endpoint.send(now, session, Source::Tunnel, &udp(1_000));
            }
            wire.run_for(SECOND / 500);
        }
        paths(&wire).concat().iter().map(|path| (path.cwnd, path.loss)).collect::<Vec<_>>()
    });
    assert_eq!(windows[0], windows[1]);
}

/// Makes an IPv4 packet with a UDP datagram.
fn udp(bytes: u16) -> Vec<u8> {
    let mut packet = vec![0; bytes.into()];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&bytes.to_be_bytes());
    packet[8..10].copy_from_slice(&[64, 17]);
    packet[12..20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
    packet[20..24].copy_from_slice(&[0x13, 0x88, 0x13, 0x89]);
    packet[24..26].copy_from_slice(&(bytes - 20).to_be_bytes());
    packet
}
