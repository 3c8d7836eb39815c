//! How much work a peer may cause, and how often a stranger is answered: token buckets.

use units::{Duration, Instant};

/// Lets through `burst` at once and one more every `interval`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    interval: Duration,
    burst: u32,
    /// When the bucket will be full again; the distance from now is what has been spent.
    full_at: Instant,
}

impl TokenBucket {
    /// Starts full.
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        Self { interval: Duration::from_secs(1) / per_second, burst, full_at: Instant::ZERO }
    }

    /// Takes a token if there is one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + self.interval;
        let allowed = full_at.since(now) <= self.interval * self.burst;
        if allowed {
            self.full_at = full_at;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_its_burst_through_and_then_its_rate() {
        let mut bucket = TokenBucket::new(10, 5);
        let taken = |bucket: &mut TokenBucket, now| (0..100).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, Instant::ZERO), 5);
        assert_eq!(taken(&mut bucket, Instant::from_millis(99)), 0);
        assert_eq!(taken(&mut bucket, Instant::from_millis(300)), 3);
        assert_eq!(taken(&mut bucket, Instant::from_millis(60_000)), 5);
    }
}
