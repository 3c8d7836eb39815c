//! The sender's queue of plain packets. Being written: the signatures are final.
use units::{Duration, Instant};

use super::DatagramFrame;
use crate::ids::PathId;
use crate::select::Class;

/// Hands a packet to [`DatagramQueue::push`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    /// The consumer at the other end.
    pub(crate) channel: u8,
    /// Its class: telemetry or bulk.
    pub(crate) class: Class,
    /// Whether the receiver restores its order (TCP).
    pub(crate) resequence: bool,
    /// The packet.
    pub(crate) payload: Vec<u8>,
}

/// A short queue that drops from its oldest end.
#[derive(Debug)]
pub(crate) struct DatagramQueue {}

impl DatagramQueue {
    /// Two queues that feed one resequencer at the receiver must not both be given packets to
    /// resequence or replicate; in practice only the bulk queue resequences.
    pub(crate) fn new(_max_age: Duration, _max_bytes: usize) -> Self {
        Self {}
    }
    /// Replicates every packet on these paths (`redundant`); an empty list: each packet once.
    pub(crate) fn set_replicas(&mut self, _paths: &[PathId]) {}
    pub(crate) fn push(&mut self, _now: Instant, _packet: Plain) {}
    /// Takes the next packet for `path`; none when the next does not fit into `room` payload bytes.
    pub(crate) fn poll(
        &mut self,
        _now: Instant,
        _path: PathId,
        _room: usize,
    ) -> Option<DatagramFrame<'_>> {
        None
    }
    /// Payload length of the next packet for `path`, after dropping what is too old.
    pub(crate) fn next_len(&mut self, _now: Instant, _path: PathId) -> Option<usize> {
        None
    }
    /// Share of the queue that is free, in percent, by bytes and by age, whichever is less.
    pub(crate) fn free_percent(&self, _now: Instant) -> u8 {
        100
    }
    pub(crate) fn is_empty(&self) -> bool {
        true
    }
    pub(crate) fn bytes(&self) -> usize {
        0
    }
    /// Packets dropped so far: too old, or the queue was full.
    pub(crate) fn dropped(&self) -> u64 {
        0
    }
    /// When the oldest packet grows too old.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        None
    }
    pub(crate) fn handle_timeout(&mut self, _now: Instant) {}
}
