//! The source: packs generations, and makes combinations of each until it hears that it is decoded.
//!
//! ```text
//! pack ─► asked ─take─► due ─t_ARQ─► asked …    k · r combinations without an ACK ─► repeated, in sequence
//! ```
//! Combinations that are asked for leave in the order of their generations, and before anything
//! new.

use std::collections::{BTreeMap, BTreeSet};

use coding::CoefficientKey;
use coding::block::Encoder;
use units::{Duration, Instant};

use super::{LENGTH, Published, STUCK, Way};
use crate::limits;

/// A combination as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Combination<'a> {
    /// The generation.
    pub(crate) generation: u64,
    /// A coefficient for each of its packets.
    pub(crate) coefficients: &'a [u8],
    /// The combination.
    pub(crate) payload: &'a [u8],
}

/// Counts what became of generations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Packets that were packed.
    pub(crate) packets: u64,
    /// Generations that were packed.
    pub(crate) generations: u64,
    /// Combinations that left.
    pub(crate) combinations: u64,
    /// Those of them beyond the first k of their generation.
    pub(crate) repeats: u64,
    /// Packets that no transmitter could carry any more.
    pub(crate) given_up: u64,
}

#[derive(Debug)]
struct Generation {
    encoder: Encoder,
    packets: usize,
    /// Bytes of a combination.
    bytes: usize,
    /// Combinations that have left, in all, and since the generation began or began anew.
    made: u64,
    sent: usize,
    /// Combinations that are to leave.
    asked: usize,
    /// When the answer to each that has left can be there, and when more are asked for.
    answered_at: Instant,
    due_at: Instant,
}

/// Keeps packets until their generations are decoded.
#[derive(Debug)]
pub(crate) struct Source {
    k: usize,
    pace: Published,
    key: CoefficientKey,
    /// What is known of the way; while no transmitter works, what was.
    way: Way,
    works: bool,
    /// The number of the next generation.
    next: u64,
    /// Those without an ACK.
    in_flight: BTreeMap<u64, Generation>,
    /// Bytes of one combination of each.
    bytes: usize,
    /// Those of which combinations are to leave.
    asked: BTreeSet<u64>,
    /// When more are asked for.
    due: BTreeSet<(Instant, u64)>,
    /// Those whose retries are over, the one that is repeated now, and how many combinations of it
    /// are left.
    over: BTreeSet<u64>,
    repeated: Option<(u64, usize)>,
    /// The longest combination that can leave, and since when it is no longer than that.
    longest: usize,
    shrunk_at: Instant,
    coefficients: Vec<u8>,
    payload: Vec<u8>,
    counters: Sent,
}

impl Source {
    /// Starts with nothing sent: generations of k packets, at most [`limits::GENERATION_PACKETS`].
    pub(crate) fn new(k: usize, pace: Published, seed: u64) -> Self {
        Self {
            k: k.clamp(1, limits::GENERATION_PACKETS),
            pace,
            key: CoefficientKey::new(seed),
            way: Way::default(),
            works: false,
            next: 0,
            in_flight: BTreeMap::new(),
            bytes: 0,
            asked: BTreeSet::new(),
            due: BTreeSet::new(),
            over: BTreeSet::new(),
            repeated: None,
            longest: usize::MAX,
            shrunk_at: Instant::ZERO,
            coefficients: Vec::new(),
            payload: Vec::new(),
            counters: Sent::default(),
        }
    }

    /// Returns how many packets a generation has (k).
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// Returns how long fewer than k packets wait for more.
    pub(crate) fn wait(&self) -> Duration {
        self.pace.wait(&self.way)
    }

    /// Returns the number of the generation that is packed next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Tells whether another generation may be packed.
    pub(crate) fn has_room(&self) -> bool {
        let mean = self.k * self.bytes / self.in_flight.len().max(1);
        let oldest = self.in_flight.first_key_value().map_or(self.next, |(oldest, _)| *oldest);
        self.in_flight.len() < self.pace.in_flight(&self.way, mean.max(limits::MIN_DATAGRAM))
            && self.k as u64 * (self.next - oldest + 1) <= limits::GENERATIONS
            && self.held() < limits::TUNNEL_BYTES
            && self.next < limits::LAST_GENERATION
    }

