//! Names of stations and of interfaces: networks with IPv6 alone, captive portals, and interfaces
//! that the system renames.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;
use std::process::Command;

use simple_dns::rdata::{A, AAAA, RData};
use simple_dns::{CLASS, Packet, QTYPE, RCODE, ResourceRecord, TYPE};
use sys::interface_setup::{self, VethEnd};
use sys::netns::{Namespace, set_parameter};
use sys::sandbox;

use crate::rig::{Daemon, Rig};

/// Answers questions for names at an address of a host, for as long as the test runs: with what a
/// name has, or that there is no such name; `*` has what every other name has.
fn answer_names(host: &Namespace, at: IpAddr, known: &[(&str, &[&str])]) {
    let known: BTreeMap<String, Vec<IpAddr>> = known
        .iter()
        .map(|(name, all)| ((*name).into(), all.iter().map(|it| it.parse().unwrap()).collect()))
        .collect();
    let socket = host.run(|| UdpSocket::bind((at, 53)).unwrap()).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let asked = Packet::parse(&buffer[..length]).unwrap();
            let question = &asked.questions[0];
            let mut reply = Packet::new_reply(asked.id());
            let name = question.qname.to_string().to_ascii_lowercase();
            match known.get(&name).or_else(|| known.get("*")) {
                Some(addresses) => {
                    let of_kind = addresses.iter().filter_map(|address| match address {
                        IpAddr::V4(it) if question.qtype == QTYPE::TYPE(TYPE::A) => {
                            Some(RData::A(A { address: (*it).into() }))
                        }
                        IpAddr::V6(it) if question.qtype == QTYPE::TYPE(TYPE::AAAA) => {
                            Some(RData::AAAA(AAAA { address: (*it).into() }))
                        }
                        _ => None,
                    });
                    reply.answers.extend(of_kind.map(|data| {
                        ResourceRecord::new(question.qname.clone(), CLASS::IN, 1, data)
                    }));
                }
                None => *reply.rcode_mut() = RCODE::NameError,
            }
            reply.questions = asked.questions.clone();
            let _ = socket.send_to(&reply.build_bytes_vec().unwrap(), from);
        }
    });
}

/// A program of the product under a resolv.conf and a list of hosts of its own.
fn under(rig: &Rig, servers: &[&str]) -> Command {
    let place = |name: &str| rig.directory.path().join(name).display().to_string();
    let (resolv, hosts) = (place("resolv.conf"), place("hosts"));
    let text: String = servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    std::fs::write(&resolv, text + "options timeout:1 attempts:1\n").unwrap();
    if !Path::new(&hosts).exists() {
        std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    }
    let script = format!(
        "mount --bind {resolv} /etc/resolv.conf && mount --bind {hosts} /etc/hosts && exec \"$0\" \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_fulmar")]);
    command
}

/// Adds a link that has IPv6 alone: fd00:NUMBER::1 on the drone, ::2 at the station.
fn add_ipv6_link(rig: &Rig, number: u8) {
    let name = format!("l{number}");
    let end = |namespace, last| VethEnd { name: &name, mac: [2, 0, 0, 0, number, last], namespace };
    interface_setup::create_veth(&end(&rig.drone, 1), &end(&rig.station, 2), 1_500).unwrap();
    for (host, last) in [(&rig.drone, 1), (&rig.station, 2)] {
        host.run(|| {
            set_parameter(&format!("net/ipv6/conf/{name}/accept_dad"), "0").unwrap();
            interface_setup::set_up(&name).unwrap();
            let address = Ipv6Addr::new(0xfd00, number.into(), 0, 0, 0, 0, 0, last);
            interface_setup::add_address(&name, address, 64).unwrap();
        })
        .unwrap();
    }
}

/// Skips where the kernel has no IPv6.
fn inside_with_ipv6(name: &str) -> bool {
    if !sandbox::inside(name) {
        return false;
    }
    let has_ipv6 = UdpSocket::bind("[::1]:0").is_ok();
    if !has_ipv6 {
        sandbox::skip(name, "no IPv6 on the loopback");
    }
    has_ipv6
}

