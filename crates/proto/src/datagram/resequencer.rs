//! The receiver's half of plain delivery. Being written: the signatures are final.
use units::{Duration, Instant};

use super::{DatagramDelivery, DatagramFrame};
use crate::ids::PathId;

/// Restores the order of what asks for it, within a bounded delay; removes duplicates.
#[derive(Debug)]
pub(crate) struct Resequencer {}

impl Resequencer {
    /// `max` is the longest wait for a missing packet; zero: none.
    pub(crate) fn new(_max: Duration) -> Self {
        Self {}
    }
    /// `age` is the estimated age of the packet.
    pub(crate) fn handle_datagram(
        &mut self,
        _now: Instant,
        _path: PathId,
        _frame: &DatagramFrame<'_>,
        _age: Duration,
    ) {
    }
    pub(crate) fn poll_delivery(&mut self) -> Option<DatagramDelivery> {
        None
    }
    pub(crate) fn timeout(&self) -> Option<Instant> {
        None
    }
    pub(crate) fn handle_timeout(&mut self, _now: Instant) {}
    pub(crate) fn duplicates(&self) -> u64 {
        0
    }
}
