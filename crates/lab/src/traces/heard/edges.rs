//! The edges of slots on the monotonic clock, numbered by the wall clock.

use sys::clock::now;
use sys::wall_clock::WallClock;
use units::{Duration, Instant};

/// Slots are numbered from 1970 on by the wall clock, as it stood when recording began, or was set
/// since; they last evenly by the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edges {
    /// What the wall clock showed when the monotonic clock was `at`.
    wall_ns: u64,
    at: Instant,
    clock: WallClock,
    slot_ns: u64,
}

impl Edges {
    pub(super) fn new(slot_ns: u64) -> Self {
        let clock = WallClock::measure();
        let at = now();
        let wall_ns = sys::wall_clock::realtime_nanos();
        Self { wall_ns, at, clock, slot_ns }
    }

    /// Returns the number of the slot that an instant lies in, and how many nanoseconds of it are
    /// over.
    pub(super) fn place(&self, at: Instant) -> (u64, u64) {
        (self.wall(at) / self.slot_ns, self.wall(at) % self.slot_ns)
    }

    /// Returns when a slot begins.
    pub(super) fn begin(&self, slot: u64) -> Instant {
        let wall = slot.saturating_mul(self.slot_ns);
        self.at + Duration::from_nanos(wall.saturating_sub(self.wall_ns))
    }

    /// Returns nanoseconds since 1970.
    pub(super) fn wall(&self, at: Instant) -> u64 {
        self.wall_ns.saturating_add(at.since(self.at).as_nanos())
    }

    /// Returns by how much the wall clock was set since, if by a slot or more: then new edges are
    /// due.
    pub(super) fn set_by(&self) -> Option<Duration> {
        let step = WallClock::measure().step_since(self.clock);
        (step.as_nanos() >= self.slot_ns).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_begins_where_its_number_does() {
        let edges = Edges::new(10_000_000);
        let (slot, _) = edges.place(now());
        for ahead in 1..5 {
            let begin = edges.begin(slot + ahead);
            assert_eq!(edges.place(begin), (slot + ahead, 0));
            let last = edges.place(begin + Duration::from_nanos(9_999_999));
            assert_eq!(last, (slot + ahead, 9_999_999));
        }
        assert_eq!(edges.set_by(), None);
    }
}
