//! The largest datagram that a path carries, found by probing it [RFC 8899]
//! [specs/paths.md §4] (rule 6).
//!
//! Starts at the size that every path must carry, tries the largest first and then what common
//! encapsulations leave, one probe at a time. A size is given up after three probes. When large
//! packets vanish while small ones arrive, the path has become a black hole for them: back to the
//! base, and another search after a while.

use units::{Duration, Instant};

use crate::limits::{MAX_DATAGRAM, MIN_DATAGRAM};

/// UDP payloads that common links and tunnels leave, after the base; the last is plain IPv4
/// Ethernet, the one before plain IPv6.
const SIZES: [usize; 6] = [1_280, 1_352, 1_392, 1_420, 1_452, MAX_DATAGRAM];
/// A path is probed once it has been alive for this long: a probe takes 370 ms at 32 kbit/s.
const SETTLE: Duration = Duration::from_secs(1);
/// Probes of one size before it is given up: at 10 % loss one size in a thousand is missed.
const PROBES: u32 = 3;
/// Time to the next search after one that ended below the largest size.
const SEARCH_AGAIN: Duration = Duration::from_secs(300);
/// Time to the next search after a black hole was suspected: it may have been chance.
const BLACK_HOLE_PAUSE: Duration = Duration::from_secs(20);
/// Large packets lost in a row, with none arriving, that make a black hole.
const BLACK_HOLE: u32 = 12;
/// How long that must go on: a full queue that counts bytes also refuses large packets and takes
/// small ones, but not for as long.
const BLACK_HOLE_TIME: Duration = Duration::from_secs(1);

/// Finds and watches the MTU of one path.
#[derive(Clone, Debug)]
pub(super) struct MtuDiscovery {
    current: usize,
    /// Sizes from here on up are known to be too large.
    too_large: usize,
    failures: u32,
    in_flight: bool,
    search_at: Instant,
    settled_at: Instant,
    large_lost: u32,
    large_lost_since: Instant,
    small_arrived: bool,
    /// A search has ended at the base.
    has_failed: bool,
}

