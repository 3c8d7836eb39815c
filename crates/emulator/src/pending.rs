//! Frames that wait for their time.
//!
//! Not a model of a queue: `netem` has already decided when each frame leaves; here it only waits.
//! The engine puts frames in as verdicts fall and takes them out as they become due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Instant;

/// Most memory for waiting frames. 256 MiB hold two seconds of a gigabit; a scenario that needs
/// more (no rate, no queue limit, a flood) is told so by the audit instead of by the kernel.
const MAX_BYTES: usize = 256 << 20;

/// A frame and where it goes.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) due: Instant,
    pub(crate) interface: u32,
    pub(crate) frame: Vec<u8>,
}

/// Waiting frames in the order of their time; those of equal time in the order of their coming.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    order: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    slots: Vec<Waiting>,
    free: Vec<usize>,
    arrivals: u64,
    bytes: usize,
}

impl Pending {
    /// Keeps a copy of `frame` until `due`; false when there is no room for it.
    #[must_use]
    pub(crate) fn insert(&mut self, due: Instant, interface: u32, frame: &[u8]) -> bool {
        if self.bytes + frame.len() > MAX_BYTES {
            return false;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Waiting { due, interface, frame: Vec::new() });
                self.slots.len() - 1
            }
        };
        // The slot's buffer is kept from its last use: a steady flow allocates nothing.
        let waiting = &mut self.slots[slot];
        (waiting.due, waiting.interface) = (due, interface);
        waiting.frame.clear();
        waiting.frame.extend_from_slice(frame);
        self.bytes += frame.len();
        self.order.push(Reverse((due, self.arrivals, slot)));
        self.arrivals += 1;
        true
    }

    /// Returns when the next frame leaves.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.order.peek().map(|Reverse((due, _, _))| *due)
    }

    /// Shows the next frame that is due at `now` to `work` and forgets it.
    pub(crate) fn with_due<T>(
        &mut self,
        now: Instant,
        work: impl FnOnce(&mut Waiting) -> T,
    ) -> Option<T> {
        let slot = match self.order.peek() {
            Some(&Reverse((due, _, slot))) if due <= now => slot,
            _ => return None,
        };
        self.order.pop();
        self.free.push(slot);
        self.bytes -= self.slots[slot].frame.len();
        Some(work(&mut self.slots[slot]))
    }

    /// Forgets all frames.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_by_time_and_equal_times_by_arrival() {
        let mut pending = Pending::default();
        let at = Instant::from_millis;
        for (due, name) in [(3, 1), (1, 2), (3, 3), (2, 4)] {
            assert!(pending.insert(at(due), 7, &[name]));
        }
        let mut names = Vec::new();
        while let Some(name) = pending.with_due(at(2), |waiting| waiting.frame[0]) {
            names.push(name);
        }
        assert_eq!(pending.next_due(), Some(at(3)));
        assert!(pending.insert(at(3), 7, &[5]), "a slot is used again");
        while let Some(name) = pending.with_due(at(9), |waiting| waiting.frame[0]) {
            names.push(name);
        }
        assert_eq!(names, [2, 4, 1, 3, 5]);
        assert_eq!(pending.bytes, 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut pending = Pending::default();
        let frame = vec![0; 1 << 20];
        let kept = (0..300).filter(|_| pending.insert(Instant::ZERO, 1, &frame)).count();
        assert_eq!(kept, 256);
    }
}
