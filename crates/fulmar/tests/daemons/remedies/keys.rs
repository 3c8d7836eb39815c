//! Keys that do not fit.

use sys::sandbox;

use super::{
    AUTOPILOT, GROUND, assert_heartbeats_come, assert_not_blamed, edit, edit_and_reload, reload,
    restart, wait_until_gone, wait_until_told,
};
use crate::rig::Rig;

/// What must not be blamed where keys are wrong.
const NO_NETWORK: [&str; 3] = ["firewall", "route", "gateway"];

fn public(rig: &Rig, end: &str) -> String {
    let text = std::fs::read_to_string(rig.directory.path().join(format!("{end}.pub"))).unwrap();
    text.trim().to_owned()
}

#[test]
fn a_wrong_station_key() {
    if !sandbox::inside("remedies::keys::a_wrong_station_key") {
        return;
    }
    let rig = Rig::new(1);
    let (right, wrong) = (public(&rig, "station"), rig.make_keys("other"));
    let station = rig.start_station(GROUND);
    let head = rig.head("drone", "other", "10.77.0.1/32");
    let path = "[[path]]\ninterface = \"l0\"\nremote = \"192.168.0.2:14700\"\n";
    let drone = rig.start("drone", &rig.drone, &format!("{head}{path}{AUTOPILOT}"));
    let must_be = format!("The public key there must be {wrong}");
    wait_until_told(&drone, &["are the keys and addresses right at both ends?", &must_be]);
    let told = wait_until_told(&station, &["handshakes for another public key than ours: "]);
    assert_not_blamed(&told, &["that no peer here has", "preshared"]);
    assert!(told.contains(&right), "the key that the drone's file needs: {told}");
    // The station's key, as its status shows it, into the drone's file.
    edit(&rig, "drone", &wrong, &right);
    let drone = restart(&rig, drone, "drone");
    drone.wait_for_paths(1);
    assert_heartbeats_come(&rig);
}

#[test]
fn a_drone_that_the_station_does_not_know() {
    if !sandbox::inside("remedies::keys::a_drone_that_the_station_does_not_know") {
        return;
    }
    let rig = Rig::new(1);
    let (right, wrong) = (public(&rig, "drone"), rig.make_keys("other"));
    let station = rig.start_station(GROUND);
    edit_and_reload(&rig, &station, "station", (&right, &wrong));
    let drone = rig.start_drone(&[0], AUTOPILOT);
    let told = wait_until_told(&drone, &[&format!("does not know our public key {right}")]);
    assert_not_blamed(&told, &NO_NETWORK);
    wait_until_told(&station, &["with a key, or preshared key, that no peer here has: "]);
    edit_and_reload(&rig, &station, "station", (&wrong, &right));
    drone.wait_for_paths(1);
    assert_heartbeats_come(&rig);
}

#[test]
fn a_preshared_key_at_one_end_alone() {
    if !sandbox::inside("remedies::keys::a_preshared_key_at_one_end_alone") {
        return;
    }
    let rig = Rig::new(1);
    let file = rig.directory.path().join("preshared.key");
    std::fs::write(&file, "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=\n").unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, private).unwrap();
    let station = rig.start_station(GROUND);
    let head = rig.head("drone", "station", "10.77.0.1/32");
    let line = "preshared_key_file = \"preshared.key\"\n";
    let path = "[[path]]\ninterface = \"l0\"\nremote = \"192.168.0.2:14700\"\n";
    let drone = rig.start("drone", &rig.drone, &format!("{head}{line}{path}{AUTOPILOT}"));
    let told = wait_until_told(&drone, &["or one end has another preshared key"]);
    assert_not_blamed(&told, &NO_NETWORK);
    wait_until_told(&station, &["with a key, or preshared key, that no peer here has: "]);
    // At both ends: the same file.
    edit_and_reload(
        &rig,
        &station,
        "station",
        ("name = \"drone\"\n", &format!("name = \"drone\"\n{line}")),
    );
    drone.wait_for_paths(1);
    assert_heartbeats_come(&rig);
}

#[test]
fn two_airframes_with_one_key() {
    if !sandbox::inside("remedies::keys::two_airframes_with_one_key") {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station(GROUND);
    let drone = rig.start_drone(&[0], AUTOPILOT);
    drone.wait_for_paths(1);
    // The card of the first airframe, copied.
    let head = rig.head("drone", "station", "10.77.0.1/32").replace("drone.sock", "second.sock");
    let path = "[[path]]\ninterface = \"l0\"\nremote = \"192.168.0.2:14700\"\n";
    let second = rig.start("second", &rig.drone, &format!("{head}{path}"));
    let told = wait_until_told(&station, &["another daemon with its key came from 192.168.0.1:"]);
    assert_not_blamed(&told, &NO_NETWORK);
    wait_until_told(&second, &["another one uses our key: two daemons must not have the same"]);
    // A key of its own, and a [[peer]] at the station.
    let key = rig.make_keys("second");
    let peer = format!("[[peer]]\nname = \"second\"\npublic_key = \"{key}\"\n");
    let text = std::fs::read_to_string(rig.directory.path().join("station.toml")).unwrap();
    let text = text.replace("kind = \"udp-client\"", "peer = \"drone\"\nkind = \"udp-client\"");
    std::fs::write(rig.directory.path().join("station.toml"), text + &peer).unwrap();
    reload(&station);
    edit(&rig, "second", "drone.key", "second.key");
    drop(second);
    let text = std::fs::read_to_string(rig.directory.path().join("second.toml")).unwrap();
    let second = rig.start("second", &rig.drone, &text);
    second.wait_for_paths(1);
    station.wait_for("both are there", |status| {
        status["peers"].as_array().unwrap().iter().all(|peer| peer["connected"] == true)
    });
    wait_until_gone(&station, "another daemon with its key");
    assert_heartbeats_come(&rig);
}
