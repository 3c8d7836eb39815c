//! What is known of copies that fail: frequencies, given what else has just failed.
//!
//! ```text
//! f(S | F) = Π over i in S of P(copy on i fails | paths of F and paths of S before i failed)     eq. 1 without its
//!                                                                                                independence
//! u(S | F) = share of failed flights S that nothing saved before the deadline; before there are
//!            samples the
//!            chain goes on over the rounds that fit:  Π over rounds r, paths j of P(j fails | F,
//!            S, and those before) a second copy on a lone path goes before them: P(it fails | the
//!            first has)
//! fails    = lost, or later than the deadline
//! ```
//! Sources: [ConClone eq. 1]; conditional chains in place of its independence, and priors, are
//! ours.
//!
//! A path that becomes worse does so in all that is known of it: what its failures say of others,
//! and of what comes after them, is learned anew while that lasts, and is what it was when that is
//! over. Links that mostly fail together do not so while one of them has a bad minute of its own,
//! and there are too few failures afterwards to see it.
//!
//! What may be learned from which copy:
//! 1. Copies that leave at once leave whatever happens: they teach P(i | F and any of those beside
//!    it that failed).
//! 2. Copies of later rounds left because others had failed: they teach P(j | those that failed),
//!    never P(j) alone. A path's loss learned from them would be that of bad moments.

use std::collections::BTreeMap;

use units::Instant;

use super::choice::{Launch, Second};
use super::frequency::{Change, Frequency};
use super::slots::{Mask, SLOTS};

/// How many samples a prior counts for.
pub(super) const PRIOR_WEIGHT: f64 = 10.0;
/// Prior of a path's failures, and of its failures when another path has failed: one in ten.
/// Independence would say much less of the latter, and be wrong by orders of magnitude where links
/// share a mast or a street.
pub(super) const PRIOR: f64 = 0.1;
/// Prior of a path's failure just after another one of its own: losses come in bursts.
const PRIOR_AGAIN: f64 = 0.5;
/// The same when others have failed as well: what has taken them all down lasts.
const PRIOR_ALL_AGAIN: f64 = 0.8;

/// A path, the paths that had failed when the message left, and those whose copies of this message
/// have failed.
type Cell = (usize, u8, u8);

/// The frequencies of one deadline.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Of copies. That a path has failed before and fails again says more than either: so both are
    /// told apart …
    copies: BTreeMap<Cell, Frequency>,
    /// … as far as there are samples; before that, by the paths of either kind.
    unions: BTreeMap<(usize, u8), Frequency>,
    /// Of failed flights that were missed, by the paths that had failed before, by flight, by what
    /// followed on a lone path, and by whether answers could wait.
    rescues: BTreeMap<(u8, u8, Second, bool), Frequency>,
    /// Of second copies on a lone path whose first had failed, by how they left and by whether the
    /// path had failed before.
    seconds: BTreeMap<(Second, bool), Frequency>,
}

/// How a frequency is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// With its prior: what to plan with.
    Planned,
    /// No more than the samples prove: what to call a target out of reach by.
    Proven,
}

impl Failures {
    /// Takes the fate of copies that left together, `failed` of them; the paths `before` had failed
    /// when the message was handed in, and `earlier` copies of it.
    pub(super) fn learn(
        &mut self,
        now: Instant,
        [before, earlier]: [Mask; 2],
        sent: Mask,
        failed: Mask,
    ) {
        for path in sent.iter() {
            let failure = f64::from(u8::from(failed.contains(path)));
            for beside in failed.without(path).subsets() {
                let others = earlier.and(beside);
                let cell = (path, before.bits(), others.bits());
                self.copies.entry(cell).or_default().learn(now, failure);
                let given = before.and(others);
                let union = self.unions.entry((path, given.bits())).or_default();
                let change = union.learn(now, failure).filter(|_| given.is_empty());
                if let Some(change) = change {
                    self.on_change(path, change);
                }
            }
        }
    }

