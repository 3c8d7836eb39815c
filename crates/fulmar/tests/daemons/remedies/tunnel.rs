//! The tunnel: addresses that one end does not allow, an end without one, and a daemon that may not
//! make it.

use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{
    PATIENCE, assert_not_blamed, bind, edit_and_reload, restart, wait_until_gone, wait_until_told,
};
use crate::rig::{Rig, inside_with_tunnels};

const DRONE: &str = "[tunnel]\ninterface = \"t0\"\naddress = \"10.77.0.2/24\"\n";
const STATION: &str = "[tunnel]\ninterface = \"t0\"\naddress = \"10.77.0.1/24\"\n";
const NO_LINKS: [&str; 3] = ["firewall", "not connected", "no answer"];

/// Sends packets from the drone to the station until one comes, for so long.
fn passes(near: &UdpSocket, far: &UdpSocket, time: Duration) -> bool {
    let (deadline, mut buffer) = (Instant::now() + time, [0; 64]);
    while Instant::now() < deadline {
        let _ = near.send_to(b"through the tunnel", "10.77.0.1:5600");
        if far.recv(&mut buffer).is_ok() {
            return true;
        }
    }
    false
}

#[test]
fn allowed_addresses_without_the_drones() {
    if !inside_with_tunnels("remedies::tunnel::allowed_addresses_without_the_drones") {
        return;
    }
    let rig = Rig::new(1);
    // The rig's file of the station allows 10.77.0.2, that of the drone 10.77.0.1.
    let station = rig.start_station(STATION);
    let drone = rig.start_drone(&[0], &DRONE.replace("10.77.0.2", "10.77.0.9"));
    drone.wait_for_paths(1);
    let (near, far) = (bind(&rig.drone, "10.77.0.9:5600"), bind(&rig.station, "10.77.0.1:5600"));
    assert!(!passes(&near, &far, Duration::from_millis(500)));
    let words = "from a wrong address (the last from drone: 10.77.0.9, which its allowed_addresses here do not have)";
    let told = wait_until_told(&station, &[words]);
    assert_not_blamed(&told, &NO_LINKS);
    station.wait_for_log("10.77.0.9");
    let _ = far.send_to(b"there", "10.77.0.9:5600");
    let words = "to nobody (the last to 10.77.0.9, which no allowed_addresses here have)";
    wait_until_told(&station, &[words]);
    edit_and_reload(&rig, &station, "station", ("10.77.0.2/32", "10.77.0.9/32"));
    assert!(passes(&near, &far, PATIENCE));
}

#[test]
fn a_tunnel_at_one_end_alone() {
    if !inside_with_tunnels("remedies::tunnel::a_tunnel_at_one_end_alone") {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station("");
    let drone = rig.start_drone(&[0], DRONE);
    drone.wait_for_paths(1);
    let near = bind(&rig.drone, "10.77.0.2:5600");
    near.send_to(b"through the tunnel", "10.77.0.1:5600").unwrap();
    let words = "the other end sends packets of a tunnel, and this file has no [tunnel]";
    let told = wait_until_told(&station, &[words]);
    assert_not_blamed(&told, &NO_LINKS);
    let file = rig.directory.path().join("station.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text + STATION).unwrap();
    let station = restart(&rig, station, "station");
    drone.wait_for_paths(1);
    let far = bind(&rig.station, "10.77.0.1:5600");
    assert!(passes(&near, &far, PATIENCE));
    wait_until_gone(&station, words);
}

#[test]
fn a_daemon_that_may_not_make_the_tunnel() {
    if !inside_with_tunnels("remedies::tunnel::a_daemon_that_may_not_make_the_tunnel") {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station(STATION);
    let text = format!(
        "{}[[path]]\ninterface = \"l0\"\nremote = \"192.168.0.2:14700\"\n{DRONE}",
        rig.head("drone", "station", "10.77.0.1/32")
    );
    let mut command = Command::new("setpriv");
    command.args(["--inh-caps=-net_admin", "--bounding-set=-net_admin"]);
    command.arg(env!("CARGO_BIN_EXE_fulmar"));
    let drone = rig.start_by(command, "drone", &rig.drone, &text);
    // All else works.
    drone.wait_for_paths(1);
    let words = "it needs /dev/net/tun and CAP_NET_ADMIN";
    let told = wait_until_told(&drone, &["! tunnel t0: ", words]);
    assert_not_blamed(&told, &NO_LINKS);
    let drone = restart(&rig, drone, "drone");
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    wait_until_gone(&drone, "! tunnel");
    let (near, far) = (bind(&rig.drone, "10.77.0.2:5600"), bind(&rig.station, "10.77.0.1:5600"));
    assert!(passes(&near, &far, PATIENCE));
}
