//! Packets that one path has sent and whose fate is still open, and which of them are lost
//! [specs/paths.md §4].
//!
//! A packet is outstanding until it is acknowledged or declared lost: by a packet threshold, by a
//! time threshold [RFC 9002 §6.1], or all at once when the path falls silent. A lost packet is
//! remembered for a few seconds more: its acknowledgement may still come, which proves that what it
//! carried was delivered, and shows how much the path reorders. Outcomes leave in packet-number
//! order, so that runs of losses can be measured.
//!
//! *Deviations from RFC 9002*: both thresholds grow when a loss turns out to have been reordering
//! (as RACK's window does [RFC 8985 §6.2]) and shrink again after ten seconds without one; there is
//! no persistent congestion, because the path's health deals with silence.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::delivery_rate::DeliveryState;
use super::landed::Landed;
use super::loss_estimator::LossEstimator;
use super::{GRANULARITY, LINK_MEMORY};
use crate::ids::PathId;
use crate::limits;

/// Later packets that must be acknowledged before one is lost [RFC 9002 §6.1.1].
pub(super) const PACKET_THRESHOLD: u64 = 3;
/// The largest value to which reordering raises [`PACKET_THRESHOLD`].
const MAX_PACKET_THRESHOLD: u64 = 512;
/// Age in eighths of the round-trip time at which a packet is lost [RFC 9002 §6.1.2].
const TIME_EIGHTHS: u32 = 9;
/// A lost packet may be acknowledged for this long: longer than the stalls of a cellular link.
const LOST_MEMORY: Duration = Duration::from_secs(5);
/// One that may stand before the hop, since no later one was acknowledged, is remembered for this
/// long.
const STANDING_MEMORY: Duration = Duration::from_secs(60);
/// Lost packets that are remembered; beyond that the oldest is forgotten.
const LOST_PACKETS: usize = 4_096;

/// Names something that a delivery added to a packet, in that delivery's own terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// What kind of thing it was.
    pub(crate) kind: u8,
    /// Which one.
    pub(crate) numbers: [u64; 2],
}

/// What a sent packet carried, as far as its fate matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentFrame {
    /// What a delivery added: the place of the delivery, and its own mark of what that was.
    Delivery { owner: u8, mark: Mark },
    /// The end of another path.
    PathClose { path: PathId },
    /// That our end of another path has another address.
    PathAddress { path: PathId },
    /// How the operator wants the packet's path to be used, as of this change.
    PathUse { change: u8 },
    /// A piece of a longer datagram, by the session's number for that, and whether that carried
    /// something that no congestion window holds back.
    Piece { whole: u32, is_control: bool },
    /// Something of this end, as of this change.
    Note { name: u16, change: u32 },
    /// A probe for the path's MTU: nothing but padding up to this size.
    MtuProbe { size: u16 },
    /// A probe that is marked as control, on a path that drops what is.
    MarkedProbe,
    /// An acknowledgement of packets received on `path` up to `largest`.
    Ack { path: PathId, largest: u64 },
}

/// Lists what a packet carried; more than two frames are rare.
pub(crate) type SentFrames = SmallVec<[SentFrame; 2]>;

/// Describes a packet that was sent.
#[derive(Clone, Debug)]
pub(crate) struct SentPacket {
    /// Its number on its path.
    pub(crate) pn: u64,
    /// When it was sent.
    pub(crate) sent_at: Instant,
    /// Its UDP payload.
    pub(crate) bytes: u16,
    /// Whether the peer acknowledges it.
    pub(crate) ack_eliciting: bool,
    /// Whether it carried bulk, that is, obeyed the congestion window.
    pub(crate) bulk: bool,
    /// Delivery count at its sending.
    pub(crate) delivery: DeliveryState,
    /// Whether its loss says something of the path: it was no probe for the MTU, and went where the
    /// path's packets go.
    pub(crate) counts: bool,
    /// Whether the driver was told to mark it as control.
    pub(crate) marked: bool,
    /// Bytes that might stand before it then: those in flight, and what was given up in silence.
    pub(crate) stood: u64,
    /// What it carried.
    pub(crate) frames: SentFrames,
}

