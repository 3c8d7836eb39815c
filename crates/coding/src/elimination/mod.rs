//! The linear algebra of both decoders: what repair symbols say, and when they say enough.
//!
//! ```text
//! raw[j]  = Σ_c C[j, c] · x[c]              repair symbol j as it came, over columns c (symbols)
//! row[i]  = Σ_j T[i, j] · raw[j] = Σ_c R[i, c] · x[c],  R = T·C
//! ```
//!
//! `R` is kept in reduced row-echelon form over the columns that are still unknown, pivots leftmost
//! in the order of the source. `T` stands beside it and remembers which repair symbols each row is
//! made of. The coefficients of columns that are already known stay in `R`. Payloads are left alone
//! until a row has a single unknown: then its symbol is the sum over `T` less the known part of
//! `R`, one fused pass over the bytes for up to four such rows at a time. A repair symbol that
//! turns out to be redundant never costs more than its coefficients.
//!
//! An equation that comes in costs two operations on the matrix `T R`: one subtracts all rows from
//! it, each multiplied by the equation's coefficient at that row's pivot; the other subtracts it
//! from all rows, multiplied by theirs at its own. Both skip the cache lines in which every row is
//! zero.
//!
//! The window decoder uses the columns as a ring: the owner says where the order starts.
//!
//! Bounds: a call handles at most `slots` rows of `slots + columns` bytes each, and a payload is
//! touched once for each symbol that is decoded, is given up or leaves the ring. Giving up and
//! leaving may cost at most [`EFFORT`] between two calls of [`Elimination::rest`]: beyond that all
//! equations are dropped.

mod resize;
mod terms;

use crate::gf256::{self, Kernel, LINE, Lines};
use crate::outcome::Outcome;
use crate::slab::Slab;
use terms::{FUSED, Terms, WORD};

/// How many bytes one call may touch for symbols that are given up or leave the ring: about 0.2 ms
/// of work. That covers 28 equations over 512 symbols of which as many are given up; what is
/// dropped beyond that is sent again.
pub(crate) const EFFORT: usize = 2 << 20;

/// What is known about a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Nothing but equations.
    Unknown,
    /// The symbol itself.
    Known,
    /// Nothing, and nothing will be.
    GivenUp,
}

/// Solves for symbols as equations arrive.
///
/// Rows and slots are dense: the first `count` of each are in use, and the last one takes the place
/// of one that is freed.
#[derive(Clone, Debug)]
pub(crate) struct Elimination {
    kernel: Kernel,
    columns: usize,
    /// The byte of a row at which its columns begin; before it stands T.
    first: usize,
    column: Vec<Column>,
    /// 0xff where the column is unknown, else 0; in the places of a row.
    unknown: Vec<u8>,
    /// The same, without the pivots of rows.
    free: Vec<u8>,
    /// Cache lines of each known symbol; the rest of its row is zero.
    symbol_lines: Vec<u16>,
    /// The symbols, one row for each column; behind them the payloads of raw equations.
    payloads: Slab,
    /// Rows, and slots, in use.
    count: usize,
    /// Which raw equation each slot holds.
    place: Vec<usize>,
    /// The same of each raw equation.
    raw_lines: Vec<u16>,
    /// C, in the places of a row.
    raw_coefficients: Slab,
    /// T and R side by side; behind the rows in use, the equation that comes in.
    rows: Slab,
    /// The cache lines that hold coefficients of raw equations or rows; all others are never read.
    lines: Lines,
    /// The pivot of each row, as a byte of the row.
    pivots: Vec<usize>,
    /// For each row a byte that kept it from being ready when it was last examined.
    witness: Vec<usize>,
    factors: Vec<u8>,
    terms: Terms,
    /// Rows with a single unknown.
    ready: Vec<usize>,
    /// Columns that became known by elimination and that the owner has not fetched yet.
    recovered: Vec<usize>,
    /// Bytes touched for columns that were given up or left since the last rest.
    spent: usize,
}

