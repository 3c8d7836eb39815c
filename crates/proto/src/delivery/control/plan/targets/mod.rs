//! No more copies than a target takes: the planner of reliability targets.
//!
//! ```text
//! message handed in:  F = paths whose newest answers are missing
//!                     flight = the cheapest set of paths that is expected to miss no more than the
//!                              target allows, or every path; copies on them leave at once
//!                     one flight in 32, drawn at random, goes on every path, to learn what that
//!                     does
//! earliest answer is late, or all copies are lost: copies everywhere, and so on each probe timeout
//! where the newest message counts: an older one's late answer on the same path begins that as well
//! a second after the deadline: what became of each copy is learned, and what came of it all is counted
//! ```
//! One copy now, and copies everywhere when its answer is late, is as reliable as copies everywhere
//! now, for half the bytes, wherever the deadline leaves time for that \[DeanBarroso\]; where it
//! does not, copies at once are worth their load as long as control is little beside what the links
//! carry \[Vulimiri\]; which copies are worth their price is weighed as for media with deadlines
//! \[ChouMiao\]. What is weighed are measured frequencies (`failures.rs`): links that share a mast
//! fail together.
//!
//! A target's state, as `goal.rs` tells it:
//! ```text
//! average         what the best flights are expected to miss, over the moments of ten minutes
//! learning        before 100 messages, and between the other two
//! not reachable   the average is proved to be above the target, or what was missed in ten minutes
//!                 is (99.9 %); until neither is above two thirds of it
//! met             average and what was missed ≤ target; until either is above 1.5 of it
//! ```
//! What arrived in time by the estimate of the peer's clock, but not with its whole error added,
//! counts as missed and as *open*. Where more than the target may miss is open, nobody knows what
//! was achieved, and the status says so.
//!
//! *Deviations from these sources*:
//! 1. A request is hedged there after a fixed percentile of its latency; here when the path's own
//!    timeout says that the answer is late, and only where the deadline leaves time for that.
//! 2. Failures are not taken for independent, nor for known: they are counted given what has just
//!    failed, with priors, and forgotten.
//! 3. For set-points, where a newer one makes up for a lost one, the share is one of time \[AoI\].
//!
//! Not here: which copies of later rounds leave (`all.rs`), and whether a path has room for them.

mod account;
mod bound;
mod choice;
mod failures;
mod flights;
mod frequency;
mod goal;
mod retries;
mod slots;
mod track;

use std::collections::VecDeque;

use smallvec::SmallVec;
use units::{Duration, Instant, Rng};

use super::all::{All, MIN_ROUND, SECOND_COPY_AFTER, everywhere};
use super::{Due, Form, Plan, Round, Submission, View};
use crate::delivery::control::ControlPath;
use crate::delivery::control::message::Message;
use crate::event::Event;
use crate::ids::PathId;
use crate::limits;
use crate::recovery::Receipt;
use crate::select::{Class, Order, Reliability, Tier};
use crate::status::ReliabilityStatus;
use choice::{Choice, Second, Way, Ways, expected};
use flights::Flight;
use goal::{Goal, Key};
use slots::{Mask, SLOTS, Slots};
use track::{Belief, Track};

/// One flight in so many goes on every path, whatever is planned: what is never tried is never
/// learned.
const SOUNDING: u64 = 32;
/// Bytes of a copy beside its payload: frame, datagram and IP headers.
const HEADERS: usize = 76;
/// The span over which a target is judged, since it is about an average and in a good second
/// everything looks reachable; what that rests on is forgotten with it as time constant.
const WINDOW: Duration = Duration::from_secs(600);
/// After so long what befell a message is over and known: its fate is open until then after its
/// deadline, as an acknowledgement names what came in for as long, and misses that are further
/// apart are not of one burst of losses, nor of the time that a path takes to be suspected.
const AFTERMATH: Duration = Duration::from_secs(1);
/// For how long what was found out last counts as it is: a burst of losses that is older has ended,
/// or the path is suspected; plans are made anew after it, a tenth of the time in which a change is
/// to be followed; and while nothing else happens, what is certain is counted so much later, for
/// fewer wake-ups.
const NEWS: Duration = Duration::from_millis(500);

/// Plans the flights of every target of a session.
#[derive(Debug)]
pub(in super::super) struct Targets {
    reliability: Reliability,
    goals: Vec<Goal>,
    slots: Slots,
    ways: Ways,
    tracks: [Track; SLOTS],
    /// Paths that failed when that was looked at last.
    failing: Mask,
    /// Backups that nothing calls for.
    reserve: Mask,
    events: VecDeque<Event>,
    rng: Rng,
}

