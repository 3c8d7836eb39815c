//! One end of a session in the world, and the applications at it.
//!
//! The drone initiates and opens a path on each of its interfaces; the station answers. Which
//! source of the endpoint a packet comes from is its owner's affair.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use netem::{Host, HostTransmit};
use proto::{PathId, PathState, PathStatus, PathUse, SessionConfig, SessionStatus, Source};
use units::Instant;

use crate::driver::{Driver, Identity};
use crate::tunnel_packet;

/// Addresses of the tunnel, station first.
const TUNNEL: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
/// Port of the streams inside the tunnel: none that the selector looks into.
const TUNNEL_PORT: u16 = 5_600;

/// Drives one endpoint, and keeps what it delivers.
pub struct SessionHost {
    driver: Driver,
    /// Tunnel addresses: own, peer's.
    tunnel: [Ipv4Addr; 2],
    delivered: VecDeque<Vec<u8>>,
    /// Paths to the peer that are to be open before packets are handed in.
    paths: usize,
}

impl SessionHost {
    /// Makes the station's and the drone's end; the same seed gives the same keys.
    pub fn pair(
        session: &SessionConfig,
        station: &[Ipv4Addr],
        drone: &[Ipv4Addr],
        seed: u64,
    ) -> [Self; 2] {
        let identity = Identity { seed, ..Identity::default() };
        // The world's virtual time begins at the origin of the hosts' clocks.
        let start = netem::CLOCK_ORIGIN;
        let at_station = Driver::station(identity, session.clone(), station, start);
        let at_drone = Driver::drone(identity, session.clone(), drone, station, start);
        let (delivered, paths) = (VecDeque::new(), station.len());
        let end = |driver, tunnel| Self { driver, tunnel, delivered: delivered.clone(), paths };
        [end(at_station, TUNNEL), end(at_drone, [TUNNEL[1], TUNNEL[0]])]
    }

    /// Tells whether the session is up and every path has proved itself.
    pub fn ready(&self, now: Instant) -> bool {
        self.status(now).is_some_and(|status| {
            let open = |path: &&PathStatus| path.state == PathState::Active;
            status.connected && status.paths.iter().filter(open).count() >= self.paths
        })
    }

    /// Returns what the session says of itself, once there is one.
    pub fn status(&self, now: Instant) -> Option<SessionStatus> {
        self.driver.endpoint.status(now, self.driver.session?)
    }

    /// Says how the operator wants the path on an interface to be used, at the drone's end; the
    /// station is told.
    pub fn use_path(&mut self, now: Instant, interface: u8, usage: PathUse) {
        if let Some(session) = self.driver.session {
            // The drone opens a path on each interface, in their order.
            self.driver.endpoint.set_path_use(now, session, PathId(interface), usage);
        }
    }

    /// Takes a packet of an application, and wraps it where it is the tunnel's; false when the
    /// session pushes back.
    pub fn send(&mut self, now: Instant, source: Source, bytes: &[u8]) -> bool {
        let Some(session) = self.driver.session else { return false };
        let sent = match source {
            Source::Tunnel => {
                let [own, peer] = self.tunnel;
                let packet = tunnel_packet::wrap(bytes, own, peer, TUNNEL_PORT);
                self.driver.endpoint.send(now, session, source, &packet)
            }
            _ => self.driver.endpoint.send(now, session, source, bytes),
        };
        self.take_output();
        sent.is_ok()
    }

    /// Tells whether packets for an application wait.
    pub fn has_delivered(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// Returns the next packet for an application.
    pub fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }

    /// Takes deliveries and events out of the endpoint.
    fn take_output(&mut self) {
        while let Some(delivery) = self.driver.endpoint.poll_delivery() {
            let payload = match delivery.channel {
                0 => tunnel_packet::unwrap(&delivery.bytes).map(<[u8]>::to_vec),
                _ => Some(delivery.bytes),
            };
            self.delivered.extend(payload);
        }
        while self.driver.poll_event().is_some() {}
    }
}

impl Host for SessionHost {
    fn handle_datagram(
        &mut self,
        now: Instant,
        interface: usize,
        source: SocketAddr,
        destination: SocketAddr,
        ecn: u8,
        bytes: &mut [u8],
    ) {
        self.driver.handle_datagram(now, interface, [source, destination], ecn, bytes);
        self.take_output();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.driver.endpoint.handle_timeout(now);
        self.take_output();
    }

    fn timeout(&self) -> Option<Instant> {
        self.driver.endpoint.timeout()
    }

    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        self.driver.poll_transmit(now, bytes)
    }
}
