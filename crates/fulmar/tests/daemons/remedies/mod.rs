//! Faults of a first day, each caused as an operator causes it: what both ends say leads to it,
//! nothing else is blamed, and what docs/when-it-is-wrong.md says puts it right.

mod endpoints;
mod keys;
mod links;
mod station;
mod tunnel;

use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use sys::netns::Namespace;

use crate::flight::heartbeat;
use crate::rig::{Daemon, Rig, on};

/// What is waited for comes within a few seconds; a loaded machine takes its time.
const PATIENCE: Duration = Duration::from_secs(30);

/// The autopilot's endpoint of the drone.
const AUTOPILOT: &str =
    "[[mavlink]]\nname = \"autopilot\"\nkind = \"udp-server\"\naddress = \"127.0.0.1:14555\"\n";
/// The ground station's endpoint of the station.
const GROUND: &str =
    "[[mavlink]]\nname = \"ground\"\nkind = \"udp-client\"\naddress = \"127.0.0.1:14550\"\n";

/// Returns a text as one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits until `fulmar status` says all of some words, as a person reads it; returns what it says.
fn wait_until_told(daemon: &Daemon, words: &[&str]) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = line(&daemon.table());
        if words.iter().all(|words| told.contains(words)) {
            return told;
        }
        assert!(Instant::now() < deadline, "waited in vain for {words:?}:\n{}", daemon.table());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until `fulmar status` says something no more.
fn wait_until_gone(daemon: &Daemon, words: &str) {
    let deadline = Instant::now() + PATIENCE;
    while line(&daemon.table()).contains(words) {
        assert!(Instant::now() < deadline, "{words} stays:\n{}", daemon.table());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Requires that none of some words is said.
fn assert_not_blamed(told: &str, words: &[&str]) {
    for words in words {
        assert!(!told.contains(words), "{words}: {told}");
    }
}

/// What `fulmar check` says of an end's file, on its host.
fn checked(rig: &Rig, end: &str) -> String {
    let host = if end == "station" { &rig.station } else { &rig.drone };
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.arg("check").arg(rig.directory.path().join(format!("{end}.toml")));
    host.place(&mut command);
    line(&String::from_utf8(command.output().unwrap().stderr).unwrap())
}

/// Writes something else into an end's file.
fn edit(rig: &Rig, end: &str, old: &str, new: &str) {
    let file = rig.directory.path().join(format!("{end}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(old), "{old}: {text}");
    std::fs::write(&file, text.replace(old, new)).unwrap();
}

/// Does the same, and `fulmar reload`.
fn edit_and_reload(rig: &Rig, daemon: &Daemon, end: &str, (old, new): (&str, &str)) {
    edit(rig, end, old, new);
    reload(daemon);
}

fn reload(daemon: &Daemon) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let output = command.args(["reload", "--socket"]).arg(daemon.socket()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Starts a daemon again by the file that lies there.
fn restart(rig: &Rig, daemon: Daemon, end: &str) -> Daemon {
    drop(daemon);
    let host = if end == "station" { &rig.station } else { &rig.drone };
    let text = std::fs::read_to_string(rig.directory.path().join(format!("{end}.toml"))).unwrap();
    rig.start(end, host, &text)
}

fn bind(host: &Namespace, address: &str) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    socket
}

/// Requires that the vehicle's heartbeats come to the ground station.
fn assert_heartbeats_come(rig: &Rig) {
    let vehicle = bind(&rig.drone, "127.0.0.1:0");
    let ground = bind(&rig.station, "127.0.0.1:14550");
    assert!(heartbeats_come(&vehicle, "127.0.0.1:14555", &ground, PATIENCE), "no heartbeat comes");
}

/// Sends heartbeats until one comes; tells whether one has.
fn heartbeats_come(vehicle: &UdpSocket, to: &str, ground: &UdpSocket, time: Duration) -> bool {
    let (deadline, mut buffer) = (Instant::now() + time, [0; 512]);
    while Instant::now() < deadline {
        vehicle.send_to(&heartbeat(), to).unwrap();
        // RADIO_STATUS and STATUSTEXT of the daemon itself come too.
        while let Ok(length) = ground.recv(&mut buffer) {
            if length == heartbeat().len() && buffer[5..10] == heartbeat()[5..10] {
                return true;
            }
        }
    }
    false
}
