//! Links thinner than what is to be said: control is thinned, not piled up [specs/paths.md §6] (rules 9, 10).

use fulmar_proto::select::Policy;
use fulmar_proto::{Duration, Source};

use crate::harness::{DRONE, Pair, STATION, two_links};

const COMMAND: Source = Source::Told { channel: 1, policy: Policy::TRANSACTIONAL };
/// Messages each way, 50 a second.
const MESSAGES: u32 = 1_500;
/// Bytes of each.
const BYTES: usize = 100;

/// Sends both ways for 30 s over two links of a rate; returns how many were lost, and how many of the
/// delivered ones came later than 100 ms, of both ways together.
fn lost_and_late(kbps: u32) -> (usize, usize) {
    let link = |delay| {
        let rate = f64::from(kbps) / 1e3;
        format!("delay_ms = {delay}\nrate_mbps = {rate}\nqueue_bytes = 16_000")
    };
    let mut pair = Pair::connected(&two_links(&link(30), &link(40), None), 1);
    let start = pair.world.now();
    let mut sent = Vec::new();
    for message in 0..MESSAGES {
        pair.run_until(start + Duration::from_millis(20) * message);
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&message.to_be_bytes());
        for host in [STATION, DRONE] {
            pair.send(host, COMMAND, &bytes).expect("there is room");
        }
        sent.push(pair.world.now());
    }
    pair.run_for(Duration::from_secs(4));
    let (mut lost, mut late) = (0, 0);
    for host in [STATION, DRONE] {
        lost += MESSAGES as usize - pair.seen[host].len();
        for entry in &pair.seen[host] {
            let index = u32::from_be_bytes(entry.delivery.bytes[..4].try_into().expect("4 bytes"));
            late += usize::from(entry.at.since(sent[index as usize]) > Duration::from_millis(100));
        }
    }
    (lost, late)
}

#[test]
fn links_that_carry_one_copy_and_not_two_lose_nothing() {
    for kbps in [48, 64, 96, 128, 256] {
        let (lost, late) = lost_and_late(kbps);
        assert_eq!(lost, 0, "{kbps} kbit/s");
        assert!(kbps < 64 || late <= 150, "{kbps} kbit/s: {late} late");
        assert!(kbps < 96 || late == 0, "{kbps} kbit/s: {late} late");
    }
}
