//! Several drones at one end of a link and their stations at the other, each with a session of its
//! own that knows nothing of the others.

use std::net::SocketAddr;

use fulmar_proto::{Endpoint, SessionConfig, SessionId};
use netem::{CLOCK_ORIGIN, Host, HostTransmit, Scenario, World, WorldOptions};
use units::{Duration, Instant};

use crate::harness::{DRONE, Identity, Peer, STATION, make};

/// The port of the first endpoint; the others follow.
const PORT: u16 = 4_600;

/// The endpoints of one host.
pub(crate) struct Members {
    members: Vec<Peer>,
    /// What each has delivered.
    delivered_bytes: Vec<u64>,
}

impl Members {
    /// Counts what a member was told, which would fill the memory.
    fn count(&mut self, index: usize) {
        let deliveries = self.members[index].deliveries.drain(..);
        self.delivered_bytes[index] +=
            deliveries.map(|delivery| delivery.bytes.len() as u64).sum::<u64>();
    }
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
        let index = usize::from(destination.port() - PORT);
        self.members[index].handle_datagram(now, interface, source, destination, ecn, bytes);
        self.count(index);
    }

    fn handle_timeout(&mut self, now: Instant) {
        for index in 0..self.members.len() {
            if self.members[index].timeout().is_some_and(|at| at <= now) {
                self.members[index].handle_timeout(now);
                self.count(index);
            }
        }
    }

    fn timeout(&self) -> Option<Instant> {
        self.members.iter().filter_map(Peer::timeout).min()
    }

    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        self.members.iter_mut().find_map(|member| member.poll_transmit(now, bytes))
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
        let addresses = [DRONE, STATION].map(|host| vec![scenario.interfaces(host)[0].address]);
        let identity = |index| Identity {
            seed,
            port: PORT + index as u16,
            key: format!(" {index}"),
            life: index,
        };
        let hosts = [DRONE, STATION].map(|host| {
            let member =
                |(index, config)| make(host, &addresses, config, &identity(index), CLOCK_ORIGIN);
            let members = configs.iter().enumerate().map(member).collect();
            Members { members, delivered_bytes: vec![0; configs.len()] }
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
        self.world.host(STATION).delivered_bytes[index]
    }
}
