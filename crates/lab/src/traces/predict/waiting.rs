//! What waits for its slot: a tunnel's queue, or a radio's.

use std::collections::VecDeque;

use units::{Duration, Instant};

/// When nothing has left for so long, and for the time of four packets, the link has stalled …
const STALLED: Duration = Duration::from_millis(30);
const STALLED_PACKETS: u32 = 4;
/// … and for as long after that as it has, but no longer than this, nothing is dropped.
const SPARED: Duration = Duration::from_secs(3);
/// Packets that a stalled link may have waiting: 4 MiB.
const STALLED_MAX: usize = 2_800;

/// Which packets stay where too many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The oldest: the newest is dropped, as by a radio.
    Newest,
    /// All that TCP sends again; the oldest of the others is dropped, and none while the link has stalled, as by a tunnel
    /// [specs/tunnel.md §3].
    Oldest,
}

/// Packets in the order in which they came.
#[derive(Debug)]
pub(super) struct Waiting {
    most: usize,
    kept: Kept,
    /// Nothing has left for longer than this: the link has stalled.
    stalled: Duration,
    /// Each with whether TCP sends it again.
    packets: VecDeque<(Vec<u8>, bool)>,
    /// The sequence number that lies farthest in the flow.
    farthest: Option<u32>,
    /// When a packet left last, or came to an empty queue.
    left_at: Instant,
    spared_until: Instant,
}

impl Waiting {
    /// Makes a queue of so many packets, each of which takes a slot.
    pub(super) fn new(most: usize, slot: Duration, kept: Kept) -> Self {
        Self {
            most,
            kept,
            stalled: STALLED + slot * STALLED_PACKETS,
            packets: VecDeque::new(),
            farthest: None,
            left_at: Instant::ZERO,
            spared_until: Instant::ZERO,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes a packet of TCP, and drops one where too many wait.
    pub(super) fn push(&mut self, now: Instant, packet: Vec<u8>) {
        let sequence = sequence(&packet);
        let is_repeat = self.farthest.is_some_and(|farthest| !is_after(sequence, farthest));
        if !is_repeat {
            self.farthest = Some(sequence);
        }
        if self.packets.is_empty() {
            self.left_at = now;
        }
        let is_spared = now < self.spared_until || now.since(self.left_at) > self.stalled;
        match self.kept {
            Kept::Newest if self.packets.len() >= self.most => return,
            Kept::Oldest if is_spared && self.packets.len() >= STALLED_MAX => return,
            _ => self.packets.push_back((packet, is_repeat)),
        }
        if self.kept == Kept::Oldest && !is_spared && self.packets.len() > self.most {
            let oldest = self.packets.iter().position(|(_, is_repeat)| !is_repeat).unwrap_or(0);
            self.packets.remove(oldest);
        }
    }

    /// Returns the packet that leaves.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (packet, _) = self.packets.pop_front()?;
        let stood = now.since(self.left_at);
        if stood > self.stalled {
            self.spared_until = self.spared_until.max(now + stood.min(SPARED));
        }
        self.left_at = now;
        Some(packet)
    }
}

/// Returns the sequence number of a packet of TCP over IPv4 without options; 0 of what is none.
fn sequence(packet: &[u8]) -> u32 {
    packet.get(24..28).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Tells whether one sequence number lies after another.
fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 > 0
}
