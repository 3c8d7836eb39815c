//! What holds bulk back on a path: its window, its pace, and what the path is to bulk.

use units::Instant;

use super::BulkRole;
use super::pacer::Pacer;
use crate::congestion::{CongestionKind, Controller};
use crate::limits;

/// The congestion control of a path, and what belongs to it.
#[derive(Debug)]
pub(super) struct Bulk {
    pub(super) congestion: Box<dyn Controller>,
    pub(super) pacer: Pacer,
    /// When the window was full last.
    pub(super) full_at: Option<Instant>,
    pub(super) role: BulkRole,
}

impl Bulk {
    /// Begins with the first window.
    pub(super) fn new(now: Instant, congestion: CongestionKind) -> Self {
        Self {
            congestion: congestion.controller(limits::MIN_DATAGRAM),
            pacer: Pacer::new(now),
            full_at: None,
            role: BulkRole::Free,
        }
    }
}
