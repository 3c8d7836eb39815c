//! What is wrong between the ends' applications while the session is well.

use std::time::Duration;

use sys::sandbox;

use super::{
    AUTOPILOT, GROUND, assert_heartbeats_come, assert_not_blamed, bind, edit, edit_and_reload,
    heartbeats_come, restart, wait_until_gone, wait_until_told,
};
use crate::rig::Rig;

const NO_LINKS: [&str; 3] = ["firewall", "not connected", "no answer"];
/// Long enough for what does not come.
const MOMENT: Duration = Duration::from_millis(800);

#[test]
fn endpoints_of_two_channels() {
    if !sandbox::inside("remedies::endpoints::endpoints_of_two_channels") {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station(&format!("{GROUND}channel = 2\n"));
    let drone = rig.start_drone(&[0], AUTOPILOT);
    drone.wait_for_paths(1);
    let (vehicle, ground) =
        (bind(&rig.drone, "127.0.0.1:0"), bind(&rig.station, "127.0.0.1:14550"));
    assert!(!heartbeats_come(&vehicle, "127.0.0.1:14555", &ground, MOMENT));
    let words = "what the other end sends by channel 1 comes to no endpoint of this file";
    let told = wait_until_told(&station, &[words]);
    assert_not_blamed(&told, &NO_LINKS);
    station.wait_for_log("comes to no endpoint");
    // The same channel at both ends.
    edit(&rig, "station", "channel = 2\n", "");
    let station = restart(&rig, station, "station");
    drone.wait_for_paths(1);
    assert!(heartbeats_come(&vehicle, "127.0.0.1:14555", &ground, Duration::from_secs(30)));
    wait_until_gone(&station, words);
}

#[test]
fn an_endpoint_of_another_drone() {
    if !sandbox::inside("remedies::endpoints::an_endpoint_of_another_drone") {
        return;
    }
    let rig = Rig::new(1);
    let key = rig.make_keys("second");
    let second = format!("[[peer]]\nname = \"second\"\npublic_key = \"{key}\"\n");
    let endpoint = GROUND.replace("kind", "peer = \"second\"\nkind");
    let station = rig.start_station(&format!("{second}{endpoint}"));
    let drone = rig.start_drone(&[0], AUTOPILOT);
    drone.wait_for_paths(1);
    let (vehicle, ground) =
        (bind(&rig.drone, "127.0.0.1:0"), bind(&rig.station, "127.0.0.1:14550"));
    assert!(!heartbeats_come(&vehicle, "127.0.0.1:14555", &ground, MOMENT));
    let told = wait_until_told(
        &station,
        &["what the other end sends by channel 1 comes to no endpoint of this file"],
    );
    assert!(told.contains("no endpoint here has drone as its peer"), "{told}");
    edit_and_reload(&rig, &station, "station", ("peer = \"second\"", "peer = \"drone\""));
    assert!(heartbeats_come(&vehicle, "127.0.0.1:14555", &ground, Duration::from_secs(30)));
}

#[test]
fn a_ground_station_that_does_not_run_or_has_another_port() {
    let name = "remedies::endpoints::a_ground_station_that_does_not_run_or_has_another_port";
    if !sandbox::kernel_answers(name) || !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station(GROUND);
    let drone = rig.start_drone(&[0], AUTOPILOT);
    drone.wait_for_paths(1);
    let (vehicle, ground) =
        (bind(&rig.drone, "127.0.0.1:0"), bind(&rig.station, "127.0.0.1:14551"));
    assert!(!heartbeats_come(&vehicle, "127.0.0.1:14555", &ground, MOMENT));
    let words = "nobody takes what is sent to 127.0.0.1:14550";
    let told = wait_until_told(&station, &["! endpoint ground: ", words]);
    assert_not_blamed(&told, &NO_LINKS);
    edit_and_reload(&rig, &station, "station", (":14550", ":14551"));
    assert!(heartbeats_come(&vehicle, "127.0.0.1:14555", &ground, Duration::from_secs(30)));
    wait_until_gone(&station, "nobody takes");
}

#[test]
fn another_program_at_the_autopilots_port() {
    if !sandbox::inside("remedies::endpoints::another_program_at_the_autopilots_port") {
        return;
    }
    let rig = Rig::new(1);
    let other = bind(&rig.drone, "127.0.0.1:14555");
    let station = rig.start_station(GROUND);
    let drone = rig.start_drone(&[0], AUTOPILOT);
    drone.wait_for_paths(1);
    let words = "another program is there, ss -tulpnx shows which";
    let told = wait_until_told(&drone, &["! endpoint autopilot: ", words]);
    assert_not_blamed(&told, &NO_LINKS);
    wait_until_told(&station, &["its autopilot is silent for ", "autopilot is missing"]);
    drop(other);
    wait_until_gone(&drone, words);
    assert_heartbeats_come(&rig);
}

#[test]
fn an_autopilot_that_speaks_to_another_port() {
    if !sandbox::inside("remedies::endpoints::an_autopilot_that_speaks_to_another_port") {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station(GROUND);
    let drone = rig.start_drone(&[0], AUTOPILOT);
    drone.wait_for_paths(1);
    // mavlink-router is told 14556, the file says 14555.
    let (vehicle, ground) =
        (bind(&rig.drone, "127.0.0.1:0"), bind(&rig.station, "127.0.0.1:14550"));
    assert!(!heartbeats_come(&vehicle, "127.0.0.1:14556", &ground, MOMENT));
    let told = wait_until_told(&drone, &["the autopilot is silent for ", "autopilot says nothing"]);
    assert_not_blamed(&told, &NO_LINKS);
    wait_until_told(&station, &["its autopilot is silent for "]);
    edit_and_reload(&rig, &drone, "drone", (":14555", ":14556"));
    assert!(heartbeats_come(&vehicle, "127.0.0.1:14556", &ground, Duration::from_secs(30)));
    wait_until_gone(&station, "its autopilot is silent");
}
