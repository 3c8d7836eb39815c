//! The sender's half of the elastic window: what goes next on the path that asks.
//!
//! ```text
//! 1. a new source symbol, on the best path, at once
//! 2. known to be missing: as it was divided, on every path at once; not while repair symbols
//!    under way are likely to recover it. Comes before 1, and on one path only, where messages wait
//!    in order: what is missing then keeps the others waiting
//!    held up by a path that has become slow: by the one that brings it first (`detour.rs`)
//! 3. a repair symbol over the whole window, right behind its source, on another path if there is
//!    one, as long as tokens last and no source waits
//! 4. when nothing gets through on any path: many of them, on every path (`silence.rs`)
//! ```
//! The window ends below where feedback says that everything is known, or where everything has
//! passed its deadline. Nothing is sent again because a packet was lost, only because the receiver
//! misses a symbol or a path holds it up.

use std::collections::{BTreeMap, VecDeque};

use coding::{CoefficientKey, window::Encoder};
use smallvec::SmallVec;
use units::{Duration, Instant};

use super::detour::{Detours, Place};
use super::redundancy::{ElasticRedundancy, Redundancy};
use super::silence::{self, Silence, overdue_after};
use super::{GIVEN_BACK_EACH, LEAST_CODER, VARIATION};
use crate::delivery::message::{Divider, FormCounters, Offer, SymbolFrame};
use crate::ids::PathId;
use crate::limits;
use crate::path::{PATIENCE_WITHOUT_PATH, PathSnapshot};
use crate::recovery::MAX_ACK_DELAY;
use crate::wire::{FeedbackFrame, RepairFrame, SYMBOL_OVERHEAD, SourceFrame};

/// Repair symbols per source symbol from which on losses are worth protecting the last symbol
/// before a pause by one of its own.
const LOSSY: f64 = 0.1;
/// Repair symbols whose departure is remembered: what a round trip of a fast stream has under way.
const REMEMBERED_REPAIRS: usize = 1_024;

#[derive(Clone, Copy, Debug)]
struct Kept {
    /// When it was sent last, and how long its answer takes.
    sent_at: Instant,
    answer: Duration,
    /// Where the copy is that arrives first.
    place: Place,
    /// It was sent again before anybody missed it.
    hastened: bool,
    /// When feedback that covers it is overdue.
    overdue_at: Instant,
    expires: Option<Instant>,
}

/// Keeps symbols until they are known at the other end.
#[derive(Debug)]
pub(super) struct Sender {
    key: CoefficientKey,
    /// Made when the first message is sent.
    encoder: Option<Box<Encoder>>,
    /// How many bytes more the encoder may take.
    room: usize,
    kept: VecDeque<Kept>,
    /// The most symbols that were kept since it was last looked at, and when that was.
    most_kept: usize,
    sized_at: Instant,
    /// Symbols to be sent again, and the paths on which.
    again: BTreeMap<u64, SmallVec<[PathId; 4]>>,
    repairs: u64,
    /// When the newest repair symbols were sent, and where: from a round trip on they are not under
    /// way.
    repaired_at: VecDeque<(Instant, PathId)>,
    /// Feedback knows of symbols below.
    covered: u64,
    silence: Silence,
    /// How long feedback may take, on the paths that were worth symbols when one asked last.
    overdue_after: Duration,
    /// Whether losses came in bursts, and there were several paths, when one asked last.
    spreads_bursts: bool,
    /// The path of the newest source symbol.
    source_path: Option<PathId>,
    /// The paths that were worth symbols when one asked last.
    worth: SmallVec<[PathId; 4]>,
    detours: Detours,
    /// What the paths were like when one asked last, and when that was.
    noted: (Instant, Vec<PathSnapshot>),
    redundancy: Redundancy,
    /// When the application has paused for so long that its last symbol gets a repair symbol.
    pause_at: Option<Instant>,
    heard_at: Instant,
    /// What is late by then has been seen.
    looked_at: Instant,
    probe: Duration,
    buffer: Vec<u8>,
    counters: FormCounters,
}

