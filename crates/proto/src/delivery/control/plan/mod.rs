//! Which copies of a control message leave when: a policy, asked by the outbox, which carries it
//! out.
//!
//! A policy is a trait, a read-only view and one file each, as schedulers are:
//!
//! ```text
//! all      a copy on every path, at a constant pace         what is replicated and has no target
//! best     one path at a time                               what is not replicated
//! targets  no more copies than a target takes               what is replicated and has one
//! ```
//! What a policy needs to know of a path goes into [`ControlPath`], which the outbox keeps up to
//! date.

mod all;
mod best;
mod targets;

use smallvec::SmallVec;
use units::{Duration, Instant};

pub(super) use all::{MIN_ROUND, wants_on_gained};

use super::message::Message;
use super::pending::Pending;
use super::{ControlPath, Submission};
use crate::ids::PathId;
use crate::select::Reliability;
use all::All;
use best::Best;
use targets::Targets;

/// What a plan may know beside the message and how far its copies have come.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// The moment.
    pub(super) now: Instant,
    /// The time after which an answer of the best path is overdue.
    pub(super) probe: Duration,
    /// The queues, whose paths are shown.
    pub(super) pending: &'a Pending,
}

impl<'a> View<'a> {
    /// Lists the validated paths, suspected ones included.
    pub(super) fn paths(self) -> impl Iterator<Item = &'a ControlPath> {
        self.pending.paths()
    }
}

/// Says where the copies of a round go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// One on each of these paths; with none of them the round is over before it began.
    On(SmallVec<[PathId; 4]>),
    /// One, on whichever usable path asks first.
    Best,
}

/// Says when a second copy is due after one that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// At a time.
    At(Instant),
    /// With the next message that leaves on the same path from a time on: it shares that one's
    /// datagram. Where none does, at another time.
    WithNext { from: Instant, until: Instant },
}

impl Due {
    /// Returns when the copy leaves whatever else does.
    pub(super) fn at_last(self) -> Instant {
        match self {
            Self::At(at) => at,
            Self::WithNext { until, .. } => until,
        }
    }
}

/// Decides which copies of a message leave when.
///
/// ```text
/// round      handed in, all copies lost, or next_round passed: a copy on each path of `round`
/// within it  `second_due` after a copy that has left: one more, where one usable path is left
/// besides    a path comes or works again: a copy there at once, where `wants_on_gained`
/// ```
pub(super) trait Plan {
    /// Returns where copies go in a round that begins now; the first one is the *flight* of the
    /// message.
    fn round(&mut self, view: View<'_>, seq: u64, message: &Message) -> Round;

    /// Returns when the next round is due; none where there is none, or no copy has left in this
    /// one.
    fn next_round(&self, view: View<'_>, seq: u64, message: &Message) -> Option<Instant>;

    /// Returns when a second copy is due after one that leaves on a path now.
    fn second_due(&self, _: View<'_>, _seq: u64, _: &Message, _: PathId) -> Option<Due> {
        None
    }

    /// Tells whether no further copy depends on a quick answer to those that leave.
    fn answer_may_wait(&self, seq: u64, message: &Message) -> bool;

    /// Learns that a copy leaves.
    fn on_sent(&mut self, _now: Instant, _seq: u64, _path: PathId) {}
}

/// Which policy a message is under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A copy on every path.
    All,
    /// One path at a time.
    Best,
    /// As many as the target of this number takes.
    Target(u8),
}

/// The policies of a session.
#[derive(Debug)]
pub(super) struct Plans {
    all: All,
    best: Best,
    pub(super) targets: Targets,
}

impl Plans {
    /// Makes them; `seed` draws which messages go everywhere to find out what that does.
    pub(super) fn new(reliability: &Reliability, seed: u64) -> Self {
        Self { all: All, best: Best, targets: Targets::new(reliability, seed) }
    }

    /// Chooses the policy of a message that is handed in.
    pub(super) fn admit(&mut self, submission: &Submission) -> Form {
        match self.targets.admit(submission) {
            Some(goal) => Form::Target(goal),
            None if submission.policy.is_replicated() => Form::All,
            None => Form::Best,
        }
    }

    /// Returns a policy.
    pub(super) fn of(&self, form: Form) -> &dyn Plan {
        match form {
            Form::All => &self.all,
            Form::Best => &self.best,
            Form::Target(_) => &self.targets,
        }
    }

    /// Returns a policy that is to decide, or to learn.
    pub(super) fn of_mut(&mut self, form: Form) -> &mut dyn Plan {
        match form {
            Form::All => &mut self.all,
            Form::Best => &mut self.best,
            Form::Target(_) => &mut self.targets,
        }
    }
}
