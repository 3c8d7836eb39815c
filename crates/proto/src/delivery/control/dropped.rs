//! What came in and was not passed on: too late, or behind a newer message of its lane.
//!
//! An acknowledgement says that a packet came in, not what became of its messages. So the list goes
//! ahead of every acknowledgement until the sender has it [specs/delivery.md §4] (rule 8): then
//! what is acknowledged and was not listed was passed on, and nobody has to guess.

use std::collections::BTreeMap;

use crate::limits;
use crate::wire::{AckRanges, DroppedFrame};

/// Lists messages by number until their sender knows.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// The numbers, each with the count of changes that it came with.
    numbers: BTreeMap<u64, u64>,
    changes: u64,
    /// Numbers below may be missing in the list.
    unlisted: u64,
}

impl Dropped {
    /// Adds a message; one too many lets go the lowest number.
    pub(super) fn note(&mut self, number: u64) {
        self.changes += 1;
        self.numbers.insert(number, self.changes);
        if self.numbers.len() > limits::DROPPED_MESSAGES
            && let Some((lowest, _)) = self.numbers.pop_first()
        {
            self.unlisted = self.unlisted.max(lowest + 1);
        }
    }

    /// Returns the list, in at most `room` bytes, and the count for [`Dropped::on_told`]; none
    /// where it is empty. What does not fit are the lowest numbers.
    pub(super) fn frame(&self, room: usize) -> Option<(DroppedFrame, u64)> {
        let mut descending = self.numbers.keys().rev().copied().peekable();
        let ranges = std::iter::from_fn(|| {
            let high = descending.next()?;
            let mut low = high;
            while let Some(next) = descending.next_if(|next| next + 1 == low) {
                low = next;
            }
            Some(low..=high)
        });
        let numbers = AckRanges::from_descending(ranges)?;
        let mut frame = DroppedFrame { unlisted: self.unlisted, numbers };
        let lowest = self.numbers.keys().next().copied();
        if lowest.is_some_and(|lowest| lowest < frame.numbers.smallest()) {
            frame.unlisted = frame.unlisted.max(frame.numbers.smallest());
        }
        frame.fit(room);
        Some((frame, self.changes))
    }

    /// Notes that the sender has the list as it was after so many changes.
    pub(super) fn on_told(&mut self, changes: u64) {
        self.numbers.retain(|_, change| *change > changes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(dropped: &Dropped, room: usize) -> (u64, Vec<(u64, u64)>) {
        let (frame, _) = dropped.frame(room).expect("not empty");
        (frame.unlisted, frame.numbers.iter().map(|range| range.into_inner()).collect())
    }

    #[test]
    fn what_was_dropped_is_listed_until_it_is_told() {
        let mut dropped = Dropped::default();
        assert!(dropped.frame(500).is_none());
        for number in [7, 9, 8, 3] {
            dropped.note(number);
        }
        assert_eq!(listed(&dropped, 500), (0, vec![(7, 9), (3, 3)]));
        let (_, changes) = dropped.frame(500).expect("not empty");
        dropped.note(4);
        dropped.on_told(changes);
        assert_eq!(listed(&dropped, 500), (0, vec![(4, 4)]), "what came later stays");
        dropped.on_told(changes + 1);
        assert!(dropped.frame(500).is_none());
    }

    #[test]
    fn what_does_not_fit_is_said_not_to_be_listed() {
        let mut dropped = Dropped::default();
        for number in 0..100 {
            dropped.note(10 * number);
        }
        let (unlisted, ranges) = listed(&dropped, 500);
        assert_eq!((unlisted, ranges.len()), (990 - 310, 32), "as many ranges as a frame has");
        let (unlisted, ranges) = listed(&dropped, 12);
        let lowest = ranges.last().expect("one").0;
        assert_eq!(unlisted, lowest, "as many as there is room for");
        assert!(ranges.len() < 5);
    }

    #[test]
    fn the_list_is_bounded() {
        let mut dropped = Dropped::default();
        let most = limits::DROPPED_MESSAGES as u64;
        (0..most + 10).for_each(|number| dropped.note(number));
        assert_eq!(listed(&dropped, 500), (10, vec![(10, most + 9)]));
    }
}
