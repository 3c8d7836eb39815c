//! The replay window: which packet numbers of one path have been received.
//!
//! One window per path and direction: paths differ by hundreds of milliseconds, and one window
//! over all of them would throw away what the slow path brings. Numbers are never reused, not even
//! under new keys, so the window outlives rekeying. The bitmap is a ring of words as in
//! [RFC 6479]: moving forward clears whole words and shifts nothing.

use crate::limits::REPLAY_WINDOW;

const WORD_BITS: u64 = 64;
/// One word more than the window, so that it holds at every alignment.
const WORDS: usize = (REPLAY_WINDOW / WORD_BITS) as usize + 1;

/// Remembers the received ones among the last [`REPLAY_WINDOW`] packet numbers.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow {
    /// One above the highest number received; zero before the first.
    next: u64,
    words: Box<[u64; WORDS]>,
}

impl ReplayWindow {
    /// Starts with nothing received.
    pub(crate) fn new() -> Self {
        Self { next: 0, words: Box::new([0; WORDS]) }
    }

    /// Returns true when `packet_number` is neither received nor too old to tell.
    ///
    /// Called before the datagram is opened; [`ReplayWindow::mark`] only after it authenticated.
    pub(crate) fn check(&self, packet_number: u64) -> bool {
        if packet_number >= self.next {
            return true;
        }
        let in_window = self.next - packet_number <= REPLAY_WINDOW;
        in_window && self.words[word(packet_number)] & bit(packet_number) == 0
    }

    /// Notes that an authenticated datagram of this number came in.
    pub(crate) fn mark(&mut self, packet_number: u64) {
        if packet_number >= self.next {
            self.advance(packet_number);
        } else if self.next - packet_number > REPLAY_WINDOW {
            return;
        }
        self.words[word(packet_number)] |= bit(packet_number);
    }

    /// Clears the words between the old highest number and the new one.
    fn advance(&mut self, packet_number: u64) {
        let old = self.next.checked_sub(1).map_or(0, |highest| highest / WORD_BITS);
        let steps = (packet_number / WORD_BITS - old).min(WORDS as u64);
        for step in 1..=steps {
            self.words[((old + step) % WORDS as u64) as usize] = 0;
        }
        self.next = packet_number + 1;
    }
}

fn word(packet_number: u64) -> usize {
    (packet_number / WORD_BITS % WORDS as u64) as usize
}

fn bit(packet_number: u64) -> u64 {
    1 << (packet_number % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::PACKET_NUMBER_MAX;

    #[test]
    fn a_number_passes_once_and_an_old_one_never() {
        let mut window = ReplayWindow::new();
        assert!(window.check(0));
        window.mark(0);
        assert!(!window.check(0));
        window.mark(REPLAY_WINDOW);
        assert!(!window.check(0), "beyond the window");
        assert!(window.check(1), "the last one inside");
        window.mark(1 << 47);
        assert!(!window.check(REPLAY_WINDOW + 1));
        assert!(window.check((1 << 47) - 1));
    }

    /// Numbers around every place where a word, the window or the ring of words ends.
    fn edges() -> Vec<u64> {
        let ring = WORDS as u64 * WORD_BITS;
        let words = [0, WORD_BITS, 2 * WORD_BITS];
        let round = [REPLAY_WINDOW, ring, 2 * REPLAY_WINDOW, 2 * ring, 3 * ring];
        let near = |edge: u64| edge.saturating_sub(1)..edge + 2;
        let far = PACKET_NUMBER_MAX - ring..PACKET_NUMBER_MAX - ring + 2;
        let edges = words.into_iter().chain(round).flat_map(near).chain(far);
        edges.chain([PACKET_NUMBER_MAX]).collect::<BTreeSet<_>>().into_iter().collect()
    }

    #[test]
    fn any_three_numbers_at_the_edges_are_told_as_a_set_tells_them() {
        let edges = edges();
        for [a, b, c] in triples(&edges) {
            let mut window = ReplayWindow::new();
            let mut received = BTreeSet::new();
            for number in [a, b, c] {
                let next = received.last().map_or(0, |highest| highest + 1);
                let old = next > number + REPLAY_WINDOW;
                let fresh = !old && !received.contains(&number);
                assert_eq!(window.check(number), fresh, "{number} of {a}, {b}, {c}");
                window.mark(number);
                received.insert(number);
            }
            let next = received.last().map_or(0, |highest| highest + 1);
            for &number in &edges {
                let fresh = next <= number + REPLAY_WINDOW && !received.contains(&number);
                assert_eq!(window.check(number), fresh, "{number} after {a}, {b}, {c}");
            }
        }
    }

    fn triples(numbers: &[u64]) -> impl Iterator<Item = [u64; 3]> {
        let pairs = numbers.iter().flat_map(|&a| numbers.iter().map(move |&b| (a, b)));
        pairs.flat_map(|(a, b)| numbers.iter().map(move |&c| [a, b, c]))
    }

    proptest! {
        #[test]
        fn the_window_agrees_with_a_set(
            steps in prop::collection::vec((any::<bool>(), 0_u64..20_000), 1..400),
        ) {
            let mut window = ReplayWindow::new();
            let mut received = BTreeSet::new();
            let mut base = 0_u64;
            for (forward, distance) in steps {
                let number = if forward { base + distance } else { base.saturating_sub(distance) };
                let highest = received.last().copied().unwrap_or(0);
                let old = !received.is_empty() && highest + 1 > number + REPLAY_WINDOW;
                prop_assert_eq!(window.check(number), !old && !received.contains(&number));
                window.mark(number);
                if !old {
                    received.insert(number);
                }
                base = received.last().copied().unwrap_or(0);
            }
        }
    }
}
