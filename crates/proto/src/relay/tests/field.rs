//! A group in virtual time: gateways, relays, wires of 0.2 ms, a radio of which each test says who
//! hears what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use units::{Duration, Instant, Rate, Rng};

use super::super::frame::{self, Header, Numbers};
use super::super::keys::{self, GroupKey};
use super::super::*;
use crate::{
    Delivery, Endpoint, EndpointConfig, Event, InterfaceId, PathRef, Received as From, RelayId,
    SessionConfig, SessionId, SessionStatus, Source, StaticSecret, Via,
};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const GROUP: [u8; 32] = [9; 32];
const WIRE: Duration = Duration::from_micros(200);

/// A frame on the radio: who sent it, who may hear it.
#[derive(Clone, Copy)]
pub(super) struct Shot {
    pub(super) from: NodeName,
    pub(super) to: NodeName,
    pub(super) bytes: usize,
    /// Counts the frames on the radio.
    pub(super) number: u64,
}

impl Shot {
    /// Tells whether it is as long as coded frames are.
    pub(super) fn is_coded(&self) -> bool {
        self.bytes > 400
    }
}

/// A node, and what its session offers and was given.
pub(super) struct Post {
    pub(super) node: Option<RelayNode>,
    pub(super) name: NodeName,
    role: RelayRole,
    pub(super) offered: VecDeque<Vec<u8>>,
    pub(super) came: Vec<Vec<u8>>,
    pub(super) fates: Vec<Fate>,
    tokens: u64,
    pub(super) end: Option<End>,
}

/// A session's end beside a gateway.
pub(super) struct End {
    pub(super) endpoint: Endpoint,
    pub(super) session: Option<SessionId>,
    pub(super) events: Vec<Event>,
    pub(super) delivered: Vec<Delivery>,
    flights: BTreeMap<u64, (PathRef, u64)>,
}

/// How the ends of sessions name their gateways.
const RELAY: RelayId = RelayId(0);

impl End {
    pub(super) fn status(&self, now: Instant) -> SessionStatus {
        let status = self.session.and_then(|session| self.endpoint.status(now, session));
        status.expect("a session")
    }

    fn collect(&mut self) {
        while let Some((session, event)) = self.endpoint.poll_event() {
            if matches!(event, Event::Connected { .. }) {
                self.session = Some(session);
            }
            self.events.push(event);
        }
        self.delivered.extend(core::iter::from_fn(|| self.endpoint.poll_delivery()));
    }

    /// Does what a daemon does with its gateway, until neither has anything for the other.
    fn drive(&mut self, now: Instant, node: &mut RelayNode, tokens: &mut u64) {
        while let Some(mut datagram) = node.poll_delivery() {
            let (interface, source) = (InterfaceId(0), Via::Relay(RELAY));
            let received = From { interface, local: None, source, ecn: 0 };
            self.endpoint.handle_datagram(now, &received, &mut datagram);
        }
        while let Some(fate) = node.poll_fate() {
            let Some((path, number)) = self.flights.remove(&fate.token) else { continue };
            self.endpoint.on_relay_fate(now, path, number, fate.arrived);
        }
        if self.endpoint.timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        let mut buf = Vec::new();
        loop {
            let room = node.room(now);
            self.endpoint.set_relay_room(RELAY, room);
            let Some(transmit) = self.endpoint.poll_transmit(now, &mut buf) else { break };
            *tokens += 1;
            // A handshake may find no room: it is sent again.
            let pushed = node.push(now, *tokens, &buf);
            if let (Ok(()), Some(path), Some(number)) = (pushed, transmit.path, transmit.number)
                && buf.len() > 200
            {
                self.flights.insert(*tokens, (path, number));
            }
        }
        self.collect();
    }
}

impl Post {
    fn timeout(&self) -> Option<Instant> {
        let node = self.node.as_ref()?.timeout();
        node.into_iter().chain(self.end.as_ref().and_then(|end| end.endpoint.timeout())).min()
    }
}

