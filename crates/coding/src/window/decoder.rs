//! The receiver's end of a sliding-window code.
//!
//! ```text
//!   floor        released     next_in_order            floor + capacity
//!     │ kept while  │ decoded, for  │ received, decoded or     │
//!     │ there is    │ the owner to  │ missing                  │ too far
//!     │ room        │ fetch         │                          │
//! ```
//!
//! Symbols below `released` are kept as long as nothing newer needs their place: the sender learns
//! late what has arrived, and until then its repair symbols still contain it. Memory is taken as
//! symbols come; an owner who knows that old ones are not needed any more gives theirs back
//! ([`Decoder::forget`]).

use core::ops::Range;
use std::collections::VecDeque;

use crate::coefficients::CoefficientKey;
use crate::elimination::{Column, Elimination};
use crate::error::Error;
use crate::outcome::Outcome;
use crate::window::{FIRST_CAPACITY, MAX_CAPACITY, MAX_REPAIRS};

/// Ids above this are refused, so that no sum of an id and a length overflows.
const LAST_ID: u64 = u64::MAX - 4 * MAX_CAPACITY as u64;

/// Repair symbols that there is room for at first.
const FIRST_REPAIRS: usize = 2;

/// Memory is given back where this part of it would do.
const SHRINKS: usize = 4;

/// Receives source and repair symbols in any order and decodes each source symbol as soon as what
/// has arrived determines it.
///
/// Every call is bounded by the capacity, whatever a peer sends; see the table in `docs/coding.md`.
///
/// ```
/// use fulmar_coding::{CoefficientKey, Outcome, window::{Decoder, Encoder}};
///
/// let key = CoefficientKey::new(1);
/// let mut encoder = Encoder::new(4, 16, key)?;
/// let mut decoder = Decoder::new(4, 16, key)?;
/// encoder.push(b"lost")?;
/// encoder.push(b"kept")?;
/// assert_eq!(decoder.push_source(1, b"kept"), Outcome::Innovative);
/// assert_eq!(decoder.next_in_order(), 0);
/// let mut payload = Vec::new();
/// encoder.repair(0, 0..2, &mut payload)?;
/// assert_eq!(decoder.push_repair(0, 0..2, &payload), Outcome::Innovative);
/// assert_eq!(decoder.push_repair(0, 0..2, &payload), Outcome::Redundant);
/// assert_eq!(decoder.poll_decoded(), Some(1));
/// assert_eq!(decoder.poll_decoded(), Some(0));
/// assert_eq!(decoder.get(0), Some(&b"lost"[..]));
/// decoder.release(decoder.next_in_order());
/// assert_eq!(decoder.push_source(0, b"lost"), Outcome::Redundant);
/// # Ok::<(), fulmar_coding::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    key: CoefficientKey,
    symbol_bytes: usize,
    /// The largest that `capacity` becomes.
    most: u64,
    /// Symbols that there is room for.
    capacity: u64,
    /// Bytes beyond which `capacity` does not grow.
    memory: usize,
    elimination: Elimination,
    floor: u64,
    /// No symbol of this id or a higher one has come, nor any that speaks of one.
    end: u64,
    released: u64,
    next_in_order: u64,
    /// Only below this id can there be symbols that were given up.
    given_up_below: u64,
    rank: u64,
    decoded: VecDeque<u64>,
}

impl Decoder {
    /// Makes a decoder that holds up to `capacity` symbols, rounded up to a power of two, of at
    /// most `symbol_bytes`, and as many repair symbols, but at most [`MAX_REPAIRS`].
    ///
    /// Give it twice the sender's capacity or more: repair symbols still contain what was decoded
    /// up to a round trip ago.
    ///
    /// # Errors
    ///
    /// If either is zero or above its bound.
    pub fn new(symbol_bytes: usize, capacity: usize, key: CoefficientKey) -> Result<Self, Error> {
        Error::check_sizes(symbol_bytes, capacity, MAX_CAPACITY)?;
        let most = capacity.next_power_of_two();
        let capacity = most.min(FIRST_CAPACITY);
        Ok(Self {
            key,
            symbol_bytes,
            most: most as u64,
            capacity: capacity as u64,
            memory: usize::MAX,
            elimination: Elimination::new(capacity, capacity.min(FIRST_REPAIRS), symbol_bytes),
            floor: 0,
            end: 0,
            released: 0,
            next_in_order: 0,
            given_up_below: 0,
            rank: 0,
            decoded: VecDeque::new(),
        })
    }

