//! What one path received, and when the peer must hear of it [specs/paths.md §4] (rule 4).
//!
//! Keeps the ranges of packet numbers received for the next ACK frame. Control, probes and
//! challenges are acknowledged at once, so that silence is noticed within a round trip; other
//! packets after the eighth or 10 ms, whichever is first, and at once where a gap opens. That of
//! control whose sender says so waits for a datagram to ride in. A gap that may keep a flow of the
//! tunnel waiting is told again with each of the next packets, and by a faster path too, where
//! there is one: the sooner it is known, the sooner the flow goes on. The replay window, not this
//! file, removes duplicates.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::loss_estimator::LossEstimator;
use super::sent_packets::PACKET_THRESHOLD;
use crate::limits;

/// The longest that an acknowledgement is held back; the peer's timeouts allow for it.
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_millis(10);
/// How long an acknowledgement waits for a datagram to ride in, where the sender lets it: a little
/// longer than the time between two messages of a pilot's 50 a second.
pub(crate) const RIDE: Duration = Duration::from_millis(25);
/// Packets after which an acknowledgement is due: at 1 % of the bytes of a 5 Mbit/s stream.
pub(crate) const PACKETS_PER_ACK: u32 = 8;
/// Ranges older than this are no longer repeated: the peer has long decided what was lost.
const RANGE_MEMORY: Duration = Duration::from_secs(1);
/// A gap of more packets is an outage, which says nothing about loss outside it.
const LONGEST_GAP: u64 = 16;
/// Ranges of packets that do not count which are remembered, and gaps that may turn out to be of
/// such: the sender names one range at a time.
const UNCOUNTED: usize = 4;

/// Describes a packet that came in, once its frames are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Whether it must be acknowledged.
    pub(crate) ack_eliciting: bool,
    /// Whether it must be acknowledged at once: it carries control, a probe or a challenge.
    pub(crate) urgent: bool,
    /// Whether its sender lets the acknowledgement wait all the same.
    pub(crate) may_wait: bool,
    /// Whether it carries what is passed on in order: what is missing before it holds it up.
    pub(crate) in_order: bool,
}

/// Holds what an ACK frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AckToSend {
    /// The largest packet number received.
    pub(crate) largest: u64,
    /// When it was received, on our clock.
    pub(crate) received_at: Instant,
    /// Time since then.
    pub(crate) delay: Duration,
    /// Ranges received, from the newest down; the first ends with `largest`.
    pub(crate) ranges: SmallVec<[RangeInclusive<u64>; 4]>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    first: u64,
    last: u64,
    /// When its newest packet came in.
    at: Instant,
}

/// Collects received packet numbers until they are acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct AckTracker {
    /// Rising, disjoint, not adjacent.
    ranges: VecDeque<Range>,
    largest_at: Instant,
    unacknowledged: u32,
    /// Packets that are still to be acknowledged at once because of a gap, and how often a faster
    /// path is still to tell of it.
    hurried: u64,
    told_elsewhere: u64,
    due_at: Option<Instant>,
    loss: LossEstimator,
    /// Packets whose absence is no loss.
    uncounted: SmallVec<[RangeInclusive<u64>; UNCOUNTED]>,
    /// The last gaps that were taken for losses.
    gaps: SmallVec<[std::ops::Range<u64>; UNCOUNTED]>,
}

impl AckTracker {
    /// Learns that packets from `first` to `last` do not count: if they are missing, the path did
    /// not lose them.
    pub(crate) fn on_uncounted(&mut self, first: u64, last: u64) {
        // What was named before has grown.
        self.uncounted.retain(|known| *known.start() != first);
        if self.uncounted.len() == UNCOUNTED {
            self.uncounted.remove(0);
        }
        let range = first..=last;
        // What went to another address is missing before its sender knows that nobody was there.
        for gap in &self.gaps {
            let spared = overlap(gap, &range).min(LONGEST_GAP);
            (0..spared).for_each(|_| self.loss.on_loss_undone());
        }
        self.gaps.retain(|gap| overlap(gap, &range) == 0);
        self.uncounted.push(range);
    }

    /// Notes a packet that came in for the first time.
    pub(crate) fn on_received(&mut self, now: Instant, pn: u64, arrival: Arrival) {
        let largest = self.ranges.back().map(|range| range.last);
        let gap = largest.map_or(0, |largest| pn.saturating_sub(largest.saturating_add(1)));
        self.estimate_loss(now, largest, pn, gap);
        if largest.is_none_or(|largest| pn > largest) {
            self.largest_at = now;
        }
        self.insert(now, pn);
        if !arrival.ack_eliciting {
            return;
        }
        self.unacknowledged += 1;
        if arrival.in_order && (1..=LONGEST_GAP).contains(&gap) {
            // With as many packets as the peer's recovery waits for.
            (self.hurried, self.told_elsewhere) = (PACKET_THRESHOLD, PACKET_THRESHOLD);
        }
        let hurried = self.hurried > 0;
        self.hurried = self.hurried.saturating_sub(1);
        let is_urgent = arrival.urgent && !arrival.may_wait;
        let at_once = is_urgent || gap > 0 || hurried || self.unacknowledged >= PACKETS_PER_ACK;
        let wait = if arrival.may_wait { RIDE } else { MAX_ACK_DELAY };
        let due = if at_once { now } else { now + wait };
        self.due_at = Some(self.due_at.map_or(due, |at| at.min(due)));
    }

