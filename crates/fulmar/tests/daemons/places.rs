//! What of a host is not there yet, or changes: addresses, folders, places of sockets. A drone
//! flies meanwhile.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::{interface_setup, sandbox};

use crate::flight::heartbeat;
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
    application.send_to(&heartbeat(), camera).unwrap();
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

/// A drone's program and a tablet beside the station, on link 1, whose other end is the drone's
/// host. The session goes over link 0.
struct Field {
    station: Daemon,
    _drone: Daemon,
    program: UdpSocket,
    tablet: UdpSocket,
    /// Goes last: the daemons' logs lie in its directory.
    rig: Rig,
}

const PATIENCE: Duration = Duration::from_secs(10);

impl Field {
    /// The station's endpoint for the tablet is `kind` at `address`; `prepare` sets its host up
    /// before.
    fn new(kind: &str, address: &str, prepare: impl FnOnce() + Send) -> Self {
        let rig = Rig::new(2);
        rig.station.run(prepare).unwrap();
        let endpoint = |kind: &str, address: &str| {
            format!(
                "[[control]]\nname = \"c\"\nchannel = 9\nkind = \"{kind}\"\naddress = \"{address}\"\n"
            )
        };
        let station = rig.start_station(&endpoint(kind, address));
        let drone = rig.start_drone(&[0], &endpoint("udp-server", "127.0.0.1:7009"));
        station.wait_for_paths(1);
        drone.wait_for_paths(1);
        let bind = |address: &str| {
            let socket = rig.drone.run(|| UdpSocket::bind(address).unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            socket
        };
        let (program, tablet) = (bind("127.0.0.1:0"), bind("0.0.0.0:7010"));
        program.connect("127.0.0.1:7009").unwrap();
        Self { station, _drone: drone, program, tablet, rig }
    }

    /// Lets the program speak until the tablet hears it from an address of the station; returns
    /// where it answers.
    fn hear_from(&self, address: [u8; 4]) -> SocketAddr {
        let (mut buffer, deadline) = ([0; 64], Instant::now() + PATIENCE);
        loop {
            assert!(Instant::now() < deadline, "not from {address:?}: {:#}", self.station.status());
            self.program.send(b"telemetry").unwrap();
            let Ok((length, from)) = self.tablet.recv_from(&mut buffer) else { continue };
            if &buffer[..length] == b"telemetry" && from.ip() == Ipv4Addr::from(address) {
                return from;
            }
        }
    }

    /// Does the same, and waits until the program hears the answer.
    fn speak_with(&self, address: [u8; 4]) {
        let from = self.hear_from(address);
        let (mut buffer, deadline) = ([0; 64], Instant::now() + PATIENCE);
        self.tablet.send_to(&address, from).unwrap();
        while !self.program.recv(&mut buffer).is_ok_and(|length| buffer[..length] == address) {
            assert!(Instant::now() < deadline, "no answer: {:#}", self.station.status());
        }
    }
}

#[test]
fn a_client_speaks_from_the_address_that_its_host_has_now() {
    let name = "places::a_client_speaks_from_the_address_that_its_host_has_now";
    if !sandbox::inside(name) {
        return;
    }
    let field = Field::new("udp-client", "192.168.1.1:7010", || ());
    field.speak_with([192, 168, 1, 2]);
    // Another lease: what is sent from the old address does not leave.
    let readdress = || {
        interface_setup::remove_address("l1", Ipv4Addr::new(192, 168, 1, 2), 24).unwrap();
        interface_setup::add_address("l1", Ipv4Addr::new(192, 168, 1, 9), 24).unwrap();
    };
    field.rig.station.run(readdress).unwrap();
    field.speak_with([192, 168, 1, 9]);
}

#[test]
fn a_client_that_began_by_another_link_follows_the_route() {
    let name = "places::a_client_that_began_by_another_link_follows_the_route";
    if !sandbox::inside(name) {
        return;
    }
    let net = Ipv4Addr::new(192, 168, 0, 0);
    // The LAN has no address yet, and another link leads there.
    let field = Field::new("udp-client", "192.168.1.1:7010", || {
        interface_setup::remove_address("l1", Ipv4Addr::new(192, 168, 1, 2), 24).unwrap();
        interface_setup::add_route("l0", net.into(), 16).unwrap();
    });
    // It cannot answer there: its own address towards that one is another.
    field.hear_from([192, 168, 0, 2]);
    let arrive = || {
        interface_setup::add_address("l1", Ipv4Addr::new(192, 168, 1, 2), 24).unwrap();
    };
    field.rig.station.run(arrive).unwrap();
    field.speak_with([192, 168, 1, 2]);
}

#[test]
fn a_broadcast_address_is_heard_by_all_and_any_of_them_answers() {
    let name = "places::a_broadcast_address_is_heard_by_all_and_any_of_them_answers";
    if !sandbox::inside(name) {
        return;
    }
    let field = Field::new("udp-client", "192.168.1.255:7010", || ());
    field.speak_with([192, 168, 1, 2]);
    assert!(field.station.log().contains("without a key"), "{}", field.station.log());
}

#[test]
fn a_server_at_a_multicast_address_is_one_of_the_group() {
    let name = "places::a_server_at_a_multicast_address_is_one_of_the_group";
    if !sandbox::inside(name) {
        return;
    }
    let group = Ipv4Addr::new(239, 255, 145, 50);
    let field = Field::new("udp-server", "239.255.145.50:7010", || ());
    // The other member speaks to the group alone, and hears nothing else, by a port of its own.
    let speaks = || {
        interface_setup::add_route("l1", Ipv4Addr::new(239, 0, 0, 0).into(), 8).unwrap();
        field.tablet.join_multicast_v4(&group, &Ipv4Addr::new(192, 168, 1, 1)).unwrap();
        UdpSocket::bind("0.0.0.0:0").unwrap()
    };
    let speaker = field.rig.drone.run(speaks).unwrap();
    let (mut buffer, deadline) = ([0; 64], Instant::now() + PATIENCE);
    let mut heard = (false, false);
    while heard != (true, true) {
        assert!(Instant::now() < deadline, "{heard:?}: {:#}", field.station.status());
        speaker.send_to(b"from the group", (group, 7010)).unwrap();
        field.program.send(b"to the group").unwrap();
        let is_heard = |socket: &UdpSocket, buffer: &mut [u8], text: &[u8]| {
            socket.recv(buffer).is_ok_and(|length| &buffer[..length] == text)
        };
        heard.0 |= is_heard(&field.program, &mut buffer, b"from the group");
        heard.1 |= is_heard(&field.tablet, &mut buffer, b"to the group");
    }
    // What it has said itself is no message of the group.
    while let Ok(length) = field.program.recv(&mut buffer) {
        assert_eq!(&buffer[..length], b"from the group");
    }
}
