//! A station with a fleet, asked how it is: that costs none of its drones anything.
//!
//! One drone flies with a daemon of its own. The others are sessions of this process, each with a
//! socket of its own, and the station has a MAVLink endpoint for each of them.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proto::{Endpoint, EndpointConfig, InterfaceId, Received, SessionConfig, StaticSecret, Via};
use sys::poller::{Interest, Poller};
use sys::{clock, sandbox};

use crate::rig::Rig;
use crate::stream::{Stream, percentile};

/// Drones beside the one that flies; `FULMAR_FLEET` has another number.
const FLEET: usize = 100;
/// How long control is watched with and without questions, in turn.
const BLOCK: Duration = Duration::from_secs(2);
/// Those blocks, of each kind; `FULMAR_FLEET_BLOCKS` has another number.
const BLOCKS: usize = 2;
/// How often the station is asked, at most, and how much longer it is left alone than its answer
/// took: what the page does, which asks once a second too.
const ASK_EVERY: Duration = Duration::from_millis(300);
const REST: u32 = 9;
/// What control may wait for, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the fleet takes to begin.
const BEGUN_WITHIN: units::Duration = units::Duration::from_secs(3);
/// How long the whole fleet may take to connect.
const CONNECTED_WITHIN: u64 = 120;

#[test]
fn control_does_not_wait_for_what_a_station_tells_of_its_fleet() {
    let name = "fleet::control_does_not_wait_for_what_a_station_tells_of_its_fleet";
    if !sandbox::inside(name) {
        return;
    }
    let number = |name, otherwise| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (fleet, blocks) = (number("FULMAR_FLEET", FLEET), number("FULMAR_FLEET_BLOCKS", BLOCKS));
    let rig = Rig::new(1);
    let station_key = std::fs::read_to_string(rig.directory.path().join("station.pub")).unwrap();
    let stream = Stream::STATION.replace("[[control]]", "[[control]]\npeer = \"drone\"");
    let station = rig.start_station(&format!("{}{stream}", sections(fleet)));
    let drone = rig.start_drone(&[0], Stream::DRONE);
    drone.wait_for_paths(1);
    let stream = Stream::new(&rig);
    let (over, asks) = (AtomicBool::new(false), AtomicBool::new(false));
    let answers = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let curfew = Curfew(&over);
        scope.spawn(|| {
            rig.station.run(|| Players::new(fleet, &station_key).play(&over)).unwrap();
        });
        scope.spawn(|| ask_while(station.socket(), &over, &asks, &answers));
        station.wait_for_within(CONNECTED_WITHIN, "all are connected", |status| {
            let peers = status["peers"].as_array().unwrap();
            peers.iter().all(|peer| peer["connected"] == true)
        });
        let mut delays = [Vec::new(), Vec::new()];
        for block in 0..2 * blocks {
            asks.store(block % 2 == 1, Ordering::Relaxed);
            let end = Instant::now() + BLOCK;
            delays[block % 2].extend(stream.delays_while(|| Instant::now() < end));
        }
        drop(curfew);
        for (delays, what) in delays.iter_mut().zip(["not asked", "asked"]) {
            delays.sort();
            let of = |percent| percentile(delays, percent);
            eprintln!(
                "{what}: {:?} {:?} {:?} {:?} at 50, 90, 99, 100 %",
                of(50),
                of(90),
                of(99),
                of(100)
            );
            assert!(of(100) < PATIENCE, "control waited {:?}", of(100));
        }
        eprintln!("{} answers, {fleet} drones beside", answers.load(Ordering::Relaxed));
        assert!(answers.load(Ordering::Relaxed) > 0, "the station tells of all of them");
    });
}

/// Ends the threads, also when the test panics: the scope would wait for them.
struct Curfew<'a>(&'a AtomicBool);

impl Drop for Curfew<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What the station's file says of the fleet.
fn sections(fleet: usize) -> String {
    let mut text = String::new();
    for number in 0..fleet {
        let (key, port) = (secret(number).public(), 20_000 + number);
        text += &format!(
            "[[peer]]\nname = \"d{number}\"\npublic_key = \"{key}\"\n\
             [[mavlink]]\nname = \"m{number}\"\npeer = \"d{number}\"\nkind = \"udp-client\"\naddress = \"127.0.0.1:{port}\"\n"
        );
    }
    text
}

