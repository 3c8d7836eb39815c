//! One host of the world with TCP flows, and packets of others beside them: straight onto its links, or
//! through a session.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use netem::{CLOCK_ORIGIN, Host, HostTransmit, Scenario};
use proto::{PathState, SessionConfig, SessionStatus, Source};
use units::Instant;

use super::flows::Flows;
use crate::driver::{Driver, Identity, PORT};
use crate::tunnel_packet::unwrap;

/// The ends of flows at one host, and what carries their packets.
pub struct FlowHost {
    /// The flows.
    pub flows: Flows,
    /// Packets that the session did not take: they are lost, as at a daemon's tunnel.
    pub refused: u64,
    /// What is no flow's and leaves before the flows' packets, and where it enters the session.
    leaving: VecDeque<(Source, Vec<u8>)>,
    /// Payloads of datagrams that came.
    pub(super) arrived: VecDeque<Vec<u8>>,
    carrier: Carrier,
}

enum Carrier {
    /// Each packet in a datagram of its own, over the links in turn: own and peer's sockets.
    Links { sockets: Vec<[SocketAddr; 2]>, turn: usize },
    /// The tunnel of a session, and how many paths it is to have.
    Session { driver: Box<Driver>, paths: usize },
}

impl FlowHost {
    /// Makes the station's and the drone's host, in this order, whose packets go onto the links as they
    /// are, each 28 bytes longer; with several links, one after the other.
    ///
    /// # Errors
    /// When the scenario has no host called station or drone.
    pub fn over_links(scenario: &Scenario) -> Result<[Self; 2], String> {
        let [station, drone] = addresses(scenario)?;
        let host = |own: &[Ipv4Addr], peer: &[Ipv4Addr]| {
            let pairs = own.iter().zip(peer);
            let sockets = pairs.map(|(own, peer)| [own, peer].map(|end| (*end, PORT).into()));
            Self::new(Carrier::Links { sockets: sockets.collect(), turn: 0 })
        };
        Ok([host(&station, &drone), host(&drone, &station)])
    }

    /// Makes the station's and the drone's host, in this order, with a session between them that begins
    /// when the world does.
    ///
    /// # Errors
    /// When the scenario has no host called station or drone.
    pub fn over_session(
        scenario: &Scenario,
        session: &SessionConfig,
        seed: u64,
    ) -> Result<[Self; 2], String> {
        let [station, drone] = addresses(scenario)?;
        let identity = Identity { seed, ..Identity::default() };
        let at_station = Driver::station(identity, session.clone(), &station, CLOCK_ORIGIN);
        let at_drone = Driver::drone(identity, session.clone(), &drone, &station, CLOCK_ORIGIN);
        let host = |driver| Carrier::Session { driver: Box::new(driver), paths: drone.len() };
        Ok([at_station, at_drone].map(|driver| Self::new(host(driver))))
    }

    /// Tells whether packets may be handed in: the session is up, and every path has proved itself.
    pub fn ready(&self, now: Instant) -> bool {
        let Carrier::Session { paths, .. } = &self.carrier else { return true };
        self.status(now).is_some_and(|status| {
            let active = status.paths.iter().filter(|path| path.state == PathState::Active);
            status.connected && active.count() >= *paths
        })
    }

    /// Returns the status of the session; none where there is none.
    pub fn status(&self, now: Instant) -> Option<SessionStatus> {
        let Carrier::Session { driver, .. } = &self.carrier else { return None };
        driver.session.and_then(|session| driver.endpoint.status(now, session))
    }

    /// Hands in a datagram beside the flows: at its own source in a session, as a packet between two addresses
    /// at the tunnel's and over links.
    pub(super) fn send(&mut self, source: Source, payload: &[u8], ends: [SocketAddrV4; 2]) {
        let is_packet = source == Source::Tunnel || matches!(self.carrier, Carrier::Links { .. });
        let bytes = if is_packet { ip::udp4(ends[0], ends[1], payload) } else { payload.to_vec() };
        self.leaving.push_back((source, bytes));
    }

    fn new(carrier: Carrier) -> Self {
        let (leaving, arrived) = (VecDeque::new(), VecDeque::new());
        Self { flows: Flows::default(), refused: 0, leaving, arrived, carrier }
    }

    /// Hands the session what the flows send, and the flows what it delivers, until both are quiet.
    fn exchange(&mut self, now: Instant) {
        let Carrier::Session { driver, .. } = &mut self.carrier else { return };
        loop {
            while driver.poll_event().is_some() {}
            while let Some(delivery) = driver.endpoint.poll_delivery() {
                if delivery.channel != 0 {
                    self.arrived.push_back(delivery.bytes.to_vec());
                } else if !self.flows.handle_packet(now, &delivery.bytes) {
                    self.arrived.extend(unwrap(&delivery.bytes).map(<[u8]>::to_vec));
                }
            }
            let packet = || self.flows.poll_packet(now).map(|packet| (Source::Tunnel, packet));
            let Some((source, bytes)) = self.leaving.pop_front().or_else(packet) else { return };
            let taken = driver
                .session
                .is_some_and(|session| driver.endpoint.send(now, session, source, &bytes).is_ok());
            self.refused += u64::from(!taken);
        }
    }
}

impl Host for FlowHost {
    fn handle_datagram(
        &mut self,
        now: Instant,
        interface: usize,
        source: SocketAddr,
        destination: SocketAddr,
        ecn: u8,
        bytes: &mut [u8],
    ) {
        match &mut self.carrier {
            Carrier::Links { .. } => {
                if !self.flows.handle_packet(now, bytes) {
                    self.arrived.extend(unwrap(bytes).map(<[u8]>::to_vec));
                }
            }
            Carrier::Session { driver, .. } => {
                driver.handle_datagram(now, interface, [source, destination], ecn, bytes);
            }
        }
        self.exchange(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.flows.handle_timeout(now);
        if let Carrier::Session { driver, .. } = &mut self.carrier
            && driver.endpoint.timeout().is_some_and(|at| at <= now)
        {
            driver.endpoint.handle_timeout(now);
        }
        self.exchange(now);
    }

    fn timeout(&self) -> Option<Instant> {
        let session = match &self.carrier {
            Carrier::Links { .. } => None,
            Carrier::Session { driver, .. } => driver.endpoint.timeout(),
        };
        [session, self.flows.timeout()].into_iter().flatten().min()
    }

    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        self.exchange(now);
        match &mut self.carrier {
            Carrier::Links { sockets, turn } => {
                let next = self.leaving.pop_front().map(|(_, packet)| packet);
                bytes.extend_from_slice(&next.or_else(|| self.flows.poll_packet(now))?);
                *turn = (*turn + 1) % sockets.len();
                let [source, destination] = sockets[*turn];
                Some(HostTransmit { interface: *turn, source, destination })
            }
            Carrier::Session { driver, .. } => driver.poll_transmit(now, bytes),
        }
    }
}

/// Returns the addresses of the station and of the drone, link by link.
fn addresses(scenario: &Scenario) -> Result<[Vec<Ipv4Addr>; 2], String> {
    let of = |name: &str| -> Result<Vec<Ipv4Addr>, String> {
        let missing = || format!("scenario {}: no host called {name}", scenario.name);
        let host = scenario.host(name).ok_or_else(missing)?;
        Ok(scenario.interfaces(host).iter().map(|interface| interface.address).collect())
    };
    Ok([of("station")?, of("drone")?])
}
