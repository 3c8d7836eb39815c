//! Two hosts with flows between them in virtual time, and a record of what the flows delivered.

use std::net::{Ipv4Addr, SocketAddrV4};

use netem::{Scenario, StepKind, World, WorldOptions};
use proto::Source;
use units::{Duration, Instant, Rate};

use super::congestion::Congestion;
use super::flows::Flows;
use super::host::{FlowHost, addresses};
use super::outside::Outside;
use super::receiver::{Receiver, WINDOW};
use super::rtt::RTO_MIN;
use super::sender::{Config, Sender, Statistics};

/// Ports of the first flow; those of others follow.
const SOURCE_PORT: u16 = 40_000;
const DESTINATION_PORT: u16 = 5_001;
/// Port of datagrams beside the flows: none that a session looks into.
const DATAGRAM_PORT: u16 = 5_600;

/// What a flow is like.
#[derive(Clone, Copy, Debug)]
pub struct FlowOptions {
    /// How its window grows and falls.
    pub congestion: Congestion,
    /// Bytes of the longest packet.
    pub mtu: usize,
    /// Bytes that it sends, and more once [`FlowWorld::write`] says so; none: it never ends.
    pub bytes: Option<u64>,
    /// The receiver's window, in bytes.
    pub window: u64,
    /// Whether it remembers what limited it ([`Sender::remembering`]).
    pub remembers: bool,
}

impl Default for FlowOptions {
    fn default() -> Self {
        Self {
            congestion: Congestion::Cubic,
            mtu: 1_280,
            bytes: None,
            window: WINDOW,
            remembers: false,
        }
    }
}

/// One flow.
struct Flow {
    /// The host of the sender, and which of its flows it is at each end.
    from: usize,
    sender: usize,
    receiver: usize,
    /// Whether it is somebody else's, beside the session.
    is_outside: bool,
    /// What the receiver's application has read, in total, and when.
    delivered: Vec<(Instant, u64)>,
}

/// A station and a drone, and flows between them.
pub struct FlowWorld {
    /// Where they are.
    pub world: World<FlowHost>,
    flows: Vec<Flow>,
    /// The address of each host inside the tunnel.
    addresses: [Ipv4Addr; 2],
}

impl FlowWorld {
    /// Puts the hosts of the station and of the drone into a scenario that has no others.
    ///
    /// # Panics
    /// When the scenario's hosts are not a station and a drone.
    pub fn new(scenario: &Scenario, hosts: [FlowHost; 2], options: &WorldOptions) -> Self {
        let [station, drone] = hosts;
        let mut addresses = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
        let mut hosts = vec![station, drone];
        if scenario.host("station") > scenario.host("drone") {
            addresses.reverse();
            hosts.reverse();
        }
        Self { world: World::new(scenario, hosts, options), flows: Vec::new(), addresses }
    }

    /// Puts a station, a drone and the relays between them into a scenario that names them in this
    /// order.
    ///
    /// # Panics
    /// When the scenario's first two hosts are not the station and the drone, or it has not as many
    /// hosts.
    pub fn relayed(scenario: &Scenario, hosts: Vec<FlowHost>, options: &WorldOptions) -> Self {
        let places = [scenario.host("station"), scenario.host("drone")];
        assert_eq!(places, [Some(0), Some(1)], "station and drone come first");
        let addresses = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
        Self { world: World::new(scenario, hosts, options), flows: Vec::new(), addresses }
    }

    /// Lets the session come up, until `deadline` at most; false when it has not by then.
    pub fn connect(&mut self, deadline: Instant) -> bool {
        loop {
            if [0, 1].iter().all(|&host| self.world.host(host).ready(self.world.host_now(host))) {
                return true;
            }
            if !self.step(deadline) {
                return false;
            }
        }
    }

    /// Starts a flow whose sender is at the host of this place in the scenario; returns its number,
    /// from zero.
    pub fn start(&mut self, from: usize, options: FlowOptions) -> usize {
        self.add(from, options, false)
    }

    /// Lets flows of somebody else's share the first link's queues, straight onto it, whose
    /// applications are `farther` from the hosts, each way.
    ///
    /// # Errors
    /// When the scenario has no host called station or drone.
    ///
    /// # Panics
    /// When there is no link between them.
    pub fn let_share(&mut self, scenario: &Scenario, farther: Duration) -> Result<(), String> {
        let [station, drone] = addresses(scenario)?.map(|of_host| of_host[0]);
        for (name, own, peer) in [("station", station, drone), ("drone", drone, station)] {
            let host = scenario.host(name).unwrap_or_default();
            self.world.host_mut(host).outside = Some(Outside::new(own, peer, farther));
        }
        Ok(())
    }

    /// Starts a flow as [`Self::start`] does, beside the session; returns its number.
    ///
    /// # Panics
    /// Where nobody may share the link ([`Self::let_share`]).
    pub fn start_outside(&mut self, from: usize, options: FlowOptions) -> usize {
        self.add(from, options, true)
    }

    /// Returns the bytes that both hosts handed to the link for flows beside the session.
    pub fn outside_bytes(&self) -> u64 {
        let sent = |host: usize| self.world.host(host).outside.as_ref().map_or(0, |one| one.sent);
        sent(0) + sent(1)
    }

