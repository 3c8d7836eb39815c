//! The linear algebra below both decoders: what a repair symbol tells, and when it tells enough.
//!
//! ```text
//! raw[j]  = Σ_c C[j, c] · x[c]                     repair symbol j as it came, over columns c (symbols)
//! row[i]  = Σ_j T[i, j] · raw[j] = Σ_unknown c R[i, c] · x[c] + (known part)
//! ```
//!
//! `R` is kept in reduced row-echelon form over the columns that are still unknown, pivots leftmost
//! in the order of the source. `T` remembers how each row came about. Payloads are left alone until
//! a row has a single unknown: then its symbol is Σ_j T[i, j]·raw[j] − Σ_known c (T·C)[i, c]·x[c], one
//! fused pass over the bytes for up to four such rows at a time. A repair symbol that turns out
//! to be redundant never costs more than its coefficients.
//!
//! Columns are used in a ring by the window decoder: the owner says where the order starts.
//!
//! Bounds: a call handles at most `slots` rows of `columns + slots` bytes each, and a payload is
//! touched once for each symbol that is decoded, given up or leaves the ring.

use crate::gf256::{self, Kernel, Rows};
use crate::outcome::Outcome;
use crate::slab::{LINE, Slab};

/// Rows that are decoded in one pass over their sources: what the registers hold.
const FUSED: usize = 4;
/// Source rows that are handed to the kernel at a time: many enough that the sums are seldom written
/// between, few enough that the list is quickly cleared.
const CHUNK: usize = 32;

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
#[derive(Clone, Debug)]
pub(crate) struct Elimination {
    kernel: Kernel,
    columns: usize,
    column: Vec<Column>,
    /// 0xff where the column is unknown, else 0; as long as a row of `rows`.
    unknown: Vec<u8>,
    /// Bytes of each known symbol; the rest of its row is zero.
    symbol_bytes: Vec<usize>,
    symbols: Slab,
    raw: Slab,
    raw_bytes: Vec<usize>,
    /// C: one row for each slot of `raw`.
    raw_coefficients: Slab,
    used_slots: Vec<usize>,
    free_slots: Vec<usize>,
    /// R and T side by side: `columns` bytes, then one byte for each slot, then zeros.
    rows: Slab,
    /// For each row a column that keeps it from being ready, as far as was known when last looked.
    witness: Vec<usize>,
    /// The pivot column of each row.
    pivots: Vec<usize>,
    used_rows: Vec<usize>,
    free_rows: Vec<usize>,
    is_pivot: Vec<bool>,
    /// Row 0: the coefficients of the symbol that is coming in; row 1: what remains of them, and T.
    incoming: Slab,
    /// T·C of the rows that are being decoded.
    combined: Slab,
    decoded: Slab,
    /// Rows whose coefficients changed in this call.
    touched: Vec<usize>,
    /// Rows with a single unknown.
    ready: Vec<usize>,
    /// Known columns that raw equations speak of, while rows are decoded.
    spoken_of: Vec<usize>,
    /// Columns that became known by elimination since the owner last looked.
    recovered: Vec<usize>,
}

impl Elimination {
    /// Makes room for `columns` symbols and `slots` repair symbols.
    pub(crate) fn new(columns: usize, slots: usize, symbol_bytes: usize) -> Self {
        // Whole lines, so that no operation on coefficients has a rest.
        let row_bytes = (columns + slots).next_multiple_of(LINE);
        let mut unknown = vec![0; row_bytes];
        unknown[..columns].fill(0xff);
        Self {
            kernel: Kernel::detect(),
            columns,
            column: vec![Column::Unknown; columns],
            unknown,
            symbol_bytes: vec![0; columns],
            symbols: Slab::new(columns, symbol_bytes),
            raw: Slab::new(slots, symbol_bytes),
            raw_bytes: vec![0; slots],
            raw_coefficients: Slab::new(slots, columns.next_multiple_of(LINE)),
            used_slots: Vec::with_capacity(slots),
            free_slots: (0..slots).rev().collect(),
            rows: Slab::new(slots, row_bytes),
            witness: vec![0; slots],
            pivots: vec![0; slots],
            used_rows: Vec::with_capacity(slots),
            free_rows: (0..slots).rev().collect(),
            is_pivot: vec![false; columns],
            incoming: Slab::new(2, row_bytes),
            combined: Slab::new(FUSED, columns.next_multiple_of(LINE)),
            decoded: Slab::new(FUSED, symbol_bytes),
            touched: Vec::with_capacity(slots),
            ready: Vec::with_capacity(slots),
            spoken_of: Vec::with_capacity(columns),
            recovered: Vec::with_capacity(columns),
        }
    }