impl Targets {
    pub(super) fn new(reliability: &Reliability, seed: u64) -> Self {
        Self {
            reliability: *reliability,
            goals: Vec::new(),
            slots: Slots::default(),
            ways: Ways::default(),
            tracks: Default::default(),
            failing: Mask::NONE,
            reserve: Mask::NONE,
            events: VecDeque::new(),
            rng: Rng::stream(seed, "soundings"),
        }
    }

    /// Returns the number of the target that a message is under.
    pub(super) fn admit(&mut self, submission: &Submission) -> Option<u8> {
        let policy = &submission.policy;
        if !policy.is_replicated() || policy.class.tier() != Tier::Control {
            return None;
        }
        let own = policy.target.map(|target| (target, Some(submission.channel)));
        let of_class = || self.reliability.of(policy.class).map(|target| (target, None));
        let (target, channel) = own.or_else(of_class)?;
        let key = Key { class: policy.class, channel, target };
        let place = match self.goals.iter().position(|goal| goal.key == key) {
            Some(known) => known,
            None => self.begin(Goal::new(key, policy.newest_counts()))?,
        };
        self.goals[place].ended = false;
        u8::try_from(place).ok()
    }

    /// Takes other targets of classes. Those of endpoints count as ended until a message comes
    /// under one.
    pub(in super::super) fn set_reliability(&mut self, reliability: &Reliability) {
        self.reliability = *reliability;
        for goal in &mut self.goals {
            let Key { class, channel, target } = goal.key;
            goal.ended = channel.is_some() || reliability.of(class) != Some(target);
        }
    }

    /// Tells whether any message has been under a target: only then is more to be told than changes
    /// of paths.
    pub(in super::super) fn is_in_use(&self) -> bool {
        !self.goals.is_empty()
    }

    /// Returns when [`Targets::handle_timeout`] wants to be called.
    pub(in super::super) fn timeout(&self) -> Option<Instant> {
        let settled =
            self.goals.iter().filter_map(|goal| goal.flights.all_settled(goal.deadline()));
        settled.min().map(|at| at + NEWS)
    }

    /// Tells whether a target needs backups that nothing else calls for.
    pub(in super::super) fn needs_backups(&self) -> bool {
        self.goals.iter().any(|goal| goal.needs_reserve && !goal.ended)
    }

    /// Learns that a copy arrived, and when. Copies of which nothing is heard are lost.
    pub(in super::super) fn on_acked(&mut self, seq: u64, receipt: &Receipt) {
        if let Some(slot) = self.slots.find(receipt.path) {
            self.tracks[slot].on_acked(receipt.sent_at);
        }
        if let Some(flight) = self.flight_mut(seq) {
            flight.on_acked(receipt);
        }
        self.handle_timeout(receipt.now);
    }

    /// Settles what is certain.
    pub(in super::super) fn handle_timeout(&mut self, now: Instant) {
        for goal in &mut self.goals {
            goal.settle(now, &self.slots, &self.ways);
        }
    }

    /// Returns what an application should know.
    pub(in super::super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Lists how the targets are kept: of classes, then of endpoints.
    pub(in super::super) fn statuses(&self) -> impl Iterator<Item = ReliabilityStatus> + '_ {
        let of_class = self.goals.iter().filter(|goal| goal.key.channel.is_none());
        let own = self.goals.iter().filter(|goal| goal.key.channel.is_some());
        of_class
            .chain(own)
            .map(|goal| goal.status(&self.slots, &self.ways, [self.reserve, self.failing]))
    }

    /// Gives a target its place: a free one, or that of one which has ended and whose messages are
    /// settled.
    fn begin(&mut self, goal: Goal) -> Option<usize> {
        if self.goals.len() < limits::TARGETS {
            self.goals.push(goal);
            return Some(self.goals.len() - 1);
        }
        let is_over =
            |goal: &Goal| goal.ended && goal.flights.all_settled(goal.deadline()).is_none();
        let place = self.goals.iter().position(is_over)?;
        self.goals[place] = goal;
        Some(place)
    }

