//! The receiver's side of a lane: what was passed on, and what waits for an earlier message.
//!
//! Order only; time and the bound over all lanes are `inbox.rs`.

use std::collections::BTreeMap;

use units::{Duration, Instant};

use crate::recovery::Age;
use crate::select::Class;
use crate::window::extend;

/// A lane of the peer.
#[derive(Debug, Default)]
pub(super) struct ReceiverLane {
    /// The lowest number that may still be passed on.
    next: u64,
    held: BTreeMap<u64, Held>,
    /// Bulk of the lane has come as control: message delivery does not carry it.
    pub(super) is_plain: bool,
}

/// A message that waits for an earlier one.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) channel: u8,
    pub(super) class: Class,
    pub(super) ttl: Duration,
    /// Its age when it came in.
    pub(super) age: Age,
    pub(super) arrived: Instant,
    /// When it stops waiting.
    pub(super) release: Instant,
    /// The message; none when it came too late to be of use and only keeps its place.
    pub(super) payload: Option<Vec<u8>>,
}

impl ReceiverLane {
    /// Extends the low 32 bits of a number of this lane.
    pub(super) fn extend(&self, low: u32) -> u64 {
        extend(low, self.next)
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns true for a number that was neither passed on or over, nor is held.
    pub(super) fn accepts(&self, number: u64) -> bool {
        number >= self.next && !self.held.contains_key(&number)
    }

    /// Keeps a message until it is due.
    pub(super) fn hold(&mut self, number: u64, held: Held) {
        self.held.insert(number, held);
    }

    /// Takes the first message that is below `next`, or is `next` itself, which then moves on.
    pub(super) fn take_due(&mut self) -> Option<(u64, Held)> {
        let (&number, _) = self.held.first_key_value()?;
        if number > self.next {
            return None;
        }
        self.next = self.next.max(number + 1);
        self.held.pop_first()
    }

    /// Gives up waiting for numbers below `next`.
    pub(super) fn raise(&mut self, next: u64) {
        self.next = self.next.max(next);
    }
}
