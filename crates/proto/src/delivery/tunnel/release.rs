//! The receiver's half: each symbol once, and each flow in its order.
//!
//! A symbol says how far back the previous one of its flow lies. It is passed on when that one has
//! been, or has grown so old that nothing is known of it; otherwise it waits. So nothing is
//! remembered of flows, and what one of them misses holds up no other.
//!
//! A wait ends after four round trips of the slowest path in use: by then a symbol that was lost
//! has been sent again three times. What is still missing then is TCP's to ask for; if it comes
//! after all, it is passed on late. While no path works, or nothing comes in at all, no wait ends,
//! and afterwards all of them begin anew: a hole that TCP sees after an outage costs a timeout as
//! long as the outage was.

use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant};

use crate::delivery::generation::LONGEST_WAIT;
use crate::limits;
use crate::window::SeenWindow;
use crate::wire::TunnelFrame;

/// Round trips of the slowest path for which a symbol waits for an earlier one …
const ROUND_TRIPS: u32 = 4;
/// … and the least of that: before this neither a symbol that is missing nor a packet that waits
/// for its turn is left to TCP, which sends it again.
pub(super) const LEAST_WAIT: Duration = Duration::from_millis(250);
/// When no symbol has come for so long, the sender is silent.
const QUIET: Duration = Duration::from_millis(150);

/// A packet that may be passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Released {
    /// Estimated time since it was handed in.
    pub(super) age: Duration,
    /// How much of that it has waited here for earlier ones.
    pub(super) waited: Duration,
    /// The packet.
    pub(super) payload: Vec<u8>,
}

/// Counts what came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// Symbols that had come before.
    pub(super) duplicates: u64,
    /// Waits that ended without the symbol that was waited for.
    pub(super) expired: u64,
}

#[derive(Debug)]
struct Held {
    /// The symbol that it waits for.
    previous: u64,
    arrived: Instant,
    age: Duration,
    payload: Vec<u8>,
}

/// Puts symbols in the order of their flows.
#[derive(Debug)]
pub(super) struct Release {
    /// Made with the first symbol.
    seen: Option<SeenWindow>,
    held: BTreeMap<u64, Held>,
    /// Which symbol waits for one.
    followers: BTreeMap<u64, u64>,
    /// Those that wait, in the order in which they came; some have gone.
    arrivals: VecDeque<(Instant, u64)>,
    bytes: usize,
    /// How many bytes may wait, if the session may not hold more.
    most: usize,
    /// How long one waits, and from when on: not while no path works.
    wait: Duration,
    outage: bool,
    worked_at: Instant,
    /// The same, silences counted as well, and when a symbol came last.
    resumed_at: Instant,
    heard_at: Instant,
    ready: VecDeque<Released>,
    counters: Received,
}

impl Default for Release {
    fn default() -> Self {
        Self {
            seen: None,
            held: BTreeMap::new(),
            followers: BTreeMap::new(),
            arrivals: VecDeque::new(),
            bytes: 0,
            most: limits::TUNNEL_BYTES,
            wait: LEAST_WAIT,
            outage: true,
            worked_at: Instant::ZERO,
            resumed_at: Instant::ZERO,
            heard_at: Instant::ZERO,
            ready: VecDeque::new(),
            counters: Received::default(),
        }
    }
}

impl Release {
    /// Takes a symbol in; `age` is its estimated age now.
    pub(super) fn handle_symbol(&mut self, now: Instant, frame: &TunnelFrame<'_>, age: Duration) {
        let seen = self.seen.get_or_insert_with(|| SeenWindow::new(limits::TUNNEL_SEEN));
        if !seen.insert(frame.number) {
            self.counters.duplicates += 1;
            return;
        }
        if now.since(self.heard_at) > QUIET {
            self.resumed_at = now;
        }
        self.heard_at = now;
        let previous = frame.number.saturating_sub(frame.back);
        let waits = frame.back > 0 && (seen.is_new(previous) || self.held.contains_key(&previous));
        let payload = frame.payload.to_vec();
        if waits {
            self.bytes += payload.len() + limits::BESIDE;
            self.held.insert(frame.number, Held { previous, arrived: now, age, payload });
            self.followers.insert(previous, frame.number);
            self.arrivals.push_back((now, frame.number));
            self.keep_within_bounds(now);
        } else {
            self.ready.push_back(Released { age, waited: Duration::ZERO, payload });
            self.let_followers_go(now, frame.number);
        }
    }

