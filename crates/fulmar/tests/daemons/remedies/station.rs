//! Where the station listens, and daemons that cannot be asked.

use std::process::Command;

use sys::sandbox;

use super::{
    AUTOPILOT, GROUND, assert_heartbeats_come, bind, checked, edit_and_reload, line,
    wait_until_gone, wait_until_told,
};
use crate::rig::Rig;

#[test]
fn another_program_at_the_stations_port() {
    if !sandbox::inside("remedies::station::another_program_at_the_stations_port") {
        return;
    }
    let rig = Rig::new(1);
    let other = bind(&rig.station, "0.0.0.0:14700");
    let station = rig.start_station(GROUND);
    let words = "bind 0.0.0.0:14700: Address already in use (os error 98); ss -ulpn shows who";
    wait_until_told(&station, &["! listen", words]);
    let told = checked(&rig, "station");
    assert!(
        told.contains("0.0.0.0:14700 is in use: by this file's daemon, or by another"),
        "{told}"
    );
    let drone = rig.start_drone(&[0], AUTOPILOT);
    wait_until_told(&drone, &["no answer yet on any path"]);
    drop(other);
    drone.wait_for_paths(1);
    wait_until_gone(&station, "! listen");
    assert_heartbeats_come(&rig);
}

#[test]
fn a_station_that_listens_where_it_has_no_address_or_for_itself_alone() {
    let name =
        "remedies::station::a_station_that_listens_where_it_has_no_address_or_for_itself_alone";
    if !sandbox::kernel_answers(name) || !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let text = format!(
        "{}[[listen]]\naddress = \"192.168.0.22:14700\"\n{GROUND}",
        rig.head("station", "drone", "10.77.0.2/32")
    );
    let station = rig.start("station", &rig.station, &text);
    let words = "no interface of this host has";
    wait_until_told(&station, &["! listen", words]);
    let told = checked(&rig, "station");
    assert!(told.contains(words), "{told}");
    // The rig has keys and sockets in one folder, as nobody should.
    assert!(told.contains("station.sock lies in the folder of the keys"), "{told}");
    let drone = rig.start_drone(&[0], AUTOPILOT);
    wait_until_told(&drone, &["192.168.0.2:14700 answers that nothing takes UDP there"]);
    // An address that it has, and that nobody else reaches.
    edit_and_reload(&rig, &station, "station", ("192.168.0.22:", "127.0.0.1:"));
    wait_until_gone(&station, "! listen");
    let told = checked(&rig, "station");
    assert!(told.contains("127.0.0.1:14700 is for programs of this computer alone"), "{told}");
    edit_and_reload(&rig, &station, "station", ("127.0.0.1:14700", "0.0.0.0:14700"));
    drone.wait_for_paths(1);
    assert_heartbeats_come(&rig);
}

#[test]
fn a_daemon_that_does_not_run_and_one_that_runs_twice() {
    if !sandbox::inside("remedies::station::a_daemon_that_does_not_run_and_one_that_runs_twice") {
        return;
    }
    let rig = Rig::new(1);
    let socket = rig.directory.path().join("station.sock");
    let status = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
        let output = command.args(["status", "--socket"]).arg(&socket).output().unwrap();
        (output.status.success(), line(&String::from_utf8_lossy(&output.stderr)))
    };
    let (runs, told) = status();
    assert!(!runs && told.contains("no daemon runs at "), "{told}");
    let _station = rig.start_station(GROUND);
    assert!(status().0);
    let mut second = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    second.arg("run").arg(rig.directory.path().join("station.toml"));
    rig.station.place(&mut second);
    let output = second.output().unwrap();
    let told = line(&String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success() && told.contains("another daemon answers there"), "{told}");
    let drone = rig.start_drone(&[0], AUTOPILOT);
    drone.wait_for_paths(1);
    assert_heartbeats_come(&rig);
}
