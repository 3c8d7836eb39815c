//! MAVLink endpoints: what is kept back is counted and said; sharing and filters.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::rig::Rig;
use proto::select::{Version, encode_frame};
use serde_json::Value;
use sys::netns::Namespace;
use sys::sandbox;

const COMMAND_LONG: u32 = 76;
const SETUP_SIGNING: u32 = 256;

fn endpoint(name: &str, kind: &str, port: u16, more: &str) -> String {
    format!(
        "[[mavlink]]\nname = \"{name}\"\nkind = \"{kind}\"\naddress = \"127.0.0.1:{port}\"\n\
         radio_status_hz = 0\nstatustext = false\n{more}\n"
    )
}

fn frame(source: (u8, u8), message: u32) -> Vec<u8> {
    encode_frame(Version::V2, 0, source, message, &[7; 33]).unwrap()
}

fn socket(host: &Namespace, address: &str, remote: Option<&str>) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    remote.map_or(Ok(()), |remote| socket.connect(remote)).unwrap();
    socket
}

/// Returns how much of something was kept back from channel 1, by the first peer's report.
fn kept_back(status: &Value, what: &str) -> u64 {
    let rows = status["peers"][0]["not_forwarded"].as_array().unwrap();
    let row = rows.iter().find(|row| row["what"] == what && row["channel"] == 1);
    row.map_or(0, |row| row["count"].as_u64().unwrap())
}

#[test]
fn what_is_not_forwarded_is_counted_by_rule_and_said_once() {
    let name = "mavlink::what_is_not_forwarded_is_counted_by_rule_and_said_once";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let tcp = endpoint("stream", "tcp-server", 5_760, "");
    let more = endpoint("ground", "udp-server", 14_550, "") + &tcp + "[log]\nformat = \"json\"\n";
    let station = rig.start_station(&more);
    let drone = rig.start_drone(&[0], &endpoint("autopilot", "udp-server", 14_555, ""));
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let ground = socket(&rig.station, "127.0.0.1:0", Some("127.0.0.1:14550"));
    let mut broken = frame((255, 190), COMMAND_LONG);
    broken[15] ^= 1;
    for _ in 0..3 {
        ground.send(&frame((255, 190), SETUP_SIGNING)).unwrap();
        ground.send(&broken).unwrap();
        ground.send(b"no MAVLink").unwrap();
    }
    // Streams are cut by the endpoint, datagrams by the session: both count.
    rig.station
        .run(|| {
            use std::io::Write;
            let mut stream = std::net::TcpStream::connect("127.0.0.1:5760").unwrap();
            stream.write_all(&[&broken[..], &frame((255, 190), 0), b"noise"].concat()).unwrap();
        })
        .unwrap();
    let bytes = 3 * (broken.len() + 10) + broken.len() + 5;
    let status = station.wait_for("all that is kept back", |status| {
        kept_back(status, "bytes of no frame") == bytes as u64
    });
    assert_eq!(kept_back(&status, "SETUP_SIGNING"), 3);
    assert_eq!(kept_back(&status, "broken frames"), 4);
    let lines = |what: &str| {
        let log = station.log();
        log.lines().filter(|line| line.contains("not forwarded") && line.contains(what)).count()
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while lines("broken frames") == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(2_500));
    // Two fields of one name would hide each other from whoever reads the lines.
    let is_clear = |line: &str| line.matches("\"message\":").count() == 1;
    assert!(station.log().lines().all(is_clear), "{}", station.log());
    assert_eq!((lines("SETUP_SIGNING"), lines("broken frames")), (1, 1), "{}", station.log());
}

/// Returns the message ids of what comes in, up to and with a HEARTBEAT.
fn until_heartbeat(socket: &UdpSocket) -> Vec<u8> {
    let (mut ids, mut buffer) = (Vec::new(), [0; 512]);
    while ids.last() != Some(&0) {
        socket.recv(&mut buffer).expect("something comes");
        ids.push(buffer[7]);
    }
    ids
}