    /// Tells whether a symbol has not come yet, and is not too old to be told.
    pub(super) fn is_new(&self, number: u64) -> bool {
        self.seen.as_ref().is_none_or(|seen| seen.is_new(number))
    }

    /// Learns the round-trip time of the slowest path in use; none: no path works.
    pub(super) fn set_slowest(&mut self, now: Instant, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.wait = (rtt * ROUND_TRIPS).clamp(LEAST_WAIT, LONGEST_WAIT);
        }
        if self.outage && rtt.is_some() {
            (self.worked_at, self.resumed_at) = (now, now);
        }
        self.outage = rtt.is_none();
    }

    /// Returns when the next wait ends.
    pub(super) fn timeout(&self) -> Option<Instant> {
        if self.outage {
            return None;
        }
        self.arrivals.front().map(|(arrived, _)| self.wait_ends(*arrived))
    }

    /// Ends the waits that have lasted long enough.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while !self.outage
            && let Some(&(arrived, number)) = self.arrivals.front()
            && (self.wait_ends(arrived) <= now || !self.held.contains_key(&number))
        {
            self.arrivals.pop_front();
            if self.held.contains_key(&number) {
                self.counters.expired += 1;
                self.end_wait(now, number);
            }
        }
    }

    /// Returns the next packet that may be passed on.
    pub(super) fn poll(&mut self) -> Option<Released> {
        self.ready.pop_front()
    }

    /// Returns the bytes that wait.
    pub(super) fn held(&self) -> usize {
        self.bytes
    }

    /// Notes how many bytes more the session may hold.
    pub(super) fn set_room(&mut self, room: usize) {
        self.most = self.bytes.saturating_add(room).min(limits::TUNNEL_BYTES);
    }

    /// Tells whether nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    /// Gives back what an idle release needs not.
    pub(super) fn give_back(&mut self) {
        // Of those that came nothing waits any more.
        self.arrivals = VecDeque::new();
        self.ready.shrink_to_fit();
    }

    pub(super) fn counters(&self) -> Received {
        self.counters
    }

    fn wait_ends(&self, arrived: Instant) -> Instant {
        let end = arrived.max(self.resumed_at) + self.wait;
        let end = match end.since(self.heard_at) > QUIET {
            // By then it is known whether the paths are silent, and no wait ends: if they are not,
            // the sender has given the symbol up.
            true => end.max(self.heard_at + limits::LONGEST_BURST),
            false => end,
        };
        // No longer than for two such silences in all: where others speak now and then, each of
        // their silences would begin the wait anew.
        end.min(arrived.max(self.worked_at) + self.wait + limits::LONGEST_BURST * 2)
    }

    /// Waits no longer where more waits than an honest sender leaves open.
    fn keep_within_bounds(&mut self, now: Instant) {
        while (self.bytes > self.most || self.held.len() > limits::TUNNEL_SYMBOLS)
            && let Some((&first, _)) = self.held.first_key_value()
        {
            self.end_wait(now, first);
        }
        if self.arrivals.len() > 2 * limits::TUNNEL_SYMBOLS {
            let held = &self.held;
            self.arrivals.retain(|(_, number)| held.contains_key(number));
        }
    }

    /// Passes on a symbol together with those that it waits for and those that wait for it.
    ///
    /// Only one can follow another. Where a false sender names the same previous symbol twice, the
    /// other one goes alone.
    fn end_wait(&mut self, now: Instant, number: u64) {
        let mut first = number;
        while let Some(held) = self.held.get(&first)
            && self.held.contains_key(&held.previous)
            && self.followers.get(&held.previous) == Some(&first)
        {
            first = held.previous;
        }
        self.let_go(now, first);
        self.let_followers_go(now, first);
    }

    fn let_followers_go(&mut self, now: Instant, number: u64) {
        let mut number = number;
        while let Some(next) = self.followers.remove(&number) {
            self.let_go(now, next);
            number = next;
        }
    }

    fn let_go(&mut self, now: Instant, number: u64) {
        let Some(held) = self.held.remove(&number) else { return };
        // Another one may have come to wait for the same.
        if self.followers.get(&held.previous) == Some(&number) {
            self.followers.remove(&held.previous);
        }
        self.bytes -= held.payload.len() + limits::BESIDE;
        let waited = now.since(held.arrived);
        self.ready.push_back(Released { age: held.age + waited, waited, payload: held.payload });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn release() -> Release {
        let mut release = Release::default();
        release.set_slowest(at(0), Some(70 * MS));
        release
    }

    /// Gives a symbol and returns the numbers of those that are passed on then.
    fn give(release: &mut Release, ms: u64, number: u64, back: u64) -> Vec<u8> {
        let payload = [number as u8];
        let frame = TunnelFrame { number, back, submitted_us: 0, payload: &payload };
        release.handle_symbol(at(ms), &frame, MS);
        taken(release)
    }

    fn taken(release: &mut Release) -> Vec<u8> {
        core::iter::from_fn(|| release.poll()).map(|released| released.payload[0]).collect()
    }

    #[test]
    fn a_flow_waits_for_its_own_packets_alone() {
        let mut release = release();
        // Flow a: 1, 3, 5; flow b: 2, 4, 6.
        assert_eq!(give(&mut release, 0, 1, 0), [1]);
        assert_eq!(give(&mut release, 0, 5, 2), []);
        assert_eq!(give(&mut release, 0, 2, 0), [2]);
        assert_eq!(give(&mut release, 0, 4, 2), [4]);
        assert_eq!(give(&mut release, 0, 6, 2), [6]);
        assert_eq!(give(&mut release, 0, 3, 2), [3, 5]);
        assert_eq!(give(&mut release, 0, 3, 2), [], "it has come before");
        assert_eq!((release.held(), release.counters().duplicates), (0, 1));
    }

    #[test]
    fn a_wait_ends_after_four_round_trips_and_what_comes_then_is_late() {
        let mut release = release();
        give(&mut release, 0, 1, 0);
        assert_eq!(give(&mut release, 10, 3, 1), []);
        assert_eq!(give(&mut release, 20, 4, 1), []);
        (1..10).for_each(|step| drop(give(&mut release, 30 * step, 10 + step, 0)));
        assert_eq!(release.timeout(), Some(at(290)));
        release.handle_timeout(at(289));
        assert_eq!(taken(&mut release), []);
        release.handle_timeout(at(290));
        assert_eq!(taken(&mut release), [3, 4]);
        assert_eq!((release.counters().expired, release.held()), (1, 0));
        assert_eq!(give(&mut release, 300, 2, 1), [2]);
        release.set_slowest(at(300), Some(10 * MS));
        give(&mut release, 300, 31, 1);
        give(&mut release, 420, 32, 0);
        assert_eq!(release.timeout(), Some(at(550)), "never less than 250 ms");
    }

    #[test]
    fn no_wait_ends_in_an_outage_and_each_begins_anew_after_it() {
        let mut release = release();
        give(&mut release, 0, 1, 0);
        give(&mut release, 10, 3, 1);
        release.set_slowest(at(1_500), None);
        assert_eq!(release.timeout(), None);
        release.handle_timeout(at(20_000));
        assert_eq!(taken(&mut release), []);
        release.set_slowest(at(20_000), Some(70 * MS));
        give(&mut release, 20_050, 4, 1);
        give(&mut release, 20_190, 5, 1);
        assert_eq!(release.timeout(), Some(at(20_330)));
        assert_eq!(give(&mut release, 20_300, 2, 1), [2, 3, 4, 5]);
    }

    #[test]
    fn while_nothing_comes_a_wait_lasts_until_it_is_known_whether_paths_work() {
        let mut release = release();
        give(&mut release, 0, 1, 0);
        give(&mut release, 10, 3, 1);
        assert_eq!(release.timeout(), Some(at(3_010)));
        give(&mut release, 2_000, 4, 1);
        assert_eq!(release.timeout(), Some(at(5_000)), "it begins anew");
        release.handle_timeout(at(5_000));
        assert_eq!(taken(&mut release), [3, 4]);
    }

    #[test]
    fn what_waits_is_bounded_and_the_oldest_goes_first() {
        let mut release = release();
        let symbols = limits::TUNNEL_SYMBOLS as u64;
        let passed: usize =
            (2..symbols + 12).map(|number| give(&mut release, 0, 2 * number, 1).len()).sum();
        assert_eq!((passed, release.held.len()), (10, limits::TUNNEL_SYMBOLS));
        release.set_room(0);
        assert_eq!(give(&mut release, 0, 100_001, 1), [24]);
    }

    #[test]
    fn symbols_that_no_honest_sender_makes_are_survived() {
        let mut release = release();
        for (number, back) in [
            (0, 0),
            (0, 1),
            (5, 5),
            (6, 7),
            (9, 2),
            (8, 1),
            (u64::MAX, 1),
            (u64::MAX, u64::MAX),
            (u64::MAX - 2, 1),
            (3, 1 << 40),
        ] {
            give(&mut release, 0, number, back);
        }
        release.handle_timeout(at(10_000));
        let _ = taken(&mut release);
        assert_eq!((release.held(), release.followers.len()), (0, 0));
    }

    #[test]
    fn of_two_that_name_the_same_symbol_before_them_neither_is_kept_for_ever() {
        let mut release = release();
        for (number, back) in [(6, 1), (7, 2), (5, 1)] {
            assert_eq!(give(&mut release, 0, number, back), []);
        }
        release.handle_timeout(at(10_000));
        assert_eq!(taken(&mut release), [6, 5, 7]);
        assert_eq!((release.held(), release.followers.len()), (0, 0));
    }

    #[test]
    fn what_others_say_now_and_then_makes_no_wait_last_for_ever() {
        for gap in [160, 200, 1_000, 2_900] {
            let mut release = release();
            give(&mut release, 0, 1, 0);
            assert_eq!(give(&mut release, 10, 3, 1), []);
            let mut passed_at = None;
            for (number, ms) in (4..).zip((0..60_000).step_by(gap).skip(1)) {
                while let Some(end) = release.timeout().filter(|end| *end <= at(ms)) {
                    release.handle_timeout(end);
                    if taken(&mut release).contains(&3) {
                        passed_at = passed_at.or(Some(end));
                    }
                }
                give(&mut release, ms, number, 0);
            }
            assert!(passed_at.is_some_and(|at| at <= self::at(7_000)), "{gap} ms: {passed_at:?}");
        }
    }

    #[test]
    fn what_is_idle_keeps_nothing_of_what_has_waited() {
        let mut release = release();
        (2..5_000).for_each(|number| drop(give(&mut release, 0, number, 1)));
        assert_eq!(give(&mut release, 1, 1, 0).len(), 4_999);
        assert!(release.is_idle() && release.arrivals.len() == 4_998);
        release.give_back();
        assert_eq!((release.arrivals.capacity(), release.ready.capacity()), (0, 0));
        assert_eq!(
            (release.timeout(), give(&mut release, 2, 5_000, 1)),
            (None, vec![(5_000 % 256) as u8])
        );
    }
}
