//! Two endpoints over a wire that loses, repeats and reorders, in virtual time.

mod crowd;
mod handshake;
mod hostile;
mod losses;
mod marks;
mod memory;
mod moves;
mod notes;
mod one_link;
mod pieces;
mod restart;
mod revoked;
mod tunnel;
mod turns;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use units::{Duration, Instant, Rng};

use super::*;
use crate::ids::{Received, Transmit};
use crate::select::Policy;

/// The first bytes of data datagrams and of the handshake's.
const INITIATION: u8 = 1;
const RESPONSE: u8 = 2;
const COOKIE: u8 = 3;
const DATA: u8 = 4;
const REFUSAL: u8 = 5;
const UNKNOWN: u8 = 6;
/// Where a station listens.
const STATION: &str = "192.0.2.1:2000";

fn seconds(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1_000)
}

fn secret(seed: u8) -> StaticSecret {
    StaticSecret::generate([seed; 32])
}

impl Endpoint {
    /// Returns the sizes of everything that datagrams could make grow.
    fn table_sizes(&self) -> Vec<usize> {
        let mut sizes = vec![self.answers.len(), self.events.len(), self.deliveries.len()];
        sizes.extend(self.sessions.table_sizes());
        sizes.extend(self.responder.table_sizes());
        sizes.extend(self.turns.table_sizes());
        sizes
    }
}

/// One end, and what came out of it.
struct Host {
    endpoint: Endpoint,
    key: PublicKey,
    /// The address of each interface.
    addresses: Vec<SocketAddr>,
    events: Vec<(SessionId, Event)>,
    delivered: Vec<Vec<u8>>,
}

impl Host {
    fn new(seed: u8, boot: u8, accept: bool, addresses: &[&str], now: Instant) -> Self {
        let secret = secret(seed);
        let key = secret.public();
        let config = EndpointConfig {
            secret,
            entropy: [seed ^ boot.rotate_left(4); 32],
            accept,
            session: SessionConfig::default(),
        };
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        let endpoint = Endpoint::new(config, now);
        Self { endpoint, key, addresses, events: Vec::new(), delivered: Vec::new() }
    }

    fn collect(&mut self) {
        self.events.extend(core::iter::from_fn(|| self.endpoint.poll_event()));
        let deliveries = core::iter::from_fn(|| self.endpoint.poll_delivery());
        self.delivered.extend(deliveries.map(|delivery| delivery.bytes));
    }

    fn connections(&self) -> usize {
        self.count(|event| matches!(event, Event::Connected { .. }))
    }

    fn count(&self, what: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, event)| what(event)).count()
    }
}

/// A datagram on its way.
#[derive(Clone, Debug)]
struct Flight {
    source: SocketAddr,
    destination: SocketAddr,
    bytes: Vec<u8>,
}

/// Says what somebody adds to a datagram that passes by, and how much later it arrives.
type Eavesdropper = Box<dyn FnMut(&Flight) -> Vec<(Duration, Flight)>>;

/// Joins hosts.
struct Wire {
    now: Instant,
    hosts: Vec<Host>,
    flights: BTreeMap<(Instant, u64), Flight>,
    count: u64,
    rng: Rng,
    loss: f64,
    duplication: f64,
    jitter: Duration,
    /// One-way delay from the address; none when it is cut off.
    delays: BTreeMap<SocketAddr, Option<Duration>>,
    /// The longest datagram from the address or to it.
    longest: BTreeMap<SocketAddr, usize>,
    /// Sits on the drone's first link: sees what passes and adds to it, sooner than it arrives.
    eavesdropper: Option<Eavesdropper>,
    /// Whom the drone has spoken to, where nobody else gets through to it.
    firewall: Option<BTreeSet<(SocketAddr, SocketAddr)>>,
    /// The kernel of the drone's first interface and of its station refuses one datagram of so
    /// many.
    refuses_every: Option<u64>,
    /// The drone's first link drops what is marked as control, from the hosts of these places.
    drops_marked: Vec<usize>,
    /// What a middle box writes into the field for congestion.
    ecn: u8,
    /// Everything that was ever sent.
    log: Vec<(Instant, Flight)>,
    /// When what was marked as control left, from where and to where.
    marked: Vec<(Instant, SocketAddr, SocketAddr)>,
    /// Everything that was not lost.
    arrived: Vec<Flight>,
}

