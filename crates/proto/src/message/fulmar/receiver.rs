//! The receiver's half of the elastic window: decodes, and says what is missing.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;
use units::{Duration, Instant};

use crate::ids::PathId;
use crate::limits;
use crate::message::FormCounters;
use crate::wire::{FEEDBACK_MAX, FeedbackFrame, Frame, RepairFrame, SourceFrame};

/// The longest that feedback is held back while nothing is missing.
const MAX_FEEDBACK_DELAY: Duration = Duration::from_millis(10);

/// Decodes symbols.
#[derive(Debug)]
pub(super) struct Receiver {
    next: u64,
    end: u64,
    repairs: u64,
    known: BTreeMap<u64, ()>,
    decoded: VecDeque<(Vec<u8>, bool)>,
    due_at: Option<Instant>,
    counters: FormCounters,
}

impl Receiver {
    pub(super) fn new(_key: u64) -> Self {
        Self {
            next: 0,
            end: 0,
            repairs: 0,
            known: BTreeMap::new(),
            decoded: VecDeque::new(),
            due_at: None,
            counters: FormCounters::default(),
        }
    }

    pub(super) fn handle_source(&mut self, now: Instant, frame: &SourceFrame<'_>) -> bool {
        let id = frame.id;
        if id >= self.next.saturating_add(limits::WINDOW_SYMBOLS as u64) {
            return false;
        }
        let gap = id > self.end;
        self.end = self.end.max(id + 1);
        if id < self.next || self.known.insert(id, ()).is_some() {
            self.counters.redundant += 1;
        } else {
            self.counters.received += 1;
            self.decoded.push_back((frame.payload.to_vec(), false));
        }
        self.skip(frame.id - frame.back);
        let due = if gap { now } else { now + MAX_FEEDBACK_DELAY };
        self.due_at = Some(self.due_at.map_or(due, |at| at.min(due)));
        true
    }

    pub(super) fn handle_repair(&mut self, _now: Instant, frame: &RepairFrame<'_>) -> bool {
        self.repairs = self.repairs.max(frame.repair + 1);
        true
    }

    pub(super) fn poll_decoded(&mut self) -> Option<(Vec<u8>, bool)> {
        self.decoded.pop_front()
    }

    pub(super) fn feedback_is_due(&self, now: Instant) -> bool {
        self.due_at.is_some_and(|at| at <= now)
    }

    pub(super) fn poll_feedback(
        &mut self,
        _now: Instant,
        _path: PathId,
        room: usize,
    ) -> Option<Frame<'static>> {
        if room < FEEDBACK_MAX {
            return None;
        }
        self.due_at.take()?;
        let mut missing: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        let mut at = self.next;
        for id in self.known.keys().copied().chain([self.end]) {
            if id > at && missing.len() < limits::MISSING_RANGES {
                missing.push((at, id - at));
            }
            at = id + 1;
        }
        Some(Frame::Feedback(FeedbackFrame {
            coder: 0,
            next: self.next,
            end: self.end,
            rank: 0,
            repairs: self.repairs,
            missing,
        }))
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.due_at
    }

    pub(super) fn counters(&self) -> FormCounters {
        self.counters
    }

    /// Stops waiting for symbols below `first`.
    fn skip(&mut self, first: u64) {
        if first > self.next {
            self.next = first;
            self.known = self.known.split_off(&first);
        }
        while self.known.remove(&self.next).is_some() {
            self.next += 1;
        }
    }
}
