//! Rows of coefficients: short, many, and most of their lines empty.
//!
//! ```text
//! gather:   row        ← row + Σ_i factor[i] · matrix[i]       what is left of an equation
//! scatter:  matrix[i]  ← matrix[i] + factor[i] · matrix[row]   a pivot leaves all equations
//! ```
//!
//! The loop over lines stands outside: a line of the one row is loaded, split or stored once for all rows of
//! the matrix.

use super::product::{Product, Vector};
use crate::slab::LINE;

/// Says which lines of a row are to be looked at; iterates over where they begin.
///
/// In rows of more than 64 lines it speaks of several lines at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    bits: u64,
    /// The logarithm of the bytes that a bit stands for.
    shift: u32,
}

impl Lines {
    /// None of the lines of a row that holds `bytes` bytes.
    pub(crate) fn none(bytes: usize) -> Self {
        let most = bytes.div_ceil(u64::BITS as usize).next_power_of_two();
        Self { bits: 0, shift: most.max(LINE).trailing_zeros() }
    }

    /// Takes all away.
    pub(crate) fn clear(&mut self) {
        self.bits = 0;
    }

    /// Adds the line of a byte.
    pub(crate) fn insert(&mut self, byte: usize) {
        self.bits |= 1 << (byte >> self.shift);
    }

    /// Takes the line of a byte away.
    pub(crate) fn remove(&mut self, byte: usize) {
        self.bits &= !(1 << (byte >> self.shift));
    }

    /// Says whether the line of a byte is among them.
    pub(crate) fn contain(self, byte: usize) -> bool {
        self.bits >> (byte >> self.shift) & 1 != 0
    }

    /// Returns the bytes that it counts as one line: a multiple of a cache line.
    #[inline(always)]
    pub(crate) fn bytes(self) -> usize {
        1 << self.shift
    }

    /// Copies these lines of a row.
    pub(crate) fn copy(self, to: &mut [u8], from: &[u8]) {
        for line in self {
            for at in (line..line + self.bytes()).step_by(LINE) {
                to[at..at + LINE].copy_from_slice(&from[at..at + LINE]);
            }
        }
    }

    /// Returns the bytes of a row up to the end of the last line.
    pub(super) fn end(self) -> usize {
        ((u64::BITS - self.bits.leading_zeros()) as usize) << self.shift
    }
}

impl Iterator for Lines {
    type Item = usize;

    /// The first byte of the next line.
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.bits == 0 {
            return None;
        }
        let line = self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(line << self.shift)
    }
}

/// Adds to `to` the rows of a matrix, each times its factor.
///
/// # Safety
///
/// The processor has the instructions of `P`; `to` has the lines, `from` a row of `stride` bytes for each
/// factor, and `stride` covers the lines.
#[inline(always)]
pub(super) unsafe fn gather<P: Product>(
    to: &mut [u8],
    from: &[u8],
    stride: usize,
    factors: &[u8],
    lines: Lines,
) {
    let (to, from) = (to.as_mut_ptr(), from.as_ptr());
    // No `for` over the iterator: a function of its own has not got the instructions.
    let mut lines = lines;
    // SAFETY: lines and rows are where the caller says.
    unsafe {
        while let Some(line) = lines.next() {
            let mut at = line;
            while at < line + lines.bytes() {
                let mut sum = P::Vector::load(to.add(at));
                let mut source = from.add(at);
                let mut i = 0;
                while i < factors.len() {
                    let split = P::split(P::Vector::load(source));
                    sum = P::mul_add(sum, split, P::factor(*factors.as_ptr().add(i)));
                    source = source.wrapping_add(stride);
                    i += 1;
                }
                sum.store(to.add(at));
                at += P::Vector::BYTES;
            }
        }
    }
}

/// Adds row `row` of a matrix to all its rows, times the factor of each.
///
/// # Safety
///
/// The processor has the instructions of `P`; the matrix has a row of `stride` bytes for each factor, and
/// a row `row`; `stride` covers the lines.
#[inline(always)]
pub(super) unsafe fn scatter<P: Product>(
    matrix: &mut [u8],
    stride: usize,
    row: usize,
    factors: &[u8],
    lines: Lines,
) {
    let to = matrix.as_mut_ptr();
    let mut lines = lines;
    // SAFETY: lines and rows are where the caller says.
    unsafe {
        while let Some(line) = lines.next() {
            let mut at = line;
            while at < line + lines.bytes() {
                // Read before the row itself is written.
                let split = P::split(P::Vector::load(to.add(row * stride + at)));
                let mut target = to.add(at);
                let mut i = 0;
                while i < factors.len() {
                    let sum = P::Vector::load(target);
                    P::mul_add(sum, split, P::factor(*factors.as_ptr().add(i))).store(target);
                    target = target.wrapping_add(stride);
                    i += 1;
                }
                at += P::Vector::BYTES;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kernel;
    use super::*;
    use crate::CoefficientKey;
    use crate::slab::Slab;

    const ROWS: usize = 7;

    /// A matrix of arbitrary coefficients, and lines of its rows.
    fn matrix(row_bytes: usize, drawn: &[usize]) -> (Slab, Lines) {
        let mut lines = Lines::none(row_bytes);
        drawn.iter().for_each(|&at| lines.insert(at % row_bytes));
        let mut slab = Slab::new(ROWS, row_bytes.next_multiple_of(lines.bytes()));
        let key = CoefficientKey::new(row_bytes as u64);
        (0..ROWS).for_each(|row| key.fill_uniform(row as u64, 0, slab.row_mut(row)));
        (slab, lines)
    }

    #[test]
    fn every_kernel_treats_matrices_as_the_scalar_one_does() {
        let scalar = Kernel::named("scalar").expect("is everywhere");
        for (row_bytes, drawn) in
            [(40, &[0][..]), (128, &[100]), (320, &[0, 70, 300]), (8_192, &[130, 4_000, 8_191])]
        {
            for kernel in Kernel::available() {
                let (mut ours, lines) = matrix(row_bytes, drawn);
                let mut theirs = ours.clone();
                for (kernel, slab) in [(kernel, &mut ours), (scalar, &mut theirs)] {
                    let (bytes, stride) = slab.matrix_mut();
                    let (rows, last) = bytes.split_at_mut((ROWS - 1) * stride);
                    kernel.gather(last, rows, stride, &[3, 0, 1, 255, 7], lines);
                    kernel.scatter(bytes, stride, 4, &[9, 0, 1, 2, 254, 6, 5], lines);
                }
                let equal = (0..ROWS).all(|row| ours.row(row) == theirs.row(row));
                assert!(equal, "{kernel}, rows of {row_bytes} bytes");
            }
        }
    }

    #[test]
    fn lines_are_those_of_the_bytes_inserted() {
        for (bytes, width) in [(1, 64), (4_096, 64), (4_097, 128), (20_000, 512)] {
            let mut lines = Lines::none(bytes);
            assert_eq!((lines.bytes(), lines.next(), lines.end()), (width, None, 0));
            lines.insert(bytes - 1);
            lines.insert(0);
            assert!(lines.contain(bytes - 1) && lines.end() >= bytes);
            let last = (bytes - 1) / width * width;
            assert_eq!(lines.collect::<std::collections::BTreeSet<_>>(), [0, last].into());
            lines.remove(0);
            assert!(bytes <= width || !lines.contain(1) && lines.contain(last));
        }
    }
}
