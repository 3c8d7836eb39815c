//! The receiver's half of the elastic window: decodes, and says what is missing.

use coding::{CoefficientKey, Outcome, window::Decoder};
use smallvec::SmallVec;
use std::collections::VecDeque;
use units::{Duration, Instant};

use super::{GIVEN_BACK_EACH, LEAST_CODER};
use crate::delivery::message::{FormCounters, LAST_NUMBER, UNUSED};
use crate::ids::PathId;
use crate::limits;
use crate::recovery::MAX_ACK_DELAY;
use crate::wire::{FEEDBACK_MAX, FeedbackFrame, Frame, RepairFrame, SourceFrame};

/// What comes in within so long is told together: while something is missing feedback is held back
/// for no longer, otherwise as an acknowledgement is, and it is not repeated sooner.
const TOGETHER: Duration = Duration::from_micros(2_500);
/// How often the sender is told again what it knows, each time after twice as long without a new
/// symbol.
const REPEATS: u32 = 4;
/// The longest interval between symbols that is believed.
const LONGEST_INTERVAL: Duration = Duration::from_millis(100);

/// Says what the sender was told on a path.
#[derive(Debug)]
struct Told {
    path: PathId,
    /// Up to this change.
    version: u64,
    /// When it is to be told of later ones.
    due_at: Option<Instant>,
}

/// Decodes symbols.
#[derive(Debug)]
pub(super) struct Receiver {
    key: CoefficientKey,
    /// Made when the first symbol comes.
    decoder: Option<Box<Decoder>>,
    /// How many bytes more the decoder may take.
    room: usize,
    /// The sender holds no symbol below.
    first: u64,
    /// No symbol below was needed at the last look, and when that was.
    old: u64,
    aged_at: Instant,
    /// When anything came last.
    came_at: Instant,
    end: u64,
    repairs: u64,
    /// Innovative combinations that have not led to a symbol yet.
    rank: u64,
    decoded: VecDeque<(Vec<u8>, bool)>,
    told: SmallVec<[Told; 4]>,
    /// When the newest symbol came, the mean interval of such, and how often it was told since.
    newest_at: Instant,
    interval: Duration,
    repeats: u32,
    /// What was due by then and could not leave waits for the next occasion.
    looked_at: Instant,
    /// Counts changes of what feedback says.
    version: u64,
    counters: FormCounters,
}

impl Receiver {
    pub(super) fn new(key: u64) -> Self {
        Self {
            key: CoefficientKey::new(key),
            decoder: None,
            room: usize::MAX,
            first: 0,
            old: 0,
            aged_at: Instant::ZERO,
            came_at: Instant::ZERO,
            end: 0,
            repairs: 0,
            rank: 0,
            decoded: VecDeque::new(),
            told: SmallVec::new(),
            newest_at: Instant::ZERO,
            interval: LONGEST_INTERVAL,
            repeats: REPEATS,
            looked_at: Instant::ZERO,
            version: 0,
            counters: FormCounters::default(),
        }
    }

    pub(super) fn handle_source(&mut self, now: Instant, frame: &SourceFrame<'_>) -> bool {
        let id = frame.id;
        let Some(decoder) = self.decoder().filter(|_| id < LAST_NUMBER) else { return false };
        let outcome = decoder.push_source(id, frame.payload);
        if matches!(outcome, Outcome::TooFar | Outcome::Malformed) {
            return false;
        }
        let first = id - frame.back;
        decoder.skip_to(first);
        self.first = self.first.max(first);
        match outcome {
            Outcome::Innovative => self.counters.received += 1,
            _ => self.counters.redundant += 1,
        }
        self.settle(now, id + 1, Some(id));
        true
    }

    pub(super) fn handle_repair(&mut self, now: Instant, frame: &RepairFrame<'_>) -> bool {
        let (first, repair) = (frame.first, frame.repair);
        let is_long = usize::from(frame.count) > limits::COMBINED_SYMBOLS;
        if first >= LAST_NUMBER || repair >= LAST_NUMBER || is_long {
            return false;
        }
        let end = first + u64::from(frame.count);
        let Some(decoder) = self.decoder() else { return false };
        match decoder.push_repair(repair, first..end, frame.payload) {
            Outcome::TooFar | Outcome::Malformed => return false,
            Outcome::Innovative => self.rank += 1,
            _ => self.counters.redundant += 1,
        }
        self.repairs = self.repairs.max(repair + 1);
        self.settle(now, end, None);
        true
    }

    pub(super) fn poll_decoded(&mut self) -> Option<(Vec<u8>, bool)> {
        self.decoded.pop_front()
    }

    /// A path on which nothing was told yet is told at once.
    pub(super) fn feedback_is_due(&self, now: Instant, path: PathId) -> bool {
        match self.told.iter().find(|told| told.path == path) {
            Some(told) => told.due_at.is_some_and(|at| at <= now),
            None => self.decoder.is_some(),
        }
    }

