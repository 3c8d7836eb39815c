//! How what is under way on a path drains, and so when a packet of it arrives.
//!
//! ```text
//! known     the newest packet acknowledged: sent at s, stood before the narrowest hop for q
//! rate      of that hop, when it was last busy (`bottleneck.rs`); where q < 5 ms, no
//!           less than bytes in flight at s / (least rtt + q), which the path has carried
//! arrival   = s + least rtt / 2 + q + (bytes sent since) / rate, and no sooner than an empty path
//!             brings it
//! overdue   = age of the oldest unanswered packet − min(late age, least rtt + q + 10 ms)
//! ```
//! By this the path of a symbol is chosen: it looks ahead, at what the hop has yet to send, because
//! a message that is put behind that cannot be called back. Bulk is bounded by the queue that the
//! newest answer met (`bulk_bound.rs`), control on a thin hop by what was sent and is not known to
//! have left it (`free_at` of `control_window.rs`).

use units::{Duration, Instant, Rate};

use super::Path;
use super::bottleneck::EMPTY;
use crate::recovery::MAX_ACK_DELAY;

/// Says how what is under way on a path drains.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Drain {
    /// When the newest packet that is known to have arrived was sent, and how long it queued at the
    /// narrowest hop.
    pub(crate) sent_at: Instant,
    pub(crate) queue: Duration,
    /// The rate of that hop, when it was last busy.
    pub(crate) rate: Option<Rate>,
    /// Bytes that were sent up to that packet.
    pub(crate) position: u64,
    /// How long the answer to the oldest unanswered packet has been overdue.
    pub(crate) overdue: Duration,
}

impl Drain {
    /// Returns the likely arrival of a packet sent at `sent_at`, behind `position` bytes, on a path
    /// that takes `one_way` when it is empty.
    pub(super) fn arrival(&self, one_way: Duration, sent_at: Instant, position: u64) -> Instant {
        let Some(rate) = self.rate else { return sent_at + one_way + self.queue };
        let between = position.saturating_sub(self.position);
        let time = rate.transmission_time(usize::try_from(between).unwrap_or(usize::MAX));
        let behind = self.sent_at + one_way + self.queue.saturating_add(time);
        behind.max(sent_at + one_way)
    }
}

impl Path {
    /// Tells how what is under way drains.
    pub(super) fn drain(&self, now: Instant) -> Drain {
        let (sent_at, in_flight) = self.link.known;
        let queue = self.link.hop.queue();
        let least_rtt = self.link.rtt.min_rtt().unwrap_or_else(|| self.link.rtt.srtt_or_initial());
        let busy = self.link.hop.rate();
        let proved = Rate::from_bytes_in(in_flight, least_rtt + queue);
        let rate = if queue < EMPTY { busy.map(|rate| rate.max(proved)) } else { busy };
        let position = self.counters.bytes_sent.saturating_sub(self.sent.in_flight());
        Drain { sent_at, queue, rate, position, overdue: self.overdue(now) }
    }

    fn overdue(&self, now: Instant) -> Duration {
        self.sent.unanswered().next().map_or(Duration::ZERO, |oldest| {
            let late = self.health_view(now).late_after(oldest.bulk);
            let least = self.link.rtt.min_rtt().unwrap_or(late) + self.link.hop.queue();
            now.since(oldest.sent_at).saturating_sub(late.min(least + MAX_ACK_DELAY))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_WAY: Duration = Duration::from_millis(30);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000 + ms)
    }

    #[test]
    fn a_packet_arrives_when_the_hop_has_sent_what_is_before_it() {
        let (queue, rate) = (Duration::from_millis(20), Some(Rate::from_mbps(0.8)));
        let drain = Drain { sent_at: at(0), queue, rate, position: 5_000, overdue: Duration::ZERO };
        // 4,000 bytes take 40 ms.
        assert_eq!(drain.arrival(ONE_WAY, at(10), 9_000), at(90));
        assert_eq!(drain.arrival(ONE_WAY, at(200), 9_000), at(230), "it has drained since");
        let unknown = Drain { rate: None, ..drain };
        assert_eq!(unknown.arrival(ONE_WAY, at(10), 9_000), at(60), "as the newest one known");
    }
}
