//! A half-duplex medium: a radio channel on which only one transmitter works at a time.
//!
//! First come, first served: a packet takes the first free stretch of the medium that is long
//! enough and begins no earlier than its own transmitter is ready. Collisions and random back-off
//! are not modelled: their mean cost is the gap that each transmission leaves free behind it.
//!
//! Among links with recorded slots, where large packets have slots of their own, the rest is a
//! debt: what small packets and link-layer acknowledgements take of the air is added up, and the
//! next large packet waits for the whole slots in it. Time in which no large packet waits pays it.

use std::collections::VecDeque;
use units::{Duration, Instant};

/// Describes a medium of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediumModel {
    /// What links call it.
    pub name: String,
    /// How long the medium stays free after each transmission (inter-frame space, mean back-off,
    /// acknowledgement of the link layer); with recorded slots, behind each small packet.
    pub gap: Duration,
    /// How long the link layer's acknowledgement of a try takes, where the recorded slots are
    /// those of broadcasts, which nobody acknowledges.
    pub acknowledgement: Duration,
}

/// A medium with what is reserved on it.
#[derive(Clone, Debug)]
pub(crate) struct Medium {
    gap: Duration,
    acknowledgement: Duration,
    /// What others took of the slots' time, and no large packet has waited for yet.
    owed: Duration,
    /// Reserved stretches, gaps included, in order, neither overlapping nor touching.
    reserved: VecDeque<(Instant, Instant)>,
}

impl Medium {
    pub(crate) fn new(model: &MediumModel) -> Self {
        let MediumModel { gap, acknowledgement, .. } = *model;
        Self { gap, acknowledgement, owed: Duration::ZERO, reserved: VecDeque::new() }
    }

    /// Returns how much of the air a small packet takes that is `time` long.
    pub(crate) fn aside(&self, time: Duration) -> Duration {
        time + self.gap
    }

    /// Returns how much of the air a large packet takes beside its slots, with so many tries.
    pub(crate) fn acknowledgements(&self, tries: u64) -> Duration {
        self.acknowledgement * u32::try_from(tries).unwrap_or(u32::MAX)
    }

    /// Returns what is owed, in whole slots.
    pub(crate) fn owed_slots(&self, slot: Duration) -> Duration {
        let nanos = slot.as_nanos().max(1);
        Duration::from_nanos(self.owed.as_nanos() / nanos * nanos)
    }

    /// Notes that a transmission took `takes` of the air beside the slots, and waited for `pays`.
    pub(crate) fn settle(&mut self, takes: Duration, pays: Duration) {
        self.owed = (self.owed + takes).saturating_sub(pays);
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
    fn what_is_owed_is_waited_for_in_whole_slots() {
        let ms = Duration::from_millis;
        let model = MediumModel { gap: ms(2), acknowledgement: ms(1), ..MediumModel::default() };
        let mut medium = Medium::new(&model);
        medium.settle(medium.aside(ms(3)), Duration::ZERO);
        medium.settle(medium.acknowledgements(4), Duration::ZERO);
        assert_eq!(medium.owed_slots(ms(10)), Duration::ZERO);
        medium.settle(medium.aside(ms(11)), Duration::ZERO);
        assert_eq!(medium.owed_slots(ms(10)), ms(20), "5 + 4 + 13");
        medium.settle(Duration::ZERO, ms(20));
        assert_eq!((medium.owed, medium.owed_slots(ms(2))), (ms(2), ms(2)));
    }

    #[test]
    fn transmissions_take_turns_and_fill_gaps_that_are_long_enough() {
        let ms = Duration::from_millis;
        let at = Instant::from_millis;
        let mut medium = Medium::new(&MediumModel { gap: ms(1), ..MediumModel::default() });
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