impl SentPacket {
    /// Tells whether it carried something that no congestion window holds back.
    pub(crate) fn is_control(&self) -> bool {
        let is_control = |frame: &SentFrame| {
            matches!(frame, SentFrame::Delivery { .. } | SentFrame::Piece { is_control: true, .. })
        };
        !self.bulk && self.frames.iter().any(is_control)
    }
}

/// Describes an ACK frame for packets of one path, as it came from the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckInfo<'a> {
    /// The largest packet number received.
    pub(crate) largest: u64,
    /// When the peer received it, in microseconds of the peer's clock.
    pub(crate) received_at_us: u64,
    /// How long the peer held the acknowledgement back since then.
    pub(crate) delay: Duration,
    /// Ranges of packet numbers received, `largest` included, in any order.
    pub(crate) ranges: &'a [RangeInclusive<u64>],
    /// Whether it came by another path: no round-trip time of this one follows from it.
    pub(crate) elsewhere: bool,
}

/// Tells which packets an ACK frame newly acknowledges.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewlyAcked {
    /// Packets that were outstanding, by rising number within a range.
    pub(crate) packets: Vec<SentPacket>,
    /// Packets that had been declared lost.
    pub(crate) late: Vec<SentPacket>,
}

#[derive(Clone, Debug)]
enum Entry {
    Outstanding(SentPacket),
    /// Acknowledged or lost; the flag says which, if that says anything about the path.
    Ended {
        pn: u64,
        lost: Option<bool>,
    },
}

impl Entry {
    fn pn(&self) -> u64 {
        match self {
            Self::Outstanding(packet) => packet.pn,
            Self::Ended { pn, .. } => *pn,
        }
    }
}

/// Keeps the packets of one path until their fate is known.
#[derive(Clone, Debug)]
pub(crate) struct SentPackets {
    entries: VecDeque<Entry>,
    /// How many of them were sent no later than the newest one that was acknowledged.
    answered: usize,
    lost: BTreeMap<u64, SentPacket>,
    /// No packet of this number or a later one was ever lost.
    lost_end: u64,
    /// Bytes of the lost ones that were sent after the newest one that was acknowledged.
    given_up: u64,
    in_flight: u64,
    control_in_flight: u64,
    largest_acked: Option<u64>,
    packet_threshold: u64,
    time_eighths: u32,
    reordered_at: Option<Instant>,
    loss_time: Option<Instant>,
    loss: LossEstimator,
    /// When anything was heard of them last.
    at: Instant,
    /// What became of packets by the time when a later one was acknowledged, those that were given
    /// up included.
    heard: LossEstimator,
    /// Small packets overtake others: only they are lost by what is acknowledged after them, and by
    /// time alone.
    overtaken: bool,
    landed: Landed,
}

impl SentPackets {
    /// Starts with nothing sent; `overtaken` on a link where small packets overtake others
    /// [specs/paths.md §9].
    pub(crate) fn new(overtaken: bool) -> Self {
        Self {
            overtaken,
            landed: Landed::default(),
            entries: VecDeque::new(),
            answered: 0,
            lost: BTreeMap::new(),
            lost_end: 0,
            given_up: 0,
            in_flight: 0,
            control_in_flight: 0,
            largest_acked: None,
            packet_threshold: PACKET_THRESHOLD,
            time_eighths: TIME_EIGHTHS,
            reordered_at: None,
            loss_time: None,
            loss: LossEstimator::default(),
            at: Instant::ZERO,
            heard: LossEstimator::default(),
        }
    }

    /// Remembers a packet that is being sent; numbers must rise. At the bound the oldest is
    /// forgotten; only a peer that stops acknowledging brings that about.
    pub(crate) fn on_sent(&mut self, packet: SentPacket) {
        debug_assert!(self.entries.back().is_none_or(|last| last.pn() < packet.pn));
        if self.entries.len() >= limits::SENT_PACKETS
            && let Some(Entry::Outstanding(oldest)) = self.pop_front()
        {
            self.leave_flight(&oldest);
        }
        self.in_flight += flight_bytes(&packet);
        self.control_in_flight += control_bytes(&packet, self.overtaken);
        self.entries.push_back(Entry::Outstanding(packet));
    }

