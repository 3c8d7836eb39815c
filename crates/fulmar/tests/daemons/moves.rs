//! The station's addresses change, one or all of them.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::interface_setup;
use sys::sandbox;

use crate::rig::{Daemon, Rig};
use crate::stream::Stream;

/// The last byte of the station's address on every link, before and after.
const OLD: u8 = 2;
const NEW: u8 = 9;

/// Gives the station another address on a link.
fn readdress(rig: &Rig, number: u8) {
    let name = format!("l{number}");
    let of = |last| Ipv4Addr::new(192, 168, number, last);
    rig.station
        .run(|| {
            interface_setup::remove_address(&name, of(OLD), 24).unwrap();
            interface_setup::add_address(&name, of(NEW), 24).unwrap();
        })
        .unwrap();
}

fn leads_to(status: &Value, path: usize, last: u8) -> bool {
    let path = &status["peers"][0]["paths"][path];
    let remote = path["remote"].as_str().unwrap();
    path["state"] == "active" && remote.ends_with(&format!(".{last}:14700"))
}

fn wait_until_moved(drone: &Daemon, paths: &[usize]) {
    drone.wait_for("the drone speaks to the new addresses", |status| {
        paths.iter().all(|path| leads_to(status, *path, NEW))
    });
    assert!(!drone.log().contains("session ended"), "{}", drone.log());
}

#[test]
fn an_address_that_changes_on_one_link_costs_no_control() {
    let name = "moves::an_address_that_changes_on_one_link_costs_no_control";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let _station = rig.start_station(Stream::STATION);
    let drone = rig.start_drone(&[0, 1], Stream::DRONE);
    drone.wait_for_paths(2);
    let stream = Stream::new(&rig);
    stream.run_for(Duration::from_millis(500));
    readdress(&rig, 1);
    let deadline = Instant::now() + Duration::from_secs(10);
    let worst = stream.run_while(|| {
        assert!(Instant::now() < deadline, "{:#}", drone.status());
        !leads_to(&drone.status(), 1, NEW)
    });
    println!("control waited {worst:?} at most");
    wait_until_moved(&drone, &[1]);
    assert!(leads_to(&drone.status(), 0, OLD));
}

#[test]
fn addresses_that_change_on_all_links_end_no_session() {
    let name = "moves::addresses_that_change_on_all_links_end_no_session";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let station = rig.start_station("");
    let drone = rig.start_drone(&[0, 1], "");
    drone.wait_for_paths(2);
    (0..2).for_each(|number| readdress(&rig, number));
    wait_until_moved(&drone, &[0, 1]);
    station.wait_for_paths(2);
}

/// Starts the drone with one path, and its own view of /etc/hosts.
fn start_drone(rig: &Rig, remote: &str) -> Daemon {
    let hosts = rig.directory.path().join("hosts");
    if !hosts.exists() {
        std::fs::write(&hosts, "").unwrap();
    }
    let key = std::fs::read_to_string(rig.directory.path().join("station.pub")).unwrap();
    let text = format!(
        "role = \"drone\"\nprivate_key_file = \"drone.key\"\n[status]\nsocket = \"{}\"\n\
         [[peer]]\nname = \"station\"\npublic_key = \"{}\"\n\
         [[path]]\ninterface = \"l0\"\nremote = {remote}\n",
        rig.directory.path().join("drone.sock").display(),
        key.trim(),
    );
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "--", "sh", "-c", script]).arg(&hosts);
    command.arg(env!("CARGO_BIN_EXE_fulmar"));
    rig.start_by(command, "drone", &rig.drone, &text)
}

#[test]
fn a_path_looks_at_each_of_its_addresses() {
    let name = "moves::a_path_looks_at_each_of_its_addresses";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    readdress(&rig, 0);
    let drone = start_drone(&rig, "[\"192.168.0.2:14700\", \"192.168.0.9:14700\"]");
    let _station = rig.start_station("");
    drone.wait_for("it is found", |status| leads_to(status, 0, NEW));
}

#[test]
fn names_are_looked_up_again_when_a_path_dies() {
    let name = "moves::names_are_looked_up_again_when_a_path_dies";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let hosts = rig.directory.path().join("hosts");
    std::fs::write(&hosts, "192.168.0.2 station.test\n").unwrap();
    let station = rig.start_station("");
    let drone = start_drone(&rig, "\"station.test:14700\"");
    drone.wait_for("it is found", |status| leads_to(status, 0, OLD));
    // Somebody who has moved, and cannot say so.
    drop(station);
    readdress(&rig, 0);
    std::fs::write(&hosts, "192.168.0.9 station.test\n").unwrap();
    let _station = rig.start_station("");
    drone.wait_for_within(40, "it is found again", |status| leads_to(status, 0, NEW));
}
