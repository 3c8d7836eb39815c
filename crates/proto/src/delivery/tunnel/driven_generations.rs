//! Both halves of the form `flowcode`, joined by two paths that do whatever some bytes say: for a
//! test and a fuzz target.

use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant};

use super::flowcode::{FlowCode, FlowCodeParameters};
use super::form::Form;
use super::queue::Waiting;
use super::segment::{Flow, Part};
use super::sender::Ask;
use super::ways::Ways;
use crate::ids::PathId;
use crate::limits;
use crate::wire::CombinationFrame;

const PATHS: usize = 2;
const ROOM: usize = 1_400;

struct Yes;

impl Ask for Yes {
    fn is_for(&self, _backlog: usize, _packet: usize, _frame: usize) -> bool {
        true
    }
}

/// A combination under way.
#[derive(Clone)]
struct Sent {
    generation: u64,
    coefficients: Vec<u8>,
    payload: Vec<u8>,
}

struct Joined {
    now: Instant,
    /// One sends, the other receives.
    sender: FlowCode,
    receiver: FlowCode,
    room: usize,
    under_way: [VecDeque<Sent>; PATHS],
    acks: [VecDeque<u64>; PATHS],
    submitted: u32,
    /// The packets that came, in their order, by flow.
    came: BTreeMap<u8, Vec<u32>>,
    honest: bool,
}

/// Lets the bytes decide what is handed in, sent, lost, delayed, repeated and forged; asserts what
/// must hold whatever they say.
pub(crate) fn drive(bytes: &[u8]) {
    let (k, f) = bytes.first().map_or((4, 0), |first| (1 + first % 16, first / 16));
    let parameters = FlowCodeParameters { k, f: (f > 0).then_some(f.into()), r: 1 + f / 4 };
    let mut joined = Joined {
        now: Instant::from_millis(10_000),
        sender: FlowCode::new(parameters, k.into()),
        receiver: FlowCode::new(FlowCodeParameters::default(), 0),
        room: ROOM,
        under_way: Default::default(),
        acks: Default::default(),
        submitted: 0,
        came: BTreeMap::new(),
        honest: true,
    };
    joined.set_ways(3, ROOM);
    for step in bytes.get(1..).unwrap_or_default().chunks_exact(2) {
        joined.step(step[0], step[1]);
        let held = joined.receiver.held().theirs;
        assert!(held <= 2 * limits::TUNNEL_BYTES, "{held}");
    }
    joined.settle();
}

impl Joined {
    fn step(&mut self, what: u8, more: u8) {
        let path = usize::from(more) % PATHS;
        match what % 14 {
            0..=2 => self.submit(more),
            3..=5 => self.send(path),
            6 | 7 => self.arrive(path),
            8 => drop(self.under_way[path].pop_front()),
            9 => {
                // It comes twice, or after others.
                if let Some(first) = self.under_way[path].front().cloned() {
                    self.under_way[path].push_back(first);
                }
                if more & 2 == 0 {
                    self.under_way[path].pop_front();
                }
            }
            10 => self.answer(path, more & 2 == 0),
            11 => self.pass(Duration::from_millis(u64::from(more) * u64::from(what) / 8)),
            12 if more < 128 => self.set_ways(more & 3, if more & 4 == 0 { ROOM } else { 700 }),
            _ if more < 64 => self.forge(what, more),
            _ => self.pass(Duration::from_millis(1)),
        }
    }

    fn submit(&mut self, more: u8) {
        let flow = more % 5;
        let mut payload = vec![flow; 16 + usize::from(more) * 4];
        payload[1..5].copy_from_slice(&self.submitted.to_le_bytes());
        self.submitted += 1;
        let part = if more < 16 { Part::Edge } else { Part::Data };
        let flow = Flow::test(flow.into());
        let sequence = self.submitted;
        self.sender.submit(Waiting { flow, part, sequence, since: self.now, payload });
    }

    fn send(&mut self, path: usize) {
        let answer = Duration::from_millis(40);
        let Some(sent) = self.sender.poll(self.now, self.room, answer, &Yes) else { return };
        assert!(sent.payload.len() <= self.room);
        let (coefficients, payload) = (sent.coefficients.to_vec(), sent.payload.to_vec());
        let sent = Sent { generation: sent.generation, coefficients, payload };
        self.under_way[path].push_back(sent);
    }

