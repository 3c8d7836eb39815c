//! The sender's half: symbols are kept from the moment they are numbered until they are
//! acknowledged.
//!
//! ```text
//! 1. a copy of a SYN, FIN or RST    on every path that works: a lost SYN costs TCP a second
//! 2. what a path has lost           before anything new, on the path that brings it soonest
//! 3. a flow's only packet           on the path that brings it soonest
//! 4. the next packet of the queue   on the path that the scheduler offers
//! ```
//! What is lost is what recovery says of *that path's* packet numbers: gaps in the symbols' own
//! numbers are made by paths of unequal delay all the time. Nothing expires: what was sent stays
//! through an outage of any length and leaves again when a path returns.
//!
//! Of unequal paths the slower one takes not the head of the queue but the packet that the faster
//! ones would reach only when the slow one delivers: those before it are numbered and left to them
//! (`committed`). So packets arrive nearly in the order of their flow, although half of them go a
//! longer way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smallvec::SmallVec;
use units::Instant;

use super::queue::{Queue, Waiting};
use super::repair::Repairs;
use super::segment::Part;
use crate::delivery::generation::STUCK;
use crate::ids::PathId;
use crate::limits;
use crate::wire::{RepairFrame, TUNNEL_OVERHEAD, TunnelFrame};

/// Counts what became of symbols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Packets that left for the first time.
    pub(super) symbols: u64,
    /// Times that one left again because a path had lost it.
    pub(super) again: u64,
    /// Repair symbols.
    pub(super) repairs: u64,
    /// Copies of SYN, FIN and RST beside the first.
    pub(super) copies: u64,
    /// Those that no path could carry any more.
    pub(super) given_up: u64,
}

/// A place in the window. What has arrived takes its bytes still: the receiver may have to hold it
/// until those before it have come.
#[derive(Debug)]
struct Slot {
    bytes: usize,
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// How far back the previous symbol of its flow lies; zero: it is the first.
    back: u64,
    part: Part,
    since: Instant,
    /// Copies of which nothing was heard yet.
    under_way: u16,
    payload: Vec<u8>,
}

/// What a path is offered, and what others say to that.
pub(super) trait Ask {
    /// Tells whether the path should take a packet of so many bytes, in a frame of so many, while
    /// `backlog` bytes wait.
    fn is_for(&self, backlog: usize, packet: usize, frame: usize) -> bool;
}

/// Keeps the tunnel's packets until they have arrived.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) queue: Queue,
    /// The number of `window[0]`: the oldest symbol that has not arrived.
    first: u64,
    window: VecDeque<Slot>,
    window_bytes: usize,
    /// The longest packet that was numbered since the window was empty last.
    longest_kept: usize,
    /// Numbered, and left to paths that are faster than the one that took a later one.
    committed: VecDeque<u64>,
    committed_bytes: usize,
    /// Lost, and not yet sent again.
    again: BTreeSet<u64>,
    again_bytes: usize,
    /// Copies that are still to leave, and by which paths.
    copies: BTreeMap<u64, SmallVec<[PathId; 4]>>,
    /// The paths that work.
    usable: SmallVec<[PathId; 4]>,
    /// The longest packet that one of these carries, and since when it is no longer than that.
    longest: usize,
    shrunk_at: Instant,
    pub(super) repairs: Repairs,
    counters: Sent,
}

impl Sender {
    /// Starts with nothing sent; `key` is the same at both ends.
    pub(super) fn new(key: u64) -> Self {
        Self {
            queue: Queue::default(),
            first: 1,
            window: VecDeque::new(),
            window_bytes: 0,
            longest_kept: 0,
            committed: VecDeque::new(),
            committed_bytes: 0,
            again: BTreeSet::new(),
            again_bytes: 0,
            copies: BTreeMap::new(),
            usable: SmallVec::new(),
            longest: usize::MAX,
            shrunk_at: Instant::ZERO,
            repairs: Repairs::new(key),
            counters: Sent::default(),
        }
    }

