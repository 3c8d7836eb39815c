//! Messages through two daemons: whole, once and in order, over links that lose.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proto::select::{Version, encode_frame};
use serde_json::Value;
use sys::netns::Namespace;
use sys::poller::Interest;
use sys::sandbox;
use sys::seqpacket::{Incoming, Seqpacket};

use crate::lossy::LossyLink;
use crate::rig::Rig;

/// The largest message.
const LARGEST: usize = 1 << 20;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The rig's link delays by this in each direction.
const DELAY: Duration = Duration::from_millis(10);
/// Of a video packet: longer than a busy machine stands still.
const DEADLINE: Duration = Duration::from_millis(600);
/// How long the link is silent under the video.
const SILENCE: Duration = Duration::from_secs(2);
/// How fast a daemon assumes two clocks to drift apart.
const SKEW: f64 = 1e-4;
/// Of the status: its times are in whole microseconds.
const ROUNDING_MS: f64 = 0.01;

/// A SEQPACKET endpoint of channel 30, with its socket in the rig's folder.
fn endpoint(rig: &Rig, end: &str, more: &str) -> String {
    format!(
        "[[message]]\nname = \"messages\"\nchannel = 30\nkind = \"seqpacket\"\npath = \"{}\"\n{more}",
        path(rig, end).display()
    )
}

fn path(rig: &Rig, end: &str) -> PathBuf {
    rig.directory.path().join(format!("{end}-messages"))
}

fn connect(path: &Path) -> Seqpacket {
    let socket = Seqpacket::connect(path).unwrap();
    socket.set_send_buffer(LARGEST + 4_096).unwrap();
    socket
}

/// A message that tells its number and its length.
fn message(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; length.max(8)];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Sends, and waits as long as the writer must; returns whether it had to.
fn send(socket: &Seqpacket, bytes: &[u8]) {
    let started = Instant::now();
    loop {
        match socket.send(bytes) {
            Ok(()) => return,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("send {} bytes: {error}", bytes.len()),
        }
        assert!(started.elapsed() < PATIENCE, "the writer waits for ever");
        socket.wait(Interest::Write, Duration::from_millis(100).into()).unwrap();
    }
}

fn receive(socket: &Seqpacket, buffer: &mut [u8]) -> usize {
    assert!(socket.wait(Interest::Read, PATIENCE.into()).unwrap(), "nothing arrives");
    match socket.receive(buffer).unwrap() {
        Incoming::Message(length) => length,
        other => panic!("{other:?}"),
    }
}

fn udp(host: &Namespace, address: &str, remote: Option<&str>) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    remote.map_or(Ok(()), |remote| socket.connect(remote)).unwrap();
    socket
}

fn rtp(kind: &str, port: u16) -> String {
    format!(
        "[[message]]\nname = \"video\"\nchannel = 40\nkind = \"{kind}\"\ndeadline_ms = {}\n\
         address = \"127.0.0.1:{port}\"\n",
        DEADLINE.as_millis()
    )
}

fn control(kind: &str, port: u16) -> String {
    format!(
        "[[control]]\nname = \"sticks\"\nchannel = 10\nkind = \"{kind}\"\n\
         address = \"127.0.0.1:{port}\"\n"
    )
}

