//! A daemon restarts: delivery is at most once, and what was in flight is reported.

use std::collections::BTreeSet;

use fulmar_proto::select::Policy;
use fulmar_proto::{Duration, Event, Outcome, Source};

use crate::harness::{DRONE, Pair, STATION, two_links};

const COMMAND: Source = Source::Told { channel: 1, policy: Policy::TRANSACTIONAL };

fn links() -> String {
    let first = "delay_ms = 10\nrate_mbps = 10\nloss = 0.1";
    two_links(first, "delay_ms = 35\nrate_mbps = 4\nloss = 0.1", None)
}

/// Sends commands from `from`, restarts `host` in the middle, and checks what the others saw.
fn at_most_once_across_a_restart_of(host: usize, from: usize, seed: u64) {
    let to = 1 - from;
    let mut pair = Pair::connected(&links(), seed);
    let start = pair.world.now();
    let (mut accepted, mut reported) = (BTreeSet::new(), BTreeSet::new());
    let mut lives = 0;
    for message in 0..1_000_u32 {
        pair.run_until(start + Duration::from_millis(20) * message);
        if message == 300 {
            pair.restart(host);
            lives += 1;
        }
        if let Ok(Some(id)) = pair.send(from, COMMAND, &message.to_be_bytes()) {
            accepted.insert((lives, id));
        }
    }
    pair.run_for(Duration::from_secs(10));
    let mut got = BTreeSet::new();
    for entry in &pair.seen[to] {
        assert!(got.insert(entry.delivery.bytes.clone()), "seed {seed}: delivered twice");
    }
    assert_eq!(pair.active_paths(DRONE), 2, "seed {seed}: connected again");
    let sent_late = u32::to_be_bytes(999).to_vec();
    assert!(got.contains(&sent_late), "seed {seed}: the new session delivers");
    for (message, outcome) in pair.outcomes(from) {
        reported.insert(message);
        assert!(outcome != Outcome::Superseded, "seed {seed}: {message:?}");
    }
    if host != from {
        let indeterminate = |o: &(_, Outcome)| o.1 == Outcome::Indeterminate;
        let in_flight = pair.outcomes(from).iter().filter(|o| indeterminate(o)).count();
        assert!(in_flight > 0, "seed {seed}: what was in flight is reported");
        let ended = |e: &(_, Event)| matches!(e.1, Event::Disconnected { .. });
        assert!(pair.events[from].iter().any(ended), "seed {seed}: the old session ended");
    }
}

#[test]
fn restart_of_the_receiving_drone() {
    (1..=3).for_each(|seed| at_most_once_across_a_restart_of(DRONE, STATION, seed));
}

#[test]
fn restart_of_the_receiving_station() {
    (1..=3).for_each(|seed| at_most_once_across_a_restart_of(STATION, DRONE, seed));
}

#[test]
fn restart_of_the_sending_drone() {
    (1..=3).for_each(|seed| at_most_once_across_a_restart_of(DRONE, DRONE, seed));
}

#[test]
fn restart_of_the_sending_station() {
    (1..=3).for_each(|seed| at_most_once_across_a_restart_of(STATION, STATION, seed));
}
