//! The pilot's window: what a ground station beside the station's daemon is told when links die.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use crate::rig::Rig;
use proto::select::{MavlinkFrames, Version, encode_frame};
use sys::netns::Namespace;
use sys::{interface_setup, sandbox};

const STATUSTEXT: u32 = 253;
/// Longer than any text takes: a link that is back is told after four seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// A program at a MAVLink endpoint, and the texts that it was told.
struct Program {
    socket: UdpSocket,
    told: Vec<String>,
}

impl Program {
    fn new(host: &Namespace, own: &str, remote: Option<&str>) -> Self {
        let socket = host.run(|| UdpSocket::bind(own).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        remote.map_or(Ok(()), |remote| socket.connect(remote)).unwrap();
        Self { socket, told: Vec::new() }
    }

    /// Notes what has come.
    fn listen(&mut self) {
        let mut buffer = [0; 2_048];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            for frame in
                MavlinkFrames::new(&buffer[..length]).filter(|frame| frame.message == STATUSTEXT)
            {
                assert_eq!((frame.system, frame.component), (7, 68));
                let text = String::from_utf8_lossy(&frame.payload[1..]).into_owned();
                self.told.push(format!("{} {text}", frame.payload[0]));
            }
        }
    }
}

#[test]
fn the_pilot_is_told_of_each_link_at_both_ends_and_of_the_last_one_at_the_station() {
    let name =
        "pilot::the_pilot_is_told_of_each_link_at_both_ends_and_of_the_last_one_at_the_station";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let endpoint = |name: &str, kind: &str, port: u16, more: &str| {
        format!(
            "[[mavlink]]\nname = \"{name}\"\nkind = \"{kind}\"\naddress = \"127.0.0.1:{port}\"\n{more}"
        )
    };
    let quiet = endpoint("quiet", "udp-client", 14_551, "statustext = false\n");
    let station = rig.start_station(&(endpoint("ground", "udp-client", 14_550, "") + &quiet));
    let drone = rig.start_drone(&[0, 1], &endpoint("autopilot", "udp-server", 14_555, ""));
    let mut ground = Program::new(&rig.station, "127.0.0.1:14550", None);
    let mut quiet = Program::new(&rig.station, "127.0.0.1:14551", None);
    let mut autopilot = Program::new(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:14555"));
    drone.wait_for_paths(2);
    station.wait_for_paths(2);
    let heartbeat = encode_frame(Version::V2, 1, (7, 1), 0, &[0, 0, 0, 0, 2, 3, 81, 4, 3]).unwrap();

    // A link of the drone has an address or none, and what each end is told then.
    let set = |number: u8, is_up: bool| {
        let (name, address) = (format!("l{number}"), Ipv4Addr::new(192, 168, number, 1));
        let change = || match is_up {
            true => interface_setup::add_address(&name, address, 24),
            false => interface_setup::remove_address(&name, address, 24),
        };
        rig.drone.run(change).unwrap().unwrap();
    };
    let steps = [
        (None, "6 Fulmar: flying on l0, l1"),
        (Some((0, false)), "3 Fulmar: l0 is lost, one link left: l1"),
        (Some((1, false)), "2 Fulmar: no link works, vehicle not reached"),
        (Some((1, true)), "5 Fulmar: back, flying on l1"),
    ];
    for (change, text) in steps {
        if let Some((number, is_up)) = change {
            set(number, is_up);
        }
        let began = Instant::now();
        let is_told = |program: &Program| program.told.last().is_some_and(|told| told == text);
        while !is_told(&ground) || !is_told(&autopilot) {
            autopilot.socket.send(&heartbeat).unwrap();
            for program in [&mut ground, &mut quiet, &mut autopilot] {
                program.listen();
            }
            let (ground, autopilot) = (&ground.told, &autopilot.told);
            assert!(began.elapsed() < PATIENCE, "{text}: {ground:?}, {autopilot:?}");
        }
    }
    assert_eq!(ground.told.len(), 4, "one each: {:?}", ground.told);
    assert!(quiet.told.is_empty(), "{:?}", quiet.told);
}

/// Two drones whose autopilots have one number, at one ground station: what it tells one, both
/// would do.
#[test]
fn the_pilot_is_told_that_two_vehicles_have_one_number() {
    if !sandbox::inside("pilot::the_pilot_is_told_that_two_vehicles_have_one_number") {
        return;
    }
    let rig = Rig::new(1);
    let second_key = rig.make_keys("second");
    let endpoint = |peer: &str| {
        format!(
            "[[mavlink]]\nname = \"{peer}\"\npeer = \"{peer}\"\nkind = \"udp-client\"\naddress = \"127.0.0.1:14550\"\n"
        )
    };
    let station = rig.start_station(&format!(
        "[[peer]]\nname = \"bravo\"\npublic_key = \"{second_key}\"\nallowed_addresses = \"10.77.0.3/32\"\n{}{}",
        endpoint("drone"),
        endpoint("bravo")
    ));
    let autopilot = |port: u16| {
        format!(
            "[[mavlink]]\nname = \"fc\"\nkind = \"udp-server\"\naddress = \"127.0.0.1:{port}\"\n"
        )
    };
    let first = rig.start_drone(&[0], &autopilot(14_555));
    let head = rig.head("drone", "station", "10.77.0.1/32");
    let head = head.replace("drone.key", "second.key").replace("drone.sock", "second.sock");
    let path = "[[path]]\ninterface = \"l0\"\nremote = \"192.168.0.2:14700\"\n";
    let text = format!("{head}{path}{}", autopilot(14_556));
    let second = rig.start("second", &rig.drone, &text);
    first.wait_for_paths(1);
    second.wait_for_paths(1);
    let mut ground = Program::new(&rig.station, "127.0.0.1:14550", None);
    let autopilots = [14_555, 14_556]
        .map(|port| Program::new(&rig.drone, "127.0.0.1:0", Some(&format!("127.0.0.1:{port}"))));
    let mut number = 0;
    let mut beat = |systems: [u8; 2]| {
        for (autopilot, system) in autopilots.iter().zip(systems) {
            number += 1;
            let payload = [0, 0, 0, 0, 2, 3, 81, 4, 3];
            let heartbeat = encode_frame(Version::V2, number, (system, 1), 0, &payload).unwrap();
            autopilot.socket.send(&heartbeat).unwrap();
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    let troubles = || {
        let status = station.status();
        let peers = status["peers"].as_array().unwrap().clone();
        peers.iter().map(|peer| peer["trouble"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = |has: &dyn Fn(&str) -> bool| troubles().iter().all(|trouble| has(trouble));
    let began = Instant::now();
    while !all(&|trouble| trouble.starts_with("vehicle 7 is ")) {
        beat([7, 7]);
        assert!(began.elapsed() < PATIENCE, "{:?}", troubles());
    }
    let is_told = |told: &Vec<String>| {
        ["2 Fulmar: bravo's vehicle is number 7 too", "2 Fulmar: drone's vehicle is number 7 too"]
            .iter()
            .all(|text| told.iter().any(|one| one == text))
    };
    while !is_told(&ground.told) {
        beat([7, 7]);
        ground.listen();
        assert!(began.elapsed() < 2 * PATIENCE, "{:?}", ground.told);
    }
    assert_eq!(station.log().matches("vehicle 7 is ").count(), 2, "{}", station.log());
    // One of them gets another number.
    while !all(&str::is_empty) {
        beat([7, 8]);
        assert!(began.elapsed() < 3 * PATIENCE, "{:?}", troubles());
    }
}
