//! What both ends, and whoever watches them, are told of the autopilot and of the links by name.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::rig::{Daemon, Rig};
use proto::select::{MavlinkFrames, Version, encode_frame};
use serde_json::Value;
use sys::serial::PseudoTerminal;
use sys::{interface_setup, sandbox};

/// A loaded machine takes its time; what is waited for comes within five seconds on a quiet one.
const PATIENCE: Duration = Duration::from_secs(40);

/// What an autopilot does at its port.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Speak,
    Nothing,
    Noise,
}

/// An autopilot at a serial port whose device can vanish.
struct Autopilot {
    line: Option<PseudoTerminal>,
    device: PathBuf,
    number: u8,
}

impl Autopilot {
    fn new(device: PathBuf) -> Self {
        let mut autopilot = Self { line: None, device, number: 0 };
        autopilot.plug();
        autopilot
    }

    fn plug(&mut self) {
        let line = PseudoTerminal::open().unwrap();
        symlink(line.device(), &self.device).unwrap();
        self.line = Some(line);
    }

    fn pull(&mut self) {
        std::fs::remove_file(&self.device).unwrap();
        self.line = None;
    }

    fn act(&mut self, does: Does) {
        let Some(line) = &self.line else { return };
        self.number = self.number.wrapping_add(1);
        // A copter of ArduPilot in LOITER, armed.
        let heartbeat = [5, 0, 0, 0, 2, 3, 0x81, 4, 3];
        let mut battery = [0; 31];
        battery[14..16].copy_from_slice(&15_200_u16.to_le_bytes());
        battery[30] = 71;
        let bytes = match does {
            Does::Speak => [(0, &heartbeat[..]), (1, &battery[..])]
                .map(|(id, payload)| {
                    encode_frame(Version::V2, self.number, (7, 1), id, payload).unwrap()
                })
                .concat(),
            Does::Noise => vec![0x80 | self.number; 40],
            Does::Nothing => return,
        };
        let _ = line.write(&bytes);
        // It reads what it is given.
        let _ = line.read();
    }
}

