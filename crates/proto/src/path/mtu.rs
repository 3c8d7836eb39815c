//! The largest datagram that a path carries, found by probing it [RFC 8899]
//! [specs/paths.md §4] (rule 6).
//!
//! Starts at what nearly every link carries, or at what the interface says where that is less,
//! tries the largest first, then the start itself, and then the middle of what is left, one probe
//! at a time. A size is given up after three probes. What no packet has proven is given up as soon
//! as such packets vanish while smaller ones arrive: meanwhile longer datagrams go in pieces, so
//! that costs bytes, and nothing else. When large packets that were proven vanish, the path has
//! become a black hole for them: back to the start.

use units::{Duration, Instant};

use super::HARDLY_CHANCE;
use crate::limits::{LEAST_DATAGRAM, MAX_DATAGRAM, MIN_DATAGRAM};

/// UDP payloads that common links and tunnels leave: links of 576, 800, 1,000, 1,128 and 1,228
/// bytes, of 1,280 over IPv6 and IPv4, and from there on encapsulations of Ethernet; the last is
/// plain IPv4 Ethernet, the one before plain IPv6.
const SIZES: [usize; 13] = [
    LEAST_DATAGRAM,
    772,
    972,
    1_100,
    MIN_DATAGRAM,
    1_232,
    1_252,
    1_280,
    1_352,
    1_392,
    1_420,
    1_452,
    MAX_DATAGRAM,
];
/// What a path does says something of it once it has lasted for this long: that it is alive, before
/// a probe takes 370 ms of its time at 32 kbit/s; and that it loses large packets alone, as a full
/// queue that counts bytes does as well, but not for as long.
const LASTING: Duration = Duration::from_secs(1);
/// Time to the next search after one that ended below the largest size.
const SEARCH_AGAIN: Duration = Duration::from_secs(300);
/// Large packets lost in a row, with none arriving, that make a black hole.
const BLACK_HOLE: u32 = 12;

/// Finds and watches the MTU of one path.
#[derive(Clone, Debug)]
pub(super) struct MtuDiscovery {
    current: usize,
    /// The largest that has arrived.
    proven: usize,
    /// What the interface says that it carries.
    limit: usize,
    /// Sizes from here on up are known to be too large.
    too_large: usize,
    failures: u32,
    /// A probe of the largest size was lost: now the size in use is to be proven first.
    largest_tried: bool,
    in_flight: bool,
    search_at: Instant,
    settled_at: Instant,
    hole: Hole,
    /// A search has ended below what the interface says.
    has_failed: bool,
}

/// Large packets lost in a row.
#[derive(Clone, Copy, Debug)]
struct Hole {
    lost: u32,
    since: Instant,
    /// The shortest of them.
    bytes: usize,
    /// A shorter one has arrived since.
    small_arrived: bool,
}

