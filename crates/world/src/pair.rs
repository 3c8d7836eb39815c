//! A drone and a station in the world, and a record of everything that they were told.

use std::net::{Ipv4Addr, SocketAddr};

use netem::{CLOCK_ORIGIN, Direction, Host, HostTransmit, LinkEnd, Scenario, World, WorldOptions};
use proto::{
    Delivery, Event, InterfaceId, MessageId, Outcome, PathId, PathState, PathUse, Received,
    SendError, SessionConfig, SessionStatus, Source,
};
use units::{Duration, Instant};

use crate::driver::{Driver, Identity};

/// The drone's place among the hosts of a pair's scenario.
pub const DRONE: usize = 0;
/// The station's.
pub const STATION: usize = 1;

/// A delivery, and when the world saw it.
pub struct Seen {
    /// The world's time.
    pub at: Instant,
    /// What was delivered.
    pub delivery: Delivery,
}

/// One host: an endpoint, and what it has said since it was last asked.
pub struct Peer {
    /// What drives the endpoint.
    pub driver: Driver,
    pub(crate) deliveries: Vec<Delivery>,
    events: Vec<Event>,
    /// What came in, where an attacker listens.
    pub overheard: Option<Vec<(Received, Vec<u8>)>>,
}

impl Peer {
    /// Makes one of two hosts whose interfaces have these addresses, and lets a drone begin over
    /// every link.
    pub(crate) fn new(
        host: usize,
        addresses: &[Vec<Ipv4Addr>; 2],
        config: &SessionConfig,
        identity: Identity,
        now: Instant,
    ) -> Self {
        let [drone, station] = addresses;
        let driver = match host {
            DRONE => Driver::drone(identity, config.clone(), drone, station, now),
            _ => Driver::station(identity, config.clone(), station, now),
        };
        Self { driver, deliveries: Vec::new(), events: Vec::new(), overheard: None }
    }

    fn collect(&mut self) {
        while let Some(delivery) = self.driver.endpoint.poll_delivery() {
            self.deliveries.push(delivery);
        }
        while let Some((_, event)) = self.driver.poll_event() {
            self.events.push(event);
        }
    }
}

impl Host for Peer {
    fn handle_datagram(
        &mut self,
        now: Instant,
        interface: usize,
        source: SocketAddr,
        destination: SocketAddr,
        ecn: u8,
        bytes: &mut [u8],
    ) {
        if let Some(overheard) = &mut self.overheard {
            let interface = InterfaceId(interface as u32);
            let (local, source) = (Some(destination.ip()), source.into());
            let received = Received { interface, local, source, ecn };
            overheard.push((received, bytes.to_vec()));
        }
        self.driver.handle_datagram(now, interface, [source, destination], ecn, bytes);
        self.collect();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.driver.endpoint.handle_timeout(now);
        self.collect();
    }

    fn timeout(&self) -> Option<Instant> {
        self.driver.endpoint.timeout()
    }

    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        self.driver.poll_transmit(now, bytes)
    }
}

/// Both hosts, and the record.
pub struct Pair {
    /// Where they are.
    pub world: World<Peer>,
    /// What links and keys are drawn from.
    pub seed: u64,
    configs: [SessionConfig; 2],
    addresses: [Vec<Ipv4Addr>; 2],
    /// What each host has delivered.
    pub seen: [Vec<Seen>; 2],
    /// What happened to each host's session, and when.
    pub events: [Vec<(Instant, Event)>; 2],
}

impl Pair {
    /// Puts both hosts into a scenario whose hosts are called drone and station, lets them connect
    /// over every link and settle for two seconds.
    ///
    /// # Panics
    /// As [`Self::new`] does, and when they are not connected within 30 s.
    pub fn connected(scenario: &str, seed: u64) -> Self {
        let mut pair = Self::at_once(scenario, seed);
        pair.run_for(Duration::from_secs(2));
        pair
    }

