//! The queue that stands in front of a bottleneck, from round-trip times alone.
//!
//! ```text
//! base     = least rtt of the last 15 s                       what the path takes when it is empty
//! standing = least rtt of the last half srtt (in start-up: of the last three samples)
//! queue    = standing − base
//! ```
//! The least of several samples filters out jitter and delayed acknowledgements [Copa §2]. What is
//! left of jitter, the change of the standing round-trip time from one half round trip to the next,
//! is [`StandingQueue::noise`].
//!
//! The base can only be seen when the queue is empty, so a sender that keeps a queue must let it
//! run dry now and then; [`StandingQueue::base_seen_at`] says when that last happened. A route that
//! becomes longer shows as a gap in the acknowledgements that is as long as the step of the
//! round-trip time after it: no queue grows while nothing arrives, so the base moves with it.
//!
//! All this is for a controller that keeps a queue itself. Whether packets queue on a path at all,
//! whatever controls it, is `RttEstimator::standing_queue`.

use std::collections::VecDeque;

use units::{Duration, Instant};

/// How long the base is remembered: a vehicle's route changes in flight.
pub(super) const BASE_MEMORY: Duration = Duration::from_secs(15);
/// Slots of the base's memory.
const SLOTS: usize = 10;
/// A queue of no more than this counts as empty: it shows the base.
pub(super) const NEAR_BASE: Duration = Duration::from_millis(2);
/// Changes of the queue up to this tell nothing: the controller itself makes them.
pub(super) const TELLING: Duration = Duration::from_millis(4);
/// Samples that are kept; the filter needs those of half a round trip.
const SAMPLES: usize = 256;
/// The standing round-trip time is the least of at least this many samples.
const LEAST_SAMPLES: usize = 3;
/// Smaller steps are jitter.
const LEAST_STEP: Duration = Duration::from_millis(20);

/// A gap in the acknowledgements that may turn out to be a step of the route.
#[derive(Clone, Copy, Debug)]
struct Gap {
    ended_at: Instant,
    length: Duration,
    standing_before: Duration,
}

/// Estimates the standing queue of one path.
#[derive(Clone, Debug, Default)]
pub(super) struct StandingQueue {
    samples: VecDeque<(Instant, Duration)>,
    /// The least round-trip time in each slot.
    slots: [Option<Duration>; SLOTS],
    slot: usize,
    slot_began: Instant,
    base_seen_at: Instant,
    gap: Option<Gap>,
    /// Mean time between samples.
    interval: Duration,
    noise: Duration,
    noted: (Instant, Duration),
}

impl StandingQueue {
    pub(super) fn on_sample(&mut self, now: Instant, rtt: Duration, srtt: Duration) {
        self.watch_gap(now, rtt, srtt);
        self.remember(now, rtt);
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now, rtt));
        self.note_noise(now, srtt);
    }

    fn remember(&mut self, now: Instant, rtt: Duration) {
        if now.since(self.slot_began) >= BASE_MEMORY / SLOTS as u32 {
            self.slot = (self.slot + 1) % SLOTS;
            self.slots[self.slot] = None;
            self.slot_began = now;
        }
        let least = self.slots[self.slot].map_or(rtt, |least| least.min(rtt));
        self.slots[self.slot] = Some(least);
        if rtt <= self.base() + NEAR_BASE {
            self.base_seen_at = now;
        }
    }

    /// Moves the base by a step of the round-trip time that followed a gap as long as itself: three
    /// times the usual time between acknowledgements at least. A step of both directions makes two
    /// gaps in one round trip.
    fn watch_gap(&mut self, now: Instant, rtt: Duration, srtt: Duration) {
        let Some(&(last_at, _)) = self.samples.back() else { return };
        let length = now.since(last_at);
        let usual = self.interval;
        self.interval = (usual * 7 + length.min(usual * 2 + Duration::from_millis(1))) / 8;
        let standing_before = self.standing_since(last_at - srtt / 2);
        if length >= usual * 3 && rtt >= standing_before + LEAST_STEP.max(length * 2 / 3) {
            let first = Gap { ended_at: now, length: Duration::ZERO, standing_before };
            let gap = self.gap.get_or_insert(first);
            (gap.ended_at, gap.length) = (now, gap.length + length);
        }
        let Some(gap) = self.gap.filter(|gap| now.since(gap.ended_at) >= srtt) else { return };
        self.gap = None;
        let step = self.standing_since(gap.ended_at).saturating_sub(gap.standing_before);
        if step >= LEAST_STEP && step <= gap.length * 4 / 3 {
            self.rebase(now, self.base() + step);
        }
    }

    fn note_noise(&mut self, now: Instant, srtt: Duration) {
        let (noted_at, before) = self.noted;
        if now.since(noted_at) < srtt / 2 {
            return;
        }
        let standing = self.standing_since(now - srtt / 2);
        if before > Duration::ZERO {
            let change = standing.abs_diff(before).saturating_sub(TELLING);
            self.noise = (self.noise * 15 + change) / 16;
        }
        self.noted = (now, standing);
    }

    /// Replaces the base: the route has changed, or others keep the queue full.
    pub(super) fn rebase(&mut self, now: Instant, base: Duration) {
        self.slots = [None; SLOTS];
        self.slots[self.slot] = Some(base);
        self.base_seen_at = now;
    }

    /// Postpones the next attempt to see the base, although this one failed.
    pub(super) fn looked_for_base(&mut self, now: Instant) {
        self.base_seen_at = now;
    }

    /// Notes that the path was silent until now; `least` is its new least round-trip time, if
    /// known.
    pub(super) fn on_silence(&mut self, now: Instant, least: Duration) {
        if least > self.base() + LEAST_STEP {
            self.rebase(now, least);
        }
        self.base_seen_at = now;
    }

    /// Returns the round-trip time of the empty path; zero before the first sample.
    pub(super) fn base(&self) -> Duration {
        self.slots.iter().copied().flatten().min().unwrap_or_default()
    }

    /// Returns when the path was last seen empty.
    pub(super) fn base_seen_at(&self) -> Instant {
        self.base_seen_at
    }

    /// Returns how much the standing round-trip time changes from one half round trip to the next.
    pub(super) fn noise(&self) -> Duration {
        self.noise
    }

    /// Returns the least of the samples taken since `since`, and of the last few in any case.
    pub(super) fn standing_since(&self, since: Instant) -> Duration {
        let recent = self.samples.iter().rev().enumerate();
        let recent = recent.take_while(|&(index, &(at, _))| index < LEAST_SAMPLES || at >= since);
        recent.map(|(_, &(_, rtt))| rtt).min().unwrap_or_else(|| self.base())
    }

    /// Returns the standing queue, in time.
    pub(super) fn queue(&self, now: Instant, srtt: Duration) -> Duration {
        self.standing_since(now - srtt / 2).saturating_sub(self.base())
    }

    /// Returns the queue by the last few samples: quicker, but easier to mislead.
    pub(super) fn queue_soon(&self) -> Duration {
        let least = self.samples.iter().rev().take(LEAST_SAMPLES).map(|&(_, rtt)| rtt).min();
        least.unwrap_or_default().saturating_sub(self.base())
    }
}