impl MtuDiscovery {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            current: MIN_DATAGRAM,
            proven: LEAST_DATAGRAM,
            limit: MAX_DATAGRAM,
            too_large: MAX_DATAGRAM + 1,
            failures: 0,
            largest_tried: false,
            in_flight: false,
            search_at: now,
            settled_at: now,
            hole: Hole::none(now),
            has_failed: false,
        }
    }

    /// Learns what the interface says that it carries.
    pub(super) fn set_limit(&mut self, now: Instant, bytes: usize) {
        let limit = bytes.clamp(LEAST_DATAGRAM, MAX_DATAGRAM);
        if limit == self.limit {
            return;
        }
        self.limit = limit;
        (self.current, self.proven) = (self.current.min(limit), self.proven.min(limit));
        (self.too_large, self.failures, self.largest_tried) = (MAX_DATAGRAM + 1, 0, false);
        self.search_at = now;
    }

    /// Notes that the path is new or has come back: it has more urgent things to carry, and
    /// meanwhile shows whether it is too thin for probes.
    pub(super) fn on_alive(&mut self, now: Instant) {
        self.settled_at = now + LASTING;
    }

    /// Returns the largest datagram that may be sent whole.
    pub(super) fn current(&self) -> usize {
        self.current
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
        if self.current > self.proven && self.largest_tried {
            return Some(self.current);
        }
        let middle = || self.open().nth(self.open().count() / 2);
        if self.too_large > self.limit { self.open().last() } else { middle() }
    }

    /// Returns when the next search begins, if none is under way.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let at = self.search_at.max(self.settled_at);
        (!self.in_flight && self.open().next().is_some()).then_some(at)
    }

    /// Tells whether a search has ended in vain: the next one is likely to be so as well.
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

    pub(super) fn on_probe_acked(&mut self, now: Instant, size: usize) {
        self.in_flight = false;
        self.failures = 0;
        self.prove(size);
        self.look_for_end(now);
    }

    pub(super) fn on_probe_lost(&mut self, now: Instant, size: usize) {
        self.in_flight = false;
        if self.current > self.proven && !self.largest_tried {
            self.largest_tried = true;
            return;
        }
        self.failures += 1;
        if self.failures < HARDLY_CHANCE {
            return;
        }
        self.failures = 0;
        self.too_large = self.too_large.min(size);
        if self.current >= self.too_large {
            self.current = self.proven;
        }
        self.look_for_end(now);
    }

    /// Notes that a packet of data of this size arrived.
    pub(super) fn on_acked(&mut self, now: Instant, bytes: usize) {
        self.prove(bytes);
        if bytes >= self.hole.bytes {
            self.hole = Hole::none(now);
        } else {
            self.hole.small_arrived = true;
            self.doubt_unproven(now);
        }
    }

    /// Notes that a packet of data of this size was lost while the path was alive.
    pub(super) fn on_lost(&mut self, now: Instant, bytes: usize) {
        if bytes <= LEAST_DATAGRAM {
            return;
        }
        self.hole.add(now, bytes);
        let Hole { lost, since, bytes, small_arrived } = self.hole;
        let lasts = lost >= BLACK_HOLE && now.since(since) >= LASTING;
        if bytes > self.proven {
            self.doubt_unproven(now);
        } else if small_arrived && lasts {
            let limit = self.limit;
            // It may have been chance.
            *self = Self { limit, ..Self::new(now + SEARCH_AGAIN) };
            self.current = self.current.min(limit);
        }
    }

    /// Forgets a probe whose fate will never be known. Packets of data of these sizes were given up
    /// because the path has fallen silent: if they are why, small ones arrive again before they do.
    pub(super) fn on_silence(&mut self, now: Instant, lost: impl Iterator<Item = usize>) {
        self.in_flight = false;
        if self.hole.bytes <= self.proven {
            self.hole = Hole::none(now);
        }
        for bytes in lost.filter(|bytes| *bytes > self.proven) {
            self.hole.add(now, bytes);
        }
    }

    /// Gives up sizes that nothing has proven, where such packets vanish and smaller ones arrive.
    fn doubt_unproven(&mut self, now: Instant) {
        let Hole { lost, bytes, small_arrived, .. } = self.hole;
        let is_unproven = lost >= HARDLY_CHANCE && bytes > self.proven;
        if is_unproven && small_arrived {
            (self.current, self.search_at) = (self.proven, now);
            self.hole = Hole::none(now);
        }
    }

    /// Lists the sizes that may still be found to fit.
    fn open(&self) -> impl Iterator<Item = usize> {
        let (first, end) = (self.proven + 1, self.too_large.min(self.limit + 1));
        let larger =
            if first < end { SIZES.partition_point(|size| *size < first) } else { SIZES.len() };
        let sizes = SIZES[larger..].iter().copied().take_while(move |size| *size < end);
        // What the interface says may stand between two of them, and is the largest.
        let limit = (first..end).contains(&self.limit) && !SIZES.contains(&self.limit);
        sizes.chain(limit.then_some(self.limit))
    }

    fn prove(&mut self, bytes: usize) {
        self.proven = self.proven.max(bytes.min(self.limit));
        self.current = self.current.max(self.proven);
    }

    /// Ends the search where nothing is left to try.
    fn look_for_end(&mut self, now: Instant) {
        if self.open().next().is_some() {
            return;
        }
        self.current = self.proven;
        if self.too_large > self.limit {
            return;
        }
        self.too_large = MAX_DATAGRAM + 1;
        self.search_at = now + SEARCH_AGAIN;
        self.has_failed = true;
    }
}

impl Hole {
    fn none(now: Instant) -> Self {
        Self { lost: 0, since: now, bytes: usize::MAX, small_arrived: false }
    }

