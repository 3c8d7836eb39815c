//! The receiver's half: each symbol once, and each flow in its order.
//!
//! A symbol says how far back the previous one of its flow lies. It is passed on when that one has been, or has
//! grown so old that nothing is known of it; otherwise it waits. So nothing is remembered of flows, and what one
//! of them misses holds up no other.
//!
//! A wait ends after four round trips of the slowest path in use: by then a symbol that was lost has been sent
//! again three times. What is still missing then is TCP's to ask for; if it comes after all, it is passed on late.
//! While no path works no wait ends, and afterwards all of them begin anew: a hole that TCP sees after an outage
//! costs a timeout as long as the outage was.

use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant};

use crate::limits;
use crate::window::SeenWindow;
use crate::wire::TunnelFrame;

/// Round trips of the slowest path for which a symbol waits for an earlier one …
const ROUND_TRIPS: u32 = 4;
/// … and the bounds of that.
const LEAST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

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
    resumed_at: Instant,
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
            resumed_at: Instant::ZERO,
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

    /// Learns the round-trip time of the slowest path in use; none: no path works.
    pub(super) fn set_slowest(&mut self, now: Instant, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.wait = (rtt * ROUND_TRIPS).clamp(LEAST_WAIT, LONGEST_WAIT);
        }
        if self.outage && rtt.is_some() {
            self.resumed_at = now;
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

    pub(super) fn counters(&self) -> Received {
        self.counters
    }

    fn wait_ends(&self, arrived: Instant) -> Instant {
        arrived.max(self.resumed_at) + self.wait
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
    fn end_wait(&mut self, now: Instant, number: u64) {
        let mut first = number;
        while let Some(held) = self.held.get(&first)
            && self.held.contains_key(&held.previous)
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
