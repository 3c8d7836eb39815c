//! Networks behind the drone and beside the station: a camera that the tunnel leads to.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use sys::interface_setup::{self, VethEnd};
use sys::netns::Namespace;

use crate::rig::{Rig, inside_with_tunnels};

/// The network behind the drone, and the camera in it.
const NETWORK: &str = "192.168.144.0/24";
const CAMERA: Ipv4Addr = Ipv4Addr::new(192, 168, 144, 25);

/// Joins a host to another one by an interface of this name at both, with these addresses.
fn join(name: &str, ends: [(&Namespace, Ipv4Addr); 2]) {
    let end = |(namespace, address): (&Namespace, Ipv4Addr)| {
        let [.., last] = address.octets();
        (namespace.try_clone().unwrap(), [2, 0, 0, 1, 44, last])
    };
    let [(one, one_mac), (other, other_mac)] = ends.map(end);
    let veth = |namespace, mac| VethEnd { name, mac, namespace };
    interface_setup::create_veth(&veth(&one, one_mac), &veth(&other, other_mac), 1_500).unwrap();
    for (host, address) in ends {
        host.run(|| {
            interface_setup::set_up(name).unwrap();
            interface_setup::add_address(name, address, 24).unwrap();
        })
        .unwrap();
    }
}

fn trouble(status: &Value) -> &str {
    status["trouble"].as_str().unwrap_or_default()
}

/// What `fulmar check` says of the station's file.
fn checked(rig: &Rig) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.arg("check").arg(rig.directory.path().join("station.toml"));
    rig.station.place(&mut command);
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

#[test]
fn what_keeps_the_tunnel_from_a_network_behind_it_is_told() {
    if !inside_with_tunnels("behind::what_keeps_the_tunnel_from_a_network_behind_it_is_told") {
        return;
    }
    let rig = Rig::new(1);
    let camera = Namespace::create().unwrap();
    join("cam", [(&rig.drone, Ipv4Addr::new(192, 168, 144, 11)), (&camera, CAMERA)]);
    let forwarding = "/proc/sys/net/ipv4/ip_forward";
    if let Err(error) = rig.drone.run(|| std::fs::write(forwarding, "0")).unwrap() {
        return sys::sandbox::skip("behind", &format!("write {forwarding}: {error}"));
    }
    let station = rig.head("station", "drone", "10.77.0.1/32").replace(
        "allowed_addresses = \"10.77.0.1/32\"",
        &format!("allowed_addresses = [\"10.77.0.1/32\", \"{NETWORK}\"]"),
    );
    let text = format!(
        "{station}[[listen]]\naddress = \"0.0.0.0:14700\"\n[tunnel]\naddress = \"10.77.0.2/24\"\n"
    );
    let station = rig.start("station", &rig.station, &text);
    let drone = rig.head("drone", "station", "10.77.0.2/32");
    let path = "[[path]]\ninterface = \"l0\"\nremote = \"192.168.0.2:14700\"\n";
    let drone = format!("{drone}{path}[tunnel]\naddress = \"10.77.0.1/24\"\n");
    let drone = rig.start("drone", &rig.drone, &drone);
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let pilot = rig.station.run(|| UdpSocket::bind("10.77.0.2:0").unwrap()).unwrap();
    let ask = || _ = pilot.send_to(b"picture", (CAMERA, 5_000));
    let status = drone.wait_for("the drone tells what it drops", |status| {
        ask();
        trouble(status).contains("packets for 192.168.144.25 are dropped here")
    });
    assert!(trouble(&status).contains("net.ipv4.ip_forward = 0"), "{status:#}");
    assert!(status["tunnel"]["not_passed_on"].as_u64().unwrap() > 0, "{status:#}");
    assert_eq!(trouble(&station.status()), "");

    // It passes on, and the camera hears it.
    rig.drone.run(|| std::fs::write(forwarding, "1")).unwrap().unwrap();
    let heard = camera.run(|| UdpSocket::bind((CAMERA, 5_000)).unwrap()).unwrap();
    heard.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    drone.wait_for("it is well", |status| trouble(status).is_empty());
    drone.wait_for("the camera hears it", |_| {
        ask();
        heard.recv(&mut [0; 16]).is_ok()
    });

    // A network of the station has the same addresses, and was there first.
    drop(station);
    let tablet = Namespace::create().unwrap();
    let lan = [Ipv4Addr::new(192, 168, 144, 1), Ipv4Addr::new(192, 168, 144, 77)];
    join("lan", [(&rig.station, lan[0]), (&tablet, lan[1])]);
    let station = rig.start("station", &rig.station, &text);
    let status = station.wait_for("the station tells of it", |status| {
        trouble(status).contains("leave by lan and not by fulmar0")
    });
    assert!(trouble(&status).contains(NETWORK), "{status:#}");
    assert!(checked(&rig).contains("is the network of lan too"), "{}", checked(&rig));
    rig.station.run(|| interface_setup::remove_address("lan", lan[0], 24)).unwrap().unwrap();
    station.wait_for("it is well again", |status| trouble(status).is_empty());
    // A lease that comes after the tunnel: now it is the network of the station that is not
    // reached.
    rig.station.run(|| interface_setup::add_address("lan", lan[0], 24)).unwrap().unwrap();
    station.wait_for("the other one is not reached", |status| {
        trouble(status).contains("nobody is reached on lan")
    });
}
