//! What is sent when nothing gets through on any path. While at least one path works, none of this
//! is needed.
//!
//! ```text
//! overdue   the answer to the oldest symbol that no feedback covers is later than
//!           srtt + max(2·rttvar, 2 ms) of the slowest path worth symbols
//! round     when the peer says something and that symbol is overdue: it hears nothing of us; or
//!           when it says nothing for 50 ms more: nobody hears anything. 2 · (symbols that no
//!           feedback covers) + 4 repair symbols on every path worth symbols, as far as what was
//!           saved lasts and three windows have room; the next when the answer to this one is
//!           overdue, for a second at most
//! ```
//! When all paths lose everything, what is sent one by one arrives with the first packet that gets
//! through at the earliest, and recovers one symbol each. A round recovers the whole backlog at
//! once, without the round trip that it takes to hear of the end of the burst. Twice the backlog on
//! each path, because the burst may last for part of the round. It is paid for by what source
//! symbols have saved (`redundancy.rs`), so that neither an outage nor a queue of many seconds is
//! answered with more than that. Smaller rounds one after the other, every 10 or 20 ms, were worse:
//! most of them leave when the first has already been enough, and the next silence finds nothing
//! saved.
//!
//! The peer repeats its feedback when nothing new comes (`receiver.rs`), so that a round leaves as
//! soon as the answer is overdue. A way back that is silent alone costs nothing if it is not silent
//! for 50 ms more; beyond that it cannot be told from silence on both ways, and costs a round.

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::VARIATION;
use crate::ids::PathId;
use crate::path::PathSnapshot;

/// How much longer the peer may say nothing at all.
const UNHEARD: Duration = Duration::from_millis(50);
/// Windows that a round may fill on a path: what is new finds room beside it.
const FILL: u64 = 3;
/// After so long without an answer paths are not in a burst but gone.
const LONGEST: Duration = Duration::from_secs(1);

/// Follows a silence, and owes repair symbols for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Silence {
    /// When the next round is due.
    next: Option<Instant>,
    /// Repair symbols that are to leave on each path.
    owed: SmallVec<[(PathId, usize); 4]>,
}

impl Silence {
    /// Returns when a round is due although the peer says nothing, where an answer is overdue from
    /// `overdue` on.
    pub(super) fn due_at(&self, overdue: Instant) -> Option<Instant> {
        let at = self.next.map_or(overdue + UNHEARD, |next| next.max(overdue));
        (at <= overdue + LONGEST).then_some(at)
    }

    /// Begins a round: `open` symbols are covered by no feedback, and `spare` can be paid for.
    /// Its answer is overdue after `wait`. Tells whether it can recover all of them.
    pub(super) fn begin_round(
        &mut self,
        now: Instant,
        paths: &[PathId],
        open: usize,
        spare: usize,
        wait: Duration,
    ) -> bool {
        self.next = Some(now + wait);
        let count = (2 * open + 4).min(spare / paths.len().max(1));
        self.owed.clear();
        self.owed.extend(paths.iter().map(|path| (*path, count)).filter(|_| count > 0));
        count >= open
    }

    /// Tells whether the answer to the last round is overdue, if there was one.
    pub(super) fn may_begin(&self, now: Instant) -> bool {
        self.next.is_none_or(|at| at <= now)
    }

    /// Ends: something was heard.
    pub(super) fn end(&mut self) {
        self.next = None;
        self.owed.clear();
    }

    /// Tells whether something is to leave.
    pub(super) fn is_owing(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Tells whether something is to leave on the path.
    pub(super) fn owes(&self, path: PathId) -> bool {
        self.owed.iter().any(|(owed, _)| *owed == path)
    }

    /// Notes that one of what is owed left on the path.
    pub(super) fn on_sent(&mut self, path: PathId) {
        for (owed, count) in &mut self.owed {
            *count -= usize::from(*owed == path);
        }
        self.owed.retain(|(_, count)| *count > 0);
    }
}

/// Tells whether a round has room on the path.
pub(super) fn has_room(path: &PathSnapshot) -> bool {
    path.in_flight < path.cwnd.saturating_mul(FILL)
}

/// Returns how long after a symbol its answer is overdue.
pub(super) fn overdue_after<'a>(paths: impl Iterator<Item = &'a PathSnapshot>) -> Duration {
    let late = |path: &PathSnapshot| {
        path.srtt_or_initial() + (path.rttvar.unwrap_or_default() * 2).max(VARIATION)
    };
    paths.map(late).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [PathId; 2] = [PathId(0), PathId(1)];

    #[test]
    fn a_round_owes_twice_what_is_open_on_every_path_and_never_more_than_is_saved() {
        let (now, wait) = (Instant::from_millis(1_000), Duration::from_millis(120));
        for (open, spare, each) in [(3, 400, 10), (100, 400, 200), (3, 7, 3), (3, 1, 0), (3, 0, 0)]
        {
            let mut silence = Silence::default();
            silence.begin_round(now, &PATHS, open, spare, wait);
            for path in PATHS {
                let mut sent = 0;
                while silence.owes(path) {
                    silence.on_sent(path);
                    sent += 1;
                }
                assert_eq!(sent, each, "{open} open, {spare} saved");
            }
            assert!(!silence.is_owing());
        }
        let mut silence = Silence::default();
        silence.begin_round(now, &[], 3, 400, wait);
        assert!(!silence.is_owing(), "no path is worth symbols");
    }

    #[test]
    fn rounds_wait_for_an_answer_and_end_with_one_or_after_a_second() {
        let (overdue, wait) = (Instant::from_millis(1_000), Duration::from_millis(400));
        let mut silence = Silence::default();
        assert!(silence.may_begin(overdue), "the peer says that it hears nothing");
        assert_eq!(silence.due_at(overdue), Some(overdue + UNHEARD), "it says nothing");
        for round in 0..=2 {
            let now = overdue + UNHEARD + wait * round;
            assert_eq!(silence.due_at(overdue), Some(now));
            silence.begin_round(now, &PATHS, 5, 400, wait);
            assert!(!silence.may_begin(now + wait / 2) && silence.may_begin(now + wait));
        }
        assert_eq!(silence.due_at(overdue), None, "later than a second: the paths are gone");
        silence.end();
        assert!(!silence.is_owing());
        assert_eq!(silence.due_at(overdue), Some(overdue + UNHEARD));
    }
}
