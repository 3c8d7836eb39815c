//! One host of the world with TCP flows, and packets of others beside them: straight onto its
//! links, or through a session.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use netem::{CLOCK_ORIGIN, Host, HostTransmit, Scenario};
use proto::{PathState, RelayStatus, SessionConfig, SessionStatus, Source};
use units::Instant;

use super::flows::Flows;
use super::low_rate::LowRateRetry;
use super::outside::{self, Outside};
use crate::driver::{Driver, Identity, PORT};
use crate::relayed::{Gateway, Member, Post, RelayGroup};
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
    /// Flows of somebody else's on the first link.
    pub(super) outside: Option<Outside>,
    carrier: Carrier,
}

enum Carrier {
    /// Each packet in a datagram of its own, over the links in turn: own and peer's sockets.
    Links { sockets: Vec<[SocketAddr; 2]>, turn: usize, retry: Option<LowRateRetry> },
    /// The tunnel of a session, and how many paths it is to have.
    Session { driver: Box<Driver>, paths: usize },
    /// The tunnel of a session over relays, by a gateway beside it.
    Gateway(Box<Gateway>),
    /// None of its own: it passes on what gateways send.
    Relay(Box<Post>),
}

impl FlowHost {
    /// Makes the station's and the drone's host, in this order, whose packets go onto the links as
    /// they are, each 28 bytes longer; with several links, one after the other.
    ///
    /// # Errors
    /// When the scenario has no host called station or drone.
    pub fn over_links(scenario: &Scenario) -> Result<[Self; 2], String> {
        let [station, drone] = addresses(scenario)?;
        let host = |own: &[Ipv4Addr], peer: &[Ipv4Addr]| {
            let pairs = own.iter().zip(peer);
            let sockets = pairs.map(|(own, peer)| [own, peer].map(|end| (*end, PORT).into()));
            Self::new(Carrier::Links { sockets: sockets.collect(), turn: 0, retry: None })
        };
        Ok([host(&station, &drone), host(&drone, &station)])
    }

    /// Makes the station's and the drone's host, in this order, with a session between them that
    /// begins when the world does.
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

    /// Makes the hosts of a scenario with two wires and a radio, in its order: the station's and
    /// the drone's with a session over relays, and the relays.
    ///
    /// # Errors
    /// When the scenario's networks or hosts are not those of a group.
    pub fn over_relays(
        scenario: &Scenario,
        session: &SessionConfig,
        group: &RelayGroup,
        seed: u64,
    ) -> Result<Vec<Self>, String> {
        let members = group.members(scenario, session, seed)?;
        let host = |member| match member {
            Member::Gateway(gateway) => Self::new(Carrier::Gateway(gateway)),
            Member::Relay(post) => Self::new(Carrier::Relay(post)),
        };
        Ok(members.into_iter().map(host).collect())
    }

    /// The same host, whose packets pass a shim on their way to the links; a session has none.
    pub fn with_retry(mut self, shim: LowRateRetry) -> Self {
        if let Carrier::Links { retry, .. } = &mut self.carrier {
            *retry = Some(shim);
        }
        self
    }

    /// Tells whether packets may be handed in: the session is up, and every path has proved itself.
    pub fn ready(&self, now: Instant) -> bool {
        let paths = match &self.carrier {
            Carrier::Session { paths, .. } => *paths,
            Carrier::Gateway(_) => 1,
            Carrier::Links { .. } | Carrier::Relay(_) => return true,
        };
        self.status(now).is_some_and(|status| {
            let active = status.paths.iter().filter(|path| path.state == PathState::Active);
            status.connected && active.count() >= paths
        })
    }

    /// Returns the status of the session; none where there is none.
    pub fn status(&self, now: Instant) -> Option<SessionStatus> {
        let driver = self.driver()?;
        driver.session.and_then(|session| driver.endpoint.status(now, session))
    }

    /// Returns the status of the node of a relayed link; none where there is none.
    pub fn relay_status(&self, now: Instant) -> Option<RelayStatus> {
        match &self.carrier {
            Carrier::Gateway(gateway) => Some(gateway.status(now)),
            Carrier::Relay(post) => Some(post.status(now)),
            Carrier::Links { .. } | Carrier::Session { .. } => None,
        }
    }

    /// Returns how many packets its shim has repeated.
    pub fn repeats(&self) -> u64 {
        let Carrier::Links { retry: Some(retry), .. } = &self.carrier else { return 0 };
        retry.repeats()
    }

    /// Hands in a datagram beside the flows: at its own source in a session, as a packet between
    /// two addresses at the tunnel's and over links.
    pub(super) fn send(&mut self, source: Source, payload: &[u8], ends: [SocketAddrV4; 2]) {
        let is_packet = source == Source::Tunnel || matches!(self.carrier, Carrier::Links { .. });
        let bytes = if is_packet { ip::udp4(ends[0], ends[1], payload) } else { payload.to_vec() };
        self.leaving.push_back((source, bytes));
    }

