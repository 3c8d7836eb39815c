//! The destination of a block.

use crate::block::MAX_SYMBOLS;
use crate::coefficients::CoefficientKey;
use crate::elimination::{Column, Elimination};
use crate::error::Error;
use crate::outcome::Outcome;

/// Receives source, repair and recoded symbols of a block in any order and decodes each source
/// symbol as soon as what has arrived determines it.
///
/// ```
/// use fulmar_coding::{CoefficientKey, Outcome, block::{Decoder, Encoder}};
///
/// let key = CoefficientKey::new(1).for_block(9);
/// let mut encoder = Encoder::new(4, 8, key)?;
/// let mut decoder = Decoder::new(4, 8, key)?;
/// encoder.push(b"lost")?;
/// encoder.push(b"kept")?;
/// decoder.push_source(1, b"kept");
/// let mut payload = Vec::new();
/// encoder.repair(0, &mut payload)?;
/// assert_eq!(decoder.push_repair(0, encoder.rank(), &payload), Outcome::Innovative);
/// assert_eq!(decoder.get(0), Some(&b"lost\0\0\0\0"[..]));
/// assert_eq!(decoder.rank(), 2);
/// assert!(!decoder.is_complete()); // two more may come
/// # Ok::<(), fulmar_coding::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    key: CoefficientKey,
    symbol_bytes: usize,
    symbols: usize,
    elimination: Elimination,
    rank: usize,
    decoded: Vec<usize>,
}

impl Decoder {
    /// Makes a decoder for at most `k` symbols of at most `symbol_bytes`.
    ///
    /// # Errors
    ///
    /// If either is zero or above its bound.
    pub fn new(k: usize, symbol_bytes: usize, key: CoefficientKey) -> Result<Self, Error> {
        Error::check_sizes(symbol_bytes, k, MAX_SYMBOLS)?;
        let elimination = Elimination::new(k, k, symbol_bytes);
        let decoded = Vec::with_capacity(k);
        Ok(Self { key, symbol_bytes, symbols: k, elimination, rank: 0, decoded })
    }

    /// Takes source symbol `index` as it is.
    pub fn push_source(&mut self, index: usize, symbol: &[u8]) -> Outcome {
        if index >= self.symbols || symbol.len() > self.symbol_bytes {
            return Outcome::Malformed;
        }
        if self.elimination.column(index) == Column::Known {
            return Outcome::Redundant;
        }
        self.elimination.learn(index, symbol, 0);
        self.decoded.push(index);
        self.raise_rank();
        Outcome::Innovative
    }

    /// Takes the encoder's repair symbol `repair_id`, made when it had `symbols` symbols.
    pub fn push_repair(&mut self, repair_id: u64, symbols: usize, payload: &[u8]) -> Outcome {
        if symbols == 0 || symbols > self.symbols || payload.len() > self.symbol_bytes {
            return Outcome::Malformed;
        }
        if !self.elimination.any_unknown(0..symbols) {
            return Outcome::Redundant;
        }
        self.key.fill(repair_id, 0, &mut self.elimination.incoming_mut()[..symbols]);
        self.insert(payload)
    }

    /// Takes a combination with an explicit coefficient vector; missing coefficients are zero.
    pub fn push_coded(&mut self, coefficients: &[u8], payload: &[u8]) -> Outcome {
        if coefficients.len() > self.symbols || payload.len() > self.symbol_bytes {
            return Outcome::Malformed;
        }
        let incoming = self.elimination.incoming_mut();
        incoming[..coefficients.len()].copy_from_slice(coefficients);
        self.insert(payload)
    }

    /// Returns how many innovative symbols have arrived.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Says whether all k symbols are decoded.
    pub fn is_complete(&self) -> bool {
        self.rank == self.symbols
    }

    /// Returns a decoded symbol, padded with zeros to the size of a symbol.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        (index < self.symbols).then(|| self.elimination.symbol(index)).flatten()
    }

    /// Returns an index that became known, received or decoded, each index once.
    pub fn poll_decoded(&mut self) -> Option<usize> {
        self.decoded.pop()
    }

    /// Returns how many symbols from the first on are *seen* in the sense of [LRT §III-C]: decoded,
    /// or leading an equation of their own.
    pub fn seen(&self) -> usize {
        let seen = |&index: &usize| {
            self.elimination.column(index) == Column::Known || self.elimination.is_pivot(index)
        };
        (0..self.symbols).take_while(seen).count()
    }

    /// Lists the symbols among the first `symbols` that are not decoded.
    pub fn missing(&self, symbols: usize) -> impl Iterator<Item = usize> {
        let unknown = |&index: &usize| self.elimination.column(index) == Column::Unknown;
        (0..symbols.min(self.symbols)).filter(unknown)
    }

    /// Empties the decoder for the next block, whose coefficients follow from `key`.
    pub fn reset(&mut self, key: CoefficientKey) {
        self.key = key;
        self.elimination.reset();
        self.rank = 0;
        self.decoded.clear();
    }

    fn insert(&mut self, payload: &[u8]) -> Outcome {
        let outcome = match self.elimination.insert(payload, 0) {
            // There are as many slots as symbols: with all of them in use there is nothing left to
            // learn.
            Outcome::Full => Outcome::Redundant,
            outcome => outcome,
        };
        if outcome == Outcome::Innovative {
            self.raise_rank();
        }
        outcome
    }

    fn raise_rank(&mut self) {
        self.rank += 1;
        while let Some(index) = self.elimination.poll_recovered() {
            self.decoded.push(index);
        }
    }
}