fn start_drone(rig: &Rig, servers: &[&str], paths: &str) -> Daemon {
    let text = format!("{}{paths}", rig.head("drone", "station", "10.77.0.1/32"));
    rig.start_by(under(rig, servers), "drone", &rig.drone, &text)
}

fn start_station(rig: &Rig) -> Daemon {
    let head = rig.head("station", "drone", "10.77.0.2/32");
    let text = format!(
        "{head}[[listen]]\naddress = \"0.0.0.0:14700\"\n[[listen]]\naddress = \"[::]:14700\"\n"
    );
    rig.start("station", &rig.station, &text)
}

/// Returns what the report says of a path.
fn of_path(daemon: &Daemon, name: &str, key: &str) -> String {
    let status = daemon.status();
    let paths = status["peers"][0]["paths"].as_array().unwrap();
    let path = paths.iter().find(|path| path["name"] == name).unwrap();
    path[key].as_str().unwrap().to_owned()
}

#[test]
fn a_name_is_reached_over_links_with_ipv6_alone_with_ipv4_alone_and_with_what_is_left_of_both() {
    let name = "names::a_name_is_reached_over_links_with_ipv6_alone_with_ipv4_alone_and_with_what_is_left_of_both";
    if !inside_with_ipv6(name) {
        return;
    }
    let rig = Rig::new(1);
    rig.station.run(|| set_parameter("net/ipv4/conf/all/arp_ignore", "1").unwrap()).unwrap();
    add_ipv6_link(&rig, 1);
    let known: [(&str, &[&str]); 2] =
        [("both.example", &["192.168.0.2", "fd00:1::2"]), ("six.example", &["fd00:1::2"])];
    answer_names(&rig.station, "fd00:1::2".parse().unwrap(), &known);
    answer_names(&rig.station, "192.168.0.2".parse().unwrap(), &known);
    let station = start_station(&rig);
    let paths = "[[path]]\nname = \"four\"\ninterface = \"l0\"\nremote = \"both.example:14700\"\n\
                 [[path]]\nname = \"both\"\ninterface = \"l1\"\nremote = \"both.example:14700\"\n\
                 [[path]]\nname = \"six\"\ninterface = \"l1\"\nremote = \"six.example:14700\"\n\
                 [[path]]\nname = \"none\"\ninterface = \"l0\"\nremote = \"six.example:14700\"\n";
    let drone = start_drone(&rig, &["192.168.0.2", "fd00:1::2"], paths);
    drone.wait_for_paths(3);
    station.wait_for_paths(3);
    assert_eq!(of_path(&drone, "four", "remote"), "192.168.0.2:14700");
    assert_eq!(of_path(&drone, "both", "remote"), "[fd00:1::2]:14700");
    let trouble = of_path(&drone, "none", "trouble");
    assert!(trouble.contains("has IPv6 addresses alone, and l0 has IPv4 alone"), "{trouble}");

    // The mobile network has both now, and then IPv4 alone: what the name has is not behind it, and
    // is tried all the same.
    rig.drone.run(|| add_address("l1", 1)).unwrap();
    rig.station.run(|| add_address("l1", 2)).unwrap();
    let gone = "fd00:1::1".parse::<Ipv6Addr>().unwrap();
    rig.drone.run(|| interface_setup::remove_address("l1", gone, 64).unwrap()).unwrap();
    drone.wait_for_within(30, "it is gone", |status| {
        let paths = status["peers"][0]["paths"].as_array().unwrap();
        paths.iter().any(|path| path["name"] == "both" && path["state"] != "active")
    });
    let back = || interface_setup::add_address("l1", gone, 64).unwrap();
    rig.drone.run(back).unwrap();
    drone.wait_for_within(30, "it is there again", |status| {
        let paths = status["peers"][0]["paths"].as_array().unwrap();
        paths.iter().filter(|path| path["state"] == "active").count() == 3
    });
}

fn add_address(name: &str, last: u8) {
    interface_setup::add_address(name, Ipv4Addr::new(192, 168, 1, last), 24).unwrap();
}