    /// Forgets everything but keeps the memory.
    pub(crate) fn reset(&mut self) {
        self.column.fill(Column::Unknown);
        self.unknown[..self.columns].fill(0xff);
        self.is_pivot.fill(false);
        self.free_slots.append(&mut self.used_slots);
        self.free_rows.append(&mut self.used_rows);
        self.recovered.clear();
    }

    /// Says what is known about a column.
    pub(crate) fn column(&self, column: usize) -> Column {
        self.column[column]
    }

    /// Says whether an equation leads with this column.
    pub(crate) fn is_pivot(&self, column: usize) -> bool {
        self.is_pivot[column]
    }

    /// Returns a known symbol, padded with zeros.
    pub(crate) fn symbol(&self, column: usize) -> Option<&[u8]> {
        (self.column[column] == Column::Known).then(|| self.symbols.row(column))
    }

    /// Says whether any column of a range is unknown.
    pub(crate) fn any_unknown(&self, columns: core::ops::Range<usize>) -> bool {
        self.unknown[columns].iter().fold(0, |any, mask| any | mask) != 0
    }

    /// Lends the coefficients of the next equation, one for each column, for the owner to fill.
    pub(crate) fn incoming_mut(&mut self) -> &mut [u8] {
        &mut self.incoming.row_mut(0)[..self.columns]
    }

    /// Takes the next column that elimination made known.
    pub(crate) fn poll_recovered(&mut self) -> Option<usize> {
        self.recovered.pop()
    }

    /// Takes a symbol as it is. The column must be unknown, the symbol not too long.
    pub(crate) fn learn(&mut self, column: usize, symbol: &[u8], origin: usize) {
        self.symbols.store(column, symbol);
        self.set_known(column, symbol.len());
        if !self.used_rows.is_empty() {
            self.drop_column(column, origin);
            self.decode_ready();
        }
    }

    /// Takes an equation whose coefficients stand in [`Elimination::incoming_mut`]; none of them may
    /// belong to a column that was given up. `origin` is the first column in the source's order.
    pub(crate) fn insert(&mut self, payload: &[u8], origin: usize) -> Outcome {
        let Some(&slot) = self.free_slots.last() else { return Outcome::Full };
        self.reduce_incoming(slot);
        let Some(pivot) = self.leading(self.incoming.row(1), origin) else {
            return Outcome::Redundant;
        };
        let row = self.free_rows.pop().expect("as many rows as slots");
        self.free_slots.pop();
        self.used_slots.push(slot);
        self.raw.store(slot, payload);
        self.raw_bytes[slot] = payload.len();
        let coefficients = &self.incoming.row(0)[..self.columns];
        self.raw_coefficients.row_mut(slot)[..self.columns].copy_from_slice(coefficients);
        self.rows.row_mut(row).copy_from_slice(self.incoming.row(1));
        self.touched.clear();
        self.witness[row] = pivot;
        self.lead_with(row, pivot);
        self.used_rows.push(row);
        self.touched.push(row);
        self.find_ready();
        self.decode_ready();
        Outcome::Innovative
    }

    /// Declares that an unknown column will never be known: equations that hold it are combined so
    /// that one of them takes it along.
    pub(crate) fn give_up(&mut self, column: usize, origin: usize) {
        let order = |column: usize| (column + self.columns - origin) % self.columns;
        let last = self.used_rows.iter().copied().filter(|&row| self.rows.row(row)[column] != 0);
        if let Some(row) = last.max_by_key(|&row| order(self.pivots[row])) {
            self.is_pivot[self.pivots[row]] = false;
            let factor = gf256::inv(self.rows.row(row)[column]);
            self.kernel.scale(self.rows.row_mut(row), factor);
            self.eliminate(column, row);
            let slot = self.eliminate_raw(column);
            for &other in &self.used_rows {
                self.rows.row_mut(other)[self.columns + slot] = 0;
            }
            self.release(row, slot);
        }
        self.column[column] = Column::GivenUp;
        self.unknown[column] = 0;
    }

    /// Makes a column that is known or given up ready for another symbol.
    pub(crate) fn forget(&mut self, column: usize) {
        for &slot in &self.used_slots {
            let c = core::mem::take(&mut self.raw_coefficients.row_mut(slot)[column]);
            if c != 0 {
                // What the equation says of this symbol is taken out while the symbol is still there.
                let bytes = self.raw_bytes[slot].max(self.symbol_bytes[column]);
                self.raw_bytes[slot] = bytes;
                let symbol = &self.symbols.row(column)[..bytes];
                self.kernel.mul_add(&mut self.raw.row_mut(slot)[..bytes], symbol, c);
            }
        }
        self.column[column] = Column::Unknown;
        self.unknown[column] = 0xff;
    }

