//! What symbols are made of when they are decoded: payloads, each with its factor in up to four
//! symbols.

use crate::gf256::{Kernel, Within};
use crate::slab::Slab;

/// Symbols that are decoded in one pass over their sources: what the registers hold.
pub(super) const FUSED: usize = 4;

/// Bytes of a row of coefficients that are looked at together.
pub(super) const WORD: usize = 8;

/// A list of payloads.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// Where the row of each begins in the slab; `count` of them are in use.
    rows: Vec<usize>,
    /// For each symbol a list of their factors.
    factors: Vec<u8>,
    count: usize,
    most: usize,
}

impl Terms {
    /// Makes room for `most` payloads.
    pub(super) fn new(most: usize) -> Self {
        // A word is written whole.
        let most = most.next_multiple_of(WORD) + WORD;
        Self { rows: vec![0; most], factors: vec![0; most * FUSED], count: 0, most }
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds the payload that begins at byte `row`.
    #[inline]
    pub(super) fn push<const R: usize>(&mut self, row: usize, factors: [u8; R]) {
        self.rows[self.count] = row;
        for (symbol, factor) in factors.into_iter().enumerate() {
            self.factors[symbol * self.most + self.count] = factor;
        }
        self.count += 1;
    }

    /// Adds the payloads that begin at byte `row` and every `stride` bytes from there, a word of
    /// them: a byte of each of `words` for each.
    #[inline]
    pub(super) fn push_word<const R: usize>(&mut self, row: usize, stride: usize, words: [u64; R]) {
        let rows = self.rows[self.count..].first_chunk_mut().expect("a word more than there are");
        *rows = core::array::from_fn::<_, WORD, _>(|at| row + at * stride);
        for (symbol, word) in words.into_iter().enumerate() {
            let at = symbol * self.most + self.count;
            self.factors[at..at + WORD].copy_from_slice(&word.to_le_bytes());
        }
        self.count += WORD;
    }

    /// Sums them up: sets the first `bytes` bytes of the rows that begin at `dsts`.
    pub(super) fn sum(&self, kernel: Kernel, slab: &mut Slab, dsts: &[usize], bytes: usize) {
        let (rows, coefficients) = (&self.rows[..self.count], &self.factors[..]);
        let within = Within { dsts, rows, coefficients, across: self.most, bytes };
        kernel.run_within(slab.matrix_mut().0, within);
    }
}