impl Wire {
    fn new(seed: u64) -> Self {
        Self {
            now: seconds(1_000),
            hosts: Vec::new(),
            flights: BTreeMap::new(),
            count: 0,
            rng: Rng::new(seed),
            loss: 0.0,
            duplication: 0.0,
            jitter: Duration::ZERO,
            delays: BTreeMap::new(),
            longest: BTreeMap::new(),
            eavesdropper: None,
            firewall: None,
            refuses_every: None,
            drops_marked: Vec::new(),
            ecn: 0,
            log: Vec::new(),
            marked: Vec::new(),
            arrived: Vec::new(),
        }
    }

    /// Joins a drone of two interfaces and a station, that know each other.
    fn pair(seed: u64) -> (Self, SessionId) {
        let mut wire = Self::new(seed);
        wire.add_drone(1, 0);
        wire.add_station(0);
        let session = wire.introduce();
        (wire, session)
    }

    fn add_drone(&mut self, seed: u8, boot: u8) {
        let addresses = [format!("10.0.{seed}.1:1000"), format!("10.1.{seed}.1:1000")];
        let addresses = addresses.each_ref().map(String::as_str);
        self.hosts.push(Host::new(seed, boot, false, &addresses, self.now));
    }

    fn add_station(&mut self, boot: u8) {
        self.hosts.push(Host::new(200, boot, true, &[STATION], self.now));
    }

    /// Lets the last host, a station, and the first, a drone, know each other, and connects them.
    fn introduce(&mut self) -> SessionId {
        self.introduce_by(&[(0, STATION), (1, STATION)])
    }

    /// The same by paths of certain interfaces and addresses.
    fn introduce_by(&mut self, paths: &[(u32, &str)]) -> SessionId {
        let station = self.hosts.len() - 1;
        let (drone_key, station_key) = (self.hosts[0].key, self.hosts[station].key);
        self.hosts[station].endpoint.add_peer(drone_key, None);
        self.connect_by(0, station_key, paths)
    }

    fn connect(&mut self, host: usize, key: PublicKey) -> SessionId {
        self.connect_by(host, key, &[(0, STATION), (1, STATION)])
    }

    fn connect_by(&mut self, host: usize, key: PublicKey, paths: &[(u32, &str)]) -> SessionId {
        let endpoint = &mut self.hosts[host].endpoint;
        let peer = endpoint.add_peer(key, None);
        let session = endpoint.connect(self.now, peer);
        for (number, (interface, remote)) in (0..).zip(paths) {
            let remote: SocketAddr = remote.parse().expect("an address");
            let path = endpoint.add_path(self.now, session, InterfaceId(*interface), remote);
            assert_eq!(path, Ok(PathId(number)));
        }
        session
    }

    fn delay(&self, flight: &Flight) -> Option<Duration> {
        let of = |address| self.delays.get(&address).copied();
        of(flight.source)
            .or_else(|| of(flight.destination))
            .unwrap_or(Some(Duration::from_millis(20)))
    }

    fn send(&mut self, flight: Flight) {
        self.log.push((self.now, flight.clone()));
        let first_link = self.hosts[0].addresses[0];
        if let Some(open) = &mut self.firewall {
            open.insert((flight.source, flight.destination));
        }
        if let Some(eavesdropper) = &mut self.eavesdropper
            && [flight.source, flight.destination].contains(&first_link)
        {
            for (delay, added) in eavesdropper(&flight) {
                self.count += 1;
                self.flights.insert((self.now + delay, self.count), added);
            }
        }
        let Some(delay) = self.delay(&flight) else { return };
        let ends = [flight.source, flight.destination];
        let longest = ends.iter().filter_map(|end| self.longest.get(end)).min();
        if longest.is_some_and(|longest| flight.bytes.len() > *longest) {
            return;
        }
        let copies = 1 + u32::from(self.rng.chance(self.duplication));
        for _ in 0..copies {
            if self.rng.chance(self.loss) {
                continue;
            }
            let at = self.now + delay + self.jitter.mul_f64(self.rng.unit());
            self.count += 1;
            self.flights.insert((at, self.count), flight.clone());
        }
    }

