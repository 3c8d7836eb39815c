//! Which datagram is handled next when several sessions have one waiting: that of the session which
//! has cost the least \[SFQ\].
//!
//! ```text
//! start = max(start of the one served last, own finish)    when something begins to wait
//! served next: least start
//! finish = start + cost                                        which is also the start of the next one
//! ```
//!
//! What waits here has been authenticated, so no session spends another's share. While only one has
//! something waiting, it is served at once, whatever it has cost before. When several do, those
//! that cost more than their share wait, each in a queue of its own, and what does not fit into the
//! queue is dropped.
//!
//! Deviations from the paper:
//! 1. Costs are known when a datagram has been handled, not before: each session may overdraw by
//!    one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use units::{Duration, Instant};

use crate::crypto::INITIATION;
use crate::ids::SessionId;
use crate::limits;

/// One of those that take turns at the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share {
    /// All who ask for a session: it is not known yet who they are.
    Handshakes,
    /// A session.
    Session(SessionId),
}

/// What a session has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Processor time that its datagrams took, as far as it was charged.
    pub processor: Duration,
    /// Datagrams that waited while others had their turn.
    pub late: u64,
    /// Datagrams that were dropped, because too many waited.
    pub dropped: u64,
}

/// What of one share waits.
struct Line<T> {
    waiting: VecDeque<(Instant, usize, T)>,
    bytes: usize,
    /// Where its next one starts.
    start: Duration,
    work: Work,
}

/// Keeps a queue for each share, and their order.
pub(super) struct Turns<T> {
    lines: BTreeMap<Share, Line<T>>,
    /// Those of which something waits.
    order: BTreeSet<(Duration, Share)>,
    /// Bytes of sessions that wait.
    bytes: usize,
    /// The start of the one served last.
    served: Duration,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), order: BTreeSet::new(), bytes: 0, served: Duration::ZERO }
    }
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        let (start, work) = (Duration::ZERO, Work::default());
        Self { waiting: VecDeque::new(), bytes: 0, start, work }
    }
}

impl<T> Turns<T> {
    /// Tells whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Tells whether so many bytes may wait as well; counts a datagram that may not.
    pub(super) fn admits(&mut self, share: Share, bytes: usize) -> bool {
        let held = self.lines.get(&share).map_or(0, |line| line.bytes);
        let room = match share {
            Share::Handshakes => limits::SESSIONLESS * INITIATION,
            Share::Session(_) => {
                limits::WAITING_BYTES.min(limits::ALL_WAITING_BYTES.saturating_sub(self.bytes))
            }
        };
        let fits = held + bytes <= room;
        if !fits {
            self.lines.entry(share).or_default().work.dropped += 1;
        }
        fits
    }

    /// Lets something wait for its turn.
    pub(super) fn push(&mut self, now: Instant, share: Share, bytes: usize, waiting: T) {
        let line = self.lines.entry(share).or_default();
        if line.waiting.is_empty() {
            line.start = line.start.max(self.served);
            self.order.insert((line.start, share));
        }
        line.waiting.push_back((now, bytes, waiting));
        line.bytes += bytes;
        self.bytes += counted(share, bytes);
    }

    /// Returns since when something of a share has waited.
    pub(super) fn waits_since(&self, share: Share) -> Option<Instant> {
        self.lines.get(&share)?.waiting.front().map(|(since, ..)| *since)
    }

    /// Returns what is to be handled next, and whose it is.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Share, T)> {
        let next = *self.order.first()?;
        let (start, share) = next;
        let line = self.lines.get_mut(&share)?;
        let (since, bytes, waiting) = line.waiting.pop_front()?;
        line.bytes -= bytes;
        self.bytes -= counted(share, bytes);
        line.work.late += u64::from(now.since(since) > limits::SERVED_LATE);
        if line.waiting.is_empty() {
            self.order.remove(&next);
        }
        self.served = start;
        Some((share, waiting))
    }

    /// Notes what it has cost to handle something.
    pub(super) fn charge(&mut self, share: Share, cost: Duration) {
        let Some(line) = self.lines.get_mut(&share) else { return };
        let cost = cost.min(limits::DEAREST);
        let waits = self.order.remove(&(line.start, share));
        line.start += cost;
        line.work.processor += cost;
        if waits {
            self.order.insert((line.start, share));
        }
    }

    /// Forgets a share and what waits of it.
    pub(super) fn remove(&mut self, share: Share) {
        if let Some(line) = self.lines.remove(&share) {
            self.bytes -= counted(share, line.bytes);
            self.order.remove(&(line.start, share));
        }
    }

    /// Returns what a share has cost.
    pub(super) fn work(&self, share: Share) -> Work {
        self.lines.get(&share).map(|line| line.work).unwrap_or_default()
    }

    /// Returns the sizes of the tables.
    #[cfg(test)]
    pub(super) fn table_sizes(&self) -> [usize; 3] {
        let waiting = self.lines.values().map(|line| line.waiting.len()).sum();
        [self.lines.len(), self.order.len(), waiting]
    }
}