    pub(super) fn poll_feedback(&mut self, path: PathId, room: usize) -> Option<Frame<'static>> {
        let decoder = self.decoder.as_ref().filter(|_| room >= FEEDBACK_MAX)?;
        let version = self.version;
        if self.told.iter().any(|told| told.path == path && told.version == version) {
            return None;
        }
        self.told.retain(|told| told.path != path);
        if self.told.len() == limits::PATHS {
            self.told.remove(0);
        }
        self.told.push(Told { path, version, due_at: None });
        let mut missing: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        for id in decoder.missing(0..self.end) {
            match missing.last_mut() {
                Some((first, count)) if *first + *count == id => *count += 1,
                _ => missing.push((id, 1)),
            }
            if missing.len() > limits::MISSING_RANGES {
                missing.pop();
                break;
            }
        }
        Some(Frame::Feedback(FeedbackFrame {
            coder: 0,
            next: decoder.next_in_order(),
            end: self.end.max(decoder.next_in_order()),
            rank: self.rank,
            repairs: self.repairs,
            missing,
        }))
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        let due = self.told.iter().filter_map(|told| told.due_at);
        due.filter(|at| *at > self.looked_at).chain(self.repeat_at()).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.looked_at = now;
        if now.since(self.aged_at) >= GIVEN_BACK_EACH {
            self.give_back(now);
        }
        if self.repeat_at().is_some_and(|at| at <= now) {
            self.repeats += 1;
            self.change(now);
        }
    }

    /// Tells whether all symbols before one are known.
    pub(super) fn is_next(&self, id: u64) -> bool {
        self.decoder.as_ref().is_none_or(|decoder| id <= decoder.next_in_order())
    }

    /// Notes that there are symbols below `end` for which there was no room: the sender is told
    /// what is missing, as if they had been lost.
    pub(super) fn on_refused(&mut self, now: Instant, end: u64) {
        let Some(decoder) = &self.decoder else { return };
        if end > decoder.next_in_order() + decoder.capacity() as u64 {
            return;
        }
        if end > self.end {
            self.on_newest(now, end);
        }
        self.change(now + TOGETHER);
    }

    /// Returns how many symbols one that comes in can make known.
    pub(super) fn may_decode(&self) -> usize {
        1 + self.decoder.as_ref().map_or(0, |decoder| decoder.held())
    }

    /// Returns how many bytes the decoder takes.
    pub(super) fn held(&self) -> usize {
        self.decoder.as_ref().map_or(0, |decoder| decoder.bytes())
    }

    /// Notes how many bytes more the decoder may take.
    pub(super) fn set_room(&mut self, room: usize) {
        self.room = room;
        if let Some(decoder) = &mut self.decoder {
            decoder.set_memory(decoder.bytes().saturating_add(room).max(LEAST_CODER));
        }
    }

    pub(super) fn counters(&self) -> FormCounters {
        self.counters
    }

    /// Gives back the memory of symbols that no repair symbol still to come contains.
    fn give_back(&mut self, now: Instant) {
        if let Some(decoder) = &mut self.decoder {
            decoder.forget(self.old);
            let is_whole = decoder.next_in_order() >= self.end;
            // The sender may not have trimmed these; it sends again what it has had no answer to.
            let is_idle = is_whole && now.since(self.came_at) >= UNUSED;
            self.old = if is_idle { self.end } else { self.first };
        }
        self.aged_at = now;
    }

    /// When the sender is told again what it was told, because nothing new comes: if it sent
    /// something since, all of that is lost. On one path there is nothing else to be done about it.
    fn repeat_at(&self) -> Option<Instant> {
        let wait = (self.interval * 3 / 2).max(TOGETHER) * (1 << self.repeats);
        (self.repeats < REPEATS && self.told.len() > 1).then_some(self.newest_at + wait)
    }

    /// Notes that the newest symbol is `end` now.
    fn on_newest(&mut self, now: Instant, end: u64) {
        let count = u32::try_from(end - self.end).unwrap_or(u32::MAX);
        let interval = (now.since(self.newest_at) / count).min(LONGEST_INTERVAL);
        // An eighth of the newest, as for a smoothed round-trip time.
        self.interval = (self.interval * 7 + interval) / 8;
        (self.end, self.newest_at, self.repeats) = (end, now, 0);
    }

    fn decoder(&mut self) -> Option<&mut Decoder> {
        if self.decoder.is_none() {
            let capacity = 2 * limits::WINDOW_SYMBOLS;
            let made = Decoder::new(limits::SYMBOL_BYTES, capacity, self.key);
            self.decoder = made.ok().map(Box::new);
            self.set_room(self.room);
        }
        self.decoder.as_deref_mut()
    }

    /// Fetches what became known, and decides when the sender hears of it. `source` is the symbol
    /// that came in as it was divided.
    fn settle(&mut self, now: Instant, end: u64, source: Option<u64>) {
        let Some(decoder) = &mut self.decoder else { return };
        self.came_at = now;
        while let Some(id) = decoder.poll_decoded() {
            let decoded = source != Some(id);
            if decoded {
                self.counters.decoded += 1;
                self.rank = self.rank.saturating_sub(1);
            }
            if let Some(symbol) = decoder.get(id) {
                self.decoded.push_back((symbol.to_vec(), decoded));
            }
        }
        // What is given up may take combinations along.
        self.rank = self.rank.min(decoder.held() as u64);
        let next = decoder.next_in_order();
        decoder.release(next);
        // What was known before the newest symbol came shows whether a gap opened.
        let gap = end > self.end + u64::from(source.is_some());
        if end > self.end {
            self.on_newest(now, end);
        }
        let whole = next >= self.end;
        if whole {
            self.rank = 0;
        }
        let due = match (gap, whole) {
            (true, false) => now,
            (_, false) => now + TOGETHER,
            (_, true) => now + MAX_ACK_DELAY,
        };
        self.change(due);
    }

    /// Notes that the sender is to be told something new at `due`, on every path.
    fn change(&mut self, due: Instant) {
        self.version += 1;
        for told in &mut self.told {
            told.due_at = Some(told.due_at.map_or(due, |at| at.min(due)));
        }
    }
}
