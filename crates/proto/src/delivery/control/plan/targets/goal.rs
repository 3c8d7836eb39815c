//! One target: what it has learned, what it chooses, and whether it is kept.

use std::collections::BTreeMap;

use units::{Duration, Instant};

use super::account::{Account, Fate};
use super::choice::{Choice, Demand, Second, Ways};
use super::failures::{Failures, Reading};
use super::flights::{Clock, Flight, Flights};
use super::retries::Retries;
use super::slots::{Mask, SLOTS, Slots};
use crate::limits;
use crate::select::{Class, LaneKey, Target};
use crate::status::{ReliabilityLimit, ReliabilityState, ReliabilityStatus};

/// How often the plans are made anew: a tenth of the time in which a change is to be followed.
const REPLAN: Duration = Duration::from_millis(500);
/// Messages before which nothing is said of a target: two seconds of set-points.
const FEW: u64 = 100;
/// A target that is met stays so until the average is above it by this factor, one out of reach
/// until it is below by as much: nobody is served by a state that changes every second.
const HYSTERESIS: f64 = 1.5;
/// Share of the moments seen of late that is left after ten minutes.
const MEMORY: Duration = Duration::from_secs(600);
/// How often a further link fails when a lone one has, until it is measured: as in `failures.rs`.
const TOGETHER: f64 = 0.1;
/// More links than this are no advice.
const MOST_LINKS: f64 = 20.0;

/// What tells targets apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) class: Class,
    /// The declared endpoint whose own target it is.
    pub(super) channel: Option<u8>,
    pub(super) target: Target,
}

/// A target and everything that is known about it.
#[derive(Debug)]
pub(super) struct Goal {
    pub(super) key: Key,
    /// Whether the newest message replaces older ones: then the share is one of time.
    pub(super) newest_counts: bool,
    pub(super) failures: Failures,
    pub(super) flights: Flights,
    pub(super) retries: Retries,
    account: Account,
    streams: BTreeMap<LaneKey, Stream>,
    /// How often each set of paths was failing when a message was handed in.
    moments: [f64; 1 << SLOTS],
    plans: [Option<Choice>; 1 << SLOTS],
    planned_at: Option<Instant>,
    /// Paths that were in time when the plans were made.
    planned_for: Mask,
    average: f64,
    /// Whether backups are needed that nothing else calls for.
    pub(super) needs_reserve: bool,
    /// The operator has taken it back: what is under way goes on under it.
    pub(super) ended: bool,
    pub(super) state: ReliabilityState,
}

/// What is known of a stream of messages.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// When the newest was handed in.
    last: Instant,
    /// Until when one held up those behind it at the receiver, by either reading of its clock.
    held: [Instant; 2],
}

impl Goal {
    pub(super) fn new(key: Key, newest_counts: bool) -> Self {
        Self {
            key,
            newest_counts,
            failures: Failures::default(),
            flights: Flights::default(),
            retries: Retries::default(),
            account: Account::default(),
            streams: BTreeMap::new(),
            moments: [0.0; 1 << SLOTS],
            plans: [None; 1 << SLOTS],
            planned_at: None,
            planned_for: Mask::NONE,
            average: 1.0,
            needs_reserve: false,
            ended: false,
            state: ReliabilityState::Learning,
        }
    }

    pub(super) fn deadline(&self) -> Duration {
        self.key.target.deadline()
    }

    /// Returns the age at which a message must be there to be known to be in time.
    pub(super) fn latest(&self) -> Duration {
        self.deadline().saturating_sub(self.account.clock_error().unwrap_or_default())
    }

    /// Chooses the flight of a message that is handed in while the paths `before` fail. Where the
    /// newest message counts and a failure is a surprise, it is what a round is elsewhere: it goes
    /// everywhere. Paths in `reserve` are left out until nothing else keeps the target.
    pub(super) fn choose(
        &mut self,
        now: Instant,
        before: Mask,
        surprise: bool,
        (all, reserve): (&Ways, Mask),
    ) -> Choice {
        let in_time = all.within(Some(self.deadline()));
        let is_old = self.planned_at.is_none_or(|at| now.since(at) >= REPLAN);
        if is_old || in_time != self.planned_for {
            self.replan(now, all, reserve);
            (self.planned_at, self.planned_for) = (Some(now), in_time);
        }
        let ways = &self.usual(all, reserve);
        self.moments[before.index()] += 1.0;
        if surprise && self.newest_counts {
            return ways.everywhere(&self.failures, before, &self.demand());
        }
        let choice = self.plan(ways, before);
        self.plans[before.index()] = Some(choice);
        choice
    }