    /// Returns its flows, or those beside the session.
    pub(super) fn ends(&self, is_outside: bool) -> &Flows {
        self.outside.as_ref().filter(|_| is_outside).map_or(&self.flows, |outside| &outside.flows)
    }

    fn new(carrier: Carrier) -> Self {
        let (leaving, arrived) = (VecDeque::new(), VecDeque::new());
        Self { flows: Flows::default(), refused: 0, leaving, arrived, outside: None, carrier }
    }

    fn driver(&self) -> Option<&Driver> {
        match &self.carrier {
            Carrier::Session { driver, .. } => Some(driver),
            Carrier::Gateway(gateway) => Some(&gateway.driver),
            Carrier::Links { .. } | Carrier::Relay(_) => None,
        }
    }

    /// Hands the session what the flows send, and the flows what it delivers, until both are quiet.
    fn exchange(&mut self, now: Instant) {
        let driver = match &mut self.carrier {
            Carrier::Session { driver, .. } => driver,
            Carrier::Gateway(gateway) => {
                gateway.collect(now);
                &mut gateway.driver
            }
            Carrier::Links { .. } | Carrier::Relay(_) => return,
        };
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
        if let Some(outside) = &mut self.outside
            && destination.port() == outside::PORT
        {
            return outside.handle_datagram(now, bytes);
        }
        match &mut self.carrier {
            Carrier::Links { retry, .. } => {
                if let Some(retry) = retry {
                    retry.on_received(bytes);
                }
                if !self.flows.handle_packet(now, bytes) {
                    self.arrived.extend(unwrap(bytes).map(<[u8]>::to_vec));
                }
            }
            Carrier::Gateway(gateway) => gateway.handle_frame(now, interface, bytes),
            Carrier::Relay(post) => post.handle_frame(now, interface, bytes),
            Carrier::Session { driver, .. } => {
                driver.handle_datagram(now, interface, [source, destination], ecn, bytes);
            }
        }
        self.exchange(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.flows.handle_timeout(now);
        if let Some(outside) = &mut self.outside {
            outside.handle_timeout(now);
        }
        match &mut self.carrier {
            Carrier::Session { driver, .. } => {
                if driver.endpoint.timeout().is_some_and(|at| at <= now) {
                    driver.endpoint.handle_timeout(now);
                }
            }
            Carrier::Gateway(gateway) => gateway.handle_timeout(now),
            Carrier::Relay(post) => post.handle_timeout(now),
            Carrier::Links { .. } => {}
        }
        self.exchange(now);
    }

    fn timeout(&self) -> Option<Instant> {
        let carrier = match &self.carrier {
            Carrier::Links { retry, .. } => retry.as_ref().and_then(LowRateRetry::timeout),
            Carrier::Session { driver, .. } => driver.endpoint.timeout(),
            Carrier::Gateway(gateway) => gateway.timeout(),
            Carrier::Relay(post) => post.timeout(),
        };
        let outside = self.outside.as_ref().and_then(Outside::timeout);
        [carrier, self.flows.timeout(), outside].into_iter().flatten().min()
    }

    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        self.exchange(now);
        if let Some(outside) = &mut self.outside
            && let Some(transmit) = outside.poll_transmit(now, bytes)
        {
            return Some(transmit);
        }
        match &mut self.carrier {
            Carrier::Links { sockets, turn, retry } => {
                let next = self.leaving.pop_front().map(|(_, packet)| packet);
                let next = next.or_else(|| self.flows.poll_packet(now));
                let next = match retry {
                    Some(retry) => {
                        next.iter().for_each(|packet| retry.on_sent(now, packet));
                        next.or_else(|| retry.poll(now))
                    }
                    None => next,
                };
                bytes.extend_from_slice(&next?);
                *turn = (*turn + 1) % sockets.len();
                let [source, destination] = sockets[*turn];
                Some(HostTransmit { interface: *turn, source, destination })
            }
            Carrier::Session { driver, .. } => driver.poll_transmit(now, bytes),
            Carrier::Gateway(gateway) => gateway.poll_transmit(now, bytes),
            Carrier::Relay(post) => post.poll_transmit(now, bytes),
        }
    }
}

/// Returns the addresses of the station and of the drone, link by link.
pub(super) fn addresses(scenario: &Scenario) -> Result<[Vec<Ipv4Addr>; 2], String> {
    let of = |name: &str| -> Result<Vec<Ipv4Addr>, String> {
        let missing = || format!("scenario {}: no host called {name}", scenario.name);
        let host = scenario.host(name).ok_or_else(missing)?;
        Ok(scenario.interfaces(host).iter().map(|interface| interface.address).collect())
    };
    Ok([of("station")?, of("drone")?])
}
