//! What symbols are made of when they are decoded: payloads, each with its factor in up to four symbols.

use crate::gf256::{Kernel, Picked, Rows};
use crate::slab::Slab;

/// Symbols that are decoded in one pass over their sources: what the registers hold.
pub(super) const FUSED: usize = 4;

/// A list of payloads: first rows of raw equations, then known symbols.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// The row of its slab and the factors of each; `count` of them are in use.
    rows: Vec<usize>,
    factors: Vec<[u8; FUSED]>,
    count: usize,
    raw: usize,
}

impl Terms {
    pub(super) fn new(most: usize) -> Self {
        Self { rows: vec![0; most], factors: vec![[0; FUSED]; most], count: 0, raw: 0 }
    }

    pub(super) fn clear(&mut self) {
        (self.count, self.raw) = (0, 0);
    }

    /// Adds a raw equation; all of them come before the first symbol.
    #[inline]
    pub(super) fn push_raw(&mut self, row: usize, factors: [u8; FUSED]) {
        self.push_symbol(row, factors);
        self.raw = self.count;
    }

    /// Adds a known symbol.
    #[inline]
    pub(super) fn push_symbol(&mut self, row: usize, factors: [u8; FUSED]) {
        self.rows[self.count] = row;
        self.factors[self.count] = factors;
        self.count += 1;
    }

    pub(super) fn has_symbols(&self) -> bool {
        self.count > self.raw
    }

    /// Sums up the raw equations: what the destinations held is overwritten.
    pub(super) fn sum_raw(&self, kernel: Kernel, raw: &Slab, dsts: &mut [&mut [u8]]) {
        self.sum(kernel, 0..self.raw, raw, false, dsts);
    }

    /// Adds the known symbols.
    pub(super) fn add_symbols(&self, kernel: Kernel, symbols: &Slab, dsts: &mut [&mut [u8]]) {
        self.sum(kernel, self.raw..self.count, symbols, true, dsts);
    }

    fn sum(
        &self,
        kernel: Kernel,
        range: core::ops::Range<usize>,
        slab: &Slab,
        add: bool,
        dsts: &mut [&mut [u8]],
    ) {
        let (slab, stride) = slab.matrix();
        let sources = Picked { slab, stride, rows: &self.rows[range.clone()] };
        let coefficients = self.factors[range].as_flattened();
        kernel.run_picked(dsts, Rows { sources, coefficients, stride: FUSED, add });
    }
}
