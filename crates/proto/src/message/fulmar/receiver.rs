//! The receiver's half of the elastic window: decodes, and says what is missing.

use coding::{CoefficientKey, Outcome, window::Decoder};
use smallvec::SmallVec;
use std::collections::VecDeque;
use units::{Duration, Instant};

use crate::ids::PathId;
use crate::limits;
use crate::message::FormCounters;
use crate::wire::{FEEDBACK_MAX, FeedbackFrame, Frame, RepairFrame, SourceFrame};

/// The longest that feedback is held back while nothing is missing: as an acknowledgement is.
const MAX_DELAY: Duration = Duration::from_millis(10);
/// The same while something is missing: what comes in together is told together.
const MISSING_DELAY: Duration = Duration::from_micros(2_500);
/// Ids above this are nonsense: a sender does not get there in the life of the universe.
const LAST_ID: u64 = 1 << 60;

/// Decodes symbols.
#[derive(Debug)]
pub(super) struct Receiver {
    key: CoefficientKey,
    /// Made when the first symbol comes: it takes megabytes.
    decoder: Option<Box<Decoder>>,
    end: u64,
    repairs: u64,
    /// Innovative combinations that have not led to a symbol yet.
    rank: u64,
    decoded: VecDeque<(Vec<u8>, bool)>,
    due_at: Option<Instant>,
    /// What was due by then and could not leave waits for the next occasion.
    looked_at: Instant,
    /// Counts changes of what feedback says, and what each path's peer was told of them.
    version: u64,
    told: SmallVec<[(PathId, u64); 4]>,
    counters: FormCounters,
}

impl Receiver {
    pub(super) fn new(key: u64) -> Self {
        Self {
            key: CoefficientKey::new(key),
            decoder: None,
            end: 0,
            repairs: 0,
            rank: 0,
            decoded: VecDeque::new(),
            due_at: None,
            looked_at: Instant::ZERO,
            version: 0,
            told: SmallVec::new(),
            counters: FormCounters::default(),
        }
    }

    pub(super) fn handle_source(&mut self, now: Instant, frame: &SourceFrame<'_>) -> bool {
        let id = frame.id;
        let Some(decoder) = self.decoder().filter(|_| id < LAST_ID) else { return false };
        let outcome = decoder.push_source(id, frame.payload);
        if matches!(outcome, Outcome::TooFar | Outcome::Malformed) {
            return false;
        }
        decoder.skip_to(id - frame.back);
        match outcome {
            Outcome::Innovative => self.counters.received += 1,
            _ => self.counters.redundant += 1,
        }
        self.settle(now, id + 1, Some(id));
        true
    }

    pub(super) fn handle_repair(&mut self, now: Instant, frame: &RepairFrame<'_>) -> bool {
        let (first, repair) = (frame.first, frame.repair);
        if first >= LAST_ID || repair >= LAST_ID {
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

    pub(super) fn feedback_is_due(&self, now: Instant) -> bool {
        self.due_at.is_some_and(|at| at <= now)
    }

    pub(super) fn poll_feedback(&mut self, path: PathId, room: usize) -> Option<Frame<'static>> {
        let decoder = self.decoder.as_ref().filter(|_| room >= FEEDBACK_MAX)?;
        let version = self.version;
        if self.told.contains(&(path, version)) {
            return None;
        }
        self.told.retain(|(told, _)| *told != path);
        if self.told.len() < limits::PATHS {
            self.told.push((path, version));
        }
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
        self.due_at = None;
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
        self.due_at.filter(|at| *at > self.looked_at)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.looked_at = now;
    }

    pub(super) fn counters(&self) -> FormCounters {
        self.counters
    }

    fn decoder(&mut self) -> Option<&mut Decoder> {
        if self.decoder.is_none() {
            let capacity = 2 * limits::WINDOW_SYMBOLS;
            let made = Decoder::new(limits::SYMBOL_BYTES, capacity, self.key);
            self.decoder = made.ok().map(Box::new);
        }
        self.decoder.as_deref_mut()
    }

    /// Fetches what became known, and decides when the sender hears of it. `source` is the symbol
    /// that came in as it was divided.
    fn settle(&mut self, now: Instant, end: u64, source: Option<u64>) {
        let Some(decoder) = &mut self.decoder else { return };
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
        let next = decoder.next_in_order();
        decoder.release(next);
        // What was known before the newest symbol came shows whether a gap opened.
        let gap = end > self.end + u64::from(source.is_some());
        self.end = self.end.max(end);
        let whole = next >= self.end;
        if whole {
            self.rank = 0;
        }
        self.version += 1;
        let due = match (gap, whole) {
            (true, false) => now,
            (_, false) => now + MISSING_DELAY,
            (_, true) => now + MAX_DELAY,
        };
        self.due_at = Some(self.due_at.map_or(due, |at| at.min(due)));
    }
}
