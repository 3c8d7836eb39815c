//! What counts as loss of a path, at both ends, and what does not.

use super::*;
use crate::status::PathStatus;

/// An address that never answers.
const DEAD: &str = "198.51.100.7:2000";
const SECOND: Duration = Duration::from_secs(1);

/// What a packet number that is left out on purpose counts for, among 256 packets, and among those
/// of an idle path.
const LEFT_OUT: f64 = 1.0 / 250.0;
const LEFT_OUT_IDLE: f64 = 1.0 / 25.0;

/// The first interface of the drone.
const FIRST: &str = "10.0.1.1:1000";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Returns what both ends say of the path over the drone's first interface.
fn first_path(wire: &Wire) -> Vec<PathStatus> {
    let of = |host: &Host| {
        let (session, _) = host.endpoint.sessions().next()?;
        let status = host.endpoint.status(wire.now, session)?;
        status.paths.into_iter().find(|path| path.id == PathId(0))
    };
    wire.hosts.iter().filter_map(of).collect()
}

/// Lets time pass; returns the largest loss that either end saw meanwhile.
fn worst(wire: &mut Wire, time: Duration) -> f64 {
    let end = wire.now + time;
    let mut worst = 0.0_f64;
    while wire.now < end {
        wire.run_for(SECOND / 10);
        let lost = first_path(wire).into_iter().map(|path| path.loss.max(path.loss_in));
        worst = lost.fold(worst, f64::max);
    }
    worst
}

/// Lets both ends talk for a while, fifty messages a second each way.
fn talk(wire: &mut Wire, session: SessionId, time: Duration) {
    let end = wire.now + time;
    while wire.now < end {
        let declared = Source::Declared { channel: 1, policy: Policy::DECLARED };
        for host in 0..2 {
            let now = wire.now;
            let _ = wire.hosts[host].endpoint.send(now, session, declared, &[host as u8; 50]);
        }
        wire.run_for(SECOND / 50);
    }
}

#[test]
fn probes_that_are_longer_than_a_perfect_link_carries_are_no_loss_of_it() {
    for longest in [1_252, 1_300, 1_352, 1_392, 1_440] {
        let (mut wire, _) = Wire::pair(longest as u64);
        wire.longest.insert(address(FIRST), longest);
        assert_eq!(worst(&mut wire, 70 * SECOND), 0.0, "idle, {longest} bytes");
        let lost: Vec<u64> = first_path(&wire).iter().map(|path| path.lost).collect();
        assert_eq!(lost, [0, 0], "{longest} bytes");
        let dropped = wire.log.iter().filter(|(_, flight)| flight.bytes.len() > longest).count();
        assert!(dropped >= 3, "{dropped} probes");
        // The search begins again.
        let later = worst(&mut wire, 300 * SECOND);
        assert!(later <= LEFT_OUT_IDLE, "later, {longest} bytes: {later}");
    }
}

#[test]
fn probes_that_vanish_beside_traffic_are_no_loss_either() {
    let (mut wire, session) = Wire::pair(7);
    wire.longest.insert(address(FIRST), 1_300);
    for _ in 0..100 {
        talk(&mut wire, session, SECOND / 10);
        for path in first_path(&wire) {
            assert!(path.loss == 0.0 && path.loss_in <= LEFT_OUT, "{path:?}");
        }
    }
}

#[test]
fn what_goes_to_an_address_that_never_answers_is_no_loss_of_the_one_that_does() {
    let mut wire = Wire::new(3);
    wire.add_drone(1, 0);
    wire.add_station(0);
    let session = wire.introduce_by(&[(0, DEAD), (1, STATION)]);
    assert_eq!(worst(&mut wire, 30 * SECOND), 0.0, "before");
    let now = wire.now;
    wire.hosts[0].endpoint.suggest_remote(now, session, PathId(0), address("192.0.2.1:2000"));
    assert_eq!(worst(&mut wire, 60 * SECOND), 0.0, "after");
    assert!(first_path(&wire).iter().all(|path| path.acked > 10), "{:?}", first_path(&wire));
    assert!(first_path(&wire).iter().all(|path| path.lost == 0), "{:?}", first_path(&wire));
    // Another one that does not answer either is tried on the path that works.
    let now = wire.now;
    wire.hosts[0].endpoint.suggest_remote(now, session, PathId(0), address(DEAD));
    assert_eq!(worst(&mut wire, 30 * SECOND), 0.0, "beside what works");
}

#[test]
fn what_was_under_way_to_an_address_that_is_left_is_no_loss_of_the_new_one() {
    let (mut wire, session) = Wire::pair(5);
    talk(&mut wire, session, 5 * SECOND);
    // A carrier's translator changes its mind.
    wire.hosts[0].addresses[0] = address("10.0.1.9:4000");
    talk(&mut wire, session, SECOND / 5);
    for _ in 0..50 {
        talk(&mut wire, session, SECOND / 10);
        for path in first_path(&wire) {
            assert!(path.loss == 0.0 && path.loss_in <= LEFT_OUT, "{path:?}");
        }
    }
}

#[test]
fn what_an_interface_that_went_had_under_way_is_no_loss() {
    let (mut wire, session) = Wire::pair(6);
    talk(&mut wire, session, 5 * SECOND);
    for present in [false, true] {
        let now = wire.now;
        wire.delays.insert(address(FIRST), present.then_some(Duration::from_millis(20)));
        wire.hosts[0].endpoint.set_path_present(now, session, PathId(0), present);
        talk(&mut wire, session, SECOND / 5);
    }
    talk(&mut wire, session, SECOND);
    let drone = &first_path(&wire)[0];
    assert_eq!((drone.state, drone.loss), (crate::event::PathState::Active, 0.0), "{drone:?}");
    // The drone's packets did not leave; its station's were lost.
    let station = &first_path(&wire)[1];
    assert_eq!(station.loss_in, 0.0, "{station:?}");
}

#[test]
fn what_the_kernel_refused_is_no_loss() {
    let (mut wire, session) = Wire::pair(8);
    talk(&mut wire, session, 2 * SECOND);
    wire.refuses_every = Some(5);
    talk(&mut wire, session, 5 * SECOND);
    for path in first_path(&wire) {
        assert_eq!((path.loss, path.loss_in), (0.0, 0.0), "{path:?}");
    }
}

#[test]
fn what_a_path_really_loses_is_seen_and_an_idle_one_forgets_it() {
    let (mut wire, session) = Wire::pair(9);
    wire.loss = 0.15;
    talk(&mut wire, session, 20 * SECOND);
    for path in first_path(&wire) {
        assert!(path.loss > 0.08 && path.loss_in > 0.08, "{path:?}");
    }
    wire.loss = 0.0;
    wire.run_for(40 * SECOND);
    for path in first_path(&wire) {
        assert!(path.loss < 0.05 && path.loss_in < 0.05, "{path:?}");
    }
    wire.run_for(30 * SECOND);
    for path in first_path(&wire) {
        assert!(path.loss < 0.005 && path.loss_in < 0.005, "{path:?}");
    }
}