    fn drain(&mut self) {
        let mut buf = Vec::new();
        for host in 0..self.hosts.len() {
            while let Some(transmit) = self.hosts[host].endpoint.poll_transmit(self.now, &mut buf) {
                let Transmit {
                    interface,
                    destination: Via::Udp(destination),
                    path,
                    number,
                    urgent,
                    ..
                } = transmit
                else {
                    continue;
                };
                let source = self.hosts[host].addresses[interface.0 as usize];
                if let (Some(path), Some(number), Some(every)) = (path, number, self.refuses_every)
                    && number.is_multiple_of(every)
                {
                    self.hosts[host].endpoint.on_unsent(path, number);
                    continue;
                }
                if urgent {
                    self.marked.push((self.now, source, destination));
                    let first = self.hosts[0].addresses[0];
                    if self.drops_marked.contains(&host) && [source, destination].contains(&first) {
                        continue;
                    }
                }
                self.send(Flight { source, destination, bytes: buf.clone() });
            }
            self.hosts[host].collect();
        }
    }

    fn deliver(&mut self, flight: &Flight) {
        let to_drone = self.hosts[0].addresses.contains(&flight.destination);
        let pair = (flight.destination, flight.source);
        if to_drone && self.firewall.as_ref().is_some_and(|open| !open.contains(&pair)) {
            return;
        }
        for host in &mut self.hosts {
            let Some(interface) = host.addresses.iter().position(|a| *a == flight.destination)
            else {
                continue;
            };
            let received = Received {
                interface: InterfaceId(interface as u32),
                local: Some(flight.destination.ip()),
                source: flight.source.into(),
                ecn: self.ecn,
            };
            // As a daemon does, which hears what there is while a datagram waits for its turn.
            host.endpoint.admit_datagram(self.now, &received, &mut flight.bytes.clone());
            host.collect();
            while host.endpoint.serve(self.now).is_some() {}
        }
    }

    fn run_until(&mut self, end: Instant) {
        loop {
            self.drain();
            let flight = self.flights.keys().next().map(|(at, _)| *at);
            let timeouts = self.hosts.iter().filter_map(|host| host.endpoint.timeout());
            let next = timeouts.chain(flight).min().unwrap_or(end).max(self.now);
            if next > end {
                break;
            }
            if next == self.now && flight.is_none_or(|at| at > next) {
                // A timeout that does not move is a bug, but the clock must go on to show it.
                self.now += Duration::from_micros(1);
            } else {
                self.now = next;
            }
            while let Some(entry) = self.flights.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let flight = entry.remove();
                self.deliver(&flight);
                self.arrived.push(flight);
            }
            for host in &mut self.hosts {
                if host.endpoint.timeout().is_some_and(|at| at <= self.now) {
                    host.endpoint.handle_timeout(self.now);
                }
            }
        }
        self.now = end;
    }

    fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// Sends a control message and asserts that it arrives within `time`.
    fn assert_carries(&mut self, host: usize, session: SessionId, other: usize, time: Duration) {
        let text = format!("message {}", self.log.len()).into_bytes();
        let declared = Source::Declared { channel: 1, policy: Policy::DECLARED };
        let sent = self.hosts[host].endpoint.send(self.now, session, declared, &text);
        assert!(matches!(sent, Ok(Some(_))), "{sent:?}");
        self.run_for(time);
        let copies = self.hosts[other].delivered.iter().filter(|bytes| **bytes == text).count();
        assert_eq!(copies, 1, "of a message from host {host} to {other}");
    }

    /// Returns what was sent of a type, from an address or any.
    fn sent(&self, kind: u8) -> Vec<Flight> {
        let of_kind = self.log.iter().filter(|(_, flight)| flight.bytes[0] == kind);
        of_kind.map(|(_, flight)| flight.clone()).collect()
    }
}
