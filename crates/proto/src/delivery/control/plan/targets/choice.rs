//! Which flight is the cheapest that is good enough.
//!
//! ```text
//! miss(S | F) = f(S | F) · u(S | F)                                     failures.rs
//! cost(S)     = Σ over S of cost of a copy, and of its answer where that leaves at once
//!               + 2 f(earliest of S | F) · cost of a round everywhere                        lost answers cost a
//!               + half of the cost of the earliest · its delay / deadline                    round as well
//! choose the cheapest S with   miss(S | F) ≤ target / 2
//!                       and    miss(S | F) − least miss(F) ≤ 9/10 target − average of the least
//! none: everywhere
//! ```
//! The second condition spends what the links leave of the target, once: where the average is just
//! met whatever is sent, nothing may be saved.
//!
//! Each S is weighed with answers that leave at once, in datagrams of their own, and with answers
//! that ride in what leaves anyway: these cost nothing, and rounds begin as much later.
//!
//! A path on which a copy would be too late, by what is under way there at the rate of the hop,
//! is in no S but that of every path. No other S is of suspected paths alone: nothing would leave.
//!
//! Where one path is all there is, S is there once, or with a second copy, in one of two ways. It
//! rides in the next message's datagram for the price of its own bytes, and leaves by itself
//! where none comes in time; what a newer message replaces does not ride. Or it leaves 5 ms later
//! in a datagram of its own. The failures of either, given the first one's, are measured too.

use units::Duration;

use super::failures::{Failures, Reading};
use super::slots::{Mask, SLOTS};
use crate::delivery::control::plan::all::MIN_ROUND;
use crate::recovery::RIDE;

/// Rounds that are looked ahead: beyond that a path that failed every time is dead.
const ROUNDS: u32 = 8;

/// What follows a copy on a lone path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Second {
    /// Nothing within the round.
    Never,
    /// A second copy in the datagram of the next message.
    Rides,
    /// A second copy 5 ms later.
    Soon,
}

impl Second {
    /// Lists the copies that may follow, first the one that is taken where they are alike. What a
    /// newer message replaces is not worth its bytes any more when that one leaves.
    pub(super) fn copies(newest_counts: bool) -> &'static [Self] {
        if newest_counts { &[Self::Soon] } else { &[Self::Soon, Self::Rides] }
    }

    /// Returns the price, in copies.
    fn price(self) -> f64 {
        match self {
            Self::Never => 0.0,
            // More than none, and less than one with headers of its own: which flight is the
            // cheapest depends on no more.
            Self::Rides => 0.6,
            Self::Soon => 1.0,
        }
    }
}

impl Launch {
    /// Returns how much later answers may come than those that leave at once.
    pub(super) fn held(self) -> Duration {
        if self.waits { RIDE } else { Duration::ZERO }
    }
}

/// What a plan knows of one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// How long a copy takes that is sent now.
    pub(super) transit: Duration,
    /// When the answer to it is overdue.
    pub(super) answer_after: Duration,
    /// The price of a byte.
    pub(super) cost: f64,
    /// Whether a copy that is handed to it leaves.
    pub(super) usable: bool,
}

/// What a plan knows of all paths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ways {
    /// By place.
    pub(super) ways: [Option<Way>; SLOTS],
    /// The time after which an answer of the best path is overdue.
    pub(super) probe: Duration,
}

/// How a message is sent at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    /// Paths that get a copy at once.
    pub(super) paths: Mask,
    /// What follows on a lone path.
    pub(super) second: Second,
    /// Whether answers may wait for something to ride in.
    pub(super) waits: bool,
}

/// A flight, and what is expected of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) launch: Launch,
    /// Share that it is expected to miss.
    pub(super) miss: f64,
}

/// What is asked of a choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// The share that may be missed.
    pub(super) miss: f64,
    /// The least that these links miss on average.
    pub(super) average: f64,
    /// Whether the newest message counts: then rounds begin when something is late that was
    /// expected, and a flight on failing paths alone would never have one.
    pub(super) newest_counts: bool,
    pub(super) deadline: Duration,
    /// What an answer costs that leaves at once, in copies.
    pub(super) answer: f64,
}

impl Ways {
    /// Returns every path that is there.
    pub(super) fn present(&self) -> Mask {
        (0..SLOTS).filter(|slot| self.ways[*slot].is_some()).fold(Mask::NONE, Mask::with)
    }

    /// Returns those on which nothing leaves now.
    pub(super) fn suspected(&self) -> Mask {
        let is_suspected = |slot: &usize| self.ways[*slot].is_some_and(|way| !way.usable);
        (0..SLOTS).filter(is_suspected).fold(Mask::NONE, Mask::with)
    }