impl Sender {
    pub(super) fn new(key: u64, redundancy: ElasticRedundancy) -> Self {
        Self {
            key: CoefficientKey::new(key),
            encoder: None,
            room: usize::MAX,
            kept: VecDeque::new(),
            most_kept: 0,
            sized_at: Instant::ZERO,
            again: BTreeMap::new(),
            repairs: 0,
            repaired_at: VecDeque::new(),
            covered: 0,
            silence: Silence::default(),
            overdue_after: Duration::ZERO,
            spreads_bursts: false,
            source_path: None,
            worth: SmallVec::new(),
            detours: Detours::default(),
            noted: (Instant::ZERO, Vec::new()),
            redundancy: Redundancy::new(redundancy),
            pause_at: None,
            heard_at: Instant::ZERO,
            looked_at: Instant::ZERO,
            probe: PATIENCE_WITHOUT_PATH,
            buffer: Vec::new(),
            counters: FormCounters::default(),
        }
    }

    pub(super) fn wants(&self, divider: &Divider) -> bool {
        let has_room = self.encoder.as_ref().is_none_or(|encoder| !encoder.is_full());
        let source = !divider.is_empty() && has_room;
        let repair = divider.is_empty() && !self.kept.is_empty() && self.redundancy.may_repair();
        source || repair || !self.again.is_empty() || self.silence.is_owing()
    }

