//! The receiver's half of plain delivery: removes duplicates, restores order within a bounded
//! delay.
//!
//! TCP inside the tunnel takes packets of paths of unequal delay for losses when they come out of
//! order. A packet that asks for it waits here for the ones before it, but only as long as they can
//! still come: paths hardly reorder by themselves, so once every path that carries data has
//! delivered a later packet, the missing one is lost. What comes after all is passed on late rather
//! than dropped: late is worth something to TCP [specs/delivery.md §5] (rules 4 and 5).
//!
//! ```text
//! lost below:  min over active paths of the highest number that came in on it
//! wait ends:   the gap closes, or lies below that, or a held packet has waited for `max`
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::Sequence;
use super::sequence::extend31;
use crate::delivery::Delivered;
use crate::ids::PathId;
use crate::limits;
use crate::select::{Class, Policy};
use crate::window::SeenWindow;
use crate::wire::DatagramFrame;

/// For how many longest waits a path counts as carrying data after its last packet.
const ACTIVE_WAITS: u32 = 4;

/// Restores the order of packets that ask for it and removes duplicates of those with a number.
///
/// The session fetches what is ready after every call; a call makes at most
/// [`limits::RESEQUENCED`] + 1 ready.
#[derive(Debug)]
pub(crate) struct Resequencer {
    max: Duration,
    seen_ordered: SeenWindow,
    seen_replicated: SeenWindow,
    /// The lowest number that is still waited for.
    next: u64,
    held: BTreeMap<u64, Held>,
    /// Bytes that are held, and how many more the session may hold.
    bytes: usize,
    room: usize,
    releases: BTreeSet<(Instant, u64)>,
    progress: SmallVec<[Progress; 4]>,
    ready: VecDeque<Delivered>,
    duplicates: u64,
}

#[derive(Debug)]
struct Held {
    delivery: Delivered,
    arrived: Instant,
}

/// How far the ordered packets of a path have come.
#[derive(Clone, Copy, Debug)]
struct Progress {
    path: PathId,
    highest: u64,
    at: Instant,
}

impl Resequencer {
    /// Starts with nothing seen; no packet waits longer than `max`, with zero none waits at all.
    pub(crate) fn new(max: Duration) -> Self {
        Self {
            max,
            seen_ordered: SeenWindow::new(limits::CONTROL_WINDOW),
            seen_replicated: SeenWindow::new(limits::CONTROL_WINDOW),
            next: 0,
            held: BTreeMap::new(),
            bytes: 0,
            room: usize::MAX,
            releases: BTreeSet::new(),
            progress: SmallVec::new(),
            ready: VecDeque::new(),
            duplicates: 0,
        }
    }

    /// Takes in a packet that came by `path`; `age` is its estimated age now.
    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        path: PathId,
        frame: &DatagramFrame<'_>,
        age: Duration,
    ) {
        self.handle_timeout(now);
        match frame.sequence.map(Sequence::from_wire) {
            None => self.ready.push_back(delivery(frame, age)),
            Some(Sequence::Replicated(low)) => {
                let number = extend31(low, self.seen_replicated.next());
                if self.seen_replicated.insert(number) {
                    self.ready.push_back(delivery(frame, age));
                } else {
                    self.duplicates += 1;
                }
            }
            Some(Sequence::Ordered(low)) => {
                let number = extend31(low, self.seen_ordered.next());
                self.note_progress(now, path, number);
                if !self.seen_ordered.insert(number) {
                    self.duplicates += 1;
                } else if self.max.is_zero() || number < self.next {
                    self.ready.push_back(delivery(frame, age));
                } else {
                    self.hold(now, number, delivery(frame, age));
                }
                self.release(now);
            }
        }
    }

    /// Returns the next packet for the application.
    pub(crate) fn poll_delivery(&mut self) -> Option<Delivered> {
        self.ready.pop_front()
    }

    /// Returns when [`Resequencer::handle_timeout`] wants to be called.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.releases.first().map(|(at, _)| *at)
    }

    /// Passes on what has waited long enough.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, number)) = self.releases.first() {
            if at > now {
                break;
            }
            self.raise(now, number);
        }
    }

    /// Returns the bytes that are held.
    pub(crate) fn held(&self) -> usize {
        self.bytes
    }

    /// Notes how many bytes more the session may hold of what can be lost.
    pub(crate) fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// Returns how many packets were removed because they had come before.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    fn note_progress(&mut self, now: Instant, path: PathId, number: u64) {
        let active_for = self.max * ACTIVE_WAITS;
        self.progress.retain(|other| other.path == path || now.since(other.at) <= active_for);
        if let Some(known) = self.progress.iter_mut().find(|other| other.path == path) {
            known.highest = known.highest.max(number);
            known.at = now;
        } else if self.progress.len() < limits::PATHS {
            self.progress.push(Progress { path, highest: number, at: now });
        }
    }

    fn hold(&mut self, now: Instant, number: u64, delivery: Delivered) {
        self.releases.insert((now + self.max, number));
        let bytes = delivery.payload.len() + limits::BESIDE;
        let fits = bytes <= self.room && self.held.len() < limits::RESEQUENCED;
        self.bytes += bytes;
        self.held.insert(number, Held { delivery, arrived: now });
        if !fits && let Some((&first, _)) = self.held.first_key_value() {
            self.raise(now, first);
        }
    }

    fn release(&mut self, now: Instant) {
        // Below the least of these, nothing is under way any more.
        let passed = self.progress.iter().map(|path| path.highest).min().unwrap_or(0);
        self.raise(now, passed);
    }

    /// Stops waiting for numbers below `next`, and passes on what that makes due, in order.
    fn raise(&mut self, now: Instant, next: u64) {
        self.next = self.next.max(next);
        while let Some((&number, _)) = self.held.first_key_value()
            && number <= self.next
        {
            let Some(mut held) = self.held.remove(&number) else { break };
            self.next = self.next.max(number + 1);
            self.releases.remove(&(held.arrived + self.max, number));
            self.bytes -= held.delivery.payload.len() + limits::BESIDE;
            held.delivery.age += now.since(held.arrived);
            self.ready.push_back(held.delivery);
        }
    }
}

