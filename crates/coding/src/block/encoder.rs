//! The source of a block.

use crate::block::MAX_SYMBOLS;
use crate::coefficients::CoefficientKey;
use crate::error::Error;
use crate::gf256::Kernel;
use crate::slab::Slab;

/// Holds the source symbols of a block and makes repair symbols over those that it has so far.
///
/// ```
/// use fulmar_coding::{CoefficientKey, block::Encoder};
///
/// let mut encoder = Encoder::new(4, 1_024, CoefficientKey::new(1).for_block(9))?;
/// assert_eq!(encoder.push(b"first")?, 0);
/// let mut payload = Vec::new();
/// encoder.repair(0, &mut payload)?; // over one symbol
/// encoder.push(b"the second")?;
/// payload.clear();
/// assert_eq!(encoder.repair(1, &mut payload)?, 10); // over two
/// # Ok::<(), fulmar_coding::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Encoder {
    key: CoefficientKey,
    kernel: Kernel,
    symbol_bytes: usize,
    most: usize,
    symbols: Slab,
    bytes: Vec<usize>,
}

impl Encoder {
    /// Makes an encoder for at most `k` symbols of at most `symbol_bytes`.
    ///
    /// # Errors
    ///
    /// If either is zero or above its bound.
    pub fn new(k: usize, symbol_bytes: usize, key: CoefficientKey) -> Result<Self, Error> {
        Error::check_sizes(symbol_bytes, k, MAX_SYMBOLS)?;
        let symbols = Slab::new(k, symbol_bytes);
        let bytes = Vec::with_capacity(k);
        Ok(Self { key, kernel: Kernel::detect(), symbol_bytes, most: k, symbols, bytes })
    }

    /// Adds a source symbol and returns its index.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] when the block has k symbols; [`Error::TooLong`].
    pub fn push(&mut self, symbol: &[u8]) -> Result<usize, Error> {
        Error::check_symbol(symbol.len(), self.symbol_bytes)?;
        let index = self.bytes.len();
        if index == self.most {
            return Err(Error::Full);
        }
        self.symbols.store(index, symbol);
        self.bytes.push(symbol.len());
        Ok(index)
    }

    /// Returns how many source symbols the block has: the encoder's rank.
    pub fn rank(&self) -> usize {
        self.bytes.len()
    }

    /// Says whether the block has k symbols.
    pub fn is_full(&self) -> bool {
        self.rank() == self.most
    }

    /// Returns a source symbol, as long as it was handed in.
    pub fn symbol(&self, index: usize) -> Option<&[u8]> {
        self.bytes.get(index).map(|&bytes| &self.symbols.row(index)[..bytes])
    }

    /// Appends repair symbol `repair_id` over all symbols so far to `out`, and returns its bytes:
    /// those of the longest source symbol.
    ///
    /// The receiver needs the id and the rank at this moment. An id is used once.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideWindow`] if there is no symbol yet.
    pub fn repair(&self, repair_id: u64, out: &mut Vec<u8>) -> Result<usize, Error> {
        let bytes = *self.bytes.iter().max().ok_or(Error::OutsideWindow)?;
        let draw = |at: usize, to: &mut [u8]| self.key.fill(repair_id, at as u64, to);
        self.symbols.combine(self.kernel, [0..self.rank(), 0..0], draw, bytes, out);
        Ok(bytes)
    }

    /// Appends the coefficients of repair symbol `repair_id` to `out`: one for each symbol so far.
    pub fn coefficients(&self, repair_id: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.rank(), 0);
        self.key.fill(repair_id, 0, &mut out[start..]);
    }

    /// Appends the combination of all symbols so far with the given coefficients to `out`.
    ///
    /// # Errors
    ///
    /// [`Error::Coefficients`] if there is not exactly one for each symbol;
    /// [`Error::OutsideWindow`] if there is no symbol yet.
    pub fn combine(&self, coefficients: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
        let symbols = self.rank();
        if coefficients.len() != symbols {
            return Err(Error::Coefficients { given: coefficients.len(), symbols });
        }
        let bytes = *self.bytes.iter().max().ok_or(Error::OutsideWindow)?;
        let draw = |at: usize, to: &mut [u8]| to.copy_from_slice(&coefficients[at..at + to.len()]);
        self.symbols.combine(self.kernel, [0..symbols, 0..0], draw, bytes, out);
        Ok(bytes)
    }

    /// Empties the block for the next one, whose coefficients follow from `key`.
    pub fn reset(&mut self, key: CoefficientKey) {
        self.key = key;
        self.bytes.clear();
    }
}