    fn set_known(&mut self, column: usize, bytes: usize) {
        self.column[column] = Column::Known;
        self.unknown[column] = 0;
        self.symbol_bytes[column] = bytes;
    }

    /// Writes to row 1 of `incoming` what the equation in row 0 says beyond the rows held.
    fn reduce_incoming(&mut self, slot: usize) {
        let (reduced, given) = self.incoming.row_mut_and_row(1, 0);
        for ((to, &from), &mask) in reduced.iter_mut().zip(given).zip(&self.unknown) {
            *to = from & mask;
        }
        if !self.used_rows.is_empty() {
            let mut chunk = Chunk::adding();
            for &row in &self.used_rows {
                // Rows are zero at each other's pivots: the factors stay what they are meanwhile.
                let factors = [reduced[self.pivots[row]], 0, 0, 0];
                chunk.push(self.rows.row(row), factors, self.kernel, &mut [&mut *reduced]);
            }
            chunk.finish(self.kernel, &mut [reduced]);
        }
        self.incoming.row_mut(1)[self.columns + slot] = 1;
    }

    /// Finds the first unknown column of an equation in the source's order.
    fn leading(&self, row: &[u8], origin: usize) -> Option<usize> {
        let (wrapped, first) = row[..self.columns].split_at(origin);
        first_nonzero(first).map(|at| at + origin).or_else(|| first_nonzero(wrapped))
    }

    /// Makes `pivot` the pivot of `row` and takes it out of all other rows.
    fn lead_with(&mut self, row: usize, pivot: usize) {
        let factor = gf256::inv(self.rows.row(row)[pivot]);
        if factor != 1 {
            self.kernel.scale(self.rows.row_mut(row), factor);
        }
        self.pivots[row] = pivot;
        self.is_pivot[pivot] = true;
        self.eliminate(pivot, row);
    }

    /// Subtracts `row`, which has a one at `column`, from all other rows that are not zero there.
    fn eliminate(&mut self, column: usize, row: usize) {
        for &other in &self.used_rows {
            let factor = self.rows.row(other)[column];
            if other != row && factor != 0 {
                let (target, source) = self.rows.row_mut_and_row(other, row);
                self.kernel.mul_add(target, source, factor);
                self.touched.push(other);
            }
        }
    }

    /// Takes a column that became known out of all rows.
    fn drop_column(&mut self, column: usize, origin: usize) {
        self.touched.clear();
        let mut headless = None;
        for &row in &self.used_rows {
            let c = core::mem::take(&mut self.rows.row_mut(row)[column]);
            if c != 0 {
                self.touched.push(row);
                if self.pivots[row] == column {
                    headless = Some(row);
                }
            }
        }
        if let Some(row) = headless {
            self.is_pivot[column] = false;
            match self.leading(self.rows.row(row), origin) {
                Some(pivot) => self.lead_with(row, pivot),
                None => {
                    // All of it was known: the symbol that came was the one this row was for.
                    self.touched.retain(|&other| other != row);
                    self.spend(row);
                }
            }
        }
        self.find_ready();
    }

    /// Collects the touched rows that have a single unknown left.
    fn find_ready(&mut self) {
        self.ready.clear();
        for &row in &self.touched {
            let (pivot, witness) = (self.pivots[row], self.witness[row]);
            let coefficients = &self.rows.row(row)[..self.columns];
            if witness != pivot && coefficients[witness] != 0 {
                continue;
            }
            let (before, rest) = coefficients.split_at(pivot);
            // The last one: pivots come from the left, so that it stays the longest.
            let last = last_nonzero(&rest[1..]).map(|at| pivot + 1 + at);
            match last.or_else(|| last_nonzero(before)) {
                Some(column) => self.witness[row] = column,
                None if !self.ready.contains(&row) => self.ready.push(row),
                None => {}
            }
        }
    }

