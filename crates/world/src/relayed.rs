//! Nodes of relayed links in the world: what the daemon does with a gateway and a relay's sockets,
//! without sockets.
//!
//! ```text
//! Post      a node and its interfaces: frames in, frames out, each to everybody on its network
//! Gateway   a post beside an endpoint: datagrams in, datagrams out, and what became of them
//! ```
//! Which network is whose follows from the scenario: the one that the station is on is the wire on
//! the ground, the drone's that in the air, and the one of the others the radio between them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use netem::{CLOCK_ORIGIN, HostTransmit, Scenario};
use proto::{
    InterfaceId, PathRef, RELAY_SMALL, Received, RelayConfig, RelayForm, RelayHop, RelayId,
    RelayNode, RelayRole, RelaySide, RelayStatus, SessionConfig, Via,
};
use units::{Instant, Rate, Rng};

use crate::driver::{Driver, Identity};

/// Ports of frames on a wire and on the radio.
const PORTS: [u16; 2] = [14_710, 14_711];
/// How a session names its gateway.
const RELAY: RelayId = RelayId(0);

/// What the nodes of a group are like.
#[derive(Clone, Copy, Debug)]
pub struct RelayGroup {
    /// How gateways send.
    pub form: RelayForm,
    /// Packets of a generation.
    pub k: usize,
    /// What each radio carries, headers of UDP and below not counted.
    pub rate: Rate,
}

/// One node, and the networks that it is on.
pub(crate) struct Post {
    node: RelayNode,
    hops: Vec<Socket>,
}

/// A node's socket on one network.
struct Socket {
    hop: RelayHop,
    interface: usize,
    own: SocketAddr,
    all: SocketAddr,
}

/// The node beside a session.
pub(crate) struct Gateway {
    pub(crate) driver: Driver,
    post: Post,
    /// Datagrams whose fate is open, by their token.
    flights: BTreeMap<u64, (PathRef, u64)>,
    tokens: u64,
}

/// A host of a group.
pub(crate) enum Member {
    Gateway(Box<Gateway>),
    Relay(Box<Post>),
}

impl RelayGroup {
    /// Makes the hosts of a group with a session between its gateways, which begins when the world
    /// does, in the order of the scenario; the same seed gives the same keys.
    ///
    /// # Errors
    /// When the scenario's networks are not two wires and a radio, or its hosts no group.
    pub(crate) fn members(
        &self,
        scenario: &Scenario,
        session: &SessionConfig,
        seed: u64,
    ) -> Result<Vec<Member>, String> {
        let networks = Networks::of(scenario)?;
        let member = |host: usize| {
            let (side, number, hops) = networks.place(host)?;
            let role = match number {
                0 => RelayRole::Gateway { form: self.form, k: self.k },
                number => RelayRole::Relay { number, rate: self.rate },
            };
            let draw = |what: &str| {
                let mut bytes = [0; 32];
                Rng::stream(seed, what).fill(&mut bytes);
                bytes
            };
            let entropy = draw(&format!("node {side} {number}"));
            let config = RelayConfig { side, role, group_key: draw("group"), entropy };
            let node = RelayNode::new(config, CLOCK_ORIGIN).map_err(|error| error.to_string())?;
            let post = Post { node, hops };
            if number > 0 {
                return Ok(Member::Relay(Box::new(post)));
            }
            let identity = Identity { seed, ..Identity::default() };
            let driver = Driver::over_relay(identity, session.clone(), side, RELAY, CLOCK_ORIGIN);
            let gateway = Gateway { driver, post, flights: BTreeMap::new(), tokens: 0 };
            Ok(Member::Gateway(Box::new(gateway)))
        };
        (0..scenario.hosts.len()).map(member).collect()
    }
}

impl Post {
    /// Takes a frame that came by an interface.
    pub(crate) fn handle_frame(&mut self, now: Instant, interface: usize, bytes: &[u8]) {
        if let Some(socket) = self.hops.iter().find(|socket| socket.interface == interface) {
            self.node.handle_frame(now, socket.hop, bytes);
        }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.node.timeout().is_some_and(|at| at <= now) {
            self.node.handle_timeout(now);
        }
    }

    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.node.timeout()
    }

    /// Writes the next frame.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        bytes: &mut Vec<u8>,
    ) -> Option<HostTransmit> {
        let Self { node, hops } = self;
        let socket = hops.iter().find(|socket| node.poll_transmit(now, socket.hop, bytes))?;
        let Socket { interface, own, all, .. } = *socket;
        Some(HostTransmit { interface, source: own, destination: all })
    }

    pub(crate) fn status(&self, now: Instant) -> RelayStatus {
        self.node.status(now)
    }
}

