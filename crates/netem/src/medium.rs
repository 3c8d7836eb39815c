//! A half-duplex medium: a radio channel on which only one transmitter works at a time.
//!
//! First come, first served: a packet takes the first free stretch of the medium that is long
//! enough and begins no earlier than its own transmitter is ready. Collisions and random back-off
//! are not modelled: their mean cost is the gap that each transmission leaves free behind it.

use std::collections::VecDeque;
use units::{Duration, Instant};

/// Describes a medium of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediumModel {
    /// What links call it.
    pub name: String,
    /// How long the medium stays free after each transmission (inter-frame space, mean back-off,
    /// acknowledgement of the link layer).
    pub gap: Duration,
}

/// A medium with what is reserved on it.
#[derive(Clone, Debug)]
pub(crate) struct Medium {
    gap: Duration,
    /// Reserved stretches, gaps included, in order, neither overlapping nor touching.
    reserved: VecDeque<(Instant, Instant)>,
}

impl Medium {
    pub(crate) fn new(model: &MediumModel) -> Self {
        Self { gap: model.gap, reserved: VecDeque::new() }
    }

    /// Returns the first instant, `from` or later, at which a transmission of `time` finds the
    /// medium free for itself and for the gap behind it.
    pub(crate) fn first_gap(&self, from: Instant, time: Duration) -> Instant {
        let mut start = from;
        for &(busy_from, busy_until) in &self.reserved {
            if start + time + self.gap <= busy_from {
                break;
            }
            start = start.max(busy_until);
        }
        start
    }

    /// Reserves the medium from `start` to `end` and for the gap; `now` is the time of entry,
    /// before which nothing will be asked for any more.
    pub(crate) fn reserve(&mut self, now: Instant, start: Instant, end: Instant) {
        while self.reserved.front().is_some_and(|&(_, until)| until <= now) {
            self.reserved.pop_front();
        }
        let end = end + self.gap;
        let place = self.reserved.partition_point(|&(from, _)| from < start);
        self.reserved.insert(place, (start, end));
        self.join(place);
        if place > 0 {
            self.join(place - 1);
        }
    }

    /// Joins a stretch with the next one where they touch, so that a backlog is one stretch.
    fn join(&mut self, place: usize) {
        let (Some(&(start, end)), Some(&(next_start, next_end))) =
            (self.reserved.get(place), self.reserved.get(place + 1))
        else {
            return;
        };
        if next_start <= end {
            self.reserved[place] = (start, end.max(next_end));
            self.reserved.remove(place + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmissions_take_turns_and_fill_gaps_that_are_long_enough() {
        let ms = Duration::from_millis;
        let at = Instant::from_millis;
        let mut medium = Medium::new(&MediumModel { name: String::new(), gap: ms(1) });
        medium.reserve(at(0), at(0), at(9));
        medium.reserve(at(0), at(20), at(29));
        assert_eq!(medium.first_gap(at(5), ms(9)), at(10));
        assert_eq!(medium.first_gap(at(5), ms(10)), at(30));
        medium.reserve(at(5), at(10), at(19));
        assert_eq!(medium.reserved, [(at(0), at(30))]);
        medium.reserve(at(40), at(41), at(42));
        assert_eq!(medium.reserved, [(at(41), at(43))]);
    }
}
