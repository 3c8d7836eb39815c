//! Guessed codes and repeated datagrams, against a station that flies a drone and awaits a guest,
//! in virtual time.
//!
//! `FULMAR_GUESSES=1000000 cargo test -p fulmar --lib guessed -- --nocapture` makes a million of
//! each.

use std::net::SocketAddr;

use proto::select::Policy;
use proto::{
    Duration, Endpoint, EndpointConfig, Event, Guest, Instant, InterfaceId, PeerId, Received,
    SessionConfig, SessionId, Source, StaticSecret, Via,
};

/// Guesses and repeats, unless FULMAR_GUESSES says otherwise.
const USUAL: u64 = 2_000;
/// After so many of them a control message of those who fly has to arrive at once.
const FLY_EVERY: u64 = 100;

/// An endpoint at an address.
struct Host {
    endpoint: Endpoint,
    at: SocketAddr,
}

impl Host {
    fn new(secret: &StaticSecret, seed: u64, accept: bool, at: &str) -> Self {
        let mut entropy = [accept.into(); 32];
        entropy[..8].copy_from_slice(&seed.to_le_bytes());
        let session = SessionConfig::default();
        let config = EndpointConfig { secret: secret.clone(), entropy, accept, session };
        Self { endpoint: Endpoint::new(config, Instant::ZERO), at: at.parse().unwrap() }
    }

    /// A drone that has begun a session with the station.
    fn drone(
        secret: &StaticSecret,
        psk: Option<&[u8; 32]>,
        seed: u64,
        to: &Host,
        now: Instant,
    ) -> (Self, SessionId) {
        let mut drone = Self::new(secret, seed, false, "192.0.2.7:7");
        let peer = drone.endpoint.add_peer(station().public(), psk);
        let session = drone.endpoint.connect(now, peer);
        drone.endpoint.add_path(now, session, InterfaceId(0), to.at).unwrap();
        (drone, session)
    }

    fn take(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        let (local, source) = (Some(self.at.ip()), Via::Udp(from));
        let received = Received { interface: InterfaceId(0), local, source, ecn: 0 };
        self.endpoint.handle_datagram(now, &received, &mut bytes.to_vec());
    }

    /// Everything that it has to send.
    fn sent(&mut self, now: Instant) -> Vec<(SocketAddr, Vec<u8>)> {
        let (mut buffer, mut sent) = (Vec::new(), Vec::new());
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut buffer) {
            let Via::Udp(to) = transmit.destination else { continue };
            sent.push((to, buffer.clone()));
        }
        sent
    }

    fn connected(&mut self) -> Vec<PeerId> {
        let events = std::iter::from_fn(|| self.endpoint.poll_event());
        let connected = |(_, event)| match event {
            Event::Connected { peer } => Some(peer),
            _ => None,
        };
        events.filter_map(connected).collect()
    }

    fn deliveries(&mut self) -> usize {
        std::iter::from_fn(|| self.endpoint.poll_delivery()).count()
    }
}

fn station() -> StaticSecret {
    StaticSecret::generate([1; 32])
}

/// Lets two hosts speak until they are silent; returns what the drone sent.
fn exchange(drone: &mut Host, station: &mut Host, now: Instant) -> Vec<Vec<u8>> {
    let mut recorded = Vec::new();
    loop {
        let there = drone.sent(now);
        there.iter().for_each(|(_, bytes)| station.take(now, drone.at, bytes));
        let back = station.sent(now);
        let ours: Vec<_> = back.iter().filter(|(to, _)| *to == drone.at).collect();
        if there.is_empty() && ours.is_empty() {
            return recorded;
        }
        recorded.extend(there.into_iter().map(|(_, bytes)| bytes));
        ours.into_iter().for_each(|(_, bytes)| drone.take(now, station.at, bytes));
    }
}

/// A station that flies a drone and has had a guest, who has gone.
struct Scene {
    station: Host,
    drone: Host,
    session: SessionId,
    now: Instant,
    flown: usize,
}