fn secret(number: usize) -> StaticSecret {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&(number as u64).to_be_bytes());
    StaticSecret::generate(seed)
}

/// Asks the station for its report, while it is to be asked.
fn ask_while(socket: &Path, over: &AtomicBool, asks: &AtomicBool, answers: &AtomicUsize) {
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        if asks.load(Ordering::Relaxed) {
            let mut text = Vec::new();
            let mut stream = UnixStream::connect(socket).unwrap();
            stream.read_to_end(&mut text).unwrap();
            serde_json::from_slice::<serde_json::Value>(&text).expect("a whole report");
            answers.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(ASK_EVERY.max(began.elapsed() * REST).min(BLOCK));
    }
}

/// One of the fleet, and when it has to be attended to.
struct Player {
    endpoint: Endpoint,
    socket: UdpSocket,
    due: Option<proto::Instant>,
}

/// The fleet: sessions that hold their paths and say nothing.
struct Players {
    drones: Vec<Player>,
    due: BTreeSet<(proto::Instant, usize)>,
    poller: Poller,
}

impl Players {
    fn new(fleet: usize, station: &str) -> Self {
        let (poller, now) = (Poller::new().unwrap(), clock::now());
        let station = station.trim().parse().unwrap();
        let begin = |number: usize| {
            let (session, entropy) = (SessionConfig::default(), secret(!number).to_bytes());
            let config = EndpointConfig { secret: secret(number), entropy, accept: false, session };
            let mut endpoint = Endpoint::new(config, now);
            let peer = endpoint.add_peer(station, None);
            let session = endpoint.connect(now, peer);
            let remote = SocketAddr::from(([127, 0, 0, 1], 14_700));
            endpoint.add_path(now, session, InterfaceId(0), remote).unwrap();
            let own = Ipv4Addr::new(127, 1, (number >> 8) as u8, number as u8);
            let socket = UdpSocket::bind((own, 4_600)).unwrap();
            socket.set_nonblocking(true).unwrap();
            poller.add(&socket, number as u64, Interest::Read).unwrap();
            // They begin one after the other, so that they have not all their timers at the same
            // moment.
            let due = Some(now + BEGUN_WITHIN * number as u32 / fleet as u32);
            Player { endpoint, socket, due }
        };
        let drones: Vec<_> = (0..fleet).map(begin).collect();
        let due = drones.iter().zip(0..).filter_map(|(drone, number)| Some((drone.due?, number)));
        let due = due.collect();
        Self { drones, due, poller }
    }

    fn play(mut self, over: &AtomicBool) {
        let (mut ready, mut buffer) = (Vec::new(), [0; 2_048]);
        while !over.load(Ordering::Relaxed) {
            let now = clock::now();
            let latest = now + units::Duration::from_millis(50);
            let deadline = self.due.first().map_or(latest, |(at, _)| latest.min(*at));
            self.poller.wait(now, Some(deadline), &mut ready).unwrap();
            let now = clock::now();
            for event in ready.drain(..) {
                let number = event.token as usize;
                let Player { endpoint, socket, .. } = &mut self.drones[number];
                while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    let source = Via::Udp(from);
                    let received =
                        Received { interface: InterfaceId(0), local: None, source, ecn: 0 };
                    endpoint.handle_datagram(now, &received, &mut buffer[..length]);
                }
                self.attend(now, number);
            }
            while let Some(&(at, number)) = self.due.first()
                && at <= now
            {
                self.drones[number].endpoint.handle_timeout(now);
                self.attend(now, number);
            }
        }
    }

    fn attend(&mut self, now: proto::Instant, number: usize) {
        let Player { endpoint, socket, due } = &mut self.drones[number];
        let mut bytes = Vec::new();
        while let Some(transmit) = endpoint.poll_transmit(now, &mut bytes) {
            let Via::Udp(to) = transmit.destination else {
                unreachable!("a fleet has sockets alone")
            };
            let _ = socket.send_to(&bytes, to);
        }
        while endpoint.poll_delivery().is_some() {}
        while endpoint.poll_event().is_some() {}
        if let Some(at) = due.take() {
            self.due.remove(&(at, number));
        }
        *due = endpoint.timeout();
        self.due.extend(due.map(|at| (at, number)));
    }
}