    /// Takes a source symbol that arrived as it is.
    pub fn push_source(&mut self, id: u64, symbol: &[u8]) -> Outcome {
        if symbol.len() > self.symbol_bytes {
            return Outcome::Malformed;
        }
        self.elimination.rest();
        if id < self.floor {
            return if id < self.given_up_below { Outcome::Stale } else { Outcome::Redundant };
        }
        if !self.make_room(id) {
            return Outcome::TooFar;
        }
        match self.elimination.column(self.column(id)) {
            Column::Known => Outcome::Redundant,
            Column::GivenUp => Outcome::Stale,
            Column::Unknown => {
                let (column, origin) = (self.column(id), self.column(self.next_in_order));
                self.elimination.learn(column, symbol, origin);
                self.rank += 1;
                self.announce(id);
                self.advance();
                Outcome::Innovative
            }
        }
    }

    /// Takes repair symbol `repair_id` over the source ids `range`.
    pub fn push_repair(&mut self, repair_id: u64, range: Range<u64>, payload: &[u8]) -> Outcome {
        let span = range.end.saturating_sub(range.start);
        if payload.len() > self.symbol_bytes || span == 0 || span > self.most {
            return Outcome::Malformed;
        }
        self.elimination.rest();
        if range.start < self.floor || self.speaks_of_given_up(&range) {
            return Outcome::Stale;
        }
        if range.end <= self.next_in_order {
            return Outcome::Redundant;
        }
        if !self.make_room(range.end - 1) {
            return Outcome::TooFar;
        }
        let parts = super::ring(&range, self.capacity as usize);
        if !parts.clone().into_iter().any(|part| self.elimination.any_unknown(part)) {
            return Outcome::Redundant;
        }
        self.make_room_for_repair();
        let coefficients = self.elimination.incoming_mut();
        let mut first = range.start;
        for part in parts {
            let count = part.len() as u64;
            self.key.fill(repair_id, first, &mut coefficients[part]);
            first += count;
        }
        let outcome = self.elimination.insert(payload, self.column(self.next_in_order));
        if outcome == Outcome::Innovative {
            self.rank += 1;
            self.advance();
        }
        outcome
    }

    /// Returns the lowest id that is neither decoded nor given up.
    pub fn next_in_order(&self) -> u64 {
        self.next_in_order
    }

    /// Returns a decoded symbol that is not released, padded with zeros to the size of a symbol.
    pub fn get(&self, id: u64) -> Option<&[u8]> {
        let held = id >= self.released && id < self.floor + self.capacity;
        held.then(|| self.elimination.symbol(self.column(id))).flatten()
    }

    /// Returns the next id that became known, received or decoded, in the order in which they did.
    ///
    /// An owner who does not ask loses the oldest ids, not memory.
    pub fn poll_decoded(&mut self) -> Option<u64> {
        loop {
            let id = self.decoded.pop_front()?;
            if id >= self.released {
                return Some(id);
            }
        }
    }

    /// Declares that the symbols below `below` are no longer needed, as far as they are in order.
    pub fn release(&mut self, below: u64) {
        self.released = below.clamp(self.released, self.next_in_order.max(self.released));
    }

    /// Gives up what is missing below `id`: the sender has given it up, or its time is over.
    ///
    /// Decoded symbols below stay until they are released, unless `id` is so far ahead that they
    /// have no room. If it would take too long to eliminate the missing symbols from the equations,
    /// all equations are dropped.
    pub fn skip_to(&mut self, id: u64) {
        let id = id.min(LAST_ID);
        if id <= self.next_in_order {
            return;
        }
        self.elimination.rest();
        self.grow(id);
        let end = self.floor + self.capacity;
        self.end = self.end.max(id);
        let origin = self.column(self.floor);
        for missing in self.next_in_order..id.min(end) {
            let column = self.column(missing);
            if self.elimination.column(column) == Column::Unknown {
                self.elimination.give_up(column, origin);
            }
        }
        self.given_up_below = id;
        if id > end {
            for old in self.floor..end {
                self.elimination.forget(self.column(old));
            }
            self.floor = id;
            self.released = id;
        }
        self.next_in_order = id;
        self.advance();
    }

    /// Returns the lowest id that is not *seen* in the sense of [LRT §III-C]: all ids below it are
    /// decoded, given up, or lead an equation of their own.
    pub fn seen(&self) -> u64 {
        let seen = |&id: &u64| {
            let column = self.column(id);
            self.elimination.column(column) != Column::Unknown || self.elimination.is_pivot(column)
        };
        let end = self.floor + self.capacity;
        (self.next_in_order..end).find(|id| !seen(id)).unwrap_or(end)
    }

    /// Returns how many innovative symbols have arrived since the start.
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// Returns how many repair symbols are held that have not led to a symbol yet.
    pub fn held(&self) -> usize {
        self.elimination.count()
    }

