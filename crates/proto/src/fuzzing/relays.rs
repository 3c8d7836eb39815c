//! Nodes of a relay group among frames without sense, and among others that come, go and are
//! repeated.

use std::collections::{BTreeSet, VecDeque};

use units::{Duration, Instant, Rate};

use crate::limits;
use crate::relay::{
    Hop, NodeName, RelayConfig, RelayForm, RelayNode, RelayRole, Side, mad_node::MadNode,
};

const GROUP: [u8; 32] = [3; 32];
const MS: Duration = Duration::from_millis(1);

/// Gives each role frames of a node that has the group's key and no sense: codes are right, boots
/// have answered, bodies are the script's.
pub fn relay_frames(script: &[u8]) {
    let Some((&first, mut script)) = script.split_first() else { return };
    let side = if first & 1 == 0 { Side::Ground } else { Side::Air };
    let form = form(first & 2 != 0);
    let role = match first & 4 {
        0 => RelayRole::Gateway { form, k: usize::from(first >> 4) },
        _ => RelayRole::Relay { number: 1, rate: Rate::from_mbps(10.0) },
    };
    let mut now = Instant::from_millis(1_000);
    let mut node = start(now, side, role, 1);
    let mut mad = MadNode::new(GROUP);
    let mut buf = Vec::new();
    let mut token = 0;
    while let Some((&[what, number, kind, length], rest)) = script.split_first_chunk::<4>() {
        let (bytes, rest) = rest.split_at(rest.len().min(length.into()));
        script = rest;
        now += MS * u32::from(what >> 5);
        let hop = if what & 1 == 0 { Hop::Wire } else { Hop::Radio };
        match what & 6 {
            0 => node.handle_frame(now, hop, bytes),
            2 => {
                token += 1;
                let _ = node.push(now, token, &vec![what; usize::from(number) * 8]);
            }
            _ => {
                let sender = NodeName {
                    side: if what & 8 == 0 { side } else { side.other() },
                    number: number % 4,
                };
                let direction = if what & 16 == 0 { Side::Ground } else { Side::Air };
                mad.say(sender, hop, direction, kind, bytes, |frame| {
                    node.handle_frame(now, hop, frame);
                });
            }
        }
        if node.timeout().is_some_and(|at| at <= now) {
            node.handle_timeout(now);
        }
        for hop in [Hop::Wire, Hop::Radio] {
            for _ in 0..200 {
                if !node.poll_transmit(now, hop, &mut buf) {
                    break;
                }
                mad.hear(hop, &buf, |frame| node.handle_frame(now, hop, frame));
            }
        }
        while let Some(datagram) = node.poll_delivery() {
            assert!(datagram.len() <= limits::MAX_DATAGRAM);
        }
        while node.poll_fate().is_some() {}
        let status = node.status(now);
        assert!(status.open as u64 <= limits::RELAY_REMEMBERED + limits::RELAY_GENERATIONS);
        assert!(status.members.len() <= limits::RELAY_MEMBERS);
    }
}

/// Lets relays come and go while datagrams travel, and frames be lost, repeated and late: what
/// comes was sent, and comes once; when all is well again, all that was not given up has come.
pub fn relay_group(script: &[u8]) {
    let Some((&first, script)) = script.split_first() else { return };
    // On fast radios most of the work is frames that nobody needs.
    let rate = Rate::from_mbps(if first & 6 == 4 { 10.0 } else { 2.0 });
    let mut group = Group::new(form(first & 1 != 0), rate);
    for pair in script.chunks_exact(2).take(500) {
        group.act(pair[0], pair[1]);
    }
    group.heal();
}

fn form(published: bool) -> RelayForm {
    match published {
        true => RelayForm::Published { f: Some(2), r: 3 },
        false => RelayForm::Ranked { f: None },
    }
}

fn start(now: Instant, side: Side, role: RelayRole, life: u8) -> RelayNode {
    let number = match role {
        RelayRole::Gateway { .. } => 0,
        RelayRole::Relay { number, .. } => number,
    };
    let entropy = [life ^ (number << 4) ^ (side as u8) << 7; 32];
    let config = RelayConfig { side, role, group_key: GROUP, entropy };
    RelayNode::new(config, now).expect("a role that there is")
}

/// A gateway and two relays at each side.
struct Group {
    now: Instant,
    nodes: Vec<(Side, RelayRole, Option<RelayNode>)>,
    /// Frames under way: by whom, hop, bytes.
    air: VecDeque<(usize, Hop, Vec<u8>)>,
    past: VecDeque<(usize, Hop, Vec<u8>)>,
    life: u8,
    sent: u64,
    came: BTreeSet<Vec<u8>>,
    settled: u64,
}