/// What a member of the group does to the frames that it sends.
pub(super) type Insider = Box<dyn FnMut(Hop, &mut Vec<u8>)>;

pub(super) struct Field {
    pub(super) now: Instant,
    pub(super) posts: Vec<Post>,
    pub(super) rng: Rng,
    events: BTreeMap<(Instant, u64), (usize, Hop, Vec<u8>)>,
    count: u64,
    shots: u64,
    /// What the radio takes besides.
    pub(super) radio_delay: [Duration; 2],
    /// What a radio carries, by its place, if that is less than its relay says, and until when it
    /// sends what it was given.
    pub(super) carries: BTreeMap<usize, Rate>,
    busy_until: BTreeMap<usize, Instant>,
    pub(super) hears: Box<dyn FnMut(&Shot) -> bool>,
    /// All frames that left, if they are kept: who, hop, bytes.
    pub(super) log: Option<Vec<(NodeName, Hop, Vec<u8>)>>,
    pub(super) rate: Rate,
    /// Changes frames as somebody who has the group's key can.
    pub(super) insider: Insider,
}

pub(super) fn name(side: Side, number: u8) -> NodeName {
    NodeName { side, number }
}

/// Somebody with the group's key who hears all frames of some nodes.
pub(super) struct Listener {
    group: GroupKey,
    last: BTreeMap<NodeName, Header>,
}

impl Listener {
    pub(super) fn new() -> Self {
        Self { group: GroupKey::new(GROUP), last: BTreeMap::new() }
    }

    /// Returns the header of a frame in full; of a coded one none until the node has told its boot.
    pub(super) fn header(&mut self, bytes: &[u8]) -> Option<Header> {
        let said = frame::read_header(bytes).expect("a frame that was sent");
        let header = match (said.numbers, self.last.get(&said.sender)) {
            (Numbers::Whole { boot, counter }, _) => said.complete(boot, counter),
            (Numbers::Low { .. }, last) => {
                last.map(|last| said.complete(last.boot, last.counter))?
            }
        };
        self.last.insert(said.sender, header);
        Some(header)
    }

    /// Changes one byte of a frame, so far from its end, and signs it anew.
    pub(super) fn change(&self, header: &Header, from_end: usize, bytes: &mut Vec<u8>) {
        bytes.truncate(bytes.len() - frame::CODE);
        let at = bytes.len() - from_end;
        bytes[at] ^= 0x55;
        keys::sign(&self.group.of(header.sender, header.boot), header.counter, bytes);
    }
}

impl Field {
    /// Sets up a group with so many relays at each side, on the radio at `mbps`; everybody hears
    /// everything.
    pub(super) fn new(form: RelayForm, relays: [u8; 2], mbps: f64, seed: u64) -> Self {
        let rate = Rate::from_mbps(mbps);
        let mut posts = Vec::new();
        for (side, count) in [(Side::Ground, relays[0]), (Side::Air, relays[1])] {
            for number in 0..=count {
                let role = match number {
                    0 => RelayRole::Gateway { form, k: 4 },
                    number => RelayRole::Relay { number, rate },
                };
                posts.push(Post {
                    node: None,
                    name: name(side, number),
                    role,
                    offered: VecDeque::new(),
                    came: Vec::new(),
                    fates: Vec::new(),
                    tokens: 0,
                    end: None,
                });
            }
        }
        let mut field = Self {
            now: Instant::from_millis(1_000),
            posts,
            rng: Rng::new(seed),
            events: BTreeMap::new(),
            count: 0,
            shots: 0,
            radio_delay: [Duration::ZERO; 2],
            carries: BTreeMap::new(),
            busy_until: BTreeMap::new(),
            hears: Box::new(|_| true),
            log: None,
            rate,
            insider: Box::new(|_, _| {}),
        };
        (0..field.posts.len()).for_each(|at| field.start(at));
        field
    }