impl Elimination {
    /// Makes room for `columns` symbols and `slots` repair symbols.
    pub(crate) fn new(columns: usize, slots: usize, symbol_bytes: usize) -> Self {
        let first = slots.next_multiple_of(WORD);
        // Whole lines, so that no operation on coefficients has a remainder.
        let lines = Lines::none(first + columns);
        let row_bytes = (first + columns).next_multiple_of(lines.bytes());
        let mut unknown = vec![0; row_bytes];
        unknown[first..first + columns].fill(0xff);
        Self {
            kernel: Kernel::detect(),
            columns,
            first,
            column: vec![Column::Unknown; columns],
            free: unknown.clone(),
            unknown,
            symbol_lines: vec![0; columns.next_multiple_of(WORD)],
            payloads: Slab::new(columns + slots, symbol_bytes),
            count: 0,
            place: (0..slots).collect(),
            raw_lines: vec![0; slots],
            raw_coefficients: Slab::new(slots, row_bytes),
            rows: Slab::new(slots + 1, row_bytes),
            lines,
            pivots: vec![0; slots],
            witness: vec![NONE; slots],
            factors: vec![0; slots],
            terms: Terms::new(columns + slots),
            ready: Vec::with_capacity(slots),
            recovered: Vec::with_capacity(columns),
            spent: 0,
        }
    }

    /// Forgets everything but keeps the memory.
    pub(crate) fn reset(&mut self) {
        self.column.fill(Column::Unknown);
        let columns = self.first..self.first + self.columns;
        self.unknown[columns.clone()].fill(0xff);
        self.free[columns].fill(0xff);
        self.release_all();
        self.recovered.clear();
    }

    /// Begins a call: what was spent before no longer counts.
    pub(crate) fn rest(&mut self) {
        self.spent = 0;
    }

    /// Returns the bytes touched for columns given up or forgotten since the last rest.
    #[cfg(test)]
    pub(crate) fn spent(&self) -> usize {
        self.spent
    }

    /// Returns how many equations are held.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Says what is known about a column.
    pub(crate) fn column(&self, column: usize) -> Column {
        self.column[column]
    }

    /// Says whether an equation leads with this column.
    pub(crate) fn is_pivot(&self, column: usize) -> bool {
        self.unknown[self.first + column] != self.free[self.first + column]
    }

    /// Returns a known symbol, padded with zeros.
    pub(crate) fn symbol(&self, column: usize) -> Option<&[u8]> {
        (self.column[column] == Column::Known).then(|| self.payloads.row(column))
    }

    /// Says whether any column of a range is unknown.
    pub(crate) fn any_unknown(&self, columns: core::ops::Range<usize>) -> bool {
        let bytes = self.first + columns.start..self.first + columns.end;
        self.unknown[bytes].iter().fold(0, |any, mask| any | mask) != 0
    }

    /// Lends the coefficients of the next equation, one for each column, zero at first, for the
    /// owner to fill.
    pub(crate) fn incoming_mut(&mut self) -> &mut [u8] {
        let row = self.rows.row_mut(self.count);
        row.fill(0);
        &mut row[self.first..self.first + self.columns]
    }

    /// Takes the next column that elimination made known.
    pub(crate) fn poll_recovered(&mut self) -> Option<usize> {
        self.recovered.pop()
    }

    /// Takes a symbol as it is. The column must be unknown, the symbol not too long. `origin` is
    /// the first column in the source's order, or any below the first unknown one.
    pub(crate) fn learn(&mut self, column: usize, symbol: &[u8], origin: usize) {
        self.payloads.store(column, symbol);
        self.symbol_lines[column] = lines_of(symbol);
        let led = self.is_pivot(column);
        self.set_known(column);
        if self.count > 0 {
            self.drop_column(self.first + column, led, origin);
            self.decode_ready();
        }
    }