    /// Takes an ACK frame: returns what it newly acknowledges.
    pub(crate) fn on_ack(&mut self, now: Instant, ack: &AckInfo<'_>) -> NewlyAcked {
        self.at = now;
        let mut newly = NewlyAcked::default();
        for range in ack.ranges {
            self.acknowledge_outstanding(range, &mut newly.packets);
            self.acknowledge_lost(now, range, &mut newly.late);
        }
        let largest = newly.packets.iter().chain(&newly.late).map(|packet| packet.pn).max();
        let heard = newly.packets.iter().chain(&newly.late).filter(|packet| packet.ack_eliciting);
        let missing = self.unheard().take_while(|packet| Some(packet.pn) < largest);
        let missing = missing.filter(|packet| packet.counts).count();
        (0..missing).for_each(|_| self.heard.on_outcome(now, true));
        heard.for_each(|_| self.heard.on_outcome(now, false));
        self.largest_acked = self.largest_acked.max(largest);
        self.answered = self.count_answered();
        self.given_up = self.count_given_up();
        self.retire();
        newly
    }

    fn acknowledge_outstanding(
        &mut self,
        range: &RangeInclusive<u64>,
        acked: &mut Vec<SentPacket>,
    ) {
        let first = self.entries.partition_point(|entry| entry.pn() < *range.start());
        let (mut left, mut control_left, overtaken) = (0, 0, self.overtaken);
        for entry in self.entries.range_mut(first..) {
            let pn = entry.pn();
            if pn > *range.end() {
                break;
            }
            if let Entry::Outstanding(packet) = entry {
                // Nobody reports the loss of a packet that elicits no acknowledgement.
                let end = Entry::Ended { pn, lost: packet.ack_eliciting.then_some(false) };
                let Entry::Outstanding(packet) = std::mem::replace(entry, end) else { continue };
                left += flight_bytes(&packet);
                control_left += control_bytes(&packet, overtaken);
                acked.push(packet);
            }
        }
        self.in_flight -= left;
        self.control_in_flight -= control_left;
    }

    fn acknowledge_lost(
        &mut self,
        now: Instant,
        range: &RangeInclusive<u64>,
        late: &mut Vec<SentPacket>,
    ) {
        if range.start() > range.end() {
            return;
        }
        while let Some((&pn, _)) = self.lost.range(range.clone()).next() {
            if let Some(packet) = self.lost.remove(&pn) {
                if packet.ack_eliciting {
                    self.learn_reordering(now, pn, packet.counts);
                }
                late.push(packet);
            }
        }
    }

    fn learn_reordering(&mut self, now: Instant, pn: u64, counts: bool) {
        if counts {
            self.loss.on_loss_undone();
        }
        let distance = self.largest_acked.unwrap_or(pn).saturating_sub(pn);
        let threshold = self.packet_threshold.max(distance + 1);
        self.packet_threshold = threshold.min(MAX_PACKET_THRESHOLD);
        if self.reordered_at != Some(now) {
            // A whole round trip more at most, as in RACK.
            self.time_eighths = (self.time_eighths + 1).min(2 * 8);
        }
        self.reordered_at = Some(now);
    }

    /// Declares lost what the thresholds say is lost; `rtt` is the larger of the smoothed and the
    /// latest round-trip time. Updates [`SentPackets::loss_time`].
    pub(crate) fn detect_lost(&mut self, now: Instant, rtt: Duration) -> Vec<SentPacket> {
        self.at = now;
        self.forget(now);
        self.loss_time = None;
        let Some(largest) = self.largest_acked else { return Vec::new() };
        let patience = (rtt * self.time_eighths / 8).max(rtt + GRANULARITY);
        let mut lost = Vec::new();
        for index in 0..self.entries.len() {
            let Entry::Outstanding(packet) = &self.entries[index] else { continue };
            if packet.pn >= largest {
                break;
            }
            let mut since = packet.sent_at;
            if self.overtaken && usize::from(packet.bytes) > limits::RELAY_SMALL {
                let Some(landed) = self.landed.since(packet.pn) else { continue };
                since = landed;
            }
            let due = since + patience;
            let is_behind = !self.overtaken && largest - packet.pn >= self.packet_threshold;
            if is_behind || due <= now {
                lost.extend(self.end_as_lost(index, true));
            } else {
                self.loss_time = Some(self.loss_time.map_or(due, |time| time.min(due)));
            }
        }
        self.retire();
        lost
    }

