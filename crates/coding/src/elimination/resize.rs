//! The same equations in other memory: the ring of a window's columns grows and shrinks.
//!
//! ```text
//! column of id = id mod columns        the ids that are kept lie in one piece or two in either ring
//! ```

use core::ops::Range;

use super::{Column, Elimination, NONE};
use crate::slab::Slab;

/// Bytes of what is kept of each column and of each repair symbol beside symbols and coefficients.
const BESIDE: usize = 32;

impl Elimination {
    /// Returns about how many bytes [`Elimination::new`] takes.
    pub(crate) fn bytes(columns: usize, slots: usize, symbol_bytes: usize) -> usize {
        let coefficients = Slab::bytes(2 * slots + 1, slots + columns);
        Slab::bytes(columns + slots, symbol_bytes) + coefficients + BESIDE * (columns + slots)
    }

    /// Returns how many repair symbols there is room for.
    pub(crate) fn slots(&self) -> usize {
        self.place.len()
    }

    /// Changes how many columns and repair symbols there is room for. Of the columns, which are a
    /// ring before and after, those of `ids` are kept; no equation speaks of another. Nothing waits
    /// in [`Elimination::poll_recovered`].
    pub(crate) fn resize(&mut self, columns: usize, slots: usize, ids: Range<u64>) {
        let mut to = Self::new(columns, slots, self.payloads.row_bytes());
        for (from, at, len) in pieces(ids.clone(), self.columns, columns) {
            to.take_columns(self, from, at, len);
        }
        let column = |byte: usize| {
            let ahead = (byte - self.first).wrapping_sub(ids.start as usize) & (self.columns - 1);
            (ids.start as usize + ahead) & (columns - 1)
        };
        let mut whole = vec![0; self.unknown.len()];
        for slot in 0..self.count {
            let place = self.place[slot];
            let payload = self.payloads.row(self.columns + place);
            to.payloads.row_mut(columns + slot).copy_from_slice(payload);
            to.raw_lines[slot] = self.raw_lines[place];
            let (raw, row) = (self.raw_coefficients.row(place), self.rows.row(slot));
            for (from, to_rows) in [(raw, &mut to.raw_coefficients), (row, &mut to.rows)] {
                whole.fill(0);
                self.lines.copy(&mut whole, from);
                let row = to_rows.row_mut(slot);
                row[..self.count].copy_from_slice(&whole[..self.count]);
                for (from, at, len) in pieces(ids.clone(), self.columns, columns) {
                    let coefficients = &whole[self.first + from..][..len];
                    row[to.first + at..][..len].copy_from_slice(coefficients);
                }
                to.lines.insert_used(row);
            }
            to.pivots[slot] = to.first + column(self.pivots[slot]);
            let witness = self.witness[slot];
            to.witness[slot] = if witness == NONE { NONE } else { to.first + column(witness) };
        }
        (to.count, to.spent) = (self.count, self.spent);
        *self = to;
    }

    /// Takes over what another knows of `len` columns.
    fn take_columns(&mut self, other: &Self, from: usize, at: usize, len: usize) {
        self.column[at..at + len].copy_from_slice(&other.column[from..from + len]);
        let lines = &other.symbol_lines[from..from + len];
        self.symbol_lines[at..at + len].copy_from_slice(lines);
        let (from_byte, byte) = (other.first + from, self.first + at);
        self.unknown[byte..byte + len].copy_from_slice(&other.unknown[from_byte..from_byte + len]);
        self.free[byte..byte + len].copy_from_slice(&other.free[from_byte..from_byte + len]);
        for column in (0..len).filter(|column| other.column[from + column] == Column::Known) {
            self.payloads.row_mut(at + column).copy_from_slice(other.payloads.row(from + column));
        }
    }
}

/// Splits a range of ids into pieces that lie together both in a ring of `old` columns and in one
/// of `new`: where they begin in the one and in the other, and how long they are. The sizes are
/// powers of two.
fn pieces(ids: Range<u64>, old: usize, new: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let least = old.min(new) as u64;
    let mut next = ids.start;
    core::iter::from_fn(move || {
        let first = next;
        next = ids.end.min((first / least + 1) * least);
        let place = |ring: usize| first as usize & (ring - 1);
        (first < next).then(|| (place(old), place(new), (next - first) as usize))
    })
}