    /// Takes an equation whose coefficients stand in [`Elimination::incoming_mut`]; none of them
    /// may belong to a column that was given up. `origin` as in [`Elimination::learn`].
    pub(crate) fn insert(&mut self, payload: &[u8], origin: usize) -> Outcome {
        let slot = self.count;
        if slot == self.place.len() {
            return Outcome::Full;
        }
        self.take_lines();
        let place = self.place[slot];
        self.lines.copy(self.raw_coefficients.row_mut(place), self.rows.row(slot));
        self.reduce_incoming();
        let Some(pivot) = self.leading(slot, origin) else { return Outcome::Redundant };
        self.payloads.store(self.columns + place, payload);
        self.raw_lines[place] = lines_of(payload);
        self.count += 1;
        self.witness[slot] = NONE;
        self.ready.clear();
        self.lead_with(slot, pivot);
        self.decode_ready();
        Outcome::Innovative
    }

    /// Declares that an unknown column will never be known: of the equations that hold it one is
    /// sacrificed to eliminate it from the others.
    pub(crate) fn give_up(&mut self, column: usize, origin: usize) {
        let at = self.first + column;
        let is_held = self.may_look_at(at) && self.take_along(column, origin);
        self.column[column] = Column::GivenUp;
        self.unknown[at] = 0;
        self.free[at] = 0;
        if is_held {
            self.ready.clear();
            self.look_for_ready();
            self.decode_ready();
        }
    }

    /// Makes a column that is known or given up ready for another symbol.
    #[inline]
    pub(crate) fn forget(&mut self, column: usize) {
        let at = self.first + column;
        if self.may_look_at(at) {
            self.take_out(column);
        }
        self.column[column] = Column::Unknown;
        self.unknown[at] = 0xff;
        self.free[at] = 0xff;
    }

    fn set_known(&mut self, column: usize) {
        self.column[column] = Column::Known;
        self.unknown[self.first + column] = 0;
        self.free[self.first + column] = 0;
    }

    /// Says whether any equation may contain the column at byte `at`; drops them all if too much
    /// has been spent on them.
    #[inline]
    fn may_look_at(&mut self, at: usize) -> bool {
        if !self.lines.contain(at) {
            return false;
        }
        if self.spent > EFFORT {
            for &pivot in &self.pivots[..self.count] {
                self.free[pivot] = self.unknown[pivot];
            }
            self.release_all();
            return false;
        }
        self.spent += self.count * LINE;
        true
    }

    /// Sacrifices one of the equations that hold an unknown column, if any does.
    fn take_along(&mut self, column: usize, origin: usize) -> bool {
        let at = self.first + column;
        let order = |pivot: usize| (pivot - self.first + self.columns - origin) % self.columns;
        let holders = (0..self.count).filter(|&row| self.rows.row(row)[at] != 0);
        let Some(row) = holders.max_by_key(|&row| order(self.pivots[row])) else { return false };
        let bytes = self.lines.each().count() * LINE;
        self.spent += self.count * (2 * bytes + self.payloads.stride());
        self.free[self.pivots[row]] = self.unknown[self.pivots[row]];
        self.subtract(row, at, 0);
        let slot = self.eliminate_raw(column);
        (0..self.count).for_each(|other| self.rows.row_mut(other)[slot] = 0);
        self.release(row, slot);
        true
    }

    /// Subtracts a known symbol from the equations that contain it, while the symbol is still
    /// there.
    fn take_out(&mut self, column: usize) {
        let at = self.first + column;
        if self.is_spoken_of(at..at + 1) {
            self.spent += self.count * self.payloads.stride();
            for &place in &self.place[..self.count] {
                let c = core::mem::take(&mut self.raw_coefficients.row_mut(place)[at]);
                if c != 0 {
                    let lines = self.raw_lines[place].max(self.symbol_lines[column]);
                    self.raw_lines[place] = lines;
                    let bytes = self.payloads.bytes_in(lines);
                    let raw = self.columns + place;
                    let (raw, symbol) = self.payloads.row_mut_and_row(raw, column);
                    self.kernel.mul_add(&mut raw[..bytes], symbol, c);
                }
            }
            (0..self.count).for_each(|row| self.rows.row_mut(row)[at] = 0);
        }
        let line = self.lines.bytes();
        if (at + 1).is_multiple_of(line) && !self.is_spoken_of(at + 1 - line..at + 1) {
            self.lines.remove(at);
        }
    }

