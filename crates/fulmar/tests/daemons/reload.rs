//! A station's file read again while it flies: peers come, go and get other addresses.

use std::path::Path;
use std::process::{Command, Output};

use sys::sandbox;

use crate::rig::{Daemon, Rig, inside_with_tunnels};

/// Writes the file of a daemon anew.
fn write(rig: &Rig, name: &str, text: &str) {
    std::fs::write(rig.directory.path().join(format!("{name}.toml")), text).unwrap();
}

fn reload(daemon: &Daemon) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.args(["reload", "--socket"]).arg(daemon.socket()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The file of a station with these peers, of which each has its name, key and tunnel addresses.
fn station(rig: &Rig, peers: &[(&str, &str, &str)], more: &str) -> String {
    let socket = rig.directory.path().join("station.sock");
    let peer = |(name, key, allowed): &(&str, &str, &str)| {
        format!(
            "[[peer]]\nname = \"{name}\"\npublic_key = \"{key}\"\nallowed_addresses = \"{allowed}\"\n"
        )
    };
    let peers: String = peers.iter().map(peer).collect();
    format!(
        "role = \"station\"\nprivate_key_file = \"station.key\"\n[status]\nsocket = \"{}\"\n\
         [[listen]]\naddress = \"0.0.0.0:14700\"\n{peers}{more}",
        socket.display()
    )
}

/// Starts a second drone beside the first, with a key of its own.
fn start_second(rig: &Rig, station_key: &str) -> Daemon {
    let text = format!(
        "role = \"drone\"\nprivate_key_file = \"second.key\"\n[status]\nsocket = \"{}\"\n\
         [[peer]]\nname = \"station\"\npublic_key = \"{station_key}\"\n\
         [[path]]\ninterface = \"l0\"\nremote = \"192.168.0.2:14700\"\n\
         [[control]]\nname = \"c\"\nchannel = 9\naddress = \"127.0.0.1:7009\"\n",
        rig.directory.path().join("second.sock").display()
    );
    rig.start("second", &rig.drone, &text)
}

#[test]
fn peers_come_and_go_and_a_bad_file_changes_nothing() {
    let name = "reload::peers_come_and_go_and_a_bad_file_changes_nothing";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let key = |end: &str| {
        let file = rig.directory.path().join(format!("{end}.pub"));
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    };
    let (first_key, second_key) = (key("drone"), rig.make_keys("second"));
    let first_peer = ("first", first_key.as_str(), "10.77.0.2/32");
    let second_peer = ("second", second_key.as_str(), "10.77.0.3/32");
    let only_first = station(&rig, &[first_peer], "");
    let control = "[[control]]\nname = \"c\"\nchannel = 9\npeer = \"second\"\n\
                   address = \"127.0.0.1:7009\"\n";
    let both = station(&rig, &[second_peer, first_peer], control);

    let station = rig.start("station", &rig.station, &only_first);
    let first = rig.start_drone(&[0], "");
    first.wait_for_paths(1);
    station.wait_for_paths(1);
    let second = start_second(&rig, &key("station"));

    write(&rig, "station", &both);
    let output = reload(&station);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("peers: 1 added; "), "{}", text(&output.stdout));
    second.wait_for_paths(1);
    let status = station.wait_for("both are connected", |status| {
        status["peers"][0]["connected"] == true && status["peers"][1]["connected"] == true
    });
    assert_eq!(
        (&status["peers"][0]["name"], &status["endpoints"][0]["peer"]),
        (&"second".into(), &"second".into())
    );

    let bad = [
        (format!("{both}nonsense = 1\n"), "nonsense"),
        (format!("{both}[tunnel]\naddress = \"10.77.0.1/24\"\n"), "[tunnel]: cannot change"),
        (both.replace(&first_key, &second_key), "belongs to two peers"),
    ];
    for (file, why) in bad {
        write(&rig, "station", &file);
        let output = reload(&station);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
        let status = station.status();
        assert!(status["reload"]["problem"].as_str().unwrap().contains(why), "{status:#}");
        assert_eq!(status["peers"][0]["connected"], true);
        assert_eq!(status["peers"][1]["connected"], true);
    }

    // By the signal, as a service manager does it.
    write(&rig, "station", &only_first);
    station.signal("HUP");
    let status = station
        .wait_for("the second is gone", |status| status["peers"].as_array().unwrap().len() == 1);
    assert_eq!(status["peers"][0]["name"], "first");
    assert!(status["endpoints"].as_array().unwrap().is_empty());
    second.wait_for("the session has ended", |status| status["peers"][0]["connected"] == false);
    second.wait_for_log("it was removed there");
    station.wait_for_log("its key was removed here");
    assert!(!first.log().contains("session ended"), "{}", first.log());
    assert_eq!(first.status()["peers"][0]["connected"], true);
}

/// Puts a pipe in the place of a file: who opens it waits until somebody writes.
fn pipe(file: &Path) {
    let _ = std::fs::remove_file(file);
    assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
}

