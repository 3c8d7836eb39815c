//! TCP flows of somebody else's beside a session: straight onto one of its links, whose queue both
//! share.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use netem::HostTransmit;
use units::{Duration, Instant};

use super::flows::Flows;

/// Their port at both ends: none of a session's.
pub(super) const PORT: u16 = 5_002;
/// What the world puts around a datagram: IP and UDP headers.
const DATAGRAM_HEADERS: u64 = 28;

/// The ends of such flows at one host.
pub(super) struct Outside {
    pub(super) flows: Flows,
    /// Own and peer's, on the first link.
    sockets: [SocketAddr; 2],
    /// How much farther away their application is than the host.
    farther: Duration,
    /// What has come, and is on the rest of its way until then.
    held: VecDeque<(Instant, Vec<u8>)>,
    /// Bytes handed to the link.
    pub(super) sent: u64,
}

impl Outside {
    /// Makes the end at a host, which is `farther` from its application, each way.
    pub(super) fn new(own: Ipv4Addr, peer: Ipv4Addr, farther: Duration) -> Self {
        let sockets = [own, peer].map(|address| (address, PORT).into());
        Self { flows: Flows::default(), sockets, farther, held: VecDeque::new(), sent: 0 }
    }

    /// Takes a packet from the link.
    pub(super) fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.held.push_back((now + self.farther, bytes.to_vec()));
        self.handle_timeout(now);
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while self.held.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, packet)) = self.held.pop_front() else { break };
            self.flows.handle_packet(now, &packet);
        }
        self.flows.handle_timeout(now);
    }

    /// Returns when something is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let held = self.held.front().map(|(at, _)| *at);
        held.into_iter().chain(self.flows.timeout()).min()
    }

    /// Writes the next packet for the link.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        bytes: &mut Vec<u8>,
    ) -> Option<HostTransmit> {
        bytes.extend_from_slice(&self.flows.poll_packet(now)?);
        self.sent += bytes.len() as u64 + DATAGRAM_HEADERS;
        let [source, destination] = self.sockets;
        Some(HostTransmit { interface: 0, source, destination })
    }
}
