//! Source and destination joined by ways that do whatever some bytes say.

use std::collections::VecDeque;

use proptest::prelude::*;
use units::{Duration, Instant, Rate};

use super::{Destination, Published, Source, Way};
use crate::limits;

const WAYS: usize = 2;

/// A combination under way.
type Combination = (u64, Vec<u8>, Vec<u8>);

struct Joined {
    now: Instant,
    source: Source,
    destination: Destination,
    combinations: [VecDeque<Combination>; WAYS],
    acks: [VecDeque<u64>; WAYS],
    told: [u64; WAYS],
    submitted: u32,
    came: Vec<u32>,
    honest: bool,
    settles: bool,
}

/// Lets the bytes decide what is packed, sent, lost, repeated and forged; asserts what must hold
/// whatever they say.
fn drive(bytes: &[u8]) {
    let (k, f) = bytes.first().map_or((4, 0), |first| (1 + first % 16, first / 16));
    let pace =
        Published { f: (f > 0).then_some(f.into()), r: 1 + usize::from(f) / 4, of_each: false };
    let mut joined = Joined {
        now: Instant::from_millis(10_000),
        source: Source::new(k.into(), pace, u64::from(f)),
        destination: Destination::default(),
        combinations: Default::default(),
        acks: Default::default(),
        told: [0; WAYS],
        submitted: 0,
        came: Vec::new(),
        honest: true,
        settles: false,
    };
    joined.set_way(true);
    for step in bytes.get(1..).unwrap_or_default().chunks_exact(2) {
        joined.step(step[0], step[1]);
        assert!(joined.destination.held() <= limits::TUNNEL_BYTES);
    }
    joined.settle();
}

impl Joined {
    fn step(&mut self, what: u8, more: u8) {
        let way = usize::from(more) % WAYS;
        match what % 12 {
            0 | 1 => self.pack(more),
            2..=4 => self.send(way),
            5 | 6 => self.arrive(way),
            7 => drop(self.combinations[way].pop_front()),
            8 => {
                // It comes twice, the second time after others.
                if let Some(first) = self.combinations[way].front().cloned() {
                    self.combinations[way].push_back(first);
                }
            }
            9 => self.answer(way, more & 2 == 0),
            10 => self.pass(Duration::from_millis(u64::from(more))),
            _ if more < 64 => self.set_way(more & 2 != 0),
            _ => self.forge(what, more),
        }
    }

    fn pack(&mut self, more: u8) {
        if !self.source.has_room() {
            return;
        }
        let count = 1 + usize::from(more) % self.source.k();
        let packet = |place: usize| {
            let mut packet = (self.submitted + place as u32).to_le_bytes().to_vec();
            packet.resize(4 + usize::from(more) * place / 4, more);
            packet
        };
        let packets: Vec<Vec<u8>> = (0..count).map(packet).collect();
        self.submitted += count as u32;
        self.source.pack(&packets);
    }

    fn send(&mut self, way: usize) {
        // While it settles nothing new can be packed.
        let repeats = self.settles || !self.source.has_room();
        let repeat = || self.source.peek_repeat().filter(|_| repeats);
        let Some((number, bytes)) = self.source.peek().or_else(repeat) else { return };
        let answer = Duration::from_millis(40);
        let one = self.source.take(self.now, number, answer).expect("it is in flight");
        assert!(one.generation == number && one.payload.len() == bytes);
        let sent = (number, one.coefficients.to_vec(), one.payload.to_vec());
        self.combinations[way].push_back(sent);
    }

    fn arrive(&mut self, way: usize) {
        let Some((number, coefficients, payload)) = self.combinations[way].pop_front() else {
            return;
        };
        let taken = self.destination.handle_combination(number, &coefficients, &payload);
        assert!(taken || !self.honest);
        self.collect();
    }

    fn answer(&mut self, way: usize, is_lost: bool) {
        while let Some((number, count)) = self.destination.ack(self.told[way]) {
            self.told[way] = count;
            if !is_lost {
                self.acks[way].push_back(number);
            }
        }
        while let Some(number) = self.acks[way].pop_front() {
            assert!(self.source.on_decoded(number) || !self.honest);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.source.handle_timeout(self.now);
        assert!(self.source.timeout().is_none_or(|at| at > self.now));
    }

    fn set_way(&mut self, works: bool) {
        let (rate, rtt) = (Rate::from_mbps(5.0), Duration::from_millis(50));
        let way = Way { transmitters: 1, rate, rtt, least_rtt: rtt };
        self.source.set_way(works.then_some(way));
    }

    fn forge(&mut self, what: u8, more: u8) {
        self.honest = false;
        let number = u64::from(what) << (more % 56);
        let coefficients = vec![what; usize::from(more) % 20];
        self.destination.handle_combination(number, &coefficients, &vec![more; what.into()]);
        if more & 1 == 0 {
            self.source.on_decoded(number);
        }
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(packet) = self.destination.poll() {
            assert!(packet.place < packet.k && packet.k <= limits::GENERATION_PACKETS);
            let number = packet.bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            self.came.push(number);
        }
    }

    /// Lets everything arrive that is left, and looks at what came.
    fn settle(&mut self) {
        self.settles = true;
        self.set_way(true);
        for _ in 0..1_000 {
            if self.source.is_idle() || !self.honest {
                break;
            }
            self.pass(Duration::from_secs(3));
            for _ in 0..limits::GENERATION_PACKETS * 64 {
                (0..WAYS).for_each(|way| self.send(way));
                (0..WAYS).for_each(|way| self.arrive(way));
                (0..WAYS).for_each(|way| self.answer(way, false));
            }
        }
        if !self.honest {
            return;
        }
        assert!(self.source.is_idle() && self.source.backlog() == 0 && self.source.held() == 0);
        assert!(self.destination.is_idle() && self.destination.held() == 0);
        self.came.sort_unstable();
        assert!(self.came.iter().copied().eq(0..self.submitted), "each comes once");
    }
}

proptest! {
    #[test]
    fn every_packet_comes_once(bytes in prop::collection::vec(any::<u8>(), 0..1_000)) {
        drive(&bytes);
    }
}
