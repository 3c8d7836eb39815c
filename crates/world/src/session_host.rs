//! One end of a Fulmar session in the world, under a scheme.
//!
//! The drone initiates and opens a path on each of its interfaces; the station answers. Which packet
//! goes to which source of the endpoint is the scheme's; `driver.rs` moves the datagrams.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use netem::HostTransmit;
use proto::select::{Copies, Order, Policy};
use proto::{
    CongestionKind, Event, MessageForm, MessageStream, PathState, ProtectControl, SchedulerKind,
    SessionConfig, SessionId, Source,
};
use units::Instant;

use super::driver::{Driver, Identity};
use super::tunnel_packet;
use crate::lrt::LrtParameters;
use crate::scheme::Scheme;
use crate::workload::Stream;

/// Addresses of the tunnel, station first.
const TUNNEL: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
/// Port of the measured streams inside the tunnel: none that the selector looks into.
const TUNNEL_PORT: u16 = 5_600;
/// The local endpoint whose every datagram is control.
const DECLARED: u8 = 1;
/// The local endpoint that speaks MAVLink.
const MAVLINK: u8 = 2;
/// The local endpoint of which the newest datagram wins.
const LIVE: u8 = 3;

/// Drives one endpoint.
pub(super) struct SessionEnd {
    driver: Driver,
    session: Option<SessionId>,
    scheme: Scheme,
    /// Tunnel addresses: own, peer's.
    tunnel: [Ipv4Addr; 2],
    delivered: VecDeque<Vec<u8>>,
    /// Paths to the peer that are to be open before packets are handed in.
    paths: usize,
}

impl SessionEnd {
    /// Makes the station's and the drone's end; the same seed gives the same keys.
    pub(super) fn pair(
        scheme: Scheme,
        station: &[Ipv4Addr],
        drone: &[Ipv4Addr],
        seed: u64,
    ) -> [Self; 2] {
        Self::pair_with(session_config(scheme), scheme, station, drone, seed)
    }

    /// Makes the station's and the drone's end for messages that must all arrive.
    pub(super) fn message_pair(
        scheme: Scheme,
        parameters: &LrtParameters,
        station: &[Ipv4Addr],
        drone: &[Ipv4Addr],
        seed: u64,
    ) -> [Self; 2] {
        let message = match scheme {
            Scheme::Lrt => parameters.faithful_form(),
            _ => MessageForm::Elastic,
        };
        let config = SessionConfig { message, ..session_config(scheme) };
        Self::pair_with(config, scheme, station, drone, seed)
    }

    /// Tells whether the session is up and every path has proved itself.
    pub(super) fn ready(&self, now: Instant) -> bool {
        let status = self.session.and_then(|session| self.driver.endpoint.status(now, session));
        status.is_some_and(|status| {
            let open = |path: &&proto::PathStatus| path.state == PathState::Active;
            status.connected && status.paths.iter().filter(open).count() >= self.paths
        })
    }

    /// Takes a packet of an application; false when the session pushes back.
    pub(super) fn send(&mut self, now: Instant, stream: Stream, bytes: &[u8]) -> bool {
        let Some(session) = self.session else { return false };
        let source = self.source(stream);
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

    /// Takes a message that must arrive, in order; false when the session pushes back.
    pub(super) fn send_message(&mut self, now: Instant, bytes: &[u8]) -> bool {
        let Some(session) = self.session else { return false };
        let source = Source::Message { channel: DECLARED, stream: MessageStream::default() };
        let sent = self.driver.endpoint.send(now, session, source, bytes);
        self.take_output();
        sent.is_ok()
    }

    /// Makes both ends of a session of this configuration.
    fn pair_with(
        session: SessionConfig,
        scheme: Scheme,
        station: &[Ipv4Addr],
        drone: &[Ipv4Addr],
        seed: u64,
    ) -> [Self; 2] {
        let identity = Identity { seed, ..Identity::default() };
        // The world's virtual time begins at the origin of the hosts' clocks.
        let start = netem::CLOCK_ORIGIN;
        let at_station = Driver::station(identity, session.clone(), station, start);
        let (at_drone, begun) = Driver::drone(identity, session, drone, station, start);
        let end = |driver, session, tunnel| Self {
            driver,
            session,
            scheme,
            tunnel,
            delivered: VecDeque::new(),
            paths: station.len(),
        };
        [end(at_station, None, TUNNEL), end(at_drone, Some(begun), [TUNNEL[1], TUNNEL[0]])]
    }

    /// Returns where a stream enters the session under the scheme.
    fn source(&self, stream: Stream) -> Source {
        match (self.scheme, stream) {
            // Replicate-everything tools tell nothing apart.
            (Scheme::Redundant, _) | (_, Stream::Video) => Source::Tunnel,
            (scheme, Stream::Mavlink) if scheme.is_fulmar() => Source::Mavlink { channel: MAVLINK },
            (scheme, Stream::Control) if scheme.is_fulmar() => {
                Source::Declared { channel: DECLARED, policy: Policy::DECLARED }
            }
            (scheme, Stream::Live) if scheme.is_fulmar() => {
                Source::Declared { channel: LIVE, policy: Policy::LIVE }
            }
            // A session without copies: as reliable, on one path at a time.
            (_, Stream::Live) => Source::Declared {
                channel: LIVE,
                policy: Policy { copies: Copies::Best, ..Policy::LIVE },
            },
            (_, Stream::Control) => Source::Declared { channel: DECLARED, policy: uncopied() },
            (_, Stream::Mavlink) => Source::Declared { channel: MAVLINK, policy: uncopied() },
        }
    }

    /// Tells whether packets for an application wait.
    pub(super) fn has_delivered(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// Returns the next packet for an application.
    pub(super) fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }

    /// Takes a datagram from a link.
    pub(super) fn handle_datagram(
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

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.driver.endpoint.handle_timeout(now);
        self.take_output();
    }

    /// Returns when something is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.driver.endpoint.timeout()
    }

    /// Writes the next datagram for a link.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        bytes: &mut Vec<u8>,
    ) -> Option<HostTransmit> {
        self.driver.poll_transmit(now, bytes)
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
        while let Some((session, event)) = self.driver.endpoint.poll_event() {
            if let Event::Connected { .. } = event {
                self.session = Some(session);
            }
        }
    }
}

/// Returns the configuration of a session under a scheme.
fn session_config(scheme: Scheme) -> SessionConfig {
    // What stands for others, or for a session without copies, is left as it was.
    let protect_control = match scheme {
        Scheme::Fulmar | Scheme::Lrt => ProtectControl::Balanced,
        Scheme::FulmarStrict => ProtectControl::Strict,
        _ => ProtectControl::Off,
    };
    let mut config = SessionConfig { protect_control, ..SessionConfig::default() };
    if !matches!(scheme, Scheme::Fulmar | Scheme::FulmarStrict | Scheme::FulmarOff) {
        // What others stand for does not know video when it sees it.
        config.rtp_deadline = units::Duration::ZERO;
    }
    match scheme {
        Scheme::RoundRobin => config.scheduler = SchedulerKind::RoundRobin,
        Scheme::Redundant => {
            config.scheduler = SchedulerKind::Redundant;
            config.congestion = CongestionKind::None;
        }
        _ => {}
    }
    config
}

/// Returns the policy of control in a session without copies.
fn uncopied() -> Policy {
    Policy { copies: Copies::Best, order: Order::None, ..Policy::TRANSACTIONAL }
}
