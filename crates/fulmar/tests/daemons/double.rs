//! One key in two places: a second daemon with the drone's key takes nothing from the first.

use std::time::Duration;

use sys::sandbox;

use crate::rig::Rig;
use crate::stream::Stream;

/// How long both fly.
const BOTH: Duration = Duration::from_secs(8);
/// The longest that a message may take meanwhile: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(2);

#[test]
fn a_second_daemon_with_the_drones_key_is_turned_away_and_both_ends_say_so() {
    let name = "double::a_second_daemon_with_the_drones_key_is_turned_away_and_both_ends_say_so";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let station = rig.start_station(Stream::STATION);
    let drone = rig.start_drone(&[0, 1], Stream::DRONE);
    drone.wait_for_paths(2);
    station.wait_for_paths(2);
    let session = |status: &serde_json::Value| status["peers"][0]["connected"] == true;
    let stream = Stream::new(&rig);
    let head = rig.head("drone", "station", "10.77.0.1/32").replace("drone.sock", "second.sock");
    let path = |number| {
        format!("[[path]]\ninterface = \"l{number}\"\nremote = \"192.168.{number}.2:14700\"\n")
    };
    let second = rig.start("second", &rig.drone, &format!("{head}{}{}", path(0), path(1)));
    let worst = stream.run_for(BOTH);
    assert!(worst < PATIENCE, "control waited {worst:?}: {:#}", station.status());
    assert!(session(&drone.status()) && session(&station.status()));
    station.wait_for_log("another daemon has this peer's key");
    second.wait_for_log("two daemons must not have the same");
    // Every 2 s it is connected for the moment in which the station finds out.
    second.wait_for("the second is turned away", |status| !session(status));
    drop(drone);
    // The older one is silent: the key is the second's now.
    second.wait_for_paths(2);
}