    /// Takes what became of a second copy on a lone path whose first has failed.
    pub(super) fn learn_second(
        &mut self,
        now: Instant,
        before: Mask,
        (second, has_failed): (Second, bool),
    ) {
        let failure = f64::from(u8::from(has_failed));
        self.seconds.entry((second, before.is_empty())).or_default().learn(now, failure);
    }

    /// Takes how much was missed of a flight that failed whole, from 0 to 1.
    pub(super) fn learn_rescue(&mut self, now: Instant, before: Mask, launch: Launch, missed: f64) {
        let cell = rescue_cell(before, launch);
        self.rescues.entry(cell).or_default().learn(now, missed);
    }

    /// Forgets what is known of a path: another one takes its place.
    pub(super) fn forget(&mut self, path: usize) {
        let has = |set: u8| set & (1 << path) != 0;
        self.copies.retain(|(of, before, failed), _| *of != path && !has(*before) && !has(*failed));
        self.unions.retain(|(of, failed), _| *of != path && !has(*failed));
        self.rescues.retain(|(before, flight, ..), _| !has(*before) && !has(*flight));
        self.seconds.clear();
    }

    /// Returns f(S | F).
    pub(super) fn flight(&self, before: Mask, flight: Mask, reading: Reading) -> f64 {
        self.chain(before, Mask::NONE, flight, reading).0
    }

    /// Returns u(S | F), where something follows on a lone path, or nothing, and the paths of each
    /// set in `rounds` get a copy in one round after the other, all of them in time.
    pub(super) fn rescue(
        &self,
        before: Mask,
        launch: Launch,
        rounds: impl Iterator<Item = Mask>,
        reading: Reading,
    ) -> f64 {
        let cell = rescue_cell(before, launch);
        let measured = self.rescues.get(&cell).copied().unwrap_or_default();
        if reading == Reading::Proven {
            return measured.at_least();
        }
        let (mut failed, mut share) = (launch.paths, self.second(launch.second, before));
        for round in rounds {
            let (next, after) = self.chain(before, failed, round, reading);
            (share, failed) = (share * next, after);
        }
        measured.mean(share, PRIOR_WEIGHT)
    }

    /// Returns P(copy on the path fails | paths that had failed before, copies that have).
    pub(super) fn copy(&self, path: usize, before: Mask, failed: Mask, reading: Reading) -> f64 {
        let cell = self.copies.get(&(path, before.bits(), failed.bits()));
        let cell = cell.copied().unwrap_or_default();
        if reading == Reading::Proven {
            return cell.at_least();
        }
        let either = before.and(failed);
        let union = self.union(path, either).unwrap_or_default();
        let prior = union.mean(self.prior(path, either), PRIOR_WEIGHT);
        // Where they are the same samples, they count once.
        let is_both = !before.is_empty() && !failed.is_empty();
        if is_both { cell.mean(prior, PRIOR_WEIGHT) } else { prior }
    }

    /// Returns P(second copy on a lone path fails | the first one has).
    fn second(&self, second: Second, before: Mask) -> f64 {
        let prior = match second {
            Second::Never => return 1.0,
            Second::Soon => PRIOR_AGAIN,
            // It is lost no more often, being further from the first; whether it is too late is
            // soon seen.
            Second::Rides => self.second(Second::Soon, before),
        };
        let known = self.seconds.get(&(second, before.is_empty())).copied().unwrap_or_default();
        known.mean(prior, PRIOR_WEIGHT)
    }

    /// Returns how many copies on a path are known to have failed or not after those on `failed`
    /// had failed.
    pub(super) fn samples(&self, path: usize, failed: Mask) -> u64 {
        self.union(path, failed).map_or(0, |union| union.samples().round() as u64)
    }

