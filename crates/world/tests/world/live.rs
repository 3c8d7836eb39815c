//! Set-points and stick input: the newest wins, and nothing stale is ever delivered.

use proto::select::Policy;
use proto::{Duration, Source};

use fulmar_world::{DRONE, Pair, STATION, two_links};

#[test]
fn never_an_older_one_after_a_newer_one_and_never_one_beyond_its_maximum_age() {
    const MESSAGES: u32 = 100_000;
    let live = Source::Declared { channel: 1, policy: Policy::LIVE };
    let scenario = two_links(
        "delay_ms = 20\njitter_ms = 15\njitter_shape = \"normal\"\nkeep_order = false\nloss = 0.1",
        "delay_ms = 400\njitter_ms = 100\nkeep_order = false\nloss = 0.1\nduplicate = 0.05",
        None,
    );
    let mut pair = Pair::connected(&scenario, 1);
    let start = pair.world.now();
    let mut sent = Vec::new();
    for index in 0..MESSAGES {
        pair.run_until(start + Duration::from_millis(10) * index);
        sent.push(pair.world.now());
        pair.send(STATION, live, &index.to_be_bytes()).expect("there is room");
    }
    pair.run_for(Duration::from_secs(2));
    let mut newest = None;
    for entry in &pair.seen[DRONE] {
        let index = u32::from_be_bytes(entry.delivery.bytes[..].try_into().expect("4 bytes"));
        assert!(newest.is_none_or(|newest| index > newest), "{index} after {newest:?}");
        newest = Some(index);
        let age = entry.at.since(sent[index as usize]);
        assert!(age <= Policy::LIVE.ttl, "message {index} came at the age of {age:?}");
    }
    let share = pair.seen[DRONE].len() as f64 / f64::from(MESSAGES);
    assert!(share > 0.5, "only {share} were delivered");
}

/// Two links of 20 and 35 ms, and 50 messages a second each way: every datagram carries a message,
/// and with it the acknowledgement of what came. Seen to fail where each is acknowledged at once:
/// then there are twice as many.
#[test]
fn acknowledgements_of_control_that_leaves_on_every_path_ride_in_its_datagrams() {
    const MESSAGES: u64 = 3_000;
    let scenario =
        two_links("delay_ms = 20\nrate_mbps = 20", "delay_ms = 35\nrate_mbps = 10", None);
    let mut pair = Pair::connected(&scenario, 1);
    pair.run_for(Duration::from_secs(2));
    let datagrams = |pair: &Pair, host| -> u64 {
        let status = pair.status(host).expect("connected");
        status.paths.iter().map(|path| path.sent.0).sum()
    };
    let before = [STATION, DRONE].map(|host| datagrams(&pair, host));
    let start = pair.world.now();
    for index in 0..MESSAGES {
        pair.run_until(start + Duration::from_micros(20_003) * index as u32);
        for host in [STATION, DRONE] {
            let command = Source::Declared { channel: 1, policy: Policy::DECLARED };
            pair.send(host, command, &[0; 100]).expect("there is room");
        }
    }
    pair.run_for(Duration::from_secs(1));
    for (host, before) in [STATION, DRONE].into_iter().zip(before) {
        let sent = datagrams(&pair, host) - before;
        assert!(sent <= 2 * MESSAGES + MESSAGES / 20, "{sent} datagrams for {MESSAGES} messages");
    }
}
