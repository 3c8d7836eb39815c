//! Commands: exactly once, in order, within their time to live, and every end is reported.

use std::collections::BTreeMap;

use proto::select::Policy;
use proto::{Duration, MessageId, Outcome, Source};

use fulmar_world::{DRONE, Pair, STATION, two_links};

const COMMAND: Source = Source::Declared { channel: 1, policy: Policy::TRANSACTIONAL };

fn index(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("4 bytes"))
}

#[test]
fn exactly_once_and_in_order_through_loss_duplication_and_reordering() {
    const MESSAGES: u32 = 5_000;
    for seed in 1..=3 {
        let rough = "delay_ms = 20\njitter_ms = 15\nkeep_order = false\nloss = 0.25\n\
                     duplicate = 0.1\ncorrupt = 0.02\nrate_mbps = 10";
        let slow = "delay_ms = 60\njitter_ms = 40\nkeep_order = false\nloss = 0.3\nduplicate = 0.1";
        let mut pair = Pair::connected(&two_links(rough, slow, None), seed);
        let start = pair.world.now();
        let mut ids = BTreeMap::new();
        let mut sent = Vec::new();
        for message in 0..MESSAGES {
            pair.run_until(start + Duration::from_millis(20) * message);
            let id = pair.send(STATION, COMMAND, &message.to_be_bytes()).expect("there is room");
            ids.insert(id.expect("it is reliable"), message);
            sent.push(pair.world.now());
        }
        pair.run_for(Duration::from_secs(5));
        let got: Vec<u32> = pair.seen[DRONE].iter().map(|s| index(&s.delivery.bytes)).collect();
        assert!(got.windows(2).all(|two| two[0] < two[1]), "seed {seed}: in order, once");
        for entry in &pair.seen[DRONE] {
            let age = entry.at.since(sent[index(&entry.delivery.bytes) as usize]);
            assert!(age <= Policy::TRANSACTIONAL.ttl, "seed {seed}: delivered after {age:?}");
        }
        assert_outcomes(&pair, &ids, &got);
        assert_eq!(got.len() as u32, MESSAGES, "seed {seed}: none expires at this loss");
    }
}

#[test]
fn nothing_stale_is_delivered_after_an_outage_of_all_links_and_every_expiry_is_reported() {
    for (seed, mode) in [(1, "drop"), (2, "hold"), (3, "drop"), (4, "hold")] {
        let dead = format!("[[link.outage]]\nstart_s = 10\nseconds = 30\nmode = \"{mode}\"\n");
        let link = |delay| format!("delay_ms = {delay}\nrate_mbps = 10\nloss = 0.02\n{dead}");
        let mut pair = Pair::connected(&two_links(&link(10), &link(35), None), seed);
        let start = pair.world.now();
        let (mut ids, mut sent) = (BTreeMap::new(), Vec::new());
        for message in 0..500_u32 {
            pair.run_until(start + Duration::from_millis(100) * message);
            let id = pair.send(STATION, COMMAND, &message.to_be_bytes()).expect("there is room");
            ids.insert(id.expect("it is reliable"), message);
            sent.push(pair.world.now());
        }
        pair.run_for(Duration::from_secs(10));
        let got: Vec<u32> = pair.seen[DRONE].iter().map(|s| index(&s.delivery.bytes)).collect();
        for entry in &pair.seen[DRONE] {
            let age = entry.at.since(sent[index(&entry.delivery.bytes) as usize]);
            assert!(age <= Policy::TRANSACTIONAL.ttl, "seed {seed}: stale by {age:?}");
        }
        assert!(got.windows(2).all(|two| two[0] < two[1]), "seed {seed}: in order, once");
        assert_outcomes(&pair, &ids, &got);
        let expired = pair.outcomes(STATION).iter().filter(|o| o.1 == Outcome::Expired).count();
        assert!((250..=305).contains(&expired), "seed {seed}, {mode}: {expired} expired");
        let after = got.iter().filter(|&&message| sent[message as usize].as_secs_f64() > 41.0);
        let late = sent.iter().filter(|at| at.as_secs_f64() > 41.0).count();
        assert_eq!(after.count(), late, "seed {seed}, {mode}: all is well a second later");
    }
}

/// Every message has exactly one outcome, and none that was reported expired was delivered.
fn assert_outcomes(pair: &Pair, ids: &BTreeMap<MessageId, u32>, got: &[u32]) {
    let outcomes = pair.outcomes(STATION);
    let told: BTreeMap<_, _> = outcomes.iter().copied().collect();
    assert_eq!(outcomes.len(), ids.len(), "seed {}: one outcome each", pair.seed);
    assert_eq!(told.len(), ids.len(), "seed {}: one outcome each", pair.seed);
    for (id, message) in ids {
        let delivered = got.contains(message);
        match told[id] {
            Outcome::Delivered => assert!(delivered, "seed {}: {message}", pair.seed),
            Outcome::Expired | Outcome::Indeterminate => {}
            Outcome::Superseded => panic!("seed {}: {message} superseded", pair.seed),
        }
    }
}