    /// Takes over what is known of the paths now; tells whether one fails that was believed to
    /// work.
    fn look(&mut self, view: View<'_>) -> bool {
        let carries = |path: &&ControlPath| path.carries.has(Tier::Control);
        let ids: SmallVec<[PathId; 4]> = view.paths().filter(carries).map(|path| path.id).collect();
        for slot in self.slots.set(&ids).iter() {
            self.tracks[slot] = Track::default();
            for goal in &mut self.goals {
                goal.failures.forget(slot);
                goal.retries.forget(slot);
            }
        }
        (self.ways.ways, self.ways.probe) = (Default::default(), view.probe);
        let mut surprise = false;
        (self.failing, self.reserve) = (Mask::NONE, Mask::NONE);
        for path in view.paths() {
            let Some(slot) = self.slots.find(path.id) else { continue };
            let (transit, answer_after) = (path.transit, path.answer_after);
            let (cost, usable) = (path.cost.get(), path.usable);
            self.ways.ways[slot] = Some(Way { transit, answer_after, cost, usable });
            if path.backup {
                self.reserve = self.reserve.with(slot);
            }
            let belief = self.tracks[slot].belief(view.now, answer_after + path.held);
            surprise |= belief == Belief::Surprises;
            if belief != Belief::Works || !usable {
                self.failing = self.failing.with(slot);
            }
        }
        surprise
    }

    /// Draws the paths that get a copy to learn what that does; none as a rule.
    fn sounding(&mut self) -> Mask {
        if self.rng.below(SOUNDING) > 0 {
            return Mask::NONE;
        }
        // Where a byte costs twice as much as on the cheapest path, a quarter of them is enough.
        let costs = self.ways.ways.iter().flatten().map(|way| way.cost);
        let dear = costs.fold(f64::INFINITY, f64::min) * 2.0;
        let mut paths = Mask::NONE;
        for slot in self.ways.without(self.reserve).present().iter() {
            let is_dear = self.ways.ways[slot].is_some_and(|way| way.cost >= dear);
            if !is_dear || self.rng.below(4) == 0 {
                paths = paths.with(slot);
            }
        }
        paths
    }

    /// Plans the flight of a message that is handed in.
    fn first(&mut self, view: View<'_>, seq: u64, message: &Message, goal: usize) -> Round {
        let (surprise, before) = (self.look(view), self.failing);
        let sounding = self.sounding();
        let goal = &mut self.goals[goal];
        goal.settle(view.now, &self.slots, &self.ways);
        let was = goal.state;
        let bytes = message.submission.payload.len() + HEADERS;
        goal.answer = HEADERS as f64 / bytes as f64;
        let Choice { launch, miss } =
            goal.choose(view.now, before, surprise, (&self.ways, self.reserve));
        if goal.state != was {
            let Key { class, channel, .. } = goal.key;
            self.events.push_back(Event::Reliability { class, channel, state: goal.state });
        }
        let paths = launch.paths.and(sounding);
        let needed = goal.needs_reserve;
        let usual = if needed { self.ways } else { self.ways.without(self.reserve) };
        let is_everywhere = paths == usual.present();
        let second = usual.is_lone().then(|| {
            let copies = Second::copies(goal.newest_counts);
            let mut drawn = || copies[self.rng.below(copies.len() as u64) as usize];
            if sounding.is_empty() { launch.second } else { drawn() }
        });
        let stream = message.submission.lane;
        let gap = goal.gap(view.now, stream);
        goal.flights.push(Flight {
            seq,
            stream,
            in_order: message.policy().order == Order::InOrder,
            submitted: view.now,
            expires: message.expires,
            gap,
            before,
            is_everywhere,
            waits: launch.waits,
            paths,
            predicted: goal.has_prediction().then_some(miss),
            second,
            everywhere: view.paths().filter(|path| path.takes(Class::Control)).count()
                + usize::from(second.is_some()),
            bytes,
            round: 0,
            sent_in_all: 0,
            copies: SmallVec::new(),
            first: None,
        });
        if is_everywhere {
            return everywhere(view, message, needed);
        }
        Round::On(paths.iter().filter_map(|slot| self.slots.path(slot)).collect())
    }

    /// Tells whether a message has copies on backups that nothing else calls for.
    fn needs_reserve(&self, message: &Message) -> bool {
        let Form::Target(goal) = message.form else { return false };
        self.goals[usize::from(goal)].needs_reserve
    }

    fn flight_mut(&mut self, seq: u64) -> Option<&mut Flight> {
        self.goals.iter_mut().find_map(|goal| goal.flights.find(seq))
    }