    /// The same at the instant in which they have every path.
    ///
    /// # Panics
    /// As [`Self::connected`] does.
    pub fn at_once(scenario: &str, seed: u64) -> Self {
        let mut pair = Self::new(scenario, seed, SessionConfig::default());
        let paths = pair.addresses[DRONE].len();
        let deadline = pair.world.now() + Duration::from_secs(30);
        while [DRONE, STATION].iter().any(|&host| pair.active_paths(host) < paths) {
            assert!(pair.step(deadline), "seed {seed}: not connected within 30 s");
        }
        pair
    }

    /// Puts both hosts into a scenario, whose hosts are called drone and station, in this order; a
    /// trace of rates is named by its rates in Mbit/s, one for each second: `12,12,0.6`.
    ///
    /// # Panics
    /// When it is no such scenario.
    pub fn new(scenario: &str, seed: u64, config: SessionConfig) -> Self {
        Self::between(scenario, seed, [config.clone(), config])
    }

    /// The same with a configuration for each host.
    ///
    /// # Panics
    /// As [`Self::new`] does.
    pub fn between(scenario: &str, seed: u64, configs: [SessionConfig; 2]) -> Self {
        let scenario = Scenario::from_toml_with(scenario, "test.toml", &mut rates_by_name);
        let scenario = scenario.expect("a valid scenario");
        let host = |name| scenario.host(name).expect("the scenario has the host");
        assert_eq!((host("drone"), host("station")), (DRONE, STATION), "order of hosts");
        let addresses = [DRONE, STATION].map(|host| -> Vec<_> {
            scenario.interfaces(host).iter().map(|interface| interface.address).collect()
        });
        let identity = Identity { seed, ..Identity::default() };
        let peer = |host| Peer::new(host, &addresses, &configs[host], identity, CLOCK_ORIGIN);
        let peers = vec![peer(DRONE), peer(STATION)];
        let options = WorldOptions { seed: Some(seed), ..WorldOptions::default() };
        let world = World::new(&scenario, peers, &options);
        let (seen, events) = Default::default();
        Self { world, seed, configs, addresses, seen, events }
    }

    /// Lets one thing happen, if it happens before `limit`.
    pub fn step(&mut self, limit: Instant) -> bool {
        let stepped = self.world.step_until(limit).is_some();
        let at = self.world.now();
        for host in [DRONE, STATION] {
            if self.world.host(host).deliveries.is_empty()
                && self.world.host(host).events.is_empty()
            {
                continue;
            }
            let peer = self.world.host_mut(host);
            let deliveries = std::mem::take(&mut peer.deliveries);
            let events = std::mem::take(&mut peer.events);
            self.seen[host].extend(deliveries.into_iter().map(|delivery| Seen { at, delivery }));
            self.events[host].extend(events.into_iter().map(|event| (at, event)));
        }
        stepped
    }

    /// Lets everything happen that happens before `limit`.
    pub fn run_until(&mut self, limit: Instant) {
        while self.step(limit) {}
    }

