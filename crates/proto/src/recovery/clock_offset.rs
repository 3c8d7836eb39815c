//! Where the peer's clock stands against ours, with a bound on the error [specs/paths.md §5].
//!
//! A packet sent at s, received by the peer at R (its clock), whose acknowledgement left the peer
//! d later and reached us at a, bounds the offset of the peer's clock whatever the path did:
//! ```text
//! R − (a − d)  ≤  offset  ≤  R − s
//! ```
//! The intervals of all paths are intersected, so that the narrowest, those of the lowest
//! round-trip time, prevail. Between samples the interval widens by the skew that two crystals may
//! have. An interval that contradicts the one held means that a clock stepped: the new one is taken
//! \[Marzullo\] [RFC 5905 §11.2.1].
//!
//! The estimate is the middle, which is right where the best path is symmetric; the error bound is
//! half the width and holds even where it is not.

use units::{Duration, Instant};

use super::GRANULARITY;

/// How fast two clocks may drift apart: twice what cheap crystals are specified for.
const SKEW_PPM: u64 = 100;

/// Tells the ages of what the peer handed in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerClock<'a> {
    /// The offset, as far as it is known.
    pub(crate) clock: &'a ClockOffset,
    /// When the session began.
    pub(crate) started: Instant,
}

impl PeerClock<'_> {
    /// Returns the age of what the peer handed in when its clock showed the low 32 bits
    /// `submitted_us`.
    ///
    /// Before the first clock sample all that is known is that it is younger than the session,
    /// because nothing survives from one session to the next.
    pub(crate) fn age(&self, now: Instant, submitted_us: u32) -> Age {
        let unknown = Age { estimate: Duration::ZERO, error: now.since(self.started) };
        self.clock.age(now, submitted_us).unwrap_or(unknown)
    }
}

/// One bound on the offset of the peer's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockSample {
    /// When the packet was sent, our clock.
    pub(crate) sent_at: Instant,
    /// When the peer received it, microseconds of the peer's clock.
    pub(crate) received_at_us: u64,
    /// The latest time, on our clock, at which its acknowledgement can have left the peer: arrival
    /// less the delay at the peer.
    pub(crate) acked_at: Instant,
}

/// An age, and how wrong it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age {
    /// The likely age.
    pub(crate) estimate: Duration,
    /// The age is at most this much more or less.
    pub(crate) error: Duration,
}

/// Bounds the offset of the peer's clock from ours.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockOffset {
    bounds: Option<Bounds>,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    low_us: i64,
    high_us: i64,
    at: Instant,
}

impl ClockOffset {
    /// Takes a sample of any path. Returns true when it shows that a clock stepped.
    pub(crate) fn on_sample(&mut self, now: Instant, sample: ClockSample) -> bool {
        let received_us = i64::try_from(sample.received_at_us).unwrap_or(i64::MAX);
        let new = Bounds {
            low_us: received_us.saturating_sub(micros(sample.acked_at.max(sample.sent_at))),
            high_us: received_us.saturating_sub(micros(sample.sent_at)),
            at: now,
        };
        let Some(old) = self.bounds_at(now) else {
            self.bounds = Some(new);
            return false;
        };
        let both = Bounds {
            low_us: old.low_us.max(new.low_us),
            high_us: old.high_us.min(new.high_us),
            at: now,
        };
        if both.low_us <= both.high_us {
            self.bounds = Some(both);
            return false;
        }
        self.bounds = Some(new);
        // Smaller contradictions are rounding and late timestamps: no step is reported.
        both.low_us.saturating_sub(both.high_us) > GRANULARITY.as_micros() as i64
    }

    /// Returns the estimate of peer's clock − our clock and its error bound, in microseconds.
    pub(crate) fn estimate_us(&self, now: Instant) -> Option<(i64, u64)> {
        self.bounds_at(now).map(|bounds| {
            let width = bounds.high_us.saturating_sub(bounds.low_us);
            (bounds.low_us + width / 2, (width as u64).div_ceil(2))
        })
    }

    /// Returns the error bound alone; zero before the first sample.
    pub(crate) fn error(&self, now: Instant) -> Duration {
        self.estimate_us(now)
            .map_or(Duration::ZERO, |(_, error_us)| Duration::from_micros(error_us))
    }

    /// Returns when the peer's clock showed `peer_us`, by ours, and how far that may be off; none
    /// before the first sample.
    pub(crate) fn by_ours(&self, now: Instant, peer_us: u64) -> Option<(Instant, Duration)> {
        let (offset_us, error_us) = self.estimate_us(now)?;
        let ours_us = i64::try_from(peer_us).unwrap_or(i64::MAX).saturating_sub(offset_us);
        let at = Instant::from_micros(u64::try_from(ours_us).unwrap_or(0));
        Some((at, Duration::from_micros(error_us)))
    }

