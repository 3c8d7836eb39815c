//! Nothing old is given to a vehicle: not what waited for its port, and not what waited for a
//! daemon that stood still.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use proto::select::{MavlinkFrames, Version, encode_frame};
use sys::netns::Namespace;
use sys::sandbox;
use sys::serial::PseudoTerminal;

use crate::rig::Rig;

/// Message ids: ATTITUDE, RC_CHANNELS_OVERRIDE, COMMAND_LONG.
const ATTITUDE: u32 = 30;
const STICKS: u32 = 70;
const COMMAND: u32 = 76;
/// Beyond their time to live: what a busy machine and the links take.
const NOISE: Duration = Duration::from_millis(700);

/// Returns for how long a message is of use.
fn life(message: u32) -> Duration {
    Duration::from_millis(match message {
        STICKS => 300,
        ATTITUDE => 1_000,
        _ => 2_000,
    })
}

/// A ground station that numbers what it sends, from 1 on, and notes when it did; 0 are those that
/// are not looked at.
struct Ground {
    socket: UdpSocket,
    sent: BTreeMap<u16, Instant>,
}

impl Ground {
    fn new(host: &Namespace) -> Self {
        let socket = host.run(|| UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        socket.connect("127.0.0.1:14550").unwrap();
        Self { socket, sent: BTreeMap::new() }
    }

    fn send(&mut self, message: u32, number: u16) {
        let mut payload = vec![
            1;
            [(STICKS, 18), (ATTITUDE, 28), (COMMAND, 33)]
                .into_iter()
                .find(|(id, _)| *id == message)
                .unwrap()
                .1
        ];
        payload[..2].copy_from_slice(&number.to_le_bytes());
        let frame = encode_frame(Version::V2, number as u8, (255, 190), message, &payload).unwrap();
        self.socket.send(&frame).unwrap();
        self.sent.insert(number, Instant::now());
    }

    /// Flies for a while: sticks at 50 Hz and a command every half second.
    fn fly(&mut self, time: Duration) {
        for turn in 0..time.as_millis() / 20 {
            let number = self.sent.keys().last().map_or(1, |last| last + 1);
            self.send(if turn % 25 == 0 { COMMAND } else { STICKS }, number);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the messages among `bytes` that had outlived their time at `taken`, and how many
    /// were in time.
    fn judge(&self, bytes: &[u8], taken: Instant) -> (Vec<(u32, Duration)>, usize) {
        let (mut old, mut good) = (Vec::new(), 0);
        for frame in MavlinkFrames::new(bytes) {
            let number = u16::from_le_bytes([frame.payload[0], frame.payload[1]]);
            let Some(sent) = self.sent.get(&number).filter(|_| number > 0) else { continue };
            let age = taken.saturating_duration_since(*sent);
            if age > life(frame.message) + NOISE {
                old.push((frame.message, age));
            } else {
                good += 1;
            }
        }
        (old, good)
    }
}

const GROUND: &str = "[[mavlink]]\nname = \"ground\"\nkind = \"udp-server\"\naddress = \"127.0.0.1:14550\"\n\
                      radio_status_hz = 0\nstatustext = false\n";

/// Reads a line for good, piece by piece.
fn read_on(line: PseudoTerminal) -> Receiver<Vec<u8>> {
    let (to, from) = channel();
    std::thread::spawn(move || {
        while let Ok(bytes) = line.read()
            && to.send(bytes).is_ok()
        {}
    });
    from
}

#[test]
fn a_serial_port_that_took_nothing_for_a_while_gets_nothing_old() {
    let name = "age::a_serial_port_that_took_nothing_for_a_while_gets_nothing_old";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let line = PseudoTerminal::open().unwrap();
    let serial = format!(
        "[[mavlink]]\nname = \"autopilot\"\nkind = \"serial\"\ndevice = \"{}\"\nbaud = 921600\n\
         radio_status_hz = 0\nstatustext = false\n",
        line.device().display()
    );
    let station = rig.start_station(GROUND);
    let drone = rig.start_drone(&[0], &serial);
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let mut ground = Ground::new(&rig.station);
    // What the kernel takes of a pseudo-terminal nobody can take back: some 17 kB.
    let deadline = Instant::now() + Duration::from_secs(60);
    let takes_nothing =
        |status: &serde_json::Value| status["endpoints"][0]["state"] == "takes nothing";
    while !takes_nothing(&drone.status()) {
        assert!(Instant::now() < deadline, "it never takes nothing: {:#}", drone.status());
        for _ in 0..200 {
            ground.send(COMMAND, 0);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    ground.fly(Duration::from_secs(8));
    let status = drone.status();
    let trouble = status["endpoints"][0]["trouble"].as_str().unwrap().to_owned();
    assert!(trouble.contains("has taken nothing for"), "{trouble}");
    assert!(drone.table().contains("has taken nothing for"), "{}", drone.table());
    let taken = Instant::now();
    let pieces = read_on(line);
    let mut read = Vec::new();
    while let Ok(piece) = pieces.recv_timeout(Duration::from_secs(2)) {
        read.extend(piece);
    }
    let (old, good) = ground.judge(&read, taken);
    assert!(old.is_empty(), "{} of {} are too old: {old:?}", old.len(), old.len() + good);
    assert!(good > 0, "what is young comes");
    let status = drone.wait_for("the port takes something", |status| !takes_nothing(status));
    let too_old = status["endpoints"][0]["too_old"].as_u64().unwrap();
    assert!(too_old as usize + good + 30 > ground.sent.len(), "{status:#}");
    // It goes on as before.
    let before = read.len();
    ground.fly(Duration::from_secs(1));
    while let Ok(piece) = pieces.recv_timeout(Duration::from_secs(2)) {
        read.extend(piece);
    }
    assert!(MavlinkFrames::new(&read[before..]).count() > 40);
}

/// Receives for good: what came, and when.
fn receive_on(socket: &UdpSocket) -> Receiver<(Instant, Vec<u8>)> {
    let (to, from) = channel();
    let socket = socket.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok(length) = socket.recv(&mut buffer)
            && to.send((Instant::now(), buffer[..length].to_vec())).is_ok()
        {}
    });
    from
}

/// Judges everything that came, each at its own time.
fn judge_all(from: &Ground, came: &Receiver<(Instant, Vec<u8>)>) -> (Vec<(u32, Duration)>, usize) {
    let (mut old, mut good) = (Vec::new(), 0);
    while let Ok((at, bytes)) = came.recv_timeout(Duration::from_secs(2)) {
        let (is_old, is_good) = from.judge(&bytes, at);
        old.extend(is_old);
        good += is_good;
    }
    (old, good)
}

/// Lets the daemon of one end stand still while both ends send, and sees that nothing old is given
/// to anybody.
fn nothing_old_after_a_standstill_of(end: &str) {
    let rig = Rig::new(1);
    let station = rig.start_station(GROUND);
    let drone = rig.start_drone(&[0], &GROUND.replace("\"ground\"", "\"autopilot\""));
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let (mut ground, mut vehicle) = (Ground::new(&rig.station), Ground::new(&rig.drone));
    let (at_ground, at_vehicle) = (receive_on(&ground.socket), receive_on(&vehicle.socket));
    // The endpoints learn of their programs.
    ground.send(COMMAND, 0);
    vehicle.send(ATTITUDE, 0);
    let stopped = if end == "station" { &station } else { &drone };
    std::thread::sleep(Duration::from_millis(500));
    stopped.signal("STOP");
    for turn in 0..300 {
        ground.send(if turn % 25 == 0 { COMMAND } else { STICKS }, turn + 1);
        vehicle.send(ATTITUDE, turn + 1);
        std::thread::sleep(Duration::from_millis(20));
    }
    stopped.signal("CONT");
    let to_vehicle = judge_all(&ground, &at_vehicle);
    let came = [("vehicle", to_vehicle), ("ground station", judge_all(&vehicle, &at_ground))];
    for (whom, (old, good)) in came {
        let count = old.len();
        assert_eq!(
            count, 0,
            "{end} stood still: {count} to the {whom} are too old, {good} not: {old:?}"
        );
    }
    let status = stopped.status();
    assert!(status["endpoints"][0]["read_too_late"].as_u64().unwrap() > 100, "{status:#}");
    stopped.wait_for_log("stood still");
    // It goes on as before.
    station.wait_for_paths(1);
    ground.fly(Duration::from_secs(1));
    let (_, good) = judge_all(&ground, &at_vehicle);
    assert!(good > 40, "{good} of 50 come");
}

#[test]
fn a_station_that_stood_still_passes_nothing_old_on() {
    let name = "age::a_station_that_stood_still_passes_nothing_old_on";
    if sandbox::inside(name) {
        nothing_old_after_a_standstill_of("station");
    }
}

#[test]
fn a_drone_that_stood_still_passes_nothing_old_on() {
    let name = "age::a_drone_that_stood_still_passes_nothing_old_on";
    if sandbox::inside(name) {
        nothing_old_after_a_standstill_of("drone");
    }
}