/// Waits until both ends say something first, while the autopilot does something.
fn wait_until_told(autopilot: &mut Autopilot, does: Does, ends: [(&Daemon, &str); 2], cause: &str) {
    let began = Instant::now();
    let told = |(daemon, whose): (&Daemon, &str)| {
        let trouble = daemon.status()["peers"][0]["trouble"].as_str().unwrap().to_owned();
        let first = trouble.split("; ").next().unwrap_or_default().to_owned();
        let is_told = match cause {
            "" => trouble.is_empty(),
            cause => first.starts_with(whose) && first.ends_with(cause),
        };
        (is_told, trouble)
    };
    loop {
        autopilot.act(does);
        let all = ends.map(told);
        if all.iter().all(|(is_told, _)| *is_told) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for {cause:?}: {all:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Lists the events of a daemon by word, the new state and the text.
fn events(socket: &Path) -> Vec<(String, String, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_fulmar"))
        .args(["events", "--json", "--all", "--no-follow", "--socket"])
        .arg(socket)
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = |field: &str| event[field].as_str().unwrap().to_owned();
        (text("event"), text("to"), text("text"))
    };
    lines.lines().map(event).collect()
}

/// Requires that whoever watches events, and the pilot, was told.
fn what_was_told(socket: &Path, pilot: &UdpSocket) {
    let all = events(socket);
    for (word, to, text) in [
        ("far-endpoint-changed", "noise", "ttyAMA0 sends noise"),
        ("far-endpoint-changed", "missing", "ttyAMA0 is missing"),
        ("far-endpoint-changed", "well", "its endpoint ttyAMA0 is well again"),
        ("pilot-told", "", "autopilot: ttyAMA0 says nothing"),
        ("path-added", "", "known, to 192.168.1.1:"),
    ] {
        let is_it = |(event, state, said): &(String, String, String)| {
            event == word && state == to && said.contains(text)
        };
        assert!(all.iter().any(is_it), "{word} {to} {text}: {all:#?}");
    }
    let mut told = Vec::new();
    let mut buffer = [0; 2_048];
    while let Ok(length) = pilot.recv(&mut buffer) {
        let texts = MavlinkFrames::new(&buffer[..length]).filter(|frame| frame.message == 253);
        told.extend(texts.map(|frame| String::from_utf8_lossy(&frame.payload[1..]).into_owned()));
    }
    assert!(told.contains(&"Fulmar: autopilot: ttyAMA0 says nothing".into()), "{told:?}");
    assert!(told.contains(&"Fulmar: the autopilot is heard again".into()), "{told:?}");
}

#[test]
fn what_is_wrong_with_the_autopilot_stands_first_at_both_ends_and_links_have_the_drones_names() {
    let name = "autopilot::what_is_wrong_with_the_autopilot_stands_first_at_both_ends_and_links_have_the_drones_names";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let mut autopilot = Autopilot::new(rig.directory.path().join("ttyAMA0"));
    let ground =
        "[[mavlink]]\nname = \"ground\"\nkind = \"udp-client\"\naddress = \"127.0.0.1:14550\"\n";
    let pilot = rig.station.run(|| UdpSocket::bind("127.0.0.1:14550").unwrap()).unwrap();
    pilot.set_nonblocking(true).unwrap();
    let station = rig.start_station(ground);
    let serial = format!(
        "[[mavlink]]\nname = \"fc\"\nkind = \"serial\"\nbaud = 921600\ndevice = \"{}\"\n",
        autopilot.device.display()
    );
    let paths = "[[path]]\nname = \"wifi\"\ninterface = \"l0\"\nremote = \"192.168.0.2:14700\"\n\
                 [[path]]\nname = \"lte\"\ninterface = \"l1\"\nremote = \"192.168.1.2:14700\"\n";
    let drone = rig.start_drone(&[], &format!("{paths}{serial}"));
    station.wait_for_paths(2);
    let ends =
        [(&drone, "the autopilot is silent for "), (&station, "its autopilot is silent for ")];
    let steps = [
        (Does::Speak, "", "well"),
        (Does::Nothing, " s: ttyAMA0 says nothing", "silent"),
        (Does::Noise, " s: ttyAMA0 sends noise (baud rate?)", "noise"),
        (Does::Speak, "", "well"),
        (Does::Nothing, " s: ttyAMA0 is missing", "missing"),
    ];
    for (does, cause, state) in steps {
        if state == "missing" {
            autopilot.pull();
        }
        wait_until_told(&mut autopilot, does, ends, cause);
        let status = station.wait_for_within(40, state, |status| {
            status["peers"][0]["far_endpoints"][0]["state"] == state
        });
        let far = &status["peers"][0]["far_endpoints"][0];
        assert_eq!((&far["name"], &far["state"]), (&"ttyAMA0".into(), &state.into()), "{far:#}");
        assert_eq!(status["peers"][0]["autopilot_silent"], state != "well");
        assert_eq!(drone.status()["endpoints"][0]["state"], state);
    }
    let vehicle = &station.status()["peers"][0]["vehicles"][0];
    let shown = ["system", "mode", "armed", "battery_percent"].map(|field| vehicle[field].clone());
    assert_eq!(Value::from(shown.to_vec()), serde_json::json!([7, "LOITER", true, 71]));
    let line = "  vehicle 7: LOITER, armed, battery 71 % (15.2 V), ";
    assert!(station.table().lines().any(|told| told.starts_with(line)), "{}", station.table());

    what_was_told(station.socket(), &pilot);

    // The names stay when an address becomes another one.
    let (old, new) = (Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::new(192, 168, 0, 9));
    rig.drone.run(|| interface_setup::remove_address("l0", old, 24).unwrap()).unwrap();
    rig.drone.run(|| interface_setup::add_address("l0", new, 24).unwrap()).unwrap();
    let status = station.wait_for_within(40, "the path has moved", |status| {
        status["peers"][0]["paths"].as_array().unwrap().iter().any(|path| {
            path["remote"].as_str().unwrap().starts_with("192.168.0.9:")
                && path["state"] == "active"
        })
    });
    let mut names: Vec<_> = status["peers"][0]["paths"].as_array().unwrap().iter().collect();
    names.sort_by_key(|path| path["name"].as_str());
    assert_eq!((&names[0]["name"], &names[1]["name"]), (&"lte".into(), &"wifi".into()));
}