    fn arrive(&mut self, path: usize) {
        let Some(sent) = self.under_way[path].pop_front() else { return };
        let Sent { generation, coefficients, payload } = &sent;
        let frame = CombinationFrame { generation: *generation, coefficients, payload };
        let taken = self.receiver.handle_combination(self.now, &frame, |_| Duration::ZERO);
        assert!(taken || !self.honest);
        self.collect();
    }

    /// Lets the ACKs that are due leave by a path, and those that left by it before arrive.
    fn answer(&mut self, path: usize, is_lost: bool) {
        while let Some(generation) = self.acks[path].pop_front() {
            assert!(self.sender.on_ack(generation) || !self.honest);
        }
        while let Some(generation) = self.receiver.next_ack(PathId(path as u8)) {
            if !is_lost {
                self.acks[path].push_back(generation);
            }
        }
        assert!(!self.receiver.tells(PathId(path as u8)));
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        for half in [&mut self.sender, &mut self.receiver] {
            half.handle_timeout(self.now);
            assert!(half.timeout().is_none_or(|at| at > self.now));
        }
        self.collect();
    }

    fn set_ways(&mut self, which: u8, longest: usize) {
        let rtt = Duration::from_millis(50);
        let paths = which.count_ones() as u8;
        let ways = Ways {
            active: (0..PATHS as u8).filter(|path| which & 1 << path != 0).map(PathId).collect(),
            longest: longest + self.sender.around(),
            least_rtt: rtt,
            fastest_rtt: rtt,
            slowest: (which > 0).then_some(rtt),
            awaited: (which > 0).then_some(rtt),
            ..Ways::test(paths, 5.0 * f64::from(paths))
        };
        self.room = if which > 0 { longest } else { 0 };
        self.sender.set_ways(self.now, &ways);
        self.receiver.set_ways(self.now, &ways);
    }

    fn forge(&mut self, what: u8, more: u8) {
        self.honest = false;
        let coefficients = vec![what; usize::from(more) % 20];
        let payload = vec![more; what.into()];
        let generation = u64::from(what) << (more % 48);
        let (coefficients, payload) = (&coefficients[..], &payload[..]);
        let frame = CombinationFrame { generation, coefficients, payload };
        self.receiver.handle_combination(self.now, &frame, |_| Duration::ZERO);
        if more & 1 == 0 {
            self.sender.on_ack(generation);
        }
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(released) = self.receiver.poll_released() {
            let payload = released.payload;
            let tag = payload.get(1..5).map_or(0, |tag| {
                tag.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
            });
            self.came.entry(payload.first().copied().unwrap_or(0)).or_default().push(tag);
        }
    }

    fn empty_paths(&mut self) {
        (0..PATHS).for_each(|path| {
            while !self.under_way[path].is_empty() {
                self.arrive(path);
            }
        });
    }

    /// Lets everything arrive that is left, and looks at what came.
    fn settle(&mut self) {
        // What is too long for the paths as they are now is given up.
        let longest = if self.room > 0 { self.room } else { ROOM };
        self.set_ways(3, longest);
        if !self.honest {
            self.pass(Duration::from_secs(60));
            return;
        }
        // What waits on a path would hold up each generation that is left.
        self.empty_paths();
        for _ in 0..1_000 + self.submitted {
            self.pass(Duration::from_millis(60));
            for _ in 0..2 * limits::GENERATION_PACKETS * PATHS {
                (0..PATHS).for_each(|path| self.send(path));
                (0..PATHS).for_each(|path| self.arrive(path));
                (0..PATHS).for_each(|path| self.answer(path, false));
            }
            if self.sender.is_idle() {
                break;
            }
        }
        self.empty_paths();
        let sender = &self.sender;
        assert!(sender.is_idle() && sender.backlog() == 0 && sender.held().ours == 0);
        self.pass(Duration::from_secs(5));
        let mut status = crate::TunnelStatus::default();
        self.sender.show(&mut status);
        self.receiver.show(&mut status);
        let counted = status.given_up + status.dropped;
        let came: usize = self.came.values().map(Vec::len).sum();
        // What was given up may have come: its ACKs were lost.
        let submitted = u64::from(self.submitted);
        let least = submitted - counted;
        assert!((least..=least + status.given_up).contains(&(came as u64)), "each comes once");
        if status.given_up > 0 {
            return;
        }
        assert!(self.receiver.is_idle() && self.receiver.held().theirs == 0);
        if status.expired == 0 {
            assert!(self.came.values().all(|tags| tags.is_sorted()), "each flow in its order");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_packet_that_was_taken_comes_once_and_in_order(
            bytes in prop::collection::vec(any::<u8>(), 0..2_000),
        ) {
            super::drive(&bytes);
        }
    }
}
