//! Addresses and clocks that change under a session's feet.

use std::net::Ipv4Addr;

use netem::Nat;
use proto::select::Policy;
use proto::{Duration, Event, Instant, InterfaceId, PathError, PathId, Source, Via};

use fulmar_world::{DRONE, Pair, STATION, two_links};

const CONTROL: Source = Source::Declared { channel: 1, policy: Policy::DECLARED };

fn links() -> String {
    two_links("delay_ms = 10\nrate_mbps = 20", "delay_ms = 35\nrate_mbps = 4", None)
}

#[test]
fn a_path_follows_its_carriers_nat() {
    let mut pair = Pair::connected(&links(), 1);
    let start = pair.world.now();
    for message in 0..500_u32 {
        pair.run_until(start + Duration::from_millis(20) * message);
        if message == 200 {
            let nat = Nat { address: Ipv4Addr::new(100, 64, 3, 7), port_shift: 1_000 };
            pair.world.set_nat(DRONE, 1, Some(nat));
        }
        pair.send(DRONE, CONTROL, &message.to_be_bytes()).expect("there is room");
    }
    pair.run_for(Duration::from_secs(1));
    let moved = pair.events[STATION].iter().find_map(|(at, event)| match event {
        Event::PathMoved { path: PathId(1), remote } => Some((*at, *remote)),
        _ => None,
    });
    let Some((at, Via::Udp(remote))) = moved else { panic!("the station follows") };
    assert_eq!(remote.ip(), Ipv4Addr::new(100, 64, 3, 7));
    let after = at.since(start + Duration::from_millis(4_000));
    assert!(after < Duration::from_millis(200), "moved after {after:?}");
    assert_eq!(pair.active_paths(STATION), 2);
    assert_eq!(pair.seen[STATION].len(), 500);
}

#[test]
fn a_clock_that_steps_neither_loses_nor_stales_control() {
    for by_ms in [-5_000, 5_000, -60_000] {
        let scenario = links().replace(
            "clock_skew_ppm = 15\n",
            &format!("clock_skew_ppm = 15\n[[host.clock_step]]\nat_s = 10\nby_ms = {by_ms}\n"),
        );
        let mut pair = Pair::connected(&scenario, 1);
        for message in 0..1_000_u32 {
            pair.run_until(Instant::from_millis(8_000) + Duration::from_millis(20) * message);
            let _ = pair.send(DRONE, CONTROL, &message.to_be_bytes());
            let _ = pair.send(STATION, CONTROL, &message.to_be_bytes());
        }
        pair.run_for(Duration::from_secs(5));
        for host in [DRONE, STATION] {
            let late = |entry: &&fulmar_world::Seen| entry.at > Instant::from_millis(14_000);
            let seen = pair.seen[host].iter().filter(late).count();
            assert!(seen >= 690, "step {by_ms} ms, host {host}: {seen} of 700 after 4 s");
            let all = pair.seen[host].len();
            assert!(all > 780, "step {by_ms} ms, host {host}: {all} of 1,000 in all");
        }
    }
}

#[test]
fn what_was_overheard_on_a_path_that_was_given_up_does_nothing() {
    let bulk = Source::Declared { channel: 1, policy: Policy::BULK };
    let mut pair = Pair::connected(&links(), 1);
    pair.world.host_mut(STATION).overheard = Some(Vec::new());
    for message in 0..100_u32 {
        pair.send(DRONE, bulk, &message.to_be_bytes()).expect("there is room");
        pair.run_for(Duration::from_millis(10));
    }
    let overheard = pair.world.host_mut(STATION).overheard.take().expect("it was listening");
    let now = pair.world.host_now(DRONE);
    let drone = pair.world.host_mut(DRONE);
    let session = drone.driver.session.expect("connected");
    drone.driver.endpoint.remove_path(now, session, PathId(0));
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.path_state(STATION, PathId(0)), None, "the station was told");

    let delivered = pair.seen[STATION].len();
    let now = pair.world.host_now(STATION);
    for (received, mut bytes) in overheard {
        pair.world.host_mut(STATION).driver.endpoint.handle_datagram(now, &received, &mut bytes);
    }
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.seen[STATION].len(), delivered, "nothing is delivered again");
    assert_eq!(pair.path_state(STATION, PathId(0)), None, "the path stays closed");
    assert_eq!(pair.active_paths(STATION), 1);
}

#[test]
fn numbers_of_paths_are_used_once() {
    let mut pair = Pair::connected(&links(), 1);
    let now = pair.world.host_now(DRONE);
    let drone = pair.world.host_mut(DRONE);
    let session = drone.driver.session.expect("connected");
    let mut add = || {
        let remote = Via::Udp(([10, 0, 0, 1], 1).into());
        let added = drone.driver.endpoint.add_path(now, session, InterfaceId(0), remote);
        added.inspect(|path| drone.driver.endpoint.remove_path(now, session, *path))
    };
    let numbers: Vec<_> = std::iter::from_fn(|| add().ok()).collect();
    assert_eq!(numbers, (2..=255).map(PathId).collect::<Vec<_>>());
    assert_eq!(add(), Err(PathError::TooMany));
    assert_eq!(drone.driver.endpoint.path_numbers_left(session), 0);
}