    /// Returns the time that a message of a stream stands for: since the one before it, but no more
    /// than half the deadline, beyond which the stream itself has stopped.
    pub(super) fn gap(&mut self, now: Instant, stream: LaneKey) -> Duration {
        if self.streams.len() >= limits::STREAMS_FOLLOWED && !self.streams.contains_key(&stream) {
            self.streams.clear();
        }
        let known =
            self.streams.entry(stream).or_insert(Stream { last: now, held: [Instant::ZERO; 2] });
        let gap = now.since(known.last);
        known.last = now;
        gap.min(self.key.target.deadline() / 2)
    }

    /// Settles the flights whose fate is certain.
    pub(super) fn settle(&mut self, now: Instant, slots: &Slots, ways: &Ways) {
        while let Some(flight) = self.flights.pop_settled(now, self.key.target.deadline()) {
            let fate = self.fate(&flight);
            if fate.weight > 0.0 {
                self.learn(now, (&flight, fate.missed / fate.weight), slots, ways);
            }
            self.account.add(&fate);
        }
    }

    /// Tells how the target is kept.
    pub(super) fn status(
        &self,
        slots: &Slots,
        ways: &Ways,
        [reserve, failing]: [Mask; 2],
    ) -> ReliabilityStatus {
        let window = self.account.window();
        let flight = self.plan(&self.usual(ways, reserve), failing).paths;
        ReliabilityStatus {
            class: self.key.class,
            channel: self.key.channel,
            target: self.key.target,
            state: self.state,
            predicted_miss: window.predicted(),
            miss_share: window.miss_share(),
            bound_95: window.bound_95(),
            open_share: window.open_share(),
            clock_error: self.account.clock_error(),
            messages: window.messages,
            misses: window.misses,
            episodes: window.episodes,
            copies_per_message: window.copies_per_message(),
            saved_share: window.saved_share(),
            saved_bytes: self.account.saved_bytes(),
            limit: self.limit(slots, ways),
            more_links: self.more_links(ways),
            flight: core::array::from_fn(|slot| {
                if flight.contains(slot) { slots.path(slot) } else { None }
            }),
        }
    }

    /// Says what keeps these links from more.
    fn limit(&self, slots: &Slots, ways: &Ways) -> ReliabilityLimit {
        let (present, in_time) = (ways.present(), ways.within(Some(self.deadline())));
        let named = |slot: usize| slots.path(slot).zip(ways.ways[slot]);
        let slow = present.iter().find(|slot| !in_time.contains(*slot));
        if let Some(error) = self.hidden_by() {
            return ReliabilityLimit::Clock { error };
        }
        if let (Some((path, _)), 1) = (present.iter().find_map(named), present.len()) {
            let window = self.account.window();
            let (share, samples) = match window.miss_share() {
                Some(share) if self.is_known() => (share, window.messages),
                _ => (self.average, 0),
            };
            return ReliabilityLimit::Alone { path, share, samples };
        }
        if let Some((path, way)) = slow.and_then(named) {
            let by = way.transit.saturating_sub(self.deadline());
            return ReliabilityLimit::TooSlow { path, by };
        }
        let fastest = in_time.iter().filter_map(named).min_by_key(|(_, way)| way.transit);
        let Some((path, way)) = fastest else { return ReliabilityLimit::Unknown };
        let needs = way.answer_after + way.transit;
        if needs > self.deadline() {
            return ReliabilityLimit::NoRetry { path, needs };
        }
        let others = in_time.iter().filter(|slot| slots.path(*slot) != Some(path));
        if let Some((path, needs)) = self.retries.late_on_all(others, slots) {
            return ReliabilityLimit::NoRetry { path, needs };
        }
        let pair = self.failures.worst_pair(present);
        let named = pair.and_then(|(pair, share)| {
            let paths = [slots.path(pair[0])?, slots.path(pair[1])?];
            let samples = self.failures.samples(pair[1], Mask::NONE.with(pair[0]));
            Some(ReliabilityLimit::Together { paths, share, samples })
        });
        named.unwrap_or(ReliabilityLimit::Unknown)
    }