    /// Lists the ids of a range that are neither decoded nor given up, as far as the window
    /// reaches.
    pub fn missing(&self, range: Range<u64>) -> Missing<'_> {
        let end = range.end.min(self.floor + self.most);
        Missing { decoder: self, ids: range.start.max(self.next_in_order)..end }
    }

    /// Returns how many symbols the decoder holds at most: a power of two.
    pub fn capacity(&self) -> usize {
        self.most as usize
    }

    /// Forgets the released symbols below `id`, which no repair symbol that is still to come
    /// contains, and gives memory back that the others do not need.
    pub fn forget(&mut self, id: u64) {
        self.elimination.rest();
        self.raise_floor(id.min(self.released).min(self.floor + self.capacity));
        let needed = 2 * self.end.saturating_sub(self.floor).next_power_of_two();
        let capacity = needed.max(FIRST_CAPACITY as u64).min(self.most);
        let slots = (2 * self.held()).next_power_of_two().max(FIRST_REPAIRS);
        let is_less = |least: usize, now: usize| least <= now / SHRINKS;
        let capacity = if is_less(capacity as usize, self.capacity as usize) {
            capacity
        } else {
            self.capacity
        };
        let now = self.elimination.slots();
        let slots = if is_less(slots, now) { slots } else { now };
        if (capacity, slots) != (self.capacity, now) {
            self.resize(capacity, slots);
        }
    }

    /// Takes no more than `bytes` of memory from now on. What is taken already stays; symbols for
    /// which there is no room are too far, and repair symbols beyond it are refused as if the
    /// decoder were full.
    pub fn set_memory(&mut self, bytes: usize) {
        self.memory = bytes;
    }

    /// Returns how many bytes of memory the decoder takes, about.
    pub fn bytes(&self) -> usize {
        Elimination::bytes(self.capacity as usize, self.elimination.slots(), self.symbol_bytes)
    }

    fn column(&self, id: u64) -> usize {
        (id & (self.capacity - 1)) as usize
    }

    fn speaks_of_given_up(&self, range: &Range<u64>) -> bool {
        let end = range.end.min(self.given_up_below).min(self.floor + self.capacity);
        (range.start..end).any(|id| self.elimination.column(self.column(id)) == Column::GivenUp)
    }

    /// Sees to it that `id` has a place: takes more memory, and where that cannot be, moves the
    /// floor up, no further than what is released.
    #[inline]
    fn make_room(&mut self, id: u64) -> bool {
        let has_room = id < self.floor + self.capacity || (id <= LAST_ID && self.find_room(id));
        if has_room {
            self.end = self.end.max(id + 1);
        }
        has_room
    }

    fn find_room(&mut self, id: u64) -> bool {
        self.grow(id + 1);
        let floor = (id + 1).saturating_sub(self.capacity);
        let has_room = floor <= self.released.max(self.floor);
        if has_room {
            self.raise_floor(floor);
        }
        has_room
    }

    /// Takes memory for all symbols below `end`, or for as many as there can be.
    fn grow(&mut self, end: u64) {
        let slots = self.elimination.slots();
        let mut capacity = end.saturating_sub(self.floor).min(self.most).next_power_of_two();
        while capacity > self.capacity && !self.may_take(capacity, slots) {
            capacity /= 2;
        }
        if capacity > self.capacity {
            self.resize(capacity, slots);
        }
    }

    /// Takes memory for another repair symbol where there is no room for one.
    fn make_room_for_repair(&mut self) {
        let slots = self.elimination.slots();
        let more = (2 * slots).min(MAX_REPAIRS).min(self.most as usize);
        if self.held() == slots && more > slots && self.may_take(self.capacity, more) {
            self.resize(self.capacity, more);
        }
    }

    fn may_take(&self, capacity: u64, slots: usize) -> bool {
        Elimination::bytes(capacity as usize, slots, self.symbol_bytes) <= self.memory
    }

    fn resize(&mut self, capacity: u64, slots: usize) {
        let kept = self.floor..self.floor + capacity.min(self.capacity);
        self.elimination.resize(capacity as usize, slots, kept);
        self.capacity = capacity;
    }

    fn raise_floor(&mut self, floor: u64) {
        for old in self.floor..floor {
            self.elimination.forget(self.column(old));
        }
        self.floor = self.floor.max(floor);
    }

    /// Reports what elimination recovered, and moves `next_in_order`.
    fn advance(&mut self) {
        while let Some(column) = self.elimination.poll_recovered() {
            let origin = self.column(self.floor) as u64;
            self.announce(
                self.floor + ((column as u64 + self.capacity - origin) & (self.capacity - 1)),
            );
        }
        let end = self.floor + self.capacity;
        while self.next_in_order < end
            && self.elimination.column(self.column(self.next_in_order)) != Column::Unknown
        {
            self.next_in_order += 1;
        }
    }

    fn announce(&mut self, id: u64) {
        if self.decoded.len() as u64 == 2 * self.most {
            self.decoded.pop_front();
        }
        self.decoded.push_back(id);
    }
}