#[test]
fn a_reload_that_hangs_is_given_up_and_the_next_one_removes_the_peer() {
    let name = "reload::a_reload_that_hangs_is_given_up_and_the_next_one_removes_the_peer";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station("");
    let drone = rig.start_drone(&[0], "");
    drone.wait_for_paths(1);
    let file = rig.directory.path().join("station.toml");
    let lines = std::fs::read_to_string(&file).unwrap();

    // As on a share whose server is gone: the file can be read, and what it names cannot.
    pipe(&rig.directory.path().join("dead.psk"));
    let named = lines.replace("[[peer]]\n", "[[peer]]\npreshared_key_file = \"dead.psk\"\n");
    write(&rig, "station", &named);
    for _ in 0..2 {
        let output = reload(&station);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("no answer within"), "{}", text(&output.stderr));
    }
    pipe(&file);
    let output = reload(&station);
    assert!(text(&output.stderr).contains("is a pipe"), "{}", text(&output.stderr));
    assert_eq!(station.status()["peers"][0]["connected"], true);

    std::fs::remove_file(&file).unwrap();
    let (head, _) = lines.split_once("[[peer]]").unwrap();
    write(&rig, "station", &format!("{head}[[listen]]\naddress = \"0.0.0.0:14700\"\n"));
    let output = reload(&station);
    assert!(text(&output.stdout).contains("1 removed"), "{}", text(&output.stderr));
    drone.wait_for("it is cut off", |status| status["peers"][0]["connected"] == false);
}

#[test]
fn a_relay_goes_on_while_a_reload_hangs() {
    let name = "reload::a_relay_goes_on_while_a_reload_hangs";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let folder = rig.directory.path();
    let lines = format!(
        "role = \"relay\"\n[status]\nsocket = \"{}/relay.sock\"\n[relay]\nside = \"ground\"\nnode = 1\n\
         group_key_file = \"relay.key\"\nwire = {{ interface = \"l0\" }}\n\
         radio = {{ interface = \"lo\", address = \"127.0.0.1:14711\", rate_mbps = 10 }}\n",
        folder.display()
    );
    rig.make_keys("relay");
    let relay = rig.start("relay", &rig.station, &lines);
    pipe(&folder.join("dead.key"));
    write(&rig, "relay", &lines.replace("relay.key", "dead.key"));
    relay.signal("HUP");
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(relay.status()["reload"]["count"], 0, "it answers, and has no outcome yet");
    write(&rig, "relay", &lines);
    let status = relay.wait_for_within(20, "it gives up", |status| status["reload"]["count"] == 1);
    assert!(status["reload"]["problem"].as_str().unwrap().contains("no answer"), "{status:#}");
    let output = reload(&relay);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_peers_addresses_change_without_its_session() {
    let name = "reload::a_peers_addresses_change_without_its_session";
    if !inside_with_tunnels(name) {
        return;
    }
    let rig = Rig::new(1);
    let key = std::fs::read_to_string(rig.directory.path().join("drone.pub")).unwrap();
    let tunnel = "[tunnel]\naddress = \"10.77.0.1/24\"\n";
    let file = |allowed: &str| station(&rig, &[("drone", key.trim(), allowed)], tunnel);
    let station = rig.start("station", &rig.station, &file("172.20.0.0/16"));
    let drone = rig.start_drone(&[0], "");
    drone.wait_for_paths(1);
    // As the kernel writes addresses there, the last byte first.
    let routed = |prefix: &str| {
        let read = || std::fs::read_to_string("/proc/thread-self/net/route").unwrap();
        rig.station.run(read).unwrap().lines().any(|line| line.starts_with(prefix))
    };
    assert!(routed("fulmar0\t000014AC") && !routed("fulmar0\t000015AC"));
    write(&rig, "station", &file("172.21.0.0/16"));
    let output = reload(&station);
    assert!(text(&output.stdout).contains("1 with other addresses"), "{output:?}");
    assert!(!routed("fulmar0\t000014AC") && routed("fulmar0\t000015AC"));
    assert_eq!(drone.status()["peers"][0]["connected"], true);
    assert!(!drone.log().contains("session ended"), "{}", drone.log());
}

#[test]
fn what_a_link_is_for_changes_at_both_ends_without_a_new_session() {
    let name = "reload::what_a_link_is_for_changes_at_both_ends_without_a_new_session";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let station = rig.start_station("");
    let file = |second: &str| {
        let path = |number: u8, more: &str| {
            format!(
                "[[path]]\ninterface = \"l{number}\"\nremote = \"192.168.{number}.2:14700\"\n{more}"
            )
        };
        let head = rig.head("drone", "station", "10.77.0.1/32");
        format!("{head}{}{}", path(0, ""), path(1, second))
    };
    let drone = rig.start("drone", &rig.drone, &file("cost = 2.5\nbackup = true\n"));
    drone.wait_for_paths(2);
    let is_so = |cost: f64, backup: bool, serves: &str| {
        let serves = serves.to_owned();
        move |status: &serde_json::Value| {
            let paths = status["peers"][0]["paths"].as_array();
            paths.into_iter().flatten().any(|path| {
                path["cost"] == cost && path["backup"] == backup && path["serves"] == *serves
            })
        }
    };
    for daemon in [&drone, &station] {
        daemon.wait_for("the link is in reserve", is_so(2.5, true, ""));
    }
    write(&rig, "drone", &file("cost = 4\ncarries = [\"control\", \"bulk\"]\n"));
    let output = reload(&drone);
    assert!(text(&output.stdout).contains("paths: 1 used otherwise"), "{output:?}");
    for daemon in [&drone, &station] {
        daemon.wait_for("the link carries less", is_so(4.0, false, "control, bulk"));
        assert!(!daemon.log().contains("session ended"), "{}", daemon.log());
    }
}
