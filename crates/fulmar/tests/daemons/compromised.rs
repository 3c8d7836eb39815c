//! A drone with a key of its own that means harm: it sends what costs a station most, as fast as it
//! can.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proto::{
    Endpoint, EndpointConfig, InterfaceId, PathId, Received, SessionConfig, SessionId,
    StaticSecret, fuzzing,
};
use serde_json::Value;
use sys::{clock, sandbox};

use crate::lossy::LossyLink;
use crate::rig::Rig;
use crate::stream::{Stream, percentile};

/// The honest drone's link delays by this in each direction.
const DELAY: Duration = Duration::from_millis(10);
/// Control is measured for so long, before the flood and during it.
const WHILE: Duration = Duration::from_secs(5);
/// Control may take so many times as long: the flood takes a core of the machine, and the thief
/// another. Whoever waits for all that floods in waits for ten times as long, and much of it is
/// lost.
const WORSE: u32 = 5;
/// Datagrams that the flood aims at, a second: several times what a processor can handle.
const RATE: u32 = 40_000;
/// Sent in one go.
const BURST: usize = 40;
/// Bytes of frames in a datagram, but for the last one of them.
const ROOM: usize = 1_370;
/// Symbols that a receiver has room for, that one repair symbol combines, and repair symbols that
/// it holds.
const WINDOW: u64 = 4_096;
const COMBINED: u64 = 512;
const HELD: u64 = 256;
/// Bytes of a symbol.
const SYMBOL: usize = 1_144;
/// Datagrams of control messages in a round, and lanes that a receiver knows.
const MESSAGES: u32 = 500;
const LANES: u32 = 1_024;

/// The drone that means harm.
struct Thief {
    socket: UdpSocket,
    endpoint: Endpoint,
    session: SessionId,
    station: SocketAddr,
}

impl Thief {
    /// Connects to the station as any drone does.
    fn connect(rig: &Rig, port: u16) -> Self {
        let socket = rig.drone.run(|| UdpSocket::bind("192.168.0.1:0").unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let read = |name: &str| {
            std::fs::read_to_string(rig.directory.path().join(name)).unwrap().trim().to_owned()
        };
        let secret: StaticSecret = read("thief.key").parse().unwrap();
        let session = SessionConfig::default();
        let config = EndpointConfig { secret, entropy: [7; 32], accept: false, session };
        let (mut endpoint, now) = (Endpoint::new(config, clock::now()), clock::now());
        let peer = endpoint.add_peer(read("station.pub").parse().unwrap(), None);
        let session = endpoint.connect(now, peer);
        let station = SocketAddr::from(([192, 168, 0, 2], port));
        endpoint.add_path(now, session, InterfaceId(0), station).unwrap();
        let mut thief = Self { socket, endpoint, session, station };
        let began = Instant::now();
        while !thief.is_connected() {
            assert!(began.elapsed() < Duration::from_secs(10), "it does not connect");
            thief.talk();
            std::thread::sleep(Duration::from_millis(1));
        }
        thief
    }

    fn is_connected(&self) -> bool {
        self.endpoint.status(clock::now(), self.session).is_some_and(|status| status.connected)
    }

    /// Does what an honest drone does.
    fn talk(&mut self) {
        let mut buffer = [0; 2_048];
        while let Ok((length, source)) = self.socket.recv_from(&mut buffer) {
            let (interface, source) = (InterfaceId(0), source.into());
            let received = Received { interface, local: None, source, ecn: 0 };
            self.endpoint.handle_datagram(clock::now(), &received, &mut buffer[..length]);
        }
        self.endpoint.handle_timeout(clock::now());
        let mut bytes = Vec::new();
        while self.endpoint.poll_transmit(clock::now(), &mut bytes).is_some() {
            let _ = self.socket.send_to(&bytes, self.station);
        }
        while self.endpoint.poll_event().is_some() {}
    }

    /// Floods the station.
    fn flood(&mut self, stop: &AtomicBool) {
        let (mut costly, began, mut sent) = (Costly::default(), Instant::now(), 0);
        while !stop.load(Ordering::Relaxed) {
            let round = costly.round();
            for burst in round.chunks(BURST) {
                for frames in burst {
                    let (endpoint, session) = (&mut self.endpoint, self.session);
                    let sealed = fuzzing::seal(endpoint, session, PathId(0), frames).unwrap();
                    let _ = self.socket.send_to(&sealed, self.station);
                }
                self.talk();
                sent += burst.len() as u32;
                let due = Duration::from_secs(1) / RATE * sent;
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
        }
    }
}

/// What costs a station most (`cargo bench -p fulmar-proto`): 256 symbols that one repair solves,
/// and control messages, of which each is the first of its lane.
#[derive(Default)]
struct Costly {
    symbol: u64,
    repair: u64,
    message: u32,
}

impl Costly {
    /// Returns the frames of some datagrams.
    fn round(&mut self) -> Vec<Vec<u8>> {
        // All symbols before are given up; of the next half are known.
        self.symbol += WINDOW;
        let first = self.symbol;
        let mut all = vec![source(first - 1, 0, &[])];
        all.extend((HELD..COMBINED).map(|n| source(first + n, n, &[1; SYMBOL])));
        all.extend((0..HELD).map(|_| self.repair(first)));
        self.symbol += COMBINED;
        all.extend((0..MESSAGES).map(|_| self.messages()));
        all
    }

    fn repair(&mut self, first: u64) -> Vec<u8> {
        self.repair += 1;
        let mut frame = vec![0x19];
        let numbers = [0, self.repair, first, COMBINED, SYMBOL as u64];
        numbers.into_iter().for_each(|number| varint(&mut frame, number));
        frame.extend([self.repair as u8; SYMBOL]);
        frame
    }

    fn messages(&mut self) -> Vec<u8> {
        let mut all = Vec::with_capacity(2 * ROOM);
        while all.len() < ROOM {
            self.message += 1;
            // Sequenced, of class control, 10 s to live.
            all.extend([0x10, 1, 3 | 2 << 2]);
            let numbers = [self.message, self.message, 0];
            numbers.into_iter().for_each(|number| all.extend(number.to_le_bytes()));
            let rest = [u64::from(self.message % LANES), 1 << 20, 10_000, 0];
            rest.into_iter().for_each(|number| varint(&mut all, number));
        }
        all
    }
}

fn source(id: u64, back: u64, symbol: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x18];
    let numbers = [0, id, back, symbol.len() as u64];
    numbers.into_iter().for_each(|number| varint(&mut frame, number));
    frame.extend(symbol);
    frame
}

fn varint(all: &mut Vec<u8>, value: u64) {
    match value {
        0..=0x3f => all.push(value as u8),
        0x40..=0x3fff => all.extend((value as u16 | 1 << 14).to_be_bytes()),
        _ => all.extend((value as u32 | 2 << 30).to_be_bytes()),
    }
}

/// Ends the flood when the test ends, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A peer's report at the station.
fn peer<'a>(status: &'a Value, name: &str) -> &'a Value {
    let peers = status["peers"].as_array().unwrap();
    peers.iter().find(|peer| peer["name"] == name).unwrap()
}