/// Lists source ids that are missing; made by [`Decoder::missing`].
///
/// ```
/// use fulmar_coding::{CoefficientKey, window::Decoder};
///
/// let mut decoder = Decoder::new(8, 16, CoefficientKey::new(1))?;
/// decoder.push_source(1, b"second");
/// assert_eq!(decoder.missing(0..4).collect::<Vec<_>>(), [0, 2, 3]);
/// # Ok::<(), fulmar_coding::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Missing<'a> {
    decoder: &'a Decoder,
    ids: Range<u64>,
}

impl Iterator for Missing<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let decoder = self.decoder;
        let end = decoder.floor + decoder.capacity;
        let is_known = |id| decoder.elimination.column(decoder.column(id)) != Column::Unknown;
        self.ids.find(|&id| id >= end || !is_known(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elimination::EFFORT;
    use crate::window::Encoder;

    const BYTES: usize = 64;
    const CAPACITY: u64 = MAX_CAPACITY as u64;
    /// A column that is begun with little left is still finished.
    const BOUND: usize = 3 * EFFORT;

    /// A decoder of the largest size, with the first `known` symbols and with as many repair
    /// symbols as it can hold, each over the whole window.
    fn laden(known: u64) -> Decoder {
        let mut decoder = Decoder::new(BYTES, MAX_CAPACITY, CoefficientKey::new(1)).expect("sizes");
        (0..known).for_each(|id| _ = decoder.push_source(id, &[id as u8; BYTES]));
        for repair in 0..MAX_REPAIRS as u64 {
            let outcome = decoder.push_repair(repair, 0..CAPACITY, &[repair as u8; BYTES]);
            assert_eq!(outcome, Outcome::Innovative);
        }
        assert_eq!(decoder.held(), MAX_REPAIRS);
        decoder
    }

    /// Recovers what is lost of a stream that begins at `first`.
    fn assert_recovers(decoder: &mut Decoder, first: u64) {
        let mut encoder = Encoder::new(BYTES, 32, CoefficientKey::new(1)).expect("sizes");
        for id in 0..first + 32 {
            encoder.trim((id + 1).saturating_sub(32));
            encoder.push(&[id as u8; BYTES]).expect("room");
            if id >= first && id % 4 != 0 {
                assert_eq!(decoder.push_source(id, &[id as u8; BYTES]), Outcome::Innovative);
            }
        }
        for repair in 1_000..1_008 {
            let (range, mut payload) = (first..first + 32, Vec::new());
            encoder.repair(repair, range.clone(), &mut payload).expect("symbols");
            assert_eq!(decoder.push_repair(repair, range, &payload), Outcome::Innovative);
        }
        assert_eq!(decoder.next_in_order(), first + 32);
        for id in first..first + 32 {
            assert_eq!(decoder.get(id), Some(&[id as u8; BYTES][..]));
        }
    }

    #[test]
    fn a_jump_over_repair_symbols_takes_a_bounded_effort() {
        for first in [CAPACITY - 64, CAPACITY + 9] {
            let mut decoder = laden(0);
            decoder.skip_to(first);
            assert!(decoder.elimination.spent() <= BOUND, "{}", decoder.elimination.spent());
            assert_eq!(decoder.held(), 0);
            decoder.release(first);
            assert_recovers(&mut decoder, first);
        }
    }

    #[test]
    fn driving_symbols_out_that_repair_speaks_of_takes_a_bounded_effort() {
        let known = CAPACITY / 2;
        let mut decoder = laden(known);
        decoder.release(known);
        let newest = known + CAPACITY - 1;
        assert_eq!(decoder.push_source(newest, &[1; BYTES]), Outcome::Innovative);
        assert!(decoder.elimination.spent() <= BOUND, "{}", decoder.elimination.spent());
        decoder.skip_to(newest);
        decoder.release(newest + 1);
        assert_recovers(&mut decoder, newest + 1);
    }

    #[test]
    fn what_few_repair_symbols_say_outlives_what_is_given_up() {
        let mut encoder = Encoder::new(BYTES, 512, CoefficientKey::new(1)).expect("sizes");
        let mut decoder = Decoder::new(BYTES, MAX_CAPACITY, CoefficientKey::new(1)).expect("sizes");
        (0..512).for_each(|id| _ = encoder.push(&[id as u8; BYTES]).expect("room"));
        (20..512).for_each(|id| _ = decoder.push_source(id, &[id as u8; BYTES]));
        for repair in 0..19 {
            let mut payload = Vec::new();
            encoder.repair(repair, 0..512, &mut payload).expect("symbols");
            decoder.push_repair(repair, 0..512, &payload);
        }
        decoder.skip_to(10);
        assert_eq!(decoder.held(), 9);
    }
}
