//! One end of the `block_rlnc` scheme: messages in blocks, each a random linear code of its own.
//!
//! ```text
//! block            what was submitted within one timing cycle of 10 ms       [LRT §IV-B]
//! source symbols   sent at once, uncoded
//! repair symbols   of a block from the end of its cycle on, until it is acknowledged; r for each
//!                  source symbol. First the blocks that have waited a round trip for their
//!                  acknowledgement, then the one that has had none yet, then in turn
//! ACK              everything below, in order; and the block that a repair symbol found complete
//! ```
//! Of its block-based scheme the paper gives the first line only; the rest makes it a fair
//! opponent. The sender is told the links' round-trip time. The code is `coding`'s window code with
//! the block as its window.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use coding::{CoefficientKey, window};
use netem::HostTransmit;
use units::{Duration, Instant};

/// Port that the datagrams use at both ends.
const PORT: u16 = 5_001;
/// The timing cycle [LRT §IV-B].
const CYCLE: Duration = Duration::from_millis(10);
/// Symbols that the sender keeps and the receiver waits for: 20 s at the usual interval.
const WINDOW: usize = 4_000;
/// A round trip that takes this much longer than the links' delay has lost its acknowledgement.
const MARGIN: Duration = Duration::from_millis(2);

/// The datagram holds a source symbol: its number, the symbol.
const SOURCE: u8 = 0;
/// It holds a repair symbol: its number, the block's first symbol and count, the combination.
const REPAIR: u8 = 1;
/// It holds an ACK: everything below is there, and the block that begins at.
const ACK: u8 = 2;

/// Says what an end is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPlan {
    /// Bytes of a message.
    pub(crate) bytes: usize,
    /// Repair ÷ source.
    pub(crate) redundancy: f64,
    /// One-way delay of the link.
    pub(crate) delay: Duration,
}

/// Carries messages in blocks over the better link, which scenarios name first.
pub(crate) struct BlockEnd {
    local: SocketAddr,
    remote: SocketAddr,
    redundancy: f64,
    round_trip: Duration,
    encoder: window::Encoder,
    decoder: window::Decoder,
    /// The next symbol that the application gets.
    fetched: u64,
    /// Blocks that are not acknowledged; the last may still be open.
    blocks: VecDeque<Block>,
    /// When the open block's cycle ends.
    closes_at: Option<Instant>,
    tokens: f64,
    next_repair: u64,
    turn: usize,
    outgoing: VecDeque<Vec<u8>>,
    delivered: VecDeque<Vec<u8>>,
}

/// One block at the sender.
struct Block {
    first: u64,
    count: u64,
    open: bool,
    /// When its last symbol left, of either kind.
    sent: Instant,
    repairs: u32,
}

impl BlockEnd {
    /// Makes an end between two addresses of the first link.
    ///
    /// # Errors
    /// When there is no code for symbols of this size.
    pub(crate) fn new(local: Ipv4Addr, remote: Ipv4Addr, plan: BlockPlan) -> Result<Self, String> {
        let BlockPlan { bytes, redundancy, delay } = plan;
        let key = CoefficientKey::new(0);
        let failed = |error: coding::Error| error.to_string();
        Ok(Self {
            local: (local, PORT).into(),
            remote: (remote, PORT).into(),
            redundancy,
            round_trip: 2 * delay + MARGIN,
            encoder: window::Encoder::new(bytes, WINDOW, key).map_err(failed)?,
            decoder: window::Decoder::new(bytes, WINDOW, key).map_err(failed)?,
            fetched: 0,
            blocks: VecDeque::new(),
            closes_at: None,
            tokens: 0.0,
            next_repair: 0,
            turn: 0,
            outgoing: VecDeque::new(),
            delivered: VecDeque::new(),
        })
    }

    /// Takes a message; false when too many are not acknowledged.
    pub(crate) fn send(&mut self, now: Instant, bytes: &[u8]) -> bool {
        // What is submitted at the end of a cycle belongs to the next.
        self.close(now);
        let Ok(id) = self.encoder.push(bytes) else { return false };
        if self.closes_at.is_none() {
            self.closes_at = Some(now + CYCLE);
            self.blocks.push_back(Block { first: id, count: 0, open: true, sent: now, repairs: 0 });
        }
        if let Some(block) = self.blocks.back_mut() {
            block.count += 1;
            block.sent = now;
        }
        self.tokens += self.redundancy;
        self.outgoing.push_back([&[SOURCE], &id.to_le_bytes()[..], bytes].concat());
        self.repair(now);
        true
    }

