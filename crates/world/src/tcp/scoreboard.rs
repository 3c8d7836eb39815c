//! What is under way, segment by segment: acknowledged, selectively acknowledged, lost, sent again;
//! and RACK, which tells what is lost by time [RFC 8985 §6].
//!
//! ```text
//! in flight = sent − sacked − lost + sent again
//! lost      = sent before the newest delivered segment, and longer ago than RACK.rtt + window
//! window    = min(min_rtt/4 · steps, srtt); none before reordering was seen, once in a recovery or
//!             with three segments sacked. A DSACK adds a step; 16 recoveries later there is one
//!             again
//! ```
//! Segments have numbers here, from zero; all but the last are of one length.

use std::collections::VecDeque;

use units::{Duration, Instant};

/// Selectively acknowledged segments that begin a recovery without reordering [RFC 8985 §6.2].
const DUPLICATE_THRESHOLD: usize = 3;
/// Recoveries for which a widened window holds [RFC 8985 §6.2].
const WINDOW_PERSISTS: u32 = 16;

/// One segment that is not cumulatively acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    sacked: bool,
    lost: bool,
    /// Its repeat is under way.
    again: bool,
    /// It was sent more than once.
    ever_again: bool,
}

/// What an acknowledgement brought.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Segments newly known to be delivered, and those of them by SACK.
    pub(super) delivered: u32,
    pub(super) sacked: u32,
    /// Segments of the cumulative acknowledgement.
    pub(super) acked: u32,
    /// A segment that was sent once before the present recovery began was delivered.
    pub(super) original: bool,
    /// A segment that was sent again was cumulatively acknowledged.
    pub(super) repeated: bool,
    /// Round trips of the earliest and the latest of those cumulatively acknowledged that were sent
    /// once, and of the first one that was sacked.
    pub(super) first_rtt: Option<Duration>,
    pub(super) last_rtt: Option<Duration>,
    pub(super) sack_rtt: Option<Duration>,
}

/// What RACK finds.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Segments newly thought lost, and whether a repeat is among them.
    pub(super) segments: usize,
    pub(super) repeat: bool,
    /// How long until it would say so of the rest of what was sent before the newest delivered
    /// segment.
    pub(super) wait: Option<Duration>,
}

/// What RACK knows [RFC 8985 §5.2].
#[derive(Debug, Default)]
struct Rack {
    /// The latest sent of what was delivered: when, and the segment.
    newest: Option<(Instant, u64)>,
    rtt: Duration,
    reordering: bool,
    steps: u32,
    persists: u32,
    widened_at: Option<Instant>,
}

/// The segments under way.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    /// The oldest that is not acknowledged.
    first: u64,
    segments: VecDeque<Sent>,
    /// Sent segments by time; what no longer counts is passed over.
    by_time: VecDeque<(Instant, u64)>,
    sacked: usize,
    lost: usize,
    again: usize,
    /// Lost ones that are to be sent again.
    waiting: usize,
    /// The segment after the highest one that was sacked.
    sacked_end: u64,
    /// No segment below is to be sent again.
    hint: u64,
    rack: Rack,
}

impl Scoreboard {
    /// Returns the oldest segment that is not acknowledged.
    pub(super) fn una(&self) -> u64 {
        self.first
    }

    /// Returns the next new segment.
    pub(super) fn next(&self) -> u64 {
        self.first + self.segments.len() as u64
    }

    /// Counts what is under way: Linux's `tcp_packets_in_flight`.
    pub(super) fn in_flight(&self) -> u32 {
        (self.segments.len() - self.sacked - self.lost + self.again) as u32
    }

    /// Tells whether everything was acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Counts what was selectively acknowledged.
    pub(super) fn sacked(&self) -> usize {
        self.sacked
    }

    /// Counts what is thought lost.
    pub(super) fn lost(&self) -> usize {
        self.lost
    }

    /// Counts repeats under way.
    pub(super) fn again(&self) -> usize {
        self.again
    }

    /// Returns when the oldest segment was last sent.
    pub(super) fn oldest_sent_at(&self) -> Option<Instant> {
        self.segments.front().map(|sent| sent.at)
    }

    /// Adds a new segment.
    pub(super) fn on_sent(&mut self, at: Instant) {
        self.by_time.push_back((at, self.next()));
        let (sacked, lost, again, ever_again) = Default::default();
        self.segments.push_back(Sent { at, sacked, lost, again, ever_again });
    }

    /// Returns the first lost segment that was not sent again yet.
    pub(super) fn next_repeat(&mut self) -> Option<u64> {
        if self.waiting == 0 {
            return None;
        }
        self.hint = self.hint.max(self.first);
        let from = (self.hint - self.first) as usize;
        let waits = |sent: &Sent| sent.lost && !sent.again;
        let found = self.segments.range(from.min(self.segments.len())..).position(waits)?;
        self.hint += found as u64;
        Some(self.hint)
    }

