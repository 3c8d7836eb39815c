//! One end of the connections in the world.
//!
//! The model's segments carry zeros: what a connection was given is in a list that both ends know,
//! and a message has come when as many bytes have as end with it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;

use ::world::tcp::{Config, Congestion, Flows, Receiver, Sender, WINDOW};
use netem::{CLOCK_ORIGIN, HostTransmit};
use units::{Duration, Instant};

use super::super::Stream;
use super::{HEADER, is_control};

/// Ports of the connection over each link, one for each way that bytes go.
const PORTS: [u16; 2] = [5_001, 5_002];
/// Bytes of the longest packet: with the link's own 28 that of Ethernet.
const MTU: usize = 1_472;

/// One end: a connection over each link, in the scenario's order.
pub(crate) struct CopiesEnd {
    links: Vec<Link>,
    delivered: VecDeque<Vec<u8>>,
}

struct Link {
    /// Own and peer's.
    sockets: [SocketAddr; 2],
    /// One sends, one receives.
    flows: Flows,
    /// Bytes that the connection was given so far.
    given: u64,
    sent: Sent,
    /// The same of the other end.
    heard: Sent,
}

/// What one end has given a connection, and the other has not delivered.
type Sent = Rc<RefCell<VecDeque<Given>>>;

struct Given {
    /// The byte behind it.
    end: u64,
    bytes: Vec<u8>,
    /// Whether a copy of it was delivered.
    is_delivered: Rc<Cell<bool>>,
}

impl CopiesEnd {
    /// Makes both ends, whose connections open at once. Their timeout is at least `rto_min` above
    /// the smoothed round trip.
    pub(crate) fn pair(ends: [&[Ipv4Addr]; 2], rto_min: Duration) -> [Self; 2] {
        let end = || Self { links: Vec::new(), delivered: VecDeque::new() };
        let mut pair = [end(), end()];
        for (a, b) in ends[0].iter().zip(ends[1]) {
            let sent = [Sent::default(), Sent::default()];
            let at = |address: Ipv4Addr, port: usize| SocketAddrV4::new(address, PORTS[port]);
            for (side, end) in pair.iter_mut().enumerate() {
                let [own, peer] = if side == 0 { [*a, *b] } else { [*b, *a] };
                let config = Config {
                    source: at(own, side),
                    destination: at(peer, side),
                    mtu: MTU,
                    congestion: Congestion::Cubic,
                    bytes: Some(0),
                    rto_min,
                };
                let mut flows = Flows::default();
                flows.senders.push(Sender::new(CLOCK_ORIGIN, config));
                flows.receivers.push(Receiver::new(at(own, 1 - side), MTU, WINDOW));
                end.links.push(Link {
                    sockets: [own, peer].map(|address| (address, PORTS[0]).into()),
                    flows,
                    given: 0,
                    sent: Rc::clone(&sent[side]),
                    heard: Rc::clone(&sent[1 - side]),
                });
            }
        }
        pair
    }

    /// Tells whether all connections are open.
    pub(crate) fn ready(&self) -> bool {
        self.links.iter().all(|link| link.sender().statistics().srtt.is_some())
    }

    /// Takes a message of an application; false for data where every connection has not sent all
    /// that it was given.
    pub(crate) fn send(&mut self, stream: Stream, bytes: &[u8]) -> bool {
        let srtt = |link: &Link| link.sender().statistics().srtt.unwrap_or(Duration::MAX);
        let mut order: Vec<usize> = (0..self.links.len()).collect();
        order.sort_by_key(|at| srtt(&self.links[*at]));
        if !is_control(stream) {
            order.retain(|at| self.links[*at].sender().unsent() == 0);
            order.truncate(1);
        }
        let is_delivered = Rc::new(Cell::new(false));
        for at in &order {
            self.links[*at].give(bytes, &is_delivered);
        }
        !order.is_empty()
    }

    /// Tells whether messages wait for the application.
    pub(crate) fn has_delivered(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// Returns the next message.
    pub(crate) fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }

    /// Takes a packet from a link.
    pub(crate) fn handle_datagram(&mut self, now: Instant, interface: usize, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(interface) else { return };
        link.flows.handle_packet(now, bytes);
        self.delivered.extend(core::iter::from_fn(|| link.next()).flatten());
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.links.iter_mut().for_each(|link| link.flows.handle_timeout(now));
    }

    /// Returns when a timer of a connection runs out.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.links.iter().filter_map(|link| link.flows.timeout()).min()
    }

    /// Writes the next packet for a link.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        bytes: &mut Vec<u8>,
    ) -> Option<HostTransmit> {
        let next = |(at, link): (usize, &mut Link)| Some((at, link.flows.poll_packet(now)?));
        let (interface, packet) = self.links.iter_mut().enumerate().find_map(next)?;
        bytes.extend_from_slice(&packet);
        let [source, destination] = self.links[interface].sockets;
        Some(HostTransmit { interface, source, destination })
    }
}

impl Link {
    fn sender(&self) -> &Sender {
        &self.flows.senders[0]
    }

    fn give(&mut self, bytes: &[u8], is_delivered: &Rc<Cell<bool>>) {
        let count = (HEADER + bytes.len()) as u64;
        self.given += count;
        self.flows.senders[0].write(count);
        let is_delivered = Rc::clone(is_delivered);
        let given = Given { end: self.given, bytes: bytes.to_vec(), is_delivered };
        self.sent.borrow_mut().push_back(given);
    }

    /// Takes the next message that has come whole; nothing in it where a copy came before. None: no
    /// more have come.
    fn next(&mut self) -> Option<Option<Vec<u8>>> {
        let came = self.flows.receivers[0].received_bytes();
        let mut heard = self.heard.borrow_mut();
        heard.front().filter(|given| given.end <= came)?;
        let given = heard.pop_front()?;
        Some((!given.is_delivered.replace(true)).then_some(given.bytes))
    }
}