    /// Lets everything happen within `duration`.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.world.now() + duration);
    }

    /// Hands a packet in at `host`, on its own clock.
    ///
    /// # Errors
    /// Those of [`proto::Endpoint::send`].
    pub fn send(
        &mut self,
        host: usize,
        source: Source,
        bytes: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        let now = self.world.host_now(host);
        let peer = self.world.host_mut(host);
        let session = peer.driver.session.ok_or(SendError::NoSession)?;
        let sent = peer.driver.endpoint.send(now, session, source, bytes);
        peer.collect();
        sent
    }

    /// Says how the drone's operator wants a path to be used.
    ///
    /// # Panics
    /// When the drone has no session.
    pub fn use_path(&mut self, path: PathId, usage: PathUse) {
        let now = self.world.host_now(DRONE);
        let driver = &mut self.world.host_mut(DRONE).driver;
        let session = driver.session.expect("the drone has a session from the beginning");
        driver.endpoint.set_path_use(now, session, path, usage);
    }

    /// Returns the bytes that entered a link so far, from either host, with all headers below ours.
    pub fn carried(&self, link: usize) -> u64 {
        let entered = |direction| self.world.net().stats(LinkEnd { link, direction }).bytes_in;
        entered(Direction::Up) + entered(Direction::Down)
    }

    /// Returns what a host knows of its session.
    pub fn status(&self, host: usize) -> Option<SessionStatus> {
        let peer = self.world.host(host);
        peer.driver.endpoint.status(self.world.host_now(host), peer.driver.session?)
    }

    /// Returns what a host thinks of a path.
    pub fn path_state(&self, host: usize, path: PathId) -> Option<PathState> {
        let status = self.status(host)?;
        status.paths.iter().find(|row| row.id == path).map(|row| row.state)
    }

    /// Counts the paths that a connected host thinks well of.
    pub fn active_paths(&self, host: usize) -> usize {
        let Some(status) = self.status(host).filter(|status| status.connected) else { return 0 };
        status.paths.iter().filter(|path| path.state == PathState::Active).count()
    }

    /// Replaces a host by a fresh one with the same key: its daemon has restarted.
    pub fn restart(&mut self, host: usize) {
        let now = self.world.host_now(host);
        let identity = Identity { seed: self.seed, life: 1, ..Identity::default() };
        let fresh = Peer::new(host, &self.addresses, &self.configs[host], identity, now);
        self.world.replace_host(host, fresh);
    }

    /// Returns what became of every message of `host` so far.
    pub fn outcomes(&self, host: usize) -> Vec<(MessageId, Outcome)> {
        let ended = |(_, event): &(Instant, Event)| match event {
            Event::MessageEnded { message, outcome, .. } => Some((*message, *outcome)),
            _ => None,
        };
        self.events[host].iter().filter_map(ended).collect()
    }
}

/// Returns the scenario of a pair with one link, which the lines of TOML describe.
pub fn one_link(link: &str) -> String {
    format!(
        "name = \"test\"\nseconds = 600\n\
         [[host]]\nname = \"drone\"\nclock_offset_ms = 1234.5\nclock_skew_ppm = 15\n\
         [[host]]\nname = \"station\"\nclock_offset_ms = -321.25\nclock_skew_ppm = -10\n\
         [[link]]\nname = \"only\"\nbetween = [\"drone\", \"station\"]\n{link}\n"
    )
}

/// Returns that of a pair with two links, of which the first dies for good after `dies_s` seconds
/// (none: never).
pub fn two_links(first: &str, second: &str, dies_s: Option<f64>) -> String {
    let outage = dies_s.map_or(String::new(), |at| {
        format!("[[link.outage]]\nstart_s = {at}\nseconds = 1000\nmode = \"drop\"\n")
    });
    format!(
        "name = \"test\"\nseconds = 600\n\
         [[host]]\nname = \"drone\"\nclock_offset_ms = 1234.5\nclock_skew_ppm = 15\n\
         [[host]]\nname = \"station\"\nclock_offset_ms = -321.25\nclock_skew_ppm = -10\n\
         [[link]]\nname = \"first\"\nbetween = [\"drone\", \"station\"]\n{first}\n{outage}\
         [[link]]\nname = \"second\"\nbetween = [\"drone\", \"station\"]\n{second}\n"
    )
}

/// Returns the trace of rates that is named by its rates in Mbit/s, one for each second:
/// `12,12,0.6`; or that of losses or delays, each with the time from which it holds: `loss
/// 0:0.01,60:0.2`, `delay_ms 0:10,60:100`.
fn rates_by_name(name: &str) -> Result<String, String> {
    if let Some((column @ ("loss" | "delay_ms"), steps)) = name.split_once(' ') {
        return Ok(format!("time_s,{column}\n{}\n", steps.replace(',', "\n").replace(':', ",")));
    }
    let line = |(second, rate)| format!("{second},{rate}\n");
    let lines = name.split(',').enumerate().map(line);
    Ok(format!("time_s,rate_mbps\n{}", lines.collect::<String>()))
}