    /// Returns the uncertainty of the clocks where it leaves more open than the target allows.
    fn hidden_by(&self) -> Option<Duration> {
        let open = self.account.window().open_share()?;
        self.account.clock_error().filter(|_| open > self.key.target.miss())
    }

    /// Returns how many more links would do that are like the best one: each takes the share that
    /// is missed down by as much as the present ones fail together [ConClone eq. 2].
    fn more_links(&self, ways: &Ways) -> Option<u32> {
        let target = self.key.target.miss();
        if self.state == ReliabilityState::Learning || self.hidden_by().is_some() {
            return None;
        }
        let missed = self.account.window().miss_share().unwrap_or(0.0).max(self.average);
        if missed <= target {
            return Some(0);
        }
        let together = self
            .failures
            .worst_pair(ways.within(Some(self.deadline())))
            .map_or(TOGETHER, |(_, share)| share);
        let links = ((target / missed).ln() / together.ln()).ceil();
        (together < 1.0 && links <= MOST_LINKS).then_some(links as u32)
    }

    /// Returns the flight for a moment in which the paths `before` fail.
    fn plan(&self, ways: &Ways, before: Mask) -> Choice {
        let demand = self.demand();
        let choose = || match self.state {
            ReliabilityState::NotReachable => ways.everywhere(&self.failures, before, &demand),
            _ => ways.choose(&self.failures, before, &demand),
        };
        self.plans[before.index()].unwrap_or_else(choose)
    }

    /// Returns the paths that flights may go on: not backups that nothing calls for.
    fn usual(&self, all: &Ways, reserve: Mask) -> Ways {
        if self.needs_reserve { *all } else { all.without(reserve) }
    }

    fn demand(&self) -> Demand {
        let (miss, deadline) = (self.key.target.miss(), self.deadline());
        Demand { miss, average: self.average, newest_counts: self.newest_counts, deadline }
    }

