//! Addresses, ports and interfaces of the drone's file, and what lies on the way.

use sys::netns::Namespace;
use sys::sandbox;

use super::{
    AUTOPILOT, GROUND, assert_heartbeats_come, assert_not_blamed, checked, edit_and_reload, on,
    wait_until_gone, wait_until_told,
};
use crate::rig::{Daemon, Rig};

const NO_KEYS: [&str; 2] = ["strangers", "does not know our public key"];

/// A drone whose one path has these lines.
fn start_drone(rig: &Rig, path: &str) -> Daemon {
    let head = rig.head("drone", "station", "10.77.0.1/32");
    rig.start("drone", &rig.drone, &format!("{head}[[path]]\n{path}{AUTOPILOT}"))
}

/// Drops what a host sends by l0 from or to port 14700: it goes into a queue that holds nothing.
fn drop_packets(host: &Namespace, port: &str) {
    on(host, "tc qdisc add dev l0 root handle 1: htb default 10");
    for class in ["1:10", "1:20"] {
        on(host, &format!("tc class add dev l0 parent 1: classid {class} htb rate 1gbit"));
    }
    on(host, "tc qdisc add dev l0 parent 1:20 bfifo limit 1");
    let matches = format!("match ip protocol 17 0xff match ip {port} 14700 0xffff");
    on(
        host,
        &format!("tc filter add dev l0 parent 1: protocol ip prio 1 u32 {matches} flowid 1:20"),
    );
}

#[test]
fn a_station_whose_daemon_does_not_run() {
    let name = "remedies::links::a_station_whose_daemon_does_not_run";
    if !sandbox::kernel_answers(name) || !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let drone = rig.start_drone(&[0], AUTOPILOT);
    let words = "192.168.0.2:14700 answers that nothing takes UDP there";
    let told = wait_until_told(&drone, &[words]);
    assert_not_blamed(&told, &["block UDP", "route", "gateway"]);
    // The station's computer answers so once a second, the daemon's handshakes too.
    let is_told = (0..10).any(|_| checked(&rig, "drone").contains(words));
    assert!(is_told, "{}", checked(&rig, "drone"));
    let _station = rig.start_station(GROUND);
    drone.wait_for_paths(1);
    wait_until_gone(&drone, words);
    assert_heartbeats_come(&rig);
}

#[test]
fn a_wrong_port_in_the_drones_file() {
    let name = "remedies::links::a_wrong_port_in_the_drones_file";
    if !sandbox::kernel_answers(name) || !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station(GROUND);
    let drone = start_drone(&rig, "interface = \"l0\"\nremote = \"192.168.0.2:14770\"\n");
    let words = "192.168.0.2:14770 answers that nothing takes UDP there";
    let told = wait_until_told(&drone, &[words, "is that the port of its [[listen]]"]);
    assert_not_blamed(&told, &["block UDP", "route", "gateway"]);
    let told = wait_until_told(&station, &["nothing was heard from it yet"]);
    assert_not_blamed(&told, &NO_KEYS);
    edit_and_reload(&rig, &drone, "drone", (":14770", ":14700"));
    drone.wait_for_paths(1);
    assert_heartbeats_come(&rig);
}

