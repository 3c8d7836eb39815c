//! The host's monotonic clock as the [`Instant`] of the sans-IO crates.
//!
//! Not the wall clock: a drone has no clock battery, so nothing here may depend on the date.

use rustix::time::{ClockId, clock_gettime};
use units::Instant;

/// Reads `CLOCK_BOOTTIME`: unlike `CLOCK_MONOTONIC` it counts time in suspend, so that keys and
/// messages age while a companion computer sleeps.
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_advances() {
        let before = now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(now().since(before) >= units::Duration::from_millis(2));
    }
}
