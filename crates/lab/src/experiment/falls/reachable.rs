//! What an ideal sender could reach in a cell: one that keeps the time to live, and knows of the
//! fall as early as anybody can.
//!
//! ```text
//! R = 2 · delay                  the fall begins at 0, and no answer can tell of it before
//! backlog(t) = min(queue, (o − c) · t)   until then o bytes a second enter a hop that carries c
//! t → t + (backlog(t) + b) / c + delay   what is sent before R, b its bytes on the wire, and when it arrives
//! F = R + backlog(R) / c                 from then on the hop has nothing else to carry:
//! F → F + b / c + delay                  the first message whose sender knows
//! ```
//! What would be older than its time to live on arrival, or finds the queue full, never arrives.
//! The longest gap is the longest time between two arrivals, of which the last before the fall is
//! one, and not longer than the fall and what is then on its way. The age of the newest is at most
//! that of one arrival at the next. Of several links the ideal sender has the best.

use proto::select::Policy;

use super::cell::Cell;
use super::links::DELAYS_MS;
use crate::experiment::streams::workload::Workload;

/// Bytes of a session's datagram with one message of 100 bytes, and with one set-point of 50, all
/// headers included.
const CONTROL_BYTES: f64 = 177.0;
const LIVE_BYTES: f64 = 130.0;

/// What an ideal sender reaches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reachable {
    /// The longest time without a control message.
    pub(super) gap_s: f64,
    /// The greatest age of the newest set-point that is asked for: what is reachable, and never
    /// less than its time to live and what one datagram takes over the hop. None where no set-point
    /// can arrive within its time to live.
    pub(super) age_s: Option<f64>,
}

impl Reachable {
    /// Returns it for a cell.
    pub(super) fn of(cell: &Cell) -> Self {
        let workload = cell.load.workload(0.0);
        let usable = (0..cell.links.count()).filter(|link| !cell.links.dies(*link));
        let hops = usable.map(|link| Hop::of(cell, &workload, link).reachable(&workload));
        hops.reduce(Self::better).expect("a cell has a link that is not dead")
    }

    fn better(self, other: Self) -> Self {
        let younger = self.age_s.zip(other.age_s).map(|(a, b)| a.min(b));
        Self { gap_s: self.gap_s.min(other.gap_s), age_s: younger.or(self.age_s).or(other.age_s) }
    }
}

/// One direction of a link from when it falls.
#[derive(Clone, Copy, Debug)]
struct Hop {
    /// Bytes a second that it carries, `c`.
    carries: f64,
    /// Bytes a second that are handed to it before anybody knows, `o`.
    offered: f64,
    delay_s: f64,
    queue: f64,
    fall_s: f64,
}

impl Hop {
    fn of(cell: &Cell, workload: &Workload, link: usize) -> Self {
        let before = cell.from_mbps * 1e6 / 8.0;
        let video = workload.video_mbps * 1e6 / 8.0 / cell.links.count() as f64;
        let messages = workload.control_hz * CONTROL_BYTES + workload.live_hz * LIVE_BYTES;
        Self {
            carries: if cell.links.falls(link) { cell.to_kbps * 1e3 / 8.0 } else { before },
            offered: (messages + video).min(before),
            delay_s: DELAYS_MS[link] as f64 / 1e3,
            queue: cell.queue_kb * 1e3,
            fall_s: cell.fall_s,
        }
    }

    fn reachable(&self, workload: &Workload) -> Reachable {
        let longest = self.fall_s + 2.0 * self.round_trip_s();
        let control = self.arrivals(workload.control_hz, CONTROL_BYTES, Policy::DECLARED);
        let gap = |arrivals: Vec<(f64, f64)>| {
            arrivals.windows(2).map(|pair| pair[1].1 - pair[0].1).fold(0.0, f64::max)
        };
        let live = self.arrivals(workload.live_hz, LIVE_BYTES, Policy::LIVE);
        let age = |arrivals: Vec<(f64, f64)>| {
            let least = Policy::LIVE.ttl.as_secs_f64() + self.takes(LIVE_BYTES);
            let ages = arrivals.windows(2).map(|pair| pair[1].1 - pair[0].0);
            ages.fold(least, f64::max)
        };
        Reachable { gap_s: control.map_or(longest, gap).min(longest), age_s: live.map(age) }
    }

    /// Returns when messages are sent that arrive within their time to live, and when they do: the
    /// last before the fall, those of the first round trip, and the first whose sender knows. None
    /// where that one cannot.
    fn arrivals(&self, hz: f64, bytes: f64, policy: Policy) -> Option<Vec<(f64, f64)>> {
        let ttl_s = policy.ttl.as_secs_f64();
        let interval = hz.recip();
        let unknowing = (0..).map(|number| f64::from(number) * interval);
        let unknowing =
            unknowing.take_while(|sent| *sent < self.round_trip_s()).filter_map(|sent| {
                let backlog = self.backlog(sent);
                let takes = backlog / self.carries + self.takes(bytes);
                (backlog + bytes <= self.queue && takes <= ttl_s).then_some((sent, sent + takes))
            });
        let before = [(-interval, self.delay_s - interval)];
        let arrivals: Vec<(f64, f64)> = before.into_iter().chain(unknowing).collect();
        let free = self.round_trip_s() + self.backlog(self.round_trip_s()) / self.carries;
        let knowing = (free, free + self.takes(bytes));
        (self.takes(bytes) <= ttl_s).then(|| [arrivals, vec![knowing]].concat())
    }

    fn backlog(&self, at_s: f64) -> f64 {
        ((self.offered - self.carries) * at_s).clamp(0.0, self.queue)
    }

    /// Returns how long a datagram takes over the idle hop.
    fn takes(&self, bytes: f64) -> f64 {
        bytes / self.carries + self.delay_s
    }

    fn round_trip_s(&self) -> f64 {
        2.0 * self.delay_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Reachable {
        Reachable::of(&name.parse().expect("a cell"))
    }

    #[test]
    fn what_was_sent_before_anybody_knew_stands_in_the_hop() {
        // Three messages are sent in the round trip of 60 ms, and take 0.71 s each: the third is
        // too old when it arrives.
        let slow = of("alone_10M_2k_30s_500kB_counted");
        let (message, stands) = (177.0 / 250.0, (50.0 * 177.0 - 250.0) * 0.06 / 250.0);
        let second = 0.02 + (50.0 * 177.0 - 250.0) * 0.02 / 250.0 + message;
        assert!((slow.gap_s - (0.06 + stands + message - second)).abs() < 1e-9, "{slow:?}");
        let fast = of("alone_10M_500k_30s_500kB_counted");
        assert!((fast.gap_s - 0.025).abs() < 0.005, "{fast:?}");
        assert!(of("first_10M_2k_30s_500kB_counted").gap_s < 0.05, "the other link does not fall");
        assert!(of("alone_10M_2k_30s_500kB_counted-video").gap_s > 30.0);
    }

    #[test]
    fn a_set_point_that_takes_longer_than_it_lives_is_not_asked_for() {
        assert_eq!(of("both_10M_2k_30s_500kB_live").age_s, None);
        let age = of("both_10M_50k_30s_500kB_live").age_s.expect("some arrive");
        assert!((age - (0.3 + 130.0 / 6_250.0 + 0.03)).abs() < 1e-9, "{age}");
        let slow = of("both_10M_5k_30s_500kB_live").age_s.expect("some arrive");
        assert!(slow > 0.6, "{slow}: a backlog of the first round trip");
    }
}
