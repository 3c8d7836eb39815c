//! The sender's half of control delivery: keeps messages until their fate is known.
//!
//! A message waits once for every path and is copied when a path has room; what is left of its
//! fate is acknowledgement, supersession, or the end of its time to live. Reliable messages get
//! exactly one outcome each [specs/delivery.md §3] (rule 9). Not here: which path is asked first
//! (`schedule/`), datagrams (`session/`), the queues themselves (`pending.rs`), and
//! which copies leave when (`plan/`, whose rounds `rounds.rs` carries out).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::floors::FloorNotices;
use super::message::{Kind, Message, SecondCopy};
use super::pending::{Pending, Turn};
use super::plan::{Form, MIN_ROUND, Plans, View};
use super::sender_lanes::{NoLane, SenderLanes};
use super::steps::Steps;
use super::{ControlPath, LATE, LaneFloor, Submission};
use crate::event::{Event, MessageId, Outcome, StepKind};
use crate::ids::PathId;
use crate::limits;
use crate::path::{CopyRoom, PATIENCE_WITHOUT_PATH};
use crate::recovery::Receipt;
use crate::select::{Class, LaneKey, Order, Policy, Reliability, Tier};
use crate::wire::{ControlFrame, DroppedFrame};

/// Says why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// Too much is in flight or queued; it may be handed in again later.
    Busy,
}

/// Counts what became of the messages of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutboxCounters {
    /// Copies taken by paths, first copies included.
    pub(crate) copies_sent: u64,
    /// Acknowledged, and not said to have been dropped.
    pub(crate) delivered: u64,
    /// Not acknowledged within their time to live, or dropped there; for unreliable ones also: not
    /// sent, or lost.
    pub(crate) expired: u64,
    /// Replaced by a newer one before they were acknowledged.
    pub(crate) superseded: u64,
    /// Of those, the ones of which no copy had left.
    pub(crate) superseded_unsent: u64,
    /// Under way when the session ended, or possibly dropped there: the list of what was dropped is
    /// bounded.
    pub(crate) indeterminate: u64,
}

/// Keeps control messages until they are delivered, superseded or expired.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(super) messages: BTreeMap<u64, Message>,
    /// Bytes that they take, and how many more the session may hold.
    bytes: usize,
    room: usize,
    pub(super) pending: Pending,
    pub(super) plans: Plans,
    pub(super) lanes: SenderLanes,
    pub(super) floors: FloorNotices,
    /// The newest live message of each stream.
    newest: BTreeMap<LaneKey, u64>,
    /// Expired messages whose acknowledgement may still be under way, and until when.
    closing: BTreeMap<u64, Closing>,
    pub(super) timers: BTreeSet<(Instant, u64)>,
    outcomes: VecDeque<Ended>,
    /// An unreliable message that was just sent for the last time, kept while its frame is read.
    spent: Option<Message>,
    pub(super) steps: Steps,
    pub(super) probe: Duration,
    /// Messages below it may have been dropped at the receiver without its having said so.
    unlisted: u64,
    pub(super) next_seq: u64,
    others: usize,
    /// By [`Class::index`].
    pub(super) counters: [OutboxCounters; Class::ALL.len()],
}

/// The end of a reliable message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) message: MessageId,
    pub(crate) outcome: Outcome,
    /// Its MAVLink message id, where it is a frame.
    pub(crate) mavlink: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Closing {
    kind: Kind,
    until: Instant,
}

impl Outbox {
    /// Starts empty, with no path; `seed` is for what plans draw.
    pub(crate) fn new(reliability: &Reliability, seed: u64) -> Self {
        Self {
            messages: BTreeMap::new(),
            bytes: 0,
            room: usize::MAX,
            pending: Pending::default(),
            plans: Plans::new(reliability, seed),
            lanes: SenderLanes::default(),
            floors: FloorNotices::default(),
            newest: BTreeMap::new(),
            closing: BTreeMap::new(),
            timers: BTreeSet::new(),
            outcomes: VecDeque::new(),
            spent: None,
            steps: Steps::default(),
            probe: PATIENCE_WITHOUT_PATH,
            unlisted: 0,
            next_seq: 0,
            others: 0,
            counters: Default::default(),
        }
    }

