//! The queue that stands in front of a bottleneck, from round-trip times alone.
//!
//! ```text
//! base     = least rtt of the last 10 s                       what the path takes when it is empty
//! standing = least rtt of the last half srtt (in start-up: of the last three samples)
//! queue    = standing − base
//! ```
//! The least of several samples passes over jitter and delayed acknowledgements
//! [Copa, Arun & Balakrishnan 2018, §2.2]. The base can only be seen when the queue is empty, so
//! whoever keeps a queue must let it run dry now and then; [`StandingQueue::base_seen_at`] says
//! when that last happened.

use std::collections::VecDeque;

use units::{Duration, Instant};

/// The base forgets after this long: a vehicle's route changes in flight.
const BASE_MEMORY: Duration = Duration::from_secs(10);
/// Slots of the base's memory.
const SLOTS: usize = 10;
/// A sample this close to the base shows that the queue is empty.
const NEAR_BASE: Duration = Duration::from_millis(2);
/// Samples that are kept; the filter needs those of half a round trip.
const SAMPLES: usize = 64;

/// Estimates the standing queue of one path.
#[derive(Clone, Debug)]
pub(super) struct StandingQueue {
    samples: VecDeque<(Instant, Duration)>,
    slots: [Duration; SLOTS],
    slot: usize,
    slot_began: Instant,
    base_seen_at: Instant,
}

impl StandingQueue {
    pub(super) fn new() -> Self {
        Self {
            samples: VecDeque::new(),
            slots: [Duration::MAX; SLOTS],
            slot: 0,
            slot_began: Instant::ZERO,
            base_seen_at: Instant::ZERO,
        }
    }

    pub(super) fn on_sample(&mut self, now: Instant, rtt: Duration) {
        if now.since(self.slot_began) >= BASE_MEMORY / SLOTS as u32 {
            self.slot = (self.slot + 1) % SLOTS;
            self.slots[self.slot] = Duration::MAX;
            self.slot_began = now;
        }
        self.slots[self.slot] = self.slots[self.slot].min(rtt);
        if rtt <= self.base() + NEAR_BASE {
            self.base_seen_at = now;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now, rtt));
    }

    /// Takes the standing round-trip time as the base: the route has changed, or others keep the
    /// queue full.
    pub(super) fn rebase(&mut self, now: Instant, base: Duration) {
        self.slots = [Duration::MAX; SLOTS];
        self.slots[self.slot] = base;
        self.base_seen_at = now;
    }

    /// Puts off the next look at the base although it was not seen.
    pub(super) fn looked_for_base(&mut self, now: Instant) {
        self.base_seen_at = now;
    }

    /// Forgets the recent samples, not the base: the path was silent.
    pub(super) fn on_silence(&mut self, now: Instant) {
        self.samples.clear();
        self.base_seen_at = now;
    }

    /// Returns the round-trip time of the empty path; zero before the first sample.
    pub(super) fn base(&self) -> Duration {
        let least = self.slots.iter().copied().min().unwrap_or(Duration::MAX);
        if least == Duration::MAX { Duration::ZERO } else { least }
    }

    /// Returns when the path was last seen empty.
    pub(super) fn base_seen_at(&self) -> Instant {
        self.base_seen_at
    }

    /// Returns the least of the samples taken since `since`, or of the last one.
    pub(super) fn standing_since(&self, since: Instant) -> Duration {
        let recent = self.samples.iter().rev().enumerate();
        let recent = recent.take_while(|&(index, &(at, _))| index == 0 || at >= since);
        recent.map(|(_, &(_, rtt))| rtt).min().unwrap_or_else(|| self.base())
    }

    /// Returns the standing queue, in time.
    pub(super) fn queue(&self, now: Instant, srtt: Duration) -> Duration {
        self.standing_since(now - srtt / 2).saturating_sub(self.base())
    }

    /// Returns the queue by the last three samples: quicker, and easier to mislead.
    pub(super) fn queue_soon(&self) -> Duration {
        let least = self.samples.iter().rev().take(3).map(|&(_, rtt)| rtt).min();
        least.unwrap_or_default().saturating_sub(self.base())
    }
}
