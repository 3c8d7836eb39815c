//! What will happen in the world, in order: by time, and at one instant in the order of creation.

use std::cmp::Ordering;
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
    heap: BinaryHeap<Entry>,
    created: u64,
}

impl EventQueue {
    pub(super) fn push(&mut self, at: Instant, event: Event) {
        self.heap.push(Entry { at, number: self.created, event });
        self.created += 1;
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes the next event if it is due at `at`.
    pub(super) fn pop_at(&mut self, at: Instant) -> Option<Event> {
        if self.next_at() != Some(at) {
            return None;
        }
        self.heap.pop().map(|entry| entry.event)
    }
}

struct Entry {
    at: Instant,
    number: u64,
    event: Event,
}

impl Ord for Entry {
    /// The heap has its greatest on top, so the earliest is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}