    /// Takes a packet in.
    pub(super) fn submit(&mut self, packet: Waiting) {
        self.queue.push(packet, self.first);
    }

    /// Tells whether a path with room could take something.
    pub(super) fn wants(&self) -> bool {
        !self.again.is_empty()
            || !self.committed.is_empty()
            || !self.copies.is_empty()
            || self.owes_repair()
            || (!self.queue.is_empty() && self.has_window())
    }

    /// Returns the bytes that wait for a path.
    pub(super) fn backlog(&self) -> usize {
        self.queue.bytes() + self.committed_bytes + self.again_bytes
    }

    /// Returns how many flows wait, what is sent again counting as one.
    pub(super) fn turns(&self) -> usize {
        let ours = !self.again.is_empty() || !self.committed.is_empty();
        self.queue.waiting_flows().max(usize::from(ours))
    }

    /// Chooses what leaves by the path that asks, if it fits into `room` bytes of payload. `ahead`
    /// bytes will leave by faster paths before what leaves now by this one arrives.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        path: PathId,
        ahead: usize,
        room: usize,
        ask: &impl Ask,
    ) -> Option<u64> {
        let number = self
            .take_copy(path, room)
            .or_else(|| self.take_again(room, ask))
            .or_else(|| self.take_fresh(now, path, room, ask))
            .or_else(|| self.take_new(now, path, ahead, room, ask))?;
        let kept = self.kept_mut(number)?;
        kept.under_way = kept.under_way.saturating_add(1);
        Some(number)
    }

    /// Makes a repair symbol, if one is owed and fits into `room` bytes.
    pub(super) fn poll_repair(&mut self, room: usize, ask: &impl Ask) -> Option<RepairFrame<'_>> {
        if !self.owes_repair() || !self.again.is_empty() {
            return None;
        }
        let len = self.repairs.frame_bytes(self.longest_kept);
        if len > room || !ask.is_for(self.backlog(), len, len) {
            return None;
        }
        let (first, end) = self.under_way();
        let repair = self.repairs.repair(first, end)?;
        self.counters.repairs += 1;
        Some(repair)
    }

    /// Returns a symbol as it travels.
    pub(super) fn frame(&self, number: u64) -> Option<TunnelFrame<'_>> {
        let kept = self.kept(number)?;
        let submitted_us = kept.since.as_micros() as u32;
        Some(TunnelFrame { number, back: kept.back, submitted_us, payload: &kept.payload })
    }

    /// Learns that a symbol arrived.
    pub(super) fn on_acked(&mut self, number: u64) {
        self.forget(number);
    }

    /// Learns that a copy of a symbol was lost.
    pub(super) fn on_lost(&mut self, now: Instant, number: u64) {
        let (longest, stuck) = (self.longest, now.since(self.shrunk_at) >= STUCK);
        let Some(kept) = self.kept_mut(number) else { return };
        kept.under_way = kept.under_way.saturating_sub(1);
        let len = kept.payload.len();
        if kept.under_way > 0 {
            return;
        }
        if len > longest && stuck {
            self.counters.given_up += 1;
            self.forget(number);
        } else if self.again.insert(number) {
            self.again_bytes += len;
            // It may be longer than what was left when the others were given up.
            self.longest_kept = self.longest_kept.max(len);
        }
    }

    /// Learns which paths work, and the longest packet that one of them carries.
    pub(super) fn set_paths(
        &mut self,
        now: Instant,
        usable: impl Iterator<Item = PathId>,
        longest: usize,
    ) {
        self.usable.clear();
        self.usable.extend(usable);
        if !self.copies.is_empty() {
            let usable = &self.usable;
            self.copies.retain(|_, paths| {
                paths.retain(|path| usable.contains(path));
                !paths.is_empty()
            });
        }
        if self.usable.is_empty() {
            // Whatever comes back may carry as much as before.
            self.longest = usize::MAX;
        } else if longest != self.longest {
            self.shrunk_at = now;
            self.longest = longest;
        }
    }

    /// Returns when what fits no path is to be given up.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.is_stuck().then_some(self.shrunk_at + STUCK)
    }

    /// Gives up what fits no path, once that has lasted: it would hold the window for ever. Whoever
    /// sent it hears of the size with its next try.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if now.since(self.shrunk_at) < STUCK || !self.is_stuck() {
            return;
        }
        let waiting = self.again.iter().chain(&self.committed).copied();
        let is_long = |number: &u64| self.len(*number).is_some_and(|len| len > self.longest);
        for number in waiting.filter(is_long).collect::<Vec<_>>() {
            self.counters.given_up += 1;
            self.forget(number);
        }
        self.queue.drop_longer(self.longest);
        self.longest_kept = self.longest;
    }

    /// Returns the bytes that are held.
    pub(super) fn held(&self) -> usize {
        self.queue.bytes() + self.window_bytes + self.repairs.held()
    }

    /// Tells whether nothing waits and nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.window.is_empty()
    }

    /// Gives back what an idle sender needs not.
    pub(super) fn give_back(&mut self) {
        self.window.shrink_to_fit();
        self.committed.shrink_to_fit();
        self.repairs.give_back();
        self.queue.forget_idle();
    }

    pub(super) fn counters(&self) -> Sent {
        self.counters
    }

    fn take_copy(&mut self, path: PathId, room: usize) -> Option<u64> {
        let owed = |paths: &SmallVec<[PathId; 4]>| paths.contains(&path);
        let (&number, _) = self.copies.iter().find(|(_, paths)| owed(paths))?;
        self.len(number).filter(|len| *len <= room)?;
        let paths = self.copies.get_mut(&number)?;
        paths.retain(|other| *other != path);
        if paths.is_empty() {
            self.copies.remove(&number);
        }
        self.counters.copies += 1;
        Some(number)
    }

    fn take_again(&mut self, room: usize, ask: &impl Ask) -> Option<u64> {
        let &number = self.again.first()?;
        let len = self.len(number).filter(|len| *len <= room)?;
        if !ask.is_for(self.again_bytes, len, len + TUNNEL_OVERHEAD) {
            return None;
        }
        self.again.remove(&number);
        self.again_bytes -= len;
        self.counters.again += 1;
        Some(number)
    }

    /// Takes the packet of a flow that has nothing else under way, before what is left to this
    /// path.
    fn take_fresh(
        &mut self,
        now: Instant,
        path: PathId,
        room: usize,
        ask: &impl Ask,
    ) -> Option<u64> {
        let len = self.queue.fresh_len().filter(|len| *len <= room && self.has_window())?;
        if !ask.is_for(len, len, len + TUNNEL_OVERHEAD) {
            return None;
        }
        let number = self.next();
        let (packet, before) = self.queue.pop_fresh(now, number)?;
        self.number(packet, before);
        self.on_first(number, path);
        Some(number)
    }

    fn take_new(
        &mut self,
        now: Instant,
        path: PathId,
        ahead: usize,
        room: usize,
        ask: &impl Ask,
    ) -> Option<u64> {
        let next = self.committed.front().and_then(|number| self.len(*number));
        let len = next.or_else(|| self.queue.next_len().filter(|_| self.has_window()))?;
        if !ask.is_for(self.backlog(), len, len + TUNNEL_OVERHEAD) {
            return None;
        }
        while self.committed_bytes < ahead && self.commit(now) {}
        if ahead > 0 || self.committed.is_empty() {
            // What does not fit any more is not numbered: it would be left to the faster paths.
            if self.has_window() && self.queue.next_len().is_some_and(|len| len > room) {
                return None;
            }
            self.commit(now);
        }
        let last = ahead > 0;
        let number = *if last { self.committed.back() } else { self.committed.front() }?;
        let len = self.len(number).filter(|len| *len <= room)?;
        if last {
            self.committed.pop_back()
        } else {
            self.committed.pop_front()
        };
        self.committed_bytes -= len;
        self.on_first(number, path);
        Some(number)
    }

    /// Notes that a symbol leaves for the first time, by this path.
    fn on_first(&mut self, number: u64, path: PathId) {
        self.counters.symbols += 1;
        self.repairs.on_left();
        if self.kept_mut(number).is_some_and(|kept| kept.part == Part::Edge) {
            let others = self.usable.iter().copied().filter(|other| *other != path);
            let others: SmallVec<[PathId; 4]> = others.collect();
            if !others.is_empty() {
                self.copies.insert(number, others);
            }
        }
    }

    /// Numbers the packet whose turn it is; false when none may be numbered.
    fn commit(&mut self, now: Instant) -> bool {
        if !self.has_window() {
            return false;
        }
        let number = self.next();
        let Some((packet, before)) = self.queue.pop(now, number) else { return false };
        self.committed_bytes += packet.payload.len();
        self.committed.push_back(number);
        self.number(packet, before);
        true
    }

    /// Gives a packet the next number.
    fn number(&mut self, packet: Waiting, before: Option<u64>) {
        let number = self.next();
        let Waiting { part, since, payload, .. } = packet;
        // Farther back the previous one of its flow has long arrived.
        let back = before.map(|before| number - before).filter(|back| *back < limits::TUNNEL_SEEN);
        let (bytes, len) = (payload.len() + limits::BESIDE, payload.len());
        self.longest_kept = if self.window.is_empty() { len } else { self.longest_kept.max(len) };
        self.window_bytes += bytes;
        let back = back.unwrap_or(0);
        let submitted_us = since.as_micros() as u32;
        let frame = TunnelFrame { number, back, submitted_us, payload: &payload };
        self.repairs.on_numbered(&frame, self.first);
        let kept = Some(Kept { back, part, since, under_way: 0, payload });
        self.window.push_back(Slot { bytes, kept });
    }

    fn next(&self) -> u64 {
        self.first + self.window.len() as u64
    }

    /// Returns the first number that may be under way, and the one after the last.
    fn under_way(&self) -> (u64, u64) {
        (self.first, self.committed.front().copied().unwrap_or(self.next()))
    }

    fn owes_repair(&self) -> bool {
        let (first, end) = self.under_way();
        self.repairs.is_owed(first, end)
    }

    fn has_window(&self) -> bool {
        self.window.len() < limits::TUNNEL_SYMBOLS && self.window_bytes < limits::TUNNEL_BYTES
    }

    /// Tells whether anything may wait that fits no path that works.
    fn is_stuck(&self) -> bool {
        let waiting = self.queue.next_len().max(self.queue.fresh_len()).unwrap_or(0);
        self.longest < self.longest_kept.max(waiting) && self.wants()
    }

    /// Drops a symbol, wherever it stands.
    fn forget(&mut self, number: u64) {
        let Some(place) = self.place(number) else { return };
        let Some(kept) = self.window.get_mut(place).and_then(|slot| slot.kept.take()) else {
            return;
        };
        let len = kept.payload.len();
        if self.again.remove(&number) {
            self.again_bytes -= len;
        }
        self.copies.remove(&number);
        if kept.under_way == 0
            && let Some(place) = self.committed.iter().position(|other| *other == number)
        {
            self.committed.remove(place);
            self.committed_bytes -= len;
        }
        while let Some(Slot { bytes, kept: None }) = self.window.front() {
            self.window_bytes -= bytes;
            self.window.pop_front();
            self.first += 1;
        }
    }

    fn len(&self, number: u64) -> Option<usize> {
        self.kept(number).map(|kept| kept.payload.len())
    }

    fn kept(&self, number: u64) -> Option<&Kept> {
        self.window.get(self.place(number)?)?.kept.as_ref()
    }

    fn kept_mut(&mut self, number: u64) -> Option<&mut Kept> {
        let place = self.place(number)?;
        self.window.get_mut(place)?.kept.as_mut()
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }
}

#[cfg(test)]
mod tests;
