//! The calendar of a link's outages: which instants lie in one, and when it is over.

use super::model::{Outage, OutageMode, QueueLimit};
use units::{Duration, Instant};

/// Holds the outages of one kind in order of time, overlapping ones joined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calendar {
    windows: Vec<Window>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    start: Instant,
    end: Instant,
    queue: Option<QueueLimit>,
}

impl Calendar {
    /// Takes the outages that drop.
    pub(crate) fn of_drops(outages: &[Outage]) -> Self {
        Self::new(outages, |mode| (mode == OutageMode::Drop).then_some(None))
    }

    /// Takes the outages that hold and release.
    pub(crate) fn of_holds(outages: &[Outage]) -> Self {
        Self::new(outages, |mode| match mode {
            OutageMode::Hold { queue } => Some(queue),
            OutageMode::Drop => None,
        })
    }

    fn new(outages: &[Outage], select: impl Fn(OutageMode) -> Option<Option<QueueLimit>>) -> Self {
        let mut all: Vec<Window> = outages
            .iter()
            .filter(|outage| outage.duration > Duration::ZERO)
            .filter_map(|outage| {
                let queue = select(outage.mode)?;
                Some(Window { start: outage.start, end: outage.start + outage.duration, queue })
            })
            .collect();
        all.sort_by_key(|window| window.start);
        let mut windows: Vec<Window> = Vec::with_capacity(all.len());
        for window in all {
            match windows.last_mut() {
                Some(last) if window.start <= last.end => {
                    last.end = last.end.max(window.end);
                    last.queue = last.queue.or(window.queue);
                }
                _ => windows.push(window),
            }
        }
        Self { windows }
    }

    /// Returns the same calendar with every outage later by `by`.
    pub(crate) fn later(&self, by: Duration) -> Self {
        let later = |window: &Window| Window {
            start: window.start + by,
            end: window.end + by,
            queue: window.queue,
        };
        Self { windows: self.windows.iter().map(later).collect() }
    }

    /// Returns true when `at` lies in an outage.
    pub(crate) fn contains(&self, at: Instant) -> bool {
        self.window(at).is_some()
    }

    /// Returns the queue limit that replaces the link's own at `at`, if an outage has one.
    pub(crate) fn queue(&self, at: Instant) -> Option<QueueLimit> {
        self.window(at).and_then(|window| window.queue)
    }

    /// Returns the first instant, `at` or later, that lies in no outage.
    pub(crate) fn first_free(&self, at: Instant) -> Instant {
        self.window(at).map_or(at, |window| window.end)
    }

    /// Returns when the first outage after `at` begins; the end of time when there is none.
    pub(crate) fn next_start(&self, at: Instant) -> Instant {
        let index = self.windows.partition_point(|window| window.start <= at);
        self.windows.get(index).map_or(Instant::from_nanos(u64::MAX), |window| window.start)
    }

    /// Returns when work of `duration` that starts at `start` ends, if it rests during outages.
    pub(crate) fn finish(&self, start: Instant, duration: Duration) -> Instant {
        let mut end = start + duration;
        let first = self.windows.partition_point(|window| window.end <= start);
        for window in &self.windows[first..] {
            // Work that ends exactly when an outage begins is done.
            if window.start >= end {
                break;
            }
            end += window.end.since(window.start.max(start));
        }
        end
    }

    fn window(&self, at: Instant) -> Option<&Window> {
        let index = self.windows.partition_point(|window| window.end <= at);
        self.windows.get(index).filter(|window| window.start <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calendar(windows: &[(u64, u64)]) -> Calendar {
        let outages: Vec<Outage> = windows
            .iter()
            .map(|&(start, ms)| Outage {
                start: Instant::from_millis(start),
                duration: Duration::from_millis(ms),
                mode: OutageMode::Drop,
            })
            .collect();
        Calendar::of_drops(&outages)
    }

    #[test]
    fn overlapping_outages_are_one() {
        let calendar = calendar(&[(10, 5), (30, 5), (12, 8), (20, 1)]);
        assert_eq!(calendar.windows.len(), 2);
        assert_eq!(calendar.first_free(Instant::from_millis(11)), Instant::from_millis(21));
        assert!(!calendar.contains(Instant::from_millis(21)));
        assert!(calendar.contains(Instant::from_millis(34)));
    }

    #[test]
    fn work_rests_during_outages() {
        let calendar = calendar(&[(10, 5), (20, 5)]);
        let finish = |start, ms| {
            calendar.finish(Instant::from_millis(start), Duration::from_millis(ms)).as_micros()
        };
        assert_eq!(finish(5, 5), 10_000);
        assert_eq!(finish(5, 6), 16_000);
        assert_eq!(finish(5, 11), 26_000);
        assert_eq!(finish(12, 1), 16_000);
    }
}