    /// Gives a flow that ends more bytes to send, as [`Sender::write`] does.
    ///
    /// # Panics
    /// When there is no such flow.
    pub fn write(&mut self, flow: usize, bytes: u64) {
        let Flow { from, sender, is_outside, .. } = self.flows[flow];
        self.ends_mut(from, is_outside).senders[sender].write(bytes);
    }

    /// Lets a flow send nothing new, as [`Sender::finish`] does.
    ///
    /// # Panics
    /// When there is no such flow.
    pub fn finish(&mut self, flow: usize) {
        let Flow { from, sender, is_outside, .. } = self.flows[flow];
        self.ends_mut(from, is_outside).senders[sender].finish();
    }

    /// Sends a datagram of at most 65,507 bytes from one host to the other, beside the flows, by
    /// this way into the session; over links there is one way.
    pub fn send_datagram(&mut self, from: usize, source: Source, payload: &[u8]) {
        let end = |host: usize| SocketAddrV4::new(self.addresses[host], DATAGRAM_PORT);
        let ends = [end(from), end(1 - from)];
        self.world.host_mut(from).send(source, payload, ends);
    }

    /// Returns the payload of the next datagram that came to a host.
    pub fn poll_datagram(&mut self, host: usize) -> Option<Vec<u8>> {
        self.world.take_from(host).arrived.pop_front()
    }

    /// Lets one thing happen, if it happens by `limit`; otherwise moves time there.
    pub fn step(&mut self, limit: Instant) -> bool {
        let Some(step) = self.world.step_until(limit) else { return false };
        // A session's resequencing may deliver at a time-out.
        let (StepKind::Datagram { host } | StepKind::Timeout { host }) = step.kind else {
            return true;
        };
        for flow in self.flows.iter_mut().filter(|flow| flow.from + host == 1) {
            let receiver = &self.world.host(host).ends(flow.is_outside).receivers[flow.receiver];
            let bytes = receiver.received_bytes();
            if bytes > flow.delivered.last().map_or(0, |(_, bytes)| *bytes) {
                flow.delivered.push((step.at, bytes));
            }
        }
        true
    }

    /// Lets everything happen up to `limit`.
    pub fn run_until(&mut self, limit: Instant) {
        while self.step(limit) {}
    }

    /// Lets everything happen within `duration`.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.world.now() + duration);
    }

    /// Returns what a flow's receiver has read: the world's time, and bytes in total by then.
    ///
    /// # Panics
    /// When there is no such flow.
    pub fn delivered(&self, flow: usize) -> &[(Instant, u64)] {
        &self.flows[flow].delivered
    }

    /// Returns the bytes that a flow's receiver had read by a time of the world.
    ///
    /// # Panics
    /// When there is no such flow.
    pub fn delivered_by(&self, flow: usize, at: Instant) -> u64 {
        let delivered = self.delivered(flow);
        let count = delivered.partition_point(|(when, _)| *when <= at);
        delivered[..count].last().map_or(0, |(_, bytes)| *bytes)
    }

    /// Returns a flow's goodput between two times of the world.
    ///
    /// # Panics
    /// When there is no such flow, or no time between them.
    pub fn goodput(&self, flow: usize, from: Instant, to: Instant) -> Rate {
        let bytes = self.delivered_by(flow, to) - self.delivered_by(flow, from);
        Rate::from_bytes_in(bytes, to.since(from))
    }

    /// Returns what a flow's sender has done.
    ///
    /// # Panics
    /// When there is no such flow.
    pub fn statistics(&self, flow: usize) -> Statistics {
        self.sender(flow).statistics()
    }

    /// Returns a flow's sender.
    ///
    /// # Panics
    /// When there is no such flow.
    pub fn sender(&self, flow: usize) -> &Sender {
        let Flow { from, sender, is_outside, .. } = self.flows[flow];
        &self.world.host(from).ends(is_outside).senders[sender]
    }

    fn add(&mut self, from: usize, options: FlowOptions, is_outside: bool) -> usize {
        let flow = self.flows.len();
        let end =
            |host: usize, port: u16| SocketAddrV4::new(self.addresses[host], port + flow as u16);
        let (source, destination) = (end(from, SOURCE_PORT), end(1 - from, DESTINATION_PORT));
        let FlowOptions { congestion, mtu, bytes, window, remembers } = options;
        let config = Config { source, destination, mtu, congestion, bytes, rto_min: RTO_MIN };
        let now = self.world.host_now(from);
        let receivers = &mut self.ends_mut(1 - from, is_outside).receivers;
        receivers.push(Receiver::new(destination, mtu, window));
        let receiver = receivers.len() - 1;
        let senders = &mut self.ends_mut(from, is_outside).senders;
        let made = Sender::new(now, config);
        senders.push(if remembers { made.remembering() } else { made });
        let sender = senders.len() - 1;
        self.flows.push(Flow { from, sender, receiver, is_outside, delivered: Vec::new() });
        flow
    }

    fn ends_mut(&mut self, host: usize, is_outside: bool) -> &mut Flows {
        let host = self.world.host_mut(host);
        match &mut host.outside {
            Some(outside) if is_outside => &mut outside.flows,
            None if is_outside => panic!("nobody may share the link"),
            _ => &mut host.flows,
        }
    }
}
