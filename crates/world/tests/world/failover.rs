//! A link dies without a word: what control and data notice of it.

use proto::select::Policy;
use proto::{Duration, Instant, PathId, PathState, Source};

use fulmar_world::{DRONE, Pair, STATION, two_links};

const CONTROL: Source = Source::Declared { channel: 1, policy: Policy::DECLARED };

/// An IPv4 header for UDP, addresses and ports of no meaning, and a number behind it.
fn video(number: u32) -> Vec<u8> {
    let mut packet = vec![0; 1_200];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&1_200_u16.to_be_bytes());
    packet[9] = 17;
    packet[24..26].copy_from_slice(&1_180_u16.to_be_bytes());
    packet[28..32].copy_from_slice(&number.to_be_bytes());
    packet
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[28..32].try_into().expect("four bytes"))
}

#[test]
fn no_control_message_is_late_when_one_of_two_links_dies_at_any_instant() {
    const SURVIVOR_MS: u64 = 35;
    for (seed, dies_ms) in (10_000..10_060).step_by(3).enumerate() {
        let scenario = two_links(
            "delay_ms = 10\nrate_mbps = 20",
            &format!("delay_ms = {SURVIVOR_MS}\nrate_mbps = 10"),
            Some(dies_ms as f64 / 1e3),
        );
        let mut pair = Pair::connected(&scenario, seed as u64 + 1);
        let start = Instant::from_millis(9_500);
        let mut sent = Vec::new();
        for index in 0..100_u32 {
            pair.run_until(start + Duration::from_millis(20) * index);
            sent.push(pair.world.now());
            pair.send(STATION, CONTROL, &index.to_be_bytes()).expect("there is room");
        }
        pair.run_for(Duration::from_secs(1));
        let seen = &pair.seen[DRONE];
        assert_eq!(seen.len(), sent.len(), "seed {}: each once", pair.seed);
        for entry in seen {
            let index = u32::from_be_bytes(entry.delivery.bytes[..].try_into().expect("4 bytes"));
            let delay = entry.at.since(sent[index as usize]);
            let bound = Duration::from_millis(SURVIVOR_MS + 1);
            assert!(delay <= bound, "seed {}: message {index} took {delay:?}", pair.seed);
        }
    }
}

#[test]
fn data_moves_over_within_the_bound_of_the_dead_path() {
    for (seed, dies_ms) in (10_000..10_100).step_by(7).enumerate() {
        let dies = dies_ms as f64 / 1e3;
        let scenario =
            two_links("delay_ms = 10\nrate_mbps = 20", "delay_ms = 35\nrate_mbps = 10", Some(dies));
        let mut pair = Pair::connected(&scenario, seed as u64 + 1);
        let mut sent = Vec::new();
        let mut bound = Duration::ZERO;
        // As much as the window of a path that was idle carries: what is measured is the decision.
        for index in 0..200_u32 {
            pair.run_until(Instant::from_millis(9_000) + Duration::from_millis(10) * index);
            if pair.world.now() < Instant::from_millis(dies_ms) {
                let status = pair.status(DRONE).expect("connected");
                let (srtt, rttvar) = (status.paths[0].srtt, status.paths[0].rttvar);
                let timeout = srtt.unwrap_or_default() + 4 * rttvar.unwrap_or_default();
                bound = (timeout + Duration::from_millis(20)).max(Duration::from_millis(100));
            }
            sent.push(pair.world.now());
            pair.send(DRONE, Source::Tunnel, &video(index)).expect("there is room");
        }
        pair.run_for(Duration::from_secs(1));
        let died = Instant::from_millis(dies_ms);
        let arrived: Vec<_> =
            pair.seen[STATION].iter().map(|s| number(&s.delivery.bytes)).collect();
        for (index, at) in sent.iter().enumerate() {
            let lost = !arrived.contains(&(index as u32));
            let after = at.since(died);
            assert!(!lost || after <= bound, "seed {}: lost {after:?} after the death", pair.seed);
        }
        assert_eq!(pair.path_state(DRONE, PathId(0)), Some(PathState::Suspected));
        assert!(arrived.len() >= 189, "seed {}: {} arrived", pair.seed, arrived.len());
    }
}

#[test]
fn a_silent_path_is_suspected_within_100_ms_at_telemetry_rates() {
    let telemetry = Source::Declared { channel: 2, policy: Policy::TELEMETRY };
    for seed in 1..=10 {
        let died = Instant::from_millis(10_000 + 2 * seed);
        let scenario = two_links(
            "delay_ms = 10\nrate_mbps = 20\nloss = 0.02",
            "delay_ms = 35\nrate_mbps = 4\nloss = 0.01",
            Some(died.as_secs_f64()),
        );
        let mut pair = Pair::connected(&scenario, seed);
        for index in 0..100_u64 {
            pair.run_until(Instant::from_millis(8_500 + 20 * index));
            pair.send(DRONE, telemetry, &[0; 40]).expect("there is room");
        }
        let suspected = pair.events[DRONE].iter().find_map(|(at, event)| match event {
            proto::Event::PathChanged { path: PathId(0), to: PathState::Suspected, .. } => {
                Some(*at)
            }
            _ => None,
        });
        let after = suspected.expect("it is suspected").since(died);
        // The last packet that got through left up to one interval before.
        assert!(after <= Duration::from_millis(100), "seed {seed}: after {after:?}");
    }
}

#[test]
fn random_loss_never_condemns_a_healthy_path() {
    let scenario = two_links(
        "delay_ms = 10\nrate_mbps = 20\nloss = 0.02",
        "delay_ms = 35\nrate_mbps = 4\nloss = 0.02",
        None,
    );
    for seed in 1..=3 {
        let mut pair = Pair::connected(&scenario, seed);
        let start = pair.world.now();
        for index in 0..10_000_u32 {
            pair.run_until(start + Duration::from_millis(20) * index);
            pair.send(STATION, CONTROL, &index.to_be_bytes()).expect("there is room");
        }
        for host in [DRONE, STATION] {
            let status = pair.status(host).expect("connected");
            let suspicions: u64 = status.paths.iter().map(|path| path.suspicions).sum();
            assert_eq!(suspicions, 0, "seed {seed}, host {host}");
        }
    }
}

#[test]
fn a_link_that_stalls_and_releases_comes_back_with_the_round_trip_it_had() {
    let scenario = two_links("delay_ms = 10\nrate_mbps = 20", "delay_ms = 35\nrate_mbps = 4", None)
        + "[[link.outage]]\nstart_s = 10\nseconds = 2\nmode = \"hold\"\n";
    let mut pair = Pair::connected(&scenario, 1);
    for index in 0..600_u32 {
        pair.run_until(Instant::from_millis(8_000) + Duration::from_millis(20) * index);
        pair.send(STATION, CONTROL, &index.to_be_bytes()).expect("there is room");
        if pair.world.now() == Instant::from_millis(11_000) {
            assert_eq!(pair.path_state(STATION, PathId(1)), Some(PathState::Suspected));
        }
    }
    pair.run_for(Duration::from_secs(1));
    let status = pair.status(STATION).expect("connected");
    assert_eq!(status.paths[1].state, PathState::Active);
    let srtt = status.paths[1].srtt.expect("measured");
    assert!(srtt < Duration::from_millis(80), "srtt {srtt:?}");
    assert_eq!(pair.seen[DRONE].len(), 600);
}