    /// Tells whether one path is all there is.
    pub(super) fn is_lone(&self) -> bool {
        self.present().len() == 1
    }

    /// Leaves some out.
    pub(super) fn without(mut self, left_out: Mask) -> Self {
        left_out.iter().for_each(|slot| self.ways[slot] = None);
        self
    }

    /// Returns the paths on which a copy is there within a time.
    pub(super) fn within(&self, time: Option<Duration>) -> Mask {
        let arrives = |slot: &usize| {
            let way = &self.ways[*slot];
            way.is_some_and(|way| time.is_some_and(|time| way.transit <= time))
        };
        (0..SLOTS).filter(arrives).fold(Mask::NONE, Mask::with)
    }

    /// Returns when the rounds of a flight begin: when its earliest answer is late, of those that
    /// may be expected.
    pub(super) fn rounds_from(&self, before: Mask, launch: Launch) -> Option<Duration> {
        let due = expected(before, launch.paths)
            .iter()
            .filter_map(|slot| self.ways[slot])
            .map(|way| way.answer_after + launch.held());
        due.min().map(|due| due.max(MIN_ROUND))
    }

    /// Lists the paths of each round of a flight on which a copy is still in time.
    pub(super) fn rounds(
        &self,
        before: Mask,
        launch: Launch,
        deadline: Duration,
    ) -> impl Iterator<Item = Mask> {
        let (first, step) = (self.rounds_from(before, launch), self.probe.max(MIN_ROUND));
        let left = move |round: u32| deadline.checked_sub(first? + step * round);
        (0..ROUNDS).map(move |round| self.within(left(round))).take_while(|paths| !paths.is_empty())
    }

    /// Returns the share that a flight misses.
    pub(super) fn miss(
        &self,
        failures: &Failures,
        before: Mask,
        launch: Launch,
        deadline: Duration,
        reading: Reading,
    ) -> f64 {
        let rounds = self.rounds(before, launch, deadline);
        let fails = failures.flight(before, launch.paths, reading);
        fails * failures.rescue(before, launch, rounds, reading)
    }

    /// Returns the least share that any flight misses.
    pub(super) fn least(
        &self,
        failures: &Failures,
        before: Mask,
        demand: &Demand,
        reading: Reading,
    ) -> f64 {
        let launches = self.launches(before, demand);
        let miss = |launch| self.miss(failures, before, launch, demand.deadline, reading);
        launches.map(miss).fold(1.0, f64::min)
    }

