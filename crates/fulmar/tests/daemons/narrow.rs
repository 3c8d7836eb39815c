//! Links that carry little, and what somebody takes away from the tunnel's interface.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use sys::netns::Namespace;
use sys::{interface_setup, interfaces};

use crate::rig::{Daemon, Rig, inside_with_tunnels};

const DRONE: &str = "[tunnel]\naddress = \"10.77.0.1/24\"\n";
const STATION: &str = "[tunnel]\naddress = \"10.77.0.2/24\"\n";
/// What links carry, in bytes of IP.
const LINKS: [u32; 4] = [1_280, 1_228, 1_000, 576];

/// A drone and a station, each with a tunnel, over two links of which interfaces say what they
/// carry.
fn hosts(mtu: u32) -> (Rig, [Daemon; 2]) {
    let rig = Rig::new(2);
    for host in [&rig.drone, &rig.station] {
        for name in ["l0", "l1"] {
            host.run(|| interface_setup::set_mtu(name, mtu).unwrap()).unwrap();
        }
    }
    let start = |role: &str, peer: &str, host: &Namespace, allowed: &str, more: &str| {
        rig.start(role, host, &format!("{}{more}", rig.head(role, peer, allowed)))
    };
    let paths = [0, 1].map(|number| {
        format!("[[path]]\ninterface = \"l{number}\"\nremote = \"192.168.{number}.2:14700\"\n")
    });
    let more = format!("[[listen]]\naddress = \"0.0.0.0:14700\"\n{STATION}");
    let station = start("station", "drone", &rig.station, "10.77.0.1/32", &more);
    let more = format!("{}{DRONE}", paths.concat());
    let drone = start("drone", "station", &rig.drone, "10.77.0.2/32", &more);
    drone.wait_for_paths(2);
    station.wait_for_paths(2);
    (rig, [drone, station])
}

fn run(host: &Namespace, program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments);
    host.place(&mut command);
    let output = command.output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stderr));
    output.status.success()
}

/// Sends so many bytes over a TCP connection through the tunnel, and returns how long that took.
fn transfer(rig: &Rig, bytes: usize) -> Duration {
    let listener = rig.station.run(|| TcpListener::bind("10.77.0.2:5001").unwrap()).unwrap();
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        stream.write_all(b"all").unwrap();
        got.len()
    });
    let began = Instant::now();
    let mut stream = rig.drone.run(|| TcpStream::connect("10.77.0.2:5001").unwrap()).unwrap();
    stream.write_all(&vec![7; bytes]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!((reader.join().unwrap(), &answer[..]), (bytes, &b"all"[..]));
    began.elapsed()
}

/// Sends datagrams of UDP through the tunnel, and returns how many arrive.
fn datagrams(rig: &Rig, count: usize, bytes: usize) -> usize {
    let socket = rig.station.run(|| UdpSocket::bind("10.77.0.2:5002").unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let sender = rig.drone.run(|| UdpSocket::bind("10.77.0.1:0").unwrap()).unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 2_000];
        let came = |_: &usize| matches!(socket.recv(&mut buffer), Ok(got) if got == bytes);
        (0..count).take_while(came).count()
    });
    for _ in 0..count {
        sender.send_to(&vec![7; bytes], "10.77.0.2:5002").unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    reader.join().unwrap()
}

/// Sends an echo request with so many bytes of data that must not be cut, some times, and tells
/// whether it is answered.
fn ping(host: &Namespace, bytes: usize) -> bool {
    let program = format!(
        "import socket, struct, sys\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)\n\
         s.setsockopt(socket.IPPROTO_IP, 10, 2)\n\
         s.settimeout(1)\n\
         data = bytes({bytes})\n\
         total = 0x0800 + {bytes} + 1\n\
         head = struct.pack('!BBHHH', 8, 0, 0xffff - total, {bytes}, 1)\n\
         for _ in range(5):\n\
         \x20 s.sendto(head + data, ('10.77.0.2', 0))\n\
         \x20 try:\n\
         \x20   while True:\n\
         \x20     got = s.recv(2000)\n\
         \x20     if got[20] == 0 and len(got) == 28 + {bytes}: sys.exit(0)\n\
         \x20 except TimeoutError: pass\n\
         sys.exit(1)\n"
    );
    run(host, "python3", &["-c", &program])
}

