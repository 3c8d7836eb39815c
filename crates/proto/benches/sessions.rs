//! What a datagram costs a station that has many sessions, of which one is busy, and what memory
//! the sessions take: `cargo bench -p fulmar-proto --bench sessions`.
//!
//! The drones are on the same wire, which is without delay and faults; only the station's time
//! counts.

#![expect(clippy::disallowed_types, reason = "a bench reads the clock")]

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration as Time, Instant as Clock};

use fulmar_proto::select::Policy;
use fulmar_proto::{
    Duration, Endpoint, EndpointConfig, Instant, InterfaceId, MessageStream, Received,
    SessionConfig, SessionId, Source, StaticSecret, Via,
};

/// Sessions of the fleet.
const MANY: usize = 1_000;
/// Packets that the busy drone sends, one each 100 µs.
const PACKETS: usize = 2_000;
const EACH: Duration = Duration::from_micros(100);
/// The clock goes on by at least this.
const TICK: Duration = Duration::from_micros(1);
/// Bytes of such a packet.
const PACKET: usize = 1_000;
/// Times that each fleet is measured; the fastest counts, as the machine may be busy.
const ROUNDS: usize = 5;
/// The port that drones send from; which one it is says the address.
const PORT: u16 = 4_600;

fn main() {
    let mut few = Fleet::new(1);
    let mut many = Fleet::new(MANY);
    let (mut alone, mut among) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        alone = alone.min(few.per_datagram());
        among = among.min(many.per_datagram());
    }
    println!("one session        {alone:8.2} µs for each datagram at the station");
    println!("one of {MANY:5}       {among:8.2} µs: {:.2} times that", among / alone);
    drop(few);
    let before = resident_mib();
    many.message_each();
    println!(
        "memory of both ends of {MANY} sessions: {before:.0} MiB, and {:.0} MiB when",
        resident_mib()
    );
    println!("each has sent one message");
}

/// A drone and its session.
struct Drone {
    endpoint: Endpoint,
    session: SessionId,
    due: Option<Instant>,
}

/// A station and drones that have connected to it.
struct Fleet {
    now: Instant,
    station: Endpoint,
    drones: Vec<Drone>,
    /// When drones have to be attended to.
    due: BTreeSet<(Instant, usize)>,
    /// Datagrams to the station, or to the drone of this number.
    flights: VecDeque<(Option<usize>, SocketAddr, Vec<u8>)>,
    /// What the station has spent, and on how many datagrams.
    spent: Time,
    datagrams: u64,
    delivered: usize,
}

impl Fleet {
    fn new(drones: usize) -> Self {
        let now = Instant::from_millis(1_000);
        let secret = |number: usize| {
            let mut seed = [7; 32];
            seed[..8].copy_from_slice(&(number as u64).to_be_bytes());
            StaticSecret::generate(seed)
        };
        let endpoint = |number: usize| {
            let (secret, entropy) = (secret(number), secret(!number).to_bytes());
            let (accept, session) = (number == 0, SessionConfig::default());
            Endpoint::new(EndpointConfig { secret, entropy, accept, session }, now)
        };
        let mut station = endpoint(0);
        let drones = (1..=drones).map(|number| {
            station.add_peer(secret(number).public(), None);
            let mut endpoint = endpoint(number);
            let peer = endpoint.add_peer(secret(0).public(), None);
            let session = endpoint.connect(now, peer);
            let path = endpoint.add_path(now, session, InterfaceId(0), address(0));
            path.expect("a fresh session has room for a path");
            Drone { endpoint, session, due: None }
        });
        let drones = drones.collect();
        let (due, flights, spent) = (BTreeSet::new(), VecDeque::new(), Time::ZERO);
        let (datagrams, delivered) = (0, 0);
        let mut fleet = Self { now, station, drones, due, flights, spent, datagrams, delivered };
        for number in 0..fleet.drones.len() {
            fleet.poll_drone(number);
            fleet.settle();
        }
        fleet.run_for(Duration::from_millis(300));
        assert_eq!(fleet.station.sessions().count(), fleet.drones.len());
        fleet
    }

