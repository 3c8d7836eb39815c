//! What will happen in the world, ordered by time, and at one instant by creation.
//!
//! The heap holds small keys only; the events themselves stay in slots, which are reused, so that
//! sorting moves 24 bytes and not a datagram's addresses.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use units::Instant;

/// One thing that will happen.
pub(super) enum Event {
    Arrival(Passenger),
    Mark(u64),
}

/// A datagram on its way to a host.
pub(super) struct Passenger {
    pub(super) host: usize,
    pub(super) interface: usize,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

/// Orders events by time, and by creation where times are equal.
#[derive(Default)]
pub(super) struct EventQueue {
    /// Time, number and slot of each event, the earliest on top.
    heap: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    slots: Vec<Option<Event>>,
    free: Vec<usize>,
    created: u64,
}

impl EventQueue {
    pub(super) fn push(&mut self, at: Instant, event: Event) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(event);
                slot
            }
            None => {
                self.slots.push(Some(event));
                self.slots.len() - 1
            }
        };
        self.heap.push(Reverse((at, self.created, slot)));
        self.created += 1;
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes the next event if it is due at `at`.
    pub(super) fn pop_at(&mut self, at: Instant) -> Option<Event> {
        if self.next_at() != Some(at) {
            return None;
        }
        let Reverse((_, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        self.slots[slot].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_instant_come_in_the_order_of_creation() {
        let mut queue = EventQueue::default();
        let (early, late) = (Instant::from_nanos(1), Instant::from_nanos(2));
        for (at, mark) in [(late, 0), (early, 1), (late, 2), (early, 3)] {
            queue.push(at, Event::Mark(mark));
        }
        let mut marks = Vec::new();
        while let Some(at) = queue.next_at() {
            match queue.pop_at(at) {
                Some(Event::Mark(mark)) => marks.push(mark),
                _ => panic!("there are marks only"),
            }
        }
        assert_eq!(marks, [1, 3, 0, 2]);
        assert!(queue.pop_at(late).is_none());
        queue.push(early, Event::Mark(9));
        assert_eq!(queue.slots.len(), 4, "slots are used again");
    }
}