#[test]
fn links_that_carry_little_carry_the_tunnel() {
    let name = "narrow::links_that_carry_little_carry_the_tunnel";
    if !sys::sandbox::kernel_answers(name) {
        return;
    }
    if !inside_with_tunnels(name) {
        return;
    }
    for mtu in LINKS {
        let (rig, [drone, _station]) = hosts(mtu);
        let took = transfer(&rig, 200_000);
        assert!(took < Duration::from_secs(5), "{mtu}: the first connection took {took:?}");
        let arrived = datagrams(&rig, 100, 1_200);
        assert!(arrived >= 99, "{mtu}: {arrived} of 100 datagrams");
        for bytes in [56, 500, 972, 1_200, 1_232, 1_252] {
            assert!(ping(&rig.drone, bytes), "{mtu}: ping -s {bytes}");
        }
        let carries = u64::from(mtu) - 28;
        let status = drone.wait_for("the size is known", |status| {
            status["peers"][0]["paths"]
                .as_array()
                .unwrap()
                .iter()
                .all(|path| path["mtu"] == carries)
        });
        let paths = status["peers"][0]["paths"].as_array().unwrap();
        let cut = paths.iter().filter_map(|path| path["cut_datagrams"].as_u64());
        assert!(cut.sum::<u64>() > 0, "{status:#}");
        let table = drone.table();
        assert!(table.contains(&format!("{carries}, ")) && table.contains(" cut"), "{table}");
    }
}

#[test]
fn what_somebody_takes_from_the_tunnels_interface_is_put_back() {
    let name = "narrow::what_somebody_takes_from_the_tunnels_interface_is_put_back";
    if !inside_with_tunnels(name) {
        return;
    }
    let rig = Rig::new(1);
    let more = "[tunnel]\naddress = [\"10.77.0.2/24\", \"fd00:77::2/64\"]\n";
    let text = rig.head("station", "drone", "10.77.0.1/32\", \"10.99.0.0/16\", \"fd00:99::/64");
    let text = text
        .replace("allowed_addresses = \"", "allowed_addresses = [\"")
        .replace("fd00:99::/64\"", "fd00:99::/64\"]");
    let station = rig.start(
        "station",
        &rig.station,
        &format!("{text}[[listen]]\naddress = \"0.0.0.0:14700\"\n{more}"),
    );
    let host = &rig.station;
    let is_whole = || {
        let shown = |arguments: &[&str]| {
            let mut command = Command::new("ip");
            command.args(arguments);
            host.place(&mut command);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let addresses = shown(&["address", "show", "dev", "fulmar0"]);
        let routes = shown(&["route"]) + &shown(&["-6", "route"]);
        let has = ["10.77.0.2/24", "fd00:77::2/64", "mtu 1280", ",UP"];
        has.iter().all(|text| addresses.contains(text))
            && ["10.99.0.0/16", "fd00:99::/64"].iter().all(|text| routes.contains(text))
    };
    assert!(is_whole());
    let faults: [&[&str]; 6] = [
        &["address", "flush", "dev", "fulmar0"],
        &["link", "set", "fulmar0", "down"],
        &["route", "del", "10.99.0.0/16"],
        &["-6", "route", "flush", "dev", "fulmar0"],
        &["link", "set", "fulmar0", "mtu", "1000"],
        &["link", "del", "fulmar0"],
    ];
    for fault in faults {
        assert!(run(host, "ip", fault), "{fault:?}");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_whole() {
            assert!(Instant::now() < deadline, "{fault:?} is not mended");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    station.wait_for_log("somebody took away its address 10.77.0.2/24");
    assert!(station.status()["tunnel"]["put_back"].as_u64() >= Some(3));
    assert!(station.table().contains("times put right"), "{}", station.table());
    let read = |setting: &str| {
        host.run(|| std::fs::read_to_string(format!("/proc/sys/net/{setting}"))).unwrap()
    };
    for setting in ["ipv6/conf/fulmar0/accept_ra", "ipv6/conf/fulmar0/accept_redirects"] {
        assert!(read(setting).map_or(true, |is| is == "0\n"), "{setting}");
    }
    let list = host.run(|| interfaces::list().unwrap()).unwrap();
    let seen = list.iter().find(|seen| seen.name == "fulmar0").unwrap();
    assert!(seen.addresses.contains(&Ipv4Addr::new(10, 77, 0, 2).into()) && seen.mtu == 1_280);
}
