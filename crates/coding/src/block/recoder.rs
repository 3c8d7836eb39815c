//! A relay of a block: combines what it heard, without decoding it.

use crate::block::MAX_SYMBOLS;
use crate::coefficients::CoefficientKey;
use crate::error::Error;
use crate::gf256::{self, Kernel};
use crate::outcome::Outcome;
use crate::slab::Slab;

/// Keeps the innovative symbols that it has heard of a block, and makes fresh combinations of them.
///
/// At most k symbols are kept, as they came; only their coefficients are eliminated, to tell
/// whether a symbol is innovative. Combinations carry explicit coefficient vectors of k
/// coefficients.
///
/// ```
/// use fulmar_coding::{CoefficientKey, Outcome, block::Recoder};
///
/// let mut relay = Recoder::new(2, 4, CoefficientKey::new(5))?;
/// assert_eq!(relay.push_coded(&[1, 2], b"abcd"), Outcome::Innovative);
/// assert_eq!(relay.push_coded(&[1, 2], b"abcd"), Outcome::Redundant);
/// let (mut coefficients, mut payload) = (Vec::new(), Vec::new());
/// assert!(relay.recode(&mut coefficients, &mut payload));
/// assert_eq!((coefficients.len(), payload.len()), (2, 4));
/// # Ok::<(), fulmar_coding::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recoder {
    key: CoefficientKey,
    kernel: Kernel,
    symbol_bytes: usize,
    symbols: usize,
    /// The number of the next combination: none is made twice.
    next: u64,
    rank: usize,
    payloads: Slab,
    bytes: Vec<usize>,
    coefficients: Slab,
    /// The coefficients in echelon form; row i leads with column i.
    echelon: Slab,
    leads: Vec<bool>,
    incoming: Slab,
}

impl Recoder {
    /// Makes a recoder for blocks of at most `k` symbols of at most `symbol_bytes`.
    ///
    /// The relay draws its own coefficients from `key`: give each relay a different one.
    ///
    /// # Errors
    ///
    /// If a size is zero or above its bound.
    pub fn new(k: usize, symbol_bytes: usize, key: CoefficientKey) -> Result<Self, Error> {
        Error::check_sizes(symbol_bytes, k, MAX_SYMBOLS)?;
        Ok(Self {
            key,
            kernel: Kernel::detect(),
            symbol_bytes,
            symbols: k,
            next: 0,
            rank: 0,
            payloads: Slab::new(k, symbol_bytes),
            bytes: vec![0; k],
            coefficients: Slab::new(k, k),
            echelon: Slab::new(k, k),
            leads: vec![false; k],
            incoming: Slab::new(1, k),
        })
    }

    /// Takes source symbol `index` as it is.
    pub fn push_source(&mut self, index: usize, symbol: &[u8]) -> Outcome {
        let mut unit = [0; MAX_SYMBOLS];
        match unit.get_mut(index) {
            Some(one) if index < self.symbols => *one = 1,
            _ => return Outcome::Malformed,
        }
        self.push_coded(&unit[..self.symbols], symbol)
    }

    /// Takes a combination with an explicit coefficient vector; missing coefficients are zero.
    pub fn push_coded(&mut self, coefficients: &[u8], payload: &[u8]) -> Outcome {
        if coefficients.len() > self.symbols || payload.len() > self.symbol_bytes {
            return Outcome::Malformed;
        }
        self.incoming.store(0, coefficients);
        let Some(lead) = self.reduce_incoming() else { return Outcome::Redundant };
        let factor = gf256::inv(self.incoming.row(0)[lead]);
        self.kernel.scale(self.incoming.row_mut(0), factor);
        self.echelon.store(lead, self.incoming.row(0));
        self.leads[lead] = true;
        self.coefficients.store(self.rank, coefficients);
        self.payloads.store(self.rank, payload);
        self.bytes[self.rank] = payload.len();
        self.rank += 1;
        Outcome::Innovative
    }

    /// Returns how many innovative symbols it holds.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Appends the coefficients (k of them) and the payload of a fresh combination of everything
    /// held. Returns false, and appends nothing, as long as nothing is held.
    pub fn recode(&mut self, coefficients: &mut Vec<u8>, payload: &mut Vec<u8>) -> bool {
        if self.rank == 0 {
            return false;
        }
        let rank = self.rank;
        let mut drawn = [0; MAX_SYMBOLS];
        // All zero comes up once in 256^rank times, and says nothing.
        while drawn[..rank].iter().all(|&c| c == 0) {
            self.key.fill_uniform(self.next, 0, &mut drawn[..rank]);
            self.next = self.next.wrapping_add(1);
        }
        let bytes = self.bytes[..rank].iter().copied().max().unwrap_or(0);
        let draw = |at: usize, to: &mut [u8]| to.copy_from_slice(&drawn[at..at + to.len()]);
        self.coefficients.combine(self.kernel, [0..rank, 0..0], draw, self.symbols, coefficients);
        self.payloads.combine(self.kernel, [0..rank, 0..0], draw, bytes, payload);
        true
    }

    /// Empties the recoder for the next block; its combinations go on being fresh.
    pub fn reset(&mut self) {
        self.rank = 0;
        self.leads.fill(false);
    }

    /// Subtracts the echelon rows from the incoming coefficients; returns the leading column of
    /// what is left.
    fn reduce_incoming(&mut self) -> Option<usize> {
        let mut lead = None;
        for column in 0..self.symbols {
            let factor = self.incoming.row(0)[column];
            if factor == 0 {
                continue;
            }
            if self.leads[column] {
                self.kernel.mul_add(self.incoming.row_mut(0), self.echelon.row(column), factor);
            } else if lead.is_none() {
                lead = Some(column);
            }
        }
        lead
    }
}
