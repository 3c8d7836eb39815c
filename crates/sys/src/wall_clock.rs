//! The wall clock against the monotonic clock: what kernel timestamps are in, and what programs
//! count in.
//!
//! Not a source of dates for the protocol, which must not depend on them. The emulator translates
//! the receive timestamps of `packet_ring` here.

use rustix::time::{ClockId, clock_gettime};
use units::{Duration, Instant};

use crate::clock::now;

/// Reads the wall clock, in nanoseconds since 1970.
///
/// Steps whenever somebody sets it: fit for kernel timestamps and log lines, not for durations.
pub fn realtime_nanos() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Translates wall-clock timestamps of the kernel to [`crate::clock::now`].
///
/// Packet sockets stamp with the wall clock, whose offset from the monotonic clock changes when it
/// is set or slewed: measure again for every batch.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    offset: i128,
}

impl WallClock {
    /// Measures the offset between both clocks, to well under a microsecond unless preempted.
    pub fn measure() -> Self {
        // Of three tries the one whose two monotonic readings are closest was disturbed least.
        let sample = || {
            let before = now().as_nanos();
            let wall = realtime_nanos();
            let after = now().as_nanos();
            let middle = i128::from(before) + i128::from(after - before) / 2;
            (after - before, i128::from(wall) - middle)
        };
        let best = [sample(), sample(), sample()].into_iter().min_by_key(|(width, _)| *width);
        Self { offset: best.map_or(0, |(_, offset)| offset) }
    }

    /// Translates wall-clock nanoseconds since 1970; what lies before the origin becomes zero.
    pub fn to_monotonic(self, wall_nanos: u64) -> Instant {
        let nanos = i128::from(wall_nanos) - self.offset;
        Instant::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }

    /// Returns how far the wall clock was stepped or slewed between `earlier` and `self`.
    pub fn step_since(self, earlier: Self) -> Duration {
        let step = (self.offset - earlier.offset).unsigned_abs();
        Duration::from_nanos(u64::try_from(step).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_stamp_of_now_is_now() {
        let before = now();
        let stamp = WallClock::measure().to_monotonic(realtime_nanos());
        let after = now() + Duration::from_micros(100);
        assert!(before - Duration::from_micros(100) <= stamp && stamp <= after);
    }
}
