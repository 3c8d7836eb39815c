//! What happened to each message of the outbox, kept until the session fetches it: for records of
//! flights.
//!
//! Off unless the configuration asks for it, and then bounded: what nobody fetches is counted.

use std::collections::VecDeque;

use units::Instant;

use super::Submission;
use crate::event::{Outcome, Step, StepKind};
use crate::recovery::Receipt;

/// Steps that wait to be fetched, at most: those of 300 messages, more than one turn of a driver
/// handles.
const UNREAD: usize = 2_048;

/// The steps that wait.
#[derive(Debug, Default)]
pub(super) struct Steps {
    on: bool,
    waiting: VecDeque<Step>,
    skipped: u64,
    /// The latest moment that any step had.
    now: Instant,
}

impl Steps {
    /// Keeps steps from now on.
    pub(super) fn start(&mut self) {
        self.on = true;
    }

    pub(super) fn on_handed_in(&mut self, now: Instant, message: u64, submission: &Submission) {
        self.note(now, message, || StepKind::HandedIn {
            class: submission.policy.class,
            channel: submission.channel,
            mavlink: submission.lane.stream.map(|stream| stream.message),
            bytes: submission.payload.len(),
            life: submission.policy.ttl,
        });
    }

    pub(super) fn on_acked(&mut self, message: u64, receipt: &Receipt) {
        let Receipt { now, path, sent_at, arrived } = *receipt;
        self.note(now, message, || StepKind::Acked { path, sent_at, arrived });
    }

    /// Notes an end, which comes with another step or with a timer: its time is that of the last
    /// step.
    pub(super) fn on_ended(&mut self, message: u64, outcome: Outcome) {
        self.note(self.now, message, || StepKind::Ended(outcome));
    }

    pub(super) fn note(&mut self, at: Instant, message: u64, kind: impl FnOnce() -> StepKind) {
        if !self.on {
            return;
        }
        self.now = self.now.max(at);
        if self.waiting.len() < UNREAD {
            self.waiting.push_back(Step { at, message, kind: kind() });
        } else {
            self.skipped += 1;
        }
    }

    /// Lets an end that comes without another step have its time.
    pub(super) fn on_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Returns the next step; how many were not kept comes after those that were.
    pub(super) fn poll(&mut self) -> Option<Step> {
        if let Some(step) = self.waiting.pop_front() {
            return Some(step);
        }
        let skipped = std::mem::take(&mut self.skipped);
        let kind = StepKind::Skipped(skipped);
        (skipped > 0).then_some(Step { at: self.now, message: 0, kind })
    }
}
