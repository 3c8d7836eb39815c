//! Repair symbols: what a path loses is decoded where sending it again takes long.
//!
//! ```text
//! repeat  = round-trip time of the paths, weighted by what they carry: what a loss costs without repair
//! ρ       = 0                             where repeat < 100 ms, or the paths lose nothing
//!         = loss / (1 − loss) + 0.04      from 200 ms on; a share of that between the two
//! owed    ← min(owed + ρ, 4)              per symbol that leaves for the first time; a repair symbol takes one
//! ```
//! A repair symbol combines what is under way, the newest 1,024 symbols at most. So those of a few dozen
//! symbols make up for as many losses among them, whichever paths either went by, and what arrives stays in
//! order within some tens of milliseconds instead of a round trip and more. What is lost is sent again all the same:
//! the receiver needs whichever comes first. Where a repeat takes less than a flow's queue anyway, repair would
//! only take the rate that it costs.
//!
//! What is combined is the symbol with its length, how far back it points, and its age before it.

use coding::window::{Decoder, Encoder};
use coding::{CoefficientKey, Outcome};
use units::{Duration, Instant, Rate};

use crate::limits;
use crate::wire::{RepairFrame, TunnelFrame};

/// Bytes of a repair frame around its combination, at most.
pub(super) const REPAIR_OVERHEAD: usize = 1 + 1 + 8 + 8 + 2 + 2;
/// Bytes before the packet in what is combined: length, back and age.
const HEAD: usize = 2 + 2 + 4;
/// The longest that is combined.
const LONGEST: usize = HEAD + limits::MAX_DATAGRAM;
/// Without repair where a repeat takes less …
const NONE_BELOW: f64 = 0.100;
/// … and with all of it from here on, seconds.
const ALL_FROM: f64 = 0.200;
/// Repair symbols per symbol beyond what is lost.
const MORE: f64 = 0.04;
/// The most of all.
const MOST: f64 = 0.5;
/// Repair symbols that may be owed.
const OWED: f64 = 4.0;
/// A receiver to which no repair symbol has come for so long keeps nothing for the next one.
const UNUSED: Duration = Duration::from_secs(10);
/// Numbers above this are nonsense: a sender does not get there in the life of the universe.
const LAST_NUMBER: u64 = 1 << 60;

/// What a path is like, for how much is repaired.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lossy {
    pub(super) rate: Rate,
    pub(super) loss: f64,
    pub(super) rtt: Duration,
}

/// Returns ρ, the repair symbols per symbol.
pub(super) fn share(paths: impl Iterator<Item = Lossy>) -> f64 {
    let (mut rates, mut lost, mut repeats) = (0.0, 0.0, 0.0);
    for path in paths {
        let rate = path.rate.as_bps() as f64;
        rates += rate;
        lost += rate * path.loss;
        repeats += rate * path.rtt.as_secs_f64();
    }
    if rates <= 0.0 {
        return 0.0;
    }
    let (loss, repeat) = (lost / rates, repeats / rates);
    let part = ((repeat - NONE_BELOW) / (ALL_FROM - NONE_BELOW)).clamp(0.0, 1.0);
    part * (loss / (1.0 - loss).max(0.1) + MORE).min(MOST)
}

/// The sender's half: combines what is under way.
#[derive(Debug)]
pub(super) struct Repairs {
    key: CoefficientKey,
    share: f64,
    owed: f64,
    /// Made when repair begins, with the next number.
    encoder: Option<Box<Encoder>>,
    next: u64,
    payload: Vec<u8>,
}

impl Repairs {
    /// Starts without repair; `key` is the same at both ends.
    pub(super) fn new(key: u64) -> Self {
        let key = CoefficientKey::new(key);
        Self { key, share: 0.0, owed: 0.0, encoder: None, next: 0, payload: Vec::new() }
    }

    /// Sets ρ.
    pub(super) fn set_share(&mut self, share: f64) {
        self.share = share;
        if share == 0.0 && self.encoder.take().is_some() {
            self.owed = 0.0;
            self.payload = Vec::new();
        }
    }

    /// Takes the next symbol in; `first` is the oldest that has not arrived.
    pub(super) fn on_numbered(&mut self, frame: &TunnelFrame<'_>, first: u64) {
        if self.share == 0.0 || frame.payload.len() > LONGEST - HEAD {
            self.encoder = None;
            return;
        }
        let key = self.key;
        if self.encoder.is_none() {
            let made = Encoder::new(LONGEST, limits::TUNNEL_COMBINED, key).ok();
            self.encoder = made.map(|encoder| Box::new(encoder.starting_at(frame.number)));
            // The receiver keeps symbols from the first repair symbol on.
            self.owed = 1.0;
        }
        let Some(encoder) = self.encoder.as_deref_mut() else { return };
        encoder.trim(first);
        let symbol = &mut self.payload;
        symbol.clear();
        symbol.extend_from_slice(&(frame.payload.len() as u16).to_le_bytes());
        symbol.extend_from_slice(&(frame.back as u16).to_le_bytes());
        symbol.extend_from_slice(&frame.submitted_us.to_le_bytes());
        symbol.extend_from_slice(frame.payload);
        while encoder.is_full() && encoder.first() < encoder.next() {
            encoder.trim(encoder.first() + 1);
        }
        if encoder.push(symbol).is_err() {
            self.encoder = None;
        }
    }

    /// Notes that a symbol leaves for the first time.
    pub(super) fn on_left(&mut self) {
        if self.encoder.is_some() {
            self.owed = (self.owed + self.share).min(OWED);
        }
    }

    /// Tells whether a repair symbol is due.
    pub(super) fn is_owed(&self) -> bool {
        self.owed >= 1.0 && self.encoder.is_some()
    }