    /// Takes down that a segment was sent again.
    pub(super) fn on_repeated(&mut self, segment: u64, at: Instant) {
        let sent = &mut self.segments[(segment - self.first) as usize];
        self.waiting -= usize::from(sent.lost && !sent.again);
        self.again += usize::from(!sent.again);
        (sent.at, sent.again, sent.ever_again) = (at, true, true);
        self.by_time.push_back((at, segment));
    }

    /// Takes an acknowledgement of everything below `ack` and of blocks of segments above; `high`
    /// is where the present recovery began.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        ack: u64,
        blocks: &[(u64, u64)],
        high: u64,
        min_rtt: Duration,
    ) -> Progress {
        let mut progress = Progress::default();
        for &(start, end) in blocks {
            for segment in start.max(self.first).max(ack)..end.min(self.next()) {
                self.on_sacked(now, segment, high, min_rtt, &mut progress);
            }
            self.sacked_end = self.sacked_end.max(end.min(self.next()));
        }
        while self.first < ack.min(self.next()) {
            self.on_first_acked(now, high, min_rtt, &mut progress);
        }
        progress
    }

    /// Marks what RACK thinks is lost.
    pub(super) fn detect(
        &mut self,
        now: Instant,
        min_rtt: Duration,
        srtt: Duration,
        in_recovery: bool,
    ) -> Losses {
        let mut losses = Losses::default();
        let Some(newest) = self.rack.newest else { return losses };
        let patience = self.rack.rtt + self.reordering_window(min_rtt, srtt, in_recovery);
        let mut at = 0;
        while let Some(&(sent_at, segment)) = self.by_time.get(at) {
            if (sent_at, segment) >= newest {
                break;
            }
            let current = self.current(sent_at, segment);
            let waits = current.is_some_and(|sent| sent.lost && !sent.again);
            let left = patience.saturating_sub(now.since(sent_at));
            if current.is_some() && !waits && left.is_zero() {
                losses.segments += 1;
                losses.repeat |= current.is_some_and(|sent| sent.again);
                self.mark_lost(segment);
            } else if current.is_some() && !waits {
                losses.wait = losses.wait.max(Some(left));
            }
            // What no longer counts is forgotten from the front.
            if at == 0 && (current.is_none() || (left.is_zero() && !waits)) {
                self.by_time.pop_front();
            } else {
                at += 1;
            }
        }
        losses
    }

    /// Marks what a retransmission timeout thinks is lost: the oldest segment, and whatever was not
    /// sent lately.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        for index in 0..self.segments.len() {
            let sent = self.segments[index];
            let lately = now.since(sent.at) < self.rack.rtt;
            if !sent.sacked && (index == 0 || !lately) {
                self.mark_lost(self.first + index as u64);
            }
        }
    }

    /// Takes everything back that was thought lost.
    pub(super) fn unmark_lost(&mut self) {
        for sent in &mut self.segments {
            sent.lost = false;
        }
        (self.lost, self.waiting) = (0, 0);
    }

    /// Takes down that a repeat was for nothing: the window of reordering grows, once a round trip.
    pub(super) fn on_duplicate(&mut self, now: Instant, srtt: Duration) {
        let rack = &mut self.rack;
        if !rack.reordering {
            return;
        }
        if rack.widened_at.is_none_or(|at| now.since(at) >= srtt) {
            rack.steps = (rack.steps.max(1) + 1).min(255);
            (rack.persists, rack.widened_at) = (WINDOW_PERSISTS, Some(now));
        }
    }

    /// Takes down that what was thought lost had only come late.
    pub(super) fn on_reordering(&mut self) {
        self.rack.reordering = true;
    }

    /// Takes down that a recovery is over.
    pub(super) fn on_recovered(&mut self) {
        let rack = &mut self.rack;
        rack.persists = rack.persists.saturating_sub(1);
        if rack.persists == 0 {
            rack.steps = 1;
        }
    }

    /// Tells whether segments were seen to come in another order.
    pub(super) fn reordering_seen(&self) -> bool {
        self.rack.reordering
    }

    /// Returns a segment as it was sent at a time, unless it was delivered or sent again since.
    fn current(&self, sent_at: Instant, segment: u64) -> Option<Sent> {
        let index = segment.checked_sub(self.first)?;
        let sent = *self.segments.get(index as usize)?;
        (sent.at == sent_at && !sent.sacked).then_some(sent)
    }

    fn mark_lost(&mut self, segment: u64) {
        let sent = &mut self.segments[(segment - self.first) as usize];
        self.waiting += usize::from(!sent.lost || sent.again);
        self.lost += usize::from(!sent.lost);
        self.again -= usize::from(sent.again);
        (sent.lost, sent.again) = (true, false);
        self.hint = self.hint.min(segment);
    }

    fn on_sacked(
        &mut self,
        now: Instant,
        segment: u64,
        high: u64,
        min_rtt: Duration,
        progress: &mut Progress,
    ) {
        let sent = self.segments[(segment - self.first) as usize];
        if sent.sacked {
            return;
        }
        if !sent.ever_again {
            self.rack.reordering |= segment + 1 < self.sacked_end;
            progress.original |= segment < high;
            progress.sack_rtt = progress.sack_rtt.or(Some(now.since(sent.at)));
        }
        self.sacked += 1;
        progress.sacked += 1;
        progress.delivered += 1;
        self.forget_marks(segment);
        self.segments[(segment - self.first) as usize].sacked = true;
        self.on_delivered(now, segment, sent, min_rtt);
    }

    fn on_first_acked(
        &mut self,
        now: Instant,
        high: u64,
        min_rtt: Duration,
        progress: &mut Progress,
    ) {
        let segment = self.first;
        let sent = self.segments[0];
        progress.acked += 1;
        progress.repeated |= sent.ever_again;
        if sent.sacked {
            self.sacked -= 1;
        } else {
            progress.delivered += 1;
            if !sent.ever_again {
                self.rack.reordering |= segment + 1 < self.sacked_end;
                progress.original |= segment < high;
                progress.last_rtt = Some(now.since(sent.at));
                progress.first_rtt = progress.first_rtt.or(progress.last_rtt);
            }
            self.on_delivered(now, segment, sent, min_rtt);
        }
        self.forget_marks(segment);
        self.segments.pop_front();
        self.first += 1;
    }

    fn forget_marks(&mut self, segment: u64) {
        let sent = &mut self.segments[(segment - self.first) as usize];
        self.waiting -= usize::from(sent.lost && !sent.again);
        self.lost -= usize::from(sent.lost);
        self.again -= usize::from(sent.again);
        (sent.lost, sent.again) = (false, false);
    }

    /// Tells RACK of a delivered segment [RFC 8985 §6.2 step 2].
    fn on_delivered(&mut self, now: Instant, segment: u64, sent: Sent, min_rtt: Duration) {
        let rtt = now.since(sent.at);
        if sent.ever_again && rtt < min_rtt {
            // It was the first one that arrived, not its repeat.
            return;
        }
        self.rack.rtt = rtt;
        self.rack.newest = self.rack.newest.max(Some((sent.at, segment)));
    }

    fn reordering_window(&self, min_rtt: Duration, srtt: Duration, in_recovery: bool) -> Duration {
        let rack = &self.rack;
        if !rack.reordering && (in_recovery || self.sacked >= DUPLICATE_THRESHOLD) {
            return Duration::ZERO;
        }
        (min_rtt / 4).saturating_mul(rack.steps.max(1)).min(srtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Ten segments, a millisecond apart.
    fn ten() -> Scoreboard {
        let mut board = Scoreboard::default();
        (0..10).for_each(|ms| board.on_sent(at(ms)));
        board
    }

    #[test]
    fn three_sacked_segments_tell_of_a_lost_one_before_them() {
        let mut board = ten();
        for (sacked, lost) in [(2, 0), (3, 0), (4, 1)] {
            board.on_ack(at(40 + sacked), 0, &[(1, sacked)], 0, RTT);
            assert_eq!(board.detect(at(40 + sacked), RTT, RTT, false).segments, lost, "{sacked}");
        }
        assert_eq!((board.next_repeat(), board.in_flight()), (Some(0), 6));
        board.on_repeated(0, at(45));
        assert_eq!((board.next_repeat(), board.in_flight()), (None, 7));
    }

    #[test]
    fn a_lost_repeat_is_found_by_what_was_sent_after_it() {
        let mut board = ten();
        board.on_ack(at(45), 0, &[(1, 5)], 0, RTT);
        board.detect(at(45), RTT, RTT, false);
        board.on_repeated(0, at(45));
        board.on_sent(at(46));
        board.on_ack(at(86), 0, &[(1, 11)], 0, RTT);
        assert_eq!(board.detect(at(86), RTT, RTT, true).segments, 1);
        assert_eq!(board.next_repeat(), Some(0));
    }

    #[test]
    fn reordering_gives_a_window_that_duplicates_widen() {
        let mut board = ten();
        board.on_ack(at(43), 0, &[(3, 4)], 0, RTT);
        board.on_ack(at(44), 0, &[(2, 4)], 0, RTT);
        assert!(board.reordering_seen());
        board.on_ack(at(49), 0, &[(2, 9)], 0, RTT);
        let losses = board.detect(at(49), RTT, RTT, false);
        assert_eq!((losses.segments, losses.wait), (0, Some(Duration::from_millis(3))));
        board.on_duplicate(at(49), RTT);
        let losses = board.detect(at(49), RTT, RTT, false);
        assert_eq!((losses.segments, losses.wait), (0, Some(Duration::from_millis(13))));
        assert_eq!(board.detect(at(65), RTT, RTT, false).segments, 2);
    }
}