    /// Chooses the flight for a moment in which the paths `before` fail.
    pub(super) fn choose(&self, failures: &Failures, before: Mask, demand: &Demand) -> Choice {
        let least = self.least(failures, before, demand, Reading::Planned);
        // The average may use up nine tenths of the target, and one message a half.
        let spare = (0.9 * demand.miss - demand.average).max(0.0);
        let fits =
            |choice: &Choice| choice.miss <= demand.miss / 2.0 && choice.miss - least <= spare;
        let choices = self.launches(before, demand).map(|launch| {
            let miss = self.miss(failures, before, launch, demand.deadline, Reading::Planned);
            Choice { launch, miss }
        });
        let cost = |of: &Choice| self.cost(failures, before, of.launch, demand);
        let cheapest = choices
            .filter(fits)
            .min_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.miss.total_cmp(&b.miss)));
        cheapest.unwrap_or_else(|| self.everywhere(failures, before, demand))
    }

    /// Returns the flight on every path, with the second copy that misses the least where there is
    /// one path. Answers wait where no round would be in time.
    pub(super) fn everywhere(&self, failures: &Failures, before: Mask, demand: &Demand) -> Choice {
        let paths = self.present();
        let choice = |second| {
            let at_once = Launch { paths, second, waits: false };
            let waits = self.rounds(before, at_once, demand.deadline).next().is_none();
            let launch = Launch { waits, ..at_once };
            let miss = self.miss(failures, before, launch, demand.deadline, Reading::Planned);
            Choice { launch, miss }
        };
        let copies = self.seconds(demand).iter().map(|second| choice(*second));
        let least = copies.min_by(|a, b| a.miss.total_cmp(&b.miss));
        least.unwrap_or_else(|| choice(Second::Never))
    }

    /// Lists the copies that may follow one within its round: where one path is all there is.
    fn seconds(&self, demand: &Demand) -> &'static [Second] {
        if self.is_lone() { Second::copies(demand.newest_counts) } else { &[] }
    }

    /// Lists the flights that there may be: all there are, and any of the paths that are in time.
    /// Where one path is all there is, with a second copy and without.
    fn launches(&self, before: Mask, demand: &Demand) -> impl Iterator<Item = Launch> {
        let (in_time, all) = (self.within(Some(demand.deadline)), self.present());
        let idle = if demand.newest_counts { before } else { self.suspected() };
        let makes_sense = move |flight: &Mask| flight.is_within(in_time) && !flight.is_within(idle);
        let sets = Mask::sets().filter(move |flight| *flight == all || makes_sense(flight));
        let seconds = self.seconds(demand);
        let following = move || seconds.iter().copied().chain([Second::Never]);
        let of = move |paths| {
            let launch = move |(second, waits)| Launch { paths, second, waits };
            following().flat_map(|second| [(second, false), (second, true)]).map(launch)
        };
        sets.flat_map(of)
    }

    fn cost(&self, failures: &Failures, before: Mask, launch: Launch, demand: &Demand) -> f64 {
        let price = |paths: Mask| -> f64 {
            paths.iter().filter_map(|slot| self.ways[slot]).map(|way| way.cost).sum()
        };
        let due = |slot: &usize| self.ways[*slot].map_or(Duration::MAX, |way| way.answer_after);
        let earliest = expected(before, launch.paths).iter().min_by_key(due);
        let fails =
            earliest.map_or(1.0, |slot| failures.copy(slot, before, Mask::NONE, Reading::Planned));
        let way = earliest.and_then(|slot| self.ways[slot]);
        let delay = way.map_or(0.0, |way| way.cost * way.transit.div_duration_f64(demand.deadline));
        let answered = if launch.waits { 1.0 } else { 1.0 + demand.answer };
        let at_once = price(launch.paths) * (1.0 + launch.second.price()) * answered;
        // Both ways lose alike, as a rule, and lost answers cause rounds as well. Of paths that
        // cost the same, the faster one is to be taken, unless it loses so much that rounds cost
        // more.
        at_once + (2.0 * fails).min(1.0) * price(self.present()) + delay / 2.0
    }
}

/// Returns the paths of a flight of which answers may be expected: not those that fail, unless all
/// do.
pub(super) fn expected(before: Mask, flight: Mask) -> Mask {
    let works = flight.iter().filter(|path| !before.contains(*path)).fold(Mask::NONE, Mask::with);
    if works.is_empty() { flight } else { works }
}

#[cfg(test)]
impl Way {
    /// Returns one over which a copy takes so long, and its answer as long again.
    pub(super) fn of(ms: u64) -> Self {
        let (transit, answer_after) =
            (Duration::from_millis(ms), Duration::from_millis(2 * ms + 5));
        Self { transit, answer_after, cost: 1.0, usable: true }
    }
}

#[cfg(test)]
mod tests {
    use units::Instant;

    use super::*;

    const FAST: usize = 0;
    const SLOW: usize = 1;

    /// Paths of 10 and 35 ms.
    fn ways() -> Ways {
        let ways = [Some(Way::of(10)), Some(Way::of(35)), None, None];
        Ways { ways, probe: Duration::from_millis(25) }
    }

    fn demand(ms: u64, miss: f64) -> Demand {
        let deadline = Duration::from_millis(ms);
        Demand { miss, average: 0.0, newest_counts: false, deadline, answer: 0.8 }
    }

    fn launch(paths: Mask, waits: bool) -> Launch {
        Launch { paths, second: Second::Never, waits }
    }

    /// Failures of paths that each lose one copy in fifty, never together.
    fn known() -> Failures {
        let mut failures = Failures::default();
        let both = Mask::NONE.with(FAST).with(SLOW);
        for message in 0..20_000_u64 {
            let now = Instant::from_millis(1_000 + 20 * message);
            let failed = match message % 50 {
                0 => Mask::NONE.with(FAST),
                25 => Mask::NONE.with(SLOW),
                _ => Mask::NONE,
            };
            failures.learn(now, [Mask::NONE; 2], both, failed);
            if failed.contains(FAST) {
                failures.learn(now, [Mask::NONE, failed], both, Mask::NONE);
            }
        }
        failures
    }

    #[test]
    fn rounds_begin_when_the_earliest_answer_is_late() {
        let (ways, both) = (ways(), Mask::NONE.with(FAST).with(SLOW));
        let from = ways.rounds_from(Mask::NONE, launch(both, false));
        assert_eq!(from, Some(Duration::from_millis(25)));
        let rounds: Vec<usize> = ways
            .rounds(Mask::NONE, launch(both, false), Duration::from_millis(100))
            .map(Mask::len)
            .collect();
        assert_eq!(rounds, [2, 2, 1], "the slow path is in time until 65 ms, the fast until 90");
    }