    /// Lets the first drone send, and returns the station's µs for each datagram in and out.
    fn per_datagram(&mut self) -> f64 {
        (self.spent, self.datagrams, self.delivered) = (Time::ZERO, 0, 0);
        for _ in 0..PACKETS {
            let drone = &mut self.drones[0];
            let source = Source::Declared { channel: 1, policy: Policy::BULK };
            let _ = drone.endpoint.send(self.now, drone.session, source, &[9; PACKET]);
            self.poll_drone(0);
            self.settle();
            self.run_for(EACH);
        }
        assert!(self.delivered > PACKETS / 2, "{} delivered", self.delivered);
        self.spent.as_secs_f64() * 1e6 / self.datagrams as f64
    }

    /// Lets every drone send one message of 4 kB.
    fn message_each(&mut self) {
        self.delivered = 0;
        for number in 0..self.drones.len() {
            let drone = &mut self.drones[number];
            let source = Source::Message { channel: 1, stream: MessageStream::default() };
            let sent = drone.endpoint.send(self.now, drone.session, source, &[9; 4_000]);
            sent.expect("room for a message");
            self.poll_drone(number);
            self.settle();
        }
        self.run_for(Duration::from_secs(1));
        assert_eq!(self.delivered, self.drones.len());
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.next()
            && at <= end
        {
            self.now = at.max(self.now + TICK);
            self.tick();
        }
        self.now = end;
    }

    fn next(&self) -> Option<Instant> {
        let drone = self.due.first().map(|(at, _)| *at);
        self.station.timeout().into_iter().chain(drone).min()
    }

    fn tick(&mut self) {
        let now = self.now;
        let due = self.due.range(..=(now, usize::MAX)).map(|(_, number)| *number);
        for number in due.collect::<Vec<_>>() {
            self.drones[number].endpoint.handle_timeout(now);
            self.poll_drone(number);
        }
        if self.station.timeout().is_some_and(|at| at <= now) {
            let since = Clock::now();
            self.station.handle_timeout(now);
            self.spent += since.elapsed();
            self.poll_station();
        }
        self.settle();
    }

    /// Delivers all that is on its way.
    fn settle(&mut self) {
        while let Some((to, source, mut bytes)) = self.flights.pop_front() {
            let (interface, source) = (InterfaceId(0), source.into());
            let received = Received { interface, local: None, source, ecn: 0 };
            if let Some(number) = to {
                let drone = &mut self.drones[number].endpoint;
                drone.handle_datagram(self.now, &received, &mut bytes);
                self.poll_drone(number);
            } else {
                let since = Clock::now();
                self.station.handle_datagram(self.now, &received, &mut bytes);
                self.spent += since.elapsed();
                self.datagrams += 1;
                self.poll_station();
            }
        }
    }

    fn poll_drone(&mut self, number: usize) {
        let Drone { endpoint: drone, due, .. } = &mut self.drones[number];
        let mut buf = Vec::new();
        while drone.poll_transmit(self.now, &mut buf).is_some() {
            self.flights.push_back((None, address(number + 1), buf.clone()));
        }
        while drone.poll_delivery().is_some() {}
        while drone.poll_event().is_some() {}
        if let Some(at) = due.take() {
            self.due.remove(&(at, number));
        }
        *due = drone.timeout();
        self.due.extend(due.map(|at| (at, number)));
    }

    /// Does what a driver does after each input.
    fn poll_station(&mut self) {
        let mut buf = Vec::new();
        let since = Clock::now();
        while let Some(transmit) = self.station.poll_transmit(self.now, &mut buf) {
            let Via::Udp(destination) = transmit.destination else { continue };
            let number = number(destination) - 1;
            self.flights.push_back((Some(number), address(0), buf.clone()));
            self.datagrams += 1;
        }
        while self.station.poll_delivery().is_some() {
            self.delivered += 1;
        }
        while self.station.poll_event().is_some() {}
        let _ = self.station.timeout();
        self.spent += since.elapsed();
    }
}

/// The address of the station, or of a drone counted from one.
fn address(number: usize) -> SocketAddr {
    let [.., high, low] = number.to_be_bytes();
    SocketAddr::from(([10, 0, high, low], PORT))
}

fn number(address: SocketAddr) -> usize {
    match address {
        SocketAddr::V4(v4) => {
            let [.., high, low] = v4.ip().octets();
            usize::from(u16::from_be_bytes([high, low]))
        }
        SocketAddr::V6(_) => 0,
    }
}

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1_024.0
}