    /// Says whether any row has a coefficient in these bytes.
    fn is_spoken_of(&self, bytes: core::ops::Range<usize>) -> bool {
        let (rows, stride) = self.rows.matrix();
        let mut starts = (0..self.count).map(|row| row * stride);
        starts.any(|at| rows[at + bytes.start..at + bytes.end].iter().any(|&c| c != 0))
    }

    /// Adds the lines of the equation that comes in to those that are in use.
    fn take_lines(&mut self) {
        let incoming = self.rows.row_mut(self.count);
        incoming[self.count] = 1;
        let (mut fresh, bytes) = (self.lines, self.lines.bytes());
        fresh.clear();
        for line in (0..incoming.len()).step_by(LINE) {
            if !self.lines.contain(line) && self.kernel.common(incoming, incoming, line) != 0 {
                self.lines.insert(line);
                fresh.insert(line);
            }
        }
        for line in fresh {
            for (row, &place) in self.place[..self.count].iter().enumerate() {
                self.rows.row_mut(row)[line..line + bytes].fill(0);
                self.raw_coefficients.row_mut(place)[line..line + bytes].fill(0);
            }
        }
    }

    /// Reduces the incoming equation to what it says beyond the rows held.
    fn reduce_incoming(&mut self) {
        let (rows, stride) = self.rows.matrix_mut();
        let (rows, incoming) = rows.split_at_mut(self.count * stride);
        // Rows are zero at each other's pivots: the factors stay what they are meanwhile.
        let factors = &mut self.factors[..self.count];
        factors.iter_mut().zip(&self.pivots).for_each(|(factor, &pivot)| *factor = incoming[pivot]);
        self.kernel.gather(incoming, rows, stride, factors, self.lines);
    }

    /// Finds the first unknown column of a row in the source's order, as a byte of the row.
    fn leading(&self, row: usize, origin: usize) -> Option<usize> {
        let (start, end) = (self.first + origin, self.first + self.columns);
        let find = |range| self.first_nonzero(self.rows.row(row), range);
        find(start..end).or_else(|| find(self.first..start))
    }

    /// Finds the first byte of a range that is not zero in a row, of an unknown column.
    fn first_nonzero(&self, row: &[u8], range: core::ops::Range<usize>) -> Option<usize> {
        for line in self.lines.each() {
            if line + LINE <= range.start || line >= range.end {
                continue;
            }
            let from = u64::MAX << range.start.saturating_sub(line);
            let bits = self.kernel.common(row, &self.unknown, line) & from;
            if bits != 0 {
                let found = line + bits.trailing_zeros() as usize;
                return (found < range.end).then_some(found);
            }
        }
        None
    }

    /// Makes `pivot` the pivot of `row` and takes it out of all other rows.
    fn lead_with(&mut self, row: usize, pivot: usize) {
        self.pivots[row] = pivot;
        self.free[pivot] = 0;
        // 1 + (c⁻¹ + 1) = c⁻¹: the row itself is scaled by the same operation.
        let own = gf256::inv(self.rows.row(row)[pivot]) ^ 1;
        self.subtract(row, pivot, own);
        self.look_for_ready();
    }

    /// Finds the rows that have a single unknown; looks only at those that have lost their witness.
    fn look_for_ready(&mut self) {
        let (rows, stride) = self.rows.matrix();
        for (row, witness) in self.witness[..self.count].iter_mut().enumerate() {
            let row_at = row * stride;
            if rows[row_at + *witness] & self.free[*witness] != 0 {
                continue;
            }
            // The last one: pivots are taken from the left, so that it lasts longest.
            let row_bytes = &rows[row_at..row_at + stride];
            *witness = NONE;
            for line in self.lines.each() {
                let bits = self.kernel.common(row_bytes, &self.free, line);
                if bits != 0 {
                    *witness = line + 63 - bits.leading_zeros() as usize;
                }
            }
            if *witness == NONE {
                self.ready.push(row);
            }
        }
    }

