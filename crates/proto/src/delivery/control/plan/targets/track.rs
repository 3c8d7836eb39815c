//! Which paths have just failed, as far as their sender knows: what a plan depends on at every
//! message.
//!
//! ```text
//! fails: no answer is overdue but the newest copies' … the oldest copy since the newest answered one is overdue
//! ```
//! That is the same question as a path's health asks of all its packets; here it is about copies
//! alone, so that what is learned of a failing path is learned under the very condition that it is
//! used under.

use std::collections::VecDeque;

use units::{Duration, Instant};

use super::NEWS;
use crate::limits;

/// The copies on one path whose answers are still to come.
#[derive(Debug, Default)]
pub(super) struct Track {
    /// When they left, from the newest answered one on, and whether they were expected to arrive.
    open: VecDeque<(Instant, bool)>,
}

/// What a path is believed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belief {
    /// The newest answer that was due has come.
    Works,
    /// It has not.
    Fails,
    /// It has not, and that is news: when the copy left, the path was believed to work.
    Surprises,
}

impl Track {
    /// Notes a copy that leaves, on a path that is believed to work or not.
    pub(super) fn on_sent(&mut self, now: Instant, is_expected: bool) {
        if self.open.len() < limits::COPIES_FOLLOWED {
            self.open.push_back((now, is_expected));
        }
    }

    /// Notes that a copy was answered: those before it are no news any more.
    pub(super) fn on_acked(&mut self, sent_at: Instant) {
        while self.open.front().is_some_and(|(open, _)| *open <= sent_at) {
            self.open.pop_front();
        }
    }

    /// Returns when the oldest copy left whose answer is awaited, of those that were expected to
    /// arrive.
    pub(super) fn awaited_since(&self) -> Option<Instant> {
        self.open.iter().find(|(_, is_expected)| *is_expected).map(|(open, _)| *open)
    }

    /// Tells what became of the newest copy whose fate is known; an answer takes `answer_after`.
    pub(super) fn belief(&mut self, now: Instant, answer_after: Duration) -> Belief {
        while self.open.front().is_some_and(|(open, _)| now.since(*open) > answer_after + NEWS) {
            self.open.pop_front();
        }
        let mut overdue = self.open.iter().take_while(|(open, _)| now.since(*open) >= answer_after);
        match overdue.next() {
            None => Belief::Works,
            Some((_, true)) => Belief::Surprises,
            Some(_) if overdue.any(|(_, is_expected)| *is_expected) => Belief::Surprises,
            Some(_) => Belief::Fails,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Duration = Duration::from_millis(25);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000 + ms)
    }

    #[test]
    fn a_path_fails_from_an_overdue_answer_until_the_next_one() {
        let mut track = Track::default();
        (0..3).for_each(|message| track.on_sent(at(20 * message), true));
        assert_eq!(track.belief(at(24), ANSWER), Belief::Works);
        assert_eq!(track.belief(at(25), ANSWER), Belief::Surprises);
        track.on_acked(at(20));
        assert_eq!(track.belief(at(50), ANSWER), Belief::Works, "a newer one was answered");
        assert_eq!(track.belief(at(65), ANSWER), Belief::Surprises);
        track.on_sent(at(100), false);
        let belief = track.belief(at(40 + 526), ANSWER);
        assert_eq!(belief, Belief::Fails, "what was not expected is no surprise");
        assert_eq!(track.belief(at(100 + 526), ANSWER), Belief::Works, "it is no news any more");
    }
}
