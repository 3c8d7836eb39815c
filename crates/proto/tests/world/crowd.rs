//! Several drones at one end of a link and their stations at the other, each with a session of its
//! own that knows nothing of the others.

use std::net::{Ipv4Addr, SocketAddr};

use fulmar_proto::{
    Endpoint, EndpointConfig, Event, InterfaceId, Received, SessionConfig, SessionId, StaticSecret,
};
use netem::{CLOCK_ORIGIN, Host, HostTransmit, Scenario, World, WorldOptions};
use units::{Duration, Instant, Rng};

use crate::harness::{DRONE, STATION};

/// The port of the first endpoint; the others follow.
const PORT: u16 = 4_600;

/// One endpoint and what it has delivered.
struct Member {
    endpoint: Endpoint,
    session: Option<SessionId>,
    delivered_bytes: u64,
}

/// The endpoints of one host.
pub(crate) struct Members {
    members: Vec<Member>,
    address: Ipv4Addr,
}

impl Host for Members {
    fn handle_datagram(
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
        let member = &mut self.members[usize::from(destination.port() - PORT)];
        member.endpoint.handle_datagram(now, &received, bytes);
        member.collect();
    }

    fn handle_timeout(&mut self, now: Instant) {
        for member in &mut self.members {
            if member.endpoint.timeout().is_some_and(|at| at <= now) {
                member.endpoint.handle_timeout(now);
                member.collect();
            }
        }
    }

    fn timeout(&self) -> Option<Instant> {
        self.members.iter().filter_map(|member| member.endpoint.timeout()).min()
    }

    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        for (index, member) in self.members.iter_mut().enumerate() {
            if let Some(transmit) = member.endpoint.poll_transmit(now, bytes) {
                let source = (self.address, PORT + index as u16).into();
                return Some(HostTransmit {
                    interface: 0,
                    source,
                    destination: transmit.destination,
                });
            }
        }
        None
    }
}

impl Member {
    fn collect(&mut self) {
        while let Some(delivery) = self.endpoint.poll_delivery() {
            self.delivered_bytes += delivery.bytes.len() as u64;
        }
        while let Some((session, event)) = self.endpoint.poll_event() {
            if matches!(event, Event::Connected { .. }) {
                self.session = Some(session);
            }
        }
    }
}

/// Both hosts.
pub(crate) struct Crowd {
    pub(crate) world: World<Members>,
}

impl Crowd {
    /// Puts one drone and station for each configuration at the ends of a scenario's one link and
    /// lets them connect.
    pub(crate) fn connected(scenario: &str, seed: u64, configs: &[SessionConfig]) -> Self {
        let scenario = Scenario::from_toml(scenario, "test.toml").expect("a valid scenario");
        let addresses = [DRONE, STATION].map(|host| scenario.interfaces(host)[0].address);
        let hosts = [DRONE, STATION].map(|host| Members {
            members: (0..configs.len())
                .map(|index| member(host, index, addresses[STATION], &configs[index], seed))
                .collect(),
            address: addresses[host],
        });
        let options = WorldOptions { seed: Some(seed), ..WorldOptions::default() };
        let mut crowd = Self { world: World::new(&scenario, hosts.into(), &options) };
        crowd.run_for(Duration::from_secs(3));
        let all = [DRONE, STATION].map(|host| &crowd.world.host(host).members);
        assert!(all.into_iter().flatten().all(|member| member.session.is_some()), "connected");
        crowd
    }

    pub(crate) fn run_for(&mut self, duration: Duration) {
        let limit = self.world.now() + duration;
        while self.world.step_until(limit).is_some() {}
    }

    /// Lets the application of a drone act on its session.
    pub(crate) fn with_drone<T>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Endpoint, SessionId, Instant) -> T,
    ) -> T {
        let now = self.world.host_now(DRONE);
        let member = &mut self.world.host_mut(DRONE).members[index];
        let session = member.session.expect("connected");
        act(&mut member.endpoint, session, now)
    }

    /// Returns the bytes that a station has delivered so far.
    pub(crate) fn delivered(&self, index: usize) -> u64 {
        self.world.host(STATION).members[index].delivered_bytes
    }
}

fn member(
    host: usize,
    index: usize,
    station: Ipv4Addr,
    config: &SessionConfig,
    seed: u64,
) -> Member {
    let now = CLOCK_ORIGIN;
    let secret = |host| StaticSecret::generate(random(seed, &format!("key {host} {index}")));
    let config = EndpointConfig {
        secret: secret(host),
        entropy: random(seed, &format!("entropy {host} {index}")),
        accept: host == STATION,
        session: config.clone(),
    };
    let mut endpoint = Endpoint::new(config, now);
    let peer = endpoint.add_peer(secret(1 - host).public(), None);
    let session = (host == DRONE).then(|| {
        let session = endpoint.connect(now, peer);
        let remote = (station, PORT + index as u16).into();
        endpoint.add_path(now, session, InterfaceId(0), remote).expect("a first path");
        session
    });
    Member { endpoint, session, delivered_bytes: 0 }
}

fn random(seed: u64, stream: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    Rng::stream(seed, stream).fill(&mut bytes);
    bytes
}