    /// Returns when the first answer to the flight of a message is late, of those that may be
    /// expected; where nothing of it could leave so far, a probe timeout after it was handed in.
    /// Where the newest message counts, it makes up for those before it on the same path: the first
    /// late answer to one of them is one to it.
    fn late_at(&self, view: View<'_>, flight: &Flight, message: &Message) -> Instant {
        let waits = expected(flight.before, flight.paths);
        let held = flight.held();
        let due = message.flights.iter().filter_map(|flight| {
            let path = view.paths().find(|path| path.id == flight.path)?;
            let slot = self.slots.find(path.id);
            let is_expected = slot.is_none_or(|slot| waits.contains(slot));
            let first = slot.filter(|_| message.policy().newest_counts());
            let since = first.and_then(|slot| self.tracks[slot].awaited_since());
            let since = since.map_or(flight.sent_at, |since| since.min(flight.sent_at));
            is_expected.then(|| since + (path.answer_after + held).max(MIN_ROUND))
        });
        due.min().unwrap_or(message.submitted + view.probe.max(MIN_ROUND))
    }
}

impl Plan for Targets {
    fn round(&mut self, view: View<'_>, seq: u64, message: &Message) -> Round {
        if let (Form::Target(goal), true) = (message.form, message.rounds == 1) {
            return self.first(view, seq, message, usize::from(goal));
        }
        if let Some(flight) = self.flight_mut(seq) {
            flight.round = flight.round.saturating_add(1);
        }
        everywhere(view, message, self.needs_reserve(message))
    }

    fn next_round(&self, view: View<'_>, seq: u64, message: &Message) -> Option<Instant> {
        let flight = self.goals.iter().find_map(|goal| goal.flights.get(seq));
        if let (Some(flight), 1) = (flight, message.rounds)
            && !flight.is_everywhere
            && view.pending.any_usable(message.policy().class)
        {
            return Some(self.late_at(view, flight, message));
        }
        All.next_round(view, seq, message)
    }

    fn second_due(&self, view: View<'_>, seq: u64, message: &Message, path: PathId) -> Option<Due> {
        // A backup that is needed for the target is beside it.
        let soon =
            All.second_due(view, seq, message, path).filter(|_| !self.needs_reserve(message))?;
        let of_message = |goal: &Goal| Some((goal.flights.get(seq)?.second?, goal.latest()));
        match self.goals.iter().find_map(of_message).filter(|_| message.rounds == 1) {
            Some((Second::Never, _)) => None,
            Some((Second::Rides, latest)) => {
                let from = view.now + SECOND_COPY_AFTER;
                let way = view.paths().find(|known| known.id == path)?.transit;
                let latest = message.submitted + latest.saturating_sub(way);
                Some(Due::WithNext { from, until: latest.max(from) })
            }
            Some((Second::Soon, _)) | None => Some(soon),
        }
    }

    fn answer_may_wait(&self, seq: u64, _message: &Message) -> bool {
        self.goals
            .iter()
            .find_map(|goal| goal.flights.get(seq))
            .is_none_or(|flight| flight.waits && flight.round == 0)
    }

    fn on_sent(&mut self, now: Instant, seq: u64, path: PathId) {
        let slot = self.slots.find(path);
        if let Some(slot) = slot {
            self.tracks[slot].on_sent(now, !self.failing.contains(slot));
        }
        if let Some(flight) = self.flight_mut(seq) {
            // A path that is not of the flight was gained meanwhile.
            let is_planned = slot.is_none_or(|slot| flight.paths.contains(slot));
            flight.on_sent(now, path, is_planned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::{LaneKey, Policy, Target};

    fn submission(channel: u8, deadline_ms: u64) -> Submission {
        let target = Target::new(0.999, Duration::from_millis(deadline_ms));
        let policy = Policy { target, ..Policy::DECLARED };
        let lane = LaneKey { channel, flow: 0, source: (1, 1), stream: None };
        Submission { channel, policy, lane, payload: vec![0; 10] }
    }

    #[test]
    fn targets_that_were_taken_back_make_room_for_others_and_call_no_backups() {
        let mut targets = Targets::new(&Reliability::default(), 1);
        for deadline in 0..limits::TARGETS as u64 {
            assert_eq!(targets.admit(&submission(1, 50 + deadline)), Some(deadline as u8));
        }
        assert_eq!(targets.admit(&submission(1, 100)), None, "there are as many as there may be");
        targets.goals[2].needs_reserve = true;
        assert!(targets.needs_backups());
        targets.set_reliability(&Reliability::default());
        assert!(!targets.needs_backups());
        assert_eq!(
            targets.admit(&submission(1, 52)),
            Some(2),
            "one that is still asked for goes on"
        );
        assert!(targets.needs_backups());
        for deadline in 100..100 + limits::TARGETS as u64 - 1 {
            assert!(targets.admit(&submission(1, deadline)).is_some());
        }
        assert_eq!(targets.admit(&submission(1, 200)), None);
    }
}
