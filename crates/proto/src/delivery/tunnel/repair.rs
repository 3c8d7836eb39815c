//! Repair symbols: what a path loses is decoded where sending it again takes long.
//!
//! ```text
//! repeat  = round-trip time of the paths, weighted by what they carry: what a loss costs without
//!           repair
//! ρ       = part · (loss / (1 − loss) + 0.06 · seen), at most 0.5                  repair symbols per symbol
//! part    = 0 up to a repeat of 60 ms, 1 from 130 ms on, and linear between them
//! seen    = 1 for the first 1,000 symbols, then loss / 0.05 %, at most 1
//! owed    ← min(owed + ρ, 4)              per symbol that leaves for the first time; a repair symbol takes one
//! ```
//! A repair symbol combines what is under way, the newest 1,024 symbols at most. So those of a few
//! dozen symbols make up for as many losses among them, whichever paths either went by, and what
//! arrives stays in order within some tens of milliseconds instead of a round trip and more. What
//! is lost is sent again all the same: the receiver needs whichever comes first. Where a repeat
//! takes less than a flow's queue anyway, repair would only take the rate that it costs.
//!
//! What is combined is the symbol with its length, how far back it points, and its age before it.

use coding::window::{Decoder, Encoder};
use coding::{CoefficientKey, Outcome};
use units::{Duration, Instant, Rate};

use crate::delivery::message::{LAST_NUMBER, UNUSED};
use crate::limits;
use crate::wire::{RepairFrame, TunnelFrame};

/// Bytes of a repair frame around its combination, at most.
pub(super) const REPAIR_OVERHEAD: usize = 1 + 1 + 8 + 8 + 2 + 2;
/// Bytes before the packet in what is combined: length, back and age.
const HEAD: usize = 2 + 2 + 4;
/// The longest that is combined.
const LONGEST: usize = HEAD + limits::MAX_DATAGRAM;
/// Without repair where a repeat takes no longer …
const NONE_TO: f64 = 0.060;
/// … and with all of it from here on, seconds.
const ALL_FROM: f64 = 0.130;
/// Repair symbols per symbol beyond what is lost …
const MORE: f64 = 0.06;
/// … where this much is, or nothing is known yet.
const SEEN: f64 = 0.0005;
const KNOWN: u64 = 1_000;
/// Repair symbols that may be owed.
const OWED: f64 = 4.0;

/// What a path is like, for how much is repaired.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lossy {
    pub(super) rate: Rate,
    pub(super) loss: f64,
    pub(super) rtt: Duration,
}