    /// Takes over the validated paths, suspected ones included, and the probe timeout of the best
    /// usable one: srtt + 4·rttvar and the peer's acknowledgement delay. Cheap; called on change.
    pub(crate) fn set_paths(&mut self, now: Instant, paths: &[ControlPath], probe: Duration) {
        self.probe = probe;
        let changes = self.pending.set_paths(paths);
        for path in changes.silent {
            self.on_silent(now, path, changes.removed.contains(&path));
        }
        for path in changes.gained {
            self.on_gained(now, path);
        }
    }

    /// Takes over what is known now of paths that are the same as before: for plans, which look at
    /// them with every message.
    pub(crate) fn refresh_paths(&mut self, paths: &[ControlPath], probe: Duration) {
        self.probe = probe;
        self.pending.refresh(paths);
    }

    /// Keeps every step of messages, for [`Outbox::poll_event`].
    pub(crate) fn keep_steps(&mut self) {
        self.steps.start();
    }

    /// Tells whether a target needs backups that nothing else calls for.
    pub(crate) fn needs_backups(&self) -> bool {
        self.plans.targets.needs_backups()
    }

    /// Takes other targets of classes, for what is handed in from now on.
    pub(crate) fn set_reliability(&mut self, reliability: &Reliability) {
        self.plans.targets.set_reliability(reliability);
    }

