//! The receiver's half of control delivery. Being written: the signatures are final.
use units::{Duration, Instant};

use super::{ControlDelivery, ControlFrame, LaneFloor, MessageAge};

/// Says what the inbox did with a copy, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    /// It can be delivered now.
    Ready,
    /// It waits for an earlier one.
    Held,
    /// It came before.
    Duplicate,
    /// It is beyond its time to live, or came after a newer one.
    Late,
    /// Its lane is out of bounds.
    Refused,
}

/// Counts the copies of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InboxCounters {
    pub(crate) delivered: u64,
    pub(crate) duplicates: u64,
    pub(crate) late: u64,
    pub(crate) held: u64,
}

/// Removes duplicates and restores order.
#[derive(Debug)]
pub(crate) struct Inbox {}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {}
    }
    /// Sets how long a sequenced lane waits for an earlier message (one probe timeout).
    pub(crate) fn set_wait(&mut self, _wait: Duration) {}
    pub(crate) fn handle_control(
        &mut self,
        _now: Instant,
        _frame: &ControlFrame<'_>,
        _age: MessageAge,
    ) -> Reception {
        Reception::Ready
    }
    pub(crate) fn handle_floor(&mut self, _now: Instant, _floor: LaneFloor) {}
    pub(crate) fn poll_delivery(&mut self) -> Option<ControlDelivery> {
        None
    }
    pub(crate) fn timeout(&self) -> Option<Instant> {
        None
    }
    pub(crate) fn handle_timeout(&mut self, _now: Instant) {}
    pub(crate) fn counters(&self) -> &[InboxCounters; 6] {
        const NONE: InboxCounters = InboxCounters { delivered: 0, duplicates: 0, late: 0, held: 0 };
        &[NONE; 6]
    }
}