#[test]
fn a_wrong_address_in_the_drones_file() {
    if !sandbox::inside("remedies::links::a_wrong_address_in_the_drones_file") {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station(GROUND);
    let drone = start_drone(&rig, "interface = \"l0\"\nremote = \"192.168.0.77:14700\"\n");
    let words = "192.168.0.77, on the network of this interface, does not answer on l0";
    let told = wait_until_told(&drone, &[words]);
    assert_not_blamed(&told, &["firewall", "gateway", "has no route"]);
    let told = checked(&rig, "drone");
    assert!(told.contains(words), "{told}");
    wait_until_told(&station, &["nothing was heard from it yet"]);
    edit_and_reload(&rig, &drone, "drone", (".77:14700", ".2:14700"));
    drone.wait_for_paths(1);
    assert_heartbeats_come(&rig);
}

#[test]
fn a_wrong_interface_in_the_drones_file() {
    if !sandbox::inside("remedies::links::a_wrong_interface_in_the_drones_file") {
        return;
    }
    let rig = Rig::new(1);
    let _station = rig.start_station(GROUND);
    let drone = start_drone(&rig, "interface = \"wlan0\"\nremote = \"192.168.0.2:14700\"\n");
    let words = "no interface wlan0; interfaces here are ";
    let told = wait_until_told(&drone, &["no interface of any path is there", words]);
    assert_not_blamed(&told, &["firewall", "public key there"]);
    let told = checked(&rig, "drone");
    assert!(told.contains(words) && told.contains("l0"), "{told}");
    edit_and_reload(&rig, &drone, "drone", ("\"wlan0\"", "\"l0\""));
    drone.wait_for_paths(1);
    assert_heartbeats_come(&rig);
}

#[test]
fn a_network_that_lets_nothing_to_the_stations_port() {
    if !sandbox::inside("remedies::links::a_network_that_lets_nothing_to_the_stations_port") {
        return;
    }
    let rig = Rig::new(2);
    let station = rig.start_station(GROUND);
    // The one link's network lets nothing to UDP 14700 through.
    drop_packets(&rig.drone, "dport");
    let drone = rig.start_drone(&[0, 1], AUTOPILOT);
    let words = "no answer from 192.168.0.2:14700: is the peer running, does a firewall block UDP?";
    let told = wait_until_told(&drone, &[words, "only one path works"]);
    assert_not_blamed(&told, &["answers that nothing", "route", "gateway", "public key there"]);
    assert_heartbeats_come(&rig);
    // Another port, which the firewall lets through.
    let listen = "[[listen]]\naddress = \"0.0.0.0:14701\"\n[[listen]]";
    edit_and_reload(&rig, &station, "station", ("[[listen]]", listen));
    let remote = "[\"192.168.0.2:14700\", \"192.168.0.2:14701\"]";
    edit_and_reload(&rig, &drone, "drone", ("\"192.168.0.2:14700\"", remote));
    drone.wait_for_within(60, "both paths are active", |status| {
        let paths = status["peers"][0]["paths"].as_array().unwrap();
        paths.iter().all(|path| path["state"] == "active")
    });
}

#[test]
fn answers_that_do_not_leave_the_station() {
    if !sandbox::inside("remedies::links::answers_that_do_not_leave_the_station") {
        return;
    }
    let rig = Rig::new(1);
    let station = rig.start_station(GROUND);
    drop_packets(&rig.station, "sport");
    let drone = rig.start_drone(&[0], AUTOPILOT);
    wait_until_told(&drone, &["no answer yet on any path"]);
    let words = "its handshakes come from 192.168.0.1:";
    let told = wait_until_told(&station, &[words, "none of our answers arrives"]);
    assert_not_blamed(&told, &["nothing was heard", "strangers", "public key there"]);
    on(&rig.station, "tc qdisc del dev l0 root");
    drone.wait_for_paths(1);
    wait_until_gone(&station, words);
    assert_heartbeats_come(&rig);
}

#[test]
fn an_interface_that_is_off_and_a_cable_that_is_out() {
    if !sandbox::inside("remedies::links::an_interface_that_is_off_and_a_cable_that_is_out") {
        return;
    }
    let rig = Rig::new(1);
    let _station = rig.start_station(GROUND);
    let drone = rig.start_drone(&[0], AUTOPILOT);
    drone.wait_for_paths(1);
    on(&rig.drone, "ip link set l0 down");
    let told = wait_until_told(&drone, &["l0 is down: it is switched off, ip link set l0 up"]);
    assert_not_blamed(&told, &["firewall", "carrier"]);
    // As the line says.
    on(&rig.drone, "ip link set l0 up");
    drone.wait_for_paths(1);
    on(&rig.station, "ip link set l0 down");
    let told = wait_until_told(&drone, &["l0 is down: it has no carrier"]);
    assert_not_blamed(&told, &["firewall", "switched off"]);
    on(&rig.station, "ip link set l0 up");
    drone.wait_for_paths(1);
    assert_heartbeats_come(&rig);
}

#[test]
fn a_name_that_nobody_knows() {
    if !sandbox::inside("remedies::links::a_name_that_nobody_knows") {
        return;
    }
    let rig = Rig::new(1);
    let _station = rig.start_station(GROUND);
    let drone = start_drone(&rig, "interface = \"l0\"\nremote = \"nobody.invalid:14700\"\n");
    let told = wait_until_told(&drone, &["nobody.invalid cannot be looked up: "]);
    assert_not_blamed(&told, &["firewall", "public key there"]);
    // An address beside the name.
    let both = "[\"nobody.invalid:14700\", \"192.168.0.2:14700\"]";
    edit_and_reload(&rig, &drone, "drone", ("\"nobody.invalid:14700\"", both));
    drone.wait_for_paths(1);
    assert_heartbeats_come(&rig);
}
