//! A relayed link between real daemons: two relays at each side, over the emulator's wires and
//! radio, and somebody who hears all three networks and sends on them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use emulator::{Emulation, Options, read_scenario};
use serde_json::Value;
use sys::broadcast::{BroadcastOptions, BroadcastSocket};
use sys::interface_setup;
use sys::netns::Namespace;
use sys::udp::ReceiveBuffers;

use crate::rig::{Daemon, Rig, inside_with_tunnels};

const FIELD: &str = r#"
name = "field"
seconds = 600
[[radio]]
name = "gwire"
hosts = ["station", "g1", "g2", "eve"]
[[radio]]
name = "awire"
hosts = ["drone", "a1", "a2", "eve"]
[[radio]]
name = "air"
hosts = ["g1", "g2", "a1", "a2", "eve"]
loss = 0.1
delay_ms = 1
"#;
const HOSTS: [&str; 7] = ["station", "drone", "g1", "g2", "a1", "a2", "eve"];
const WIRE: u16 = 14_710;
const RADIO: u16 = 14_711;
/// Bytes of a transfer, that takes about a second.
const BYTES: usize = 1_500_000;

struct Field {
    rig: Rig,
    hosts: BTreeMap<&'static str, Namespace>,
    daemons: BTreeMap<&'static str, Daemon>,
    _emulation: Emulation,
}

impl Field {
    fn new() -> Self {
        let rig = Rig::new(0);
        let file = rig.directory.path().join("field.toml");
        let hosts: String =
            HOSTS.iter().map(|host| format!("[[host]]\nname = \"{host}\"\n")).collect();
        std::fs::write(&file, format!("{FIELD}{hosts}")).unwrap();
        let scenario = read_scenario(&file).unwrap();
        let emulation = Emulation::start(&scenario, 1, &Options::default()).unwrap();
        let namespace = |host: &'static str| {
            (host, Namespace::open(&emulation.outer_namespace_path(host)).unwrap())
        };
        let hosts = HOSTS.into_iter().map(namespace).collect();
        rig.make_keys("relay");
        let mut field = Self { rig, hosts, daemons: BTreeMap::new(), _emulation: emulation };
        HOSTS.into_iter().take(6).for_each(|host| field.start(host));
        field.daemons["drone"].wait_for_within(20, "the path over relays works", |status| {
            status["peers"][0]["paths"][0]["state"] == "active"
        });
        field
    }

    fn start(&mut self, host: &'static str) {
        let folder = self.rig.directory.path().display().to_string();
        let wire =
            format!("{}wire", if matches!(host, "station" | "g1" | "g2") { "g" } else { "a" });
        let text = match host {
            "drone" | "station" => {
                let (peer, own, section) = match host {
                    "drone" => ("station", 2, "[[path]]"),
                    _ => ("drone", 1, "[[listen]]"),
                };
                let head = self.rig.head(host, peer, &format!("10.88.0.{}/32", 3 - own));
                format!(
                    "{head}{section}\nrelay = \"air\"\n[[relay]]\nname = \"air\"\n\
                     group_key_file = \"relay.key\"\nwire = {{ interface = \"{wire}\" }}\n\
                     [tunnel]\naddress = \"10.88.0.{own}/24\"\n"
                )
            }
            relay => {
                let side = if relay.starts_with('g') { "ground" } else { "air" };
                let number = &relay[1..];
                format!(
                    "role = \"relay\"\n[status]\nsocket = \"{folder}/{relay}.sock\"\n[relay]\nside = \"{side}\"\n\
                     node = {number}\ngroup_key_file = \"relay.key\"\nwire = {{ interface = \"{wire}\" }}\n\
                     radio = {{ interface = \"air\", rate_mbps = 10 }}\n"
                )
            }
        };
        self.daemons.insert(host, self.rig.start(host, &self.hosts[host], &text));
    }

    fn kill(&mut self, host: &str) {
        drop(self.daemons.remove(host));
    }

    /// Sends bytes from the drone to the station by TCP, does something after a third of them, and
    /// returns what came.
    fn transfer(&mut self, bytes: &[u8], meanwhile: impl FnOnce(&mut Self)) -> Vec<u8> {
        let listener = self.hosts["station"].run(|| TcpListener::bind("10.88.0.1:5001").unwrap());
        let listener = listener.unwrap();
        let receiver = std::thread::spawn(move || {
            let (mut line, _) = listener.accept().unwrap();
            line.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let mut came = Vec::new();
            line.read_to_end(&mut came).unwrap();
            came
        });
        let line = self.hosts["drone"].run(|| TcpStream::connect("10.88.0.1:5001").unwrap());
        let mut line = line.unwrap();
        let (first, rest) = bytes.split_at(bytes.len() / 3);
        line.write_all(first).unwrap();
        meanwhile(self);
        line.write_all(rest).unwrap();
        drop(line);
        receiver.join().unwrap()
    }

    fn relay(&self, host: &str) -> Value {
        self.daemons[host].status()["relays"][0].clone()
    }

    fn refused(&self, host: &str, why: &str) -> u64 {
        self.relay(host)["refused"][why].as_u64().unwrap()
    }

    /// Opens a socket of the one who hears everything.
    fn ear(&self, interface: &str, port: u16) -> BroadcastSocket {
        let address = SocketAddrV4::new(Ipv4Addr::BROADCAST, port);
        let open = || {
            BroadcastSocket::bind(&BroadcastOptions {
                interface: interface.into(),
                index: interface_setup::index(interface).unwrap(),
                address,
                send_buffer: 1 << 16,
                receive_buffer: 1 << 20,
            })
            .unwrap()
        };
        self.hosts["eve"].run(open).unwrap()
    }
}