    /// Packs the next generation of one to k packets; the rest are dummies.
    pub(crate) fn pack(&mut self, packets: &[Vec<u8>]) {
        assert!((1..=self.k).contains(&packets.len()), "{} packets of {}", packets.len(), self.k);
        let bytes = LENGTH + packets.iter().map(Vec::len).max().unwrap_or(0);
        let key = self.key.for_block(self.next);
        let mut encoder =
            Encoder::new(self.k, bytes, key).expect("packets are bounded, and not all are empty");
        let mut symbol = Vec::with_capacity(bytes);
        for place in 0..self.k {
            symbol.clear();
            if let Some(packet) = packets.get(place) {
                let length = u16::try_from(packet.len()).expect("no packet is longer than 64 KiB");
                symbol.extend_from_slice(&length.to_be_bytes());
                symbol.extend_from_slice(packet);
            }
            encoder.push(&symbol).expect("the encoder was made for k packets so long");
        }
        let asked = self.pace.first(self.k, &self.way) * self.way.transmitters.max(1);
        let generation = Generation {
            encoder,
            packets: packets.len(),
            bytes,
            made: 0,
            sent: 0,
            asked,
            answered_at: Instant::ZERO,
            due_at: Instant::ZERO,
        };
        self.in_flight.insert(self.next, generation);
        self.asked.insert(self.next);
        self.bytes += bytes;
        self.next += 1;
        self.counters.generations += 1;
        self.counters.packets += packets.len() as u64;
    }

    /// Tells whether combinations are asked for.
    pub(crate) fn is_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Tells whether anything may be repeated while nothing is asked for.
    pub(crate) fn has_repeats(&self) -> bool {
        !self.over.is_empty()
    }

    /// Returns which generation a combination is asked for of, and how long it is.
    pub(crate) fn peek(&self) -> Option<(u64, usize)> {
        let number = *self.asked.first()?;
        self.in_flight.get(&number).map(|generation| (number, generation.bytes))
    }

    /// Returns the same of the next that is repeated: of those whose retries are over, in sequence.
    pub(crate) fn peek_repeat(&self) -> Option<(u64, usize)> {
        let from = self.repeated.map_or(0, |(last, left)| last + u64::from(left == 0));
        let number = *self.over.range(from..).next().or_else(|| self.over.first())?;
        self.in_flight.get(&number).map(|generation| (number, generation.bytes))
    }

