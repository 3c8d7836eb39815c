//! The driver of an endpoint in the world: what the daemon does with sockets, this does with the world's
//! datagrams.
//!
//! Which packets are handed in, and what becomes of deliveries and events, is its owner's affair.

use std::net::{Ipv4Addr, SocketAddr};

use netem::HostTransmit;
use proto::{
    Endpoint, EndpointConfig, InterfaceId, PublicKey, Received, SessionConfig, SessionId,
    StaticSecret,
};
use units::{Instant, Rng};

/// Port of the daemon at both ends.
const PORT: u16 = 4_600;

/// Says whose keys and whose randomness an endpoint has: those that belong to a seed, for the world alone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity {
    /// The run's seed.
    pub(crate) seed: u64,
    /// The pre-shared key, if both ends have one.
    pub(crate) psk: Option<[u8; 32]>,
    /// How often the daemon was started before.
    pub(crate) life: u32,
}

/// Drives one endpoint.
pub(crate) struct Driver {
    /// What it drives.
    pub(crate) endpoint: Endpoint,
    /// Addresses of the interfaces, in the order of the scenario's links.
    interfaces: Vec<Ipv4Addr>,
}

impl Driver {
    /// Makes the station's end, which waits for the drone.
    pub(crate) fn station(
        identity: Identity,
        session: SessionConfig,
        interfaces: &[Ipv4Addr],
        now: Instant,
    ) -> Self {
        let mut endpoint = identity.endpoint(["station", "drone"], session, now);
        endpoint.add_peer(identity.secret("drone").public(), identity.psk.as_ref());
        Self { endpoint, interfaces: interfaces.to_vec() }
    }

    /// Makes the drone's end, which begins a session over every interface.
    pub(crate) fn drone(
        identity: Identity,
        session: SessionConfig,
        interfaces: &[Ipv4Addr],
        station: &[Ipv4Addr],
        now: Instant,
    ) -> (Self, SessionId) {
        let mut endpoint = identity.endpoint(["drone", "station"], session, now);
        let peer = endpoint.add_peer(identity.secret("station").public(), identity.psk.as_ref());
        let session = endpoint.connect(now, peer);
        for (interface, address) in (0..).map(InterfaceId).zip(station) {
            // A fresh session has room for every path of a scenario.
            let added = endpoint.add_path(now, session, interface, (*address, PORT).into());
            assert!(added.is_ok(), "the session refuses path {interface:?}");
        }
        (Self { endpoint, interfaces: interfaces.to_vec() }, session)
    }

    /// Takes a datagram from a link.
    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        interface: usize,
        [source, destination]: [SocketAddr; 2],
        ecn: u8,
        bytes: &mut [u8],
    ) {
        let interface = InterfaceId(interface as u32);
        let received = Received { interface, local: Some(destination.ip()), source, ecn };
        self.endpoint.handle_datagram(now, &received, bytes);
    }

    /// Writes the next datagram for a link.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        bytes: &mut Vec<u8>,
    ) -> Option<HostTransmit> {
        let transmit = self.endpoint.poll_transmit(now, bytes)?;
        let interface = transmit.interface.0 as usize;
        let source = (*self.interfaces.get(interface)?, PORT).into();
        Some(HostTransmit { interface, source, destination: transmit.destination })
    }
}

impl Identity {
    /// Returns the public key of `drone` or `station`.
    pub(crate) fn public(self, name: &str) -> PublicKey {
        self.secret(name).public()
    }

    fn endpoint(self, [own, peer]: [&str; 2], session: SessionConfig, now: Instant) -> Endpoint {
        let stream = match self.life {
            0 => own.to_owned(),
            life => format!("{own} {life}"),
        };
        let entropy = entropy(self.seed, &stream);
        let accept = peer == "drone";
        Endpoint::new(EndpointConfig { secret: self.secret(own), entropy, accept, session }, now)
    }

    fn secret(self, name: &str) -> StaticSecret {
        StaticSecret::generate(entropy(self.seed, &format!("{name} key")))
    }
}

/// Draws 32 bytes that belong to a seed; fit for the world alone, never for keys in use.
fn entropy(seed: u64, stream: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    Rng::stream(seed, stream).fill(&mut bytes);
    bytes
}
