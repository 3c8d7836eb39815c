//! One target: what it has learned, what it chooses, and whether it is kept.

use std::collections::BTreeMap;

use units::{Duration, Instant};

use super::account::{Account, Fate};
use super::choice::{Choice, Demand, Ways};
use super::failures::{Failures, PRIOR, Reading};
use super::flights::{Clock, Flight, Flights};
use super::retries::Retries;
use super::slots::{Mask, SLOTS, Slots};
use super::{NEWS, WINDOW};
use crate::limits;
use crate::select::{Class, LaneKey, Target};
use crate::status::{ReliabilityLimit, ReliabilityState, ReliabilityStatus};

/// Messages before which nothing is said of a target: two seconds of set-points.
const FEW: u64 = 100;
/// A target that is met stays so until the average is above it by this factor, one out of reach
/// until it is below by as much: nobody is served by a state that changes every second.
const HYSTERESIS: f64 = 1.5;

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
    /// When the last message left whose fate is known, and the paths that failed it.
    failed: Option<(Instant, Mask)>,
    /// The time between the last two messages of a stream, half the deadline at most.
    gap: Duration,
    /// What an answer of its own costs beside the newest message, in copies.
    pub(super) answer: f64,
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
            failed: None,
            gap: Duration::ZERO,
            answer: 1.0,
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
        let is_old = self.planned_at.is_none_or(|at| now.since(at) >= NEWS);
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
        self.gap = gap.min(self.key.target.deadline() / 2);
        self.gap
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
        let flight = self.plan(&self.usual(ways, reserve), failing).launch.paths;
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
        let others = || in_time.iter().filter(|slot| slots.path(*slot) != Some(path));
        // Where answers ride, nearly no second try leaves that would tell.
        let since = way.answer_after + self.usual_gap();
        let soonest = others().filter_map(named).min_by_key(|(_, way)| way.transit);
        let late = soonest.map(|(path, way)| (path, since + way.transit));
        if let Some((path, needs)) = late.filter(|(_, needs)| *needs > self.deadline()) {
            return ReliabilityLimit::NoRetry { path, needs };
        }
        if let Some((path, needs)) = self.retries.late_on_all(others(), slots) {
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

    /// Returns the time that a message stands for, where the newest counts: a second try must be
    /// there as much sooner.
    fn usual_gap(&self) -> Duration {
        if self.newest_counts { self.gap } else { Duration::ZERO }
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
            .map_or(PRIOR, |(_, share)| share);
        let links = ((target / missed).ln() / together.ln()).ceil();
        // More than twenty are no advice.
        (together < 1.0 && links <= 20.0).then_some(links as u32)
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
        let newest_counts = self.newest_counts;
        Demand { miss, average: self.average, newest_counts, deadline, answer: self.answer }
    }

    /// Judges the target anew, and forgets the plans.
    fn replan(&mut self, now: Instant, all: &Ways, reserve: Mask) {
        let passed = self.planned_at.map_or(Duration::ZERO, |at| now.since(at));
        let fading = (-passed.as_secs_f64() / WINDOW.as_secs_f64()).exp();
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
        // While answers wait nobody sees in time that a path fails: the next message tells what
        // follows.
        let earlier = self.failed.replace((flight.submitted, failed));
        let earlier = earlier.filter(|(at, _)| flight.submitted.since(*at) <= NEWS);
        let unseen = earlier.map_or(Mask::NONE, |(_, failed)| failed);
        if flight.waits && before.is_empty() && !unseen.is_empty() {
            self.failures.learn(now, [unseen, Mask::NONE], flight.paths, failed);
        }
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
        self.failures.learn_rescue(now, before, flight.launch(), missed);
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
mod tests;
