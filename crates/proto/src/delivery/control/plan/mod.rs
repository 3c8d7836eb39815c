//! Which copies of a control message leave when: a policy, asked by `outbox.rs`, which carries it out.
//!
//! A policy is a trait, a read-only view and one file each, as schedulers are. [`conclone`] is today's:
//! every path, at a constant pace. What another one needs to know of a path goes into [`ControlPath`],
//! which the outbox keeps up to date.

mod conclone;

use core::fmt::Debug;

use smallvec::SmallVec;
use units::{Duration, Instant};

pub(super) use conclone::ConClone;

use super::ControlPath;
use super::message::Message;
use super::pending::Pending;
use crate::ids::PathId;

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

/// Decides which copies of a message leave when.
///
/// ```text
/// round      handed in, all copies lost, or next_round passed: a copy on each path of `round`
/// within it  second_after a copy that has left: one more, where `second_on` says
/// besides    a path comes or works again: a copy there at once, where `wants_on_gained`
/// ```
pub(super) trait Plan: Debug + Send {
    /// Returns where copies go in a round that begins now.
    fn round(&self, view: View<'_>, message: &Message) -> Round;

    /// Returns when the next round is due; none where there is none, or no copy has left in this one.
    fn next_round(&self, view: View<'_>, message: &Message) -> Option<Instant>;

    /// Returns after which time a second copy follows one that leaves on `path` now.
    fn second_after(&self, view: View<'_>, message: &Message, path: PathId) -> Option<Duration>;

    /// Returns the path of a second copy that is due.
    fn second_on(&self, view: View<'_>, message: &Message) -> Option<PathId>;

    /// Tells whether a copy goes at once on a path that is new or works again.
    fn wants_on_gained(&self, view: View<'_>, message: &Message, path: &ControlPath) -> bool;
}
