//! A drone and a station in the world, and a record of everything that they were told.

use std::net::{Ipv4Addr, SocketAddr};

use fulmar_proto::{
    Delivery, Endpoint, EndpointConfig, Event, InterfaceId, MessageId, Outcome, PathId, PathState,
    Received, SendError, SessionConfig, SessionId, SessionStatus, Source, StaticSecret,
};
use netem::{CLOCK_ORIGIN, Host, HostTransmit, Scenario, World, WorldOptions};
use units::{Duration, Instant, Rng};

const PORT: u16 = 4_600;
pub(crate) const DRONE: usize = 0;
pub(crate) const STATION: usize = 1;

/// A delivery, and when the world saw it.
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) delivery: Delivery,
}

/// One host: an endpoint, and what it has said since the harness looked last.
pub(crate) struct Peer {
    pub(crate) endpoint: Endpoint,
    pub(crate) session: Option<SessionId>,
    addresses: Vec<SocketAddr>,
    pub(crate) deliveries: Vec<Delivery>,
    events: Vec<Event>,
    /// What came in, where an attacker listens.
    pub(crate) overheard: Option<Vec<(Received, Vec<u8>)>>,
}

impl Peer {
    fn collect(&mut self) {
        while let Some(delivery) = self.endpoint.poll_delivery() {
            self.deliveries.push(delivery);
        }
        while let Some((session, event)) = self.endpoint.poll_event() {
            if matches!(event, Event::Connected { .. }) {
                self.session = Some(session);
            }
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
        let interface = InterfaceId(interface as u32);
        let received = Received { interface, local: Some(destination.ip()), source, ecn };
        if let Some(overheard) = &mut self.overheard {
            overheard.push((received, bytes.to_vec()));
        }
        self.endpoint.handle_datagram(now, &received, bytes);
        self.collect();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.collect();
    }

    fn timeout(&self) -> Option<Instant> {
        self.endpoint.timeout()
    }

    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        let transmit = self.endpoint.poll_transmit(now, bytes)?;
        let interface = transmit.interface.0 as usize;
        let source = self.addresses[interface];
        Some(HostTransmit { interface, source, destination: transmit.destination })
    }
}

/// Both hosts, and the record.
pub(crate) struct Pair {
    pub(crate) world: World<Peer>,
    pub(crate) seed: u64,
    config: SessionConfig,
    addresses: [Vec<Ipv4Addr>; 2],
    pub(crate) seen: [Vec<Seen>; 2],
    pub(crate) events: [Vec<(Instant, Event)>; 2],
}

impl Pair {
    /// Puts both hosts into a scenario whose hosts are called drone and station, lets them connect
    /// over every link and settle for two seconds.
    pub(crate) fn connected(scenario: &str, seed: u64) -> Self {
        let mut pair = Self::at_once(scenario, seed);
        pair.run_for(Duration::from_secs(2));
        pair
    }

    /// The same at the instant in which they have every path.
    pub(crate) fn at_once(scenario: &str, seed: u64) -> Self {
        let mut pair = Self::new(scenario, seed, SessionConfig::default());
        let paths = pair.addresses[DRONE].len();
        let deadline = pair.world.now() + Duration::from_secs(30);
        while [DRONE, STATION].iter().any(|&host| pair.active_paths(host) < paths) {
            assert!(pair.step(deadline), "seed {seed}: not connected within 30 s");
        }
        pair
    }

    pub(crate) fn new(scenario: &str, seed: u64, config: SessionConfig) -> Self {
        let scenario = Scenario::from_toml_with(scenario, "test.toml", &mut rates_by_name);
        let scenario = scenario.expect("a valid scenario");
        let host = |name| scenario.host(name).expect("the scenario has the host");
        assert_eq!((host("drone"), host("station")), (DRONE, STATION), "order of hosts");
        let addresses = [DRONE, STATION].map(|host| -> Vec<_> {
            scenario.interfaces(host).iter().map(|interface| interface.address).collect()
        });
        let peers = vec![
            make(DRONE, &addresses, &config, &Identity::only(seed, 0), CLOCK_ORIGIN),
            make(STATION, &addresses, &config, &Identity::only(seed, 0), CLOCK_ORIGIN),
        ];
        let options = WorldOptions { seed: Some(seed), ..WorldOptions::default() };
        let world = World::new(&scenario, peers, &options);
        let (seen, events) = Default::default();
        Self { world, seed, config, addresses, seen, events }
    }