    /// Returns the two paths that fail together most often, and how often the second one does when
    /// the first one has.
    pub(super) fn worst_pair(&self, present: Mask) -> Option<([usize; 2], f64)> {
        let pairs = present.iter().flat_map(|one| {
            present.without(one).iter().map(move |other| ([one, other], Mask::NONE.with(one)))
        });
        let shares = pairs
            .map(|(pair, failed)| (pair, self.copy(pair[1], Mask::NONE, failed, Reading::Planned)));
        shares.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Lets what is known of the failures of a path, and of others given those, change with the
    /// path.
    fn on_change(&mut self, path: usize, change: Change) {
        let is_worse =
            |path: &usize| self.union(*path, Mask::NONE).is_some_and(|own| own.is_worse());
        let worse = (0..SLOTS).filter(is_worse).fold(Mask::NONE, Mask::with).bits();
        let copies = self.copies.iter_mut();
        let copies = copies.map(|((of, before, failed), known)| (1 << of, before | failed, known));
        let unions = self.unions.iter_mut().map(|((of, failed), known)| (1 << of, *failed, known));
        // What a path does on its own it knows by itself.
        let given = copies.chain(unions).filter(|(_, given, _)| *given != 0);
        let given = given.map(|(of, given, known)| (of | given, known));
        let rescues = self.rescues.iter_mut();
        let rescues = rescues.map(|((before, flight, ..), known)| (before | flight, known));
        let seconds = self.seconds.values_mut().map(|known| (1 << path, known));
        let has_path = |(paths, _): &(u8, _)| paths & (1 << path) != 0;
        for (paths, known) in given.chain(rescues).chain(seconds).filter(has_path) {
            match change {
                Change::Worse => known.worsen(),
                Change::Back if paths & worse == 0 => known.go_back(),
                // Another path that it depends on is worse still.
                Change::Back => {}
            }
        }
    }

    fn union(&self, path: usize, failed: Mask) -> Option<Frequency> {
        self.unions.get(&(path, failed.bits())).copied()
    }

    /// Multiplies along a chain, and returns which copies have failed at its end.
    fn chain(&self, before: Mask, failed: Mask, paths: Mask, reading: Reading) -> (f64, Mask) {
        let step = |(share, failed): (f64, Mask), path| {
            (share * self.copy(path, before, failed, reading), failed.with(path))
        };
        paths.iter().fold((1.0, failed), step)
    }

    /// Returns what is assumed before there are samples: never less than what is known of fewer
    /// failures.
    fn prior(&self, path: usize, failed: Mask) -> f64 {
        let own = match (failed.contains(path), failed.without(path).is_empty()) {
            (false, _) => PRIOR,
            (true, true) => PRIOR_AGAIN,
            (true, false) => PRIOR_ALL_AGAIN,
        };
        if failed.is_empty() {
            return own;
        }
        let known = |fewer: Mask| {
            let cell = self.union(path, fewer)?;
            (cell.samples() >= PRIOR_WEIGHT).then(|| cell.mean(PRIOR, PRIOR_WEIGHT))
        };
        let fewer = failed.iter().map(|other| failed.without(other));
        fewer.filter_map(known).fold(own, f64::max)
    }
}

fn rescue_cell(before: Mask, launch: Launch) -> (u8, u8, Second, bool) {
    (before.bits(), launch.paths.bits(), launch.second, launch.waits)
}

#[cfg(test)]
mod tests {
    use units::Rng;

    use super::*;

    fn at(message: u64) -> Instant {
        Instant::from_millis(1_000 + 20 * message)
    }

    fn set(paths: &[usize]) -> Mask {
        paths.iter().fold(Mask::NONE, |set, path| set.with(*path))
    }

    #[test]
    fn before_there_is_evidence_links_fail_together_in_one_case_of_ten() {
        let failures = Failures::default();
        let both = failures.flight(Mask::NONE, set(&[0, 1]), Reading::Planned);
        assert!((both - 0.01).abs() < 1e-9, "{both}");
        assert_eq!(failures.flight(Mask::NONE, set(&[0, 1]), Reading::Proven), 0.0);
    }