    fn add(&mut self, now: Instant, bytes: usize) {
        if self.lost == 0 {
            (self.since, self.small_arrived) = (now, false);
        }
        self.lost += 1;
        self.bytes = self.bytes.min(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches on a path that carries `carried` bytes; returns the MTU and the probes it took.
    fn search(mtu: &mut MtuDiscovery, now: Instant, carried: usize) -> (usize, u32) {
        let mut probes = 0;
        while let Some(size) = mtu.probe(now) {
            mtu.on_probe_sent();
            probes += 1;
            if size <= carried {
                mtu.on_probe_acked(now, size);
            } else {
                mtu.on_probe_lost(now, size);
            }
        }
        (mtu.current(), probes)
    }

    fn found(carried: usize) -> (usize, u32) {
        search(&mut MtuDiscovery::new(Instant::ZERO), Instant::ZERO, carried)
    }

    #[test]
    fn plain_ethernet_takes_one_probe() {
        assert_eq!(found(1_472), (1_472, 1));
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
    fn every_size_is_found_by_halves() {
        for (at, &size) in SIZES.iter().enumerate() {
            let next = SIZES.get(at + 1).map_or(size, |next| next - 1);
            let (one, other) = (found(size), found(next));
            assert_eq!((one.0, other.0), (size, size));
            assert!(one.1 <= 15 && other.1 <= 15, "{one:?} {other:?}");
        }
    }

    #[test]
    fn what_the_interface_says_takes_one_probe_whatever_it_is() {
        for limit in [548, 600, 1_000, 1_200, 1_233, 1_252, 1_400] {
            let mut mtu = MtuDiscovery::new(Instant::ZERO);
            mtu.set_limit(Instant::ZERO, limit);
            assert_eq!(mtu.current(), limit.min(1_200));
            let probes = u32::from(limit > LEAST_DATAGRAM);
            assert_eq!(search(&mut mtu, Instant::ZERO, limit), (limit, probes));
            assert_eq!((mtu.timeout(), mtu.has_failed()), (None, false));
        }
        // It was plugged into something else: what is larger is looked for, what is smaller holds
        // at once.
        let mut mtu = MtuDiscovery::new(Instant::ZERO);
        search(&mut mtu, Instant::ZERO, 1_472);
        mtu.set_limit(Instant::ZERO, 1_252);
        assert_eq!((mtu.current(), mtu.probe(Instant::ZERO)), (1_252, None));
        mtu.set_limit(Instant::ZERO, 9_000);
        assert_eq!((mtu.current(), mtu.probe(Instant::ZERO)), (1_252, Some(1_472)));
    }

    #[test]
    fn what_nothing_has_proven_is_given_up_at_once_and_the_search_begins() {
        let mut mtu = MtuDiscovery::new(Instant::ZERO);
        for _ in 0..3 {
            mtu.on_lost(Instant::ZERO, 1_200);
        }
        assert_eq!(mtu.current(), 1_200, "no small packet arrived: that is silence");
        mtu.on_acked(Instant::ZERO, 100);
        mtu.on_lost(Instant::ZERO, 700);
        assert_eq!((mtu.current(), mtu.probe(Instant::ZERO)), (548, Some(1_472)));
        assert_eq!(search(&mut mtu, Instant::ZERO, 972).0, 972);
        // All that is under way is too long: that looks like silence, until a probe is answered.
        let mut mtu = MtuDiscovery::new(Instant::ZERO);
        mtu.on_silence(Instant::ZERO, [1_200; 3].into_iter());
        assert_eq!(mtu.current(), 1_200);
        mtu.on_acked(Instant::ZERO, 40);
        assert_eq!(mtu.current(), 548);
        search(&mut mtu, Instant::ZERO, 972);
        mtu.on_silence(Instant::ZERO, [972; 30].into_iter());
        mtu.on_acked(Instant::ZERO, 40);
        assert_eq!(mtu.current(), 972, "that is silence");
    }

    #[test]
    fn a_search_in_vain_is_repeated() {
        let mut mtu = MtuDiscovery::new(Instant::ZERO);
        assert_eq!(search(&mut mtu, Instant::ZERO, 1_252).0, 1_252);
        let again = Instant::ZERO + SEARCH_AGAIN;
        assert_eq!((mtu.timeout(), mtu.has_failed()), (Some(again), true));
        assert_eq!(search(&mut mtu, again, 1_472).0, 1_472);
        assert_eq!(mtu.timeout(), None);
    }

    #[test]
    fn a_black_hole_falls_back_to_the_base_and_is_searched_again() {
        let mut mtu = MtuDiscovery::new(Instant::ZERO);
        mtu.on_probe_sent();
        mtu.on_probe_acked(Instant::ZERO, 1_472);
        for _ in 0..100 {
            mtu.on_lost(Instant::ZERO, 1_472);
        }
        assert_eq!(mtu.current(), 1_472, "no small packet arrived: that is silence");
        mtu.on_acked(Instant::ZERO, 100);
        mtu.on_lost(Instant::from_millis(999), 1_472);
        assert_eq!(mtu.current(), 1_472, "a full queue may do that for a moment");
        let now = Instant::from_millis(1_000);
        mtu.on_lost(now, 1_472);
        assert_eq!((mtu.current(), mtu.probe(now)), (1_200, None));
        assert_eq!(mtu.probe(now + SEARCH_AGAIN), Some(1_472));
    }

    #[test]
    fn random_loss_is_no_black_hole() {
        let (mut mtu, mut rng) = (MtuDiscovery::new(Instant::ZERO), units::Rng::new(5));
        mtu.on_probe_sent();
        mtu.on_probe_acked(Instant::ZERO, 1_472);
        for _ in 0..1_000_000 {
            mtu.on_acked(Instant::ZERO, 100);
            if rng.chance(0.2) {
                mtu.on_lost(Instant::ZERO, 1_472);
            } else {
                mtu.on_acked(Instant::ZERO, 1_472);
            }
        }
        assert_eq!(mtu.current(), 1_472);
    }
}
