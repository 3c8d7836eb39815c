//! Two daemons, two links, real sockets: what goes in at one end comes out at the other.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::rig::{Rig, inside_with_tunnels};
use proto::select::{Version, encode_frame};
use sys::netns::Namespace;
use sys::serial::PseudoTerminal;
use sys::{interface_setup, sandbox};

const DRONE: &str = "\
[tunnel]
address = \"10.77.0.2/24\"
[[mavlink]]
name = \"autopilot\"
kind = \"udp-server\"
address = \"127.0.0.1:14555\"
radio_status_hz = 10
statustext = false
[[control]]
name = \"sticks\"
channel = 10
address = \"127.0.0.1:14800\"
";
const STATION: &str = "\
[tunnel]
address = \"10.77.0.1/24\"
[[mavlink]]
name = \"ground station\"
kind = \"udp-client\"
address = \"127.0.0.1:14550\"
statustext = false
renumber = false
[[control]]
name = \"sticks\"
channel = 10
kind = \"udp-client\"
address = \"127.0.0.1:14801\"
";

/// A heartbeat of an autopilot.
pub(crate) fn heartbeat() -> Vec<u8> {
    encode_frame(Version::V2, 1, (1, 1), 0, &[0, 0, 0, 0, 2, 3, 81, 4, 3]).unwrap()
}

/// A heartbeat of a ground station: a vehicle's own would not be taken back.
fn answer() -> Vec<u8> {
    encode_frame(Version::V2, 1, (255, 190), 0, &[0, 0, 0, 0, 6, 8, 0, 4, 3]).unwrap()
}

fn socket(host: &Namespace, address: &str) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 2_048];
    let length = socket.recv(&mut buffer).expect("something arrives");
    buffer[..length].to_vec()
}

/// Sends until what arrives is as wanted: a packet of the tunnel goes once, and grows too old where
/// the machine stands still for a moment.
fn send_until(receiver: &UdpSocket, send: impl Fn(), is_wanted: impl Fn(&[u8]) -> bool) {
    receiver.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let (began, mut buffer) = (Instant::now(), [0; 2_048]);
    loop {
        send();
        if receiver.recv(&mut buffer).is_ok_and(|length| is_wanted(&buffer[..length])) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "nothing arrives");
    }
}

/// Receives until something other than RADIO_STATUS (message 109) comes.
fn receive_frame(socket: &UdpSocket) -> Vec<u8> {
    loop {
        let frame = receive(socket);
        if frame.get(7) != Some(&109) {
            return frame;
        }
    }
}

#[test]
fn everything_passes_both_ways_and_survives_the_loss_of_a_link() {
    let name = "flight::everything_passes_both_ways_and_survives_the_loss_of_a_link";
    if !inside_with_tunnels(name) {
        return;
    }
    let rig = Rig::new(2);
    let (station, drone) = (rig.start_station(STATION), rig.start_drone(&[0, 1], DRONE));
    drone.wait_for_paths(2);
    station.wait_for_paths(2);

    let autopilot = socket(&rig.drone, "127.0.0.1:0");
    autopilot.connect("127.0.0.1:14555").unwrap();
    let ground = socket(&rig.station, "127.0.0.1:14550");
    let companion = socket(&rig.drone, "127.0.0.1:0");
    companion.connect("127.0.0.1:14800").unwrap();
    let sticks = socket(&rig.station, "127.0.0.1:14801");
    let (near, far) =
        (socket(&rig.drone, "10.77.0.2:5600"), socket(&rig.station, "10.77.0.1:5600"));

    let all_pass = |round: u8, paths: usize| {
        autopilot.send(&heartbeat()).unwrap();
        let mut buffer = [0; 256];
        let (length, from) = ground.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], heartbeat());
        ground.send_to(&answer(), from).unwrap();
        assert_eq!(receive_frame(&autopilot), answer());

        companion.send(&[round; 40]).unwrap();
        let (length, from) = sticks.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], [round; 40]);
        sticks.send_to(&[round; 30], from).unwrap();
        assert_eq!(receive(&companion), [round; 30]);

        // Packets of the tunnel are sent once: not before both ends know which paths are left.
        drone.wait_for_paths(paths);
        station.wait_for_paths(paths);
        for (from, to, there, length) in
            [(&near, &far, "10.77.0.1:5600", 900), (&far, &near, "10.77.0.2:5600", 1_000)]
        {
            let packet = vec![round; length];
            let send = || assert_eq!(from.send_to(&packet, there).unwrap(), length);
            send_until(to, send, |bytes| bytes == packet);
        }
    };
    all_pass(1, 2);

    rig.drone.run(|| interface_setup::remove("l0").unwrap()).unwrap();
    all_pass(2, 1);
    let status = drone.wait_for_paths(1);
    let control = status["peers"][0]["classes"].as_array().unwrap().iter().cloned();
    let control = control.into_iter().find(|class| class["class"] == "control").unwrap();
    assert_eq!((control["submitted"].as_u64(), control["delivered"].as_u64()), (Some(2), Some(2)));

    rig.add_link(0);
    drone.wait_for_paths(2);
    all_pass(3, 2);
    drone.signal("TERM");
    assert_eq!(drone.end().code(), Some(0));
    station.wait_for("the drone's farewell", |status| status["peers"][0]["connected"] == false);
}

