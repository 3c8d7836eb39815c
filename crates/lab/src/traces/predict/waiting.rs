//! What waits for its slot: in the tunnel's own queue, or at a radio.

use std::collections::VecDeque;

use proto::TunnelQueue;
use units::{Duration, Instant, Rate};

use super::model::Around;

/// Packets in the order in which they leave.
#[derive(Debug)]
pub(super) enum Waiting {
    /// As before a session's paths [specs/tunnel.md §3].
    Tunnel { queue: TunnelQueue, way: Way },
    /// So many at most; what comes then is dropped.
    Radio { packets: VecDeque<Vec<u8>>, most: usize },
}

/// What a way of slots carries, as its tunnel finds it out: what went through in the last second of
/// a region.
#[derive(Debug)]
pub(super) struct Way {
    slot: Duration,
    packet_bytes: u64,
    least_rtt: Duration,
    /// How many packets each of the last slots let through, those outside regions left out.
    counts: VecDeque<u16>,
}

impl Waiting {
    /// Makes the queue of a tunnel over slots of this length.
    pub(super) fn tunnel(slot: Duration, around: &Around) -> Self {
        let packet_bytes = around.payload_bytes + super::model::HEADERS;
        let way = Way { slot, packet_bytes, least_rtt: around.delay * 2, counts: VecDeque::new() };
        Self::Tunnel { queue: TunnelQueue::default(), way }
    }

    /// Makes the queue of a radio.
    pub(super) fn radio(most: usize) -> Self {
        Self::Radio { packets: VecDeque::new(), most }
    }

    /// Learns of a slot whether it lies in a region, and how many packets it lets through.
    pub(super) fn set_way(&mut self, now: Instant, connected: bool, through: u16) {
        if let Self::Tunnel { queue, way } = self {
            let rate = connected.then(|| way.heard(through));
            queue.set_way(now, rate, way.least_rtt);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Tunnel { queue, .. } => queue.is_empty(),
            Self::Radio { packets, .. } => packets.is_empty(),
        }
    }

    /// Takes a packet of TCP, and drops one where too many wait.
    pub(super) fn push(&mut self, now: Instant, packet: Vec<u8>) {
        match self {
            Self::Tunnel { queue, .. } => queue.push(now, packet),
            Self::Radio { packets, most } if packets.len() < *most => packets.push_back(packet),
            Self::Radio { .. } => {}
        }
    }

    /// Returns the packet that leaves.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        match self {
            Self::Tunnel { queue, .. } => queue.pop(now),
            Self::Radio { packets, .. } => packets.pop_front(),
        }
    }
}

impl Way {
    /// Counts what a slot lets through; returns the rate of the last second.
    fn heard(&mut self, through: u16) -> Rate {
        let second = Duration::from_secs(1).as_nanos().div_ceil(self.slot.as_nanos()) as usize;
        self.counts.push_back(through);
        if self.counts.len() > second {
            self.counts.pop_front();
        }
        let packets: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        Rate::from_bytes_in(packets * self.packet_bytes, self.slot * self.counts.len() as u32)
    }
}
