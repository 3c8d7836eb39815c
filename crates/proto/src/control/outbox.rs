//! The sender's half of control delivery. Being written: the signatures are final.
use units::{Duration, Instant};

use super::{ControlFrame, ControlPath, LaneFloor, Submission};
use crate::event::{MessageId, Outcome};
use crate::ids::PathId;
use crate::select::Tier;

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// Too much is in flight or queued; try again later.
    Busy,
}

/// Counts what became of the messages of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutboxCounters {
    pub(crate) submitted: u64,
    pub(crate) copies_sent: u64,
    pub(crate) delivered: u64,
    pub(crate) expired: u64,
    pub(crate) superseded: u64,
}

/// Keeps control messages until they are delivered, superseded or expired.
#[derive(Debug)]
pub(crate) struct Outbox {}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {}
    }
    /// Tells the validated paths (suspected ones included) and the probe timeout; call on change.
    pub(crate) fn set_paths(&mut self, _now: Instant, _paths: &[ControlPath], _probe: Duration) {}
    /// Takes a message in; reliable ones get an id and, later, exactly one outcome.
    pub(crate) fn submit(
        &mut self,
        _now: Instant,
        _submission: Submission,
    ) -> Result<Option<MessageId>, Rejected> {
        Err(Rejected::Busy)
    }
    /// Returns true when `poll` would have a copy for the path, given room.
    pub(crate) fn wants(&self, _path: PathId, _tier: Tier) -> bool {
        false
    }
    /// Takes the next copy for a path: the caller sends it in the datagram that it is building, and
    /// remembers its full sequence number with the packet. `room` is payload bytes.
    pub(crate) fn poll(
        &mut self,
        _now: Instant,
        _path: PathId,
        _tier: Tier,
        _room: usize,
    ) -> Option<(u64, ControlFrame<'_>)> {
        None
    }
    /// Takes the next floor to announce on a path (tier Control).
    pub(crate) fn poll_floor(&mut self, _now: Instant, _path: PathId) -> Option<LaneFloor> {
        None
    }
    /// A packet that carried copy `seq` on `path` was acknowledged / declared lost.
    pub(crate) fn on_acked(&mut self, _now: Instant, _seq: u64, _path: PathId) {}
    pub(crate) fn on_lost(&mut self, _now: Instant, _seq: u64, _path: PathId) {}
    /// The same for floors.
    pub(crate) fn on_floor_acked(&mut self, _floor: LaneFloor) {}
    pub(crate) fn on_floor_lost(&mut self, _now: Instant, _floor: LaneFloor, _path: PathId) {}
    pub(crate) fn poll_outcome(&mut self) -> Option<(MessageId, Outcome)> {
        None
    }
    pub(crate) fn timeout(&self) -> Option<Instant> {
        None
    }
    pub(crate) fn handle_timeout(&mut self, _now: Instant) {}
    /// Ends the session: what is in flight becomes indeterminate.
    pub(crate) fn end(&mut self) {}
    pub(crate) fn counters(&self) -> &[OutboxCounters; 6] {
        const NONE: OutboxCounters = OutboxCounters {
            submitted: 0,
            copies_sent: 0,
            delivered: 0,
            expired: 0,
            superseded: 0,
        };
        &[NONE; 6]
    }
}