    /// Subtracts `row` from all others so that they are zero at byte `at`, and adds it to itself
    /// `own` times.
    fn subtract(&mut self, row: usize, at: usize, own: u8) {
        let (rows, stride) = self.rows.matrix_mut();
        let products = gf256::products(gf256::inv(rows[row * stride + at]));
        let factors = &mut self.factors[..self.count];
        for (other, factor) in factors.iter_mut().enumerate() {
            *factor = products[usize::from(rows[other * stride + at])];
        }
        factors[row] = own;
        self.kernel.scatter(rows, stride, row, factors, self.lines);
    }

    /// Finds out which rows are ready now that the column at byte `at` is known, which may have led
    /// one.
    fn drop_column(&mut self, at: usize, led: bool, origin: usize) {
        self.ready.clear();
        if led {
            let headless = self.pivots[..self.count].iter().position(|&pivot| pivot == at);
            let row = headless.expect("a row has the pivot");
            let pivot = self.leading(row, origin).expect("a row with one unknown is not kept");
            self.lead_with(row, pivot);
        } else if self.witness[..self.count].contains(&at) {
            self.look_for_ready();
        }
    }

    /// Computes the symbols of the rows that have a single unknown each, and spends the rows.
    fn decode_ready(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        for first in (0..self.ready.len()).step_by(FUSED) {
            match self.ready[first..] {
                [a] => self.decode([a]),
                [a, b] => self.decode([a, b]),
                [a, b, c] => self.decode([a, b, c]),
                [a, b, c, d, ..] => self.decode([a, b, c, d]),
                [] => {}
            }
        }
        for &row in &self.ready {
            let pivot = self.pivots[row];
            let column = pivot - self.first;
            self.recovered.push(column);
            self.column[column] = Column::Known;
            self.unknown[pivot] = 0;
        }
        if self.ready.len() == self.count {
            // All rows are spent: the usual end of a burst of losses, and of a block.
            self.release_all();
        } else {
            // Backwards: the last row takes the place of one that is released, and it must not be a
            // ready one.
            (0..self.ready.len()).rev().for_each(|at| self.spend(self.ready[at]));
        }
    }

    /// Computes the symbols of up to four rows.
    fn decode<const R: usize>(&mut self, rows: [usize; R]) {
        let lines = self.collect_terms(rows);
        let (stride, bytes) = (self.payloads.stride(), self.payloads.bytes_in(lines));
        let columns = rows.map(|row| self.pivots[row] - self.first);
        for column in columns {
            self.symbol_lines[column] = lines;
            let rest = &mut self.payloads.row_mut(column)[bytes..];
            if !rest.is_empty() {
                rest.fill(0);
            }
        }
        let dsts = columns.map(|column| column * stride);
        self.terms.sum(self.kernel, &mut self.payloads, &dsts, bytes);
    }

