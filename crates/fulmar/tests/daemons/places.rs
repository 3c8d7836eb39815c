//! What of a host is not there yet, or changes: addresses, folders, places of sockets. A drone flies meanwhile.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::{interface_setup, sandbox};

use crate::rig::{Daemon, Rig};

/// Returns what `fulmar check` says of a drone's file.
fn checked(rig: &Rig, file: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.arg("check").arg(rig.directory.path().join(file));
    rig.drone.place(&mut command);
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

/// Names what the report says is not there, of endpoints.
fn troubles(status: &Value) -> Vec<(String, String)> {
    let endpoints = status["endpoints"].as_array().unwrap().iter();
    let told = endpoints.map(|it| (it["name"].as_str().unwrap(), it["trouble"].as_str().unwrap()));
    let told = told.filter(|(_, trouble)| !trouble.is_empty());
    told.map(|(name, trouble)| (name.to_owned(), trouble.to_owned())).collect()
}

#[test]
fn a_session_runs_whatever_of_the_hosts_is_not_there_yet() {
    let name = "places::a_session_runs_whatever_of_the_hosts_is_not_there_yet";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let directory = rig.directory.path().to_owned();
    // Nobody makes anything below a file, root included.
    let blocked = directory.join("blocked");
    std::fs::write(&blocked, "").unwrap();
    let below = |name: &str| blocked.join(name).display().to_string();
    let station =
        rig.start_station("[[listen]]\nname = \"spare\"\naddress = \"192.168.88.2:14701\"\n");
    let more = format!(
        "[[mavlink]]\nname = \"camera\"\nkind = \"udp-server\"\naddress = \"192.168.88.1:5600\"\n\
         [[mavlink]]\nname = \"stream\"\nkind = \"tcp-server\"\naddress = \"192.168.88.1:5760\"\n\
         [[message]]\nname = \"video\"\nchannel = 7\nkind = \"rtp-server\"\naddress = \"192.168.88.1:5602\"\n\
         [[message]]\nname = \"files\"\nchannel = 8\nkind = \"seqpacket\"\npath = \"{}\"\n\
         [record]\ndirectory = \"{}\"\n",
        below("files.sock"),
        below("records"),
    );
    let drone = rig.start_drone(&[0], &more);
    station.wait_for_paths(1);
    let status = drone.wait_for_paths(1);
    let told = troubles(&status);
    let names: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["camera", "stream", "video", "files"], "{status:#}");
    assert!(told[0].1.contains("no interface of this host has that address"), "{told:?}");
    assert!(!status["record"]["trouble"].as_str().unwrap().is_empty(), "{status:#}");
    assert!(drone.table().contains("! endpoint camera: "), "{}", drone.table());
    assert!(station.status()["trouble"].as_str().unwrap().contains("listen spare: "));
    assert!(station.table().contains("! listen spare: "), "{}", station.table());
    let checked = checked(&rig, "drone.toml");
    for what in ["camera", "stream", "video", "files"] {
        assert!(checked.contains(&format!("endpoint \"{what}\": ")), "{checked}");
    }
    assert!(checked.contains("record: "), "{checked}");

    std::fs::remove_file(&blocked).unwrap();
    let add = |last| {
        interface_setup::add_address("l0", Ipv4Addr::new(192, 168, 88, last), 24).unwrap();
    };
    rig.drone.run(|| add(1)).unwrap();
    rig.station.run(|| add(2)).unwrap();
    drone.wait_for("all is there", |status| {
        troubles(status).is_empty() && status["record"]["trouble"] == ""
    });
    station.wait_for("it listens there too", |status| status["trouble"] == "");
    let camera: SocketAddr = "192.168.88.1:5600".parse().unwrap();
    let application = rig.drone.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    application.send_to(&[0xFD; 20], camera).unwrap();
    drone.wait_for("it takes what comes", |status| status["endpoints"][0]["taken"] == 1);
    drone.wait_for_log("endpoint camera: it is there now");
}

/// Waits until a daemon answers at a socket.
fn wait_for_socket(path: &Path, daemon: &Daemon) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::os::unix::net::UnixStream::connect(path).is_err() {
        assert!(Instant::now() < deadline, "{}", daemon.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_daemon_whose_sockets_cannot_be_made_flies_and_makes_them_later() {
    let name = "places::a_daemon_whose_sockets_cannot_be_made_flies_and_makes_them_later";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let blocked = rig.directory.path().join("blocked");
    std::fs::write(&blocked, "").unwrap();
    let station = rig.start_station("");
    let head = rig.head("drone", "station", "10.77.0.1/32");
    let head = head.replace("/drone.sock", "/blocked/drone.sock");
    let path = "[[path]]\ninterface = \"l0\"\nremote = \"192.168.0.2:14700\"\n";
    let drone = rig.start("drone", &rig.drone, &format!("{head}{path}"));
    station.wait_for_paths(1);
    drone.wait_for_log("status socket");
    std::fs::remove_file(&blocked).unwrap();
    for socket in ["drone.sock", "drone.sock.events"] {
        wait_for_socket(&blocked.join(socket), &drone);
    }
    drone.signal("TERM");
    assert_eq!(drone.end().code(), Some(0));
    assert!(!blocked.exists(), "the directory was made for the sockets");
}