    /// Tells how long ago the peer's clock showed the low 32 bits `submitted_us`; nothing before
    /// the first sample. What seems to lie in the future, within error, is of age zero.
    pub(crate) fn age(&self, now: Instant, submitted_us: u32) -> Option<Age> {
        let (offset_us, error_us) = self.estimate_us(now)?;
        let peer_now_us = micros(now).saturating_add(offset_us);
        let age_us = (peer_now_us as u32).wrapping_sub(submitted_us) as i32;
        Some(Age {
            estimate: Duration::from_micros(age_us.max(0).unsigned_abs().into()),
            error: Duration::from_micros(error_us),
        })
    }

    fn bounds_at(&self, now: Instant) -> Option<Bounds> {
        self.bounds.map(|bounds| {
            let elapsed_us = now.since(bounds.at).as_micros();
            let drift_us = elapsed_us.saturating_mul(SKEW_PPM).div_ceil(1_000_000) as i64;
            Bounds {
                low_us: bounds.low_us.saturating_sub(drift_us),
                high_us: bounds.high_us.saturating_add(drift_us),
                at: now,
            }
        })
    }
}

fn micros(instant: Instant) -> i64 {
    i64::try_from(instant.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    /// A peer whose clock is ahead by `offset_us` and runs `skew_ppm` fast.
    fn sample(sent_ms: u64, there_ms: u64, back_ms: u64, offset_us: i64) -> (Instant, ClockSample) {
        let sent_at = Instant::from_millis(sent_ms);
        let received = sent_at + Duration::from_millis(there_ms);
        let acked_at = received + Duration::from_millis(back_ms);
        let received_at_us = (received.as_micros() as i64 + offset_us) as u64;
        (acked_at, ClockSample { sent_at, received_at_us, acked_at })
    }

    #[test]
    fn symmetric_path_gives_the_offset_and_half_the_round_trip_as_error() {
        let mut clock = ClockOffset::default();
        let (now, first) = sample(1_000, 10, 10, 5_000_000);
        assert!(!clock.on_sample(now, first));
        assert_eq!(clock.estimate_us(now), Some((5_000_000, 10_000)));
        let submitted = (now.as_micros() + 5_000_000 - 30_000) as u32;
        let age = clock.age(now, submitted).expect("known");
        assert_eq!(
            (age.estimate, age.error),
            (Duration::from_millis(30), Duration::from_millis(10))
        );
    }

    #[test]
    fn the_bound_holds_through_jitter_skew_and_asymmetry() {
        let (mut clock, mut rng) = (ClockOffset::default(), Rng::new(3));
        for step in 0..20_000_u64 {
            let sent_ms = 1_000 + step * 20;
            let offset = 7_000_000 + (sent_ms as i64 * 1_000) * 80 / 1_000_000;
            let (there, back) = (5 + rng.below(30), 25 + rng.below(100));
            let (now, new) = sample(sent_ms, there, back, offset);
            assert!(!clock.on_sample(now, new), "no step at {step}");
            let (estimate, error) = clock.estimate_us(now).expect("known");
            let truth = 7_000_000 + (now.as_micros() as i64) * 80 / 1_000_000;
            assert!((truth - estimate).unsigned_abs() <= error + 50, "{truth} {estimate} {error}");
            assert!(step < 100 || error < 20_000);
        }
    }

    #[test]
    fn a_step_is_noticed_by_the_first_sample_that_contradicts() {
        let mut clock = ClockOffset::default();
        let (now, before) = sample(1_000, 10, 10, 0);
        clock.on_sample(now, before);
        let (now, after) = sample(1_100, 10, 10, 2_000_000);
        assert!(clock.on_sample(now, after));
        assert_eq!(clock.estimate_us(now), Some((2_000_000, 10_000)));
    }

    #[test]
    fn hostile_timestamps_do_not_overflow() {
        let mut clock = ClockOffset::default();
        for received_at_us in [0, u64::MAX, 1 << 63, 1] {
            let sent_at = Instant::from_nanos(u64::MAX);
            let sample = ClockSample { sent_at, received_at_us, acked_at: Instant::ZERO };
            clock.on_sample(Instant::from_millis(5), sample);
            assert!(clock.age(Instant::from_nanos(u64::MAX), 5).is_some());
        }
    }
}
