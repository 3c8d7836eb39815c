//! One direction of one link: decides at entry when, whether and how often a packet comes out.
//!
//! A link is a [`Sender`] (queue and transmitter) followed by an [`Air`] (what happens after the
//! last bit has left the transmitter). Sharing between links (a medium, groups, several receivers)
//! is the business of [`Net`](crate::Net), which joins the same two halves in other ways.

mod air;
mod loss;
mod model;
mod outage;
mod sender;
mod slots;
mod transmitter;
mod verdict;

pub(crate) use air::Air;
pub(crate) use loss::Channel;
pub use model::{
    CsvLoss, Delay, Duplication, GilbertElliott, Jitter, JitterShape, LinkModel, LinkRate,
    LossModel, MatrixRow, Outage, OutageMode, Protocol, QueueLimit, Reordering, SMALL_BYTES,
    SlotClock, SlotLoss, StateChange,
};
pub(crate) use outage::Calendar;
pub(crate) use sender::Sender;
pub(crate) use slots::Region;
pub use verdict::{Delivery, DropCause, LinkStats, Verdict};

use units::Instant;

/// One direction of one link on its own, with its state.
#[derive(Clone, Debug)]
pub struct Link {
    sender: Sender,
    air: Air,
    stats: LinkStats,
}

impl Link {
    /// Makes an idle link; links with other labels draw independent random numbers.
    ///
    /// What the model shares with other links by name (groups, a medium) is left out: a
    /// [`Net`](crate::Net) knows it.
    pub fn new(model: &LinkModel, seed: u64, label: &str) -> Self {
        let drops = Calendar::of_drops(&model.outages);
        let mut sender = Sender::new(model, Calendar::of_holds(&model.outages));
        let mut air = Air::new(model, drops, Vec::new(), None, seed, label);
        sender.begin(Instant::ZERO);
        air.begin(Instant::ZERO);
        Self { sender, air, stats: LinkStats::default() }
    }

    /// Decides the fate of a packet of `len` bytes (IP header included) that enters at `at`.
    ///
    /// Packets must come in the order of their entry; one that is older than its predecessor counts
    /// as having entered together with it.
    pub fn handle_packet(&mut self, at: Instant, len: usize) -> Verdict {
        let verdict = match self.sender.admit(at, len, None) {
            Ok(transmission) => self.air.carry(&transmission, len),
            Err(cause) => Verdict::dropped(cause),
        };
        self.stats.count(len, &verdict);
        self.sender.report(&mut self.stats);
        verdict
    }

    /// Returns what the link has done so far.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Duration, Rate};

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn only_delivery(verdict: &Verdict) -> Instant {
        assert_eq!(verdict.dropped, None);
        assert_eq!(verdict.deliveries.len(), 1);
        verdict.deliveries[0].at
    }

    #[test]
    fn delay_and_transmission_time_are_exact() {
        let model = LinkModel {
            delay: Delay::Fixed(Duration::from_nanos(10_000_001)),
            rate: LinkRate::Constant(Rate::from_mbps(12.0)),
            ..LinkModel::default()
        };
        let mut link = Link::new(&model, 1, "l");
        let first = only_delivery(&link.handle_packet(at(5), 1_500));
        let second = only_delivery(&link.handle_packet(at(5), 1_500));
        assert_eq!(first, at(6) + Duration::from_nanos(10_000_001));
        assert_eq!(second.since(first), ms(1));
    }

    #[test]
    fn a_full_queue_drops_from_the_tail_and_counts() {
        let model = LinkModel {
            rate: LinkRate::Constant(Rate::from_mbps(12.0)),
            queue: QueueLimit { packets: None, bytes: Some(3_000) },
            ..LinkModel::default()
        };
        let mut link = Link::new(&model, 1, "l");
        let fates: Vec<_> =
            (0..5).map(|_| link.handle_packet(at(0), 1_500).dropped.is_none()).collect();
        assert_eq!(fates, [true, true, true, false, false]);
        assert_eq!(link.stats().drops(DropCause::Queue), 2);
        assert_eq!(link.stats().queue_bytes_max, 3_000);
        assert!(link.handle_packet(at(1), 1_500).dropped.is_none(), "one left the queue at 1 ms");
    }

    #[test]
    fn an_outage_drops_what_leaves_the_transmitter_while_it_lasts() {
        let outage = Outage { start: at(20), duration: ms(10), mode: OutageMode::Drop };
        let model = LinkModel { outages: vec![outage], ..LinkModel::default() };
        let mut link = Link::new(&model, 1, "l");
        let mut dropped = |t| link.handle_packet(at(t), 100).dropped;
        assert_eq!(dropped(19), None);
        assert_eq!(dropped(20), Some(DropCause::Outage));
        assert_eq!(dropped(29), Some(DropCause::Outage));
        assert_eq!(dropped(30), None);
    }

    #[test]
    fn a_hold_delivers_at_release_in_order_at_link_rate() {
        let mode = OutageMode::Hold { queue: None };
        let model = LinkModel {
            delay: Delay::Fixed(ms(35)),
            rate: LinkRate::Constant(Rate::from_mbps(12.0)),
            outages: vec![Outage { start: at(100), duration: ms(50), mode }],
            ..LinkModel::default()
        };
        let mut link = Link::new(&model, 1, "l");
        let out: Vec<_> = [98, 110, 120, 149, 153]
            .map(|t| only_delivery(&link.handle_packet(at(t), 1_500)))
            .to_vec();
        assert_eq!(out, [at(134), at(186), at(187), at(188), at(189)]);
    }

    #[test]
    fn loss_is_as_frequent_as_asked_for() {
        let loss = LossModel { independent: 0.284, ..LossModel::default() };
        let mut link = Link::new(&LinkModel { loss, ..LinkModel::default() }, 7, "l");
        for t in 0..100_000 {
            link.handle_packet(at(t), 100);
        }
        let lost = link.stats().drops(DropCause::Loss) as f64 / 1e5;
        assert!((lost - 0.284).abs() < 0.005, "{lost}");
    }
}
