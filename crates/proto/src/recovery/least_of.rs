//! The least of what was measured lately: what delay and round-trip time are without a queue
//! (`rtt.rs`, `../path/bottleneck.rs`).

use units::{Duration, Instant};

/// For how long what a link has shown of its delay, jitter, losses and reordering counts, where
/// nothing newer makes it forgotten: links of vehicles change.
pub(crate) const LINK_MEMORY: Duration = Duration::from_secs(10);

/// The least value of the last seconds that count. Those without samples do not, so that an idle
/// path keeps what it knew; nor do those in which the path was not shown to be empty, so that a
/// queue that never empties does not become the base.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeastOf<T> {
    /// One for each second.
    slots: [Option<T>; LINK_MEMORY.as_secs() as usize],
    current: usize,
    began: Option<Instant>,
    /// The least of all, which is asked for far more often than it changes.
    least: Option<T>,
}

impl<T: Copy + Ord> LeastOf<T> {
    /// Takes a value and returns the least; time passes only where `was_empty`.
    pub(crate) fn on_sample(&mut self, now: Instant, value: T, was_empty: bool) -> T {
        let began = *self.began.get_or_insert(now);
        if was_empty && now.since(began) >= Duration::from_secs(1) {
            self.current = (self.current + 1) % self.slots.len();
            self.slots[self.current] = None;
            self.began = Some(now);
        }
        let slot = &mut self.slots[self.current];
        *slot = Some(slot.map_or(value, |least| least.min(value)));
        self.least = self.slots.iter().copied().flatten().min();
        self.least.unwrap_or(value)
    }

    /// Returns the least value.
    pub(crate) fn least(&self) -> Option<T> {
        self.least
    }
}