/// Takes down what passes for a while.
fn hear(socket: &BroadcastSocket, time: Duration) -> Vec<Vec<u8>> {
    let (mut buffers, mut heard) = (ReceiveBuffers::default(), Vec::new());
    let end = Instant::now() + time;
    while Instant::now() < end {
        while socket.receive(&mut buffers).unwrap() {
            buffers.for_each(|_, bytes| heard.push(bytes.to_vec()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    heard
}

/// Side, hop and number of a frame's sender [specs/relay.md §1].
fn sender(frame: &[u8]) -> (u8, u8, u8) {
    (frame[1] & 1, frame[1] >> 1 & 1, frame[2])
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut rng = units::Rng::new(3);
    let mut noise = vec![0; bytes];
    rng.fill(&mut noise);
    noise
}

#[test]
fn tcp_over_relays_arrives_bit_for_bit_while_one_of_each_side_dies_and_comes_back() {
    let name =
        "relays::tcp_over_relays_arrives_bit_for_bit_while_one_of_each_side_dies_and_comes_back";
    if !inside_with_tunnels(name) {
        return;
    }
    let mut field = Field::new();
    let bytes = noise(BYTES);
    let came = field.transfer(&bytes, |field| {
        ["g1", "a2"].into_iter().for_each(|host| field.kill(host));
        ["g1", "a2"].into_iter().for_each(|host| field.start(host));
    });
    assert!(came == bytes, "{} of {} bytes", came.len(), bytes.len());
    for host in ["station", "drone"] {
        let members = |status: &Value| {
            let members = status["relays"][0]["members"].as_array().unwrap().clone();
            let is_alive = |member: &&Value| member["alive"] == true;
            members.iter().filter(is_alive).count()
        };
        field.daemons[host].wait_for("both relays are heard again", |status| members(status) == 2);
    }
    let drone = field.relay("drone");
    assert!(drone["sent"]["frames"].as_u64() >= Some(1_000), "{drone:#}");
    assert!(field.relay("g2")["relayed"]["useful"].as_u64() > Some(0));
    assert!(field.relay("a1")["relayed"]["radio"].as_u64() > Some(0));
    let table = field.daemons["g2"].table();
    assert!(table.contains("relayed link ground relay 2, wire gwire, radio air"), "{table}");
    assert!(table.contains("air relay 1"), "{table}");
    let table = field.daemons["station"].table();
    // The path has the name that the drone gives it.
    assert!(table.contains("  air   gwire ") && table.contains("ground relay 1"), "{table}");
}

#[test]
fn what_is_forged_repeated_sent_back_or_moved_is_counted_by_name_and_changes_nothing() {
    let name =
        "relays::what_is_forged_repeated_sent_back_or_moved_is_counted_by_name_and_changes_nothing";
    if !inside_with_tunnels(name) {
        return;
    }
    let mut field = Field::new();
    let wire = field.ear("gwire", WIRE);
    let air = field.ear("air", RADIO);
    let listen = || hear(&wire, Duration::from_millis(600));
    let frames = listen();
    let of = |frames: &[Vec<u8>], number: u8| {
        let is_its = |frame: &&Vec<u8>| frame.len() > 20 && sender(frame) == (0, 0, number);
        frames.iter().filter(is_its).cloned().collect::<Vec<_>>()
    };
    let [gateway, relay, beside] = [0, 1, 2].map(|number| of(&frames, number));
    let is_heard = ![&gateway, &relay, &beside].iter().any(|frames| frames.is_empty());
    assert!(is_heard, "{} frames", frames.len());
    let bytes = noise(BYTES);
    let came = field.transfer(&bytes, |_| {
        for frame in gateway.iter().chain(&relay).chain(&beside) {
            let mut altered = frame.clone();
            altered[20] ^= 1;
            for bytes in [frame, &altered, &frame[..9].to_vec()] {
                assert!(wire.send(bytes).unwrap() && air.send(bytes).unwrap());
            }
        }
    });
    assert!(came == bytes, "{} of {} bytes", came.len(), bytes.len());
    let counted = |host: &str, why: &str| {
        let count = field.refused(host, why);
        assert!(count > 0, "{host} {why}: {:#}", field.relay(host));
    };
    for host in ["station", "g1", "g2"] {
        ["malformed", "bad_code", "replayed", "reflected"]
            .into_iter()
            .for_each(|why| counted(host, why));
    }
    ["g1", "g2", "a1", "a2"].into_iter().for_each(|host| counted(host, "cross_hop"));
    // Another start of the relay takes its place: what the one before said is of an earlier boot.
    field.kill("g1");
    field.start("g1");
    field.daemons["station"].wait_for("the relay is back", |status| {
        status["relays"][0]["members"]
            .as_array()
            .unwrap()
            .iter()
            .any(|member| member["name"] == "ground relay 1" && member["alive"] == true)
    });
    let _ = hear(&wire, Duration::from_millis(300));
    let before = field.refused("station", "earlier_boot");
    relay.iter().for_each(|frame| assert!(wire.send(frame).unwrap()));
    field.daemons["station"].wait_for("frames of an earlier start are refused", |status| {
        status["relays"][0]["refused"]["earlier_boot"].as_u64() > Some(before)
    });
    let again = noise(BYTES / 5);
    assert!(field.transfer(&again, |_| {}) == again);
}

#[test]
fn a_relay_that_starts_ten_times_never_uses_a_key_and_a_counter_twice() {
    let name = "relays::a_relay_that_starts_ten_times_never_uses_a_key_and_a_counter_twice";
    if !inside_with_tunnels(name) {
        return;
    }
    let mut field = Field::new();
    let (wire, air) = (field.ear("gwire", WIRE), field.ear("air", RADIO));
    let mut boots = BTreeMap::new();
    for _ in 0..10 {
        field.kill("g1");
        field.start("g1");
        for socket in [&wire, &air] {
            for frame in hear(socket, Duration::from_millis(300)) {
                if frame.len() > 17 && (frame[1] & 1, frame[2]) == (0, 1) {
                    let (boot, counter) = (frame[3..11].to_vec(), frame[11..17].to_vec());
                    let same = boots.entry((boot, counter)).or_insert_with(|| frame.clone());
                    assert!(*same == frame, "two frames under one key and counter");
                }
            }
        }
    }
    let starts: std::collections::BTreeSet<_> = boots.keys().map(|(boot, _)| boot).collect();
    assert!(starts.len() >= 10, "{} starts were heard", starts.len());
}

#[test]
fn two_relays_of_one_number_are_named_in_log_and_status_and_one_whose_radio_goes_waits_for_it() {
    let name = "relays::two_relays_of_one_number_are_named_in_log_and_status_and_one_whose_radio_goes_waits_for_it";
    if !inside_with_tunnels(name) {
        return;
    }
    let mut field = Field::new();
    let air_down = || {
        let down = std::process::Command::new("ip").args(["link", "set", "air", "down"]).status();
        assert!(down.unwrap().success());
    };
    if Path::new("/usr/sbin/ip").exists() || Path::new("/sbin/ip").exists() {
        field.hosts["g2"].run(air_down).unwrap();
        field.daemons["g2"].wait_for("its radio is away", |status| {
            status["relays"][0]["trouble"].as_str().unwrap().contains("air is down")
        });
        field.hosts["g2"].run(|| interface_setup::set_up("air").unwrap()).unwrap();
        field.daemons["g2"]
            .wait_for("its radio is back", |status| status["relays"][0]["trouble"] == "");
    }
    let folder = field.rig.directory.path();
    let text = std::fs::read_to_string(folder.join("g2.toml")).unwrap();
    let twin = text.replace("g2.sock", "twin.sock");
    let twin_runs = field.rig.start("twin", &field.hosts["g2"], &twin);
    let station = &field.daemons["station"];
    station.wait_for("the doubled number is named", |status| {
        status["relays"][0]["trouble"] == "two nodes have one number: ground relay 2"
    });
    station.wait_for_log("two nodes have one number: ground relay 2");
    let bytes = noise(BYTES / 5);
    assert!(field.transfer(&bytes, |_| {}) == bytes);
    // It is told the number that was free, and all is well.
    std::fs::write(
        field.rig.directory.path().join("twin.toml"),
        twin.replace("node = 2", "node = 7"),
    )
    .unwrap();
    twin_runs.signal("HUP");
    field.daemons["station"].wait_for("the third relay is heard", |status| {
        let members = status["relays"][0]["members"].as_array().unwrap().clone();
        members.iter().any(|member| member["name"] == "ground relay 7" && member["alive"] == true)
    });
}