    fn estimate_loss(&mut self, now: Instant, largest: Option<u64>, pn: u64, gap: u64) {
        if largest.is_some_and(|largest| pn < largest) {
            if !self.uncounted.iter().any(|range| range.contains(&pn)) {
                self.loss.on_loss_undone();
            }
            return;
        }
        let missing = pn - gap..pn;
        let spared = self.uncounted.iter().map(|range| overlap(&missing, range));
        let lost = spared.fold(gap, u64::saturating_sub);
        if (1..=LONGEST_GAP).contains(&lost) {
            (0..lost).for_each(|_| self.loss.on_outcome(now, true));
            if self.gaps.len() == UNCOUNTED {
                self.gaps.remove(0);
            }
            self.gaps.push(missing);
        }
        self.loss.on_outcome(now, false);
    }

    fn insert(&mut self, now: Instant, pn: u64) {
        let next = self.ranges.partition_point(|range| range.first <= pn);
        if next > 0 && pn <= self.ranges[next - 1].last {
            return;
        }
        let joins_before = next > 0 && self.ranges[next - 1].last + 1 == pn;
        let joins_after = next < self.ranges.len() && self.ranges[next].first == pn + 1;
        match (joins_before, joins_after) {
            (true, true) => {
                self.ranges[next - 1].last = self.ranges[next].last;
                self.ranges[next - 1].at = now;
                self.ranges.remove(next);
            }
            (true, false) => (self.ranges[next - 1].last, self.ranges[next - 1].at) = (pn, now),
            (false, true) => (self.ranges[next].first, self.ranges[next].at) = (pn, now),
            (false, false) => self.ranges.insert(next, Range { first: pn, last: pn, at: now }),
        }
        if self.ranges.len() > limits::ACK_RANGES {
            self.ranges.pop_front();
        }
    }

    /// Tells whether there is something new to acknowledge, due or not.
    pub(crate) fn has_news(&self) -> bool {
        self.unacknowledged > 0
    }

    /// Returns when the acknowledgement must be sent at the latest.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Tells whether a gap is news that a faster path should tell as well.
    pub(crate) fn has_news_of_gap(&self) -> bool {
        self.told_elsewhere > 0 && self.unacknowledged > 0
    }

    /// Makes the acknowledgement that a faster path carries; the path's own is due all the same.
    pub(crate) fn take_elsewhere(&mut self, now: Instant) -> Option<AckToSend> {
        self.told_elsewhere = self.told_elsewhere.saturating_sub(1);
        self.show(now)
    }

    /// Makes the acknowledgement that is to be sent now and counts it as sent.
    pub(crate) fn take(&mut self, now: Instant) -> Option<AckToSend> {
        while self.ranges.len() > 1 && now.since(self.ranges[0].at) > RANGE_MEMORY {
            self.ranges.pop_front();
        }
        let ack = self.show(now)?;
        self.unacknowledged = 0;
        self.due_at = None;
        Some(ack)
    }

    fn show(&self, now: Instant) -> Option<AckToSend> {
        let largest = self.ranges.back()?.last;
        Some(AckToSend {
            largest,
            received_at: self.largest_at,
            delay: now.since(self.largest_at),
            ranges: self.ranges.iter().rev().map(|range| range.first..=range.last).collect(),
        })
    }

    /// Notes that the peer has received an acknowledgement up to `largest` that left at `sent_at`:
    /// it need not be repeated. What came since is told however small its number is: on relays
    /// small packets overtake others by hundreds of milliseconds.
    pub(crate) fn on_ack_of_ack(&mut self, largest: u64, sent_at: Instant) {
        let is_told = |range: &Range| range.at <= sent_at;
        self.ranges.retain(|range| range.last >= largest || !is_told(range));
        if let Some(range) = self.ranges.iter_mut().find(|range| range.last >= largest)
            && is_told(range)
        {
            range.first = range.first.max(largest);
        }
    }

    /// Returns the estimate of what the path loses on the way to us, from gaps.
    pub(crate) fn loss(&self) -> &LossEstimator {
        &self.loss
    }
}

