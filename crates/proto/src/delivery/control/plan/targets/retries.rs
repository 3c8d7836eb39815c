//! How long second tries take: whether those that arrive are in time.
//!
//! ```text
//! took   from handing in to the arrival of a copy of the first round, by its acknowledgement and
//!        the clocks' error; where the newest message counts, from handing in of the one before,
//!        which it replaces
//! late   share of those that were late, of the copies that arrived at all
//! ```
//! This is what the words of a status rest on, not a plan: what is late and what is lost is the
//! same to a plan. When an answer counts as late follows from what answers took, and moves with it:
//! near the deadline only what second tries did take tells whether there is time for one.

use units::{Duration, Instant};

use super::failures::PRIOR_WEIGHT;
use super::flights::Flight;
use super::frequency::Frequency;
use super::slots::{SLOTS, Slots};
use crate::ids::PathId;

/// What second tries of one deadline took, by the place of their path.
#[derive(Clone, Debug, Default)]
pub(super) struct Retries([Retry; SLOTS]);

#[derive(Clone, Copy, Debug, Default)]
struct Retry {
    late: Frequency,
    /// What the newest late one took, rounded up: nobody is told that 70 ms leave no time for 70.
    took: Duration,
}

impl Retries {
    /// Takes what became of the second tries of a message whose fate is certain, and what counted
    /// as the newest `since` a time before it was handed in; that is zero where each message
    /// counts.
    pub(super) fn learn(
        &mut self,
        now: Instant,
        flight: &Flight,
        slots: &Slots,
        [since, deadline]: [Duration; 2],
    ) {
        for copy in flight.copies.iter().filter(|copy| copy.round == 1) {
            let (Some(slot), Some(arrival)) = (slots.find(copy.path), copy.arrival()) else {
                continue;
            };
            let (retry, took) = (&mut self.0[slot], arrival.since(flight.submitted) + since);
            let is_late = took > deadline;
            retry.late.learn(now, f64::from(u8::from(is_late)));
            if is_late {
                retry.took = Duration::from_millis(took.as_millis() + 1);
            }
        }
    }

    /// Forgets what is known of a path: another one takes its place.
    pub(super) fn forget(&mut self, path: usize) {
        self.0[path] = Retry::default();
    }

    /// Returns on which of these paths a second try is there first, and what it takes, where a
    /// quarter are late on each. Few more would be: where the newest message counts, a late answer
    /// calls for second tries of those handed in meanwhile as well, and these are in time.
    pub(super) fn late_on_all(
        &self,
        mut paths: impl Iterator<Item = usize>,
        slots: &Slots,
    ) -> Option<(PathId, Duration)> {
        let mut first: Option<(usize, Duration)> = None;
        let are_late = paths.all(|path| {
            let Retry { late, took } = self.0[path];
            first = first.filter(|(_, least)| *least <= took).or(Some((path, took)));
            late.mean(0.0, PRIOR_WEIGHT) >= 0.25
        });
        let (path, took) = first.filter(|_| are_late)?;
        Some((slots.path(path)?, took))
    }
}