    /// Declares every outstanding packet sent before `before` lost because the path is silent; this
    /// does not enter the loss estimate.
    pub(crate) fn give_up_before(&mut self, before: Instant) -> Vec<SentPacket> {
        let mut lost = Vec::new();
        for index in 0..self.entries.len() {
            if matches!(&self.entries[index], Entry::Outstanding(packet) if packet.sent_at >= before)
            {
                break;
            }
            lost.extend(self.end_as_lost(index, false));
        }
        self.loss_time = None;
        self.retire();
        lost
    }

    /// Declares one packet lost: whoever carried it has said so. This does not enter the loss
    /// estimate.
    pub(crate) fn give_up(&mut self, pn: u64) -> Option<SentPacket> {
        let index = self.entries.partition_point(|entry| entry.pn() < pn);
        self.entries.get(index).filter(|entry| entry.pn() == pn)?;
        let lost = self.end_as_lost(index, false);
        self.retire();
        lost
    }

    /// Lets the loss of all that is outstanding say nothing of the path; returns the first and the
    /// last number.
    pub(crate) fn spare_all(&mut self) -> Option<(u64, u64)> {
        let mut spared = None;
        for entry in &mut self.entries {
            if let Entry::Outstanding(packet) = entry {
                packet.counts = false;
                spared = Some((spared.map_or(packet.pn, |(first, _)| first), packet.pn));
            }
        }
        spared
    }

    /// The same of one packet; tells whether it is outstanding.
    pub(crate) fn spare(&mut self, pn: u64) -> bool {
        let index = self.entries.partition_point(|entry| entry.pn() < pn);
        let Some(Entry::Outstanding(packet)) = self.entries.get_mut(index) else { return false };
        let is_it = packet.pn == pn;
        packet.counts &= !is_it;
        is_it
    }

    /// Notes that whoever carried a packet says that it has arrived: without an acknowledgement
    /// soon it is lost after all.
    pub(crate) fn on_landed(&mut self, now: Instant, pn: u64) {
        let first = self.entries.front().map_or(pn, Entry::pn);
        self.landed.note(now, pn, first);
    }

    /// Moves an outstanding packet to the lost ones; that one which elicits no acknowledgement is
    /// missing nobody is told.
    fn end_as_lost(&mut self, index: usize, counts: bool) -> Option<SentPacket> {
        let pn = self.entries[index].pn();
        if !matches!(self.entries[index], Entry::Outstanding(_)) {
            return None;
        }
        let entry = std::mem::replace(&mut self.entries[index], Entry::Ended { pn, lost: None });
        let Entry::Outstanding(packet) = entry else { return None };
        self.leave_flight(&packet);
        if counts && packet.ack_eliciting && packet.counts {
            self.entries[index] = Entry::Ended { pn, lost: Some(true) };
        }
        let first = self.first_unheard();
        let stands = |pn, packet: &SentPacket| if pn < first { 0 } else { u64::from(packet.bytes) };
        if self.lost.len() >= LOST_PACKETS
            && let Some((oldest, forgotten)) = self.lost.pop_first()
        {
            self.given_up -= stands(oldest, &forgotten);
        }
        self.given_up += stands(pn, &packet);
        self.lost_end = self.lost_end.max(pn + 1);
        self.lost.insert(pn, packet.clone());
        packet.ack_eliciting.then_some(packet)
    }

    /// Releases the outcomes at the front, in packet-number order.
    fn retire(&mut self) {
        while let Some(entry) = self.entries.front() {
            match entry {
                Entry::Outstanding(_) => break,
                Entry::Ended { lost: Some(lost), .. } => self.loss.on_outcome(self.at, *lost),
                Entry::Ended { .. } => {}
            }
            self.pop_front();
        }
    }

    fn pop_front(&mut self) -> Option<Entry> {
        self.answered = self.answered.saturating_sub(1);
        self.entries.pop_front()
    }

    fn forget(&mut self, now: Instant) {
        while let Some(first) = self.lost.first_entry() {
            let stands = self.largest_acked < Some(*first.key());
            let memory = if stands { STANDING_MEMORY } else { LOST_MEMORY };
            if now.since(first.get().sent_at) < memory {
                break;
            }
            first.remove();
        }
        self.given_up = self.count_given_up();
        if self.reordered_at.is_some_and(|at| now.since(at) > LINK_MEMORY) {
            self.reordered_at = None;
            self.packet_threshold = PACKET_THRESHOLD;
            self.time_eighths = TIME_EIGHTHS;
        }
    }

