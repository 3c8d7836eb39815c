//! The tunnel's queue by itself: for models of a tunnel that ask what TCP makes of its drops, and
//! not of its repairs.

use units::{Duration, Instant, Rate};

use super::queue::{Queue, Waiting};
use super::segment::Segment;
use super::ways::Ways;

/// Names flows where nobody is an enemy.
const KEY: (u64, u64) = (0, 0);

/// What of TCP waits for a way whose rate is known [specs/tunnel.md §3].
#[derive(Debug, Default)]
pub struct TunnelQueue {
    queue: Queue,
    left: u64,
}

impl TunnelQueue {
    /// Learns what the way carries, and the least round trip over it; none while it carries
    /// nothing.
    pub fn set_way(&mut self, now: Instant, rate: Option<Rate>, least_rtt: Duration) {
        self.queue.set_ways(now, &Ways::alone(rate, least_rtt));
    }

    /// Takes an IP packet of TCP, and drops or refuses one where too many wait. What is no TCP is
    /// not taken.
    pub fn push(&mut self, now: Instant, payload: Vec<u8>) {
        let Some(Segment { part, flow, sequence }) = Segment::read(&payload, KEY) else { return };
        self.queue.push(Waiting { flow, part, sequence, since: now, payload }, self.left);
    }

    /// Returns the packet that leaves.
    pub fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        let number = self.left + 1;
        let (packet, _) =
            self.queue.pop_fresh(now, number).or_else(|| self.queue.pop(now, number))?;
        self.left = number;
        Some(packet.payload)
    }

    /// Tells whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
