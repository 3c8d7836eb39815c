//! The encoders of a session: source symbols first and at once, then repair in turn.

use std::collections::VecDeque;

use coding::{CoefficientKey, window};
use units::{Duration, Instant};

use super::bucket::Bucket;
use super::{coder_bytes, coders_alive};
use crate::delivery::message::{Divider, FormCounters, Offer, SymbolFrame};
use crate::limits;
use crate::path::PathSnapshot;
use crate::wire::{RankFrame, RepairFrame, SYMBOL_OVERHEAD, SourceFrame};

/// A smoothed round-trip time that is this much above the least means that the path has a queue.
/// The smoothed one, not the standing one that paths judge losses by: a symbol may come late
/// through a queue that comes and goes, and the question here is which repair symbols can wait, not
/// what was lost.
const SMOOTHED_QUEUE: Duration = Duration::from_millis(5);

/// Encodes, sends and keeps the coders that the receiver has not fully decoded.
#[derive(Debug)]
pub(super) struct Sender {
    key: CoefficientKey,
    /// K.
    k: u64,
    /// β.
    beta: f64,
    /// The coders from `first` on; the last one may have room for more symbols.
    coders: VecDeque<Coder>,
    /// Bytes that the coders take, and how many more they may take.
    bytes: usize,
    room: usize,
    /// The id of the first coder kept.
    first: u64,
    /// The coder whose turn it is to be repaired.
    turn: u64,
    /// The number of the next repair symbol.
    next_repair: u64,
    bucket: Bucket,
    /// The repair symbol that leaves.
    repair: Vec<u8>,
    /// The source symbol that leaves.
    source: Vec<u8>,
    counters: FormCounters,
}

/// One encoder and what is known of its decoder.
#[derive(Debug)]
struct Coder {
    encoder: window::Encoder,
    /// Symbols that the decoder has seen, as far as ACKs told.
    decoder_rank: u64,
}

impl Coder {
    /// Returns how many symbols were added.
    fn rank(&self) -> u64 {
        self.encoder.next()
    }

    /// Tells whether the encoder knows more than the decoder [LRT §III-C].
    fn needs_repair(&self) -> bool {
        self.rank() > self.decoder_rank
    }
}

impl Sender {
    /// Starts without coders.
    pub(super) fn new(key: u64, k: u64, redundancy: f64, beta: f64) -> Self {
        Self {
            key: CoefficientKey::new(key),
            k,
            beta: beta.clamp(0.0, 1.0),
            coders: VecDeque::new(),
            bytes: 0,
            room: usize::MAX,
            first: 0,
            turn: 0,
            next_repair: 0,
            bucket: Bucket::new(redundancy, k as f64),
            repair: Vec::new(),
            source: Vec::new(),
            counters: FormCounters::default(),
        }
    }

    /// Tells whether something may leave.
    pub(super) fn wants(&self, divider: &Divider) -> bool {
        (!divider.is_empty() && self.has_place())
            || (self.bucket.has_token() && self.needs_repair())
    }

