//! Which slot a transmitter sends in next, and when.
//!
//! ```text
//! slots of the clock      |  5  |  6  |  7  |  8  |  9  |        frames are sent at edges of these, `ahead` early
//! sent, two ahead            5 6 7  8     9    10    11           (here 5 begins: it and those ahead leave at once)
//! slots of the interface    |  5  |  6  |  7  |  8  |  9  |      each takes the frame that has waited longest
//! ```
//! An interface that has slots of its own takes a frame in each of them as long as one waits. So
//! that frame and slot lie equally far apart on all machines and for good, frames that are sent
//! ahead begin at an edge, and after a slot that may have passed idle they begin again.

/// What is sent ahead begins in so small a part of a slot.
const EARLY: u64 = 8;

/// The turns of a transmitter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    slot_ns: u64,
    ahead: u64,
    /// The slot that it has begun with, or begun again.
    first: u64,
    /// The last one whose turn is over.
    last: u64,
}

impl Turns {
    /// Begins with the slot after `at`.
    pub(super) fn after(at: u64, slot_ns: u64, ahead: u64) -> Self {
        Self { slot_ns, ahead, first: at + 1, last: at }
    }

    /// Returns whose turn it is.
    pub(super) fn next(&self) -> u64 {
        self.last + 1
    }

    /// Returns at the beginning of which slot that is.
    pub(super) fn due(&self) -> u64 {
        self.next().saturating_sub(self.ahead).max(self.first)
    }

    /// Passes over slots in which nothing can be sent any more, as it is slot `at` already and
    /// `into_ns` of it are over; returns how many these are. A slot that is over is not made up
    /// for, as a slot carries one frame.
    pub(super) fn miss(&mut self, at: u64, into_ns: u64) -> u64 {
        let next = self.next();
        if self.ahead == 0 {
            let missed = at.saturating_sub(next);
            self.last += missed;
            return missed;
        }
        // A slot that has begun may have passed idle already, and what begins late lies elsewhere
        // in it.
        let begins = next == self.first && into_ns < self.slot_ns / EARLY;
        if at < next || at == next && begins {
            return 0;
        }
        let missed = at - self.last;
        *self = Self::after(at, self.slot_ns, self.ahead);
        missed
    }

    /// The frame was sent.
    pub(super) fn sent(&mut self) {
        self.last += 1;
    }

    /// The frame could not be sent: no other one takes its slot, so what waits goes first.
    pub(super) fn refused(&mut self) {
        *self = Self::after(self.next(), self.slot_ns, self.ahead);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use units::Rng;

    const SLOT: u64 = 1_000;

    /// Sends for 2,000 slots from a machine that wakes up late, over an interface whose slots begin
    /// `phase` after those of the clock; returns by how much the slots of interface and frame
    /// differ, for each frame.
    fn flown(seed: u64, ahead: u64, phase: u64) -> Vec<i64> {
        let mut rng = Rng::stream(seed, "turns");
        let mut below = |most: u64| (rng.unit() * most as f64) as u64;
        let mut now = 50 * SLOT + below(SLOT);
        let mut turns = Turns::after(now / SLOT, SLOT, ahead);
        let (mut waiting, mut taken) = (VecDeque::new(), now.saturating_sub(phase) / SLOT);
        let mut apart = Vec::new();
        while now < 2_050 * SLOT {
            if turns.due() * SLOT > now {
                // Mostly a little late, sometimes by some slots.
                let late = if below(100) == 0 { below(6 * SLOT) } else { below(SLOT / 5) };
                now = turns.due() * SLOT + late;
            }
            while (taken + 1) * SLOT + phase <= now {
                taken += 1;
                apart.extend(waiting.pop_front().map(|slot: u64| taken as i64 - slot as i64));
            }
            if turns.miss(now / SLOT, now % SLOT) > 0 {
                continue;
            }
            if below(200) == 0 {
                turns.refused();
                continue;
            }
            waiting.push_back(turns.next());
            turns.sent();
        }
        apart
    }

    #[test]
    fn frames_that_are_sent_ahead_lie_equally_far_from_the_interfaces_slots_for_good() {
        for (seed, ahead) in (1..200).zip([1, 2, 4, 16].into_iter().cycle()) {
            for phase in [SLOT / EARLY, SLOT / 2, SLOT - 1] {
                let apart = flown(seed, ahead, phase);
                assert!(apart.len() > 1_000, "{}", apart.len());
                let first = apart[0];
                assert_eq!((first, apart.iter().find(|n| **n != first)), (0, None), "seed {seed}");
            }
        }
    }

    #[test]
    fn without_ahead_each_slot_is_sent_in_as_long_as_it_lasts() {
        let mut turns = Turns::after(10, SLOT, 0);
        assert_eq!((turns.next(), turns.due(), turns.miss(11, 999)), (11, 11, 0));
        turns.sent();
        // Three slots later: two are over.
        assert_eq!((turns.miss(14, 500), turns.next(), turns.due()), (2, 14, 14));
        turns.refused();
        assert_eq!((turns.next(), turns.due()), (15, 15));
    }
}