fn delivery(frame: &DatagramFrame<'_>, age: Duration) -> Delivered {
    let (channel, class, payload) = (frame.channel, frame.class, frame.payload.to_vec());
    // A slow link brings what is older, and that is of use: what counts is how long it waits here.
    let life = (class == Class::Telemetry).then_some(Policy::TELEMETRY.ttl);
    Delivered { channel, class, stream: None, age, life, payload }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Rng;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn give(resequencer: &mut Resequencer, now: u64, path: u8, sequence: Sequence, tag: u8) {
        let frame = DatagramFrame {
            channel: 0,
            class: Class::Bulk,
            sequence: Some(sequence.to_wire()),
            submitted_us: 0,
            payload: &[tag],
        };
        resequencer.handle_datagram(Instant::from_millis(now), PathId(path), &frame, MS);
    }

    fn taken(resequencer: &mut Resequencer) -> Vec<u8> {
        std::iter::from_fn(|| resequencer.poll_delivery()).map(|got| got.payload[0]).collect()
    }

    fn ordered(resequencer: &mut Resequencer, now: u64, path: u8, number: u8) -> Vec<u8> {
        give(resequencer, now, path, Sequence::Ordered(u32::from(number)), number);
        taken(resequencer)
    }

    #[test]
    fn packets_of_the_slow_path_are_waited_for() {
        let mut resequencer = Resequencer::new(60 * MS);
        assert_eq!(ordered(&mut resequencer, 0, 1, 0), [0]);
        assert_eq!(ordered(&mut resequencer, 1, 0, 2), []);
        assert_eq!(ordered(&mut resequencer, 2, 0, 3), []);
        assert_eq!(ordered(&mut resequencer, 30, 1, 1), [1, 2, 3]);
    }

    #[test]
    fn wait_ends_when_every_path_has_moved_past_the_gap() {
        let mut resequencer = Resequencer::new(60 * MS);
        ordered(&mut resequencer, 0, 0, 0);
        assert_eq!(ordered(&mut resequencer, 1, 1, 1), [1]);
        // 2 is lost; path 0 moves past it, then path 1.
        assert_eq!(ordered(&mut resequencer, 2, 0, 3), []);
        assert_eq!(ordered(&mut resequencer, 9, 1, 4), [3, 4]);
        // Come after all, it is passed on late and once.
        assert_eq!(ordered(&mut resequencer, 50, 1, 2), [2]);
        assert_eq!(ordered(&mut resequencer, 51, 0, 2), []);
        assert_eq!(resequencer.duplicates(), 1);
    }

    #[test]
    fn nothing_waits_longer_than_the_bound() {
        let mut resequencer = Resequencer::new(60 * MS);
        ordered(&mut resequencer, 0, 0, 0);
        ordered(&mut resequencer, 1, 1, 1);
        assert_eq!(ordered(&mut resequencer, 10, 0, 3), []);
        assert_eq!(ordered(&mut resequencer, 20, 0, 5), []);
        assert_eq!(resequencer.timeout(), Some(Instant::from_millis(70)));
        resequencer.handle_timeout(Instant::from_millis(70));
        let delivery = resequencer.poll_delivery().expect("3 has waited long enough");
        assert_eq!((delivery.payload[0], delivery.age), (3, 61 * MS));
        assert_eq!(resequencer.timeout(), Some(Instant::from_millis(80)));
    }

    #[test]
    fn a_path_that_carries_nothing_is_not_waited_for() {
        let mut resequencer = Resequencer::new(60 * MS);
        ordered(&mut resequencer, 0, 1, 0);
        ordered(&mut resequencer, 230, 0, 1);
        assert_eq!(ordered(&mut resequencer, 245, 0, 3), [3]);
    }

    #[test]
    fn without_a_wait_duplicates_go_and_order_stays_as_it_came() {
        let mut resequencer = Resequencer::new(Duration::ZERO);
        assert_eq!(ordered(&mut resequencer, 0, 0, 4), [4]);
        assert_eq!(ordered(&mut resequencer, 0, 1, 4), []);
        assert_eq!(ordered(&mut resequencer, 0, 1, 3), [3]);
    }

    #[test]
    fn replicas_are_removed_without_waiting() {
        let mut resequencer = Resequencer::new(60 * MS);
        for (path, number) in [(0, 3), (1, 3), (0, 1), (1, 1)] {
            give(&mut resequencer, 0, path, Sequence::Replicated(number), number as u8);
        }
        assert_eq!(taken(&mut resequencer), [3, 1]);
        assert_eq!(resequencer.duplicates(), 2);
    }

    #[test]
    fn hostile_numbers_neither_grow_nor_hang_it() {
        let mut resequencer = Resequencer::new(60 * MS);
        let mut rng = Rng::new(5);
        for step in 0..40_000 {
            let sequence = Sequence::from_wire(rng.next_u64() as u32);
            give(&mut resequencer, step / 1_000, rng.below(200) as u8, sequence, 0);
            assert!(resequencer.held.len() <= limits::RESEQUENCED);
            assert_eq!(resequencer.held.len(), resequencer.releases.len());
            assert!(resequencer.progress.len() <= limits::PATHS);
            while resequencer.poll_delivery().is_some() {}
        }
    }

    /// Sends `count` packets a millisecond apart over two paths, path 1 slower by `skew`.
    fn arrivals(rng: &mut Rng, count: u32, loss: f64, skew: u64) -> Vec<(u64, u8, u32)> {
        let mut arrivals = Vec::new();
        for number in 0..count {
            let path = rng.below(2);
            let at = u64::from(number) + 10 + path * skew;
            if !rng.chance(loss) {
                let copies = 1 + u64::from(rng.chance(0.1));
                arrivals.extend((0..copies).map(|copy| (at + copy, path as u8, number)));
            }
        }
        arrivals.sort_unstable();
        arrivals
    }

    fn run(arrivals: &[(u64, u8, u32)]) -> Vec<u32> {
        let mut resequencer = Resequencer::new(60 * MS);
        let mut out = Vec::new();
        let mut take = |resequencer: &mut Resequencer| {
            while let Some(got) = resequencer.poll_delivery() {
                assert!(got.age <= 60 * MS);
                out.push(u32::from_le_bytes(got.payload.try_into().expect("four bytes")));
            }
        };
        for (at, path, number) in arrivals {
            let now = Instant::from_millis(*at);
            while let Some(due) = resequencer.timeout().filter(|due| *due <= now) {
                resequencer.handle_timeout(due);
                take(&mut resequencer);
            }
            let frame = DatagramFrame {
                channel: 0,
                class: Class::Bulk,
                sequence: Some(Sequence::Ordered(*number).to_wire()),
                submitted_us: 0,
                payload: &number.to_le_bytes(),
            };
            resequencer.handle_datagram(now, PathId(*path), &frame, Duration::ZERO);
            take(&mut resequencer);
        }
        while let Some(due) = resequencer.timeout() {
            resequencer.handle_timeout(due);
        }
        take(&mut resequencer);
        out
    }

    proptest! {
        #[test]
        fn every_packet_comes_out_once(seed in any::<u64>(), loss in 0.0..0.5, skew in 0_u64..100) {
            let arrivals = arrivals(&mut Rng::new(seed), 500, loss, skew);
            let mut sent: Vec<_> = arrivals.iter().map(|arrival| arrival.2).collect();
            sent.sort_unstable();
            sent.dedup();
            let mut out = run(&arrivals);
            out.sort_unstable();
            prop_assert_eq!(out, sent);
        }

        #[test]
        fn skew_below_the_bound_leaves_order_whole(seed in any::<u64>(), skew in 0_u64..50) {
            let mut rng = Rng::new(seed);
            // The slow path is known to carry data before the first gap.
            let mut arrivals = arrivals(&mut rng, 500, 0.0, skew);
            arrivals.retain(|arrival| arrival.2 != 0);
            arrivals.insert(0, (0, 1, 0));
            let out = run(&arrivals);
            prop_assert!(out.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
