//! A length of time.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use core::time::{Duration as Std, TryFromFloatSecsError};

/// Counts nanoseconds, up to 584 years.
///
/// It has the names and figures of [`core::time::Duration`], which it is made from and becomes at
/// the edge of the system, in half the size: every packet is judged by a dozen of them. Arithmetic
/// saturates instead of panicking.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

const NANOS_PER_SEC: u64 = 1_000_000_000;

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest time.
    pub const MAX: Self = Self(u64::MAX);

    /// Makes a time from nanoseconds.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Makes a time from microseconds.
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Makes a time from milliseconds.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Makes a time from seconds.
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// Makes a time from seconds, to the nearest nanosecond; negative ones and NaN become zero.
    #[inline]
    pub fn from_secs_f64(secs: f64) -> Self {
        match Std::try_from_secs_f64(secs) {
            Ok(time) => Self::from(time),
            Err(_) if secs > 0.0 => Self::MAX,
            Err(_) => Self::ZERO,
        }
    }

    /// Makes a time from seconds, to the nearest nanosecond.
    ///
    /// # Errors
    /// Where they are negative, not a number, or more than a machine can count.
    #[inline]
    pub fn try_from_secs_f64(secs: f64) -> Result<Self, TryFromFloatSecsError> {
        Std::try_from_secs_f64(secs).map(Self::from)
    }

    /// Tells whether it is no time at all.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns whole microseconds.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns whole milliseconds.
    #[inline]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns whole seconds.
    #[inline]
    pub const fn as_secs(self) -> u64 {
        self.0 / NANOS_PER_SEC
    }

    /// Returns seconds.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        // As the standard library adds them, to the last bit.
        self.as_secs() as f64 + (self.0 % NANOS_PER_SEC) as f64 / NANOS_PER_SEC as f64
    }

    /// Returns the sum, or the longest time.
    #[inline]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or no time where `other` is longer.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the difference, unless `other` is longer.
    #[inline]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }

    /// Returns the product, or the longest time.
    #[inline]
    pub const fn saturating_mul(self, factor: u32) -> Self {
        Self(self.0.saturating_mul(factor as u64))
    }

    /// Returns how far apart two times are.
    #[inline]
    pub const fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }

    /// Returns the time multiplied by `factor`; negative factors and NaN give zero.
    #[inline]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self::from_secs_f64(factor * self.as_secs_f64())
    }

    /// Returns how many times `other` it is.
    #[inline]
    pub fn div_duration_f64(self, other: Self) -> f64 {
        self.0 as f64 / other.0 as f64
    }
}

impl Add for Duration {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl AddAssign for Duration {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl SubAssign for Duration {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u32> for Duration {
    type Output = Self;

    #[inline]
    fn mul(self, factor: u32) -> Self {
        self.saturating_mul(factor)
    }
}

impl Mul<Duration> for u32 {
    type Output = Duration;

    #[inline]
    fn mul(self, time: Duration) -> Duration {
        time * self
    }
}

impl Div<u32> for Duration {
    type Output = Self;

    #[inline]
    fn div(self, parts: u32) -> Self {
        Self(self.0 / u64::from(parts))
    }
}

impl Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::ZERO, Add::add)
    }
}

impl<'a> Sum<&'a Duration> for Duration {
    fn sum<I: Iterator<Item = &'a Self>>(times: I) -> Self {
        times.copied().sum()
    }
}

impl From<Std> for Duration {
    #[inline]
    fn from(time: Std) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for Std {
    #[inline]
    fn from(time: Duration) -> Self {
        Self::from_nanos(time.0)
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Std::from(*self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_standard_library() {
        for nanos in [0, 1, 999, 1_000_000_007, 33_366_700, 7_500_000_000, u64::MAX / 3] {
            let (ours, std) = (Duration::from_nanos(nanos), Std::from_nanos(nanos));
            assert_eq!(ours.as_secs_f64().to_bits(), std.as_secs_f64().to_bits());
            assert_eq!(Std::from(ours.mul_f64(0.7)), std.mul_f64(0.7));
            assert_eq!(Std::from(ours * 3 / 7), std * 3 / 7);
            assert_eq!(format!("{ours:?}"), format!("{std:?}"));
            assert_eq!(Duration::from(std), ours);
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let second = Duration::from_secs(1);
        assert_eq!(Duration::MAX + second, Duration::MAX);
        assert_eq!(Duration::ZERO - second, Duration::ZERO);
        assert_eq!(Duration::MAX * 2, Duration::MAX);
        assert_eq!(Duration::from(Std::MAX), Duration::MAX);
        assert_eq!(Duration::from_secs_f64(-1.0), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(f64::NAN), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(1e30), Duration::MAX);
    }
}
