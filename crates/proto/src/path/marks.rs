//! Whether a path carries packets that are marked as control [specs/paths.md §4] (rule 8).
//!
//! Some networks drop packets with a mark that they do not sell. What is marked is lost there and
//! what is not arrives, so the two are told apart by which of them are acknowledged:
//!
//! ```text
//! marked lost    = marked packets lost in a row                      none since one was acknowledged
//! plain arrived  = others acknowledged, sent since the first of those
//! plain lost     = others lost, sent since the first of those
//!                  all three 0 where a marked one was acknowledged
//! in doubt       ⇔ marked lost ≥ 3: every other datagram with control goes unmarked
//! dropped        ⇔ marked lost ≥ 8, plain arrived ≥ 4 and > plain lost; until a marked probe, one a
//!                  minute, is acknowledged
//! ```
//! In doubt both kinds meet the same bursts, so losses alone make no path drop marks: at 30 % loss
//! eight in a row while four others arrive come once in some ten thousand packets, and cost a place
//! in a queue for a minute. Nor does an outage, which takes plain packets as well. The marks
//! themselves are the driver's; here it is only said which datagrams deserve one.

use units::{Duration, Instant};

use super::HARDLY_CHANCE;
use crate::recovery::SentPacket;

/// Marked packets lost in a row until the path is held to drop them, if half as many others have
/// arrived meanwhile.
const DROPPED: u32 = 8;
/// Time between two probes that are marked: as often as a carrier may have changed its mind.
const AGAIN: Duration = Duration::from_secs(60);

/// Finds out whether marked packets arrive.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// Marked packets lost since one was acknowledged.
    lost: u32,
    /// Others acknowledged that were sent since the first of those.
    plain: u32,
    /// Others lost that were sent since then.
    plain_lost: u32,
    /// When the first of those was sent.
    since: Option<Instant>,
    /// When the next marked probe leaves, of a path that drops marks.
    probe_at: Option<Instant>,
    /// Whether the last datagram with control was marked.
    was_marked: bool,
}

impl Marks {
    /// Tells whether the path drops what is marked.
    pub(super) fn are_dropped(&self) -> bool {
        self.probe_at.is_some()
    }

    /// Tells whether the next datagram with control is to be marked.
    pub(super) fn marks_next(&mut self) -> bool {
        let takes_turns = self.lost >= HARDLY_CHANCE && self.was_marked;
        self.was_marked = !(self.are_dropped() || takes_turns);
        self.was_marked
    }

    /// Tells whether a marked probe is to leave now.
    pub(super) fn probe_is_due(&self, now: Instant) -> bool {
        self.probe_at.is_some_and(|at| at <= now)
    }

    /// Returns when the next one leaves.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.probe_at
    }

    /// Notes that one leaves.
    pub(super) fn on_probe_sent(&mut self, now: Instant) {
        self.probe_at = Some(now + AGAIN);
    }

    /// Notes that a packet was acknowledged.
    pub(super) fn on_acked(&mut self, now: Instant, packet: &SentPacket) {
        if packet.marked {
            *self = Self::default();
        } else if self.may_tell(packet) {
            self.plain += 1;
            self.judge(now);
        }
    }

    /// Notes that a packet was lost, in silence or otherwise.
    pub(super) fn on_lost(&mut self, now: Instant, packet: &SentPacket) {
        if packet.marked && !self.are_dropped() {
            self.since = Some(self.since.map_or(packet.sent_at, |since| since.min(packet.sent_at)));
            self.lost += 1;
            self.judge(now);
        } else if !packet.marked && self.may_tell(packet) {
            self.plain_lost += 1;
        }
    }

    /// Tells whether a plain packet was sent while marked ones were missing.
    fn may_tell(&self, packet: &SentPacket) -> bool {
        packet.ack_eliciting && self.since.is_some_and(|since| packet.sent_at >= since)
    }

    fn judge(&mut self, now: Instant) {
        let plain_arrive = self.plain >= DROPPED / 2 && self.plain > self.plain_lost;
        if !self.are_dropped() && self.lost >= DROPPED && plain_arrive {
            self.on_probe_sent(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::{DeliveryRate, SentFrames};

    fn packet(at: u64, marked: bool) -> SentPacket {
        SentPacket {
            pn: at,
            sent_at: Instant::from_millis(at),
            bytes: 100,
            ack_eliciting: true,
            bulk: false,
            delivery: DeliveryRate::default().on_sent(Instant::from_millis(at), false, 0),
            counts: true,
            marked,
            stood: 0,
            frames: SentFrames::new(),
        }
    }

    #[test]
    fn what_drops_marked_packets_alone_is_found_out_and_tried_again_each_minute() {
        let mut marks = Marks::default();
        let at = Instant::from_millis;
        let mut marked = 0;
        for sent in 0..20 {
            let is_marked = marks.marks_next();
            marked += u32::from(is_marked);
            match packet(sent, is_marked) {
                packet if is_marked => marks.on_lost(at(sent), &packet),
                packet => marks.on_acked(at(sent), &packet),
            }
        }
        assert!(marks.are_dropped());
        assert_eq!(marked, DROPPED, "then none");
        assert!(!marks.probe_is_due(at(20_000)) && marks.probe_is_due(at(61_000)));
        marks.on_probe_sent(at(61_000));
        marks.on_lost(at(62_000), &packet(61_000, true));
        assert!(marks.are_dropped() && !marks.probe_is_due(at(63_000)));
        marks.on_acked(at(130_000), &packet(121_000, true));
        assert!(!marks.are_dropped() && marks.marks_next());
    }

    #[test]
    fn an_outage_that_ends_says_nothing_about_marks() {
        let (mut marks, at) = (Marks::default(), Instant::from_millis);
        for sent in 0..40 {
            let is_marked = marks.marks_next();
            marks.on_lost(at(500), &packet(sent, is_marked));
        }
        (40..50).for_each(|sent| marks.on_acked(at(600), &packet(sent, false)));
        assert!(!marks.are_dropped());
        marks.on_acked(at(600), &packet(50, true));
        assert_eq!((marks.lost, marks.plain, marks.plain_lost), (0, 0, 0));
    }

    #[test]
    fn a_path_that_loses_everything_or_at_random_is_held_to_drop_no_marks() {
        let mut marks = Marks::default();
        let at = Instant::from_millis;
        (0..1_000).for_each(|sent| marks.on_lost(at(sent), &packet(sent, sent % 2 == 0)));
        assert!(!marks.are_dropped());
        let (mut marks, mut rng) = (Marks::default(), units::Rng::new(3));
        let mut times = 0;
        for sent in 0..100_000 {
            let packet = packet(sent, marks.marks_next());
            if rng.chance(0.3) {
                marks.on_lost(at(sent), &packet);
            } else {
                marks.on_acked(at(sent), &packet);
            }
            times += u32::from(marks.are_dropped());
            if marks.are_dropped() {
                marks = Marks::default();
            }
        }
        assert!(times <= 20, "{times}");
    }
}