    #[test]
    fn one_copy_is_enough_where_there_is_time_for_a_second_try() {
        let choose = |ms| ways().choose(&known(), Mask::NONE, &demand(ms, 1e-3)).launch.paths;
        assert_eq!(choose(100), Mask::NONE.with(FAST));
        assert_eq!(choose(34).len(), 2, "no second try is in time");
    }

    /// Seen to fail with the price of an answer left out of [`Ways::cost`], and with rounds that
    /// begin as soon whether answers wait or not.
    #[test]
    fn answers_ride_where_a_second_try_is_in_time_all_the_same_or_never_is() {
        let choose = |ms| ways().choose(&known(), Mask::NONE, &demand(ms, 1e-3)).launch;
        let fast = Mask::NONE.with(FAST);
        assert_eq!(choose(120), launch(fast, true), "a round at 50 ms is soon enough");
        assert_eq!(choose(55), launch(fast, false), "it is not, and one at 25 ms is");
        assert_eq!(choose(34), launch(fast.with(SLOW), true), "none is");
        let everywhere = |ms| ways().everywhere(&known(), Mask::NONE, &demand(ms, 1e-3)).launch;
        assert_eq!([everywhere(55).waits, everywhere(30).waits], [false, true]);
    }

    #[test]
    fn no_flight_is_of_suspected_paths_alone() {
        let (mut ways, known, demand) = (ways(), known(), demand(120, 1e-3));
        let paths = |ways: &Ways| ways.choose(&known, Mask::NONE, &demand).launch.paths;
        assert_eq!(paths(&ways), Mask::NONE.with(FAST));
        ways.ways[FAST].as_mut().expect("a way").usable = false;
        assert!(paths(&ways).contains(SLOW), "nothing leaves on the other one");
    }

    #[test]
    fn before_there_is_evidence_everything_goes_everywhere() {
        let choice = ways().choose(&Failures::default(), Mask::NONE, &demand(100, 1e-3));
        assert_eq!(choice.launch.paths.len(), 2);
        let choice = ways().choose(&known(), Mask::NONE, &demand(30, 1e-3));
        assert_eq!(choice.launch.paths.len(), 2, "and where the target cannot be reached");
    }

    #[test]
    fn a_second_copy_on_a_lone_path_leaves_where_it_is_needed_and_helps() {
        let alone = Ways { ways: [ways().ways[FAST], None, None, None], ..ways() };
        let choose = |ms, miss, [rides, soon]: [bool; 2]| {
            let mut failures = known();
            for message in 0..400 {
                let now = Instant::from_millis(401_000 + 20 * message);
                for (second, helps) in [(Second::Rides, rides), (Second::Soon, soon)] {
                    let fails = !helps || message % 50 == 0;
                    failures.learn_second(now, Mask::NONE, (second, fails));
                }
            }
            alone.choose(&failures, Mask::NONE, &demand(ms, miss)).launch.second
        };
        assert_eq!(choose(100, 1e-3, [true; 2]), Second::Never, "there is time for a round");
        assert_eq!(choose(30, 0.1, [true; 2]), Second::Never, "one copy is enough");
        assert_eq!(choose(30, 1e-2, [true; 2]), Second::Rides, "the cheaper of those that are");
        assert_eq!(choose(30, 1e-2, [false, true]), Second::Soon, "the only one that is");
        assert_eq!(choose(30, 1e-2, [false; 2]), Second::Soon, "out of reach: a copy all the same");
        assert_eq!(choose(30, 1e-5, [true, false]), Second::Rides, "and the better of them");
    }

    #[test]
    fn what_a_newer_message_replaces_never_rides_with_it() {
        let alone = Ways { ways: [ways().ways[FAST], None, None, None], ..ways() };
        let demand = Demand { newest_counts: true, ..demand(30, 1e-2) };
        let mut launches = alone.launches(Mask::NONE, &demand);
        assert!(launches.all(|launch| launch.second != Second::Rides));
    }

    #[test]
    fn what_the_links_need_on_average_cannot_be_saved() {
        let failures = known();
        let spent = Demand { average: 0.95e-3, ..demand(100, 1e-3) };
        let choice = ways().choose(&failures, Mask::NONE, &spent);
        let least = ways().least(&failures, Mask::NONE, &spent, Reading::Planned);
        assert!(choice.launch.paths.len() == 2 || choice.miss <= least, "{choice:?}, {least}");
    }
}