    /// Tells whether messages wait for the application.
    pub(crate) fn has_delivered(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// Returns the next message, in order.
    pub(crate) fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }

    /// Takes a datagram from the link.
    pub(crate) fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        let Some((kind, rest)) = bytes.split_first() else { return };
        let number = |at: usize| {
            let bytes = rest.get(8 * at..8 * at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        match (*kind, number(0), number(1), number(2)) {
            (SOURCE, Some(id), ..) => {
                self.decoder.push_source(id, &rest[8..]);
                self.deliver(None);
            }
            (REPAIR, Some(repair), Some(first), Some(count)) => {
                self.decoder.push_repair(repair, first..first + count, &rest[24..]);
                let complete = self.decoder.missing(first..first + count).next().is_none();
                self.deliver(complete.then_some(first));
            }
            (ACK, Some(below), Some(block), _) => {
                self.blocks.retain(|other| {
                    other.open || (other.first + other.count > below && other.first != block)
                });
                self.encoder.trim(self.blocks.front().map_or(below, |block| block.first));
                self.repair(now);
            }
            _ => {}
        }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.close(now);
        self.repair(now);
    }

    /// Returns when a cycle ends or an acknowledgement is overdue.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let closed = self.blocks.iter().filter(|block| !block.open);
        let overdue = closed.map(|block| block.sent + self.round_trip);
        self.closes_at.into_iter().chain(overdue).min()
    }

    /// Writes the next datagram for the link.
    pub(crate) fn poll_transmit(&mut self, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        bytes.extend_from_slice(&self.outgoing.pop_front()?);
        Some(HostTransmit { interface: 0, source: self.local, destination: self.remote })
    }

    /// Ends the cycle when its time has come.
    fn close(&mut self, now: Instant) {
        if self.closes_at.is_some_and(|at| at <= now) {
            self.closes_at = None;
            if let Some(block) = self.blocks.back_mut() {
                block.open = false;
            }
        }
    }

    /// Sends repair symbols as far as the rate allows, and one beyond it for every block that is
    /// overdue: that one is known to be needed.
    fn repair(&mut self, now: Instant) {
        while let Some(index) = self.overdue(now) {
            self.send_repair(now, index);
        }
        while self.tokens >= 1.0
            && let Some(index) = self.next_in_turn()
        {
            self.tokens -= 1.0;
            self.send_repair(now, index);
        }
    }

    fn overdue(&self, now: Instant) -> Option<usize> {
        let overdue = |block: &Block| !block.open && block.sent + self.round_trip <= now;
        self.blocks.iter().position(overdue)
    }

    /// Returns the oldest block without a repair symbol, else the next in turn.
    fn next_in_turn(&mut self) -> Option<usize> {
        let fresh = self.blocks.iter().position(|block| !block.open && block.repairs == 0);
        if fresh.is_some() {
            return fresh;
        }
        // What the open block has brought is its own.
        let open = self.blocks.iter().filter(|block| block.open).map(|block| block.count);
        let reserved = self.redundancy * open.sum::<u64>() as f64;
        let closed = self.blocks.iter().filter(|block| !block.open).count();
        self.turn += 1;
        (closed > 0 && self.tokens - reserved >= 1.0).then(|| self.turn % closed)
    }

    fn send_repair(&mut self, now: Instant, index: usize) {
        let Some(block) = self.blocks.get_mut(index) else { return };
        block.sent = now;
        block.repairs += 1;
        let (repair, range) = (self.next_repair, block.first..block.first + block.count);
        self.next_repair += 1;
        let mut payload = Vec::new();
        if self.encoder.repair(repair, range.clone(), &mut payload).is_ok() {
            let head = [repair, range.start, block.count].map(u64::to_le_bytes).concat();
            self.outgoing.push_back([&[REPAIR], &head[..], &payload].concat());
        }
    }

    /// Hands out what is in order, and acknowledges.
    fn deliver(&mut self, block: Option<u64>) {
        // Only what is missing in order counts; the decoder's own list is not needed.
        while self.decoder.poll_decoded().is_some() {}
        let end = self.decoder.next_in_order();
        for id in self.fetched..end {
            self.delivered.extend(self.decoder.get(id).map(<[u8]>::to_vec));
        }
        self.fetched = end;
        self.decoder.release(end);
        let head = [end, block.unwrap_or(u64::MAX)].map(u64::to_le_bytes).concat();
        self.outgoing.push_back([&[ACK], &head[..]].concat());
    }
}