    /// Starts a node, or starts it again.
    pub(super) fn start(&mut self, at: usize) {
        let post = &self.posts[at];
        let mut entropy = [0; 32];
        self.rng.fill(&mut entropy);
        let config =
            RelayConfig { side: post.name.side, role: post.role, group_key: GROUP, entropy };
        let node = RelayNode::new(config, self.now).expect("a role that there is");
        self.posts[at].node = Some(node);
        self.pump(at);
    }

    /// Lets all radios carry so little.
    pub(super) fn thin(&mut self, kbps: u64) {
        let rate = Rate::from_bps(kbps * 1_000);
        self.carries = (0..self.posts.len()).map(|at| (at, rate)).collect();
    }

    /// Sets up another node with the number of one that there is.
    pub(super) fn twin(&mut self, side: Side, number: u8) {
        let role = self.posts[self.at(side, number)].role;
        let (name, came, fates) = (name(side, number), Vec::new(), Vec::new());
        let offered = VecDeque::new();
        self.posts.push(Post {
            node: None,
            name,
            role,
            offered,
            came,
            fates,
            tokens: 0,
            end: None,
        });
        self.start(self.posts.len() - 1);
    }

    pub(super) fn kill(&mut self, at: usize) {
        self.posts[at].node = None;
    }

    pub(super) fn at(&self, side: Side, number: u8) -> usize {
        let is = |post: &Post| post.name == name(side, number);
        self.posts.iter().position(is).expect("a node that there is")
    }

    pub(super) fn post(&mut self, side: Side, number: u8) -> &mut Post {
        let at = self.at(side, number);
        &mut self.posts[at]
    }

    pub(super) fn status(&self, side: Side, number: u8) -> RelayStatus {
        let post = &self.posts[self.at(side, number)];
        post.node.as_ref().expect("it runs").status(self.now)
    }

    /// Lets a session run over the group: the drone is in the air.
    pub(super) fn connect(&mut self, session: &SessionConfig) {
        let mut draw = || {
            let mut bytes = [0; 32];
            self.rng.fill(&mut bytes);
            bytes
        };
        let secrets = [0, 1].map(|_| StaticSecret::generate(draw()));
        let keys = secrets.each_ref().map(StaticSecret::public);
        for (side, secret) in [Side::Ground, Side::Air].into_iter().zip(secrets) {
            let (entropy, accept) = (draw(), side == Side::Ground);
            let config = EndpointConfig { secret, entropy, accept, session: session.clone() };
            let mut endpoint = Endpoint::new(config, self.now);
            let peer = endpoint.add_peer(keys[1 - side as usize], None);
            let session = (side == Side::Air).then(|| endpoint.connect(self.now, peer));
            if let Some(session) = session {
                let path = endpoint.add_path(self.now, session, InterfaceId(0), Via::Relay(RELAY));
                assert!(path.is_ok());
            }
            let (events, delivered) = (Vec::new(), Vec::new());
            let flights = BTreeMap::new();
            let at = self.posts.iter().position(|post| post.name == name(side, 0));
            self.posts[at.expect("a gateway")].end =
                Some(End { endpoint, session, events, delivered, flights });
        }
    }

    /// Hands a packet to the session's end at a side; false when it pushes back.
    pub(super) fn send(&mut self, side: Side, source: Source, bytes: &[u8]) -> bool {
        let (now, at) = (self.now, self.at(side, 0));
        let end = self.posts[at].end.as_mut().expect("a session");
        let Some(session) = end.session else { return false };
        let sent = end.endpoint.send(now, session, source, bytes).is_ok();
        self.pump(at);
        sent
    }

    pub(super) fn end(&mut self, side: Side) -> &mut End {
        self.post(side, 0).end.as_mut().expect("a session")
    }

    /// Offers datagrams of a length, all different, at a gateway; returns them.
    pub(super) fn offer(&mut self, side: Side, count: usize, bytes: usize) -> BTreeSet<Vec<u8>> {
        let mut all = BTreeSet::new();
        for _ in 0..count {
            let mut datagram = vec![0; bytes];
            self.rng.fill(&mut datagram);
            all.insert(datagram.clone());
            self.post(side, 0).offered.push_back(datagram);
        }
        let at = self.at(side, 0);
        self.pump(at);
        all
    }

