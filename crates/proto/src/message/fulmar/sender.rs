//! The sender's half of the elastic window.

use std::collections::{BTreeSet, VecDeque};

use units::{Duration, Instant};

use crate::ids::PathId;
use crate::limits;
use crate::message::{Divider, FormCounters, Offer, SentSymbol, SymbolFrame};
use crate::path::PathSnapshot;
use crate::wire::{FeedbackFrame, RepairFrame, SYMBOL_OVERHEAD, SourceFrame};

#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    sent_at: Instant,
    expires: Option<Instant>,
}

/// Keeps symbols until they are known at the other end.
#[derive(Debug)]
pub(super) struct Sender {
    window: VecDeque<Kept>,
    first: u64,
    /// Known to be missing, to be sent again.
    again: BTreeSet<u64>,
    heard_at: Instant,
    probe: Duration,
    buffer: Vec<u8>,
    counters: FormCounters,
}

impl Sender {
    pub(super) fn new(_key: u64) -> Self {
        Self {
            window: VecDeque::new(),
            first: 0,
            again: BTreeSet::new(),
            heard_at: Instant::ZERO,
            probe: Duration::from_millis(200),
            buffer: Vec::new(),
            counters: FormCounters::default(),
        }
    }

    pub(super) fn wants(&self, _path: PathId, divider: &Divider) -> bool {
        !self.again.is_empty()
            || (!divider.is_empty() && self.window.len() < limits::WINDOW_SYMBOLS)
    }

    pub(super) fn poll_symbol(
        &mut self,
        now: Instant,
        offer: &Offer<'_>,
        room: usize,
        divider: &mut Divider,
    ) -> Option<SymbolFrame<'_>> {
        if room < limits::SYMBOL_BYTES + SYMBOL_OVERHEAD || !offer.has_budget {
            return None;
        }
        if let Some(id) = self.again.pop_first() {
            let kept = self.window.get_mut((id - self.first) as usize)?;
            kept.sent_at = now;
            self.counters.resent += 1;
            return Some(source(id, self.first, &kept.bytes));
        }
        if !offer.is_best || self.window.len() >= limits::WINDOW_SYMBOLS {
            return None;
        }
        let divided = divider.divide(now, &mut self.buffer)?;
        if self.window.is_empty() {
            self.heard_at = now;
        }
        let id = self.first + self.window.len() as u64;
        let bytes = self.buffer.clone();
        self.window.push_back(Kept { bytes, sent_at: now, expires: divided.expires });
        self.counters.source += 1;
        let kept = self.window.back()?;
        Some(source(id, self.first, &kept.bytes))
    }

    pub(super) fn on_acked(&mut self, _symbol: SentSymbol, _path: PathId) {}

    pub(super) fn on_lost(&mut self, _symbol: SentSymbol, _path: PathId, _congested: bool) {}

    pub(super) fn handle_feedback(
        &mut self,
        now: Instant,
        feedback: &FeedbackFrame,
        paths: &[PathSnapshot],
    ) -> bool {
        if feedback.end > self.first + self.window.len() as u64 {
            return false;
        }
        self.heard_at = now;
        while self.first < feedback.next {
            self.window.pop_front();
            self.again.remove(&self.first);
            self.first += 1;
        }
        let srtt = paths.iter().filter_map(|path| path.srtt).min().unwrap_or(self.probe);
        for &(first, count) in &feedback.missing {
            for id in first.max(self.first)..(first + count).min(feedback.end) {
                if let Some(kept) = self.window.get((id - self.first) as usize)
                    && now.since(kept.sent_at) >= srtt
                {
                    self.again.insert(id);
                }
            }
        }
        true
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        (!self.window.is_empty()).then_some(self.heard_at + self.probe * 2)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, probe: Duration) {
        self.probe = probe;
        while let Some(kept) = self.window.front()
            && kept.expires.is_some_and(|at| at < now)
        {
            self.window.pop_front();
            self.again.remove(&self.first);
            self.first += 1;
            self.counters.given_up += 1;
        }
        if self.timeout().is_some_and(|at| at <= now) {
            self.heard_at = now;
            self.again.insert(self.first + self.window.len() as u64 - 1);
        }
    }

    pub(super) fn counters(&self) -> FormCounters {
        self.counters
    }
}

fn source(id: u64, first: u64, payload: &[u8]) -> SymbolFrame<'_> {
    SymbolFrame::Source(SourceFrame { coder: 0, id, back: id - first, payload })
}

#[expect(dead_code, reason = "repair symbols come with the code")]
fn repair(repair: u64, payload: &[u8]) -> SymbolFrame<'_> {
    SymbolFrame::Repair(RepairFrame { coder: 0, repair, first: 0, count: 1, payload })
}
