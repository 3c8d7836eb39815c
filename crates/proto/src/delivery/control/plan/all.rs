//! ConClone: control on every path, again and again at a constant pace [ConClone §3.3.2].
//!
//! ```text
//! round r:   a copy on every path as each has room, but not behind one that may still arrive there
//! round r+1: when every copy under way was declared lost, or
//!            probe timeout after the first copy of round r
//! one usable path left: a second copy 5 ms after the first, within the round
//! ```
//!
//! *Deviations from the paper*:
//! 1. Sub-flows of MPTCP send a lost copy again after TCP's timeout, which doubles; rounds here
//!    follow each other at a constant probe timeout.
//! 2. The paper has one class of control; policies here differ in order, life and persistence, and
//!    some messages are not replicated: they go to the best path (`best.rs`).
//! 3. The second copy on a lone path, and copies on paths that have fallen silent, are additions.

use units::{Duration, Instant};

use super::{Due, Plan, Round, View};
use crate::delivery::control::ControlPath;
use crate::delivery::control::message::Message;
use crate::ids::PathId;
use crate::path::PATIENCE_WITHOUT_PATH;

/// The pause before a second copy where one usable path is left: 5 ms. Long enough for most loss
/// bursts of a radio's own queue to pass, short against the deadlines of autopilots and ground
/// stations, of which the first is 250 ms [specs/delivery.md §3] (rule 4).
pub(super) const SECOND_COPY_AFTER: Duration = Duration::from_millis(5);

/// The least time between two rounds of copies, and for which the answer to one is waited for:
/// twice the pause before the second copy, so that the second copy belongs to its round
/// [specs/delivery.md §3] (rule 3).
pub(in super::super) const MIN_ROUND: Duration = SECOND_COPY_AFTER.saturating_mul(2);

/// The plan of the paper, with its deviations.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct All;

impl Plan for All {
    fn round(&mut self, view: View<'_>, _seq: u64, message: &Message) -> Round {
        everywhere(view, message, false)
    }

    fn next_round(&self, view: View<'_>, _seq: u64, message: &Message) -> Option<Instant> {
        let started = message.round_started.filter(|_| message.policy().reliable)?;
        // While no path is usable the pace is slower. It stays constant, so nothing is backed off
        // exponentially. It keeps a link that stalls from being handed a hundred rounds that it
        // releases all at once: 50 messages a second of 150 bytes that live for two seconds then
        // cost 75 kB/s instead of 600. The first sign of life of a path starts a round at once.
        let is_usable = view.pending.any_usable(message.policy().class);
        let least = if is_usable { MIN_ROUND } else { PATIENCE_WITHOUT_PATH };
        Some(started + view.probe.max(least))
    }

    fn second_due(
        &self,
        view: View<'_>,
        _seq: u64,
        message: &Message,
        path: PathId,
    ) -> Option<Due> {
        let is_lone = view.pending.lone_usable(message.policy().class) == Some(path);
        is_lone.then(|| Due::At(view.now + SECOND_COPY_AFTER))
    }

    fn answer_may_wait(&self, _seq: u64, _message: &Message) -> bool {
        true
    }
}

/// Tells whether a copy of what is replicated goes at once on a path that is new or works again.
pub(in super::super) fn wants_on_gained(
    now: Instant,
    message: &Message,
    path: &ControlPath,
) -> bool {
    path.takes(message.policy().class)
        && (message.policy().reliable || !message.is_copied)
        && wants_copy(now, message, path)
}

/// Returns the round that puts a copy on every path that takes control, and on backups that nothing
/// else calls for where they `are_needed`.
pub(super) fn everywhere(view: View<'_>, message: &Message, are_needed: bool) -> Round {
    let class = message.policy().class;
    let wants = |path: &&ControlPath| {
        let takes = path.takes(class) || are_needed && path.carries.has(class.tier());
        takes && wants_copy(view.now, message, path)
    };
    Round::On(view.paths().filter(wants).map(|path| path.id).collect())
}

/// Tells whether a copy that is sent on the path now would not run behind one that may still
/// arrive.
fn wants_copy(now: Instant, message: &Message, path: &ControlPath) -> bool {
    let sent_at = message.sent_on(path.id);
    sent_at.is_none_or(|sent_at| now.since(sent_at) >= path.repeat_after)
}