impl MtuDiscovery {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            current: MIN_DATAGRAM,
            too_large: MAX_DATAGRAM + 1,
            failures: 0,
            in_flight: false,
            search_at: now,
            settled_at: now,
            large_lost: 0,
            large_lost_since: now,
            small_arrived: false,
            has_failed: false,
        }
    }

    /// Notes that the path is new or has come back: it has more urgent things to carry, and
    /// meanwhile shows whether it is too thin for probes.
    pub(super) fn on_alive(&mut self, now: Instant) {
        self.settled_at = now + SETTLE;
    }

    /// Returns the largest datagram that may be sent.
    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Returns the largest datagram that may be found to fit by the search that is under way.
    pub(super) fn hoped(&self, now: Instant) -> usize {
        let open = SIZES.into_iter().rev().find(|&size| size < self.too_large);
        if now < self.search_at {
            self.current
        } else {
            open.map_or(self.current, |size| size.max(self.current))
        }
    }

    /// Tells whether the path has been alive for a while.
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        now >= self.settled_at
    }

    /// Returns the size of the probe that is to be sent now.
    pub(super) fn probe(&self, now: Instant) -> Option<usize> {
        if self.in_flight || now < self.search_at {
            return None;
        }
        SIZES.into_iter().rev().find(|&size| size > self.current && size < self.too_large)
    }

    /// Returns when the next search begins, if none is under way.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let at = self.search_at.max(self.settled_at);
        (!self.in_flight && self.current < MAX_DATAGRAM).then_some(at)
    }

    /// Tells whether a search has found nothing: the next one is likely to be in vain as well.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Tells whether a probe is under way.
    pub(super) fn is_probing(&self) -> bool {
        self.in_flight
    }

    pub(super) fn on_probe_sent(&mut self) {
        self.in_flight = true;
    }

    pub(super) fn on_probe_acked(&mut self, size: usize) {
        self.in_flight = false;
        self.failures = 0;
        self.current = self.current.max(size.min(MAX_DATAGRAM));
    }

    pub(super) fn on_probe_lost(&mut self, now: Instant, size: usize) {
        self.in_flight = false;
        self.failures += 1;
        if self.failures < PROBES {
            return;
        }
        self.failures = 0;
        self.too_large = self.too_large.min(size);
        if self.probe(now).is_none() {
            self.too_large = MAX_DATAGRAM + 1;
            self.search_at = now + SEARCH_AGAIN;
            self.has_failed = true;
        }
    }

    /// Notes that a packet of data of this size arrived.
    pub(super) fn on_acked(&mut self, bytes: usize) {
        if bytes > MIN_DATAGRAM {
            self.large_lost = 0;
            self.small_arrived = false;
        } else {
            self.small_arrived = true;
        }
    }

    /// Notes that a packet of data of this size was lost while the path was alive.
    pub(super) fn on_lost(&mut self, now: Instant, bytes: usize) {
        if bytes <= MIN_DATAGRAM {
            return;
        }
        if self.large_lost == 0 {
            self.large_lost_since = now;
        }
        self.large_lost += 1;
        let lasts = now.since(self.large_lost_since) >= BLACK_HOLE_TIME;
        if self.large_lost >= BLACK_HOLE && lasts && self.small_arrived {
            *self = Self::new(now + BLACK_HOLE_PAUSE);
        }
    }

    /// Forgets a probe whose fate will never be known.
    pub(super) fn on_silence(&mut self) {
        self.in_flight = false;
        self.large_lost = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches on a path that carries `carried` bytes; returns the MTU and the probes it took.
    fn search(carried: usize) -> (usize, u32) {
        let mut mtu = MtuDiscovery::new(Instant::ZERO);
        let mut probes = 0;
        while let Some(size) = mtu.probe(Instant::ZERO) {
            mtu.on_probe_sent();
            probes += 1;
            if size <= carried {
                mtu.on_probe_acked(size);
            } else {
                mtu.on_probe_lost(Instant::ZERO, size);
            }
        }
        (mtu.current(), probes)
    }

    #[test]
    fn plain_ethernet_takes_one_probe() {
        assert_eq!(search(1_472), (1_472, 1));
    }

    #[test]
    fn what_is_new_settles_first() {
        let mut mtu = MtuDiscovery::new(Instant::ZERO);
        mtu.on_alive(Instant::ZERO);
        let is_settled = |ms| mtu.is_settled(Instant::from_millis(ms));
        assert_eq!((is_settled(999), is_settled(1_000)), (false, true));
        assert_eq!(mtu.timeout(), Some(Instant::from_millis(1_000)));
    }

    #[test]
    fn every_size_is_found_from_below() {
        assert_eq!(search(1_471), (1_452, 4));
        assert_eq!(search(1_400), (1_392, 10));
        assert_eq!(search(1_200), (1_200, 18));
    }

    #[test]
    fn a_black_hole_falls_back_to_the_base_and_is_searched_again() {
        let mut mtu = MtuDiscovery::new(Instant::ZERO);
        mtu.on_probe_sent();
        mtu.on_probe_acked(1_472);
        for _ in 0..100 {
            mtu.on_lost(Instant::ZERO, 1_472);
        }
        assert_eq!(mtu.current(), 1_472, "no small packet arrived: that is silence");
        mtu.on_acked(100);
        mtu.on_lost(Instant::from_millis(999), 1_472);
        assert_eq!(mtu.current(), 1_472, "a full queue may do that for a moment");
        let now = Instant::from_millis(1_000);
        mtu.on_lost(now, 1_472);
        assert_eq!((mtu.current(), mtu.probe(now)), (1_200, None));
        assert_eq!(mtu.probe(now + BLACK_HOLE_PAUSE), Some(1_472));
    }

    #[test]
    fn random_loss_is_no_black_hole() {
        let (mut mtu, mut rng) = (MtuDiscovery::new(Instant::ZERO), units::Rng::new(5));
        mtu.on_probe_sent();
        mtu.on_probe_acked(1_472);
        for _ in 0..1_000_000 {
            mtu.on_acked(100);
            if rng.chance(0.2) { mtu.on_lost(Instant::ZERO, 1_472) } else { mtu.on_acked(1_472) }
        }
        assert_eq!(mtu.current(), 1_472);
    }
}