    /// Returns all that came at a gateway, each once.
    pub(super) fn came(&mut self, side: Side) -> BTreeSet<Vec<u8>> {
        let came = &self.post(side, 0).came;
        let set: BTreeSet<_> = came.iter().cloned().collect();
        assert_eq!(set.len(), came.len(), "each once");
        set
    }

    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        let mut spun = 0;
        loop {
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let timers =
                self.posts.iter().map(|post| post.node.as_ref().and_then(RelayNode::timeout));
            let timer = timers.flatten().min();
            let Some(at) = event.into_iter().chain(timer).min().filter(|at| *at <= end) else {
                break;
            };
            spun = if at > self.now { 0 } else { spun + 1 };
            assert!(spun < 10_000, "it stands still at {:?}", self.now);
            self.now = self.now.max(at);
            if event.is_some_and(|event| event <= self.now) {
                let (_, (to, hop, bytes)) = self.events.pop_first().expect("it was seen");
                self.give(to, hop, &bytes);
            } else {
                for at in 0..self.posts.len() {
                    if self.posts[at].timeout().is_some_and(|due| due <= self.now) {
                        if let Some(node) = &mut self.posts[at].node {
                            node.handle_timeout(self.now);
                        }
                        self.pump(at);
                    }
                }
            }
        }
        self.now = end;
    }

    /// Gives a node a frame.
    pub(super) fn give(&mut self, to: usize, hop: Hop, bytes: &[u8]) {
        if let Some(node) = &mut self.posts[to].node {
            node.handle_frame(self.now, hop, bytes);
            self.pump(to);
        }
    }

    fn pump(&mut self, at: usize) {
        let mut buf = Vec::new();
        loop {
            let (now, post) = (self.now, &mut self.posts[at]);
            let Some(node) = &mut post.node else { return };
            if let Some(end) = &mut post.end {
                end.drive(now, node, &mut post.tokens);
            }
            while let Some(datagram) = node.poll_delivery() {
                post.came.push(datagram);
            }
            while let Some(fate) = node.poll_fate() {
                post.fates.push(fate);
            }
            while let Some(datagram) = post.offered.front()
                && if datagram.len() <= 200 { node.wants_small() } else { node.wants(now) }
            {
                node.push(now, post.tokens, datagram).expect("it wants one");
                post.tokens += 1;
                post.offered.pop_front();
            }
            let hop = [Hop::Wire, Hop::Radio].into_iter();
            let mut hop = hop.filter(|hop| node.poll_transmit(now, *hop, &mut buf));
            match hop.next() {
                Some(hop) => self.carry(at, hop, &buf),
                None => return,
            }
        }
    }

    fn carry(&mut self, at: usize, hop: Hop, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        (self.insider)(hop, &mut bytes);
        let from = self.posts[at].name;
        if let Some(log) = &mut self.log {
            log.push((from, hop, bytes.clone()));
        }
        let thin = self.carries.get(&at).copied();
        let rate = thin.unwrap_or(self.rate);
        let mut radio = rate.transmission_time(bytes.len()) + self.radio_delay[from.side as usize];
        self.shots += u64::from(hop == Hop::Radio);
        if hop == Hop::Radio && thin.is_some() {
            let until = self.busy_until.entry(at).or_default();
            *until = self.now.max(*until) + radio;
            radio = until.since(self.now);
        }
        for to in (0..self.posts.len()).filter(|to| *to != at) {
            let other = self.posts[to].name;
            let (heard, after) = match hop {
                Hop::Wire => (other.side == from.side, WIRE),
                Hop::Radio => {
                    let number = self.shots;
                    let shot = Shot { from, to: other, bytes: bytes.len(), number };
                    let faces = other.side != from.side && other.number > 0;
                    (faces && (self.hears)(&shot), radio)
                }
            };
            if heard {
                self.count += 1;
                self.events.insert((self.now + after, self.count), (to, hop, bytes.clone()));
            }
        }
    }
}
