//! What an operator is told who has only `fulmar status`, the log and `fulmar check`.

use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use sys::sandbox;
use sys::serial::PseudoTerminal;

use crate::lossy::LossyLink;
use crate::rig::{Daemon, Rig};
use crate::stream::Stream;

#[test]
fn a_peer_whose_session_ended_is_not_called_one_that_was_never_heard() {
    let name = "told::a_peer_whose_session_ended_is_not_called_one_that_was_never_heard";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station("");
    assert!(station.table().contains("! not connected: nothing was heard from it yet"));
    let drone = rig.start_drone(&[0], "");
    station.wait_for_paths(1);
    assert_eq!(station.status()["peers"][0]["ended_s"], serde_json::Value::Null);
    drone.signal("TERM");
    assert_eq!(drone.end().code(), Some(0));
    let status =
        station.wait_for("the session is over", |status| status["peers"][0]["connected"] == false);
    assert_eq!(status["peers"][0]["ended_why"], "the peer closed it");
    let table = station.table();
    assert!(table.contains("! not connected: last heard "), "{table}");
    assert!(table.contains(" ago, when its session ended: the peer closed it"), "{table}");
    let drone = rig.start_drone(&[0], "");
    let status = station.wait_for_paths(1);
    assert_eq!(status["peers"][0]["ended_why"], "");
    station.signal("TERM");
    drone.wait_for("the drone says the same", |status| {
        let trouble = status["peers"][0]["trouble"].as_str().unwrap();
        trouble.contains("when its session ended: the peer closed it; no answer since")
    });
}

#[test]
fn a_key_that_no_peer_has_is_told_at_both_ends_in_words() {
    let name = "told::a_key_that_no_peer_has_is_told_at_both_ends_in_words";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station("");
    let other = rig.make_keys("other");
    let head = rig.head("drone", "station", "10.77.0.1/32").replace("drone.key", "other.key");
    let path = "[[path]]\ninterface = \"l0\"\nremote = \"192.168.0.2:14700\"\n";
    let drone = rig.start("drone", &rig.drone, &format!("{head}{path}"));
    let status = station
        .wait_for("it has tried", |status| status["strangers"]["unknown_peers"].as_u64() > Some(0));
    assert!(status["strangers"]["unknown_peers_last_s"].as_f64() < Some(10.0), "{status:#}");
    let table = station.table();
    let line = "handshakes with a key, or preshared key, that no peer here has: ";
    assert!(table.lines().any(|told| told.contains(line) && told.ends_with(" s ago")), "{table}");
    let status = drone.wait_for("it is refused", |status| status["peers"][0]["refused"] == true);
    let trouble = status["peers"][0]["trouble"].as_str().unwrap().to_owned();
    assert!(trouble.contains(&format!("does not know our public key {other}")), "{trouble}");
}

#[test]
fn loss_inwards_and_the_interface_stand_in_the_stations_table() {
    let name = "told::loss_inwards_and_the_interface_stand_in_the_stations_table";
    if !sandbox::inside(name) {
        return;
    }
    let mut rig = Rig::new(1);
    let link = LossyLink::new(&mut rig, 200, Duration::ZERO);
    let station = rig.start_station(Stream::STATION);
    let drone = rig.start_drone(&[0], Stream::DRONE);
    drone.wait_for_paths(1);
    let stream = Stream::new(&rig);
    let lossy = |table: &str| table.contains("of what the peer sends");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !lossy(&station.table()) {
        assert!(Instant::now() < deadline, "{}", station.table());
        stream.run_for(Duration::from_secs(1));
    }
    let table = station.table();
    let head = table.lines().find(|line| line.trim_start().starts_with("path ")).unwrap();
    assert!(head.contains("interface") && head.contains("loss out") && head.contains("loss in"));
    let row = table.lines().find(|line| line.trim_start().starts_with("l0 ")).unwrap();
    assert!(row.contains("  lo  "), "{table}");
    drop(link);
}

