//! What links do that is no loss of theirs, and what on this host keeps datagrams from them: told
//! in words that lead to it.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::sandbox;

use crate::rig::{Daemon, Rig, on};
use crate::stream::Stream;

/// An address of the station behind a gateway.
const FAR: &str = "203.0.113.2";

/// Starts a drone with a path to [`FAR`] over each of the first links; the station has that
/// address.
fn start_far(rig: &Rig, links: u8) -> Daemon {
    on(&rig.station, &format!("ip address add {FAR}/32 dev lo"));
    // It is far away: nobody on the link says that it is here.
    let place = "/proc/sys/net/ipv4/conf/all/arp_ignore";
    rig.station.run(|| std::fs::write(place, "1").unwrap()).unwrap();
    let path = |number| format!("[[path]]\ninterface = \"l{number}\"\nremote = \"{FAR}:14700\"\n");
    let paths: String = (0..links).map(path).collect();
    let text = format!("{}{paths}", rig.head("drone", "station", "10.77.0.1/32"));
    rig.start("drone", &rig.drone, &text)
}

/// What `fulmar check` says of the drone's file, on the drone.
fn checked(rig: &Rig) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.arg("check").arg(rig.directory.path().join("drone.toml"));
    rig.drone.place(&mut command);
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

fn trouble(status: &Value, path: usize) -> String {
    status["peers"][0]["paths"][path]["trouble"].as_str().unwrap_or_default().to_owned()
}

/// Waits until the drone says this of a path, and `check` says the same.
fn wait_until_told(rig: &Rig, drone: &Daemon, path: usize, words: &str) {
    drone.wait_for(words, |status| trouble(status, path).contains(words));
    let checked = checked(rig);
    assert!(checked.contains(words), "{words}: {checked}");
    assert!(table(drone).contains(words), "{}", drone.table());
}

