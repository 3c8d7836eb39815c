//! What a flow of constant rate sees of an unstable hop: its throughput second by second, and the
//! distribution of that [ASRAN §3.1].
//!
//! In virtual time, and therefore exact. The same flow in real time is in `emu`.

use netem::{Direction, LinkEnd, Net, Scenario};
use serde_json::{Value, json};
use units::{Duration, Instant};

use crate::report::rounded;
use crate::statistics::percentile;

/// What the paper offered to its network, kbit/s [ASRAN §3.1].
const OFFERED_KBPS: f64 = 1_000.0;
/// Payload of a datagram, bytes: iperf's, which the paper used.
pub(crate) const OFFERED_PAYLOAD: usize = 1_470;
/// From one datagram to the next.
pub(crate) const OFFERED_GAP: Duration = Duration::from_micros(11_760);
/// The same in seconds.
pub(super) const GAP_S: f64 = OFFERED_PAYLOAD as f64 * 8.0 / (OFFERED_KBPS * 1e3);
/// UDP and IP headers, bytes.
const HEADERS: usize = 28;
/// A second counts as full from this share of the offered rate on: half a datagram of rounding.
const FULL: f64 = 0.993;

/// The distribution of the throughput of single seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OfferedCdf {
    /// Share of the seconds in which nothing arrived.
    pub(crate) zero_share: f64,
    /// Share of the seconds in which as much arrived as was offered.
    pub(crate) full_share: f64,
    /// Throughput of each second, kbit/s, ascending.
    sorted_kbps: Vec<f64>,
}

impl OfferedCdf {
    /// Counts the datagrams that arrived in each second.
    pub(crate) fn of(datagrams: &[u64]) -> Self {
        let kbps = |count: &u64| *count as f64 * OFFERED_PAYLOAD as f64 * 8.0 / 1e3;
        let mut sorted_kbps: Vec<f64> = datagrams.iter().map(kbps).collect();
        sorted_kbps.sort_by(f64::total_cmp);
        // A second does not hold a whole number of datagrams: 85 or 86 of them are full.
        let full = OFFERED_KBPS * FULL;
        let share = |fits: &dyn Fn(f64) -> bool| {
            let count = sorted_kbps.iter().filter(|kbps| fits(**kbps)).count();
            count as f64 / sorted_kbps.len().max(1) as f64
        };
        let (zero_share, full_share) = (share(&|kbps| kbps == 0.0), share(&|kbps| kbps >= full));
        Self { zero_share, full_share, sorted_kbps }
    }

    /// Returns the distribution as the paper draws it: throughput, and the share of the seconds
    /// that have no more.
    pub(crate) fn curve(&self) -> Vec<(f64, f64)> {
        let share = |end: usize| end as f64 / self.sorted_kbps.len().max(1) as f64;
        let mut points = Vec::new();
        let mut below = 0;
        for equal in self.sorted_kbps.chunk_by(|one, other| one == other) {
            points.extend([(equal[0], share(below)), (equal[0], share(below + equal.len()))]);
            below += equal.len();
        }
        points
    }

    /// Returns the figures, with the distribution at every tenth.
    pub(crate) fn figures(&self) -> Value {
        let tenth = |i: u32| percentile(&self.sorted_kbps, f64::from(i) / 10.0).unwrap_or(0.0);
        let deciles: Vec<f64> = (1..=10).map(|i| rounded(tenth(i), 1)).collect();
        json!({
            "zero_share": rounded(self.zero_share, 4),
            "full_share": rounded(self.full_share, 4),
            "deciles_kbps": deciles,
        })
    }
}

/// Sends the flow over links of a scenario, one after the other, in virtual time; returns the
/// datagrams that arrived in each second after the first.
///
/// `way` names each link with the direction in which it is crossed.
pub(crate) fn offered_in_the_world(
    scenario: &Scenario,
    way: &[(usize, Direction)],
    seed: u64,
    seconds: usize,
) -> Vec<u64> {
    let mut net = Net::new(scenario, seed);
    let all = (seconds as f64 / GAP_S) as u32;
    let sent = |number: u32| Instant::from_nanos(0) + OFFERED_GAP * number;
    let mut packets: Vec<Instant> = (0..all).map(sent).collect();
    for (link, direction) in way {
        let entry = LinkEnd { link: *link, direction: *direction };
        let mut arrived = Vec::with_capacity(packets.len());
        for at in packets {
            for arrival in net.handle_packet(at, entry, OFFERED_PAYLOAD + HEADERS) {
                arrived.extend(arrival.verdict.deliveries.iter().map(|copy| copy.at));
            }
        }
        arrived.sort();
        packets = arrived;
    }
    let first = packets.first().copied().unwrap_or(Instant::from_nanos(0));
    let mut per_second = vec![0; seconds];
    for at in packets {
        // Arrivals are counted by when they would have been without delay.
        let second = at.since(first) + OFFERED_GAP / 2;
        if let Some(count) = per_second.get_mut(second.as_secs() as usize) {
            *count += 1;
        }
    }
    per_second
}

/// Returns the datagrams that pass a hop which does nothing but fail.
#[cfg(test)]
pub(super) fn second_by_second(outages: &[netem::Outage], seconds: usize) -> Vec<u64> {
    let mut model = netem::LinkModel::default();
    model.outages.extend_from_slice(outages);
    let scenario = Scenario::new("hop", seconds as f64).link("hop", "a", "b", &model);
    offered_in_the_world(&scenario, &[(0, Direction::Up)], 1, seconds)
}

#[cfg(test)]
mod tests {
    use netem::{Outage, OutageMode};

    use super::*;

    #[test]
    fn seconds_are_told_apart() {
        let outage = |start_s: f64, seconds: f64| Outage {
            start: Instant::from_nanos((start_s * 1e9) as u64),
            duration: Duration::from_secs_f64(seconds),
            mode: OutageMode::Drop,
        };
        // One of two whole seconds, one of a moment, in ten.
        let counts = second_by_second(&[outage(1.996, 2.0), outage(6.5, 0.02)], 10);
        let cdf = OfferedCdf::of(&counts);
        assert_eq!((cdf.zero_share, cdf.full_share), (0.2, 0.7), "{counts:?}");
        let curve = cdf.curve();
        let (first, last) = (curve[1], curve[curve.len() - 1]);
        assert_eq!((curve[0], first, last.1), ((0.0, 0.0), (0.0, 0.2), 1.0), "{curve:?}");
        assert!(curve.windows(2).all(|pair| pair[0] <= pair[1]), "{curve:?}");
        let figures = cdf.figures();
        assert_eq!(figures["deciles_kbps"][0], 0.0);
        assert!(figures["deciles_kbps"][9].as_f64().is_some_and(|kbps| kbps > 990.0));
    }
}