#[test]
fn one_path_may_have_addresses_of_both_families_and_takes_what_its_link_has() {
    let name = "names::one_path_may_have_addresses_of_both_families_and_takes_what_its_link_has";
    if !inside_with_ipv6(name) {
        return;
    }
    let rig = Rig::new(1);
    add_ipv6_link(&rig, 1);
    let station = start_station(&rig);
    let remote = "remote = [\"192.168.0.2:14700\", \"[fd00:1::2]:14700\"]\n";
    let paths: String =
        [0, 1].iter().map(|link| format!("[[path]]\ninterface = \"l{link}\"\n{remote}")).collect();
    let drone = start_drone(&rig, &[], &paths);
    drone.wait_for_paths(2);
    station.wait_for_paths(2);
    assert_eq!(of_path(&drone, "l0", "remote"), "192.168.0.2:14700");
    assert_eq!(of_path(&drone, "l1", "remote"), "[fd00:1::2]:14700");
}

#[test]
fn a_captive_portal_answers_for_its_own_link_alone() {
    let name = "names::a_captive_portal_answers_for_its_own_link_alone";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    // As if each were another computer: an address is found by its own link alone.
    rig.station.run(|| set_parameter("net/ipv4/conf/all/arp_ignore", "1").unwrap()).unwrap();
    // The portal of l0 has itself for every name; it is the first in the system's list.
    answer_names(&rig.station, "192.168.0.2".parse().unwrap(), &[("*", &["192.168.0.66"])]);
    let truth: [(&str, &[&str]); 1] = [("station.example", &["192.168.1.2"])];
    answer_names(&rig.station, "192.168.1.2".parse().unwrap(), &truth);
    let station = rig.start_station("");
    let paths = "[[path]]\ninterface = \"l0\"\nremote = \"station.example:14700\"\n\
                 [[path]]\ninterface = \"l1\"\nremote = \"station.example:14700\"\n";
    let drone = start_drone(&rig, &["192.168.0.2", "192.168.1.2"], paths);
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    assert_eq!(of_path(&drone, "l1", "state"), "active");
    assert_eq!(of_path(&drone, "l1", "remote"), "192.168.1.2:14700");
    assert_eq!(of_path(&drone, "l0", "remote"), "192.168.0.66:14700");
}

/// Gives an interface another name, as udev does.
fn rename(host: &Namespace, from: &str, to: &str) {
    for change in [&["down"][..], &["name", to], &["up"]] {
        let subject = if change == ["up"] { to } else { from };
        let mut command = Command::new("ip");
        command.args(["link", "set", subject]).args(change);
        host.place(&mut command);
        assert!(command.status().unwrap().success(), "{change:?}");
    }
}

#[test]
fn a_path_finds_its_interface_by_pattern_whatever_the_system_calls_it() {
    let name = "names::a_path_finds_its_interface_by_pattern_whatever_the_system_calls_it";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let station = rig.start_station("");
    let paths = "[[path]]\nname = \"a\"\ninterface = \"l*\"\nremote = \"192.168.0.2:14700\"\n\
                 [[path]]\nname = \"b\"\ninterface = \"l*\"\nremote = \"192.168.1.2:14700\"\n";
    let drone = start_drone(&rig, &[], paths);
    drone.wait_for_paths(2);
    station.wait_for_paths(2);
    let names = || [of_path(&drone, "a", "interface"), of_path(&drone, "b", "interface")];
    assert_eq!(names(), ["l0", "l1"]);

    rename(&rig.drone, "l0", "x0");
    drone.wait_for("the first is gone", |status| {
        let trouble = status["peers"][0]["paths"][0]["trouble"].as_str().unwrap();
        trouble.contains("l1, which l* fits, is another path's")
    });
    rename(&rig.drone, "x0", "l9");
    drone.wait_for_paths(2);
    assert_eq!(names(), ["l9", "l1"], "each keeps what it has");
    rename(&rig.drone, "l1", "l2");
    drone.wait_for_paths(2);
    assert_eq!(names(), ["l9", "l2"]);

    let checked = check(&rig, "drone.toml");
    assert!(checked.contains("path \"a\": l* is l2 here, and l9 would fit too"), "{checked}");
}

/// Returns what `fulmar check` says of a drone's file.
fn check(rig: &Rig, file: &str) -> String {
    let mut command = under(rig, &[]);
    command.arg("check").arg(rig.directory.path().join(file));
    rig.drone.place(&mut command);
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}
