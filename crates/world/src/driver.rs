//! The driver of an endpoint in the world: what the daemon does with sockets, this does with the
//! world's datagrams.
//!
//! Which packets are handed in, and what becomes of deliveries and events, is its owner's affair.

use std::net::{Ipv4Addr, SocketAddr};

use netem::HostTransmit;
use proto::{
    Endpoint, EndpointConfig, Event, InterfaceId, PublicKey, Received, RelayId, RelaySide,
    SessionConfig, SessionId, StaticSecret, Via,
};
use units::{Instant, Rng};

/// Port of the first daemon at both ends; those of other members of a crowd follow.
pub(crate) const PORT: u16 = 4_600;

/// Says whose keys and whose randomness an endpoint has: those that belong to a seed, for the world
/// alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity {
    /// The run's seed.
    pub seed: u64,
    /// The pre-shared key, if both ends have one.
    pub psk: Option<[u8; 32]>,
    /// How often the daemon was started before.
    pub life: u32,
    /// Which of several daemons on its host it is.
    pub member: u16,
}

/// Drives one endpoint.
pub struct Driver {
    /// What it drives.
    pub endpoint: Endpoint,
    /// The session in use: the drone's from the beginning, the station's when it is connected.
    pub session: Option<SessionId>,
    /// Addresses of the interfaces, in the order of the scenario's links.
    sockets: Vec<SocketAddr>,
}

impl Driver {
    /// Makes the station's end, which waits for the drone.
    pub fn station(
        identity: Identity,
        session: SessionConfig,
        interfaces: &[Ipv4Addr],
        now: Instant,
    ) -> Self {
        let mut endpoint = identity.endpoint(["station", "drone"], session, now);
        endpoint.add_peer(identity.public("drone"), identity.psk.as_ref());
        Self { endpoint, session: None, sockets: identity.sockets(interfaces).collect() }
    }

    /// Makes the drone's end, which begins a session over every interface.
    ///
    /// # Panics
    /// When there are more interfaces than a session has paths.
    pub fn drone(
        identity: Identity,
        session: SessionConfig,
        interfaces: &[Ipv4Addr],
        station: &[Ipv4Addr],
        now: Instant,
    ) -> Self {
        let mut endpoint = identity.endpoint(["drone", "station"], session, now);
        let peer = endpoint.add_peer(identity.public("station"), identity.psk.as_ref());
        let session = endpoint.connect(now, peer);
        for (interface, remote) in (0..).map(InterfaceId).zip(identity.sockets(station)) {
            // A fresh session has room for every path of a scenario.
            let added = endpoint.add_path(now, session, interface, remote);
            assert!(added.is_ok(), "the session refuses path {interface:?}");
        }
        let sockets = identity.sockets(interfaces).collect();
        Self { endpoint, session: Some(session), sockets }
    }

    /// Makes the end at a side of relays, over which the drone begins a session; its owner drives
    /// what it sends.
    ///
    /// # Panics
    /// Never: a fresh session has room for a path.
    pub(crate) fn over_relay(
        identity: Identity,
        session: SessionConfig,
        side: RelaySide,
        relay: RelayId,
        now: Instant,
    ) -> Self {
        if side == RelaySide::Ground {
            return Self::station(identity, session, &[], now);
        }
        let mut driver = Self::drone(identity, session, &[], &[], now);
        if let Some(session) = driver.session {
            let added = driver.endpoint.add_path(now, session, InterfaceId(0), Via::Relay(relay));
            assert!(added.is_ok(), "a fresh session has room for a path");
        }
        driver
    }

    /// Takes a datagram from a link.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        interface: usize,
        [source, destination]: [SocketAddr; 2],
        ecn: u8,
        bytes: &mut [u8],
    ) {
        let interface = InterfaceId(interface as u32);
        let (local, source) = (Some(destination.ip()), source.into());
        let received = Received { interface, local, source, ecn };
        self.endpoint.handle_datagram(now, &received, bytes);
    }

    /// Writes the next datagram for a link.
    pub fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        let transmit = self.endpoint.poll_transmit(now, bytes)?;
        let interface = transmit.interface.0 as usize;
        let source = *self.sockets.get(interface)?;
        let Via::Udp(destination) = transmit.destination else { return None };
        Some(HostTransmit { interface, source, destination })
    }

    /// Returns the next event; one that connects says which session is in use from now on.
    pub fn poll_event(&mut self) -> Option<(SessionId, Event)> {
        let (session, event) = self.endpoint.poll_event()?;
        if let Event::Connected { .. } = event {
            self.session = Some(session);
        }
        Some((session, event))
    }
}

impl Identity {
    /// Returns the public key of `drone` or `station`.
    pub fn public(self, name: &str) -> PublicKey {
        self.secret(name).public()
    }

    fn endpoint(self, [own, peer]: [&str; 2], session: SessionConfig, now: Instant) -> Endpoint {
        let stream = match self.life {
            0 => self.named(own),
            life => format!("{} {life}", self.named(own)),
        };
        let entropy = entropy(self.seed, &stream);
        let accept = peer == "drone";
        Endpoint::new(EndpointConfig { secret: self.secret(own), entropy, accept, session }, now)
    }

    fn secret(self, name: &str) -> StaticSecret {
        StaticSecret::generate(entropy(self.seed, &format!("{} key", self.named(name))))
    }

    fn named(self, name: &str) -> String {
        match self.member {
            0 => name.to_owned(),
            member => format!("{name} of pair {member}"),
        }
    }

    fn sockets(self, interfaces: &[Ipv4Addr]) -> impl Iterator<Item = SocketAddr> {
        interfaces.iter().map(move |address| (*address, PORT + self.member).into())
    }
}

/// Draws 32 bytes that belong to a seed; fit for the world alone, never for keys in use.
fn entropy(seed: u64, stream: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    Rng::stream(seed, stream).fill(&mut bytes);
    bytes
}
