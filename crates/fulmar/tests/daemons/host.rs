//! A daemon on its own host: it starts, follows its interfaces, and leaves nothing behind.

use std::process::Command;

use crate::rig::{Rig, inside_with_tunnels};
use sys::{interface_setup, interfaces, sandbox};

const TUNNEL: &str = "[tunnel]\naddress = \"10.77.0.2/24\"\n";

/// Whether the drone has an interface of this name.
fn has_interface(rig: &Rig, name: &str) -> bool {
    let list = rig.drone.run(|| interfaces::list().unwrap()).unwrap();
    list.iter().any(|interface| interface.name == name)
}

#[test]
fn daemon_leaves_nothing_behind_however_it_ends() {
    let name = "host::daemon_leaves_nothing_behind_however_it_ends";
    if !inside_with_tunnels(name) {
        return;
    }
    let rig = Rig::new(1);
    for signal in ["TERM", "INT"] {
        let daemon = rig.start_drone(&[0], TUNNEL);
        assert!(has_interface(&rig, "fulmar0"));
        let socket = daemon.socket().to_owned();
        assert!(socket.exists());
        daemon.signal(signal);
        assert_eq!(daemon.end().code(), Some(0));
        assert!(!socket.exists() && !has_interface(&rig, "fulmar0"));
    }
    let daemon = rig.start_drone(&[0], TUNNEL);
    let socket = daemon.socket().to_owned();
    daemon.signal("KILL");
    assert_eq!(daemon.end().code(), None);
    assert!(socket.exists(), "a killed process cannot remove its socket");
    assert!(!has_interface(&rig, "fulmar0"));
    let daemon = rig.start_drone(&[0], TUNNEL);
    assert_eq!(daemon.status()["role"], "drone");
}

#[test]
fn a_daemon_whose_log_has_no_room_flies_on() {
    let name = "host::a_daemon_whose_log_has_no_room_flies_on";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let mut command = Command::new("sh");
    let full = "exec \"$0\" \"$@\" 2>/dev/full";
    command.args(["-c", full, env!("CARGO_BIN_EXE_fulmar")]);
    let head = rig.head("station", "drone", "10.77.0.2/32");
    let text = format!("{head}[[listen]]\naddress = \"0.0.0.0:14700\"\n");
    let station = rig.start_by(command, "station", &rig.station, &text);
    let drone = rig.start_drone(&[0], "");
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
}

#[test]
fn missing_interface_is_an_absent_path_that_joins_and_leaves() {
    let name = "host::missing_interface_is_an_absent_path_that_joins_and_leaves";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station("");
    let drone = rig.start_drone(&[0, 1], "");
    drone.wait_for_paths(1);
    let status = drone.status();
    let path = &status["peers"][0]["paths"][1];
    assert_eq!(path["state"], "absent", "{status:#}");
    assert!(path["trouble"].as_str().unwrap().contains("no interface l1"), "{path:#}");

    rig.add_link(1);
    drone.wait_for_paths(2);
    station.wait_for_paths(2);

    rig.drone.run(|| interface_setup::remove("l1").unwrap()).unwrap();
    let status = drone.wait_for_paths(1);
    assert_eq!(status["peers"][0]["paths"][1]["state"], "absent");

    rig.add_link(1);
    drone.wait_for_paths(2);
}

#[test]
fn another_address_is_another_socket() {
    let name = "host::another_address_is_another_socket";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station("");
    let drone = rig.start_drone(&[0], "");
    drone.wait_for_paths(1);
    let remote = |status: serde_json::Value| status["peers"][0]["paths"][0]["remote"].to_string();
    let old = remote(station.wait_for_paths(1));
    assert!(old.contains("192.168.0.1:"));
    rig.drone
        .run(|| {
            interface_setup::remove_address("l0", std::net::Ipv4Addr::new(192, 168, 0, 1), 24)
                .unwrap();
            interface_setup::add_address("l0", std::net::Ipv4Addr::new(192, 168, 0, 7), 24)
                .unwrap();
        })
        .unwrap();
    station.wait_for("the path has moved", |status| {
        let path = &status["peers"][0]["paths"][0];
        path["state"] == "active" && path["remote"].as_str().unwrap().contains("192.168.0.7:")
    });
    drone.wait_for_paths(1);
}

#[test]
fn second_daemon_of_a_file_is_refused() {
    let name = "host::second_daemon_of_a_file_is_refused";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(0);
    let daemon = rig.start_drone(&[0], "");
    let file = daemon.socket().with_extension("toml");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_fulmar"))
        .arg("run")
        .arg(file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("another daemon answers there"), "{error}");
    assert_eq!(daemon.status()["role"], "drone");
}

#[test]
fn removed_tunnel_is_made_anew() {
    let name = "host::removed_tunnel_is_made_anew";
    if !inside_with_tunnels(name) {
        return;
    }
    let rig = Rig::new(0);
    let daemon = rig.start_drone(&[0], TUNNEL);
    rig.drone.run(|| interface_setup::remove("fulmar0").unwrap()).unwrap();
    assert!(!has_interface(&rig, "fulmar0"));
    daemon.wait_for("the tunnel is back", |_| has_interface(&rig, "fulmar0"));
}
