//! How long packets waited for their links, for runs that measure queues.
//!
//! The model knows each packet's wait when it decides the packet's fate; here the waits are summed
//! up.

use hdrhistogram::Histogram;
use netem::{Arrival, LinkEnd};
use serde::Serialize;
use units::{Duration, Instant};

use crate::audit::{lateness_histogram, record};

/// Says which packets' waits are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueWatch {
    /// Those that enter from this time of the scenario on.
    pub from: Duration,
    /// Those of at least this many bytes, IP header included.
    pub at_least_bytes: usize,
}

/// How long the packets that arrived waited for a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QueueDelay {
    /// The mean, ms; none where nothing arrived.
    pub mean_ms: Option<f64>,
    /// The 95th percentile, ms, to three digits.
    pub p95_ms: Option<f64>,
}

/// The waits of a run in progress, for each receiver of each end of each link.
#[derive(Clone, Debug)]
pub(crate) struct QueueDelays {
    watch: Option<QueueWatch>,
    links: Vec<Waits>,
}

#[derive(Clone, Debug)]
struct Waits {
    entry: LinkEnd,
    host: usize,
    total: Duration,
    histogram: Histogram<u64>,
}

impl QueueDelays {
    /// Makes an empty record of what `watch` asks for.
    pub(crate) fn new(watch: Option<QueueWatch>) -> Self {
        Self { watch, links: Vec::new() }
    }

    /// Forgets what was recorded.
    pub(crate) fn clear(&mut self) {
        self.links.clear();
    }

    /// Records what becomes of a packet of `len` bytes that entered at `at`.
    pub(crate) fn record(&mut self, at: Instant, entry: LinkEnd, len: usize, arrival: &Arrival) {
        let watched = self.watch.is_some_and(|watch| {
            at.since(Instant::ZERO) >= watch.from && len >= watch.at_least_bytes
        });
        if !watched || arrival.verdict.dropped.is_some() {
            return;
        }
        let (host, waited) = (arrival.host, arrival.waited);
        let found = self.links.iter().position(|one| (one.entry, one.host) == (entry, host));
        let index = found.unwrap_or_else(|| {
            let histogram = lateness_histogram();
            self.links.push(Waits { entry, host, total: Duration::ZERO, histogram });
            self.links.len() - 1
        });
        let waits = &mut self.links[index];
        waits.total += waited;
        record(&mut waits.histogram, waited);
    }

    /// Sums up for one receiver of one end; none where nobody asked.
    pub(crate) fn of(&self, entry: LinkEnd, host: usize) -> Option<QueueDelay> {
        self.watch?;
        let found = self.links.iter().find(|one| (one.entry, one.host) == (entry, host));
        Some(found.map_or_else(QueueDelay::default, |waits| QueueDelay {
            mean_ms: Some(waits.total.as_secs_f64() * 1e3 / waits.histogram.len() as f64),
            p95_ms: Some(waits.histogram.value_at_quantile(0.95) as f64 / 1e6),
        }))
    }
}

#[cfg(test)]
mod tests {
    use netem::{Direction, LinkModel, LinkRate, Net, Scenario};
    use units::Rate;

    use super::*;

    #[test]
    fn waits_are_those_of_the_packets_that_were_asked_for() {
        // 1,500 bytes take 2 ms.
        let rate = LinkRate::Constant(Rate::from_mbps(6.0));
        let model = LinkModel { rate, ..LinkModel::default() };
        let mut net = Net::new(&Scenario::new("s", 9.0).link("l", "a", "b", &model), 1);
        let watch = QueueWatch { from: Duration::from_secs(1), at_least_bytes: 200 };
        let mut delays = QueueDelays::new(Some(watch));
        let entry = LinkEnd { link: 0, direction: Direction::Up };
        let bursts = [(900, 1_500, 40), (1_000, 1_500, 3), (1_500, 52, 9), (2_000, 1_500, 1)];
        for (ms, len, packets) in bursts {
            for _ in 0..packets {
                let at = Instant::from_millis(ms);
                for arrival in net.handle_packet(at, entry, len) {
                    delays.record(at, entry, len, &arrival);
                }
            }
        }
        let delay = delays.of(entry, 1).expect("somebody asked");
        assert_eq!(delay.mean_ms, Some(1.5), "0, 2 and 4 ms in the burst, then nothing");
        assert!((delay.p95_ms.expect("four packets") - 4.0).abs() < 0.01, "{delay:?}");
        let back = LinkEnd { direction: Direction::Down, ..entry };
        assert_eq!(delays.of(back, 0), Some(QueueDelay::default()));
        assert_eq!(QueueDelays::new(None).of(entry, 1), None);
    }
}