#[test]
fn a_compromised_drone_holds_up_nobody_but_itself() {
    let name = "compromised::a_compromised_drone_holds_up_nobody_but_itself";
    if !sandbox::inside(name) {
        return;
    }
    let mut rig = Rig::new(1);
    let key = rig.make_keys("thief");
    let _link = LossyLink::new(&mut rig, 0, DELAY);
    let endpoints = Stream::STATION.replace("[[control]]", "[[control]]\npeer = \"drone\"");
    let thief = format!("[[peer]]\nname = \"thief\"\npublic_key = \"{key}\"\n");
    let station = rig.start_station(&format!("{thief}{endpoints}"));
    let drone = rig.start_drone(&[0], Stream::DRONE);
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let (stop, stream) = (&AtomicBool::new(false), Stream::new(&rig));
    let measure = || {
        let began = Instant::now();
        // Every message arrives, or the stream ends the test.
        stream.delays_while(|| began.elapsed() < WHILE)
    };
    let calm = measure();
    let mut thief = Thief::connect(&rig, rig.station_port);
    let flooded = std::thread::scope(|scope| {
        let _over = Over(stop);
        scope.spawn(move || thief.flood(stop));
        station.wait_for("there is more than the processor can do", |status| {
            peer(status, "thief")["late_datagrams"].as_u64() > Some(1_000)
        });
        measure()
    });
    for percent in [50, 90, 99, 100] {
        let [calm, flooded] = [&calm, &flooded].map(|delays| percentile(delays, percent));
        eprintln!("{percent} % of control: {calm:?} without the flood, {flooded:?} with it");
    }
    let status = station.status();
    let late = peer(&status, "drone")["late_datagrams"].as_u64().unwrap();
    // A machine that is busy with something else holds some up as well.
    assert!(late <= flooded.len() as u64 / 5, "{late} of the honest one waited: {status:#}");
    let [calm, flooded] = [&calm, &flooded].map(|delays| percentile(delays, 90));
    assert!(flooded < calm * WORSE, "{calm:?} without the flood, {flooded:?} with it");
    assert_eq!(peer(&status, "thief")["connected"], true);
}
