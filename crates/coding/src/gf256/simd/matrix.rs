//! Rows of coefficients: short, many, and most of their lines empty.
//!
//! ```text
//! gather:   row        ← row + Σ_i factor[i] · matrix[i]       what is left of an equation
//! scatter:  matrix[i]  ← matrix[i] + factor[i] · matrix[row]   a pivot leaves all equations
//! ```
//!
//! The loop over lines is the outer one: a line of the single row is loaded, split or stored once
//! for all rows of the matrix.

use super::product::{Product, Vector};
use crate::gf256::LINE;

/// The lines of a row that are to be looked at; iterates over where they begin.
///
/// In rows of more than 64 lines each bit stands for several lines.
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

    /// Adds the lines of a row in which anything stands.
    pub(crate) fn insert_used(&mut self, row: &[u8]) {
        let used = (0..row.len()).step_by(LINE).filter(|&at| row[at..][..LINE] != [0; LINE]);
        used.for_each(|at| self.insert(at));
    }

    /// Takes the line of a byte away.
    pub(crate) fn remove(&mut self, byte: usize) {
        self.bits &= !(1 << (byte >> self.shift));
    }

    /// Says whether the line of a byte is among them.
    pub(crate) fn contain(self, byte: usize) -> bool {
        self.bits >> (byte >> self.shift) & 1 != 0
    }

    /// Returns how many bytes count as one line: a multiple of a cache line.
    #[inline(always)]
    pub(crate) fn bytes(self) -> usize {
        1 << self.shift
    }

    /// Iterates over where the cache lines within these lines begin.
    #[inline]
    pub(crate) fn each(self) -> impl Iterator<Item = usize> {
        let mut lines = self;
        let (mut at, mut end) = (0, 0);
        core::iter::from_fn(move || {
            if at == end {
                at = lines.next()?;
                end = at + lines.bytes();
            }
            at += LINE;
            Some(at - LINE)
        })
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

/// Returns a bit for each byte of a cache line, set where neither of two rows is zero.
///
/// # Safety
///
/// The processor has the instructions of `P`, and a line lies at both addresses.
#[inline(always)]
pub(super) unsafe fn common<P: Product>(a: *const u8, b: *const u8) -> u64 {
    let (mut bits, mut at) = (0, 0);
    // SAFETY: `at` is less than a line.
    unsafe {
        while at < LINE {
            let both = P::Vector::load(a.add(at)).and(P::Vector::load(b.add(at)));
            bits |= both.nonzero() << at;
            at += P::Vector::BYTES;
        }
    }
    bits
}

/// Adds to `to` the rows of a matrix, each times its factor.
///
/// # Safety
///
/// The processor has the instructions of `P`; `to` has the lines, `from` a row of `stride` bytes
/// for each factor, and `stride` covers the lines.
#[inline(always)]
pub(super) unsafe fn gather<P: Product>(
    to: &mut [u8],
    from: &[u8],
    stride: usize,
    factors: &[u8],
    lines: Lines,
) {
    let (to, from) = (to.as_mut_ptr(), from.as_ptr());
    // No `for` over the iterator: its function would be compiled without the instructions.
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
/// The processor has the instructions of `P`; the matrix has a row of `stride` bytes for each
/// factor, and a row `row`; `stride` covers the lines.
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
    use super::super::{Kernel, Within};
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
    fn every_kernel_finds_the_bytes_that_two_rows_have_in_common() {
        let key = CoefficientKey::new(5);
        let (mut a, mut b) = ([0; 2 * LINE], [0; 2 * LINE]);
        for round in 0..50 {
            key.fill_uniform(round, 0, &mut a);
            key.fill_uniform(round, 1_000, &mut b);
            // A row of nothing but zeros, one with some, one with none.
            a.iter_mut().skip(round as usize % 3).step_by(3).for_each(|byte| *byte = 0);
            b.iter_mut().for_each(|byte| *byte = if round % 5 == 0 { 0 } else { *byte % 2 });
            for (kernel, line) in Kernel::available().flat_map(|it| [(it, 0), (it, LINE)]) {
                let expected =
                    (0..LINE).filter(|at| a[line + at] & b[line + at] != 0).map(|at| 1 << at);
                assert_eq!(kernel.common(&a, &b, line), expected.sum::<u64>(), "{kernel}");
            }
        }
    }

    #[test]
    fn every_kernel_combines_within_a_slab_as_the_scalar_one_does() {
        let scalar = Kernel::named("scalar").expect("is everywhere");
        let mut coefficients = [0; 4 * 8];
        CoefficientKey::new(6).fill_uniform(0, 0, &mut coefficients);
        for bytes in [1, 31, 64, 65, 127, 500, 1_400] {
            for (dsts, sources) in [(1, 0), (1, 7), (2, 5), (3, 1), (4, 6)] {
                for kernel in Kernel::available() {
                    let (mut ours, _) = matrix(bytes, &[]);
                    let (_, stride) = ours.matrix();
                    let dsts: Vec<usize> = (0..dsts).map(|at| at * stride).collect();
                    // Any order, and the last row of the slab, which has no other behind it.
                    let rows: Vec<usize> = (0..sources)
                        .map(|at| (ROWS - 1 - at % (ROWS - dsts.len())) * stride)
                        .collect();
                    let within = Within {
                        dsts: &dsts,
                        rows: &rows,
                        coefficients: &coefficients,
                        across: 8,
                        bytes,
                    };
                    let mut theirs = ours.clone();
                    kernel.run_within(ours.matrix_mut().0, within);
                    scalar.run_within(theirs.matrix_mut().0, within);
                    let equal = (0..ROWS).all(|row| ours.row(row) == theirs.row(row));
                    assert!(equal, "{kernel}, rows of {bytes} bytes");
                }
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