#[test]
fn autopilot_on_a_serial_port_is_told_about_the_link() {
    let name = "flight::autopilot_on_a_serial_port_is_told_about_the_link";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let line = PseudoTerminal::open().unwrap();
    let endpoint = format!(
        "[[mavlink]]\nname = \"autopilot\"\nkind = \"serial\"\nbaud = 921600\ndevice = \"{}\"\n\
         radio_status_hz = 10\nstatustext = false\n",
        line.device().display()
    );
    let station = rig.start_station(
        "[[mavlink]]\nname = \"gcs\"\nkind = \"udp-client\"\naddress = \"127.0.0.1:14550\"\nstatustext = false\n",
    );
    let drone = rig.start_drone(&[0], &endpoint);
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let ground = socket(&rig.station, "127.0.0.1:14550");
    line.write(&heartbeat()).unwrap();
    assert_eq!(receive(&ground), heartbeat());
    let frame = line.read().unwrap();
    assert_eq!((frame.len(), frame[0], frame[5], frame[6], frame[7]), (21, 0xFD, 51, 68, 109));
    assert!(frame[16] > 90, "the queue is empty: {frame:?}");
}

#[test]
fn spoofed_and_unrouted_packets_stay_out() {
    let name = "flight::spoofed_and_unrouted_packets_stay_out";
    if !inside_with_tunnels(name) {
        return;
    }
    let rig = Rig::new(1);
    // The drone's file gives it an address that the station's does not allow it.
    let tunnel = "[tunnel]\naddress = [\"10.77.0.2/24\", \"10.77.0.66/24\"]\n";
    let station = rig.start_station("[tunnel]\naddress = \"10.77.0.1/24\"\n");
    let drone = rig.start_drone(&[0], tunnel);
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let far = socket(&rig.station, "10.77.0.1:5600");
    let liar = socket(&rig.drone, "10.77.0.66:5600");
    let honest = socket(&rig.drone, "10.77.0.2:5600");
    let send = || {
        liar.send_to(b"spoofed", "10.77.0.1:5600").unwrap();
        honest.send_to(b"honest", "10.77.0.1:5600").unwrap();
    };
    send_until(&far, send, |bytes| {
        assert_eq!(bytes, b"honest");
        station.status()["tunnel"]["spoofed"].as_u64() > Some(0)
    });
    far.send_to(b"to nobody", "10.77.0.99:5600").unwrap();
    station.wait_for("it is counted", |status| status["tunnel"]["unrouted"].as_u64() > Some(0));
}