    /// Takes a message in that came just now.
    #[cfg(test)]
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        submission: Submission,
    ) -> Result<Option<MessageId>, Rejected> {
        self.submit_late((now, now), submission)
    }

    /// Takes a message in, perhaps one that came a while ago: its time to live counts from then.
    /// Reliable ones get an id and, later, exactly one outcome.
    ///
    /// # Errors
    /// [`Rejected::Busy`] when a bound is reached [specs/delivery.md §3] (rule 11); nothing was
    /// kept then.
    pub(crate) fn submit_late(
        &mut self,
        (now, came): (Instant, Instant),
        mut submission: Submission,
    ) -> Result<Option<MessageId>, Rejected> {
        if !self.has_room(&submission) {
            return Err(Rejected::Busy);
        }
        let form = self.plans.admit(&submission);
        // What has a target is sent again where that is what it takes.
        submission.policy.reliable |= matches!(form, Form::Target(_));
        let seq = self.next_seq;
        let (policy, lane) = (submission.policy, submission.lane);
        let expires = came + policy.ttl;
        let is_spare = |lane| !self.floors.contains(lane);
        let place = self
            .lanes
            .enter(&policy, lane, seq, expires, is_spare)
            .map_err(|NoLane| Rejected::Busy)?;
        self.next_seq += 1;
        self.others += usize::from(policy.class.tier() != Tier::Control);
        self.bytes += cost(&submission);
        self.steps.on_handed_in(now, seq, &submission);
        self.messages.insert(seq, Message::new(came, submission, place, form));
        self.begin_round(now, seq);
        self.arm(now, seq);
        if policy.order == Order::Sequenced {
            self.promote_earlier(seq);
        }
        if policy.newest_counts() {
            self.supersede(lane, seq);
        }
        Ok(policy.reliable.then_some(MessageId(seq)))
    }

    /// Returns true when a copy or a floor of the tier waits for the path.
    pub(crate) fn wants(&self, path: PathId, tier: Tier) -> bool {
        self.pending.waits_for(path, tier)
            || tier == Tier::Control && self.floors.waits_for(path) && self.carries_floors(path)
    }

    /// Returns true when a message of one of these tiers, none of them control's, waits for the
    /// path.
    pub(crate) fn wants_others(&self, path: PathId, tiers: impl IntoIterator<Item = Tier>) -> bool {
        self.others > 0 && tiers.into_iter().any(|tier| self.wants(path, tier))
    }

    /// Tells whether a message that is under way nowhere is late: [`LATE`].
    pub(crate) fn is_behind(&self, now: Instant, path: PathId, tier: Tier) -> bool {
        let usable = self.pending.usable();
        let is_late = |seq| {
            self.messages.get(&seq).is_some_and(|message| {
                now.since(message.submitted) > LATE
                    && !message.flights.iter().any(|flight| usable.contains(&flight.path))
            })
        };
        self.pending.oldest(path, tier).any(is_late)
    }

    /// Takes the next copy of a tier for a path, with its full session-wide number.
    ///
    /// The caller sends it in the packet that it is building and remembers the number with the
    /// packet, for [`Outbox::on_acked`] and [`Outbox::on_lost`]. `room` counts payload bytes: what
    /// is larger is passed over. A message of which no copy is under way on a usable path goes
    /// before all others.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        path: PathId,
        tier: Tier,
        room: CopyRoom,
    ) -> Option<(u64, ControlFrame<'_>)> {
        self.handle_timeout(now);
        let behind = self.is_behind(now, path, tier);
        let (messages, usable) = (&self.messages, self.pending.usable());
        let keeps = self.pending.keeps(path);
        let fits = |seq: u64, is_fresh: bool, bytes: usize| {
            messages.get(&seq).is_some_and(|message| {
                // What is under way on this path is no less so while an answer is overdue here.
                let is_expected = |on: PathId| on == path || usable.contains(&on);
                let expected = message.flights.iter().any(|flight| is_expected(flight.path));
                let takes = room.rate.transmission_time(message.submission.payload.len());
                expected != is_fresh
                    && !(keeps && message.is_on(path))
                    && message.submission.payload.len() <= bytes
                    && message.arrives_in_time(now, room.transit + takes, room.doubt)
            })
        };
        let bytes = |seq: u64| match messages.get(&seq) {
            Some(message) if message.policy().newest_counts() => room.newest,
            _ => room.fresh,
        };
        // Where not all arrives in time, what is newest does: the oldest would be too old when it
        // comes.
        let order = |seq| match messages.get(&seq) {
            Some(message) if behind && message.place.is_none() => Turn::Newest,
            _ => Turn::Oldest,
        };
        let fresh = self.pending.take(path, tier, order, |seq| fits(seq, true, bytes(seq)));
        let repeat = || self.pending.take(path, tier, order, |seq| fits(seq, false, room.repeat));
        let own = fresh.or_else(repeat);
        let ride = || {
            let may_ride = |seq| messages.get(&seq).is_some_and(|message| message.may_ride(now));
            self.pending.take_ride(path, tier, |seq| may_ride(seq) && fits(seq, false, room.ride))
        };
        let seq = own.or_else(ride)?;
        let view = View { now, probe: self.probe, pending: &self.pending };
        let message = self.messages.get_mut(&seq)?;
        let plan = self.plans.of_mut(message.form);
        let second = plan.second_due(view, seq, message, path);
        plan.on_sent(now, seq, path);
        if own.is_none() {
            message.second = SecondCopy::Done;
        }
        if message.on_sent(now, path, second) {
            self.pending.add_ride(path, (message.rank, seq));
        }
        self.counters[message.policy().class.index()].copies_sent += 1;
        self.steps.note(now, seq, || StepKind::Sent { path });
        let floor = message.place.map_or(0, |place| self.lanes.floor(place.lane));
        if self.is_spent(seq) {
            self.spent = self.remove(seq, false);
            return self.spent.as_ref().map(|message| (seq, message.frame(seq, floor)));
        }
        self.arm(now, seq);
        self.messages.get(&seq).map(|message| (seq, message.frame(seq, floor)))
    }

    /// Tells whether nothing depends on a quick answer to a copy that leaves now.
    pub(crate) fn answer_may_wait(&self, seq: u64) -> bool {
        let may_wait =
            |message: &Message| self.plans.of(message.form).answer_may_wait(seq, message);
        self.messages.get(&seq).is_none_or(may_wait)
    }

    /// Takes the next floor to announce on a path; belongs to the control tier.
    pub(crate) fn poll_floor(&mut self, now: Instant, path: PathId) -> Option<LaneFloor> {
        self.handle_timeout(now);
        let carries = self.carries_floors(path);
        carries.then(|| self.floors.poll(now, path, self.probe)).flatten()
    }

    /// Notes that a packet with a copy of message `seq` was acknowledged. The receiver names what
    /// it did not pass on before it acknowledges.
    pub(crate) fn on_acked(&mut self, seq: u64, receipt: &Receipt) {
        self.plans.targets.on_acked(seq, receipt);
        self.steps.on_acked(seq, receipt);
        let is_listed = seq >= self.unlisted;
        let outcome = if is_listed { Outcome::Delivered } else { Outcome::Indeterminate };
        self.conclude(seq, outcome);
    }

    /// Takes the receiver's list of what came in and was not passed on.
    pub(crate) fn on_dropped(&mut self, dropped: &DroppedFrame) {
        self.unlisted = self.unlisted.max(dropped.unlisted);
        for range in dropped.numbers.iter() {
            let closing = self.closing.range(range.clone()).map(|(&seq, _)| seq);
            let messages = self.messages.range(range).map(|(&seq, _)| seq);
            let ended: SmallVec<[u64; 8]> = closing.chain(messages).collect();
            ended.into_iter().for_each(|seq| self.conclude(seq, Outcome::Expired));
        }
    }

    /// Notes that a packet with a copy of message `seq` was declared lost.
    pub(crate) fn on_lost(&mut self, now: Instant, seq: u64, path: PathId) {
        self.steps.note(now, seq, || StepKind::Lost { path });
        let Some(message) = self.messages.get_mut(&seq) else { return };
        if message.on_lost(path) {
            self.follow_up_loss(now, seq);
        }
    }

    /// Returns the bytes that are held.
    pub(crate) fn held(&self) -> usize {
        self.bytes
    }

    /// Notes how many bytes more the session may hold.
    pub(crate) fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// Returns the next outcome of a message that [`Outbox::submit_late`] gave an id.
    pub(crate) fn poll_outcome(&mut self) -> Option<Ended> {
        self.outcomes.pop_front()
    }

    /// Returns when [`Outbox::handle_timeout`] wants to be called.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        [timer, self.floors.timeout(), self.plans.targets.timeout()].into_iter().flatten().min()
    }

    /// Expires messages, and starts rounds and second copies that are due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.steps.on_time(now);
        while let Some(&(at, seq)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            if let Some(closing) = self.closing.remove(&seq) {
                self.report(seq, closing.kind, Outcome::Expired);
            } else {
                self.handle_message_timeout(now, seq);
            }
        }
        self.floors.handle_timeout(now);
        self.plans.targets.handle_timeout(now);
    }

    /// Ends the session: every reliable message that is in flight becomes indeterminate, one that
    /// no path ever took expires.
    pub(crate) fn end(&mut self) {
        for (seq, closing) in std::mem::take(&mut self.closing) {
            self.report(seq, closing.kind, Outcome::Indeterminate);
        }
        while let Some((&seq, _)) = self.messages.first_key_value() {
            let Some(message) = self.remove(seq, false) else { break };
            if message.policy().reliable {
                let sent = message.is_copied;
                let outcome = if sent { Outcome::Indeterminate } else { Outcome::Expired };
                self.report(seq, message.kind(), outcome);
            }
        }
        self.timers.clear();
        self.floors.clear();
    }

    /// Gives up every reliable message that has left: whether the peer has delivered it nobody
    /// knows any more.
    pub(crate) fn give_up_sent(&mut self) {
        let is_open = |message: &Message| message.is_copied && message.policy().reliable;
        let sent = self.messages.iter().filter(|(_, message)| is_open(message));
        let sent: Vec<u64> = sent.map(|(seq, _)| *seq).collect();
        for seq in sent {
            if let Some(message) = self.remove(seq, false) {
                self.report(seq, message.kind(), Outcome::Indeterminate);
            }
        }
    }

    /// Returns what an application should know of plans.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.plans.targets.poll_event().or_else(|| self.steps.poll().map(Event::Step))
    }

    /// Returns how many messages are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Ends a message of which a copy came in.
    fn conclude(&mut self, seq: u64, outcome: Outcome) {
        if let Some(closing) = self.closing.remove(&seq) {
            self.timers.remove(&(closing.until, seq));
            self.report(seq, closing.kind, outcome);
            return;
        }
        let Some(message) = self.remove(seq, true) else { return };
        let counters = &mut self.counters[message.policy().class.index()];
        match outcome {
            _ if message.policy().reliable => self.report(seq, message.kind(), outcome),
            Outcome::Expired => {
                counters.expired += 1;
                self.steps.on_ended(seq, outcome);
            }
            _ => counters.delivered += 1,
        }
    }

    fn carries_floors(&self, path: PathId) -> bool {
        self.pending.takes(path, Class::Control)
    }

    fn has_room(&self, submission: &Submission) -> bool {
        let policy = &submission.policy;
        let waits = matches!(policy.order, Order::InOrder | Order::Sequenced);
        let oldest = self.messages.first_key_value().map_or(self.next_seq, |(&seq, _)| seq);
        self.messages.len() + self.closing.len() < limits::CONTROL_MESSAGES
            && cost(submission) <= self.room
            // The session has fetched what came of those before.
            && self.outcomes.len() < 2 * limits::CONTROL_MESSAGES
            // A download of parameters or files leaves half of the room for control.
            && (policy.class.tier() == Tier::Control
                || self.others < limits::CONTROL_MESSAGES / 2)
            // What is sent must still be inside the window of a receiver that has seen the newest.
            && self.next_seq - oldest < limits::CONTROL_WINDOW / 2
            // What waits for an earlier one must find room at the receiver.
            && (!waits || self.lanes.span() < limits::HELD_MESSAGES as u64)
    }

    /// Lets the earlier messages of a sequenced lane go no later than this one: overtaken, they
    /// would be dropped at the receiver. Ranks never fall along a lane, so the walk stops early.
    fn promote_earlier(&mut self, seq: u64) {
        let Some(message) = self.messages.get(&seq) else { return };
        let (rank, Some(place)) = (message.rank, message.place) else { return };
        for earlier in self.lanes.alive(place.lane).rev().skip_while(|&other| other == seq) {
            let Some(message) = self.messages.get_mut(&earlier) else { continue };
            if message.rank <= rank {
                break;
            }
            self.pending.promote((message.rank, earlier), (rank, earlier));
            message.rank = rank;
        }
    }

    /// Ends the older live message of the stream that a newer one has joined.
    fn supersede(&mut self, stream: LaneKey, seq: u64) {
        let Some(older) = self.newest.insert(stream, seq) else { return };
        let Some(message) = self.remove(older, false) else { return };
        let policy = message.policy();
        let unsent = &mut self.counters[policy.class.index()].superseded_unsent;
        *unsent += u64::from(!message.is_copied);
        if policy.reliable {
            self.report(older, message.kind(), Outcome::Superseded);
        } else {
            self.steps.on_ended(older, Outcome::Superseded);
            self.counters[policy.class.index()].superseded += 1;
        }
    }

    /// Gives a message up. Copies that are under way may still be acknowledged for a round trip.
    pub(super) fn expire(&mut self, now: Instant, seq: u64) {
        let Some(message) = self.remove(seq, false) else { return };
        let kind = message.kind();
        if !message.policy().reliable {
            self.counters[kind.class.index()].expired += u64::from(!message.is_copied);
            self.steps.on_ended(seq, Outcome::Expired);
        } else if message.flights.is_empty() {
            self.report(seq, kind, Outcome::Expired);
        } else {
            // Whatever the round-trip time seems to be, for no longer than a transaction lives: an
            // application that asks again does not wait either.
            let until = now + self.probe.clamp(MIN_ROUND, Policy::TRANSACTIONAL.ttl);
            self.closing.insert(seq, Closing { kind, until });
            self.timers.insert((until, seq));
        }
    }

    /// Takes a message out of everything.
    pub(super) fn remove(&mut self, seq: u64, acked: bool) -> Option<Message> {
        let message = self.messages.remove(&seq)?;
        self.bytes -= cost(&message.submission);
        self.pending.remove((message.rank, seq));
        if let Some(at) = message.timer {
            self.timers.remove(&(at, seq));
        }
        let policy = *message.policy();
        self.others -= usize::from(policy.class.tier() != Tier::Control);
        let stream = message.submission.lane;
        if self.newest.get(&stream) == Some(&seq) {
            self.newest.remove(&stream);
        }
        let Some(place) = message.place else { return Some(message) };
        let left = self.lanes.leave(place);
        // Copies of later messages that are under way carry the old floor.
        if !acked && policy.order == Order::InOrder && left.later && left.floor > place.number {
            self.floors.announce(place.lane, left.floor, left.last_expiry);
        }
        Some(message)
    }

    fn report(&mut self, seq: u64, kind: Kind, outcome: Outcome) {
        let counters = &mut self.counters[kind.class.index()];
        match outcome {
            Outcome::Delivered => counters.delivered += 1,
            Outcome::Expired => counters.expired += 1,
            Outcome::Superseded => counters.superseded += 1,
            Outcome::Indeterminate => counters.indeterminate += 1,
        }
        self.steps.on_ended(seq, outcome);
        self.outcomes.push_back(Ended { message: MessageId(seq), outcome, mavlink: kind.mavlink });
    }
}

/// Returns the bytes that a message takes while it is kept, about.
fn cost(submission: &Submission) -> usize {
    submission.payload.len() + size_of::<Message>()
}
