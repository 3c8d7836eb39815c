//! The token bucket of repair symbols [LRT §III-E].

use units::{Duration, Instant};

/// The longest interval between source symbols that the bucket believes: a pause is no low rate,
/// and the last message before it waits for its repair for so long divided by r.
const INTERVAL_MAX: Duration = Duration::from_millis(25);

/// Counts the repair symbols that the rate src·(1 + r) leaves room for.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    /// r: repair symbols per source symbol.
    redundancy: f64,
    /// Most tokens that are kept, for a burst of messages that left at once.
    depth: f64,
    tokens: f64,
    /// Mean interval between source symbols, seconds.
    interval: f64,
    last_source: Option<Instant>,
    filled: Instant,
}

impl Bucket {
    /// Starts empty.
    pub(super) fn new(redundancy: f64, depth: f64) -> Self {
        Self {
            redundancy: redundancy.clamp(0.0, 16.0),
            depth,
            tokens: 0.0,
            interval: INTERVAL_MAX.as_secs_f64(),
            last_source: None,
            filled: Instant::ZERO,
        }
    }

    /// Notes that a source symbol left: it brings r tokens, and none of its own is needed.
    pub(super) fn on_source(&mut self, now: Instant) {
        if let Some(last) = self.last_source {
            let interval = now.since(last).min(INTERVAL_MAX).as_secs_f64();
            // An eighth, as for srtt [RFC 9002 §5.3].
            self.interval += (interval - self.interval) / 8.0;
        }
        self.last_source = Some(now);
        self.add(self.redundancy);
    }

    /// Lets time pass in which repair is needed; tokens come with it only where sources do not.
    pub(super) fn fill(&mut self, now: Instant) {
        let from = self.paused_at().max(self.filled);
        if now > from && self.last_source.is_some() {
            self.add(now.since(from).as_secs_f64() * self.rate());
        }
        self.filled = now.max(self.filled);
    }

    /// Lets time pass in which nobody needs repair.
    pub(super) fn skip(&mut self, now: Instant) {
        self.filled = now.max(self.filled);
    }

    /// Tells whether a repair symbol may leave.
    pub(super) fn has_token(&self) -> bool {
        self.tokens >= 1.0
    }

    /// Takes the token of a repair symbol.
    pub(super) fn take(&mut self) {
        self.tokens -= 1.0;
    }

    /// Returns when time alone will have brought a token; none when it never does.
    pub(super) fn next_token(&self) -> Option<Instant> {
        let seconds = (1.0 - self.tokens).max(0.0) / self.rate();
        // A microsecond more, so that rounding never leaves the bucket just short of it.
        let wait = Duration::try_from_secs_f64(seconds).ok()? + Duration::from_micros(1);
        Some(self.paused_at().max(self.filled) + wait)
    }

    /// Returns from when on time brings tokens.
    fn paused_at(&self) -> Instant {
        let pause = Duration::from_secs_f64(2.0 * self.interval);
        self.last_source.map_or(Instant::ZERO, |last| last + pause)
    }

    /// Returns src·r in symbols per second.
    fn rate(&self) -> f64 {
        // Sources that all left at one instant have no interval; a millisecond stands for it.
        self.redundancy / self.interval.max(1e-3)
    }

    fn add(&mut self, tokens: f64) {
        self.tokens = (self.tokens + tokens).min(self.depth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_bring_their_share_and_pauses_bring_it_in_time() {
        let mut bucket = Bucket::new(0.5, 8.0);
        let at = |ms: u64| Instant::from_millis(1_000 + ms);
        for n in 0..100 {
            bucket.fill(at(5 * n));
            bucket.on_source(at(5 * n));
            if bucket.has_token() {
                bucket.take();
            }
        }
        // Half of the sources brought a repair symbol, and time nothing.
        assert!(bucket.tokens.abs() < 1e-9, "{}", bucket.tokens);
        let next = bucket.next_token().expect("the pause brings one");
        // Two intervals until it counts as a pause, two more for a whole token.
        assert!((next.since(at(495)).as_secs_f64() - 0.02).abs() < 1e-3, "{next:?}");
        bucket.fill(next);
        assert!(bucket.has_token());
        let mut none = Bucket::new(0.0, 8.0);
        none.on_source(at(0));
        assert_eq!(none.next_token(), None, "no redundancy, no repair");
    }
}