    #[test]
    fn links_that_fail_together_are_not_multiplied() {
        let (mut failures, mut rng) = (Failures::default(), Rng::new(1));
        let (mut own, mut joint) = (0, 0);
        const MESSAGES: u64 = 20_000;
        for message in 0..MESSAGES {
            let common = rng.chance(0.005);
            let fails = [(); 2].map(|()| common || rng.chance(0.01));
            let failed = (0..2).filter(|path| fails[*path]).fold(Mask::NONE, Mask::with);
            failures.learn(at(message), [Mask::NONE; 2], set(&[0, 1]), failed);
            own += u64::from(fails[0]);
            joint += u64::from(fails[0] && fails[1]);
        }
        let share = |count: u64| count as f64 / MESSAGES as f64;
        let predicted = failures.flight(Mask::NONE, set(&[0, 1]), Reading::Planned);
        assert!((0.6..1.6).contains(&(predicted / share(joint))), "{predicted}, {}", share(joint));
        assert!(predicted > 10.0 * share(own) * share(own), "far from independent");
    }

    /// Both links fail together now and then, and seldom alone; then the first one loses a fifth on
    /// its own for half a minute. Seen to fail without [`Failures::on_change`]: what it lost alone
    /// hides for minutes that they fail together.
    #[test]
    fn what_failures_of_a_path_say_of_others_is_as_before_when_its_bad_time_is_over() {
        (1..=10).for_each(bad_time_on_its_own);
    }

    fn bad_time_on_its_own(seed: u64) {
        let (mut failures, mut rng, mut message) = (Failures::default(), Rng::new(seed), 0);
        let mut feed = |failures: &mut Failures, seconds: u64, alone: f64| {
            for _ in 0..seconds * 50 {
                let common = rng.chance(0.005);
                let fails = [alone, 0.001].map(|alone| common || rng.chance(alone));
                let failed = (0..2).filter(|path| fails[*path]).fold(Mask::NONE, Mask::with);
                failures.learn(at(message), [Mask::NONE; 2], set(&[0, 1]), failed);
                message += 1;
            }
            failures.copy(1, Mask::NONE, set(&[0]), Reading::Planned)
        };
        let before = feed(&mut failures, 300, 0.001);
        assert!(before > 0.5, "they fail together: {before}");
        let meanwhile = feed(&mut failures, 30, 0.2);
        assert!(meanwhile < 0.15, "what it loses now is its own: {meanwhile}");
        let after = feed(&mut failures, 4, 0.001);
        assert!(after > 0.5, "they fail together again: {after}");
    }

    /// A second every 100 s, in which both links are out; each loses 1 % besides. Seen to fail with
    /// nothing counted to what was kept once it is ([`Frequency`]): of each outage a tenth was
    /// remembered.
    #[test]
    fn outages_that_links_have_in_common_are_remembered_when_they_are_over() {
        let (mut failures, mut rng) = (Failures::default(), Rng::new(1));
        let both = set(&[0, 1]);
        for message in 0..50_000 {
            let is_out = message % 5_000 >= 4_500 && message % 5_000 < 4_550;
            let fails = |_: &usize| is_out || rng.chance(0.01);
            let failed = (0..2).filter(fails).fold(Mask::NONE, Mask::with);
            failures.learn(at(message), [Mask::NONE; 2], both, failed);
            if message % 5_000 == 4_999 {
                let together = failures.copy(1, Mask::NONE, set(&[0]), Reading::Planned);
                assert!(together > 0.3, "after {message} messages: {together}");
            }
        }
    }

    #[test]
    fn a_path_that_another_one_replaces_is_unknown_again() {
        let mut failures = Failures::default();
        for message in 0..1_000 {
            failures.learn(at(message), [Mask::NONE; 2], set(&[0, 1]), Mask::NONE);
        }
        assert!(failures.copy(0, Mask::NONE, Mask::NONE, Reading::Planned) < 0.01);
        failures.forget(0);
        assert_eq!(failures.copy(0, Mask::NONE, Mask::NONE, Reading::Planned), PRIOR);
        assert!(failures.copy(1, Mask::NONE, Mask::NONE, Reading::Planned) < 0.01);
    }
}
