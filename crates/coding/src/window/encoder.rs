//! The sender's end of a sliding-window code.

use core::ops::Range;

use crate::coefficients::CoefficientKey;
use crate::error::Error;
use crate::gf256::Kernel;
use crate::slab::Slab;
use crate::window::FIRST_CAPACITY;

/// Holds the source symbols that are not acknowledged, and makes repair symbols over them.
///
/// ```
/// use fulmar_coding::{CoefficientKey, Error, window::Encoder};
///
/// let mut encoder = Encoder::new(1_024, 2, CoefficientKey::new(1))?;
/// assert_eq!(encoder.push(b"first")?, 0);
/// assert_eq!(encoder.push(b"second")?, 1);
/// assert_eq!(encoder.push(b"third"), Err(Error::Full));
/// let mut payload = Vec::new();
/// assert_eq!(encoder.repair(0, 0..2, &mut payload)?, 6); // as long as the longest of them
/// encoder.trim(1); // "first" has arrived
/// assert_eq!(encoder.push(b"third")?, 2);
/// assert_eq!(encoder.symbol(0), None);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Encoder {
    key: CoefficientKey,
    kernel: Kernel,
    symbol_bytes: usize,
    capacity: u64,
    /// Bytes beyond which the ring does not grow.
    memory: usize,
    /// A ring of symbols, and of their lengths: as many as there was need for.
    symbols: Slab,
    bytes: Vec<usize>,
    first: u64,
    next: u64,
}

impl Encoder {
    /// Makes an encoder whose window holds at most `capacity` symbols of at most `symbol_bytes`; it
    /// takes memory as symbols come.
    ///
    /// # Errors
    ///
    /// If either is zero or above its bound.
    pub fn new(symbol_bytes: usize, capacity: usize, key: CoefficientKey) -> Result<Self, Error> {
        Error::check_sizes(symbol_bytes, capacity, super::MAX_CAPACITY)?;
        Ok(Self {
            key,
            kernel: Kernel::detect(),
            symbol_bytes,
            capacity: capacity as u64,
            memory: usize::MAX,
            symbols: Slab::new(0, symbol_bytes),
            bytes: Vec::new(),
            first: 0,
            next: 0,
        })
    }

    /// Has ids count from `id` instead of 0; only before the first symbol.
    pub fn starting_at(mut self, id: u64) -> Self {
        debug_assert!(self.next == 0, "symbols have ids already");
        (self.first, self.next) = (id, id);
        self
    }

    /// Adds a source symbol to the window and returns its id; ids count from 0.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] until the window is trimmed; [`Error::TooLong`].
    pub fn push(&mut self, symbol: &[u8]) -> Result<u64, Error> {
        Error::check_symbol(symbol.len(), self.symbol_bytes)?;
        if self.is_full() {
            return Err(Error::Full);
        }
        if self.held() == self.bytes.len() {
            self.resize(self.larger());
        }
        let id = self.next;
        let row = self.row(id);
        self.symbols.store(row, symbol);
        self.bytes[row] = symbol.len();
        self.next += 1;
        Ok(id)
    }

    /// Returns the lowest id in the window.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the id that the next source symbol will get.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns true where [`Encoder::push`] would say [`Error::Full`].
    pub fn is_full(&self) -> bool {
        let held = self.held();
        held as u64 == self.capacity
            || (held == self.bytes.len() && self.bytes_of(self.larger()) > self.memory)
    }

    /// Takes no more than `bytes` of memory from now on; what is taken already stays.
    pub fn set_memory(&mut self, bytes: usize) {
        self.memory = bytes;
    }

    /// Returns how many bytes of memory the encoder takes.
    pub fn bytes(&self) -> usize {
        self.bytes_of(self.bytes.len())
    }

    /// Gives memory back that a window of so many symbols does not need.
    pub fn shrink(&mut self, symbols: usize) {
        let ring = match symbols.max(self.held()) {
            0 => 0,
            symbols => symbols.next_power_of_two().max(FIRST_CAPACITY),
        };
        if ring < self.bytes.len() {
            self.resize(ring);
        }
    }

    /// Returns how many symbols the window holds at most.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Returns a source symbol in the window, as long as it was handed in.
    pub fn symbol(&self, id: u64) -> Option<&[u8]> {
        (self.first..self.next).contains(&id).then(|| {
            let row = self.row(id);
            &self.symbols.row(row)[..self.bytes[row]]
        })
    }

    /// Drops the symbols below `first`: they have arrived, or are no longer wanted.
    pub fn trim(&mut self, first: u64) {
        self.first = first.clamp(self.first, self.next);
    }

    /// Appends repair symbol `repair_id` over the source ids `range` to `out`, and returns its
    /// bytes: those of the longest source symbol in the range.
    ///
    /// A repair id is used once: the same id over the same range is the same symbol again.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideWindow`] if the range is empty or reaches outside the window.
    pub fn repair(
        &self,
        repair_id: u64,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        if range.start < self.first || range.end > self.next || range.is_empty() {
            return Err(Error::OutsideWindow);
        }
        let rows = super::ring(&range, self.bytes.len());
        let lengths = rows.clone().map(|rows| self.bytes[rows].iter().fold(0, |a, &b| a.max(b)));
        let bytes = lengths[0].max(lengths[1]);
        let draw = |at: usize, to: &mut [u8]| self.key.fill(repair_id, range.start + at as u64, to);
        self.symbols.combine(self.kernel, rows, draw, bytes, out);
        Ok(bytes)
    }

    /// Returns how many symbols the window holds.
    fn held(&self) -> usize {
        (self.next - self.first) as usize
    }

    fn larger(&self) -> usize {
        let most = (self.capacity as usize).next_power_of_two();
        (2 * self.bytes.len()).max(FIRST_CAPACITY).min(most)
    }

    fn bytes_of(&self, ring: usize) -> usize {
        Slab::bytes(ring, self.symbol_bytes) + ring * size_of::<usize>()
    }

    fn resize(&mut self, ring: usize) {
        let (mut symbols, mut bytes) = (Slab::new(ring, self.symbol_bytes), vec![0; ring]);
        for id in self.first..self.next {
            let (from, to) = (self.row(id), id as usize & (ring - 1));
            bytes[to] = self.bytes[from];
            symbols.store(to, &self.symbols.row(from)[..bytes[to]]);
        }
        (self.symbols, self.bytes) = (symbols, bytes);
    }

    fn row(&self, id: u64) -> usize {
        id as usize & (self.bytes.len() - 1)
    }
}
