//! What an end of a scheme has handed to its links.

/// Counts bytes that one end handed to its links, IP and UDP headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WireBytes {
    /// All of them.
    pub(crate) sent: u64,
    /// Those of them that found a link's queue full: they never used the link.
    pub(crate) queue_dropped: u64,
}

impl WireBytes {
    /// Returns what was counted since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent - before.sent,
            queue_dropped: self.queue_dropped - before.queue_dropped,
        }
    }

    /// Adds what one link counted.
    pub(crate) fn add(&mut self, stats: &netem::LinkStats) {
        self.sent += stats.bytes_in;
        self.queue_dropped += stats.queue_dropped_bytes;
    }

    /// Returns the bytes that entered a link.
    pub(crate) const fn entered(self) -> u64 {
        self.sent - self.queue_dropped
    }
}
