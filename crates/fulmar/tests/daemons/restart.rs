//! Either end is killed and comes back: how long control waits, from the moment the daemon is
//! ready.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use sys::netns::Namespace;
use sys::sandbox;

use crate::rig::{Daemon, Rig};
use crate::stream::Stream;

/// Kills of each end.
const KILLS: usize = 10;
/// Between two messages of a direction.
const TURN: Duration = Duration::from_millis(5);
/// How long both ends fly before a kill.
const FLIGHT: Duration = Duration::from_millis(500);
/// Something comes after a restart, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
/// What control may wait for in the median: a timeout of three seconds, which was the rule once, is
/// far beyond.
const MEDIAN: Duration = Duration::from_secs(1);
/// The same on a machine that does nothing else, and at worst.
const QUIET: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(1));

/// Both ends, and what control goes through.
struct Pair<'a> {
    rig: &'a Rig,
    station: Option<Daemon>,
    drone: Option<Daemon>,
    sender: UdpSocket,
    receiver: UdpSocket,
    telemetry: UdpSocket,
    sent: u64,
}

/// What control waited for after a kill.
struct Wait {
    since_kill: Duration,
    since_ready: Duration,
}

fn socket(host: &Namespace, address: &str) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    socket.set_read_timeout(Some(TURN)).unwrap();
    socket
}

impl<'a> Pair<'a> {
    fn new(rig: &'a Rig) -> Self {
        let sender = socket(&rig.station, "127.0.0.1:0");
        sender.connect("127.0.0.1:14901").unwrap();
        let telemetry = socket(&rig.drone, "127.0.0.1:0");
        telemetry.connect("127.0.0.1:14902").unwrap();
        let receiver = socket(&rig.drone, "127.0.0.1:14901");
        let (station, drone, sent) = (None, None, 0);
        let mut pair = Self { rig, station, drone, sender, receiver, telemetry, sent };
        pair.start("station");
        pair.start("drone");
        pair.drone.as_ref().unwrap().wait_for_paths(2);
        pair
    }

    fn start(&mut self, end: &str) {
        match end {
            "station" => self.station = Some(self.rig.start_station(Stream::STATION)),
            _ => self.drone = Some(self.rig.start_drone(&[0, 1], Stream::DRONE)),
        }
    }

    /// Sends one message each way, as vehicles and stations do all the time; true when the
    /// station's came.
    fn turn(&mut self) -> bool {
        self.sent += 1;
        self.sender.send(&self.sent.to_le_bytes()).unwrap();
        self.telemetry.send(b"attitude").unwrap();
        let mut buffer = [0; 64];
        self.receiver.recv(&mut buffer).is_ok()
    }

    fn fly(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.turn();
            std::thread::sleep(TURN);
        }
    }

    /// Kills an end, starts it again, and sends until something of what is sent then arrives.
    fn kill(&mut self, end: &str) -> Wait {
        let killed = Instant::now();
        drop(if end == "station" { self.station.take() } else { self.drone.take() });
        while self.receiver.recv(&mut [0; 64]).is_ok() {}
        self.start(end);
        let ready = Instant::now();
        while !self.turn() {
            assert!(ready.elapsed() < PATIENCE, "nothing came after a restart of the {end}");
        }
        Wait { since_kill: killed.elapsed(), since_ready: ready.elapsed() }
    }

    /// Kills an end again and again; returns the median and the worst wait, once it was ready.
    fn kills(&mut self, end: &str, kills: usize) -> (Duration, Duration) {
        let mut waits = Vec::new();
        for _ in 0..kills {
            self.fly(FLIGHT);
            waits.push(self.kill(end));
        }
        let figures = |mut of: Vec<Duration>| {
            of.sort();
            (of[kills / 2], of[kills - 1])
        };
        let ready = figures(waits.iter().map(|wait| wait.since_ready).collect());
        let (median, worst) = figures(waits.iter().map(|wait| wait.since_kill).collect());
        eprintln!(
            "{end} killed {kills} times: control waits {:?} from ready in the median, {:?} at worst; \
             {median:?} and {worst:?} from the kill",
            ready.0, ready.1
        );
        ready
    }
}

/// `FULMAR_KILLS=50 cargo test -p fulmar --test daemons restart` asks for more kills, and for a
/// quiet machine's figures.
#[test]
fn a_restart_of_either_end_costs_less_than_a_second() {
    let name = "restart::a_restart_of_either_end_costs_less_than_a_second";
    if !sandbox::inside(name) {
        return;
    }
    let wanted = std::env::var("FULMAR_KILLS").ok();
    let kills = wanted.as_ref().map_or(KILLS, |kills| kills.parse().unwrap());
    let (most_median, most) = if wanted.is_some() { QUIET } else { (MEDIAN, PATIENCE) };
    let rig = Rig::new(2);
    let mut pair = Pair::new(&rig);
    for end in ["station", "drone"] {
        let (median, worst) = pair.kills(end, kills);
        assert!(median <= most_median && worst <= most, "{end}: {median:?}, {worst:?}");
    }
}
