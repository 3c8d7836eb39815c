//! Coding coefficients that sender and receiver compute from a number, so that none is sent.
//!
//! ```text
//! word(repair, w) = mix(base + (w + 1)·γ),  base = mix(mix(key ⊕ γ) ⊕ mix(repair·δ + δ))
//! coefficient(repair, id) = byte id mod 8 of word(repair, ⌊id / 8⌋), 0 replaced by 1
//! ```
//!
//! `mix` is the finaliser of splitmix64. A counter in place of a chain of states gives any
//! coefficient in constant time: a repair symbol over ids 1,000,000 to 1,000,064 costs eight words.
//! It is no cipher and need not be: an attacker who can make up symbols can make up coefficients as
//! well, and symbols are authenticated below this layer.

/// Step between words: 2⁶⁴ divided by the golden ratio, as in splitmix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
/// Step between repair symbols: odd, unrelated to `GAMMA` (2⁶⁴ times the fraction of √2).
const DELTA: u64 = 0x6a09_e667_f3bc_c909;

/// Generates the coding coefficients of repair symbols, the same at both ends of a session.
///
/// ```
/// use fulmar_coding::CoefficientKey;
///
/// let (ours, theirs) = (CoefficientKey::new(7), CoefficientKey::new(7));
/// let (mut a, mut b) = ([0; 64], [0; 4]);
/// ours.fill(3, 1_000, &mut a);
/// theirs.fill(3, 1_060, &mut b); // the last four of them: any id in constant time
/// assert_eq!(a[60..], b);
/// assert!(a.iter().all(|&coefficient| coefficient != 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoefficientKey(u64);

impl CoefficientKey {
    /// Makes the generator of a session from a number that both ends know.
    pub fn new(key: u64) -> Self {
        Self(mix(key ^ GAMMA))
    }

    /// Derives the generator of block `id`, so that repair symbols may be numbered from 0 in each.
    pub fn for_block(&self, id: u64) -> Self {
        Self(mix(self.0 ^ mix(id.wrapping_add(GAMMA).wrapping_mul(DELTA))))
    }

    /// Writes the coefficients of source symbols `first`, `first + 1`, … in repair symbol `repair`.
    ///
    /// None of them is zero, so that a single loss is always repaired.
    pub fn fill(&self, repair: u64, first: u64, out: &mut [u8]) {
        self.words(repair, first, out, |word| word | zero_bytes(word));
    }

    /// Writes coefficients uniform over all of GF(2⁸), zero included: for recoding.
    pub fn fill_uniform(&self, repair: u64, first: u64, out: &mut [u8]) {
        self.words(repair, first, out, |word| word);
    }

    fn words(&self, repair: u64, first: u64, out: &mut [u8], finish: impl Fn(u64) -> u64) {
        let base = mix(self.0 ^ mix(repair.wrapping_mul(DELTA).wrapping_add(DELTA)));
        let mut counter = first / 8;
        let mut word = || {
            counter = counter.wrapping_add(1);
            finish(mix(base.wrapping_add(counter.wrapping_mul(GAMMA)))).to_le_bytes()
        };
        let skipped = (first % 8) as usize;
        let (head, rest) = out.split_at_mut(out.len().min((8 - skipped) % 8));
        if !head.is_empty() {
            head.iter_mut().zip(word().into_iter().skip(skipped)).for_each(|(to, byte)| *to = byte);
        }
        let mut whole = rest.chunks_exact_mut(8);
        for eight in &mut whole {
            eight.copy_from_slice(&word());
        }
        let tail = whole.into_remainder();
        if !tail.is_empty() {
            tail.iter_mut().zip(word()).for_each(|(to, byte)| *to = byte);
        }
    }
}

/// The finaliser of splitmix64: every input bit turns over half of the output bits.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns 1 in each byte that is zero in `word`, and 0 in the others.
fn zero_bytes(word: u64) -> u64 {
    const LOW_SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    !(((word & LOW_SEVEN) + LOW_SEVEN) | word | LOW_SEVEN) >> 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_coefficients() {
        let key = CoefficientKey::new(11);
        let mut whole = [0; 100];
        key.fill(5, 3, &mut whole);
        for start in 0..40 {
            for length in 0..40 {
                let mut part = vec![0; length];
                key.fill(5, 3 + start as u64, &mut part);
                assert_eq!(part, whole[start..start + length]);
            }
        }
    }

    #[test]
    fn every_value_but_zero_occurs_about_equally_often() {
        let mut seen = [0_u32; 256];
        let mut out = [0; 256];
        for repair in 0..1_000 {
            CoefficientKey::new(1).fill(repair, repair * 31, &mut out);
            out.iter().for_each(|&c| seen[usize::from(c)] += 1);
        }
        assert_eq!(seen[0], 0);
        // 1 stands in for 0 too: twice the others' thousand.
        assert!((1_800..2_200).contains(&seen[1]), "{}", seen[1]);
        assert!(seen[2..].iter().all(|count| (850..1_150).contains(count)));
    }

    #[test]
    fn zero_bytes_are_found_exactly() {
        assert_eq!(zero_bytes(0x0001_8000_ff00_0080), 0x0100_0001_0001_0100);
        let mut uniform = [0; 4_096];
        let mut nonzero = [0; 4_096];
        CoefficientKey::new(2).fill_uniform(9, 9, &mut uniform);
        CoefficientKey::new(2).fill(9, 9, &mut nonzero);
        assert!(uniform.contains(&0));
        assert!(uniform.iter().zip(&nonzero).all(|(&u, &n)| n == if u == 0 { 1 } else { u }));
    }

    #[test]
    fn keys_blocks_and_ids_at_the_end_of_their_range_differ() {
        let mut drawn = Vec::new();
        let key = CoefficientKey::new(u64::MAX);
        for (key, repair, first) in [
            (key, 0, 0),
            (CoefficientKey::new(0), 0, 0),
            (key.for_block(0), 0, 0),
            (key.for_block(1), 0, 0),
            (key, 1, 0),
            (key, u64::MAX, u64::MAX),
        ] {
            let mut out = [0; 16];
            key.fill(repair, first, &mut out);
            assert!(!drawn.contains(&out));
            drawn.push(out);
        }
    }
}