    /// Computes the symbols of the rows that have a single unknown each, and spends the rows.
    fn decode_ready(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        self.find_spoken_of();
        for first in (0..self.ready.len()).step_by(FUSED) {
            let count = (self.ready.len() - first).min(FUSED);
            let mut rows = [0; FUSED];
            rows[..count].copy_from_slice(&self.ready[first..first + count]);
            self.decode(&rows[..count]);
        }
        for at in 0..self.ready.len() {
            let pivot = self.pivots[self.ready[at]];
            self.is_pivot[pivot] = false;
            self.recovered.push(pivot);
            self.column[pivot] = Column::Known;
            self.unknown[pivot] = 0;
            self.rows.row_mut(self.ready[at])[pivot] = 0;
        }
        if self.ready.len() == self.used_rows.len() {
            // Nothing is left to be untangled: the usual end of a burst of losses, and of a block.
            self.free_rows.append(&mut self.used_rows);
            self.free_slots.append(&mut self.used_slots);
        } else {
            (0..self.ready.len()).for_each(|at| self.spend(self.ready[at]));
        }
    }

    /// Lists the known columns with a part in any raw equation.
    fn find_spoken_of(&mut self) {
        let any = self.combined.row_mut(0);
        any.fill(0);
        for &slot in &self.used_slots {
            any.iter_mut().zip(self.raw_coefficients.row(slot)).for_each(|(any, c)| *any |= c);
        }
        any.iter_mut().zip(&self.unknown).for_each(|(any, unknown)| *any &= !unknown);
        self.spoken_of.clear();
        for (word, eight) in any.as_chunks::<8>().0.iter().enumerate() {
            // Most of a window is not spoken of: eight columns at a time.
            let mut left = u64::from_le_bytes(*eight);
            while left != 0 {
                let byte = left.trailing_zeros() as usize / 8;
                self.spoken_of.push(word * 8 + byte);
                left &= !(0xff << (8 * byte));
            }
        }
    }

    /// Computes the symbols of up to four rows.
    fn decode(&mut self, rows: &[usize]) {
        let slots = self.used_slots.iter().map(|&slot| self.raw_bytes[slot]);
        let symbols = self.spoken_of.iter().map(|&column| self.symbol_bytes[column]);
        let bytes = slots.chain(symbols).max().unwrap_or(0);
        if self.spoken_of.is_empty() {
            self.combine_raw(rows, bytes);
            for &row in rows {
                self.symbols.row_mut(self.pivots[row])[bytes..].fill(0);
            }
        } else {
            self.combine_coefficients(rows);
            self.combine_raw_and_known(rows, bytes);
            for (at, &row) in rows.iter().enumerate() {
                self.symbols.store(self.pivots[row], &self.decoded.row(at)[..bytes]);
            }
        }
        rows.iter().for_each(|&row| self.symbol_bytes[self.pivots[row]] = bytes);
    }

    /// Computes T·C for the rows, into `combined`.
    fn combine_coefficients(&mut self, rows: &[usize]) {
        let mut dsts = self.combined.four_mut(&[0, 1, 2, 3], self.columns.next_multiple_of(LINE));
        let dsts = &mut dsts[..rows.len()];
        let made_of = four(&self.rows, rows);
        let mut chunk = Chunk::new();
        for &slot in &self.used_slots {
            let factors = made_of.map(|row| row[self.columns + slot]);
            chunk.push(self.raw_coefficients.row(slot), factors, self.kernel, dsts);
        }
        chunk.finish(self.kernel, dsts);
    }

    /// Computes the payloads of rows that no known symbol has a part in, in place.
    fn combine_raw(&mut self, rows: &[usize], bytes: usize) {
        let pivots: [usize; FUSED] =
            core::array::from_fn(|at| rows.get(at).map_or(0, |&row| self.pivots[row]));
        let mut dsts = self.symbols.four_mut(&pivots[..rows.len()], bytes);
        let dsts = &mut dsts[..rows.len()];
        let made_of = four(&self.rows, rows);
        let mut chunk = Chunk::new();
        for &slot in &self.used_slots {
            let factors = made_of.map(|row| row[self.columns + slot]);
            chunk.push(self.raw.row(slot), factors, self.kernel, dsts);
        }
        chunk.finish(self.kernel, dsts);
    }

    /// Computes the payloads of rows with `combined`, into `decoded`.
    fn combine_raw_and_known(&mut self, rows: &[usize], bytes: usize) {
        let mut dsts = self.decoded.four_mut(&[0, 1, 2, 3], bytes);
        let dsts = &mut dsts[..rows.len()];
        let made_of = four(&self.rows, rows);
        let mut chunk = Chunk::new();
        for &slot in &self.used_slots {
            let factors = made_of.map(|row| row[self.columns + slot]);
            chunk.push(self.raw.row(slot), factors, self.kernel, dsts);
        }
        let combined: [&[u8]; FUSED] = core::array::from_fn(|at| self.combined.row(at));
        for &column in &self.spoken_of {
            let factors = combined.map(|row| row[column]);
            chunk.push(self.symbols.row(column), factors, self.kernel, dsts);
        }
        chunk.finish(self.kernel, dsts);
    }