    /// Makes a fresh combination of a generation, which leaves now; its answer can be there after
    /// `answer`.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        number: u64,
        answer: Duration,
    ) -> Option<Combination<'_>> {
        let in_flight = self.k * self.bytes;
        let generation = self.in_flight.get_mut(&number)?;
        self.coefficients.clear();
        self.payload.clear();
        generation.encoder.coefficients(generation.made, &mut self.coefficients);
        let made = generation.encoder.combine(&self.coefficients, &mut self.payload);
        made.expect("there is a coefficient for each packet");
        self.counters.combinations += 1;
        self.counters.repeats += u64::from(generation.made >= self.k as u64);
        generation.made += 1;
        generation.sent += 1;
        generation.answered_at = generation.answered_at.max(now + answer);
        if self.asked.contains(&number) {
            generation.asked = generation.asked.saturating_sub(1);
            if generation.asked == 0 {
                self.asked.remove(&number);
                match self.pace.more(self.k, generation.sent, in_flight, &self.way) {
                    Some(more) => {
                        let due_at = now + more.after;
                        generation.due_at = due_at.max(generation.answered_at);
                        generation.asked = more.combinations;
                        self.due.insert((generation.due_at, number));
                    }
                    None => drop(self.over.insert(number)),
                }
            }
        } else {
            let left = self.repeated.filter(|(last, left)| *last == number && *left > 0);
            self.repeated = Some((number, left.map_or(self.k, |(_, left)| left) - 1));
        }
        let (coefficients, payload) = (&self.coefficients[..], &self.payload[..]);
        Some(Combination { generation: number, coefficients, payload })
    }

    /// Learns that a generation is decoded; false if there has been none of this number.
    pub(crate) fn on_decoded(&mut self, number: u64) -> bool {
        self.forget(number);
        number < self.next
    }

    /// Learns what the way is like; none: no transmitter works. Then all that has no ACK begins
    /// anew.
    pub(crate) fn set_way(&mut self, way: Option<Way>) {
        if way.is_none() && self.works {
            self.due.clear();
            self.over.clear();
            for (number, generation) in &mut self.in_flight {
                (generation.sent, generation.asked) = (0, self.k);
                self.asked.insert(*number);
            }
        }
        self.works = way.is_some();
        self.way = way.unwrap_or(self.way);
    }

    /// Learns how long the longest combination is that a transmitter carries; none works where that
    /// is none.
    pub(crate) fn set_longest(&mut self, now: Instant, longest: Option<usize>) {
        // Whatever comes back may carry as much as before.
        let longest = longest.unwrap_or(usize::MAX);
        if longest != self.longest {
            (self.longest, self.shrunk_at) = (longest, now);
        }
    }

    /// Returns when [`Source::handle_timeout`] wants to be called.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let stuck = self.is_stuck().then_some(self.shrunk_at + STUCK);
        self.due.first().map(|(at, _)| *at).into_iter().chain(stuck).min()
    }

    /// Asks for more of what has no ACK, and gives up what no transmitter has been able to carry
    /// for a while: it would hold up all that comes after it.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, number)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            self.asked.insert(number);
        }
        if self.is_stuck() && now.since(self.shrunk_at) >= STUCK {
            let is_long = |(_, generation): &(&u64, &Generation)| generation.bytes > self.longest;
            let long = self.in_flight.iter().filter(is_long).map(|(number, _)| *number);
            for number in long.collect::<Vec<_>>() {
                let packets = self.forget(number);
                self.counters.given_up += packets as u64;
            }
        }
    }

    /// Returns the bytes that are asked for and wait for a transmitter.
    pub(crate) fn backlog(&self) -> usize {
        self.peek().map_or(0, |(_, bytes)| bytes * self.asked.len())
    }

    /// Returns the bytes that are held.
    pub(crate) fn held(&self) -> usize {
        self.k * (self.bytes + self.in_flight.len() * limits::BESIDE)
    }

    /// Tells whether every generation is decoded.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Gives back what an idle source needs not.
    pub(crate) fn give_back(&mut self) {
        (self.coefficients, self.payload) = (Vec::new(), Vec::new());
    }

    /// Returns what became of generations.
    pub(crate) fn counters(&self) -> Sent {
        self.counters
    }

    /// Tells whether the oldest that is asked for, or the next that is repeated, is longer than any
    /// transmitter carries.
    fn is_stuck(&self) -> bool {
        let next = self.peek().or_else(|| self.peek_repeat());
        next.is_some_and(|(_, bytes)| bytes > self.longest)
    }

    /// Drops a generation, wherever it stands; returns how many packets it has.
    fn forget(&mut self, number: u64) -> usize {
        let Some(generation) = self.in_flight.remove(&number) else { return 0 };
        self.bytes -= generation.bytes;
        self.asked.remove(&number);
        self.over.remove(&number);
        self.due.remove(&(generation.due_at, number));
        generation.packets
    }
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::super::Published;
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const WAY: Way = Way {
        transmitters: 1,
        rate: Rate::from_bps(32_000_000),
        rtt: Duration::from_millis(40),
        least_rtt: Duration::from_millis(40),
    };

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn source(f: Option<usize>, r: usize) -> Source {
        let mut source = Source::new(4, Published { f, r, of_each: false }, 1);
        source.set_way(Some(WAY));
        source
    }

    fn packets(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|tag| vec![tag as u8; 998]).collect()
    }

    /// Takes all that is asked for; returns the numbers of its generations.
    fn take(source: &mut Source, now: Instant) -> Vec<u64> {
        let mut taken = Vec::new();
        while let Some((number, _)) = source.peek() {
            source.take(now, number, 50 * MS).expect("it was asked for");
            taken.push(number);
        }
        taken
    }

    #[test]
    fn k_leave_at_first_and_one_for_each_time_without_an_ack() {
        let mut source = source(None, 3);
        source.pack(&packets(4));
        source.pack(&packets(1));
        assert_eq!(take(&mut source, at(0)), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(source.timeout(), Some(at(50)), "no ACK can have come before");
        assert!(source.on_decoded(1));
        source.handle_timeout(at(49));
        assert_eq!(take(&mut source, at(49)), []);
        for time in 1..=8 {
            source.handle_timeout(at(50 * time));
            assert_eq!(take(&mut source, at(50 * time)), [0], "{time}");
        }
        assert_eq!(source.timeout(), None, "k · r have left");
        assert_eq!((source.counters().combinations, source.counters().repeats), (16, 8));
        assert!(source.on_decoded(0) && source.is_idle() && source.held() == 0);
        assert!(source.on_decoded(0) && !source.on_decoded(2), "there was none");
    }

    #[test]
    fn combinations_are_fresh_and_a_dummy_costs_its_coefficient_alone() {
        let mut source = source(None, 10);
        source.pack(&[vec![7; 10]]);
        let mut seen = BTreeSet::new();
        for _ in 0..4 {
            let one = source.take(at(0), 0, MS).expect("it is asked for");
            assert_eq!((one.coefficients.len(), one.payload.len()), (4, 12));
            assert!(one.coefficients.iter().all(|coefficient| *coefficient != 0));
            assert!(seen.insert(one.coefficients.to_vec()));
        }
    }

    #[test]
    fn f_generations_are_in_flight_at_most() {
        let mut few = source(Some(2), 10);
        few.pack(&packets(4));
        assert!(few.has_room());
        few.pack(&packets(4));
        assert!(!few.has_room());
        few.on_decoded(0);
        assert!(few.has_room());
        // 40 ms at 32 Mbit/s are 160 kB: 40 generations of 4,000 bytes.
        let mut source = source(None, 10);
        (0..40).for_each(|_| {
            assert!(source.has_room());
            source.pack(&packets(4));
        });
        assert!(!source.has_room());
    }

    #[test]
    fn the_oldest_holds_up_what_the_destination_could_not_keep_apart() {
        let mut source = source(Some(usize::MAX), 10);
        let mut last = 0;
        while source.has_room() {
            source.pack(&[vec![0]]);
            last += 1;
            if last > 1 {
                source.on_decoded(last - 1);
            }
        }
        assert_eq!(last * 4, limits::GENERATIONS);
        source.on_decoded(0);
        assert!(source.has_room());
    }

    #[test]
    fn what_has_no_ack_when_retries_are_over_is_repeated_in_sequence() {
        let mut source = source(None, 1);
        (0..3).for_each(|_| source.pack(&packets(4)));
        take(&mut source, at(0));
        assert!(!source.is_asked() && source.has_repeats() && source.timeout().is_none());
        let mut repeat = || {
            let (number, _) = source.peek_repeat()?;
            source.take(at(100), number, 50 * MS).map(|one| one.generation)
        };
        let order: Vec<u64> = (0..16).filter_map(|_| repeat()).collect();
        assert_eq!(order, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0]);
        source.on_decoded(1);
        assert_eq!(source.peek_repeat(), Some((2, 1_000)));
    }

    #[test]
    fn after_an_outage_all_of_it_leaves_again_in_sequence() {
        let mut source = source(None, 10);
        (0..2).for_each(|_| source.pack(&packets(4)));
        take(&mut source, at(0));
        source.set_way(None);
        assert_eq!(source.timeout(), None);
        source.set_way(Some(WAY));
        assert_eq!(take(&mut source, at(60_000)), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(source.timeout(), Some(at(60_050)));
    }

    #[test]
    fn what_no_transmitter_carries_any_more_is_given_up_after_a_second() {
        let mut source = source(None, 10);
        source.pack(&packets(3));
        source.pack(&[vec![0; 100]]);
        source.set_longest(at(0), Some(1_000));
        assert_eq!(source.timeout(), None);
        source.set_longest(at(100), Some(900));
        assert_eq!(source.timeout(), Some(at(1_100)));
        source.handle_timeout(at(1_099));
        source.set_longest(at(1_099), Some(900));
        source.handle_timeout(at(1_100));
        assert_eq!((source.counters().given_up, source.peek()), (3, Some((1, 102))));
    }

    #[test]
    fn what_is_repeated_and_no_transmitter_carries_is_given_up_as_well() {
        let mut source = source(Some(2), 1);
        (0..2).for_each(|_| source.pack(&packets(4)));
        take(&mut source, at(0));
        assert!(source.has_repeats() && !source.has_room());
        // Nothing so long came through: by now that is known.
        source.set_longest(at(100), Some(900));
        assert_eq!(source.timeout(), Some(at(1_100)));
        source.handle_timeout(at(1_100));
        assert_eq!((source.counters().given_up, source.has_repeats()), (8, false));
        assert!(source.has_room() && source.is_idle() && source.timeout().is_none());
    }
}