/// A packet of version 2 and a dynamic payload type, with its number.
fn rtp_packet(number: u16) -> Vec<u8> {
    let mut bytes = vec![0; 1_100];
    bytes[..2].copy_from_slice(&[0x80, 96]);
    bytes[2..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Counts how often each packet comes, until nothing comes for longer than the link is silent.
fn show(screen: &UdpSocket, packets: usize) -> Vec<u32> {
    screen.set_read_timeout(Some(SILENCE + DEADLINE + Duration::from_secs(1))).unwrap();
    let (mut buffer, mut seen) = ([0; 2_048], vec![0; packets]);
    while let Ok(length) = screen.recv(&mut buffer) {
        assert_eq!(length, 1_100);
        seen[usize::from(u16::from_be_bytes([buffer[2], buffer[3]]))] += 1;
    }
    seen
}

#[test]
fn messages_arrive_whole_once_and_in_order_at_ten_percent_loss() {
    let name = "messages::messages_arrive_whole_once_and_in_order_at_ten_percent_loss";
    if !sandbox::inside(name) {
        return;
    }
    let mut rig = Rig::new(1);
    let _link = LossyLink::new(&mut rig, 100, DELAY);
    let datagrams = |kind: &str, port: u16| {
        format!(
            "[[message]]\nname = \"datagrams\"\nchannel = 30\nstream = 1\nkind = \"{kind}\"\n\
             address = \"127.0.0.1:{port}\"\n"
        )
    };
    let station = rig.start_station(&endpoint(&rig, "station", &datagrams("udp-client", 14_811)));
    let drone = rig.start_drone(&[0], &endpoint(&rig, "drone", &datagrams("udp-server", 14_810)));
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let before = station.wait_for("it knows the drone's clock", |status| {
        status["peers"][0]["clock_error_ms"].is_number()
    });
    let began = Instant::now();
    let (near, far) = (connect(&path(&rig, "drone")), connect(&path(&rig, "station")));
    let near_udp = udp(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:14810"));
    let far_udp = udp(&rig.station, "127.0.0.1:14811", None);

    let lengths = |number: u32| 8 + (number as usize * 397) % 4_000;
    let sender = std::thread::spawn(move || {
        for number in 0..800 {
            send(&near, &message(number, lengths(number)));
            near_udp.send(&message(number, 300)).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        near
    });
    let mut buffer = vec![0; LARGEST];
    for number in 0..800 {
        let length = receive(&far, &mut buffer);
        assert_eq!(buffer[..length], message(number, lengths(number)));
        let length = far_udp.recv(&mut buffer).expect("datagrams arrive");
        assert_eq!(buffer[..length], message(number, 300));
    }
    // The other way.
    let near = sender.join().unwrap();
    send(&far, b"answer");
    let length = receive(&near, &mut buffer);
    assert_eq!(&buffer[..length], b"answer");
    let status = drone.status();
    let messages = &status["peers"][0]["messages"];
    assert_eq!(messages["submitted"], 1_600, "{messages:#}");
    assert_eq!(status["endpoints"][0]["stream"], 0);
    assert_eq!(status["endpoints"][1]["taken"], 800);
    let status = station.status();
    let messages = &status["peers"][0]["messages"];
    assert_eq!((&messages["delivered"], &messages["skipped"]), (&1_600.into(), &0.into()));
    let least_ms = least_delay_ms([&before, &status], began.elapsed());
    streams_are_shown(&drone.status(), &station.status(), least_ms);
}

/// Returns the least mean delay that a daemon may state between two of its reports.
///
/// Both ends read the same clock here. What a daemon takes for the offset of the other's is the
/// middle of an interval that holds zero and only narrows but for an assumed drift: so it was never
/// below the middle of the first lower and the last upper end.
fn least_delay_ms(reports: [&Value; 2], between: Duration) -> f64 {
    let [first, last] = reports.map(|report| {
        let part = |name: &str| report["peers"][0][name].as_f64().unwrap();
        let (offset, error) = (part("clock_offset_ms"), part("clock_error_ms"));
        assert!(offset.abs() <= error + ROUNDING_MS, "{offset} ms off, {error} ms stated");
        (offset - error, offset + error)
    });
    let drift_ms = SKEW * between.as_secs_f64() * 1e3;
    DELAY.as_secs_f64() * 1e3 + (first.0 + last.1) / 2.0 - drift_ms - ROUNDING_MS
}

/// Two streams of 800 messages have gone from the drone to the station, one message came back.
fn streams_are_shown(drone: &Value, station: &Value, least_ms: f64) {
    let [sent, received] = [drone, station].map(|status| &status["peers"][0]["message_streams"]);
    for (place, name) in ["messages", "datagrams"].into_iter().enumerate() {
        let (sent, received) = (&sent[place], &received[place]);
        for row in [sent, received] {
            assert_eq!(row["name"], name, "{row:#}");
            assert_eq!((&row["channel"], &row["stream"]), (&30.into(), &place.into()));
            assert_eq!(row["order"], "in-order");
        }
        let directions = if place == 0 { ("both", "both") } else { ("out", "in") };
        assert_eq!(
            (&sent["direction"], &received["direction"]),
            (&directions.0.into(), &directions.1.into())
        );
        assert_eq!((&sent["submitted"], &sent["sent"]), (&800.into(), &800.into()), "{sent:#}");
        assert_eq!((&sent["waiting_bytes"], &sent["expired"]), (&0.into(), &0.into()));
        assert_eq!((&received["delivered"], &received["skipped"]), (&800.into(), &0.into()));
        let part = |name: &str| received[name].as_f64().unwrap();
        let way = part("end_to_end_ms");
        assert!(way >= least_ms, "less than {least_ms} ms, faster than the link: {received:#}");
        // A tenth was lost: some were decoded, or sent again, and held up what followed.
        assert!(part("decoding_ms") + part("reconstruction_ms") > 0.0, "{received:#}");
        assert!(part("division_ms") >= 0.0);
    }
    assert_eq!((&sent[0]["delivered"], &sent[1]["delivered"]), (&1.into(), &0.into()));
}

#[test]
fn the_largest_message_arrives_and_writers_wait_for_the_link() {
    let name = "messages::the_largest_message_arrives_and_writers_wait_for_the_link";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let drone = rig.start_drone(&[0], &endpoint(&rig, "drone", ""));
    let near = connect(&path(&rig, "drone"));
    if near.set_send_buffer(LARGEST + 4_096).unwrap() < LARGEST + 4_096 {
        return sandbox::skip(name, "net.core.wmem_max is too small for a message of 1 MiB");
    }
    // Nobody is there yet: what does not fit the socket makes the writer wait.
    let mut sent = 0;
    while near.send(&message(sent, 100_000)).is_ok() {
        sent += 1;
    }
    assert!((1..100).contains(&sent), "{sent} messages were taken for a peer that is not there");
    let station = rig.start_station(&endpoint(&rig, "station", ""));
    let far = connect(&path(&rig, "station"));
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    // Nobody reads yet: the writer waits again, however slow it is.
    while sent < 100 && near.send(&message(sent, 100_000)).is_ok() {
        sent += 1;
    }
    assert!(sent < 100, "10 MB fit nowhere on the way");
    let sender = std::thread::spawn(move || {
        for number in sent..100 {
            send(&near, &message(number, 100_000));
        }
        send(&near, &message(100, LARGEST));
        near
    });
    let mut buffer = vec![0; LARGEST];
    for number in 0..=100 {
        let length = receive(&far, &mut buffer);
        let expected = if number == 100 { LARGEST } else { 100_000 };
        assert_eq!(length, expected, "message {number}");
        assert!(buffer[..length] == message(number, expected), "message {number}");
    }
    sender.join().unwrap();
}

/// Video packets in all, and how many of them go before the silence.
const PACKETS: usize = 3_400;
const BEFORE: usize = 1_200;

#[test]
fn video_skips_what_is_late_and_control_never_waits_for_it() {
    let name = "messages::video_skips_what_is_late_and_control_never_waits_for_it";
    if !sandbox::inside(name) {
        return;
    }
    let mut rig = Rig::new(1);
    let link = LossyLink::new(&mut rig, 20, DELAY);
    let station = rig.start_station(&(rtp("rtp-client", 5_601) + &control("udp-client", 14_801)));
    let drone = rig.start_drone(&[0], &(rtp("rtp-server", 5_600) + &control("udp-server", 14_800)));
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let camera = udp(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:5600"));
    let screen = udp(&rig.station, "127.0.0.1:5601", None);
    let companion = udp(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:14800"));
    let sticks = udp(&rig.station, "127.0.0.1:14801", None);

    let shown = std::thread::spawn(move || show(&screen, PACKETS));
    camera.send(b"this is no RTP").unwrap();
    // 6 Mbit/s at 2 % loss with a command every 24 ms; then silence of the link, and more video.
    let (mut waits, mut sent_at) = (Vec::new(), vec![Instant::now(); PACKETS]);
    let (mut last, mut returned) = (Instant::now(), None);
    for number in 0..PACKETS {
        std::thread::sleep(Duration::from_micros(1_500).saturating_sub(last.elapsed()));
        last = Instant::now();
        if number == BEFORE {
            link.lose(1_000);
        } else if number > BEFORE && returned.is_none() && sent_at[BEFORE].elapsed() >= SILENCE {
            link.lose(20);
            returned = Some((number, Instant::now()));
        }
        sent_at[number] = Instant::now();
        camera.send(&rtp_packet(number as u16)).unwrap();
        if number % 16 == 0 && number < BEFORE {
            companion.send(&number.to_le_bytes()).unwrap();
            let mut buffer = [0; 16];
            sticks.recv(&mut buffer).expect("control arrives");
            waits.push(sent_at[number].elapsed());
        }
    }
    let seen = shown.join().unwrap();
    assert!(seen.iter().all(|count| *count <= 1), "nothing is shown twice");
    let count = |range: std::ops::Range<usize>| seen[range].iter().filter(|n| **n == 1).count();
    let (near, far) = (drone.status(), station.status());
    let states = format!("{near:#}\n{far:#}");
    // What overran the sockets of camera and screen, whose programs had to wait for the processor.
    let part = |value: &Value| value.as_u64().unwrap() as usize;
    let taken = part(&near["endpoints"][1]["taken"]);
    let delivered = part(&far["peers"][0]["message_streams"][0]["delivered"]);
    // What is no RTP was taken out of the socket as well.
    let overrun = (PACKETS + 1 - taken) + (delivered - count(0..PACKETS));
    let (first_after, returned) = returned.expect("the silence ended");
    let early = count(0..1_100) + overrun;
    assert!(early >= 1_085, "{early} of 1100 at 2 % loss\n{states}");
    // So long before the return that a daemon which hears of them late does not take them for
    // young.
    let is_late = |at: &Instant| *at + 2 * DEADLINE < returned;
    let late = sent_at[BEFORE..].iter().take_while(|at| is_late(at)).count();
    let (old, new) = (BEFORE..BEFORE + late, first_after + 400..PACKETS);
    assert!(!old.is_empty() && count(old.clone()) == 0, "{} too late\n{states}", count(old));
    let share = (count(new.clone()) + overrun) as f64 / new.len() as f64;
    assert!(share >= 0.95, "{share} of {} afterwards\n{states}", new.len());
    waits.sort();
    let median = waits[waits.len() / 2];
    assert!(median < Duration::from_millis(200), "commands took {median:?}");
    assert_eq!(drone.status()["endpoints"][1]["refused"], 1, "what is not RTP is not taken");
}

#[test]
fn a_parameter_list_comes_through_links_that_lose_a_sixth() {
    let name = "messages::a_parameter_list_comes_through_links_that_lose_a_sixth";
    if !sandbox::inside(name) {
        return;
    }
    let mut rig = Rig::new(1);
    let _link = LossyLink::new(&mut rig, 170, DELAY);
    let mavlink = |kind: &str, port: u16| {
        format!(
            "[[mavlink]]\nname = \"mavlink\"\nkind = \"{kind}\"\naddress = \"127.0.0.1:{port}\"\n\
             radio_status_hz = 0\nstatustext = false\nrenumber = false\n"
        )
    };
    let station = rig.start_station(&mavlink("udp-client", 14_550));
    let drone = rig.start_drone(&[0], &mavlink("udp-server", 14_555));
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let autopilot = udp(&rig.drone, "127.0.0.1:0", Some("127.0.0.1:14555"));
    let ground = udp(&rig.station, "127.0.0.1:14550", None);
    // PARAM_VALUE: value, count, index, id, type; an autopilot sends about 400 a second.
    let value = |index: u16| {
        let mut payload = [7; 25];
        payload[4..6].copy_from_slice(&1_000_u16.to_le_bytes());
        payload[6..8].copy_from_slice(&index.to_le_bytes());
        encode_frame(Version::V2, index as u8, (1, 1), 22, &payload).unwrap()
    };
    let sender = std::thread::spawn(move || {
        for index in 0..1_000 {
            autopilot.send(&value(index)).unwrap();
            std::thread::sleep(Duration::from_micros(2_500));
        }
    });
    let (mut seen, mut buffer) = (vec![0; 1_000], [0; 512]);
    let started = Instant::now();
    for _ in 0..1_000 {
        let length = ground.recv(&mut buffer).expect("every parameter arrives");
        let index = u16::from_le_bytes([buffer[16], buffer[17]]);
        assert_eq!(buffer[..length], value(index));
        seen[usize::from(index)] += 1;
    }
    assert!(seen.iter().all(|count| *count == 1), "each once");
    assert!(started.elapsed() < PATIENCE);
    sender.join().unwrap();
}

#[test]
fn what_lies_at_the_place_of_a_socket_is_not_removed() {
    let name = "messages::what_lies_at_the_place_of_a_socket_is_not_removed";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(0);
    let daemon = rig.start_drone(&[0], &endpoint(&rig, "drone", ""));
    let (file, socket) = (daemon.socket().with_extension("toml"), path(&rig, "drone"));
    daemon.signal("KILL");
    daemon.end();
    assert!(socket.exists(), "a killed process cannot remove its socket");
    let daemon = rig.start_drone(&[0], &endpoint(&rig, "drone", ""));
    drop(connect(&socket));
    daemon.signal("TERM");
    assert_eq!(daemon.end().code(), Some(0));
    assert!(!socket.exists());

    std::fs::write(&socket, "precious").unwrap();
    let refused = std::process::Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let output = { refused }.arg("run").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("message[0].path") && error.contains("something else than"), "{error}");
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "precious");
}