    /// Gives back a row that has no unknown left, and one slot that it is made of: with this row's
    /// help the others do without that slot.
    fn spend(&mut self, row: usize) {
        let slots = &self.rows.row(row)[self.columns..];
        let slot = first_nonzero(slots).expect("T has full rank");
        let unit = gf256::inv(slots[slot]);
        for &other in &self.used_rows {
            let factor = gf256::mul(self.rows.row(other)[self.columns + slot], unit);
            if other != row && factor != 0 {
                let (target, source) = self.rows.row_mut_and_row(other, row);
                self.kernel.mul_add(target, source, factor);
            }
        }
        self.release(row, slot);
    }

    /// Takes a column out of all raw equations but one, whose slot is returned.
    fn eliminate_raw(&mut self, column: usize) -> usize {
        let holds = |slot: &&usize| self.raw_coefficients.row(**slot)[column] != 0;
        let slot = *self.used_slots.iter().find(holds).expect("some raw equation holds the column");
        let unit = gf256::inv(self.raw_coefficients.row(slot)[column]);
        for &other in &self.used_slots {
            let factor = gf256::mul(self.raw_coefficients.row(other)[column], unit);
            if other != slot && factor != 0 {
                let (target, source) = self.raw_coefficients.row_mut_and_row(other, slot);
                self.kernel.mul_add(target, source, factor);
                let (target, source) = self.raw.row_mut_and_row(other, slot);
                self.kernel.mul_add(target, source, factor);
                self.raw_bytes[other] = self.raw_bytes[other].max(self.raw_bytes[slot]);
            }
        }
        slot
    }

    fn release(&mut self, row: usize, slot: usize) {
        self.used_rows.retain(|&used| used != row);
        self.used_slots.retain(|&used| used != slot);
        self.free_rows.push(row);
        self.free_slots.push(slot);
    }
}

/// Lends four rows; where fewer are given, the last again, for destinations that are not there.
fn four<'a>(slab: &'a Slab, rows: &[usize]) -> [&'a [u8]; FUSED] {
    core::array::from_fn(|at| slab.row(rows[at.min(rows.len() - 1)]))
}

/// Finds the last byte that is not zero.
fn last_nonzero(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|&byte| byte != 0)
}

/// Finds the first byte that is not zero.
fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    const STEP: usize = 32;
    let skipped = bytes
        .chunks_exact(STEP)
        .take_while(|part| part.iter().fold(0, |any, byte| any | byte) == 0)
        .count();
    let rest = &bytes[skipped * STEP..];
    rest.iter().position(|&byte| byte != 0).map(|at| skipped * STEP + at)
}

/// Source rows and their coefficients, gathered for one call of the kernel without allocating.
struct Chunk<'a> {
    sources: [&'a [u8]; CHUNK],
    coefficients: [u8; CHUNK * FUSED],
    count: usize,
    /// Whether the destinations hold sums of earlier sources.
    add: bool,
}

impl<'a> Chunk<'a> {
    /// Begins sums: what the destinations hold is overwritten.
    fn new() -> Self {
        Self { sources: [&[]; CHUNK], coefficients: [0; CHUNK * FUSED], count: 0, add: false }
    }

    /// Begins with what the destinations hold.
    fn adding() -> Self {
        Self { add: true, ..Self::new() }
    }

    /// Adds a source with one coefficient for each destination; one that adds nothing is left out.
    #[inline]
    fn push(
        &mut self,
        source: &'a [u8],
        factors: [u8; FUSED],
        kernel: Kernel,
        dsts: &mut [&mut [u8]],
    ) {
        if factors != [0; FUSED] {
            if self.count == CHUNK {
                self.flush(kernel, dsts);
            }
            self.sources[self.count] = source;
            self.coefficients.as_chunks_mut().0[self.count] = factors;
            self.count += 1;
        }
    }

    fn finish(mut self, kernel: Kernel, dsts: &mut [&mut [u8]]) {
        if self.count > 0 || !self.add {
            self.flush(kernel, dsts);
        }
    }

    fn flush(&mut self, kernel: Kernel, dsts: &mut [&mut [u8]]) {
        let sources = &self.sources[..self.count];
        let coefficients = &self.coefficients[..self.count * FUSED];
        kernel.run(dsts, Rows { sources, coefficients, stride: FUSED, add: self.add });
        (self.count, self.add) = (0, true);
    }
}
