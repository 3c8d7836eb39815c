//! The decoders of a session, the filter, and the rank-update ACKs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coding::{CoefficientKey, Outcome, window};

use super::{coder_bytes, coders_alive};
use crate::delivery::message::FormCounters;
use crate::limits;
use crate::wire::{RankFrame, RepairFrame, SourceFrame};

/// Bytes of a rank-update ACK, at most: its type and three numbers.
const RANK_MAX: usize = 1 + 3 * 8;

/// Decodes, and tells the sender how far.
#[derive(Debug)]
pub(super) struct Receiver {
    key: CoefficientKey,
    /// K.
    k: u64,
    /// Decoders from the filter on, as far as symbols of them have come.
    decoders: BTreeMap<u64, Decoder>,
    /// Bytes that they take, and how many more they may take.
    bytes: usize,
    room: usize,
    /// The lowest id that is not fully decoded [LRT §III-D].
    filter: u64,
    /// Coders whose rank is to be told.
    due: BTreeSet<u64>,
    /// Symbols that became known, and whether they had to be decoded.
    known: VecDeque<(Vec<u8>, bool)>,
    counters: FormCounters,
}

/// One decoder.
#[derive(Debug)]
struct Decoder {
    decoder: window::Decoder,
    /// Symbols seen when last told.
    rank: u64,
}

impl Receiver {
    /// Starts without decoders.
    pub(super) fn new(key: u64, k: u64) -> Self {
        Self {
            key: CoefficientKey::new(key),
            k,
            decoders: BTreeMap::new(),
            bytes: 0,
            room: usize::MAX,
            filter: 0,
            due: BTreeSet::new(),
            known: VecDeque::new(),
            counters: FormCounters::default(),
        }
    }

    /// Takes a source symbol; false when no sender would send it.
    pub(super) fn on_source(&mut self, frame: &SourceFrame<'_>) -> bool {
        if frame.id >= self.k {
            return false;
        }
        self.on_symbol(frame.coder, Some(frame.id), |decoder| {
            decoder.push_source(frame.id, frame.payload)
        })
    }

    /// Takes a repair symbol; false when no sender would send it.
    pub(super) fn on_repair(&mut self, frame: &RepairFrame<'_>) -> bool {
        let Some(end) = frame.first.checked_add(u64::from(frame.count)) else { return false };
        if end > self.k {
            return false;
        }
        self.on_symbol(frame.coder, None, |decoder| {
            decoder.push_repair(frame.repair, frame.first..end, frame.payload)
        })
    }

    /// Returns the next symbol that became known, and whether it had to be decoded.
    pub(super) fn poll_decoded(&mut self) -> Option<(Vec<u8>, bool)> {
        self.known.pop_front()
    }

    /// Tells whether an ACK is to leave at once.
    pub(super) fn ack_is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Returns the next ACK, of the oldest coder first.
    pub(super) fn poll_ack(&mut self, room: usize) -> Option<RankFrame> {
        if room < RANK_MAX {
            return None;
        }
        let coder = self.due.pop_first()?;
        let rank = match self.decoders.get(&coder) {
            Some(state) => state.decoder.seen().min(self.k),
            None => self.k,
        };
        Some(RankFrame { coder, rank, filter: self.filter })
    }

    /// Tells whether all symbols before one are known.
    pub(super) fn is_next(&self, frame: &SourceFrame<'_>) -> bool {
        let known =
            self.decoders.get(&frame.coder).map_or(0, |state| state.decoder.next_in_order());
        frame.coder <= self.filter && frame.id <= known
    }

    /// Returns how many symbols one that comes in can make known.
    pub(super) fn may_decode(&self) -> usize {
        1 + self.decoders.values().map(|state| state.decoder.held()).max().unwrap_or(0)
    }

    /// Returns how many bytes the decoders take.
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

    /// Dispatches a symbol to the decoder that shares its id [LRT §III-D].
    fn on_symbol(
        &mut self,
        coder: u64,
        source: Option<u64>,
        push: impl FnOnce(&mut window::Decoder) -> Outcome,
    ) -> bool {
        if coder < self.filter {
            // The full-rank ACK must have been lost. It names one coder; the filter in it speaks
            // for all the others.
            self.counters.redundant += 1;
            self.due.insert(coder);
            while self.due.len() as u64 > 2 * coders_alive(self.k) {
                self.due.pop_first();
            }
            return true;
        }
        if coder - self.filter >= coders_alive(self.k) {
            return false;
        }
        let Some(state) = self.decoder(coder) else { return false };
        let before = state.decoder.bytes();
        let outcome = push(&mut state.decoder);
        let after = state.decoder.bytes();
        self.bytes = self.bytes + after - before;
        let Some(state) = self.decoder(coder) else { return false };
        match outcome {
            Outcome::Innovative => {
                let seen = state.decoder.seen();
                let more = seen > std::mem::replace(&mut state.rank, seen);
                self.fetch(coder, source);
                if more {
                    self.due.insert(coder);
                }
                true
            }
            Outcome::Malformed => false,
            Outcome::Redundant | Outcome::Stale | Outcome::TooFar | Outcome::Full => {
                self.counters.redundant += 1;
                self.due.insert(coder);
                true
            }
        }
    }

    /// Returns the decoder of an id, initialised when the first symbol with it comes in.
    fn decoder(&mut self, coder: u64) -> Option<&mut Decoder> {
        if !self.decoders.contains_key(&coder) {
            if coder != self.filter && self.room < coder_bytes(self.k) {
                return None;
            }
            let key = self.key.for_block(coder);
            let decoder = window::Decoder::new(limits::SYMBOL_BYTES, self.k as usize, key).ok()?;
            self.bytes += decoder.bytes();
            self.decoders.insert(coder, Decoder { decoder, rank: 0 });
        }
        self.decoders.get_mut(&coder)
    }

    /// Takes out what became known, and moves the filter past what is fully decoded.
    fn fetch(&mut self, coder: u64, source: Option<u64>) {
        let Some(state) = self.decoders.get_mut(&coder) else { return };
        while let Some(id) = state.decoder.poll_decoded() {
            let Some(symbol) = state.decoder.get(id) else { continue };
            let decoded = source != Some(id);
            self.counters.received += u64::from(!decoded);
            self.counters.decoded += u64::from(decoded);
            self.known.push_back((symbol.to_vec(), decoded));
        }
        while let Some(state) = self.decoders.get(&self.filter)
            && state.decoder.next_in_order() == self.k
        {
            self.bytes -= state.decoder.bytes();
            self.decoders.remove(&self.filter);
            self.filter += 1;
        }
    }
}