    fn leave_flight(&mut self, packet: &SentPacket) {
        self.in_flight -= flight_bytes(packet);
        self.control_in_flight -= control_bytes(packet, self.overtaken);
    }

    /// Returns the packets that elicit an acknowledgement and were sent after the newest one that
    /// was acknowledged, oldest first.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &SentPacket> {
        // Who only answers has sent many packets of which none is in flight.
        let any = (self.in_flight > 0).then(|| self.outstanding());
        any.into_iter().flatten().filter(|packet| packet.ack_eliciting)
    }

    /// Returns all packets, of whatever kind, that were sent after the newest one that was
    /// acknowledged: they may stand before a hop.
    pub(crate) fn standing(&self) -> impl Iterator<Item = &SentPacket> {
        self.silenced().chain(self.outstanding())
    }

    /// Returns the same with those that were given up in silence: each of them is lost, or waits at
    /// a hop that has become thin.
    pub(crate) fn unheard(&self) -> impl Iterator<Item = &SentPacket> {
        self.silenced().filter(|packet| packet.ack_eliciting).chain(self.unanswered())
    }

    /// Returns the bytes of those that were given up in silence and may still stand before a hop,
    /// but for so many that were lost.
    pub(crate) fn given_up(&self, lost: usize) -> u64 {
        debug_assert_eq!(self.given_up, self.count_given_up());
        let lost: u64 = self.silenced().take(lost).map(|packet| u64::from(packet.bytes)).sum();
        self.given_up - lost
    }

    fn count_given_up(&self) -> u64 {
        self.silenced().map(|packet| u64::from(packet.bytes)).sum()
    }

    /// Lists those that were given up before any later one was acknowledged. That is asked often,
    /// and mostly there are none.
    fn silenced(&self) -> impl Iterator<Item = &SentPacket> {
        let after = self.first_unheard();
        let lost = (after < self.lost_end).then(|| self.lost.range(after..));
        lost.into_iter().flatten().map(|(_, packet)| packet)
    }

    /// Lists the outstanding ones that were sent after the newest one that was acknowledged.
    fn outstanding(&self) -> impl Iterator<Item = &SentPacket> {
        debug_assert_eq!(self.answered, self.count_answered());
        self.entries.range(self.answered..).filter_map(|entry| match entry {
            Entry::Outstanding(packet) => Some(packet),
            Entry::Ended { .. } => None,
        })
    }

    fn first_unheard(&self) -> u64 {
        self.largest_acked.map_or(0, |largest| largest + 1)
    }

    fn count_answered(&self) -> usize {
        let first = self.first_unheard();
        self.entries.partition_point(|entry| entry.pn() < first)
    }

    /// Returns the earliest time at which [`SentPackets::detect_lost`] will find something.
    pub(crate) fn loss_time(&self) -> Option<Instant> {
        self.loss_time
    }

    /// Returns the bytes sent and neither acknowledged nor lost.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the bytes in flight that are not bulk, with the headers of IP and UDP.
    pub(crate) fn control_in_flight(&self) -> u64 {
        self.control_in_flight
    }

    /// Tells whether one more packet would push an old one out.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= limits::SENT_PACKETS
    }

    /// Returns the share of the last packets that were missing when a later one was acknowledged.
    pub(crate) fn recent_loss(&self) -> f64 {
        self.heard.recent()
    }

    /// Returns the estimate of what this path loses.
    pub(crate) fn loss(&self) -> &LossEstimator {
        &self.loss
    }
}

/// Returns how many bytes a packet counts as control in flight, headers included. What waits for
/// relays is none.
fn control_bytes(packet: &SentPacket, overtaken: bool) -> u64 {
    let is_small = usize::from(packet.bytes) <= limits::RELAY_SMALL;
    let counts = packet.ack_eliciting && !packet.bulk && (is_small || !overtaken);
    if counts { u64::from(packet.bytes) + limits::IP_AND_UDP } else { 0 }
}

/// Returns how many bytes a packet counts in flight: mere acknowledgements count nothing.
fn flight_bytes(packet: &SentPacket) -> u64 {
    if packet.ack_eliciting { u64::from(packet.bytes) } else { 0 }
}

#[cfg(test)]
mod tests;