/// Returns how many numbers of `missing` the other range has.
fn overlap(missing: &std::ops::Range<u64>, range: &RangeInclusive<u64>) -> u64 {
    let end = missing.end.min(range.end().saturating_add(1));
    end.saturating_sub(missing.start.max(*range.start()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const BULK: Arrival =
        Arrival { ack_eliciting: true, urgent: false, may_wait: false, in_order: false };
    const URGENT: Arrival = Arrival { urgent: true, ..BULK };
    const SYMBOL: Arrival = Arrival { in_order: true, ..BULK };

    fn ranges_of(tracker: &mut AckTracker) -> Vec<RangeInclusive<u64>> {
        tracker.take(Instant::ZERO).expect("something received").ranges.to_vec()
    }

    #[test]
    fn urgent_packets_are_acknowledged_at_once_and_bulk_after_ten_milliseconds_or_eight() {
        let mut tracker = AckTracker::default();
        let at = Instant::from_millis;
        tracker.on_received(at(1), 0, BULK);
        assert_eq!(tracker.due_at(), Some(at(11)));
        (1..8).for_each(|pn| tracker.on_received(at(2), pn, BULK));
        assert_eq!(tracker.due_at(), Some(at(2)));
        let ack = tracker.take(at(5)).expect("due");
        assert_eq!((ack.largest, ack.received_at, ack.delay), (7, at(2), Duration::from_millis(3)));
        assert!(!tracker.has_news());
        tracker.on_received(at(6), 8, URGENT);
        assert_eq!(tracker.due_at(), Some(at(6)));
    }

    #[test]
    fn what_may_wait_is_acknowledged_after_25_ms_unless_a_gap_opens() {
        const MAY_WAIT: Arrival = Arrival { may_wait: true, ..URGENT };
        let mut tracker = AckTracker::default();
        let at = Instant::from_millis;
        tracker.on_received(at(1), 0, MAY_WAIT);
        assert_eq!(tracker.due_at(), Some(at(26)));
        tracker.on_received(at(21), 1, MAY_WAIT);
        assert_eq!(tracker.due_at(), Some(at(26)));
        tracker.on_received(at(22), 2, URGENT);
        assert_eq!(tracker.due_at(), Some(at(22)));
        tracker.take(at(22)).expect("due");
        tracker.on_received(at(40), 4, MAY_WAIT);
        assert_eq!(tracker.due_at(), Some(at(40)), "3 is missing");
    }

    #[test]
    fn a_gap_before_what_is_in_order_is_told_at_once_four_times_and_elsewhere_three() {
        let mut tracker = AckTracker::default();
        let at = Instant::from_millis;
        tracker.on_received(at(1), 0, SYMBOL);
        tracker.take(at(1)).expect("something received");
        assert!(!tracker.has_news_of_gap());
        for pn in 2..=4 {
            tracker.on_received(at(pn), pn, SYMBOL);
            assert_eq!(tracker.due_at(), Some(at(pn)));
            assert!(tracker.has_news_of_gap());
            let elsewhere = tracker.take_elsewhere(at(pn)).expect("there is a gap");
            assert_eq!(elsewhere, tracker.take(at(pn)).expect("its own is due all the same"));
        }
        tracker.on_received(at(5), 5, SYMBOL);
        assert!(!tracker.has_news_of_gap());
        assert_eq!(tracker.due_at(), Some(at(15)));
        let mut other = AckTracker::default();
        [0, 2, 3].into_iter().for_each(|pn| other.on_received(at(1), pn, BULK));
        assert!(!other.has_news_of_gap(), "nothing waits behind it");
    }

    #[test]
    fn what_does_not_count_is_no_loss_where_it_is_missing_and_none_undone_where_it_comes_late() {
        let mut tracker = AckTracker::default();
        let at = Instant::from_millis;
        tracker.on_received(at(1), 0, URGENT);
        tracker.on_uncounted(1, 20);
        tracker.on_uncounted(1, 30);
        tracker.on_received(at(2), 31, URGENT);
        assert_eq!(tracker.loss().loss(), 0.0);
        // Two more are missing.
        tracker.on_uncounted(33, 33);
        tracker.on_received(at(3), 35, URGENT);
        let lost = tracker.loss().loss();
        assert!((lost - 2.0 / 5.0).abs() < 1e-9, "{lost}");
        tracker.on_received(at(4), 33, URGENT);
        assert_eq!(tracker.loss().loss(), lost);
        // What is told later is undone.
        tracker.on_uncounted(32, 34);
        assert!(tracker.loss().loss() < 1e-9);
        tracker.on_uncounted(0, u64::MAX);
        (0..100).for_each(|first| tracker.on_uncounted(first, u64::MAX));
        assert_eq!(tracker.uncounted.len(), UNCOUNTED);
        tracker.on_received(at(5), u64::MAX, URGENT);
        assert!(tracker.loss().loss() < 1e-9);
    }

    #[test]
    fn packets_that_elicit_nothing_are_listed_but_make_nothing_due() {
        let mut tracker = AckTracker::default();
        tracker.on_received(Instant::ZERO, 5, Arrival::default());
        assert_eq!((tracker.due_at(), tracker.has_news()), (None, false));
        assert_eq!(ranges_of(&mut tracker), [5..=5]);
    }

    #[test]
    fn acknowledged_acknowledgements_are_not_repeated() {
        let mut tracker = AckTracker::default();
        [0, 1, 5, 6, 9].into_iter().for_each(|pn| tracker.on_received(Instant::ZERO, pn, BULK));
        tracker.on_ack_of_ack(6, Instant::ZERO);
        assert_eq!(ranges_of(&mut tracker), [9..=9, 6..=6]);
    }

    #[test]
    fn what_comes_after_larger_numbers_were_told_is_told_as_well() {
        let mut tracker = AckTracker::default();
        let at = Instant::from_millis;
        [0, 1, 5, 6, 9].into_iter().for_each(|pn| tracker.on_received(at(1), pn, BULK));
        tracker.on_received(at(3), 3, BULK);
        // It left before 3 came.
        tracker.on_ack_of_ack(9, at(2));
        assert_eq!(ranges_of(&mut tracker), [9..=9, 3..=3]);
        tracker.on_received(at(4), 2, BULK);
        assert_eq!(ranges_of(&mut tracker), [9..=9, 2..=3]);
        tracker.on_ack_of_ack(9, at(5));
        assert_eq!(ranges_of(&mut tracker), [9..=9]);
    }

    /// Six steps, each of them one of five packets or the news that the acknowledgement of one
    /// arrived.
    #[test]
    fn any_six_steps_leave_what_a_set_holds() {
        const KINDS: u64 = 10;
        for script in 0..KINDS.pow(6) {
            let mut tracker = AckTracker::default();
            let (mut received, mut told) = (BTreeSet::new(), BTreeSet::new());
            for step in 0..6 {
                let kind = script / KINDS.pow(step) % KINDS;
                let (pn, now) = (kind / 2, Instant::from_millis(step.into()));
                if kind.is_multiple_of(2) {
                    tracker.on_received(now, pn, BULK);
                    received.insert(pn);
                    told.remove(&pn);
                } else if received.contains(&pn) {
                    // An acknowledgement that left just now.
                    tracker.on_ack_of_ack(pn, now);
                    told.extend(received.range(..pn).copied());
                }
            }
            let Some(ack) = tracker.take(Instant::ZERO) else {
                assert!(received.is_empty());
                continue;
            };
            let listed: Vec<u64> =
                ack.ranges.iter().flat_map(|range| range.clone().rev()).collect();
            // What is told already may be told again with what is beside it.
            let news: Vec<u64> = received.difference(&told).copied().collect();
            assert!(news.iter().all(|pn| listed.contains(pn)), "{script}: {listed:?} of {news:?}");
            assert!(listed.iter().all(|pn| received.contains(pn)), "{script}: {listed:?}");
            assert_eq!(Some(&ack.largest), received.last(), "{script}");
            let apart = |pn: &&u64| !news.iter().any(|new| new.abs_diff(**pn) <= 1);
            let idle = listed.iter().filter(|pn| told.contains(pn)).filter(apart).count();
            assert!(idle <= 1, "{script}: {listed:?} of {news:?}");
        }
    }

    proptest! {
        #[test]
        fn ranges_are_exactly_what_was_received(
            numbers in proptest::collection::vec(0_u64..2 * limits::ACK_RANGES as u64, 1..100)
        ) {
            let mut tracker = AckTracker::default();
            numbers.iter().for_each(|&pn| tracker.on_received(Instant::ZERO, pn, BULK));
            let ranges = ranges_of(&mut tracker);
            let listed: BTreeSet<u64> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(listed, numbers.into_iter().collect());
            prop_assert!(ranges.windows(2).all(|pair| *pair[1].end() + 1 < *pair[0].start()));
        }

        #[test]
        fn too_many_ranges_lose_the_oldest(numbers in proptest::collection::vec(0_u64..2_000, 1..400)) {
            let mut tracker = AckTracker::default();
            numbers.iter().for_each(|&pn| tracker.on_received(Instant::ZERO, pn, BULK));
            let ranges = ranges_of(&mut tracker);
            let seen: BTreeSet<u64> = numbers.into_iter().collect();
            prop_assert!(ranges.len() <= limits::ACK_RANGES);
            prop_assert_eq!(ranges.first().map(|range| *range.end()), seen.last().copied());
            prop_assert!(ranges.iter().cloned().flatten().all(|pn| seen.contains(&pn)));
        }
    }
}