    /// Lets one thing happen, if it happens before `limit`.
    pub(crate) fn step(&mut self, limit: Instant) -> bool {
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

    pub(crate) fn run_until(&mut self, limit: Instant) {
        while self.step(limit) {}
    }

    pub(crate) fn run_for(&mut self, duration: Duration) {
        self.run_until(self.world.now() + duration);
    }

    /// Hands a packet in at `host`, on its own clock.
    pub(crate) fn send(
        &mut self,
        host: usize,
        source: Source,
        bytes: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        let now = self.world.host_now(host);
        let peer = self.world.host_mut(host);
        let session = peer.session.ok_or(SendError::NoSession)?;
        let sent = peer.endpoint.send(now, session, source, bytes);
        peer.collect();
        sent
    }

    pub(crate) fn status(&self, host: usize) -> Option<SessionStatus> {
        let peer = self.world.host(host);
        peer.endpoint.status(self.world.host_now(host), peer.session?)
    }

    pub(crate) fn path_state(&self, host: usize, path: PathId) -> Option<PathState> {
        let status = self.status(host)?;
        status.paths.iter().find(|row| row.id == path).map(|row| row.state)
    }

    pub(crate) fn active_paths(&self, host: usize) -> usize {
        let Some(status) = self.status(host).filter(|status| status.connected) else { return 0 };
        status.paths.iter().filter(|path| path.state == PathState::Active).count()
    }

    /// Replaces a host by a fresh one with the same key: its daemon has restarted.
    pub(crate) fn restart(&mut self, host: usize) {
        let now = self.world.host_now(host);
        let fresh = make(host, &self.addresses, &self.config, &Identity::only(self.seed, 1), now);
        self.world.replace_host(host, fresh);
    }

    /// Returns what became of every message of `host` so far.
    pub(crate) fn outcomes(&self, host: usize) -> Vec<(MessageId, Outcome)> {
        let ended = |(_, event): &(Instant, Event)| match event {
            Event::MessageEnded { message, outcome, .. } => Some((*message, *outcome)),
            _ => None,
        };
        self.events[host].iter().filter_map(ended).collect()
    }
}

/// One link.
pub(crate) fn one_link(link: &str) -> String {
    format!(
        "name = \"test\"\nseconds = 600\n\
         [[host]]\nname = \"drone\"\nclock_offset_ms = 1234.5\nclock_skew_ppm = 15\n\
         [[host]]\nname = \"station\"\nclock_offset_ms = -321.25\nclock_skew_ppm = -10\n\
         [[link]]\nname = \"only\"\nbetween = [\"drone\", \"station\"]\n{link}\n"
    )
}

/// Two links, of which the first dies for good after `dies_s` seconds (none: never).
pub(crate) fn two_links(first: &str, second: &str, dies_s: Option<f64>) -> String {
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

/// Says which of the hosts of a seed a peer is: what its port, its keys and its entropy come from.
pub(crate) struct Identity {
    pub(crate) seed: u64,
    pub(crate) port: u16,
    /// What its key's stream of random numbers ends in, and that of its entropy.
    pub(crate) key: String,
    pub(crate) life: usize,
}

impl Identity {
    /// The only one of its host; `life` counts its restarts.
    fn only(seed: u64, life: usize) -> Self {
        Self { seed, port: PORT, key: String::new(), life }
    }
}

/// Makes a host's peer, and lets a drone begin over every link.
pub(crate) fn make(
    host: usize,
    addresses: &[Vec<Ipv4Addr>; 2],
    config: &SessionConfig,
    identity: &Identity,
    now: Instant,
) -> Peer {
    let Identity { seed, port, key, life } = identity;
    let secret = |host| StaticSecret::generate(random(*seed, &format!("key {host}{key}")));
    let config = EndpointConfig {
        secret: secret(host),
        entropy: random(*seed, &format!("entropy {host} {life}")),
        accept: host == STATION,
        session: config.clone(),
    };
    let mut endpoint = Endpoint::new(config, now);
    let peer = endpoint.add_peer(secret(1 - host).public(), None);
    let session = (host == DRONE).then(|| endpoint.connect(now, peer));
    for (index, address) in addresses[STATION].iter().enumerate() {
        if let Some(session) = session {
            let remote = (*address, *port).into();
            let added = endpoint.add_path(now, session, InterfaceId(index as u32), remote);
            added.expect("a fresh session has room for the paths");
        }
    }
    let addresses = addresses[host].iter().map(|address| (*address, *port).into()).collect();
    Peer {
        endpoint,
        session,
        addresses,
        deliveries: Vec::new(),
        events: Vec::new(),
        overheard: None,
    }
}

/// Returns the trace of rates that is named by its rates in Mbit/s, one for each second: `12,12,0.6`.
fn rates_by_name(name: &str) -> Result<String, String> {
    let line = |(second, rate)| format!("{second},{rate}\n");
    let lines = name.split(',').enumerate().map(line);
    Ok(format!("time_s,rate_mbps\n{}", lines.collect::<String>()))
}

fn random(seed: u64, stream: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    Rng::stream(seed, stream).fill(&mut bytes);
    bytes
}
