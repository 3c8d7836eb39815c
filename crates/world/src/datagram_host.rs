//! One end of plain UDP in the world: datagrams as they are, over the first link.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use netem::{Host, HostTransmit};
use units::Instant;

/// Port that the plain datagrams use at both ends.
const PORT: u16 = 5_000;

/// Sends applications' datagrams over the better link, which scenarios name first.
pub struct DatagramHost {
    local: SocketAddr,
    remote: SocketAddr,
    outgoing: VecDeque<Vec<u8>>,
    delivered: VecDeque<Vec<u8>>,
}

impl DatagramHost {
    /// Makes an end between two addresses of the first link.
    pub fn new(local: Ipv4Addr, remote: Ipv4Addr) -> Self {
        Self {
            local: (local, PORT).into(),
            remote: (remote, PORT).into(),
            outgoing: VecDeque::new(),
            delivered: VecDeque::new(),
        }
    }

    /// Takes a datagram of an application.
    pub fn send(&mut self, bytes: &[u8]) {
        self.outgoing.push_back(bytes.to_vec());
    }

    /// Tells whether packets for an application wait.
    pub fn has_delivered(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// Returns the next datagram for an application.
    pub fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }
}

impl Host for DatagramHost {
    fn handle_datagram(
        &mut self,
        _now: Instant,
        _interface: usize,
        _source: SocketAddr,
        _destination: SocketAddr,
        _ecn: u8,
        bytes: &mut [u8],
    ) {
        self.delivered.push_back(bytes.to_vec());
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, _now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        bytes.extend_from_slice(&self.outgoing.pop_front()?);
        Some(HostTransmit { interface: 0, source: self.local, destination: self.remote })
    }
}
