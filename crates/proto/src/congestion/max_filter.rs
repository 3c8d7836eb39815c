//! The largest rate of the last round trips.

use std::collections::VecDeque;

use units::Rate;

/// Round trips for which the largest rate is remembered.
const ROUNDS: u64 = 10;

/// Remembers the largest rate of the last [`ROUNDS`].
#[derive(Clone, Debug, Default)]
pub(super) struct MaxFilter {
    /// Rates fall and rounds rise from front to back: the first is the largest.
    samples: VecDeque<(u64, Rate)>,
}

impl MaxFilter {
    pub(super) fn on_sample(&mut self, round: u64, rate: Rate) {
        while self.samples.back().is_some_and(|&(_, last)| last <= rate) {
            self.samples.pop_back();
        }
        // One entry per round is enough: a smaller one of the same round never becomes the largest.
        if self.samples.back().is_none_or(|&(last, _)| last != round) {
            self.samples.push_back((round, rate));
        }
        while self.samples.front().is_some_and(|&(first, _)| first + ROUNDS < round) {
            self.samples.pop_front();
        }
    }

    pub(super) fn max(&self) -> Rate {
        self.samples.front().map_or(Rate::ZERO, |&(_, rate)| rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_rate_lasts_its_rounds_and_no_longer() {
        let mut filter = MaxFilter::default();
        assert_eq!(filter.max(), Rate::ZERO);
        filter.on_sample(0, Rate::from_bps(9));
        (1..=10).for_each(|round| filter.on_sample(round, Rate::from_bps(5)));
        assert_eq!(filter.max(), Rate::from_bps(9));
        filter.on_sample(11, Rate::from_bps(4));
        assert_eq!(filter.max(), Rate::from_bps(5));
    }
}
