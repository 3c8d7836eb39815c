//! How much control a path takes at a time, so that on a thin one it is thinned instead of piled up
//! [specs/paths.md §6] (rule 8).
//!
//! ```text
//! base     = round trip without our own queue: least rtt + what stands in the other direction
//! fresh    = rate of the hop · (base + 30 ms) − control in flight          nothing of it is under way
//! repeat   = rate of the hop · base − all in flight                        another copy is under way
//! datagram ≤ 40 ms of the hop's time, 480 bytes at least
//! ```
//! Only a hop that was busy for six tenths of a second has such a bound: on all but the thinnest links control
//! never fills a window. What waits then waits here, where the newest set-point replaces the older one
//! and a command goes before a repeat, and not in the queue of a modem. A path without anything under
//! way always takes a datagram.

use units::{Duration, Instant, Rate};

use super::Path;
use crate::control::CopyRoom;
use crate::event::PathState;

/// A rate that was not measured for so long may have grown …
const OLD: Duration = Duration::from_millis(500);
/// … by this, where there is no queue.
const GROWTH: f64 = 2.0;
/// Queue of its own that control may keep.
const SLACK: Duration = Duration::from_millis(30);
/// The same before the hop is known to be saturated: it may have stalled for a moment …
const FIRST_SLACK: Duration = Duration::from_millis(80);
/// … and its rate then is the best of this time.
const FIRST_MEMORY: Duration = Duration::from_secs(2);
/// A path that may be thin gets no more than the least for so long after it was heard again.
const REVIVAL: Duration = Duration::from_secs(1);
/// A queue of more than jitter and a datagram.
const TELLING_QUEUE: Duration = Duration::from_millis(10);
/// Behind a queue of this length nothing but the least goes on a path whose rate is not known.
const UNKNOWN_QUEUE: Duration = Duration::from_millis(100);
/// Control that may be under way on any path: two messages of 100 bytes.
const LEAST_WINDOW: u64 = 400;
/// How long a datagram of control may take at the hop …
const DATAGRAM: Duration = Duration::from_millis(40);
/// … and what it may hold nonetheless: four messages of 100 bytes.
const LEAST_DATAGRAM: usize = 480;
/// A path below this rate is thin: a datagram takes tens of milliseconds, and probes are traffic.
const THIN: Rate = Rate::from_bps(300_000);
/// On a thin path that fell silent copies go this far apart: more would keep its queue full and it
/// would never be heard again.
const DRIP: Duration = Duration::from_millis(200);
/// Bytes of a datagram with a PING.
const PING: usize = 64;

impl Path {
    /// Returns how many bytes of control may leave now.
    pub(crate) fn control_room(&self, now: Instant) -> CopyRoom {
        if self.state == PathState::Suspected {
            let drips = self.was_thin && now < self.last_eliciting_at + DRIP;
            return CopyRoom::both(if drips { 0 } else { usize::MAX });
        }
        let in_flight = self.sent.control_in_flight();
        let Some((rate, slack)) = self.control_rate(now).filter(|_| in_flight > 0) else {
            return CopyRoom::both(usize::MAX);
        };
        let base = self.bottleneck.round_trip();
        let room = |slack| {
            let window = rate.bytes_in(base + slack).max(LEAST_WINDOW);
            usize::try_from(window.saturating_sub(in_flight)).unwrap_or(usize::MAX)
        };
        let repeat = if self.is_thin(now) { 0 } else { room(SLACK) };
        CopyRoom { fresh: room(slack), repeat, transit: base + self.bottleneck.queue() }
    }

    /// Returns the rate that control obeys and the queue that it may keep.
    fn control_rate(&self, now: Instant) -> Option<(Rate, Duration)> {
        if let Some(rate) = self.bottleneck.saturated_rate(now) {
            let is_old = self.bottleneck.rate_within(now, OLD).is_none();
            let grows = is_old && self.bottleneck.is_empty();
            return Some((if grows { rate.mul_f64(GROWTH) } else { rate }, SLACK));
        }
        let rate = self.bottleneck.first_rate(now, FIRST_MEMORY);
        let revived = self.revived_at.is_some_and(|at| now.since(at) < REVIVAL);
        let careful = self.was_thin && revived || self.bottleneck.queue() > UNKNOWN_QUEUE;
        let unknown = || careful.then_some((Rate::ZERO, SLACK));
        rate.zip(Some(FIRST_SLACK)).or_else(unknown)
    }

    /// Returns how long a copy of control would take from now.
    pub(crate) fn control_arrival(&self, now: Instant) -> Duration {
        let known = self.control_rate(now).filter(|(rate, _)| *rate > Rate::ZERO);
        let waits =
            known.map(|(rate, _)| rate.transmission_time(self.sent.control_in_flight() as usize));
        self.rtt.min_rtt().unwrap_or_default() / 2 + waits.unwrap_or_default()
    }

    /// Returns how large a datagram with control may be.
    pub(crate) fn control_datagram(&self, now: Instant) -> usize {
        if self.state == PathState::Suspected && self.was_thin {
            return 100;
        }
        let rate = self.bottleneck.saturated_rate(now);
        rate.map_or(usize::MAX, |rate| (rate.bytes_in(DATAGRAM) as usize).max(LEAST_DATAGRAM))
    }

    /// Tells whether the path is thin, or has a queue and was never seen to be faster.
    pub(super) fn may_be_thin(&self, now: Instant) -> bool {
        let has_queue = self.bottleneck.queue() > TELLING_QUEUE;
        self.is_thin(now) || has_queue && self.bottleneck.best_ever() < THIN
    }

    /// Returns the age at which a copy of control that is under way may be repeated on this path: at
    /// once where there is no queue, otherwise not while it merely waits before the hop.
    pub(crate) fn repeat_after(&self) -> Duration {
        let rate = self.bottleneck.rate().filter(|_| !self.bottleneck.is_empty());
        rate.map_or(Duration::ZERO, |rate| {
            let waits = rate.transmission_time(self.sent.in_flight() as usize);
            self.rtt.probe_timeout() + waits
        })
    }

    /// Tells whether the narrowest hop is so slow that a full datagram would delay control.
    pub(crate) fn is_thin(&self, now: Instant) -> bool {
        self.bottleneck.saturated_rate(now).is_some_and(|rate| rate < THIN)
    }

    /// Returns the least time between probes: on a thin path they must not be what fills it.
    pub(super) fn least_probe_interval(&self, now: Instant) -> Duration {
        match self.bottleneck.saturated_rate(now) {
            Some(rate) if self.state == PathState::Suspected && rate < THIN => DRIP,
            Some(rate) => rate.transmission_time(PING) * 2,
            None => Duration::ZERO,
        }
    }
}
