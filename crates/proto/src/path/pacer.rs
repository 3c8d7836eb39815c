//! Spreads bulk over time: a bucket of two milliseconds' worth of sending, which may go into debt
//! by one datagram. Control does not ask the pacer but is charged to it.

use units::{Duration, Instant, Rate};

/// Depth of the bucket, two datagrams at least: a busy event loop may be this late without losing
/// rate.
const BURST: Duration = Duration::from_millis(2);

/// Holds back what would leave faster than the pacing rate.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    /// Bytes that may leave at `at`; negative after a datagram that was larger than what was left.
    tokens: i64,
    at: Instant,
}

impl Pacer {
    pub(super) fn new(now: Instant) -> Self {
        Self { tokens: 0, at: now }
    }

    /// Charges a datagram.
    pub(super) fn on_sent(&mut self, now: Instant, rate: Option<Rate>, mtu: usize, bytes: usize) {
        let Some(rate) = rate else { return };
        let depth = depth(rate, mtu);
        self.tokens = self.tokens_at(now, rate, mtu) - bytes as i64;
        self.tokens = self.tokens.max(-depth);
        self.at = now;
    }

    /// Returns when the next datagram may leave; `now` or earlier means at once.
    pub(super) fn ready_at(&self, now: Instant, rate: Option<Rate>, mtu: usize) -> Instant {
        let Some(rate) = rate else { return now };
        let tokens = self.tokens_at(now, rate, mtu);
        if tokens > 0 {
            return now;
        }
        now + rate.transmission_time(tokens.unsigned_abs() as usize + 1)
    }

    /// Tells whether nothing was sent for so long that the bucket is full.
    pub(super) fn is_full(&self, now: Instant, rate: Option<Rate>, mtu: usize) -> bool {
        rate.is_some_and(|rate| self.tokens_at(now, rate, mtu) >= depth(rate, mtu))
    }

    fn tokens_at(&self, now: Instant, rate: Rate, mtu: usize) -> i64 {
        let earned = i64::try_from(rate.bytes_in(now.since(self.at))).unwrap_or(i64::MAX);
        self.tokens.saturating_add(earned).min(depth(rate, mtu))
    }
}

fn depth(rate: Rate, mtu: usize) -> i64 {
    i64::try_from(rate.bytes_in(BURST).max(2 * mtu as u64)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_run_rate_is_the_pacing_rate() {
        let rate = Some(Rate::from_mbps(4.0));
        let mut pacer = Pacer::new(Instant::ZERO);
        let (mut now, mut bytes) = (Instant::ZERO, 0_u64);
        while now < Instant::from_millis(10_000) {
            let ready = pacer.ready_at(now, rate, 1_200);
            if ready > now {
                now = ready;
                continue;
            }
            pacer.on_sent(now, rate, 1_200, 1_200);
            bytes += 1_200;
        }
        let mbps = Rate::from_bytes_in(bytes, now.since(Instant::ZERO)).as_mbps();
        assert!((mbps - 4.0).abs() < 0.02, "{mbps}");
    }

    #[test]
    fn after_a_pause_no_more_than_the_bucket_leaves_at_once() {
        let rate = Some(Rate::from_mbps(20.0));
        let mut pacer = Pacer::new(Instant::ZERO);
        let now = Instant::from_millis(60_000);
        let mut burst = 0;
        while pacer.ready_at(now, rate, 1_200) <= now {
            pacer.on_sent(now, rate, 1_200, 1_200);
            burst += 1;
        }
        assert!((4..=6).contains(&burst), "{burst}");
    }
}
