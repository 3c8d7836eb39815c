//! Which of the recent numbers have come in: what removes duplicates.
//!
//! A bitmap over the newest numbers, like a replay window, but over numbers of messages instead of
//! packets. A number older than the window counts as seen: a duplicate that slips through executes
//! a command twice, a message that is refused is merely lost.

/// Remembers the newest `size` numbers of a sequence.
#[derive(Debug)]
pub(crate) struct SeenWindow {
    /// One past the largest number seen.
    next: u64,
    words: Box<[u64]>,
}

impl SeenWindow {
    /// Starts with nothing seen; `size` is rounded up to a multiple of 64.
    pub(crate) fn new(size: u64) -> Self {
        Self { next: 0, words: vec![0; size.div_ceil(64) as usize].into_boxed_slice() }
    }

    /// Extends the low 32 bits of a number to the nearest number in full.
    pub(crate) fn extend(&self, low: u32) -> u64 {
        extend(low, self.next)
    }

    /// Returns the number after the largest seen.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Notes a number; returns true when it had not been seen and is not older than the window.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        let size = self.words.len() as u64 * 64;
        if number >= self.next {
            let skipped = number - self.next;
            if skipped >= size {
                self.words.fill(0);
            } else {
                self.clear(self.next, number);
            }
            self.next = number.saturating_add(1);
        } else if self.next - number > size || self.get(number) {
            return false;
        }
        self.set(number, true);
        true
    }

    /// Forgets the numbers from `first` to below `end`, a word at a time.
    fn clear(&mut self, first: u64, end: u64) {
        let mut first = first;
        while first < end {
            let next = end.min((first / 64 + 1) * 64);
            let (word, _) = self.position(first);
            let ones = u64::MAX >> (64 - (next - first));
            self.words[word] &= !(ones << (first % 64));
            first = next;
        }
    }

    fn get(&self, number: u64) -> bool {
        let (word, bit) = self.position(number);
        self.words[word] & bit != 0
    }

    fn set(&mut self, number: u64, seen: bool) {
        let (word, bit) = self.position(number);
        if seen {
            self.words[word] |= bit;
        } else {
            self.words[word] &= !bit;
        }
    }

    fn position(&self, number: u64) -> (usize, u64) {
        ((number / 64 % self.words.len() as u64) as usize, 1 << (number % 64))
    }
}

/// Extends the low 32 bits of a number to the number nearest to `near`, never below zero.
pub(crate) fn extend(low: u32, near: u64) -> u64 {
    let distance = low.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(i64::from(distance)).unwrap_or(u64::from(low))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_number_passes_once_and_old_ones_never() {
        let mut window = SeenWindow::new(128);
        assert!(window.insert(5) && window.insert(3) && !window.insert(5) && !window.insert(3));
        assert!(window.insert(132), "5 is the oldest that the window of 128 still covers");
        assert!(!window.insert(4), "older than the window");
        assert!(window.insert(6) && !window.insert(6));
        assert!(window.insert(10_000) && !window.insert(9_000) && window.insert(9_999));
    }

    #[test]
    fn low_bits_extend_to_the_nearest_number() {
        for (low, near, full) in [
            (0, 0, 0),
            (7, 0, 7),
            (1, u64::from(u32::MAX), (1 << 32) + 1),
            (u32::MAX, 1 << 32, u64::from(u32::MAX)),
            (u32::MAX, 3, u64::from(u32::MAX)),
        ] {
            assert_eq!(extend(low, near), full);
        }
    }

    /// Every three numbers of a window of one word, which wraps after 64.
    #[test]
    fn any_three_numbers_are_told_as_a_set_tells_them() {
        const NUMBERS: u64 = 140;
        for script in 0..NUMBERS.pow(3) {
            let mut window = SeenWindow::new(64);
            let mut seen = Vec::new();
            let mut next = 0;
            for number in [0, 1, 2].map(|step| script / NUMBERS.pow(step) % NUMBERS) {
                let fresh = next <= number + 64 && !seen.contains(&number);
                assert_eq!(window.insert(number), fresh, "{number} after {seen:?}");
                seen.push(number);
                next = next.max(number + 1);
                assert_eq!(window.next(), next);
            }
        }
    }

    /// Of all numbers with these low bits the nearest, and of two as near the lower one.
    fn nearest(low: u32, near: u64) -> u64 {
        let here = near >> 32;
        let rounds = here.saturating_sub(1)..=here + 1;
        let candidates = rounds.map(|round| round << 32 | u64::from(low));
        candidates.min_by_key(|number| number.abs_diff(near)).expect("there are two at least")
    }

    #[test]
    fn extended_number_is_the_nearest_at_every_edge() {
        let around = |edge: u64| edge.saturating_sub(2)..=edge + 2;
        let edges = [0, 1 << 31, 1 << 32, 3 << 31, 1 << 33, 1 << 47, (1 << 47) + (1 << 31)];
        for near in edges.into_iter().flat_map(around) {
            for low in edges.into_iter().flat_map(around).map(|edge| edge as u32) {
                assert_eq!(extend(low, near), nearest(low, near), "{low} near {near}");
                assert_eq!(extend(low, near) as u32, low);
            }
        }
    }

    proptest! {
        #[test]
        fn extended_number_is_the_nearest(low: u32, near in 0_u64..1 << 62) {
            prop_assert_eq!(extend(low, near), nearest(low, near));
        }

        #[test]
        fn number_is_read_back_from_its_low_bits(number in 0_u64..1 << 62, apart in 0_u64..1 << 31) {
            prop_assert_eq!(extend(number as u32, number + apart), number);
            prop_assert_eq!(extend(number as u32, number.saturating_sub(apart)), number);
        }

        #[test]
        fn window_agrees_with_a_set(numbers in prop::collection::vec(0_u64..600, 0..400)) {
            let mut window = SeenWindow::new(256);
            let mut seen = BTreeSet::new();
            let mut next = 0;
            for number in numbers {
                let expected = next <= number + 256 && seen.insert(number);
                next = next.max(number + 1);
                prop_assert_eq!(window.insert(number), expected);
            }
        }
    }
}