    /// Returns the bytes that the next repair frame takes at most.
    pub(super) fn frame_bytes(&self, longest: usize) -> usize {
        REPAIR_OVERHEAD + HEAD + longest
    }

    /// Makes a repair symbol over what is under way: from `first`, the oldest that has not arrived, to below `end`.
    pub(super) fn repair(&mut self, first: u64, end: u64) -> Option<RepairFrame<'_>> {
        self.owed = (self.owed - 1.0).max(0.0);
        let encoder = self.encoder.as_deref_mut()?;
        encoder.trim(first);
        let range = encoder.first()..end.min(encoder.next());
        self.payload.clear();
        encoder.repair(self.next, range.clone(), &mut self.payload).ok()?;
        let repair = self.next;
        self.next += 1;
        let count = (range.end - range.start) as u16;
        Some(RepairFrame { coder: 0, repair, first: range.start, count, payload: &self.payload })
    }

    /// Forgets what it holds.
    pub(super) fn give_back(&mut self) {
        self.encoder = None;
        self.payload = Vec::new();
    }

    /// Returns the bytes that are held.
    pub(super) fn held(&self) -> usize {
        self.encoder.as_ref().map_or(0, |encoder| encoder.bytes())
    }

    /// Notes how many bytes more the session may hold.
    pub(super) fn set_room(&mut self, room: usize) {
        if let Some(encoder) = &mut self.encoder {
            encoder.set_memory(encoder.bytes().saturating_add(room));
        }
    }
}

/// The receiver's half: decodes what is missing.
#[derive(Debug)]
pub(super) struct Repaired {
    key: CoefficientKey,
    /// Made when the first repair symbol comes.
    decoder: Option<Box<Decoder>>,
    used_at: Instant,
    row: Vec<u8>,
    /// Symbols that repair brought before they came.
    pub(super) recovered: u64,
}

impl Repaired {
    /// Starts with nothing; `key` is the same at both ends.
    pub(super) fn new(key: u64) -> Self {
        let key = CoefficientKey::new(key);
        Self { key, decoder: None, used_at: Instant::ZERO, row: Vec::new(), recovered: 0 }
    }

    /// Keeps a symbol that came, for repair symbols that contain it.
    pub(super) fn handle_symbol(&mut self, now: Instant, frame: &TunnelFrame<'_>) {
        if now.since(self.used_at) > UNUSED {
            self.decoder = None;
        }
        let Some(decoder) = self.decoder.as_deref_mut() else { return };
        if frame.number >= LAST_NUMBER || frame.payload.len() > LONGEST - HEAD {
            return;
        }
        let row = &mut self.row;
        row.clear();
        row.extend_from_slice(&(frame.payload.len() as u16).to_le_bytes());
        row.extend_from_slice(&(frame.back as u16).to_le_bytes());
        row.extend_from_slice(&frame.submitted_us.to_le_bytes());
        row.extend_from_slice(frame.payload);
        decoder.push_source(frame.number, row);
    }

    /// Takes a repair symbol in; false if no sender makes such a one.
    pub(super) fn handle_repair(&mut self, now: Instant, frame: &RepairFrame<'_>) -> bool {
        let range = frame.first..frame.first.saturating_add(frame.count.into());
        if range.end >= LAST_NUMBER || usize::from(frame.count) > limits::TUNNEL_COMBINED {
            return false;
        }
        self.used_at = now;
        let decoder = self.decoder.get_or_insert_with(|| {
            let made = Decoder::new(LONGEST, 2 * limits::TUNNEL_COMBINED, self.key);
            let mut decoder = made.expect("sizes within the code's bounds");
            // What came before is not there any more.
            decoder.skip_to(range.end);
            Box::new(decoder)
        });
        // What was given up is not waited for.
        decoder.skip_to(range.start.saturating_sub(limits::TUNNEL_COMBINED as u64));
        let outcome = decoder.push_repair(frame.repair, range.clone(), frame.payload);
        decoder.forget(range.start);
        !matches!(outcome, Outcome::Malformed)
    }

    /// Returns the next symbol that became known, if it is one that `is_new`.
    pub(super) fn poll(&mut self, is_new: impl Fn(u64) -> bool) -> Option<TunnelFrame<'_>> {
        let decoder = self.decoder.as_deref_mut()?;
        loop {
            let Some(number) = decoder.poll_decoded() else {
                decoder.release(decoder.next_in_order());
                return None;
            };
            if !is_new(number) {
                continue;
            }
            self.row.clear();
            self.row.extend_from_slice(decoder.get(number)?);
            self.recovered += 1;
            return read(number, &self.row);
        }
    }

    /// Returns the bytes that are held.
    pub(super) fn held(&self) -> usize {
        self.decoder.as_ref().map_or(0, |decoder| decoder.bytes())
    }

    /// Notes how many bytes more the session may hold.
    pub(super) fn set_room(&mut self, room: usize) {
        if let Some(decoder) = &mut self.decoder {
            decoder.set_memory(decoder.bytes().saturating_add(room));
        }
    }

    /// Forgets what it holds.
    pub(super) fn give_back(&mut self) {
        self.decoder = None;
        self.row = Vec::new();
    }
}

/// Reads what was combined.
fn read(number: u64, row: &[u8]) -> Option<TunnelFrame<'_>> {
    let (head, rest) = row.split_first_chunk::<HEAD>()?;
    let [l0, l1, b0, b1, age @ ..] = *head;
    let payload = rest.get(..u16::from_le_bytes([l0, l1]).into())?;
    let back = u16::from_le_bytes([b0, b1]).into();
    Some(TunnelFrame { number, back, submitted_us: u32::from_le_bytes(age), payload })
}
