//! Several drones at one end of a link and their stations at the other, each with a session of its
//! own that knows nothing of the others.

use std::net::SocketAddr;

use netem::{CLOCK_ORIGIN, Host, HostTransmit, Scenario, World, WorldOptions};
use proto::{Endpoint, SessionConfig, SessionId};
use units::{Duration, Instant};

use crate::driver::{Identity, PORT};
use crate::pair::{DRONE, Peer, STATION};

/// The endpoints of one host.
pub struct Members {
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
pub struct Crowd {
    /// Where they are.
    pub world: World<Members>,
}

impl Crowd {
    /// Puts one drone and station for each configuration at the ends of a scenario's one link and
    /// lets them connect.
    ///
    /// # Panics
    /// When it is no scenario, or they are not connected after three seconds.
    pub fn connected(scenario: &str, seed: u64, configs: &[SessionConfig]) -> Self {
        let scenario = Scenario::from_toml(scenario, "test.toml").expect("a valid scenario");
        let addresses = [DRONE, STATION].map(|host| vec![scenario.interfaces(host)[0].address]);
        let identity = |member| Identity { seed, member, ..Identity::default() };
        let hosts = [DRONE, STATION].map(|host| {
            let member = |(index, config)| {
                Peer::new(host, &addresses, config, identity(index), CLOCK_ORIGIN)
            };
            let members = (0..).zip(configs).map(member).collect();
            Members { members, delivered_bytes: vec![0; configs.len()] }
        });
        let options = WorldOptions { seed: Some(seed), ..WorldOptions::default() };
        let mut crowd = Self { world: World::new(&scenario, hosts.into(), &options) };
        crowd.run_for(Duration::from_secs(3));
        let all = [DRONE, STATION].map(|host| &crowd.world.host(host).members);
        assert!(
            all.into_iter().flatten().all(|member| member.driver.session.is_some()),
            "connected"
        );
        crowd
    }

    /// Lets everything happen within `duration`.
    pub fn run_for(&mut self, duration: Duration) {
        let limit = self.world.now() + duration;
        while self.world.step_until(limit).is_some() {}
    }

    /// Lets the application of a drone act on its session.
    ///
    /// # Panics
    /// When there is no such drone.
    pub fn with_drone<T>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Endpoint, SessionId, Instant) -> T,
    ) -> T {
        let now = self.world.host_now(DRONE);
        let member = &mut self.world.host_mut(DRONE).members[index];
        let session = member.driver.session.expect("connected");
        act(&mut member.driver.endpoint, session, now)
    }

    /// Returns the bytes that a station has delivered so far.
    pub fn delivered(&self, index: usize) -> u64 {
        self.world.host(STATION).delivered_bytes[index]
    }
}