    /// Returns the next symbol for the path that is offered.
    pub(super) fn poll_symbol(
        &mut self,
        now: Instant,
        offer: &Offer<'_>,
        room: usize,
        divider: &mut Divider,
    ) -> Option<SymbolFrame<'_>> {
        if !offer.is_best || room < SYMBOL_OVERHEAD + limits::SYMBOL_BYTES {
            return None;
        }
        self.let_time_pass(now);
        if !divider.is_empty()
            && self.has_place()
            && let Some((coder, id)) = self.add_source(now, divider)
        {
            let payload = &self.source;
            return Some(SymbolFrame::Source(SourceFrame { coder, id, back: id, payload }));
        }
        if !self.bucket.has_token() || !self.may_repair(offer) {
            return None;
        }
        let (coder, repair, count) = self.add_repair()?;
        self.bucket.take();
        self.counters.repair += 1;
        let payload = &self.repair;
        Some(SymbolFrame::Repair(RepairFrame { coder, repair, first: 0, count, payload }))
    }

    /// Takes a rank-update ACK; false when it speaks of what was never sent.
    pub(super) fn on_rank(&mut self, ack: &RankFrame) -> bool {
        let end = self.first + self.coders.len() as u64;
        if ack.coder >= end || ack.filter > end || ack.rank > self.k {
            return false;
        }
        if let Some(index) = ack.coder.checked_sub(self.first) {
            let coder = &mut self.coders[index as usize];
            if ack.rank > coder.rank() {
                return false;
            }
            coder.decoder_rank = coder.decoder_rank.max(ack.rank);
        }
        // Only full coders can lie below the filter.
        while let Some(front) = self.coders.front()
            && front.rank() == self.k
            && (self.first < ack.filter || front.decoder_rank == self.k)
        {
            self.bytes -= front.encoder.bytes();
            self.coders.pop_front();
            self.first += 1;
        }
        true
    }

    /// Returns when time brings the token of a repair symbol that is needed.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let waits = !self.bucket.has_token() && self.needs_repair();
        waits.then(|| self.bucket.next_token()).flatten()
    }

    /// Lets time pass.
    pub(super) fn let_time_pass(&mut self, now: Instant) {
        if self.needs_repair() {
            self.bucket.fill(now);
        } else {
            self.bucket.skip(now);
        }
    }

    /// Returns how many bytes the coders take.
    pub(super) fn held(&self) -> usize {
        self.bytes
    }

    /// Notes how many bytes more they may take.
    pub(super) fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// Returns what was counted.
    pub(super) fn counters(&self) -> FormCounters {
        self.counters
    }

    /// Tells whether every decoder has all that its encoder has.
    #[cfg(test)]
    pub(super) fn has_no_coder_in_need(&self) -> bool {
        !self.needs_repair()
    }

    /// Tells whether another source symbol has a place in a coder.
    fn has_place(&self) -> bool {
        let open = self.coders.back().is_some_and(|coder| coder.rank() < self.k);
        let has_room = self.coders.is_empty() || self.room >= coder_bytes(self.k);
        open || (has_room && (self.coders.len() as u64) < coders_alive(self.k))
    }

    fn needs_repair(&self) -> bool {
        self.coders.iter().any(Coder::needs_repair)
    }

    /// Tells whether the rate stays below Bw·β, as far as Bw shows.
    fn may_repair(&self, offer: &Offer<'_>) -> bool {
        let path = offer.paths.iter().find(|path| path.id == offer.path);
        path.is_none_or(|path| {
            let share = (path.cwnd as f64 * self.beta) as u64;
            !has_queue(path) || (offer.has_budget && path.in_flight <= share)
        })
    }

    /// Divides the next symbol and adds it to the open coder, or to a new one.
    fn add_source(&mut self, now: Instant, divider: &mut Divider) -> Option<(u64, u64)> {
        divider.divide(now, &mut self.source)?;
        if self.coders.back().is_none_or(|coder| coder.rank() == self.k) {
            let id = self.first + self.coders.len() as u64;
            let key = self.key.for_block(id);
            let encoder = window::Encoder::new(limits::SYMBOL_BYTES, self.k as usize, key).ok()?;
            self.bytes += encoder.bytes();
            self.coders.push_back(Coder { encoder, decoder_rank: 0 });
        }
        let coder = self.first + self.coders.len() as u64 - 1;
        let encoder = &mut self.coders.back_mut()?.encoder;
        let before = encoder.bytes();
        let id = encoder.push(&self.source).ok()?;
        self.bytes = self.bytes + encoder.bytes() - before;
        self.bucket.on_source(now);
        self.counters.source += 1;
        Some((coder, id))
    }

    /// Combines everything that the next coder in turn holds, of those that need it.
    fn add_repair(&mut self) -> Option<(u64, u64, u16)> {
        let count = self.coders.len() as u64;
        let turn = self.turn.saturating_sub(self.first) % count.max(1);
        let order = (0..count).map(|step| (turn + step) % count);
        let index = order.into_iter().find(|i| self.coders[*i as usize].needs_repair())?;
        let (id, repair) = (self.first + index, self.next_repair);
        self.turn = id + 1;
        self.next_repair += 1;
        let encoder = &mut self.coders[index as usize].encoder;
        let range = encoder.first()..encoder.next();
        let symbols = u16::try_from(range.end - range.start).ok()?;
        self.repair.clear();
        encoder.repair(repair, range, &mut self.repair).ok()?;
        Some((id, repair, symbols))
    }
}

/// Tells whether packets stand in a queue on the way.
fn has_queue(path: &PathSnapshot) -> bool {
    path.srtt.zip(path.min_rtt).is_some_and(|(srtt, least)| srtt > least + SMOOTHED_QUEUE)
}
