//! One end of a Fulmar session in the world: a driver around `proto::Endpoint`.
//!
//! The drone initiates and opens a path on each of its interfaces; the station answers. What the
//! daemon does with sockets, this does with the world's datagrams; which packet goes to which
//! source of the endpoint is the scheme's.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use netem::HostTransmit;
use proto::select::{Copies, Order, Policy};
use proto::{
    CongestionKind, Endpoint, EndpointConfig, Event, InterfaceId, MessageForm, MessageStream,
    PathState, ProtectControl, Received, SchedulerKind, SessionConfig, SessionId, Source,
    StaticSecret,
};
use units::{Instant, Rng};

use super::tunnel_packet;
use crate::lrt::LrtParameters;
use crate::scheme::Scheme;
use crate::workload::Stream;

/// Port of the daemon at both ends.
const PORT: u16 = 4_600;
/// Addresses of the tunnel, station first.
const TUNNEL: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
/// Port of the measured streams inside the tunnel: none that the selector looks into.
const TUNNEL_PORT: u16 = 5_600;
/// The local endpoint whose every datagram is control.
const TOLD: u8 = 1;
/// The local endpoint that speaks MAVLink.
const MAVLINK: u8 = 2;
/// The local endpoint of which the newest datagram wins.
const LIVE: u8 = 3;

/// Drives one endpoint.
pub(super) struct SessionEnd {
    endpoint: Endpoint,
    session: Option<SessionId>,
    scheme: Scheme,
    /// Addresses of the interfaces, in the order of the scenario's links.
    interfaces: Vec<Ipv4Addr>,
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
            _ => MessageForm::Fulmar,
        };
        let config = SessionConfig { message, ..session_config(scheme) };
        Self::pair_with(config, scheme, station, drone, seed)
    }

    /// Tells whether the session is up and every path has proved itself.
    pub(super) fn ready(&self, now: Instant) -> bool {
        let status = self.session.and_then(|session| self.endpoint.status(now, session));
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
                self.endpoint.send(now, session, source, &packet)
            }
            _ => self.endpoint.send(now, session, source, bytes),
        };
        self.take_output();
        sent.is_ok()
    }

    /// Takes a message that must arrive, in order; false when the session pushes back.
    pub(super) fn send_message(&mut self, now: Instant, bytes: &[u8]) -> bool {
        let Some(session) = self.session else { return false };
        let source = Source::Message { channel: TOLD, stream: MessageStream::default() };
        let sent = self.endpoint.send(now, session, source, bytes);
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
        let secret = |stream| StaticSecret::generate(entropy(seed, stream));
        let (station_secret, drone_secret) = (secret("station key"), secret("drone key"));
        let (station_key, drone_key) = (station_secret.public(), drone_secret.public());
        // The world's virtual time begins at the origin of the hosts' clocks.
        let start = netem::CLOCK_ORIGIN;
        let endpoint = |secret, entropy, accept| {
            let session = session.clone();
            Endpoint::new(EndpointConfig { secret, entropy, accept, session }, start)
        };
        let mut at_station = endpoint(station_secret, entropy(seed, "station"), true);
        at_station.add_peer(drone_key, None);
        let mut at_drone = endpoint(drone_secret, entropy(seed, "drone"), false);
        let peer = at_drone.add_peer(station_key, None);
        let session = at_drone.connect(start, peer);
        for (interface, address) in (0..).map(InterfaceId).zip(station) {
            // A fresh session has room for every path of a scenario.
            let added = at_drone.add_path(start, session, interface, (*address, PORT).into());
            assert!(added.is_ok(), "the session refuses path {interface:?}");
        }
        let end = |endpoint, session, interfaces: &[Ipv4Addr], tunnel| Self {
            endpoint,
            session,
            scheme,
            interfaces: interfaces.to_vec(),
            tunnel,
            delivered: VecDeque::new(),
            paths: station.len(),
        };
        [
            end(at_station, None, station, TUNNEL),
            end(at_drone, Some(session), drone, [TUNNEL[1], TUNNEL[0]]),
        ]
    }

    /// Returns where a stream enters the session under the scheme.
    fn source(&self, stream: Stream) -> Source {
        match (self.scheme, stream) {
            // Replicate-everything tools tell nothing apart.
            (Scheme::Redundant, _) | (_, Stream::Video) => Source::Tunnel,
            (scheme, Stream::Mavlink) if scheme.is_fulmar() => Source::Mavlink { channel: MAVLINK },
            (scheme, Stream::Control) if scheme.is_fulmar() => {
                Source::Told { channel: TOLD, policy: Policy::TOLD }
            }
            (scheme, Stream::Live) if scheme.is_fulmar() => {
                Source::Told { channel: LIVE, policy: Policy::LIVE }
            }
            // A session without copies: as reliable, on one path at a time.
            (_, Stream::Live) => Source::Told {
                channel: LIVE,
                policy: Policy { copies: Copies::Best, ..Policy::LIVE },
            },
            (_, Stream::Control) => Source::Told { channel: TOLD, policy: uncopied() },
            (_, Stream::Mavlink) => Source::Told { channel: MAVLINK, policy: uncopied() },
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
        let interface = InterfaceId(interface as u32);
        let received = Received { interface, local: Some(destination.ip()), source, ecn };
        self.endpoint.handle_datagram(now, &received, bytes);
        self.take_output();
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.take_output();
    }

    /// Returns when something is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.endpoint.timeout()
    }

    /// Writes the next datagram for a link.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        bytes: &mut Vec<u8>,
    ) -> Option<HostTransmit> {
        let transmit = self.endpoint.poll_transmit(now, bytes)?;
        let interface = transmit.interface.0 as usize;
        let source = (*self.interfaces.get(interface)?, PORT).into();
        Some(HostTransmit { interface, source, destination: transmit.destination })
    }

    /// Takes deliveries and events out of the endpoint.
    fn take_output(&mut self) {
        while let Some(delivery) = self.endpoint.poll_delivery() {
            let payload = match delivery.channel {
                0 => tunnel_packet::unwrap(&delivery.bytes).map(<[u8]>::to_vec),
                _ => Some(delivery.bytes),
            };
            self.delivered.extend(payload);
        }
        while let Some((session, event)) = self.endpoint.poll_event() {
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

/// Draws 32 bytes that belong to a seed; fit for the world alone, never for keys in use.
fn entropy(seed: u64, stream: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    Rng::stream(seed, stream).fill(&mut bytes);
    bytes
}
