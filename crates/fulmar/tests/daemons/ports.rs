//! Ports of local endpoints that others have, or that are found by a name: serial ports, TCP and
//! UDP clients.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use sys::sandbox;
use sys::serial::PseudoTerminal;

use crate::flight::heartbeat;
use crate::rig::Rig;

/// Returns what the report says of an endpoint.
fn trouble(status: &Value, name: &str) -> String {
    let endpoints = status["endpoints"].as_array().unwrap();
    let endpoint = endpoints.iter().find(|it| it["name"] == name).unwrap();
    endpoint["trouble"].as_str().unwrap().to_owned()
}

/// Returns what `fulmar check` says of a drone's file.
fn checked(rig: &Rig) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.arg("check").arg(rig.directory.path().join("drone.toml"));
    rig.drone.place(&mut command);
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

#[test]
fn a_serial_port_that_another_program_has_is_told_with_its_name_and_taken_afterwards() {
    let name =
        "ports::a_serial_port_that_another_program_has_is_told_with_its_name_and_taken_afterwards";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let line = PseudoTerminal::open().unwrap();
    let port = |device: &str| {
        format!("[[mavlink]]\nname = \"autopilot\"\nkind = \"serial\"\ndevice = \"{device}\"\n")
    };
    // As pyserial does with exclusive=True.
    let other = File::open(line.device()).unwrap();
    other.lock().unwrap();
    let drone = rig.start_drone(&[0], &port(&line.device().display().to_string()));
    let us = format!("(process {})", std::process::id());
    drone.wait_for("it says who has the port", |status| {
        let trouble = trouble(status, "autopilot");
        trouble.contains("another program has it for itself") && trouble.contains(&us)
    });
    let checked = checked(&rig);
    assert!(checked.contains("is in use") && checked.contains(&us), "{checked}");
    // One that locks nothing and reads along, of a user with no more rights than the daemon has
    // left.
    let script = format!("exec 3<{}; exec sleep 100", line.device().display());
    let mut along = Command::new("setpriv")
        .args(["--inh-caps=-all", "--bounding-set=-all", "sh", "-c", &script])
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop(other);
    drone.wait_for_within(30, "it has it, and somebody reads along", |status| {
        trouble(status, "autopilot")
            .contains(&format!("(process {}) has it open as well", along.id()))
    });
    along.kill().unwrap();
    along.wait().unwrap();
    line.write(&heartbeat()).unwrap();
    drone.wait_for_within(30, "it has it alone", |status| {
        !trouble(status, "autopilot").contains("has it open as well")
    });

    // Now nobody else gets it: by flock, by the kernel for whoever is not root, and by a lock file.
    let other = File::open(line.device());
    assert!(other.map_or(true, |other| other.try_lock().is_err()));
    let file = line.device().strip_prefix("/dev").unwrap().display().to_string();
    let file = format!("/run/lock/LCK..{}", file.replace('/', "_"));
    if std::path::Path::new("/run/lock").is_dir() {
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().next().unwrap().trim(), drone.process().to_string(), "{text}");
    }
    drone.signal("TERM");
    drone.end();
    assert!(!std::path::Path::new(&file).exists());
}

#[test]
fn a_tcp_client_connects_each_second_and_passes_frames_both_ways() {
    let name = "ports::a_tcp_client_connects_each_second_and_passes_frames_both_ways";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let endpoint = |kind: &str, address: &str| {
        format!("[[mavlink]]\nname = \"it\"\nkind = \"{kind}\"\naddress = \"{address}\"\n")
    };
    let station = rig.start_station(&endpoint("udp-client", "localhost:14550"));
    let drone = rig.start_drone(&[0], &endpoint("tcp-client", "localhost:5760"));
    let status = drone.wait_for("nobody is there", |status| {
        trouble(status, "it").contains("not connected: 127.0.0.1:5760: Connection refused")
    });
    assert!(trouble(&status, "it").contains("it is tried every second"), "{status:#}");
    drone.wait_for_paths(1);
    let ground = rig.station.run(|| UdpSocket::bind("127.0.0.1:14550").unwrap()).unwrap();
    ground.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let simulator = rig.drone.run(|| TcpListener::bind("127.0.0.1:5760").unwrap()).unwrap();
    for _ in 0..2 {
        let (mut vehicle, _) = simulator.accept().unwrap();
        vehicle.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        drone.wait_for("it is connected", |status| trouble(status, "it").is_empty());
        vehicle.write_all(&heartbeat()).unwrap();
        let mut buffer = [0; 512];
        let (length, from) = ground.recv_from(&mut buffer).unwrap();
        assert!(length >= heartbeat().len());
        let theirs = proto::select::encode_frame(
            proto::select::Version::V2,
            1,
            (255, 190),
            0,
            &[0, 0, 0, 0, 6, 8, 0, 4, 3],
        )
        .unwrap();
        ground.send_to(&theirs, from).unwrap();
        let read = vehicle.read(&mut buffer).unwrap();
        assert!(read >= theirs.len());
        drop(vehicle);
        drone.wait_for("it is told", |status| !trouble(status, "it").is_empty());
    }
    station.wait_for_paths(1);
}