/// The sender's half: combines what is under way.
#[derive(Debug)]
pub(super) struct Repairs {
    key: CoefficientKey,
    /// ρ, and symbols that have left since all was forgotten.
    share: f64,
    left: u64,
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
        Self { key, share: 0.0, left: 0, owed: 0.0, encoder: None, next: 0, payload: Vec::new() }
    }

    /// Learns what the paths in use are like.
    pub(super) fn set_paths(&mut self, paths: impl Iterator<Item = Lossy>) {
        let (mut rates, mut lost, mut repeats) = (0.0, 0.0, 0.0);
        for path in paths {
            let rate = path.rate.as_bps() as f64;
            rates += rate;
            lost += rate * path.loss;
            repeats += rate * path.rtt.as_secs_f64();
        }
        // In an outage it stays what it was.
        if rates > 0.0 {
            self.set_share(lost / rates, repeats / rates);
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
        write(frame, &mut self.payload);
        while encoder.is_full() && encoder.first() < encoder.next() {
            encoder.trim(encoder.first() + 1);
        }
        if encoder.push(&self.payload).is_err() {
            self.encoder = None;
        }
    }

    /// Notes that a symbol leaves for the first time.
    pub(super) fn on_left(&mut self) {
        self.left += 1;
        if self.encoder.is_some() {
            self.owed = (self.owed + self.share).min(OWED);
        }
    }

    /// Tells whether a repair symbol over the numbers from `first` to below `end` is due.
    pub(super) fn is_owed(&self, first: u64, end: u64) -> bool {
        let held = self
            .encoder
            .as_ref()
            .is_some_and(|encoder| encoder.first().max(first) < encoder.next().min(end));
        held && self.owed >= 1.0
    }

    /// Returns the bytes that the next repair frame takes at most.
    pub(super) fn frame_bytes(&self, longest: usize) -> usize {
        REPAIR_OVERHEAD + HEAD + longest
    }

    /// Makes a repair symbol over what is under way: from `first`, the oldest that has not arrived,
    /// to below `end`.
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
        (self.left, self.owed) = (0, 0.0);
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

    fn set_share(&mut self, loss: f64, repeat: f64) {
        let part = ((repeat - NONE_TO) / (ALL_FROM - NONE_TO)).clamp(0.0, 1.0);
        let seen = if self.left < KNOWN { 1.0 } else { (loss / SEEN).min(1.0) };
        // Half a symbol at most, also where everything is lost.
        self.share = part * (loss / (1.0 - loss) + MORE * seen).min(0.5);
        if self.share == 0.0 {
            self.encoder = None;
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
        write(frame, &mut self.row);
        decoder.push_source(frame.number, &self.row);
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
            // What came before is not there any more; but what a single symbol is made of tells it.
            decoder.skip_to(if frame.count == 1 { range.start } else { range.end });
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

/// Writes what is combined of a symbol.
fn write(frame: &TunnelFrame<'_>, row: &mut Vec<u8>) {
    row.clear();
    row.extend_from_slice(&(frame.payload.len() as u16).to_le_bytes());
    row.extend_from_slice(&(frame.back as u16).to_le_bytes());
    row.extend_from_slice(&frame.submitted_us.to_le_bytes());
    row.extend_from_slice(frame.payload);
}

/// Reads what was combined.
fn read(number: u64, row: &[u8]) -> Option<TunnelFrame<'_>> {
    let (head, rest) = row.split_first_chunk::<HEAD>()?;
    let [l0, l1, b0, b1, age @ ..] = *head;
    let payload = rest.get(..u16::from_le_bytes([l0, l1]).into())?;
    let back = u16::from_le_bytes([b0, b1]).into();
    Some(TunnelFrame { number, back, submitted_us: u32::from_le_bytes(age), payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(300);

    fn repairs(loss: f64, rtt: Duration) -> Repairs {
        let mut repairs = Repairs::new(3);
        set(&mut repairs, loss, rtt);
        repairs
    }

    fn set(repairs: &mut Repairs, loss: f64, rtt: Duration) {
        repairs.set_paths([Lossy { rate: Rate::from_mbps(4.0), loss, rtt }].into_iter());
    }

    fn frame(number: u64, payload: &[u8]) -> TunnelFrame<'_> {
        TunnelFrame { number, back: 1, submitted_us: number as u32, payload }
    }

    /// Lets the symbols of these numbers leave; returns the ranges of the repair symbols that were
    /// due.
    fn leave(repairs: &mut Repairs, numbers: core::ops::Range<u64>, first: u64) -> Vec<(u64, u16)> {
        let mut ranges = Vec::new();
        for number in numbers {
            repairs.on_numbered(&frame(number, &[number as u8; 900]), first);
            repairs.on_left();
            while repairs.is_owed(first, number + 1) {
                ranges.extend(
                    repairs.repair(first, number + 1).map(|frame| (frame.first, frame.count)),
                );
            }
        }
        ranges
    }

    #[test]
    fn there_is_none_where_a_repeat_is_soon_there_and_the_more_the_longer_it_takes() {
        let due = |loss, ms| leave(&mut repairs(loss, Duration::from_millis(ms)), 1..801, 1).len();
        assert_eq!(due(0.1, 60), 0);
        // The first one begins the code.
        assert_eq!([due(0.02, 95), due(0.02, 130), due(0.02, 600)], [1 + 32, 1 + 64, 1 + 64]);
        assert_eq!([due(0.0, 300), due(0.1, 300)], [1 + 48, 1 + 136]);
    }

    #[test]
    fn where_nothing_is_lost_for_long_nothing_is_repaired() {
        let mut repairs = repairs(0.0, LONG);
        leave(&mut repairs, 1..1_002, 1);
        set(&mut repairs, 0.0, LONG);
        assert_eq!(leave(&mut repairs, 1_002..2_002, 1_000).len(), 0);
        set(&mut repairs, 0.001, LONG);
        assert_eq!(leave(&mut repairs, 2_002..3_002, 2_000).len(), 1 + 61);
        set(&mut repairs, 0.0, Duration::from_millis(40));
        set(&mut repairs, 0.0, LONG);
        assert_eq!(leave(&mut repairs, 3_002..4_002, 3_000).len(), 0);
    }

    #[test]
    fn what_is_lost_is_decoded_whichever_it_is() {
        let (mut repairs, mut repaired) = (repairs(0.02, LONG), Repaired::new(3));
        let now = Instant::from_millis(1_000);
        let mut came = Vec::new();
        for number in 1..200 {
            let payload = vec![number as u8; 600 + number as usize];
            repairs.on_numbered(&frame(number, &payload), number.saturating_sub(80));
            repairs.on_left();
            if number % 40 != 10 {
                repaired.handle_symbol(now, &frame(number, &payload));
            }
            while repairs.is_owed(1, number + 1) {
                let repair = repairs.repair(number.saturating_sub(80), number + 1);
                assert!(repaired.handle_repair(now, &repair.expect("it is owed")));
            }
            while let Some(symbol) = repaired.poll(|number| number % 40 == 10) {
                assert_eq!(symbol.payload, vec![symbol.number as u8; 600 + symbol.number as usize]);
                assert_eq!((symbol.back, u64::from(symbol.submitted_us)), (1, symbol.number));
                came.push(symbol.number);
            }
        }
        assert_eq!((came, repaired.recovered), (vec![10, 50, 90, 130, 170], 5));
    }

    #[test]
    fn it_takes_memory_while_it_is_used_alone() {
        let (mut repairs, mut repaired) = (repairs(0.02, LONG), Repaired::new(3));
        assert_eq!((repairs.held(), repaired.held()), (0, 0));
        repaired.handle_symbol(Instant::ZERO, &frame(1, &[0; 100]));
        assert_eq!(repaired.held(), 0, "nothing is kept before the first repair symbol");
        leave(&mut repairs, 1..3_000, 1);
        repairs.owed = 1.0;
        let repair = repairs.repair(1, 3_000).expect("there is something to combine");
        assert_eq!(usize::from(repair.count), limits::TUNNEL_COMBINED, "the newest");
        assert!(repaired.handle_repair(Instant::ZERO, &repair));
        assert!(repairs.held() < 2 << 20 && repaired.held() > 0);
        set(&mut repairs, 0.02, LONG / 10);
        repaired.handle_symbol(Instant::from_millis(10_001), &frame(3_001, &[0; 100]));
        assert_eq!((repairs.held(), repaired.held()), (0, 0));
    }

    #[test]
    fn repair_symbols_that_no_sender_makes_are_refused_or_survived() {
        let mut repaired = Repaired::new(3);
        let mut give = |repair, first, count, payload: &[u8]| {
            let frame = RepairFrame { coder: 0, repair, first, count, payload };
            repaired.handle_repair(Instant::ZERO, &frame)
        };
        assert!(!give(0, u64::MAX, 2, &[1; 9]) && !give(0, LAST_NUMBER, 1, &[1; 9]));
        assert!(!give(0, 1, limits::TUNNEL_COMBINED as u16 + 1, &[1; 9]));
        assert!(!give(0, 1, 2, &[1; LONGEST + 1]));
        assert!(give(1, 1, 1, &[]) && give(2, 5, 1, &[0xff; 20]) && give(3, 1 << 50, 3, &[7; 30]));
        while repaired.poll(|_| true).is_some() {}
    }
}