#[test]
fn ground_stations_of_one_channel_hear_each_other_where_they_share() {
    let name = "mavlink::ground_stations_of_one_channel_hear_each_other_where_they_share";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let more = endpoint("first", "udp-server", 14_550, "share = true")
        + &endpoint("second", "udp-client", 14_551, "share = true")
        + &endpoint("apart", "udp-client", 14_552, "");
    let station = rig.start_station(&more);
    let drone = rig.start_drone(&[0], &endpoint("autopilot", "udp-server", 14_555, ""));
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let at = |remote| socket(&rig.station, "127.0.0.1:0", Some(remote));
    let clients = [at("127.0.0.1:14550"), at("127.0.0.1:14550")];
    let second = socket(&rig.station, "127.0.0.1:14551", None);
    let apart = socket(&rig.station, "127.0.0.1:14552", None);
    let autopilot = socket(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:14555"));
    // The server learns of its clients by what they send.
    clients[1].send(&frame((254, 190), 0)).unwrap();
    assert_eq!(until_heartbeat(&second), [0]);
    clients[0].send(&frame((255, 190), SETUP_SIGNING)).unwrap();
    clients[0].send(&[frame((255, 190), COMMAND_LONG), frame((255, 190), 0)].concat()).unwrap();
    for other in [&clients[1], &second] {
        assert_eq!(until_heartbeat(other), [76, 0]);
    }
    // What comes from the vehicle is for everybody; nobody heard itself, and who does not share
    // heard nothing.
    autopilot.send(&frame((1, 1), 0)).unwrap();
    for own in [&clients[0], &clients[1], &second, &apart] {
        assert_eq!(until_heartbeat(own), [0]);
    }
}

#[test]
fn filters_hold_in_both_directions() {
    let name = "mavlink::filters_hold_in_both_directions";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let filters = "allow_messages_out = [\"HEARTBEAT\", \"30\"]\nblock_systems_out = [9]\n\
                   block_messages_in = \"COMMAND_LONG\"\nallow_systems_in = [255]";
    let station = rig.start_station(&endpoint("ground", "udp-server", 14_550, filters));
    let drone = rig.start_drone(&[0], &endpoint("autopilot", "udp-server", 14_555, ""));
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let ground = socket(&rig.station, "127.0.0.1:0", Some("127.0.0.1:14550"));
    let autopilot = socket(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:14555"));
    autopilot.send(&frame((1, 1), 1)).unwrap();
    station.wait_for("the drone's first frame", |status| status["endpoints"][0]["filtered"] == 1);
    // All of these go by copies, in their order.
    let command = frame((255, 190), COMMAND_LONG);
    ground.send(&[frame((250, 1), 0), command, frame((255, 190), 0)].concat()).unwrap();
    assert_eq!(until_heartbeat(&autopilot), [0]);
    for (source, message) in [((9, 1), 0), ((1, 1), COMMAND_LONG), ((1, 1), 0)] {
        autopilot.send(&frame(source, message)).unwrap();
    }
    assert_eq!(until_heartbeat(&ground), [0]);
    station.wait_for("all of it", |status| status["endpoints"][0]["filtered"] == 5);
}

/// Returns the numbers of the commands that come in, sorted, until none has come for a while.
fn numbers(socket: &UdpSocket) -> Vec<u16> {
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let (mut numbers, mut buffer) = (Vec::new(), [0; 512]);
    while socket.recv(&mut buffer).is_ok() {
        numbers.push(u16::from_le_bytes([buffer[10], buffer[11]]));
    }
    numbers.sort_unstable();
    numbers
}

#[test]
fn frames_that_a_bridge_cuts_over_datagrams_arrive() {
    let name = "mavlink::frames_that_a_bridge_cuts_over_datagrams_arrive";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let more = endpoint("ground", "udp-server", 14_550, "")
        + &endpoint("pilot", "udp-server", 14_551, "channel = 2");
    let station = rig.start_station(&more);
    let more = endpoint("autopilot", "udp-server", 14_555, "")
        + &endpoint("bridge", "udp-client", 14_556, "channel = 2");
    let drone = rig.start_drone(&[0], &more);
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let [ground, pilot] = ["127.0.0.1:14550", "127.0.0.1:14551"]
        .map(|remote| socket(&rig.station, "127.0.0.1:0", Some(remote)));
    // Two bridges at a server, whose bytes must not mix, and one that a client speaks to.
    let bridges = [0, 1].map(|_| socket(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:14555")));
    let third = socket(&rig.drone, "127.0.0.1:14556", None);
    ground.send(&frame((255, 190), 0)).unwrap();
    pilot.send(&frame((255, 190), 0)).unwrap();
    let (_, client) = third.recv_from(&mut [0; 512]).expect("the heartbeat comes");
    third.connect(client).unwrap();

    let command = |number: u16| {
        let payload = [&number.to_le_bytes()[..], &[7; 31]].concat();
        encode_frame(Version::V2, number as u8, (1, 1), COMMAND_LONG, &payload).unwrap()
    };
    // As much as the sockets hold at once, so that nothing depends on how fast it is read.
    for (size, count) in [(1, 2), (64, 80), (250, 80)] {
        let stream: Vec<u8> = (0..count).flat_map(command).collect();
        for piece in stream.chunks(size) {
            for bridge in [&bridges[0], &bridges[1], &third] {
                bridge.send(piece).unwrap();
            }
        }
        let twice: Vec<u16> = (0..2 * count).map(|number| number / 2).collect();
        assert_eq!(numbers(&ground), twice, "datagrams of {size} bytes");
        assert_eq!(numbers(&pilot), Vec::from_iter(0..count), "datagrams of {size} bytes");
    }
    // What looks like the beginning of a frame holds back what follows for a moment, and is counted
    // then.
    bridges[0].send(&[0xfd, 255, 0, 0]).unwrap();
    bridges[0].send(&command(500)).unwrap();
    assert_eq!(numbers(&ground), [500]);
    drone.wait_for("what was broken is counted", |status| kept_back(status, "broken frames") == 1);
    drone.wait_for_log("broken frames");
    assert!(!drone.log().contains("baud"), "no line is slow here: {}", drone.log());
}

/// A heartbeat of a vehicle, or of a ground station, with a number of its own.
fn heartbeat(source: (u8, u8), number: u8, kind: u8) -> Vec<u8> {
    encode_frame(Version::V2, number, source, 0, &[0, 0, 0, 0, kind, 3, 81, 4, 3]).unwrap()
}

/// Passes on between two sockets for as long as it runs: a program behind two endpoints.
fn pass_on(ends: [UdpSocket; 2]) -> std::sync::mpsc::Sender<()> {
    let (running, stop) = std::sync::mpsc::channel::<()>();
    ends.iter().for_each(|end| end.set_nonblocking(true).unwrap());
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while stop.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
            for (from, to) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
                while let Ok(length) = from.recv(&mut buffer) {
                    let _ = to.send(&buffer[..length]);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    running
}

/// Returns system and message of what comes in, sorted, until nothing has come for a while.
fn heard(socket: &UdpSocket) -> Vec<(u8, u8)> {
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let (mut heard, mut buffer) = (Vec::new(), [0; 512]);
    // A loop would never end.
    while heard.len() < 1_000 && socket.recv(&mut buffer).is_ok() {
        heard.push((buffer[5], buffer[7]));
    }
    heard.sort_unstable();
    heard
}

#[test]
fn a_program_that_passes_on_between_two_endpoints_makes_no_loop() {
    let name = "mavlink::a_program_that_passes_on_between_two_endpoints_makes_no_loop";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let more = endpoint("first", "udp-server", 14_550, "share = true")
        + &endpoint("second", "udp-server", 14_551, "share = true");
    let station = rig.start_station(&more);
    let drone = rig.start_drone(&[0], &endpoint("autopilot", "udp-server", 14_555, ""));
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let at = |remote| socket(&rig.station, "127.0.0.1:0", Some(remote));
    let ground = at("127.0.0.1:14550");
    let ends = ["127.0.0.1:14550", "127.0.0.1:14551"].map(at);
    let autopilot = socket(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:14555"));
    autopilot.send(&heartbeat((1, 1), 0, 2)).unwrap();
    ends.iter().for_each(|end| _ = end.send(&heartbeat((100, 1), 0, 18)).unwrap());
    // What is sent while nobody passes on is not of the loop.
    heard(&autopilot);
    let _running = pass_on(ends);
    for number in 1..=5 {
        autopilot.send(&heartbeat((1, 1), number, 2)).unwrap();
        ground.send(&heartbeat((255, 190), number, 6)).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    for number in 0..20 {
        let command = [&[number, 0][..], &[7; 31]].concat();
        let command = encode_frame(Version::V2, number, (255, 190), COMMAND_LONG, &command);
        ground.send(&command.unwrap()).unwrap();
    }
    let heard = heard(&autopilot);
    let count = |what| heard.iter().filter(|heard| **heard == what).count();
    assert_eq!((count((1, 0)), count((255, 0)), count((255, 76))), (0, 5, 20), "{heard:?}");
    let status = station.status();
    assert!(kept_back(&status, "frames that came back") >= 10, "{status:#}");
    station.wait_for_log("frames that came back");
    let lines = station.log().lines().filter(|line| line.contains("came back")).count();
    assert_eq!(lines, 1, "{}", station.log());
}

#[test]
fn ground_stations_of_one_number_fly_from_both_ends() {
    let name = "mavlink::ground_stations_of_one_number_fly_from_both_ends";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station(&endpoint("ground", "udp-server", 14_550, ""));
    let more = endpoint("autopilot", "udp-server", 14_555, "share = true")
        + &endpoint("field", "udp-server", 14_556, "share = true");
    let drone = rig.start_drone(&[0], &more);
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let ground = socket(&rig.station, "127.0.0.1:0", Some("127.0.0.1:14550"));
    let field = socket(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:14556"));
    let autopilot = socket(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:14555"));
    field.send(&heartbeat((255, 190), 1, 6)).unwrap();
    autopilot.send(&heartbeat((1, 1), 0, 2)).unwrap();
    assert_eq!(until_heartbeat(&field), [0]);
    heard(&autopilot);
    for (socket, number) in [(&ground, 101), (&field, 2), (&ground, 102), (&field, 3)] {
        let command = [number; 33];
        let command = encode_frame(Version::V2, number, (255, 190), COMMAND_LONG, &command);
        socket.send(&heartbeat((255, 190), number, 6)).unwrap();
        socket.send(&command.unwrap()).unwrap();
        assert_eq!(heard(&autopilot), [(255, 0), (255, 76)], "{number}");
    }
    for daemon in [&drone, &station] {
        assert_eq!(kept_back(&daemon.status(), "frames that came back"), 0);
    }
}

#[test]
fn connections_that_say_nothing_keep_no_ground_station_away() {
    let name = "mavlink::connections_that_say_nothing_keep_no_ground_station_away";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station(&endpoint("stream", "tcp-server", 5_760, ""));
    let drone = rig.start_drone(&[0], &endpoint("autopilot", "udp-server", 14_555, ""));
    drone.wait_for_paths(1);
    let autopilot = socket(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:14555"));
    let connect = || rig.station.run(|| TcpStream::connect("127.0.0.1:5760").unwrap()).unwrap();
    // Browsers, scanners, whoever found the port open: none of them ever says a frame.
    let mut others: Vec<_> = (0..8).map(|_| connect()).collect();
    others.iter_mut().for_each(|other| other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap());
    let one_more = connect();
    station.wait_for("it is told", |status| {
        let trouble = status["endpoints"][0]["trouble"].as_str().unwrap_or_default();
        trouble == "8 clients are connected, one more was turned away"
    });
    drop(one_more);
    let began = Instant::now();
    let mut number = 0;
    let mut is_served = || {
        let ground = connect();
        ground.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        for _ in 0..10 {
            number += 1;
            autopilot.send(&heartbeat((1, 1), number, 2)).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        matches!((&ground).read(&mut [0; 64]), Ok(length) if length > 0)
    };
    while !is_served() {
        assert!(began.elapsed() < Duration::from_secs(15), "{:#}", station.status());
    }
}
