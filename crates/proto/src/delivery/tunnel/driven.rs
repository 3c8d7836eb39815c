//! Both halves joined by two paths that do whatever some bytes say: for a test and a fuzz target.

use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant, Rate};

use super::queue::Waiting;
use super::release::Release;
use super::repair::{Lossy, Repaired};
use super::segment::{Flow, Part};
use super::sender::{Ask, Sender};
use super::ways::Ways;
use crate::ids::PathId;
use crate::limits;
use crate::wire::{RepairFrame, TunnelFrame};

const PATHS: usize = 2;

struct Yes;

impl Ask for Yes {
    fn is_for(&self, _backlog: usize, _packet: usize, _frame: usize) -> bool {
        true
    }
}

/// What is under way on a path.
enum Sent {
    Symbol(u64),
    Repair { repair: u64, first: u64, count: u16, payload: Vec<u8> },
}

struct Joined {
    now: Instant,
    sender: Sender,
    release: Release,
    repaired: Repaired,
    under_way: [VecDeque<Sent>; PATHS],
    submitted: u32,
    /// The longest packet that a path carries.
    longest: usize,
    /// How often each packet came, in the order of the first time, by flow.
    came: BTreeMap<u8, Vec<u32>>,
    honest: bool,
}

/// Lets the bytes decide what is handed in, sent, lost and forged; asserts what must hold whatever
/// they say.
pub(crate) fn drive(bytes: &[u8]) {
    let mut joined = Joined {
        now: Instant::from_millis(10_000),
        sender: Sender::new(1),
        release: Release::default(),
        repaired: Repaired::new(1),
        under_way: Default::default(),
        submitted: 0,
        longest: 1_400,
        came: BTreeMap::new(),
        honest: true,
    };
    joined.set_paths(3, 1_400);
    for step in bytes.chunks_exact(2) {
        joined.step(step[0], step[1]);
        assert!(joined.release.held() <= limits::TUNNEL_BYTES);
        assert!(joined.sender.repairs.held() + joined.repaired.held() <= limits::TUNNEL_BYTES);
    }
    joined.settle();
}

impl Joined {
    fn step(&mut self, what: u8, more: u8) {
        let path = usize::from(more) % PATHS;
        match what % 10 {
            0 | 1 => self.submit(more),
            2..=4 => self.send(path, usize::from(more) * 64),
            5 | 6 => self.arrive(path),
            7 => {
                if let Some(Sent::Symbol(number)) = self.under_way[path].pop_front() {
                    self.sender.on_lost(self.now, number);
                }
            }
            8 => self.pass(Duration::from_millis(u64::from(more) * u64::from(what) / 8)),
            _ if more < 128 => {
                self.set_paths(more & 3, if more & 4 == 0 { 1_400 } else { 700 });
                self.set_rtt(Duration::from_millis(if more & 8 == 0 { 10 } else { 300 }));
            }
            _ => self.forge(what, more),
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

    fn send(&mut self, path: usize, ahead: usize) {
        let id = PathId(path as u8);
        if let Some(frame) = self.sender.poll_repair(1_400, &Yes) {
            let RepairFrame { repair, first, count, payload, .. } = frame;
            let payload = payload.to_vec();
            self.under_way[path].push_back(Sent::Repair { repair, first, count, payload });
        }
        if let Some(number) = self.sender.poll(self.now, id, ahead, self.longest, &Yes) {
            assert!(self.sender.frame(number).is_some(), "what leaves is kept");
            self.under_way[path].push_back(Sent::Symbol(number));
        }
    }

    fn arrive(&mut self, path: usize) {
        match self.under_way[path].pop_front() {
            Some(Sent::Symbol(number)) => {
                if let Some(frame) = self.sender.frame(number) {
                    self.release.handle_symbol(self.now, &frame, Duration::ZERO);
                    self.repaired.handle_symbol(self.now, &frame);
                }
                self.sender.on_acked(number);
            }
            Some(Sent::Repair { repair, first, count, payload }) => {
                let payload = &payload;
                let frame = RepairFrame { coder: 0, repair, first, count, payload };
                assert!(self.repaired.handle_repair(self.now, &frame), "ours are taken");
            }
            None => {}
        }
        self.collect();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.sender.handle_timeout(self.now);
        self.release.handle_timeout(self.now);
        let late = |timeout: Option<Instant>| timeout.is_some_and(|at| at <= self.now);
        assert!(!late(self.sender.timeout()) && !late(self.release.timeout()));
        self.collect();
    }

    fn set_paths(&mut self, which: u8, longest: usize) {
        self.longest = longest;
        let paths = (0..PATHS as u8).filter(|path| which & 1 << path != 0).map(PathId);
        self.sender.set_paths(self.now, paths, longest);
        let paths = which.count_ones() as u8;
        self.sender.queue.set_ways(self.now, &Ways::test(paths, 5.0 * f64::from(paths)));
        self.release.set_slowest(self.now, (which > 0).then_some(Duration::from_millis(50)));
    }

    fn set_rtt(&mut self, rtt: Duration) {
        let path = Lossy { rate: Rate::from_mbps(5.0), loss: 0.3, rtt };
        self.sender.repairs.set_paths([path].into_iter());
    }

    fn forge(&mut self, what: u8, more: u8) {
        self.honest = false;
        let number = u64::from(what) << (more % 56);
        let frame = TunnelFrame { number, back: more.into(), submitted_us: 0, payload: &[9; 20] };
        self.release.handle_symbol(self.now, &frame, Duration::ZERO);
        self.repaired.handle_symbol(self.now, &frame);
        let (repair, first, count) = (more.into(), number, 1 + u16::from(what) * u16::from(more));
        let frame = RepairFrame { coder: 0, repair, first, count, payload: &[what; 50] };
        self.repaired.handle_repair(self.now, &frame);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(frame) = self.repaired.poll(|number| self.release.is_new(number)) {
            self.release.handle_symbol(self.now, &frame, Duration::ZERO);
        }
        while let Some(released) = self.release.poll() {
            let payload = released.payload;
            let Some(&[flow, a, b, c, d]) = payload.first_chunk() else { continue };
            let tag = u32::from_le_bytes([a, b, c, d]);
            self.came.entry(flow).or_default().push(tag);
        }
    }

    /// Lets everything arrive that is left, and looks at what came.
    fn settle(&mut self) {
        // What is too long for the paths as they are now is given up.
        self.set_paths(3, self.longest);
        for _ in 0..=200 + 2 * self.submitted {
            self.pass(Duration::from_millis(10));
            (0..PATHS).for_each(|path| self.send(path, 0));
            (0..PATHS).for_each(|path| self.arrive(path));
            if self.sender.is_idle() {
                break;
            }
        }
        self.set_rtt(Duration::from_millis(10));
        assert!(self.sender.is_idle() && self.sender.backlog() == 0 && self.sender.held() == 0);
        self.pass(Duration::from_secs(3));
        assert!(self.release.is_idle() && self.release.held() == 0);
        if !self.honest {
            return;
        }
        let (given_up, dropped) = (self.sender.counters().given_up, self.sender.queue.dropped());
        let came = self.came.values().map(Vec::len).sum::<usize>() as u64;
        // What was given up may have been decoded.
        let most = u64::from(self.submitted) - dropped;
        assert!(came <= most && came + given_up >= most, "each comes once");
        if self.release.counters().expired == 0 && self.sender.counters().given_up == 0 {
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