impl Scene {
    /// Also returns what the guest has sent.
    fn new(guest: &Guest) -> (Self, Vec<Vec<u8>>) {
        let now = Instant::ZERO + Duration::from_secs(1);
        let mut station = Host::new(&station(), 1, true, "192.0.2.1:14700");
        let flying = StaticSecret::generate([2; 32]);
        let flier = station.endpoint.add_peer(flying.public(), None);
        let psk = &*guest.preshared_key;
        let awaited = station.endpoint.add_peer(guest.secret.public(), Some(psk));
        let (mut drone, session) = Host::drone(&flying, None, 2, &station, now);
        exchange(&mut drone, &mut station, now);
        assert_eq!(station.connected(), [flier]);
        let (mut honest, theirs) = Host::drone(&guest.secret, Some(psk), 3, &station, now);
        honest.at = "192.0.2.8:8".parse().unwrap();
        let recorded = exchange(&mut honest, &mut station, now);
        assert_eq!(station.connected(), [awaited], "the one who has the code");
        honest.endpoint.close(now, theirs);
        exchange(&mut honest, &mut station, now);
        (Self { station, drone, session, now, flown: 0 }, recorded)
    }

    /// Lets a datagram of an attacker in.
    fn attack(&mut self, number: u64, bytes: &[u8]) {
        // A millisecond each: more than any link to a station carries of them.
        self.now += Duration::from_millis(1);
        let [.., a, b] = number.to_be_bytes();
        let from = SocketAddr::from(([203, 0, a, b], 1_024 + (number % 50_000) as u16));
        self.station.take(self.now, from, bytes);
        let answered: usize = self
            .station
            .sent(self.now)
            .iter()
            .filter(|(to, _)| *to == from)
            .map(|(_, bytes)| bytes.len())
            .sum();
        assert!(answered <= bytes.len(), "an answer larger than what it answers");
        if number.is_multiple_of(FLY_EVERY) {
            self.fly();
        }
    }

    /// A control message passes in both directions, in no time.
    fn fly(&mut self) {
        let Self { station, drone, session, now, .. } = self;
        let declared = Source::Declared { channel: 9, policy: Policy::DECLARED };
        for host in [&mut *drone, &mut *station] {
            if host.endpoint.timeout().is_some_and(|timeout| timeout <= *now) {
                host.endpoint.handle_timeout(*now);
            }
        }
        drone.endpoint.send(*now, *session, declared, b"up").unwrap();
        exchange(drone, station, *now);
        assert_eq!(station.deliveries(), 1, "after {now:?}");
        self.flown += 1;
    }
}

fn count() -> u64 {
    std::env::var("FULMAR_GUESSES").ok().and_then(|count| count.parse().ok()).unwrap_or(USUAL)
}

#[test]
fn guessed_codes_let_nobody_in_and_those_who_fly_do_not_notice() {
    let guest = Guest::of_code(&[9; 16], &station().public());
    let (mut scene, _) = Scene::new(&guest);
    let before = [&scene.station, &scene.drone].map(|host| host.endpoint.counters().handshakes);
    let answered = scene.station.endpoint.counters().responses_made;
    let mut rng = guesses();
    let mut spent = std::time::Duration::ZERO;
    for number in 0..count() {
        let guess = Guest::of_code(&rng(), &station().public());
        let (mut guesser, _) = Host::drone(
            &guess.secret,
            Some(&guess.preshared_key),
            10 + number,
            &scene.station,
            scene.now,
        );
        for (_, bytes) in guesser.sent(scene.now) {
            let began = std::time::Instant::now();
            scene.attack(number, &bytes);
            spent += began.elapsed();
        }
        assert_eq!(scene.station.connected(), [], "guess {number}");
    }
    // Those who fly change their keys now and then; nobody else was given any.
    let after = [&scene.station, &scene.drone].map(|host| host.endpoint.counters().handshakes);
    let [made, flown] = [0, 1].map(|host| after[host] - before[host]);
    let answered = scene.station.endpoint.counters().responses_made - answered;
    assert_eq!((made, answered), (flown, flown), "no guess costs a Diffie–Hellman");
    println!(
        "{} guesses, {:.1} µs each at the station; {} control messages of those who fly were in time",
        count(),
        spent.as_secs_f64() * 1e6 / count() as f64,
        scene.flown
    );
}

#[test]
fn guessed_or_not_what_a_guest_has_sent_opens_nothing_when_it_is_sent_again() {
    let guest = Guest::of_code(&[9; 16], &station().public());
    let (mut scene, recorded) = Scene::new(&guest);
    assert!(recorded.len() >= 3, "{}", recorded.len());
    for number in 0..count() {
        scene.attack(number, &recorded[number as usize % recorded.len()]);
        assert_eq!(scene.station.connected(), [], "repeat {number}");
    }
    println!("{} repeats of {} datagrams", count(), recorded.len());
}

/// Secrets that nobody has.
fn guesses() -> impl FnMut() -> [u8; 16] {
    let mut rng = units::Rng::new(7);
    move || {
        let mut secret = [0; 16];
        rng.fill(&mut secret);
        secret
    }
}