    pub(super) fn poll_symbol(
        &mut self,
        now: Instant,
        offer: &Offer<'_>,
        room: usize,
        divider: &mut Divider,
    ) -> Option<SymbolFrame<'_>> {
        if room < limits::SYMBOL_BYTES + SYMBOL_OVERHEAD {
            return None;
        }
        self.note_paths(now, offer.paths);
        let in_a_row = divider.bytes() > limits::SYMBOL_BYTES;
        let first = if in_a_row { self.take_again(now, offer, true) } else { None };
        let id = first
            .or_else(|| self.take_source(now, offer, divider))
            .or_else(|| self.take_again(now, offer, in_a_row));
        let Some(id) = id else { return self.take_repair(now, offer, divider) };
        let encoder = self.encoder.as_ref()?;
        let (first, payload) = (encoder.first(), encoder.symbol(id)?);
        Some(SymbolFrame::Source(SourceFrame { coder: 0, id, back: id - first, payload }))
    }

    /// Tells whether symbols are under way that a path may hold up.
    pub(super) fn follows_paths(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Notes which paths are worth symbols, and sends again by a faster one what a slow one holds
    /// up.
    pub(super) fn follow_paths(&mut self, now: Instant, paths: &[PathSnapshot]) {
        self.note_paths(now, paths);
        self.hasten(now);
    }

    pub(super) fn on_acked(&mut self, path: PathId) {
        self.redundancy.on_outcome(path, false);
    }

    pub(super) fn on_lost(&mut self, path: PathId, congested: bool) {
        if !congested {
            self.redundancy.on_outcome(path, true);
        }
    }

    pub(super) fn handle_feedback(
        &mut self,
        now: Instant,
        feedback: &FeedbackFrame,
        paths: &[PathSnapshot],
    ) -> bool {
        let Some(encoder) = &self.encoder else { return false };
        if feedback.end > encoder.next() || feedback.repairs > self.repairs {
            return false;
        }
        self.note_paths(now, paths);
        self.heard_at = now;
        self.covered = self.covered.max(feedback.end);
        self.trim(feedback.next);
        if self.overdue_at().is_none_or(|at| at > now) {
            self.silence.end();
        } else if self.spreads_bursts && self.silence.may_begin(now) {
            self.begin_round(now);
        }
        self.send_missing_again(now, feedback, paths);
        true
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        if self.kept.is_empty() {
            return None;
        }
        let times = [self.silent_at(), self.pause_at, self.round_at(), self.late_at()];
        times.into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, probe: Duration) {
        self.probe = probe;
        self.looked_at = now;
        self.give_up_expired(now);
        if now.since(self.sized_at) >= GIVEN_BACK_EACH {
            self.give_back(now);
        }
        if self.pause_at.is_some_and(|at| at <= now) {
            self.pause_at = None;
            self.redundancy.grant();
        }
        if self.round_at().is_some_and(|at| at <= now) {
            self.begin_round(now);
        }
        if self.silent_at().is_some_and(|at| at <= now)
            && let Some(encoder) = &self.encoder
        {
            self.heard_at = now;
            self.again.insert(encoder.next() - 1, self.worth.clone());
        }
    }

    /// Returns how many bytes the window takes.
    pub(super) fn held(&self) -> usize {
        let encoder = self.encoder.as_ref().map_or(0, |encoder| encoder.bytes());
        encoder + self.kept.capacity() * size_of::<Kept>()
    }

    /// Notes how many bytes more the encoder may take.
    pub(super) fn set_room(&mut self, room: usize) {
        self.room = room;
        if let Some(encoder) = &mut self.encoder {
            encoder.set_memory(encoder.bytes().saturating_add(room).max(LEAST_CODER));
        }
    }

    pub(super) fn counters(&self) -> FormCounters {
        self.counters
    }

    /// When the answer to the oldest symbol that no feedback covers is overdue.
    fn overdue_at(&self) -> Option<Instant> {
        let uncovered = self.covered.saturating_sub(self.encoder.as_ref()?.first());
        Some(self.kept.get(usize::try_from(uncovered).ok()?)?.overdue_at)
    }

    /// When a round of repair symbols is due although the peer says nothing.
    fn round_at(&self) -> Option<Instant> {
        self.overdue_at().filter(|_| self.spreads_bursts).and_then(|at| self.silence.due_at(at))
    }

    /// Owes repair symbols for everything that no feedback covers. If they can recover all of it,
    /// nothing is sent again as it was before their answer is due.
    fn begin_round(&mut self, now: Instant) {
        let Some(encoder) = &self.encoder else { return };
        let open = encoder.next() - self.covered.max(encoder.first());
        let spare = self.redundancy.spare();
        let wait = self.overdue_after;
        if self.silence.begin_round(now, &self.worth, open as usize, spare, wait) {
            for kept in &mut self.kept {
                kept.sent_at = now;
            }
        }
    }

    /// When nothing was heard of what is under way for too long: two probe timeouts.
    fn silent_at(&self) -> Option<Instant> {
        (!self.kept.is_empty()).then_some(self.heard_at + self.probe * 2)
    }

    /// When the first answer is late that was not so far.
    fn late_at(&self) -> Option<Instant> {
        let waits = |kept: &&Kept| !kept.hastened && kept.place.late_at > self.looked_at;
        let first = self.kept.iter().skip(self.uncovered()).find(waits);
        first.filter(|_| self.detours.may_hasten()).map(|kept| kept.place.late_at)
    }

    /// The place of the first symbol kept that no feedback covers.
    fn uncovered(&self) -> usize {
        let first = self.encoder.as_ref().map_or(0, |encoder| encoder.first());
        self.covered.saturating_sub(first) as usize
    }

    /// Sends again by a faster path what a slow one holds up and repair symbols by others will not
    /// recover.
    fn hasten(&mut self, now: Instant) {
        let Some(first) = self.encoder.as_ref().map(|encoder| encoder.first()) else { return };
        let (mut held_up, mut helped, mut repairs) = (0, 0, None);
        for index in self.uncovered()..self.kept.len() {
            if !self.detours.may_hasten() {
                return;
            }
            let kept = self.kept[index];
            let id = first + index as u64;
            if kept.hastened {
                (held_up, helped) = (held_up + 1, helped + 1);
                continue;
            }
            let detour = self.detours.around(now, &kept.place);
            let Some(path) = detour.filter(|_| !self.again.contains_key(&id)) else { continue };
            held_up += 1;
            let repairs = *repairs.get_or_insert_with(|| self.repairs_around(&kept));
            if held_up > helped + repairs {
                helped += 1;
                self.again.insert(id, SmallVec::from_slice(&[path]));
                self.kept[index].hastened = true;
                self.detours.pay();
            }
        }
    }

    /// Counts the repair symbols that left after a symbol by paths that are faster than its own.
    fn repairs_around(&self, kept: &Kept) -> usize {
        let later = self.repaired_at.iter().rev().take_while(|(at, _)| *at >= kept.sent_at);
        let soon = |path| path != kept.place.path && self.detours.is_worth(path, false);
        later.filter(|(_, path)| soon(*path)).count()
    }

    /// Notes which paths are worth symbols: what was to be sent again on others alone goes on
    /// these.
    fn note_paths(&mut self, now: Instant, paths: &[PathSnapshot]) {
        self.spreads_bursts = self.redundancy.spreads_bursts(now, paths);
        // Each path that may carry one asks, mostly at one moment.
        if (self.noted.0, &self.noted.1[..]) != (now, paths) {
            let worth = || paths.iter().filter(|path| path.is_worth_symbols(now));
            self.worth = worth().map(|path| path.id).collect();
            self.detours.follow(now, paths);
            self.overdue_after = overdue_after(worth());
            self.noted.0 = now;
            self.noted.1.clear();
            self.noted.1.extend_from_slice(paths);
        }
        for paths in self.again.values_mut() {
            paths.retain(|path| self.worth.contains(path));
            if paths.is_empty() {
                paths.clone_from(&self.worth);
            }
        }
    }

    /// Divides a new symbol and puts it into the window.
    fn take_source(
        &mut self,
        now: Instant,
        offer: &Offer<'_>,
        divider: &mut Divider,
    ) -> Option<u64> {
        if !offer.is_best || divider.is_empty() {
            return None;
        }
        if self.encoder.as_ref().is_some_and(|encoder| encoder.is_full()) {
            self.give_up_expired(now);
        }
        let path = offer.paths.iter().find(|path| path.id == offer.path)?;
        if !path.is_worth_symbols(now) {
            return None;
        }
        if self.encoder.is_none() {
            let made = Encoder::new(limits::SYMBOL_BYTES, limits::WINDOW_SYMBOLS, self.key);
            self.encoder = made.ok().map(Box::new);
            self.set_room(self.room);
        }
        let encoder = self.encoder.as_mut().filter(|encoder| !encoder.is_full())?;
        let divided = divider.divide(now, &mut self.buffer)?;
        let id = encoder.push(&self.buffer).ok()?;
        if self.kept.is_empty() {
            self.heard_at = now;
        }
        let left = divided.expires.map(|at| at.since(now));
        self.redundancy.on_source(path, self.spreads_bursts, left);
        // Nothing is a pause that is no longer than an acknowledgement may wait.
        let pause = (path.srtt_or_initial() / 4).max(MAX_ACK_DELAY);
        // A request whose answer is waited for is the last symbol, however long it may take.
        let share = self.redundancy.share(path, self.spreads_bursts, None);
        self.pause_at = (share >= LOSSY).then_some(now + pause);
        self.kept.push_back(Kept {
            sent_at: now,
            answer: path.srtt_or_initial(),
            place: self.detours.place(now, path),
            hastened: false,
            overdue_at: now + self.overdue_after,
            expires: divided.expires,
        });
        self.most_kept = self.most_kept.max(self.kept.len());
        self.detours.on_source();
        self.source_path = Some(offer.path);
        self.counters.source += 1;
        Some(id)
    }

    /// Takes a symbol that is to be sent again on the path; `once` where one path is enough.
    fn take_again(&mut self, now: Instant, offer: &Offer<'_>, once: bool) -> Option<u64> {
        let (&id, _) = self.again.iter().find(|(_, paths)| paths.contains(&offer.path))?;
        let paths = self.again.get_mut(&id)?;
        paths.retain(|path| *path != offer.path);
        if once || paths.is_empty() {
            self.again.remove(&id);
        }
        let first = self.encoder.as_ref()?.first();
        let path = offer.paths.iter().find(|path| path.id == offer.path)?;
        let kept = self.kept.get_mut(usize::try_from(id.checked_sub(first)?).ok()?)?;
        if kept.sent_at < now || self.detours.is_no_later(offer.path, kept.place.path) {
            (kept.sent_at, kept.answer) = (now, path.srtt_or_initial());
            kept.place = self.detours.place(now, path);
        }
        self.counters.resent += 1;
        if !self.spreads_bursts {
            self.redundancy.pay();
        }
        Some(id)
    }

    fn take_repair(
        &mut self,
        now: Instant,
        offer: &Offer<'_>,
        divider: &Divider,
    ) -> Option<SymbolFrame<'_>> {
        let usual = self.redundancy.may_repair() && self.is_for_repair(now, offer);
        let path = offer.paths.iter().find(|path| path.id == offer.path)?;
        let owed = !usual && self.silence.owes(offer.path) && silence::has_room(path);
        if !divider.is_empty() || !(usual || owed) {
            return None;
        }
        let encoder = self.encoder.as_ref()?;
        let range =
            encoder.first().max(encoder.next().saturating_sub(limits::COMBINED_SYMBOLS as u64))
                ..encoder.next();
        let count = u16::try_from(range.end - range.start).ok().filter(|count| *count > 0)?;
        let (repair, first) = (self.repairs, range.start);
        self.buffer.clear();
        encoder.repair(repair, range, &mut self.buffer).ok()?;
        self.repairs += 1;
        self.repaired_at.push_back((now, offer.path));
        if self.repaired_at.len() > REMEMBERED_REPAIRS {
            self.repaired_at.pop_front();
        }
        self.pause_at = None;
        if owed {
            self.redundancy.pay_spare();
            self.silence.on_sent(offer.path);
        } else {
            self.redundancy.pay();
        }
        self.counters.repair += 1;
        let payload = &self.buffer[..];
        Some(SymbolFrame::Repair(RepairFrame { coder: 0, repair, first, count, payload }))
    }

    /// Tells whether repair symbols go on the path: not on that of the sources while another would
    /// bring them sooner than the symbol itself could be sent again.
    fn is_for_repair(&self, now: Instant, offer: &Offer<'_>) -> bool {
        let lossy = self.spreads_bursts;
        let Some(source) = self.source_path.filter(|source| *source != offer.path) else {
            let mut others = offer.paths.iter().filter(|path| path.id != offer.path);
            let in_time = |path| self.detours.repairs_in_time(offer.path, path, lossy);
            return !others.any(|path| path.is_worth_symbols(now) && in_time(path.id));
        };
        self.worth.contains(&offer.path) && self.detours.repairs_in_time(source, offer.path, lossy)
    }

    /// Marks symbols to be sent again that the receiver misses and that what is under way will
    /// not recover.
    fn send_missing_again(
        &mut self,
        now: Instant,
        feedback: &FeedbackFrame,
        paths: &[PathSnapshot],
    ) {
        let Some(encoder) = &self.encoder else { return };
        let first = encoder.first();
        let mut worth = self.worth.clone();
        worth.retain(|path| self.detours.is_worth(*path, self.spreads_bursts));
        let loss = paths.iter().filter_map(|path| self.redundancy.loss(path)).fold(0.0, f64::max);
        let new = (encoder.next() - feedback.end) as f64;
        let answer = paths.iter().map(PathSnapshot::srtt_or_initial).max().unwrap_or_default();
        let unseen = (self.repairs - feedback.repairs) as usize;
        let newest = self.repaired_at.iter().rev().take(unseen);
        let under_way = newest.take_while(|(at, _)| now.since(*at) < answer);
        let soon = under_way.filter(|(_, path)| self.detours.is_worth(*path, false));
        let under_way = soon.count() as f64;
        let mut missing: SmallVec<[(u64, Option<PathId>); 32]> = SmallVec::new();
        for &(from, count) in &feedback.missing {
            for id in from.max(first)..(from + count).min(encoder.next()) {
                let Some(kept) = self.kept.get((id - first) as usize) else { break };
                // A quarter of the time at most: each answer on a link of one millisecond would
                // otherwise have everything sent again that left a moment ago.
                let grace = VARIATION.min(kept.answer / 4);
                let answered = now.since(kept.sent_at) + grace >= kept.answer;
                let early = !answered && self.detours.may_hasten();
                let detour = early.then(|| self.detours.around(now, &kept.place)).flatten();
                if (answered || detour.is_some()) && !self.again.contains_key(&id) {
                    missing.push((id, detour));
                }
            }
        }
        let deficit = missing.len() as f64 - feedback.rank as f64;
        let spare = (under_way * (1.0 - loss) - new * loss).max(0.0);
        let spare = if self.spreads_bursts { 0.0 } else { spare };
        // A full list may leave out what the combinations that are held were counted for.
        let least = usize::from(feedback.missing.len() >= limits::MISSING_RANGES);
        let need = ((deficit - spare).ceil().max(0.0) as usize).max(least);
        for (id, detour) in missing.into_iter().take(need) {
            let paths = match detour {
                Some(path) => {
                    self.detours.pay();
                    SmallVec::from_slice(&[path])
                }
                None => worth.clone(),
            };
            self.again.insert(id, paths);
        }
    }

    /// Gives back the memory that the window has not needed lately.
    fn give_back(&mut self, now: Instant) {
        if let Some(encoder) = &mut self.encoder {
            encoder.shrink(self.most_kept);
            self.kept.shrink_to(self.most_kept);
        }
        (self.most_kept, self.sized_at) = (self.kept.len(), now);
    }

    fn give_up_expired(&mut self, now: Instant) {
        let expired = |kept: &&Kept| kept.expires.is_some_and(|at| at < now);
        let count = self.kept.iter().take_while(expired).count() as u64;
        if let Some(encoder) = self.encoder.as_ref().filter(|_| count > 0) {
            self.counters.given_up += count;
            self.trim(encoder.first() + count);
        }
    }

    /// Forgets symbols below `first`.
    fn trim(&mut self, first: u64) {
        let Some(encoder) = &mut self.encoder else { return };
        let gone = first.saturating_sub(encoder.first()).min(self.kept.len() as u64);
        encoder.trim(first);
        self.kept.drain(..gone as usize);
        self.again = self.again.split_off(&first);
    }
}
