//! Rows of equal length in one allocation, each on a cache line of its own.
//!
//! A row that starts in the middle of a line costs a kernel a third of its speed, so rows start at
//! multiples of 64 bytes and the stride is rounded up to that. The gap between one row and the next
//! is never read.

use core::ops::Range;

use crate::gf256::{Kernel, LINE, Rows, Strided};

/// Rows whose coefficients are drawn at a time.
const CHUNK: usize = 64;

/// Holds `rows` rows of `row_bytes` bytes, zero at first.
#[derive(Debug)]
pub(crate) struct Slab {
    bytes: Vec<u8>,
    /// Bytes before the first row, so that it starts on a line.
    offset: usize,
    stride: usize,
    row_bytes: usize,
    rows: usize,
}

impl Slab {
    pub(crate) fn new(rows: usize, row_bytes: usize) -> Self {
        let stride = row_bytes.next_multiple_of(LINE);
        let bytes = vec![0; Self::bytes(rows, row_bytes)];
        // A Vec that is never resized never moves, so the offset holds.
        let offset = (LINE - bytes.as_ptr().addr() % LINE) % LINE;
        Self { bytes, offset, stride, row_bytes, rows }
    }

    /// Returns how many bytes [`Slab::new`] takes.
    pub(crate) fn bytes(rows: usize, row_bytes: usize) -> usize {
        rows * row_bytes.next_multiple_of(LINE) + LINE
    }

    /// Returns how many bytes a row has.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    pub(crate) fn row(&self, row: usize) -> &[u8] {
        let start = self.offset + row * self.stride;
        &self.bytes[start..start + self.row_bytes]
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [u8] {
        let start = self.offset + row * self.stride;
        &mut self.bytes[start..start + self.row_bytes]
    }

    /// Appends to `out` the first `bytes` bytes of a combination of the rows of two ranges;
    /// `draw(at, to)` writes the coefficients of the rows from the `at`th on.
    pub(crate) fn combine(
        &self,
        kernel: Kernel,
        ranges: [Range<usize>; 2],
        draw: impl Fn(usize, &mut [u8]),
        bytes: usize,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.resize(start + bytes, 0);
        let mut drawn = 0;
        for range in ranges {
            for first in range.clone().step_by(CHUNK) {
                let count = (range.end - first).min(CHUNK);
                let mut coefficients = [0; CHUNK];
                draw(drawn, &mut coefficients[..count]);
                let slab = &self.bytes[self.offset + first * self.stride..];
                let sources = Strided { slab, stride: self.stride, count };
                let coefficients = &coefficients[..count];
                let rows = Rows { sources, coefficients, stride: 1, across: 1, add: drawn > 0 };
                kernel.run_strided(&mut [&mut out[start..]], rows);
                drawn += count;
            }
        }
    }

    /// Lends one row for writing and another for reading.
    pub(crate) fn row_mut_and_row(&mut self, write: usize, read: usize) -> (&mut [u8], &[u8]) {
        assert!(write != read, "a row cannot be read while it is written");
        let (stride, row_bytes) = (self.stride, self.row_bytes);
        let rows = &mut self.bytes[self.offset..];
        let (low, high) = rows.split_at_mut(write.max(read) * stride);
        let (high, low) =
            (&mut high[..row_bytes], &mut low[write.min(read) * stride..][..row_bytes]);
        if write > read { (high, low) } else { (low, high) }
    }

    /// Returns how many bytes of a row lie in its first `lines` cache lines.
    pub(crate) fn bytes_in(&self, lines: u16) -> usize {
        (usize::from(lines) * LINE).min(self.row_bytes)
    }

    /// Returns how many bytes lie between the beginnings of two rows.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Lends all rows, with the stride between them.
    pub(crate) fn matrix(&self) -> (&[u8], usize) {
        (&self.bytes[self.offset..], self.stride)
    }

    /// The same for writing.
    pub(crate) fn matrix_mut(&mut self) -> (&mut [u8], usize) {
        (&mut self.bytes[self.offset..], self.stride)
    }

    /// Copies `symbol` into a row and fills the rest with zeros. `symbol` is at most a row long.
    pub(crate) fn store(&mut self, row: usize, symbol: &[u8]) {
        let (start, rest) = self.row_mut(row).split_at_mut(symbol.len());
        start.copy_from_slice(symbol);
        if !rest.is_empty() {
            rest.fill(0);
        }
    }
}

impl Clone for Slab {
    fn clone(&self) -> Self {
        // The copy lies elsewhere in memory: its rows must be aligned anew.
        let mut copy = Self::new(self.rows, self.row_bytes);
        for row in 0..self.rows {
            copy.row_mut(row).copy_from_slice(self.row(row));
        }
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_start_on_lines_in_copies_too() {
        for row_bytes in [1, 63, 64, 65, 1_400] {
            let mut slab = Slab::new(3, row_bytes);
            slab.store(1, &[7]);
            let copy = slab.clone();
            for slab in [&slab, &copy] {
                assert!((0..3).all(|row| slab.row(row).as_ptr().addr() % LINE == 0));
                assert_eq!(slab.row(1)[0], 7);
                assert_eq!(slab.row(2).len(), row_bytes);
            }
        }
    }

    #[test]
    fn two_rows_at_once_are_the_ones_asked_for() {
        let mut slab = Slab::new(4, 5);
        for row in 0..4 {
            slab.store(row, &[row as u8; 5]);
        }
        for (write, read) in [(0, 3), (3, 0), (1, 2)] {
            let (w, r) = slab.row_mut_and_row(write, read);
            assert_eq!((w[0], r[0]), (write as u8, read as u8));
        }
    }
}