/// Returns what counts towards the bound on all sessions: handshakes have one of their own.
fn counted(share: Share, bytes: usize) -> usize {
    match share {
        Share::Handshakes => 0,
        Share::Session(_) => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);
    const FLOOD: Share = Share::Session(SessionId(1));
    const HONEST: Share = Share::Session(SessionId(2));

    fn at(us: u64) -> Instant {
        Instant::ZERO + US * us as u32
    }

    /// Serves one, which costs what it says.
    fn serve(turns: &mut Turns<u32>, now: &mut u64) -> Option<Share> {
        let (share, cost) = turns.pop(at(*now))?;
        *now += u64::from(cost);
        turns.charge(share, US * cost);
        Some(share)
    }

    #[test]
    fn who_costs_little_never_waits_for_more_than_one_of_who_costs_much() {
        let (mut turns, mut now) = (Turns::default(), 0);
        // Alone, and for long: nothing is saved up, and nothing is owed afterwards.
        for _ in 0..1_000 {
            turns.push(at(now), FLOOD, 1, 1_000);
            assert_eq!(serve(&mut turns, &mut now), Some(FLOOD));
        }
        (0..1_000).for_each(|_| turns.push(at(now), FLOOD, 1, 1_000));
        for _ in 0..100 {
            assert_eq!(serve(&mut turns, &mut now), Some(FLOOD));
            turns.push(at(now), HONEST, 1, 10);
            assert_eq!(serve(&mut turns, &mut now), Some(HONEST));
        }
        assert_eq!((turns.work(HONEST).late, turns.work(FLOOD).late), (0, 80));
    }

    #[test]
    fn those_who_want_more_than_there_is_share_it_by_cost() {
        let (mut turns, mut now) = (Turns::default(), 0);
        let shares = [(FLOOD, 1_400), (HONEST, 7), (Share::Handshakes, 75)];
        for (share, cost) in shares {
            (0..10_000).for_each(|_| turns.push(at(0), share, 1, cost));
        }
        while now < 150_000 {
            serve(&mut turns, &mut now);
        }
        for (share, _) in shares {
            let spent = turns.work(share).processor.as_micros();
            assert!(spent.abs_diff(now / 3) <= 1_500, "{share:?}: {spent} of {now} µs");
        }
    }

    #[test]
    fn queues_are_bounded_and_go_with_their_session() {
        let mut turns = Turns::default();
        let mut count = 0;
        while turns.admits(FLOOD, 1_000) {
            turns.push(at(0), FLOOD, 1_000, count);
            count += 1;
        }
        assert_eq!(count as usize, limits::WAITING_BYTES / 1_000);
        assert!(turns.admits(HONEST, 1_000), "the other one's queue is its own");
        assert_eq!((turns.work(FLOOD).dropped, turns.work(HONEST).dropped), (1, 0));
        assert_eq!(turns.pop(at(1)), Some((FLOOD, 0)));
        turns.remove(FLOOD);
        turns.charge(FLOOD, US);
        assert_eq!((turns.pop(at(1)), turns.table_sizes()), (None, [0; 3]));
    }

    #[test]
    fn sessions_that_flood_leave_room_for_another() {
        let (mut turns, kib) = (Turns::default(), 1_024);
        let session = |id| Share::Session(SessionId(id));
        let fill = |turns: &mut Turns<()>, share| {
            let full = |turns: &mut Turns<()>| !turns.admits(share, kib);
            (0..)
                .take_while(|_| {
                    !full(turns) && {
                        turns.push(at(0), share, kib, ());
                        true
                    }
                })
                .count()
        };
        for id in 0..1_000 {
            fill(&mut turns, session(id));
        }
        assert!(turns.bytes <= limits::ALL_WAITING_BYTES);
        assert!(turns.admits(Share::Handshakes, kib), "they have a bound of their own");
        while turns.pop(at(1)).is_some() {}
        assert_eq!(turns.bytes, 0);
        for round in 0..1_024 {
            (0..100).for_each(|id| {
                if turns.admits(session(id), kib) {
                    turns.push(at(round), session(id), kib, ());
                }
            });
        }
        let held: Vec<_> = (0..100).map(|id| turns.lines[&session(id)].bytes / kib).collect();
        assert!(held.iter().all(|held| held.abs_diff(held_each(100)) <= 1), "{held:?}");
        assert!(turns.admits(session(100), 100 * kib), "room is left");
    }

    /// Where each may hold what is left of 64 MiB, n of them hold 64 MiB / (n + 1), in KiB.
    fn held_each(sessions: usize) -> usize {
        limits::ALL_WAITING_BYTES / (sessions + 1) / 1_024
    }
}
