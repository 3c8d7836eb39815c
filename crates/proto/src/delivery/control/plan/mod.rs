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

use core::fmt::Debug;

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::message::Message;
use super::pending::Pending;
use super::{ControlPath, Submission};
use crate::event::Event;
use crate::ids::PathId;
use crate::recovery::Receipt;
use crate::select::Reliability;
use crate::status::ReliabilityStatus;
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
/// within it  `second_due` after a copy that has left: one more, where `second_on` says
/// besides    a path comes or works again: a copy there at once, where `wants_on_gained`
/// ```
pub(super) trait Plan: Debug + Send {
    /// Returns where copies go in a round that begins now; the first one is the *flight* of the
    /// message.
    fn round(&mut self, view: View<'_>, seq: u64, message: &Message) -> Round;

    /// Returns when the next round is due; none where there is none, or no copy has left in this
    /// one.
    fn next_round(&self, view: View<'_>, seq: u64, message: &Message) -> Option<Instant>;

    /// Returns when a second copy is due after one that leaves on `path` now.
    fn second_due(&self, view: View<'_>, seq: u64, message: &Message, path: PathId) -> Option<Due>;

    /// Returns the path of a second copy whose time has come.
    fn second_on(&self, view: View<'_>, message: &Message) -> Option<PathId>;

    /// Tells whether a copy goes at once on a path that is new or works again.
    fn wants_on_gained(&self, view: View<'_>, message: &Message, path: &ControlPath) -> bool;

    /// Tells whether no further copy depends on a quick answer to those that leave.
    fn answer_may_wait(&self, seq: u64, message: &Message) -> bool;

    /// Learns that a copy leaves.
    fn on_sent(&mut self, _now: Instant, _seq: u64, _path: PathId) {}

    /// Learns that a copy arrived, and when. Copies of which nothing is heard are lost.
    fn on_acked(&mut self, _now: Instant, _seq: u64, _receipt: &Receipt) {}
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
    target: Targets,
}

impl Plans {
    /// Makes them; `seed` draws which messages go everywhere to find out what that does.
    pub(super) fn new(reliability: &Reliability, seed: u64) -> Self {
        Self { all: All, best: Best, target: Targets::new(reliability, seed) }
    }

    /// Takes other targets of classes, for what is handed in from now on.
    pub(super) fn set_reliability(&mut self, reliability: &Reliability) {
        self.target.set_reliability(reliability);
    }

    /// Chooses the policy of a message that is handed in.
    pub(super) fn admit(&mut self, submission: &Submission) -> Form {
        match self.target.admit(submission) {
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
            Form::Target(_) => &self.target,
        }
    }

    /// Returns a policy that is to decide, or to learn.
    pub(super) fn of_mut(&mut self, form: Form) -> &mut dyn Plan {
        match form {
            Form::All => &mut self.all,
            Form::Best => &mut self.best,
            Form::Target(_) => &mut self.target,
        }
    }

    /// Tells whether any message has been under a target: only then is more to be told than changes
    /// of paths.
    pub(super) fn has_targets(&self) -> bool {
        self.target.is_in_use()
    }

    /// Tells whether a target needs backups that nothing else calls for.
    pub(super) fn needs_backups(&self) -> bool {
        self.target.needs_backups()
    }

    /// Learns that a copy arrived.
    pub(super) fn on_acked(&mut self, now: Instant, seq: u64, receipt: &Receipt) {
        if self.has_targets() {
            self.target.on_acked(now, seq, receipt);
        }
    }

    /// Returns when [`Plans::handle_timeout`] wants to be called.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.target.timeout()
    }

    /// Lets time pass.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.target.handle_timeout(now);
    }

    /// Returns what an application should know.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.target.poll_event()
    }

    /// Lists how targets are kept.
    pub(super) fn statuses(&self) -> impl Iterator<Item = ReliabilityStatus> + '_ {
        self.target.statuses()
    }
}