impl Gateway {
    /// Takes a frame of the wire.
    pub(crate) fn handle_frame(&mut self, now: Instant, interface: usize, bytes: &[u8]) {
        self.post.handle_frame(now, interface, bytes);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.post.handle_timeout(now);
        if self.driver.endpoint.timeout().is_some_and(|at| at <= now) {
            self.driver.endpoint.handle_timeout(now);
        }
    }

    pub(crate) fn timeout(&self) -> Option<Instant> {
        let session = self.driver.endpoint.timeout();
        session.into_iter().chain(self.post.timeout()).min()
    }

    /// Gives the session what came to the gateway, and what became of what it sent.
    pub(crate) fn collect(&mut self, now: Instant) {
        let Self { driver, post, flights, .. } = self;
        while let Some(fate) = post.node.poll_fate() {
            if let Some((path, number)) = flights.remove(&fate.token) {
                driver.endpoint.on_relay_fate(now, path, number, fate.arrived);
            }
        }
        while let Some(mut datagram) = post.node.poll_delivery() {
            let (interface, source) = (InterfaceId(0), Via::Relay(RELAY));
            let received = Received { interface, local: None, source, ecn: 0 };
            driver.endpoint.handle_datagram(now, &received, &mut datagram);
        }
    }

    /// Gives the gateway what the session has for it while there is room, and writes the next frame
    /// for the wire.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        bytes: &mut Vec<u8>,
    ) -> Option<HostTransmit> {
        loop {
            let node = &self.post.node;
            let room = node.room(now);
            self.driver.endpoint.set_relay_room(RELAY, room);
            bytes.clear();
            let Some(transmit) = self.driver.endpoint.poll_transmit(now, bytes) else { break };
            self.tokens += 1;
            // A handshake that finds no room is sent again.
            let pushed = self.post.node.push(now, self.tokens, bytes);
            if let (Ok(()), Some(path), Some(number)) = (pushed, transmit.path, transmit.number)
                && bytes.len() > RELAY_SMALL
            {
                self.flights.insert(self.tokens, (path, number));
            }
        }
        bytes.clear();
        self.post.poll_transmit(now, bytes)
    }

    pub(crate) fn status(&self, now: Instant) -> RelayStatus {
        self.post.status(now)
    }
}

/// The three networks of a group, by their places among the scenario's radios.
struct Networks<'s> {
    scenario: &'s Scenario,
    wires: [usize; 2],
    radio: usize,
    gateways: [usize; 2],
}

impl<'s> Networks<'s> {
    fn of(scenario: &'s Scenario) -> Result<Self, String> {
        let host = |name: &str| {
            let missing = || format!("scenario {}: no host called {name}", scenario.name);
            scenario.host(name).ok_or_else(missing)
        };
        let gateways = [host("station")?, host("drone")?];
        let with = |host: usize| scenario.radios.iter().position(|one| one.hosts.contains(&host));
        let is_between = |hosts: &[usize]| gateways.iter().all(|host| !hosts.contains(host));
        let between = scenario.radios.iter().position(|one| is_between(&one.hosts));
        match (gateways.map(with), between) {
            ([Some(ground), Some(air)], Some(radio)) if ground != air => {
                Ok(Self { scenario, wires: [ground, air], radio, gateways })
            }
            _ => Err(format!("scenario {}: not two wires and a radio", scenario.name)),
        }
    }

    /// Returns a host's side, its number there, and its sockets.
    fn place(&self, host: usize) -> Result<(RelaySide, u8, Vec<Socket>), String> {
        for (place, side) in [RelaySide::Ground, RelaySide::Air].into_iter().enumerate() {
            let (wire, gateway) = (self.wires[place], self.gateways[place]);
            let Some(socket) = self.socket(host, wire, RelayHop::Wire) else { continue };
            if host == gateway {
                return Ok((side, 0, vec![socket]));
            }
            let before = self.scenario.radios[wire].hosts.iter().take_while(|one| **one != host);
            let number = before.filter(|one| **one != gateway).count() + 1;
            let number = u8::try_from(number).map_err(|_| "too many relays".to_owned())?;
            let radio = self.socket(host, self.radio, RelayHop::Radio);
            return Ok((side, number, [Some(socket), radio].into_iter().flatten().collect()));
        }
        Err(format!("host {} is on no wire", self.scenario.hosts[host].name))
    }

    fn socket(&self, host: usize, radio: usize, hop: RelayHop) -> Option<Socket> {
        let link = self.scenario.links.len() + self.scenario.broadcasts.len() + radio;
        let interfaces = self.scenario.interfaces(host);
        let interface = interfaces.iter().position(|interface| interface.link == link)?;
        let own = interfaces[interface].address;
        let [a, b, c, _] = own.octets();
        let port = PORTS[usize::from(hop == RelayHop::Radio)];
        let [own, all] = [own, Ipv4Addr::new(a, b, c, 255)].map(|ip| (ip, port).into());
        Some(Socket { hop, interface, own, all })
    }
}