    /// Judges the target anew, and forgets the plans.
    fn replan(&mut self, now: Instant, all: &Ways, reserve: Mask) {
        let passed = self.planned_at.map_or(Duration::ZERO, |at| now.since(at));
        let fading = (-passed.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.moments.iter_mut().for_each(|moments| *moments *= fading);
        self.plans = [None; 1 << SLOTS];
        let usual = all.without(reserve);
        if reserve.is_empty() {
            self.needs_reserve = false;
        } else if self.needs_reserve {
            // Without them it must be kept for certain.
            let average = self.average(&usual, Reading::Planned);
            self.needs_reserve = average > self.key.target.miss() / HYSTERESIS;
        } else {
            self.average = self.average(&usual, Reading::Planned);
            let state = self.judge(&usual);
            let is_short = self.is_known() && self.average > self.key.target.miss();
            self.needs_reserve = state == ReliabilityState::NotReachable
                || (state == ReliabilityState::Learning && is_short);
        }
        let ways = if self.needs_reserve { all } else { &usual };
        self.average = self.average(ways, Reading::Planned);
        self.state = self.judge(ways);
    }

    /// Returns the least share that these links miss on average over the moments there were.
    fn average(&self, ways: &Ways, reading: Reading) -> f64 {
        let demand = self.demand();
        let (mut sum, mut all) = (0.0, 0.0);
        for before in ways.present().subsets() {
            let moments = self.moments[before.index()];
            if moments > 0.0 {
                sum += moments * ways.least(&self.failures, before, &demand, reading);
                all += moments;
            }
        }
        if all > 0.0 { sum / all } else { 1.0 }
    }

    /// Tells whether enough was sent to say anything.
    pub(super) fn is_known(&self) -> bool {
        self.account.session().messages >= FEW
    }

    /// Tells whether what is expected rests on samples rather than on priors.
    pub(super) fn has_prediction(&self) -> bool {
        let is_within = self.average <= HYSTERESIS * self.key.target.miss();
        self.is_known() && (self.state != ReliabilityState::Learning || is_within)
    }

    fn judge(&self, ways: &Ways) -> ReliabilityState {
        let (window, target) = (self.account.window(), self.key.target.miss());
        if !self.is_known() {
            return ReliabilityState::Learning;
        }
        let proven = self.average(ways, Reading::Proven);
        let was_lost = self.state == ReliabilityState::NotReachable;
        let most = if was_lost { target / HYSTERESIS } else { target };
        if proven > most || window.surely_missed() > most {
            return ReliabilityState::NotReachable;
        }
        let was_met = self.state == ReliabilityState::Met;
        let bound = if was_met { HYSTERESIS * target } else { target };
        // What was missed in ten minutes counts whatever is expected: it may come again.
        let achieved = window.miss_share().unwrap_or(0.0);
        match self.average.max(achieved) <= bound {
            true => ReliabilityState::Met,
            // What was out of reach stays so until it is in reach.
            false if was_lost => self.state,
            false => ReliabilityState::Learning,
        }
    }

    /// Takes what became of the copies, and how much of the message was missed.
    fn learn(
        &mut self,
        now: Instant,
        (flight, missed): (&Flight, f64),
        slots: &Slots,
        ways: &Ways,
    ) {
        let deadline = flight.submitted + self.deadline();
        let before = flight.before;
        let [sent, failed] = flight.fates(slots, 0, deadline);
        // What a path had no room for in time did not arrive either.
        let unsent = flight.paths.iter().filter(|path| !sent.contains(*path));
        let failed = unsent.fold(failed, Mask::with);
        self.failures.learn(now, [before, Mask::NONE], flight.paths, failed);
        let since = if self.newest_counts { flight.gap } else { Duration::ZERO };
        self.retries.learn(now, flight, slots, [since, self.deadline()]);
        if failed != flight.paths || failed.is_empty() {
            return;
        }
        let mut known = failed;
        for round in 1..flight.rounds() {
            let [sent, failed] = flight.fates(slots, round, deadline);
            let sent_at = flight.copies.iter().find(|copy| copy.round == round);
            let left = sent_at
                .and_then(|copy| (copy.sent_at <= deadline).then(|| deadline.since(copy.sent_at)));
            let in_time = sent.of(ways.within(left));
            self.failures.learn(now, [before, known], in_time, failed.of(in_time));
            if failed != sent {
                break;
            }
            known = known.and(failed);
        }
        if let Some(second) = flight.second_failed(deadline) {
            self.failures.learn_second(now, before, second);
        }
        let second = flight.second.unwrap_or(Second::Never);
        self.failures.learn_rescue(now, before, (flight.paths, second), missed);
    }

    /// Counts what the message has come to.
    fn fate(&mut self, flight: &Flight) -> Fate {
        let weight = if self.newest_counts { flight.gap.as_secs_f64() } else { 1.0 };
        let missed = self.missed(flight, Clock::Proven);
        let open = missed - self.missed(flight, Clock::Estimated);
        Fate {
            submitted: flight.submitted,
            weight,
            missed,
            open,
            clock_error: flight.first.map(|(_, error)| error),
            predicted: flight.predicted,
            copies: flight.sent_in_all,
            everywhere: flight.everywhere,
            bytes: flight.bytes,
        }
    }

    /// Returns how much of the message's weight is missed.
    fn missed(&mut self, flight: &Flight, clock: Clock) -> f64 {
        let deadline = flight.submitted + self.deadline();
        if !self.newest_counts {
            let is_late = self.delivered(flight, clock).is_none_or(|at| at > deadline);
            return f64::from(u8::from(is_late));
        }
        let (own, gap) = (flight.arrival(clock), flight.gap.as_secs_f64());
        if own.is_some_and(|at| at + flight.gap <= deadline) {
            return 0.0;
        }
        let newer = self.flights.newer_arrival(flight.stream, deadline, clock);
        let first = own.into_iter().chain(newer).min();
        first.map_or(gap, |at| (at + flight.gap).since(deadline).as_secs_f64().min(gap))
    }

    /// Returns when the other application has the message: in an order, after those ahead of it.
    fn delivered(&mut self, flight: &Flight, clock: Clock) -> Option<Instant> {
        let arrival = flight.arrival(clock);
        if !flight.in_order {
            return arrival;
        }
        let held = &mut self.streams.get_mut(&flight.stream)?.held[clock as usize];
        *held = (*held).max(arrival.unwrap_or(flight.expires));
        arrival.map(|_| *held)
    }
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;
    use units::Rng;

    use super::*;
    use crate::delivery::control::plan::targets::choice::Way;
    use crate::delivery::control::plan::targets::flights::Copy;
    use crate::ids::PathId;

    const DEADLINE: Duration = Duration::from_millis(100);
    const LATE_MS: u64 = 25;

    /// A path of 10 ms, and one of 35.
    fn ways() -> Ways {
        let way = |ms| Way {
            transit: Duration::from_millis(ms),
            answer_after: Duration::from_millis(2 * ms + 5),
            cost: 1.0,
        };
        let ways = [Some(way(10)), Some(way(35)), None, None];
        Ways { ways, probe: Duration::from_millis(LATE_MS) }
    }

    fn goal() -> Goal {
        let target = Target::new(0.999, DEADLINE).expect("a target");
        Goal::new(Key { class: Class::Control, channel: None, target }, false)
    }

    fn copy(path: u8, round: u8, sent_at: Instant, ms: Option<u64>) -> Copy {
        let arrived = ms.map(|ms| (sent_at + Duration::from_millis(ms), Duration::ZERO));
        Copy { path: PathId(path), round, sent_at, arrived }
    }

    /// A message whose first copy left on the first path; where it failed, a second one on both.
    fn flight(seq: u64, at: Instant, paths: Mask, copies: &[Copy]) -> Flight {
        Flight {
            seq,
            stream: LaneKey::declared(1),
            in_order: false,
            submitted: at,
            expires: at + Duration::from_secs(2),
            gap: Duration::ZERO,
            before: Mask::NONE,
            is_everywhere: false,
            takes_all: false,
            paths,
            predicted: None,
            second: None,
            everywhere: 2,
            bytes: 100,
            round: 0,
            sent_in_all: copies.len(),
            copies: SmallVec::from_slice(copies),
            first: copies.iter().filter_map(|copy| copy.arrived).min(),
        }
    }

    /// Both links lose 1 % on their own, and everything in one case of a hundred. The second one
    /// carries soundings, and copies because one on the first has failed: in those it fails far
    /// more often than as a rule. Seen to fail with the rounds' copies counted as if they had left
    /// unconditionally (`known` empty in [`Goal::learn`]): then it seems to lose 20 % and not 2.
    #[test]
    fn copies_that_left_because_another_failed_say_nothing_of_a_paths_own_loss() {
        let mut slots = Slots::default();
        slots.set(&[PathId(0), PathId(1)]);
        let (mut goal, ways, mut rng) = (goal(), ways(), Rng::new(1));
        let (first, both) = (Mask::NONE.with(0), Mask::NONE.with(0).with(1));
        let start = Instant::from_millis(1_000);
        for seq in 0..20_000 {
            let at = start + Duration::from_millis(20) * seq as u32;
            let common = rng.chance(0.01);
            let mut arrives = |ms: u64| (!common && !rng.chance(0.01)).then_some(ms);
            let is_sounding = seq % 32 == 0;
            let mut copies = vec![copy(0, 0, at, arrives(10))];
            if is_sounding {
                copies.push(copy(1, 0, at, arrives(35)));
            } else if copies[0].arrived.is_none() {
                let late = at + Duration::from_millis(LATE_MS);
                copies.push(copy(0, 1, late, arrives(10)));
                copies.push(copy(1, 1, late, arrives(35)));
            }
            goal.flights.push(flight(seq, at, if is_sounding { both } else { first }, &copies));
            goal.settle(at, &slots, &ways);
        }
        let alone = goal.failures.copy(1, Mask::NONE, Mask::NONE, Reading::Planned);
        assert!((0.01..0.04).contains(&alone), "it loses 2 % and seems to lose {alone}");
        let after = goal.failures.copy(1, Mask::NONE, first, Reading::Planned);
        assert!(
            (0.3..0.7).contains(&after),
            "when the first has failed, it fails in half of all cases: {after}"
        );
    }

    #[test]
    fn what_holds_a_lane_up_at_the_receiver_is_missed_there() {
        let mut slots = Slots::default();
        slots.set(&[PathId(0), PathId(1)]);
        let mut goal = goal();
        let start = Instant::from_millis(1_000);
        for seq in 0..10 {
            let at = start + Duration::from_millis(20) * seq as u32;
            // The third one takes 150 ms, and with it those behind it that came sooner.
            let ms = if seq == 3 { 150 } else { 10 };
            let copies = [copy(0, 0, at, Some(ms))];
            let flight = flight(seq, at, Mask::NONE.with(0), &copies);
            goal.gap(at, flight.stream);
            goal.flights.push(Flight { in_order: true, ..flight });
        }
        goal.settle(start + Duration::from_secs(5), &slots, &ways());
        let window = goal.account.window();
        assert_eq!((window.messages, window.misses), (10, 3), "150, 130 and 110 ms");
    }

    /// Sends commands on both links, 50 a second; what is handed in during the outage is lost.
    fn commands(goal: &mut Goal, count: u64, outage: core::ops::Range<u64>, error: Duration) {
        let mut slots = Slots::default();
        slots.set(&[PathId(0), PathId(1)]);
        let (ways, both) = (ways(), Mask::NONE.with(0).with(1));
        for seq in 0..count {
            let at = Instant::from_millis(1_000 + 20 * seq);
            let is_lost = outage.contains(&seq);
            goal.choose(at, Mask::NONE, false, (&ways, Mask::NONE));
            let copies = [(0, 10), (1, 35)].map(|(path, ms)| {
                let arrived = (!is_lost).then(|| (at + Duration::from_millis(ms), error));
                Copy { path: PathId(path), round: 0, sent_at: at, arrived }
            });
            goal.flights.push(flight(seq, at, both, &copies));
            goal.settle(at, &slots, &ways);
        }
    }

    /// Seen to fail with what is expected alone in [`Goal::judge`], whatever was achieved.
    #[test]
    fn an_outage_that_broke_the_target_is_not_met_although_the_links_give_it_again() {
        let mut goal = goal();
        commands(&mut goal, 4_000, 0..0, Duration::ZERO);
        assert_eq!(goal.state, ReliabilityState::Met, "{}", goal.average);
        goal = self::goal();
        commands(&mut goal, 10_000, 4_000..4_040, Duration::ZERO);
        let achieved = goal.account.window().miss_share().expect("sent");
        assert!(goal.average < 1e-3 && achieved > 2e-3, "{} and {achieved}", goal.average);
        assert_eq!(
            goal.state,
            ReliabilityState::Learning,
            "neither met nor proved to be out of reach"
        );
    }

    #[test]
    fn what_the_clocks_leave_open_counts_as_missed_and_is_said_to_be_open() {
        let (slots, ways) = (Slots::default(), ways());
        let mut goal = goal();
        commands(&mut goal, 1_000, 0..0, Duration::from_millis(50));
        let status = goal.status(&slots, &ways, [Mask::NONE; 2]);
        assert_eq!((status.miss_share, status.open_share), (Some(0.0), Some(0.0)));
        assert!(!status.is_hidden_by_clock());
        // The first comes after 10 ms by an estimate that may be off by more than the 90 left.
        goal = self::goal();
        commands(&mut goal, 1_000, 0..0, Duration::from_millis(95));
        let status = goal.status(&slots, &ways, [Mask::NONE; 2]);
        assert_eq!((status.miss_share, status.open_share), (Some(1.0), Some(1.0)));
        assert_eq!(status.limit, ReliabilityLimit::Clock { error: Duration::from_millis(95) });
        // What is late by the estimate itself is not open.
        goal = self::goal();
        commands(&mut goal, 1_000, 0..1_000, Duration::from_millis(95));
        let status = goal.status(&slots, &ways, [Mask::NONE; 2]);
        assert_eq!((status.miss_share, status.open_share), (Some(1.0), Some(0.0)));
        assert!(!status.is_hidden_by_clock());
    }
}
