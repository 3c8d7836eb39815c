//! The silent runs that a path has come back from: how long its bursts of losses last.
//!
//! ```text
//! run    = how long the oldest unanswered packet had been overdue, with two more overdue behind
//!          it, when a newer packet was answered in time; from 25 to 250 ms
//! usual  = the second longest run of the last 10 to 20 s
//! ```
//! A radio that loses in bursts is silent again and again for as long as its bursts last, and each
//! time it comes back. Counting the packets of such a burst says nothing, because they share one
//! fate; what tells the end of the path from one more burst is that the silence lasts longer than
//! they do. One run alone is an event, not a habit, so the second longest counts; and what lasts
//! longer than 250 ms is an outage, during which bulk is better off elsewhere, however often it
//! comes. An answer that is overdue itself ends no burst: the path stood still, or has become
//! slower. This file only remembers; `health.rs` decides what follows.

use units::{Duration, Instant};

use super::health::SILENCE;
use crate::recovery::LINK_MEMORY;

/// A longer silence is an outage: a frame of video that waits for its end has become useless.
const LONGEST_RUN: Duration = Duration::from_millis(250);
/// Half of the time for which stalls are remembered: recorded operators have some in each minute.
const HALF_STALL_MEMORY: Duration = Duration::from_secs(60);

/// Remembers the two longest silent runs of either half of the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bursts {
    since: Instant,
    /// The runs of the present half, which began at `began`, and of the one before; the longest
    /// first.
    halves: [[Duration; 2]; 2],
    /// Longer runs do not count.
    longest: Duration,
    /// Half of the memory: of bursts, with 100 ms and 20 % loss there are twenty in it.
    half: Duration,
}

impl Bursts {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            halves: [[Duration::ZERO; 2]; 2],
            longest: LONGEST_RUN,
            half: LINK_MEMORY,
        }
    }

    /// Remembers how long a link stalls that releases what it held: longer runs, for longer.
    pub(super) fn stalls(now: Instant) -> Self {
        Self { longest: Duration::MAX, half: HALF_STALL_MEMORY, ..Self::new(now) }
    }

    /// Notes that the path answered after its answer had been overdue for `run`.
    pub(super) fn on_return(&mut self, now: Instant, run: Duration) {
        self.forget(now);
        if !(SILENCE..=self.longest).contains(&run) {
            return;
        }
        let [longest, second] = &mut self.halves[0];
        if run > *longest {
            (*longest, *second) = (run, *longest);
        } else {
            *second = run.max(*second);
        }
    }

    /// Returns the length of a silence that the path has come back from more than once.
    pub(super) fn usual(&self, now: Instant) -> Duration {
        if self.halves == [[Duration::ZERO; 2]; 2] {
            return Duration::ZERO;
        }
        let mut recent = *self;
        recent.forget(now);
        let [new, old] = recent.halves;
        // The second of four that are sorted in pairs.
        new[0].min(old[0]).max(new[1]).max(old[1])
    }

    fn forget(&mut self, now: Instant) {
        let elapsed = now.since(self.since);
        if elapsed >= self.half * 2 {
            *self = Self { longest: self.longest, half: self.half, ..Self::new(now) };
        } else if elapsed >= self.half {
            self.since += self.half;
            self.halves = [[Duration::ZERO; 2], self.halves[0]];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1_000)
    }

    #[test]
    fn one_long_run_is_no_habit_and_two_are() {
        let mut bursts = Bursts::new(at(0));
        bursts.on_return(at(1), ms(120));
        assert_eq!(bursts.usual(at(2)), Duration::ZERO);
        bursts.on_return(at(2), ms(80));
        assert_eq!(bursts.usual(at(2)), ms(80));
        bursts.on_return(at(3), ms(100));
        assert_eq!(bursts.usual(at(3)), ms(100));
        bursts.on_return(at(12), ms(110));
        assert_eq!(bursts.usual(at(12)), ms(110), "one in either half of the memory");
    }

    #[test]
    fn outages_are_no_bursts() {
        let mut bursts = Bursts::new(at(0));
        (1..9).for_each(|second| bursts.on_return(at(second), ms(400)));
        assert_eq!(bursts.usual(at(9)), Duration::ZERO);
    }

    #[test]
    fn runs_are_forgotten_after_twenty_seconds() {
        let mut bursts = Bursts::new(at(0));
        (1..9).for_each(|second| bursts.on_return(at(second), ms(40)));
        assert_eq!(bursts.usual(at(19)), ms(40));
        assert_eq!(bursts.usual(at(20)), Duration::ZERO);
        assert_eq!(bursts.usual(at(500)), Duration::ZERO);
    }
}
