//! The least of what was measured lately: what delay and round-trip time are without a queue
//! (`../bottleneck.rs`).

use units::{Duration, Instant};

/// Seconds for which the least delay is remembered.
const BASE_SECONDS: usize = 10;

/// The least value of the last seconds in which the path was shown to be empty; other seconds do
/// not count, so that a queue that never empties does not become the base.
#[derive(Clone, Debug)]
pub(super) struct LeastOf<T> {
    slots: [Option<T>; BASE_SECONDS],
    current: usize,
    began: Option<Instant>,
    /// The least of all, which is asked for far more often than it changes.
    least: Option<T>,
}

impl<T> Default for LeastOf<T> {
    fn default() -> Self {
        Self { slots: [const { None }; BASE_SECONDS], current: 0, began: None, least: None }
    }
}

impl<T: Copy + Ord> LeastOf<T> {
    /// Takes a value and returns the least; time passes only where `was_empty`.
    pub(super) fn on_sample(&mut self, now: Instant, value: T, was_empty: bool) -> T {
        let began = *self.began.get_or_insert(now);
        if was_empty && now.since(began) >= Duration::from_secs(1) {
            self.current = (self.current + 1) % BASE_SECONDS;
            self.slots[self.current] = None;
            self.began = Some(now);
        }
        let slot = &mut self.slots[self.current];
        *slot = Some(slot.map_or(value, |least| least.min(value)));
        self.least = self.slots.iter().copied().flatten().min();
        self.least.unwrap_or(value)
    }

    /// Returns the least value.
    pub(super) fn least(&self) -> Option<T> {
        self.least
    }
}
