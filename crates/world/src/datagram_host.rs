//! One end of the `udp` scheme: datagrams as they are, over the first link.

use std::collections::VecDeque;
use std::net::SocketAddr;

use netem::HostTransmit;

/// Port that the plain datagrams use at both ends.
const PORT: u16 = 5_000;

/// Sends applications' datagrams over the better link, which scenarios name first.
pub(super) struct PlainEnd {
    local: SocketAddr,
    remote: SocketAddr,
    outgoing: VecDeque<Vec<u8>>,
    delivered: VecDeque<Vec<u8>>,
}

impl PlainEnd {
    /// Makes an end between two addresses of the first link.
    pub(super) fn new(local: std::net::Ipv4Addr, remote: std::net::Ipv4Addr) -> Self {
        Self {
            local: (local, PORT).into(),
            remote: (remote, PORT).into(),
            outgoing: VecDeque::new(),
            delivered: VecDeque::new(),
        }
    }

    /// Takes a datagram of an application.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.outgoing.push_back(bytes.to_vec());
    }

    /// Tells whether packets for an application wait.
    pub(super) fn has_delivered(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// Returns the next datagram for an application.
    pub(super) fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }

    /// Takes a datagram from the link.
    pub(super) fn handle_datagram(&mut self, bytes: &[u8]) {
        self.delivered.push_back(bytes.to_vec());
    }

    /// Writes the next datagram for the link.
    pub(super) fn poll_transmit(&mut self, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        bytes.extend_from_slice(&self.outgoing.pop_front()?);
        Some(HostTransmit { interface: 0, source: self.local, destination: self.remote })
    }
}
