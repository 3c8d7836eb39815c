//! How much work strangers may cause: token buckets per source and over all.
//!
//! Asked after the cookie has proved the source address and before any Diffie–Hellman, so that a
//! source cannot spend another one's share, and all together cannot spend the processor.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use units::{Duration, Instant};

use crate::limits;

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

/// Counts handshakes per source address, in bounded memory.
#[derive(Debug)]
pub(super) struct SourceLimiter {
    all: TokenBucket,
    sources: BTreeMap<Source, TokenBucket>,
    /// Sources in the order in which they came: the oldest makes room.
    order: VecDeque<Source>,
}

/// What counts as one source: an IPv4 address, or an IPv6 network of 64 bits, which one host owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    V4([u8; 4]),
    V6([u8; 8]),
}

impl Source {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let octets = address.octets();
                Self::V6(octets.first_chunk().copied().unwrap_or_default())
            }
        }
    }
}

impl SourceLimiter {
    /// Starts with nothing spent.
    pub(super) fn new() -> Self {
        Self {
            all: TokenBucket::new(limits::HANDSHAKES_PER_SECOND, limits::HANDSHAKES_BURST),
            sources: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Returns true when a handshake of this source may cost a Diffie–Hellman now.
    pub(super) fn take(&mut self, now: Instant, address: IpAddr) -> bool {
        self.bucket(Source::of(address)).take(now) && self.all.take(now)
    }

    /// Returns how many sources are counted.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    fn bucket(&mut self, source: Source) -> &mut TokenBucket {
        if !self.sources.contains_key(&source) {
            if self.order.len() >= limits::SOURCES
                && let Some(oldest) = self.order.pop_front()
            {
                self.sources.remove(&oldest);
            }
            self.order.push_back(source);
        }
        self.sources.entry(source).or_insert_with(|| {
            TokenBucket::new(limits::HANDSHAKES_PER_SECOND_SOURCE, limits::HANDSHAKES_BURST_SOURCE)
        })
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

    #[test]
    fn one_source_does_not_spend_the_share_of_another_and_the_table_is_bounded() {
        let mut limiter = SourceLimiter::new();
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let spent = |limiter: &mut SourceLimiter, text| {
            (0..1_000).filter(|_| limiter.take(Instant::ZERO, address(text))).count()
        };
        let burst = limits::HANDSHAKES_BURST_SOURCE as usize;
        assert_eq!(spent(&mut limiter, "10.0.0.1"), burst);
        assert_eq!(spent(&mut limiter, "::ffff:10.0.0.1"), 0, "the same source");
        assert_eq!(spent(&mut limiter, "fd00::1"), burst);
        assert_eq!(spent(&mut limiter, "fd00::2"), 0, "the same network");
        for index in 0..100_000_u32 {
            limiter.take(Instant::ZERO, IpAddr::from(index.to_be_bytes()));
        }
        assert_eq!(limiter.sources.len(), limits::SOURCES);
        assert_eq!(limiter.order.len(), limits::SOURCES);
    }
}
