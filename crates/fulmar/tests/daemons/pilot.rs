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
