//! One path at a time: what is not replicated goes once, on whichever usable path asks first.
//!
//! ```text
//! round r:   one copy, on the best path
//! round r+1: its copy was declared lost, its path fell silent, or 500 ms passed
//! ```
//! For what is paid by the byte and can wait, and for what other classes need when it is reliable.

use units::{Duration, Instant};

use super::{Plan, Round, View};
use crate::delivery::control::message::Message;

/// The least time between two rounds. The detection of losses and of silent paths starts a round
/// much sooner; this is the net below it, and long because the path that carries the message need
/// not be the one that the probe timeout is of [specs/delivery.md §3] (rule 6).
const BEST_ROUND: Duration = Duration::from_millis(500);

/// The plan of what is not replicated.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Best;

impl Plan for Best {
    fn round(&mut self, _view: View<'_>, _seq: u64, _message: &Message) -> Round {
        Round::Best
    }

    fn next_round(&self, view: View<'_>, _seq: u64, message: &Message) -> Option<Instant> {
        let started = message.round_started.filter(|_| message.policy().reliable)?;
        Some(started + view.probe.max(BEST_ROUND))
    }

    fn answer_may_wait(&self, _seq: u64, _message: &Message) -> bool {
        false
    }
}
