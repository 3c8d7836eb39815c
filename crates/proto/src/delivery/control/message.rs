//! A control message at its sender: what it is, and how far its copies have come.
//!
//! State and its arithmetic only; `outbox.rs` decides.

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::Submission;
use super::plan::{Due, Form};
use crate::ids::PathId;
use crate::select::{Class, Policy};
use crate::wire::ControlFrame;

/// A message of the outbox.
#[derive(Debug)]
pub(super) struct Message {
    /// What was handed in.
    pub(super) submission: Submission,
    /// The policy of its copies.
    pub(super) form: Form,
    /// Rounds of copies that have begun.
    pub(super) rounds: u32,
    /// When it was handed in.
    pub(super) submitted: Instant,
    /// When its time to live ends.
    pub(super) expires: Instant,
    /// Its lane and its number there; none for messages without an order.
    pub(super) place: Option<Place>,
    /// Its place in the queues: its class, or a more urgent one that comes after it in its lane.
    pub(super) rank: Class,
    /// Copies under way, by path.
    pub(super) flights: SmallVec<[Flight; 4]>,
    /// A connection that has fallen silent with a copy: it brings that one later, or none.
    pub(super) left_on: Option<PathId>,
    /// When the first copy of the present round was sent.
    pub(super) round_started: Option<Instant>,
    /// True once any path has taken a copy.
    pub(super) is_copied: bool,
    /// The second copy of the present round.
    pub(super) second: SecondCopy,
    /// The timer that is armed for it.
    pub(super) timer: Option<Instant>,
}

/// What a message is, for counting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) class: Class,
    /// Its MAVLink message id, where it is a frame.
    pub(super) mavlink: Option<u32>,
}

/// A message's place in the order of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) lane: u16,
    pub(super) number: u64,
}

/// Copies of a message under way on one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) path: PathId,
    pub(super) copies: u32,
    /// When the last of them was sent.
    pub(super) sent_at: Instant,
}

/// How far the second copy of a round is, where one usable path is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecondCopy {
    /// Not wanted so far.
    None,
    /// Wanted then.
    Due(Due),
    /// Queued or sent.
    Done,
}

impl Message {
    pub(super) fn new(
        now: Instant,
        submission: Submission,
        place: Option<Place>,
        form: Form,
    ) -> Self {
        Self {
            form,
            rounds: 0,
            submitted: now,
            expires: now + submission.policy.ttl,
            place,
            rank: submission.policy.class,
            flights: SmallVec::new(),
            left_on: None,
            round_started: None,
            is_copied: false,
            second: SecondCopy::None,
            timer: None,
            submission,
        }
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.submission.policy
    }

    pub(super) fn kind(&self) -> Kind {
        let mavlink = self.submission.lane.stream.map(|stream| stream.message);
        Kind { class: self.policy().class, mavlink }
    }

    /// Notes a copy that leaves on `path`, and when one more is to follow it within the round;
    /// tells whether that one now waits for another message's datagram.
    pub(super) fn on_sent(&mut self, now: Instant, path: PathId, second: Option<Due>) -> bool {
        match self.flights.iter_mut().find(|flight| flight.path == path) {
            Some(flight) => (flight.copies, flight.sent_at) = (flight.copies + 1, now),
            None => self.flights.push(Flight { path, copies: 1, sent_at: now }),
        }
        self.is_copied = true;
        self.round_started.get_or_insert(now);
        let (Some(due), SecondCopy::None) = (second, self.second) else { return false };
        self.second = SecondCopy::Due(due);
        matches!(due, Due::WithNext { .. })
    }

    /// Notes that one copy on `path` was lost; false when none was known there.
    pub(super) fn on_lost(&mut self, path: PathId) -> bool {
        self.left_on.take_if(|left_on| *left_on == path);
        let Some(index) = self.flights.iter().position(|flight| flight.path == path) else {
            return false;
        };
        self.flights[index].copies -= 1;
        if self.flights[index].copies == 0 {
            self.flights.swap_remove(index);
        }
        true
    }

    /// Tells whether a copy that takes so long arrives within its time to live. The peer's clock
    /// may be wrong by `doubt`, and the peer drops what may be too old. Of messages with an order
    /// the oldest leaves first, so all of them would be dropped: these must arrive that much
    /// earlier, but by no more than half of what a new message has to spare.
    pub(super) fn arrives_in_time(&self, now: Instant, takes: Duration, doubt: Duration) -> bool {
        let leaves_oldest_first = self.place.is_some() && !self.policy().newest_counts();
        let spare = self.expires.since(self.submitted).saturating_sub(takes);
        let margin = if leaves_oldest_first { doubt.min(spare / 2) } else { Duration::ZERO };
        now + takes + margin < self.expires
    }

    /// Tells whether the second copy may share a datagram that leaves now.
    pub(super) fn may_ride(&self, now: Instant) -> bool {
        matches!(self.second, SecondCopy::Due(Due::WithNext { from, .. }) if from <= now)
    }

    /// Returns when the last copy was sent that is under way on `path`.
    pub(super) fn sent_on(&self, path: PathId) -> Option<Instant> {
        let flight = self.flights.iter().find(|flight| flight.path == path);
        flight.map(|flight| flight.sent_at)
    }

    /// Tells whether a copy is under way on `path`, of which nothing more is expected or not.
    pub(super) fn is_on(&self, path: PathId) -> bool {
        self.left_on == Some(path) || self.sent_on(path).is_some()
    }

    /// Forgets all copies on `path`; true when there were any.
    pub(super) fn forget_path(&mut self, path: PathId) -> bool {
        let before = self.flights.len();
        self.flights.retain(|flight| flight.path != path);
        self.flights.len() != before
    }

    /// Begins a round: the next copy that is sent is its first.
    pub(super) fn begin_round(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        self.round_started = None;
        self.second = SecondCopy::None;
    }

    /// Returns when the message wants attention next, given when its next round is due.
    pub(super) fn next_timer(&self, round: Option<Instant>) -> Instant {
        let second = match self.second {
            SecondCopy::Due(due) => due.at_last(),
            SecondCopy::None | SecondCopy::Done => self.expires,
        };
        self.expires.min(second).min(round.unwrap_or(self.expires))
    }

    /// Writes the copy that goes on the wire; `floor` is its lane's, at the moment of sending.
    pub(super) fn frame(&self, seq: u64, floor: u64) -> ControlFrame<'_> {
        let policy = self.policy();
        let place = self.place.unwrap_or(Place { lane: 0, number: 0 });
        ControlFrame {
            channel: self.submission.channel,
            class: policy.class,
            order: policy.order,
            seq: seq as u32,
            lane: place.lane,
            lane_seq: place.number as u32,
            floor: floor as u32,
            ttl_ms: u16::try_from(policy.ttl.as_millis()).unwrap_or(u16::MAX),
            submitted_us: self.submitted.as_micros() as u32,
            payload: &self.submission.payload,
        }
    }
}