#[test]
fn a_name_that_cannot_be_looked_up_is_told_everywhere_and_logged_once() {
    let name = "told::a_name_that_cannot_be_looked_up_is_told_everywhere_and_logged_once";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let paths = "[[path]]\ninterface = \"l0\"\nremote = \"nobody.invalid:14700\"\n\
                 [[path]]\ninterface = \"l1\"\nremote = \"192.168.1.2:14700\"\n";
    let text = format!("{}{paths}", rig.head("drone", "station", "10.77.0.1/32"));
    let drone = rig.start("drone", &rig.drone, &text);
    let told = "nobody.invalid cannot be looked up: ";
    let status = drone.wait_for_within(30, "the lookup has failed", |status| {
        status["peers"][0]["trouble"].as_str().unwrap().contains(told)
    });
    let peer = &status["peers"][0];
    let trouble = peer["trouble"].as_str().unwrap();
    assert!(trouble.ends_with("; no interface of the other paths is there"), "{trouble}");
    let by_name = |name: &str| {
        let paths = peer["paths"].as_array().unwrap();
        paths.iter().find(|path| path["name"] == name).unwrap()["trouble"].to_string()
    };
    assert!(by_name("l0").contains(told) && by_name("l1").contains("no interface l1"), "{peer:#}");
    drone.wait_for_log(told);
    // Looked up again after 10 s, with the same outcome.
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(drone.log().matches(told).count(), 1);

    let mut check = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    check.arg("check").arg(drone.socket().with_extension("toml"));
    rig.drone.place(&mut check);
    let checked = check.output().unwrap();
    assert_eq!(checked.status.code(), Some(0));
    let warnings = String::from_utf8(checked.stderr).unwrap();
    assert!(warnings.contains(&format!("remote {told}")), "{warnings}");
    assert!(warnings.contains("not verified"), "{warnings}");
    assert!(warnings.contains("no interface l1; interfaces here are "), "{warnings}");
}

#[test]
fn a_clean_end_leaves_no_directory_and_no_warning() {
    let name = "told::a_clean_end_leaves_no_directory_and_no_warning";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let directory = rig.directory.path().join("run");
    let socket = directory.join("fulmar/drone.sock");
    let head = rig.head("drone", "station", "10.77.0.1/32");
    let usual = rig.directory.path().join("drone.sock").display().to_string();
    let head = head.replace(&usual, &socket.display().to_string());
    let maps = directory.join("fulmar/maps");
    let text = format!(
        "{head}[[path]]\ninterface = \"l0\"\nremote = \"192.168.0.2:14700\"\n\
         [[message]]\nname = \"maps\"\nchannel = 31\nkind = \"seqpacket\"\npath = \"{}\"\n",
        maps.display()
    );
    let drone = rig.start("drone", &rig.drone, &text);
    assert!(socket.exists() && maps.exists());
    drone.signal("TERM");
    drone.wait_for_log("stopping");
    let log = rig.directory.path().join("drone.log");
    assert_eq!(drone.end().code(), Some(0));
    assert!(!directory.exists(), "it was made for the sockets");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!log.contains("WARN"), "no session was there to end: {log}");
}

/// What `fulmar status` shows of a daemon, on a terminal of 80 columns.
fn on_a_terminal(daemon: &Daemon) -> String {
    let terminal = PseudoTerminal::open().unwrap();
    let open = || File::options().read(true).write(true).open(terminal.device()).unwrap();
    let sized = Command::new("stty").args(["cols", "80", "rows", "24"]).stdin(open()).status();
    assert!(sized.unwrap().success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.args(["status", "--socket"]).arg(daemon.socket()).env_remove("COLUMNS");
    let mut shown = command.stdout(open()).stdin(open()).spawn().unwrap();
    // Reading fails when nobody has the terminal open: the command has ended, and this end of it is
    // closed.
    drop(command);
    let text: Vec<u8> = std::iter::from_fn(|| terminal.read().ok()).flatten().collect();
    assert!(shown.wait().unwrap().success());
    String::from_utf8(text).unwrap().replace('\r', "")
}

#[test]
fn status_fits_a_terminal_of_80_columns_and_cuts_nothing_off() {
    let name = "told::status_fits_a_terminal_of_80_columns_and_cuts_nothing_off";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let _station = rig.start_station("");
    let paths = "[[path]]\nname = \"the-mobile-network-of-the-village\"\ninterface = \"l0\"\n\
                 remote = \"192.168.0.2:14700\"\n\
                 [[path]]\nname = \"the-network-of-the-farm-in-the-valley\"\ninterface = \"l0\"\n\
                 remote = \"[2001:db8:1234:5678:9abc:def0:1234:5678]:14700\"\n\
                 [[mavlink]]\nname = \"autopilot\"\nkind = \"serial\"\n\
                 device = \"/dev/serial/by-id/usb-Holybro_Pixhawk6C_1F0038001451333337363439-if00\"\n";
    let drone = rig.start_drone(&[], paths);
    drone.wait_for("a path is active", |status| {
        let paths = status["peers"][0]["paths"].as_array().unwrap();
        paths.iter().any(|path| path["state"] == "active")
    });
    drone.wait_for("the autopilot is missed", |status| {
        status["peers"][0]["autopilot_silent"] == true
    });
    let text = on_a_terminal(&drone);
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 80, "{longest}:\n{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        "usb-Holybro_Pixhawk6C_1F0038001451333337363439-if00 is missing",
        "only one path works: nothing is left if it fails",
        "the-network-of-the-farm-in-the-valley: l0 has no IPv6 address",
        "the-mobile-network-of-the-village l0 active",
    ] {
        assert!(words.contains(told), "{told}:\n{text}");
    }
    // For a program, each line is as long as it is.
    assert!(drone.table().lines().any(|line| line.chars().count() > 120), "{}", drone.table());
}