/// Returns what a person reads, whatever the width of the screen.
fn table(drone: &Daemon) -> String {
    drone.table().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asserts that neither end sees loss for a while.
fn assert_no_loss(ends: [&Daemon; 2], time: Duration) {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        for end in ends {
            let status = end.status();
            for path in status["peers"][0]["paths"].as_array().unwrap() {
                let lost = ["loss_percent", "loss_in_percent"].map(|key| path[key].as_f64());
                assert_eq!(lost, [Some(0.0); 2], "{path:#}");
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_perfect_link_of_a_small_mtu_loses_nothing() {
    if !sandbox::inside("ways::a_perfect_link_of_a_small_mtu_loses_nothing") {
        return;
    }
    let rig = Rig::new(2);
    for host in [&rig.drone, &rig.station] {
        on(host, "ip link set l0 mtu 1300");
        on(host, "ip link set l1 mtu 1420");
    }
    let station = rig.start_station("");
    let drone = rig.start_drone(&[0, 1], "");
    drone.wait_for_paths(2);
    station.wait_for_paths(2);
    assert_no_loss([&drone, &station], Duration::from_secs(8));
}

#[test]
fn the_first_of_two_addresses_that_never_answers_is_no_loss() {
    if !sandbox::inside("ways::the_first_of_two_addresses_that_never_answers_is_no_loss") {
        return;
    }
    let rig = Rig::new(2);
    let station = rig.start_station("");
    let path = |number| {
        let remotes = format!("\"192.168.{number}.77:14700\", \"192.168.{number}.2:14700\"");
        format!("[[path]]\ninterface = \"l{number}\"\nremote = [{remotes}]\n")
    };
    let text = format!("{}{}{}", rig.head("drone", "station", "10.77.0.1/32"), path(0), path(1));
    let drone = rig.start("drone", &rig.drone, &text);
    drone.wait_for_within(30, "both are found", |status| {
        let paths = status["peers"][0]["paths"].as_array().unwrap();
        paths.iter().all(|path| path["state"] == "active")
    });
    assert_no_loss([&drone, &station], Duration::from_secs(4));
}

#[test]
fn a_network_that_drops_marked_packets_carries_control_unmarked_and_that_is_told() {
    let name =
        "ways::a_network_that_drops_marked_packets_carries_control_unmarked_and_that_is_told";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    for host in [&rig.drone, &rig.station] {
        // What is marked goes into a queue that holds nothing.
        on(host, "tc qdisc add dev l0 root handle 1: htb default 10");
        for class in ["1:10", "1:20"] {
            on(host, &format!("tc class add dev l0 parent 1: classid {class} htb rate 1gbit"));
        }
        on(host, "tc qdisc add dev l0 parent 1:20 bfifo limit 1");
        let marked = "protocol ip prio 1 u32 match ip tos 0xb8 0xfc flowid 1:20";
        on(host, &format!("tc filter add dev l0 parent 1: {marked}"));
    }
    let _station = rig.start_station(Stream::STATION);
    let drone = rig.start_drone(&[0], Stream::DRONE);
    drone.wait_for_within(20, "there is a session", |status| {
        status["peers"][0]["connected"] == true
    });
    let stream = Stream::new(&rig);
    let words = "drops what is marked as control";
    let deadline = Instant::now() + Duration::from_secs(20);
    while !trouble(&drone.status(), 0).contains(words) {
        assert!(Instant::now() < deadline, "{:#}", drone.status());
        stream.run_for(Duration::from_millis(200));
    }
    assert!(table(&drone).contains(words), "{}", drone.table());
    let worst = stream.run_for(Duration::from_secs(2));
    println!("control waited {worst:?} at most");
    assert_eq!(drone.status()["peers"][0]["paths"][0]["state"], "active");
}

#[test]
fn a_missing_route_and_a_gateway_that_does_not_answer_are_named() {
    if !sandbox::inside("ways::a_missing_route_and_a_gateway_that_does_not_answer_are_named") {
        return;
    }
    let rig = Rig::new(1);
    let _station = rig.start_station("");
    let drone = start_far(&rig, 1);
    wait_until_told(&rig, &drone, 0, "l0 has no route to 203.0.113.2");
    // The book's old test says otherwise.
    on(&rig.drone, "ip route get 203.0.113.2 oif l0");
    on(&rig.drone, "ip route add default via 192.168.0.77 dev l0");
    wait_until_told(&rig, &drone, 0, "the gateway 192.168.0.77 does not answer on l0");
    on(&rig.drone, "ip route replace default via 192.168.0.2 dev l0");
    drone.wait_for_paths(1);
    assert!(!checked(&rig).contains("l0"), "{}", checked(&rig));
    // It goes while the path works.
    on(&rig.drone, "ip route del default");
    wait_until_told(&rig, &drone, 0, "l0 has no route to 203.0.113.2");
    on(&rig.drone, "ip route add default via 192.168.0.2 dev l0 table 100");
    on(&rig.drone, "ip rule add from 192.168.0.1 lookup 100");
    wait_until_told(&rig, &drone, 0, "ip rule add oif l0 lookup 100");
    on(&rig.drone, "ip rule add oif l0 lookup 100");
    drone.wait_for_paths(1);
    // Nor does it look well while there is no carrier, or the interface is off.
    on(&rig.station, "ip link set l0 down");
    wait_until_told(&rig, &drone, 0, "no carrier");
    on(&rig.drone, "ip link set l0 down");
    wait_until_told(&rig, &drone, 0, "switched off");
}

#[test]
fn a_strict_filter_is_named_before_and_while_it_drops() {
    if !sandbox::inside("ways::a_strict_filter_is_named_before_and_while_it_drops") {
        return;
    }
    let rig = Rig::new(2);
    for number in 0..2 {
        let metric = 600 + number;
        let via = format!("default via 192.168.{number}.2 dev l{number} metric {metric}");
        on(&rig.drone, &format!("ip route add {via}"));
    }
    let set = |value: &str| {
        let place = "/proc/sys/net/ipv4/conf/l1/rp_filter";
        rig.drone.run(|| std::fs::write(place, value).unwrap()).unwrap();
    };
    set("1");
    let _station = rig.start_station("");
    let drone = start_far(&rig, 2);
    wait_until_told(&rig, &drone, 1, "sysctl -w net.ipv4.conf.l1.rp_filter=2");
    set("2");
    drone.wait_for_paths(2);
    assert!(!checked(&rig).contains("rp_filter"), "{}", checked(&rig));
}
