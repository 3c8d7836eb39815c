//! What is run, message after message, and what comes of it: the same in both lives.

use units::Duration;

/// Describes a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntervalPlan {
    /// Messages to deliver.
    pub(crate) messages: u32,
    /// Time from a delivery to the next sending.
    pub(crate) interval: Duration,
    /// Bytes of a message.
    pub(crate) bytes: usize,
    /// Without a delivery for so long a message counts as lost and the next one's turn comes.
    pub(crate) give_up: Duration,
    /// Rate of bulk that flows beside the messages, Mbit/s.
    pub(crate) bulk_mbps: f64,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntervalRun {
    /// Times between one delivery and the next, seconds; the first counts from one interval before
    /// the first sending.
    pub(crate) intervals: Vec<f64>,
    /// From one interval before the first sending to the last delivery, seconds.
    pub(crate) completion_s: f64,
    /// Messages that were not delivered.
    pub(crate) lost: u64,
    /// Deliveries of what had been delivered before.
    pub(crate) duplicates: u64,
}
