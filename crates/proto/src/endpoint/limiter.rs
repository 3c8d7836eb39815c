//! How much work a peer may cause, and how often a stranger is answered: token buckets.

use units::{Duration, Instant};

/// Lets through `burst` at once and one more every `interval`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    interval: Duration,
    burst: u32,
    /// When the bucket will be full again; the distance from now is what has been spent.
    full_at: Instant,
}

impl TokenBucket {
    /// Starts full.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Self { interval: Duration::from_secs(1) / per_second, burst, full_at: Instant::ZERO }
    }

    /// Takes a token if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
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

    /// The definition: a bucket that holds so many tokens and fills at the rate, in sixteenths of a
    /// token.
    struct Bucket {
        sixteenths: u64,
        burst: u64,
    }

    impl Bucket {
        fn take(&mut self, gap: u64) -> bool {
            self.sixteenths = (self.sixteenths + gap).min(16 * self.burst);
            let allowed = self.sixteenths >= 16;
            self.sixteenths -= if allowed { 16 } else { 0 };
            allowed
        }
    }

    /// Every seven requests, apart by nothing to two tokens and more, for every small burst.
    #[test]
    fn limiter_is_its_definition() {
        const GAPS: [u64; 7] = [0, 1, 7, 15, 16, 17, 40];
        // A token each 16 ns.
        const RATE: u32 = 1_000_000_000 / 16;
        for (burst, script) in (0..4).flat_map(|burst| (0..7_usize.pow(7)).map(move |s| (burst, s)))
        {
            let mut limiter = TokenBucket::new(RATE, burst);
            let burst = u64::from(burst);
            let mut bucket = Bucket { sixteenths: 16 * burst, burst };
            let mut now = Instant::from_millis(1);
            for request in 0..7 {
                let gap = GAPS[script / 7_usize.pow(request) % 7];
                now += Duration::from_nanos(gap);
                assert_eq!(limiter.take(now), bucket.take(gap), "{request} of {script}, {burst}");
            }
        }
    }

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
