//! A data rate.

use crate::Duration;

/// Nanoseconds in a second, times the bits of a byte.
const BIT_NANOS: u64 = 8 * 1_000_000_000;

/// Counts bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Rate(u64);

impl Rate {
    /// No data at all.
    pub const ZERO: Self = Self(0);

    /// Makes a rate from bits per second.
    #[inline]
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Makes a rate from megabits (10⁶ bits) per second; negative and NaN become zero.
    #[inline]
    pub fn from_mbps(mbps: f64) -> Self {
        Self((mbps * 1e6) as u64)
    }

    /// Returns the rate that carries `bytes` in `time`; zero time gives zero.
    #[inline]
    pub fn from_bytes_in(bytes: u64, time: Duration) -> Self {
        match time.as_nanos() {
            0 => Self::ZERO,
            nanos => Self(scale(bytes, BIT_NANOS, nanos)),
        }
    }

    /// Returns bits per second.
    #[inline]
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Returns megabits (10⁶ bits) per second.
    #[inline]
    pub fn as_mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns how long `bytes` take at this rate; a zero rate takes [`Duration::MAX`].
    #[inline]
    pub fn transmission_time(self, bytes: usize) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        Duration::from_nanos(scale(bytes as u64, BIT_NANOS, self.0))
    }

    /// Returns how many whole bytes pass in `time`.
    #[inline]
    pub fn bytes_in(self, time: Duration) -> u64 {
        scale(self.0, time.as_nanos(), BIT_NANOS)
    }

    /// Returns the rate multiplied by `factor`; negative and NaN factors give zero.
    #[inline]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as u64)
    }
}

/// Returns `value · by / per`, in 128 bits only where 64 do not hold it: this is asked several
/// times for each packet.
#[inline]
fn scale(value: u64, by: u64, per: u64) -> u64 {
    match value.checked_mul(by) {
        Some(product) => product / per,
        None => {
            u64::try_from(u128::from(value) * u128::from(by) / u128::from(per)).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_at_12_mbps_takes_a_millisecond() {
        let rate = Rate::from_mbps(12.0);
        assert_eq!(rate.transmission_time(1_500), Duration::from_millis(1));
        assert_eq!(rate.bytes_in(Duration::from_millis(1)), 1_500);
        assert_eq!(Rate::from_bytes_in(1_500, Duration::from_millis(1)), rate);
        assert_eq!(Rate::ZERO.transmission_time(1), Duration::MAX);
    }
}