    /// Lists what the symbols of up to four rows are made of; returns how many lines that is.
    fn collect_terms<const R: usize>(&mut self, rows: [usize; R]) -> u16 {
        let rows = rows.map(|row| self.rows.row(row));
        let stride = self.payloads.stride();
        let mut longest = [0; WORD];
        self.terms.clear();
        for (slot, &place) in self.place[..self.count].iter().enumerate() {
            let factors = rows.map(|row| row[slot]);
            if factors != [0; R] {
                longest[0] = self.raw_lines[place].max(longest[0]);
                self.terms.push((self.columns + place) * stride, factors);
            }
        }
        for line in self.lines.each() {
            if line + LINE <= self.first {
                continue;
            }
            let any = rows.iter().fold(0, |any, row| any | self.kernel.common(row, row, line));
            let known = !self.kernel.common(&self.unknown, &self.unknown, line);
            let mut bits = any & known & u64::MAX << self.first.saturating_sub(line);
            // Coefficients come in long runs, with nothing in between: look at eight columns at a
            // time.
            while bits != 0 {
                let at = bits.trailing_zeros() as usize / WORD * WORD;
                let mut spoken_of = bits >> at & 0xff;
                bits ^= spoken_of << at;
                let words = rows.map(|row| word(row, line + at));
                let column = line + at - self.first;
                let of_each: &[u16; WORD] =
                    self.symbol_lines[column..].first_chunk().expect("whole words");
                if spoken_of == 0xff {
                    longest = core::array::from_fn(|byte| longest[byte].max(of_each[byte]));
                    self.terms.push_word(column * stride, stride, words);
                    continue;
                }
                while spoken_of != 0 {
                    let byte = spoken_of.trailing_zeros() as usize % WORD;
                    spoken_of &= spoken_of - 1;
                    longest[byte] = longest[byte].max(of_each[byte]);
                    let factors = words.map(|word| (word >> (8 * byte)) as u8);
                    self.terms.push((column + byte) * stride, factors);
                }
            }
        }
        longest.into_iter().fold(0, u16::max)
    }

    /// Frees a row that has no unknown left, and one slot that it is made of; this row first
    /// eliminates that slot from the others.
    fn spend(&mut self, row: usize) {
        let made_of = &self.rows.row(row)[..self.count];
        let slot = made_of.iter().position(|&c| c != 0).expect("T has full rank");
        self.subtract(row, slot, 0);
        self.release(row, slot);
    }

    /// Takes a column out of all raw equations but one, whose slot is returned.
    fn eliminate_raw(&mut self, column: usize) -> usize {
        let used = &self.place[..self.count];
        let at = self.first + column;
        let holds = |&place: &usize| self.raw_coefficients.row(place)[at] != 0;
        let slot = used.iter().position(holds).expect("some raw equation holds the column");
        let place = used[slot];
        let unit = gf256::inv(self.raw_coefficients.row(place)[at]);
        for &other in used {
            let factor = gf256::mul(self.raw_coefficients.row(other)[at], unit);
            if other != place && factor != 0 {
                let (target, source) = self.raw_coefficients.row_mut_and_row(other, place);
                self.kernel.gather(target, source, source.len(), &[factor], self.lines);
                let (other_raw, raw) = (self.columns + other, self.columns + place);
                let (target, source) = self.payloads.row_mut_and_row(other_raw, raw);
                self.kernel.mul_add(target, source, factor);
                self.raw_lines[other] = self.raw_lines[other].max(self.raw_lines[place]);
            }
        }
        slot
    }

    /// Frees a row, and a slot that no other row is made of.
    fn release(&mut self, row: usize, slot: usize) {
        let last = self.count - 1;
        if row != last {
            let (to, from) = self.rows.row_mut_and_row(row, last);
            self.lines.copy(to, from);
            self.pivots[row] = self.pivots[last];
            self.witness[row] = self.witness[last];
        }
        self.place.swap(slot, last);
        for row in 0..last {
            let made_of = self.rows.row_mut(row);
            made_of[slot] = core::mem::take(&mut made_of[last]);
        }
        self.count = last;
        if last == 0 {
            self.release_all();
        }
    }

    fn release_all(&mut self) {
        self.count = 0;
        self.lines.clear();
        self.ready.clear();
    }
}

/// No witness: a byte before the columns, where nothing is unknown.
const NONE: usize = 0;

/// Returns how many cache lines a payload takes.
fn lines_of(payload: &[u8]) -> u16 {
    payload.len().div_ceil(LINE) as u16
}

/// Reads the word of a row that a byte stands in.
fn word(row: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(row.as_chunks::<WORD>().0[at / WORD])
}