impl Group {
    fn new(form: RelayForm, rate: Rate) -> Self {
        let now = Instant::from_millis(1_000);
        let roles = || {
            let relays = [1, 2].map(|number| RelayRole::Relay { number, rate });
            [RelayRole::Gateway { form, k: 4 }].into_iter().chain(relays)
        };
        let sides = [Side::Ground, Side::Air].into_iter();
        let nodes = sides.flat_map(|side| roles().map(move |role| (side, role)));
        let nodes = nodes.map(|(side, role)| (side, role, Some(start(now, side, role, 0))));
        Self {
            now,
            nodes: nodes.collect(),
            air: VecDeque::new(),
            past: VecDeque::new(),
            life: 0,
            sent: 0,
            came: BTreeSet::new(),
            settled: 0,
        }
    }

    fn act(&mut self, what: u8, which: u8) {
        // Gateways stay: one that starts anew does not know what came before.
        let relay = [1, 2, 4, 5][usize::from(which % 4)];
        match what % 8 {
            0 => self.nodes[relay].2 = None,
            1 => self.start(relay),
            2 => drop(self.air.pop_front()),
            3 => {
                let place = usize::from(which).min(self.past.len().saturating_sub(1));
                self.air.extend(self.past.get(place).cloned());
            }
            4 => {
                if let Some(late) = self.air.pop_front() {
                    self.air.push_back(late);
                }
            }
            5 => self.pass(MS * u32::from(which)),
            _ => self.offer(which),
        }
        self.pump();
        for _ in 0..which % 16 {
            self.deliver();
        }
    }

    fn start(&mut self, at: usize) {
        self.life = self.life.wrapping_add(1);
        let (side, role, node) = &mut self.nodes[at];
        *node = Some(start(self.now, *side, *role, self.life));
    }

    fn offer(&mut self, which: u8) {
        let now = self.now;
        let Some(gateway) = &mut self.nodes[0].2 else { return };
        let mut datagram = vec![which; if which.is_multiple_of(8) { 100 } else { 300 }];
        datagram[..8].copy_from_slice(&self.sent.to_be_bytes());
        if gateway.push(now, self.sent, &datagram).is_ok() {
            self.sent += 1;
            // Nobody tells what becomes of small ones.
            self.settled += u64::from(datagram.len() == 100);
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let timers = self.nodes.iter().filter_map(|(.., node)| node.as_ref()?.timeout());
            let Some(at) = timers.min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at) + Duration::from_micros(100);
            for (.., node) in &mut self.nodes {
                if let Some(node) = node.as_mut().filter(|node| node.timeout() <= Some(at)) {
                    node.handle_timeout(self.now);
                }
            }
            self.pump();
            while self.air.len() > 200 {
                self.air.pop_front();
            }
        }
        self.now = self.now.max(end);
    }

    fn pump(&mut self) {
        let mut buf = Vec::new();
        for (at, (_, _, node)) in self.nodes.iter_mut().enumerate() {
            let Some(node) = node else { continue };
            for hop in [Hop::Wire, Hop::Radio] {
                while self.air.len() < 400 && node.poll_transmit(self.now, hop, &mut buf) {
                    self.air.push_back((at, hop, buf.clone()));
                }
            }
            while let Some(datagram) = node.poll_delivery() {
                let number = datagram.first_chunk().map(|number| u64::from_be_bytes(*number));
                assert!(number.is_some_and(|number| number < self.sent), "it was never sent");
                assert!(self.came.insert(datagram), "it came twice");
            }
            while node.poll_fate().is_some() {
                self.settled += 1;
            }
        }
    }

    fn deliver(&mut self) {
        let Some((from, hop, bytes)) = self.air.pop_front() else { return };
        let side = self.nodes[from].0;
        for (at, (other, _, node)) in self.nodes.iter_mut().enumerate() {
            let hears = match hop {
                Hop::Wire => *other == side,
                Hop::Radio => at % 3 != 0,
            };
            if let Some(node) = node.as_mut().filter(|_| hears && at != from) {
                node.handle_frame(self.now, hop, &bytes);
            }
        }
        if self.past.len() == 256 {
            self.past.pop_front();
        }
        self.past.push_back((from, hop, bytes));
        self.pump();
    }

    fn heal(&mut self) {
        for at in [1, 2, 4, 5] {
            if self.nodes[at].2.is_none() {
                self.start(at);
            }
        }
        // What is given up is given up after three seconds.
        for _ in 0..12_000 {
            self.pass(MS);
            while !self.air.is_empty() {
                self.deliver();
            }
            if self.settled >= self.sent {
                return;
            }
        }
        panic!("of {} datagrams {} came to an end", self.sent, self.settled);
    }
}