#[test]
fn a_full_socket_holds_up_no_other_path() {
    let name = "flight::a_full_socket_holds_up_no_other_path";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let transport = "[transport]\ncongestion = \"none\"\nscheduler = \"round_robin\"\n\
                     send_buffer_bytes = 4096\n";
    let station = rig.start_station(STATION);
    let drone = rig.start_drone(&[0, 1], &format!("{DRONE}{transport}"));
    drone.wait_for_paths(2);
    station.wait_for_paths(2);
    // The first link becomes so slow, and its queue so long, that the socket is full from then on:
    // whoever waits for room waits for eight seconds.
    let shape = "qdisc add dev l0 root tbf rate 1kbit burst 2000 limit 10000000";
    let mut tc = std::process::Command::new("tc");
    rig.drone.place(tc.args(shape.split(' ')));
    if !tc.status().is_ok_and(|status| status.success()) {
        return sandbox::skip(name, "tc cannot make a token bucket filter");
    }
    let (near, far) =
        (socket(&rig.drone, "10.77.0.2:5600"), socket(&rig.station, "10.77.0.1:5600"));
    let (companion, sticks) =
        (socket(&rig.drone, "127.0.0.1:0"), socket(&rig.station, "127.0.0.1:14801"));
    companion.connect("127.0.0.1:14800").unwrap();
    let flood = std::thread::spawn(move || {
        // 20 Mbit/s for two seconds.
        for _ in 0..1_000 {
            for _ in 0..5 {
                near.send_to(&[0; 1_000], "10.77.0.1:5600").unwrap();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let mut waits = Vec::new();
    while !flood.is_finished() {
        let sent = Instant::now();
        companion.send(b"control").unwrap();
        assert_eq!(receive(&sticks), b"control");
        waits.push(sent.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(far);
    let status = drone.status();
    let path = &status["peers"][0]["paths"][0];
    assert_eq!(path["send_errors"], 0, "{status:#}");
    let worst = waits.into_iter().max().unwrap();
    assert!(worst < Duration::from_secs(4), "control waited {worst:?}: {status:#}");
}

#[test]
fn two_drones_that_are_both_system_1_stay_apart() {
    let name = "flight::two_drones_that_are_both_system_1_stay_apart";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let mavlink = |name: &str, peer: &str, kind: &str, port: u16| {
        format!(
            "[[mavlink]]\nname = \"{name}\"\npeer = \"{peer}\"\nkind = \"{kind}\"\n\
             address = \"127.0.0.1:{port}\"\nradio_status_hz = 0\nstatustext = false\n"
        )
    };
    let key = rig.make_keys("second");
    let second_peer = format!("[[peer]]\nname = \"second\"\npublic_key = \"{key}\"\n");
    let station = rig.start_station(&format!(
        "{second_peer}{}{}",
        mavlink("a", "drone", "udp-client", 14_550),
        mavlink("b", "second", "udp-client", 14_560)
    ));
    let first = rig.start_drone(&[0], &mavlink("autopilot", "station", "udp-server", 14_555));
    let text = std::fs::read_to_string(rig.directory.path().join("drone.toml")).unwrap();
    let text = text.replace("drone.key", "second.key").replace("drone.sock", "second.sock");
    let second = rig.start("second", &rig.drone, &text.replace("14555", "14565"));
    first.wait_for_paths(1);
    second.wait_for_paths(1);
    station.wait_for("both drones are connected", |status| {
        let peers = status["peers"].as_array().unwrap();
        peers.iter().all(|peer| peer["connected"] == true)
    });

    let grounds = [14_550, 14_560].map(|port| socket(&rig.station, &format!("127.0.0.1:{port}")));
    let autopilots = [14_555, 14_565].map(|port| {
        let autopilot = socket(&rig.drone, "127.0.0.1:0");
        autopilot.connect(("127.0.0.1", port)).unwrap();
        autopilot
    });
    // The same system and component, told apart by the sequence number alone.
    for sequence in [0, 1] {
        let place = usize::from(sequence);
        let source = (1, 1);
        let frame =
            encode_frame(Version::V2, sequence, source, 0, &[0, 0, 0, 0, 2, 3, 81, 4, 3]).unwrap();
        autopilots[place].send(&frame).unwrap();
        let mut buffer = [0; 64];
        let (length, from) = grounds[place].recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], frame);
        let answer = encode_frame(Version::V2, sequence, (255, 190), 0, &[6; 9]).unwrap();
        grounds[place].send_to(&answer, from).unwrap();
        assert_eq!(receive(&autopilots[place]), answer);
    }
    for socket in grounds.iter().chain(&autopilots) {
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut [0; 64]).is_err(), "something came to the wrong place");
    }
}

#[test]
fn paths_over_ipv6_work_as_over_ipv4() {
    let name = "flight::paths_over_ipv6_work_as_over_ipv4";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    for (host, last) in [(&rig.drone, 1), (&rig.station, 2)] {
        let address = std::net::Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last);
        let added = host.run(|| interface_setup::add_address("l0", address, 64)).unwrap();
        if added.is_err() {
            return sandbox::skip(name, "no IPv6 here");
        }
    }
    let control = |kind: &str, port: u16| {
        format!(
            "[[control]]\nname = \"c\"\nchannel = 9\nkind = \"{kind}\"\n\
             address = \"127.0.0.1:{port}\"\n"
        )
    };
    let both = "[[listen]]\naddress = \"[::]:14700\"\n";
    let station = rig.start_station(&format!("{both}{}", control("udp-client", 7_000)));
    let path = "[[path]]\nname = \"six\"\ninterface = \"l0\"\nremote = \"[fd77::2]:14700\"\n";
    let drone = rig.start_drone(&[0], &format!("{path}{}", control("udp-server", 7_001)));
    drone.wait_for_paths(2);
    let status = station.wait_for_paths(2);
    let paths = status["peers"][0]["paths"].as_array().unwrap();
    assert!(paths.iter().any(|path| path["remote"].as_str().unwrap().starts_with("[fd77::1]:")));
    assert!(paths.iter().all(|path| path["interface"] == "l0"), "{status:#}");
    let far = socket(&rig.station, "127.0.0.1:7000");
    socket(&rig.drone, "127.0.0.1:0").send_to(b"over both", "127.0.0.1:7001").unwrap();
    assert_eq!(receive(&far), b"over both");
}
