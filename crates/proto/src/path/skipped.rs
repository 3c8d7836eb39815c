//! Packet numbers that are left out on purpose: a peer that acknowledges one acknowledges
//! packets before it has them.
//!
//! A peer that acknowledges what it did not receive makes us send faster than the network carries,
//! at everybody else's cost [RFC 9000 §21.4].

use std::ops::RangeInclusive;

use units::Rng;

/// Left-out numbers are this far apart at least, and at most twice as far: the gaps are a
/// negligible loss (0.07 %), and nobody can acknowledge ahead of them for long.
const APART: u64 = 1_000;
/// Numbers that are remembered: acknowledging older ones gains a cheat nothing.
const REMEMBERED: usize = 8;

/// Chooses the numbers that a path leaves out.
#[derive(Debug)]
pub(super) struct Skipped {
    next: u64,
    /// The latest, in a ring.
    numbers: [u64; REMEMBERED],
    count: usize,
    rng: Rng,
}

impl Skipped {
    /// Starts with a seed that the peer must not be able to guess.
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        // Among the first few packets it would show as much loss: one of 24 is 4 %.
        let next = (1 + rng.below(APART)).max(APART / 16);
        Self { next, numbers: [u64::MAX; REMEMBERED], count: 0, rng }
    }

    /// Tells whether this number, the next to be used, is to be left out.
    pub(super) fn leaves_out(&mut self, number: u64) -> bool {
        if number < self.next {
            return false;
        }
        self.numbers[self.count % REMEMBERED] = number;
        self.count += 1;
        self.next = number + APART + self.rng.below(APART);
        true
    }

    /// Tells whether any of these ranges holds a number that was left out.
    pub(super) fn is_any_in(&self, ranges: &[RangeInclusive<u64>]) -> bool {
        let known = &self.numbers[..self.count.min(REMEMBERED)];
        known.iter().any(|number| ranges.iter().any(|range| range.contains(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_numbers_are_left_out_and_known_again() {
        let mut skipped = Skipped::new(7);
        let left_out: Vec<u64> = (0..100_000).filter(|&pn| skipped.leaves_out(pn)).collect();
        assert!((50..=101).contains(&left_out.len()), "{}", left_out.len());
        assert!(left_out.windows(2).all(|pair| (APART..2 * APART).contains(&(pair[1] - pair[0]))));
        let last = left_out[left_out.len() - 1];
        assert!(skipped.is_any_in(&[0..=3, last - 5..=last + 5]));
        assert!(!skipped.is_any_in(&[last + 1..=100_000, last - 900..=last - 1]));
        assert_ne!(left_out[0], (0..2_000).find(|&pn| Skipped::new(8).leaves_out(pn)).unwrap_or(0));
    }
}
