//! Which of the recent numbers have come in: what turns replays away and removes duplicates.
//!
//! A bitmap over the newest numbers of a sequence: of the packets of one path [specs/wire.md §2],
//! or of messages over all paths. One window for each path and direction: paths differ by hundreds
//! of milliseconds, and one window over all would throw away what the slow one brings. Packet
//! numbers are never reused, not even under new keys, so a path's window outlives them.
//!
//! A number older than the window counts as seen: a duplicate that slips through executes a command
//! twice, a message that is refused is merely lost. The bitmap is a ring of words as in [RFC 6479]:
//! moving forward clears words and shifts nothing.

/// Numbers in a word of the bitmap.
const WORD_BITS: u64 = 64;

/// Remembers the newest `size` numbers of a sequence.
#[derive(Debug)]
pub(crate) struct SeenWindow {
    /// One past the largest number seen.
    next: u64,
    /// As many words as a power of two, so that a number's place takes no division.
    words: Box<[u64]>,
}

impl SeenWindow {
    /// Starts with nothing seen; `size` is 64 times a power of two.
    pub(crate) fn new(size: u64) -> Self {
        debug_assert!(size.is_power_of_two() && size >= WORD_BITS, "{size}");
        Self { next: 0, words: vec![0; (size / WORD_BITS) as usize].into_boxed_slice() }
    }

    /// Extends the low 32 bits of a number to the nearest number in full.
    pub(crate) fn extend(&self, low: u32) -> u64 {
        extend(low, self.next)
    }

    /// Returns the number after the largest seen.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether a number has not been seen and is not older than the window.
    ///
    /// A datagram's number is checked before the datagram is opened, and noted only once it has
    /// authenticated.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        number >= self.next || (self.next - number <= self.size() && !self.get(number))
    }

    /// Notes a number; returns whether it was new.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        if !self.is_new(number) {
            return false;
        }
        if number >= self.next {
            if number - self.next >= self.size() {
                self.words.fill(0);
            } else {
                self.clear(self.next, number);
            }
            self.next = number.saturating_add(1);
        }
        let (word, bit) = self.position(number);
        self.words[word] |= bit;
        true
    }

    /// Forgets the numbers from `first` to below `end`, a word at a time.
    fn clear(&mut self, first: u64, end: u64) {
        let mut first = first;
        while first < end {
            let next = end.min((first / WORD_BITS + 1) * WORD_BITS);
            let (word, _) = self.position(first);
            let ones = u64::MAX >> (WORD_BITS - (next - first));
            self.words[word] &= !(ones << (first % WORD_BITS));
            first = next;
        }
    }

    fn get(&self, number: u64) -> bool {
        let (word, bit) = self.position(number);
        self.words[word] & bit != 0
    }

    fn size(&self) -> u64 {
        self.words.len() as u64 * WORD_BITS
    }

    fn position(&self, number: u64) -> (usize, u64) {
        let word = (number / WORD_BITS) & (self.words.len() as u64 - 1);
        (word as usize, 1 << (number % WORD_BITS))
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
    use crate::limits::REPLAY_WINDOW;
    use crate::wire::PACKET_NUMBER_MAX;

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

    /// Numbers around every place where a word or the window ends.
    fn edges() -> Vec<u64> {
        let words = [0, WORD_BITS, 2 * WORD_BITS];
        let round = [1, 2, 3].map(|round| round * REPLAY_WINDOW);
        let near = |edge: u64| edge.saturating_sub(1)..edge + 2;
        let far = PACKET_NUMBER_MAX - REPLAY_WINDOW - 1..PACKET_NUMBER_MAX - REPLAY_WINDOW + 2;
        let edges = words.into_iter().chain(round).flat_map(near).chain(far);
        edges.chain([PACKET_NUMBER_MAX]).collect::<BTreeSet<_>>().into_iter().collect()
    }

    #[test]
    fn any_three_numbers_at_the_edges_of_a_large_window_are_told_too() {
        let edges = edges();
        for [a, b, c] in triples(&edges) {
            let mut window = SeenWindow::new(REPLAY_WINDOW);
            let mut received = BTreeSet::new();
            for number in [a, b, c] {
                let next = received.last().map_or(0, |highest| highest + 1);
                let old = next > number + REPLAY_WINDOW;
                let fresh = !old && !received.contains(&number);
                assert_eq!(window.is_new(number), fresh, "{number} of {a}, {b}, {c}");
                assert_eq!(window.insert(number), fresh);
                received.insert(number);
            }
            let next = received.last().map_or(0, |highest| highest + 1);
            for &number in &edges {
                let fresh = next <= number + REPLAY_WINDOW && !received.contains(&number);
                assert_eq!(window.is_new(number), fresh, "{number} after {a}, {b}, {c}");
            }
        }
    }

    fn triples(numbers: &[u64]) -> impl Iterator<Item = [u64; 3]> {
        let pairs = numbers.iter().flat_map(|&a| numbers.iter().map(move |&b| (a, b)));
        pairs.flat_map(|(a, b)| numbers.iter().map(move |&c| [a, b, c]))
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
        fn large_window_agrees_with_a_set(
            steps in prop::collection::vec((any::<bool>(), 0_u64..20_000), 1..400),
        ) {
            let mut window = SeenWindow::new(REPLAY_WINDOW);
            let mut seen = BTreeSet::new();
            for (forward, distance) in steps {
                let next = window.next();
                let base = next.saturating_sub(1);
                let number = if forward { base + distance } else { base.saturating_sub(distance) };
                let fresh = next <= number + REPLAY_WINDOW && !seen.contains(&number);
                prop_assert_eq!(window.is_new(number), fresh);
                prop_assert_eq!(window.insert(number), fresh);
                seen.insert(number);
            }
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
