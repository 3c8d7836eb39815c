//! `emulate` with real programs: delays, the audit, and what stays behind.
//!
//! A test that needs a program inside an emulated host runs itself there: the variable `INSIDE`
//! names the part it plays.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use netem::{Direction, LinkEnd, Net, Scenario, VERDICT_LOG_HEADER};
use serde_json::Value;

const INSIDE: &str = "FULMAR_TEST_INSIDE";
const PORT: u16 = 7_007;
const PINGS: u32 = 50;
const FLOOD: u32 = 300;

const SCENARIO: &str = r#"
seconds = 10
[[link]]
name = "wifi"
between = ["drone", "station"]
up = { delay_ms = 15 }
down = { delay_ms = 5 }
"#;

fn emulator() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fulmar-emulator"))
}

/// Every random process of the model at once.
const ROUGH: &str = r#"
seconds = 10
[[link]]
name = "wifi"
between = ["drone", "station"]
delay_ms = 2
jitter_ms = 1
rate_mbps = 2
queue_packets = 8
loss = 0.1
duplicate = 0.1
corrupt = 0.1
[link.down]
jitter_shape = "exponential"
keep_order = false
"#;

const CLOCKS: &str = r#"
[[host]]
name = "drone"
clock_offset_ms = 5_000_000
[[host]]
name = "station"
[[link]]
name = "wifi"
between = ["drone", "station"]
"#;

const BROADCAST: &str = r#"
[[broadcast]]
name = "radio"
from = "drone"
to = ["north", "south"]
delay_ms = 10
[[broadcast.receiver]]
host = "south"
loss = 1
"#;

/// A wired network, and a radio on which only `north` has heard the drone.
const RADIO: &str = r#"
[[radio]]
name = "wire"
hosts = ["drone", "north", "south"]
[[radio]]
name = "air"
hosts = ["south", "north", "drone"]
[radio.matrix]
file = "radio.slots"
"#;

const CHAIN: &str = r#"
[[link]]
name = "air"
between = ["drone", "relay"]
delay_ms = 4
[[link]]
name = "hop"
between = ["relay", "mast"]
delay_ms = 5
[[link]]
name = "wifi"
between = ["mast", "station"]
delay_ms = 6
"#;

/// Writes the scenario where the test `name` may find it.
fn scenario(name: &str) -> PathBuf {
    let text = match name {
        "world_and_emulator_give_the_same_verdicts" => ROUGH,
        "hosts_have_clocks_of_their_own" => CLOCKS,
        "a_broadcast_reaches_whom_the_model_lets_hear_it" => BROADCAST,
        "each_host_of_a_radio_is_heard_by_all_others_as_the_matrix_says" => RADIO,
        "relays_forward_both_ways_over_a_chain_of_links" => CHAIN,
        _ => SCENARIO,
    };
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
    fs::write(&path, text).expect("the target directory is writable");
    let matrix = "slot_ms 10\ndrone north 1\nnorth south 1\n";
    fs::write(path.with_file_name("radio.slots"), matrix).expect("it is writable");
    path
}

/// Says whether hosts can be emulated here, and in plain sight when they cannot.
fn can_emulate(test: &str, options: &[&str]) -> bool {
    let path = scenario(test);
    let output = emulator().arg("emulate").arg(path).args(options).args(["--", "true"]).output();
    let output = output.expect("the lab starts");
    if output.status.success() {
        return true;
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    assert!(reason.contains("make a namespace"), "{reason}");
    sys::sandbox::skip(test, &reason);
    false
}

/// Runs the test `name` inside the first host; returns the audit's JSON and what was printed.
fn run_inside(name: &str, options: &[&str]) -> (Value, String) {
    let binary = env::current_exe().expect("the test has a file");
    let output: Output = emulator()
        .arg("emulate")
        .arg(scenario(name))
        .arg("--json")
        .args(options)
        .arg("--")
        .arg(binary)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, name)
        .output()
        .expect("the lab starts");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{printed}");
    let report = serde_json::from_slice(&output.stdout).expect("stdout is one JSON object");
    (report, printed)
}

fn is_inside(name: &str) -> bool {
    env::var(INSIDE).is_ok_and(|inside| inside == name)
}

/// Returns a host's address on a link, as the emulator tells programs.
fn address(host: &str, link: &str) -> Ipv4Addr {
    let variable = format!("FULMAR_ADDRESS_{host}_{link}");
    env::var(variable).expect("the emulator says").parse().expect("an address")
}

/// Binds a socket in another host.
fn socket_in(host: &str, address: SocketAddrV4) -> UdpSocket {
    let path = env::var(format!("FULMAR_NETNS_{host}")).expect("the emulator says");
    let namespace = sys::netns::Namespace::open(Path::new(&path)).expect("it is open");
    namespace.run(|| UdpSocket::bind(address)).expect("entered").expect("bound")
}

/// Binds a socket in the drone, where this runs, and one in the station.
fn inside_sockets() -> (UdpSocket, UdpSocket) {
    sockets_on("WIFI", "WIFI")
}

/// The same with the links on which drone and station are.
fn sockets_on(drone: &str, station: &str) -> (UdpSocket, UdpSocket) {
    let at = |host, link| SocketAddrV4::new(address(host, link), PORT);
    let drone = UdpSocket::bind(at("DRONE", drone)).expect("bound");
    (drone, socket_in("STATION", at("STATION", station)))
}

/// Pings the station from the drone and prints the shortest and the median round trip.
fn ping() {
    ping_over(inside_sockets());
}

fn ping_over((socket, echo): (UdpSocket, UdpSocket)) {
    let station = echo.local_addr().expect("bound");
    thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((length, from)) = echo.recv_from(&mut bytes) {
            let _ = echo.send_to(&bytes[..length], from);
        }
    });
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    let mut round_trips = Vec::new();
    for number in 0..PINGS {
        let sent = Instant::now();
        socket.send_to(&number.to_ne_bytes(), station).expect("sent");
        let mut bytes = [0; 64];
        let answer = socket.recv(&mut bytes);
        assert_eq!(answer.ok(), Some(4), "no answer to ping {number}");
        round_trips.push(sent.elapsed());
    }
    round_trips.sort();
    let (shortest, median) = (round_trips[0], round_trips[round_trips.len() / 2]);
    println!("\nROUND_TRIP {} {}", shortest.as_micros(), median.as_micros());
}

/// Returns what `ping` printed, in microseconds.
fn round_trip(printed: &str) -> (u64, u64) {
    let line = printed.lines().find_map(|line| line.strip_prefix("ROUND_TRIP "));
    let numbers = line.expect(printed).split_once(' ').expect("two numbers");
    (numbers.0.parse().expect("a number"), numbers.1.parse().expect("a number"))
}

fn pings_show_both_delays(name: &str, options: &[&str]) {
    if is_inside(name) {
        return ping();
    }
    if !can_emulate(name, options) {
        return;
    }
    let (report, printed) = run_inside(name, options);
    let (shortest, median) = round_trip(&printed);
    println!("round trip: shortest {shortest} µs, median {median} µs; {}", report["audit"]);
    // Early is never right, not by a microsecond.
    assert!(shortest >= 20_000, "{shortest}");
    if report["valid"] == true {
        assert!(median <= 22_000, "{median}");
    } else {
        println!("the machine is too busy to judge lateness");
    }
    let up = &report["links"][0];
    assert_eq!(up["packets_in"], PINGS, "no traffic but the test's meets the model: {up}");
    assert_eq!(up["bytes_in"], PINGS * 32, "lengths are those of IP packets: {up}");
}

#[test]
fn round_trips_show_the_delays_of_both_directions() {
    pings_show_both_delays("round_trips_show_the_delays_of_both_directions", &[]);
}

#[test]
fn an_ordinary_user_gets_the_same_links() {
    pings_show_both_delays("an_ordinary_user_gets_the_same_links", &["--as-user"]);
}

#[test]
fn relays_forward_both_ways_over_a_chain_of_links() {
    let name = "relays_forward_both_ways_over_a_chain_of_links";
    if is_inside(name) {
        return ping_over(sockets_on("AIR", "WIFI"));
    }
    if !can_emulate(name, &[]) {
        return;
    }
    let (report, printed) = run_inside(name, &[]);
    let (shortest, _) = round_trip(&printed);
    assert!(shortest >= 30_000, "three links of 4, 5 and 6 ms each way: {shortest}");
    for link in report["links"].as_array().expect("a list") {
        assert_eq!(link["packets_out"], PINGS, "every ping crossed every link: {link}");
    }
}

#[test]
fn audit_declares_a_late_emulator_invalid() {
    let name = "audit_declares_a_late_emulator_invalid";
    if is_inside(name) {
        return ping();
    }
    if !can_emulate(name, &[]) {
        return;
    }
    let (report, printed) = run_inside(name, &["--sabotage-us", "3000"]);
    let (shortest, _) = round_trip(&printed);
    assert!(shortest >= 26_000, "two directions, each 3 ms late: {shortest}");
    assert_eq!(report["valid"], false);
    let reasons = report["audit"]["reasons"].to_string();
    assert!(reasons.contains("p99 of frames' lateness"), "{reasons}");
    let p50 = report["audit"]["lateness"]["p50_us"].as_f64().expect("a number");
    assert!(p50 >= 3_000.0, "the audit knows how late: {p50}");
    let stalls = report["audit"]["stalls"].as_array().expect("a list");
    let by_emulator = |stall: &&Value| stall["who"] == "emulator";
    assert!(stalls.iter().any(|stall| by_emulator(&stall)), "and when: {stalls:?}");
}

#[test]
fn world_and_emulator_give_the_same_verdicts() {
    let name = "world_and_emulator_give_the_same_verdicts";
    if is_inside(name) {
        return flood();
    }
    if !can_emulate(name, &[]) {
        return;
    }
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.csv"));
    run_inside(name, &["--seed", "7", "--log", log.to_str().expect("a plain path")]);
    let log = fs::read_to_string(log).expect("the log is there");
    let mut lines = log.lines();
    assert_eq!(lines.next(), Some(VERDICT_LOG_HEADER));
    let scenario = Scenario::from_toml(ROUGH, name).expect("the scenario is sound");
    let mut net = Net::new(&scenario, 7);
    let mut fates = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |field: usize| fields[field].parse::<u64>().expect(line);
        let direction = if fields[3] == "from_drone" { Direction::Up } else { Direction::Down };
        let entry = LinkEnd { link: 0, direction };
        let (at, length) = (units::Instant::from_nanos(number(1)), number(5) as usize);
        let arrivals = net.handle_packet(at, entry, length);
        let arrival = arrivals.first().expect("one receiver");
        assert_eq!(net.record(at, entry, length, arrival).to_string(), line);
        *fates.entry(fields[6].to_owned()).or_insert(0) += 1;
    }
    println!("{fates:?}");
    assert!(["delivered", "loss", "queue"].iter().all(|fate| fates[*fate] > 0));
    assert_eq!(fates.values().sum::<u32>(), 2 * FLOOD);
}

/// Sends more than the link carries, both ways.
fn flood() {
    let (drone, station) = inside_sockets();
    let (to_drone, to_station) = (drone.local_addr(), station.local_addr());
    for _ in 0..FLOOD {
        drone.send_to(&[0; 600], to_station.as_ref().expect("bound")).expect("sent");
        station.send_to(&[0; 200], to_drone.as_ref().expect("bound")).expect("sent");
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(100));
}

#[test]
fn hosts_have_clocks_of_their_own() {
    let name = "hosts_have_clocks_of_their_own";
    if !sys::timens::is_available() {
        return sys::sandbox::skip(name, "this kernel has no time namespaces");
    }
    if !can_emulate(name, &[]) {
        return;
    }
    let uptime = |text: &str| {
        let first = text.split_ascii_whitespace().next().expect(text);
        first.parse::<f64>().expect("seconds")
    };
    let inside = |host| {
        let mut lab = emulator();
        lab.arg("emulate").arg(scenario(name));
        lab.args(["--host", host, "--", "cat", "/proc/uptime"]);
        uptime(&String::from_utf8_lossy(&lab.output().expect("the lab starts").stdout))
    };
    let outside = || uptime(&fs::read_to_string("/proc/uptime").expect("/proc is mounted"));
    let shift = inside("drone") - outside();
    assert!((4_990.0..5_010.0).contains(&shift), "{shift}");
    assert!((inside("station") - outside()).abs() < 10.0);
}

#[test]
fn a_broadcast_reaches_whom_the_model_lets_hear_it() {
    let name = "a_broadcast_reaches_whom_the_model_lets_hear_it";
    if is_inside(name) {
        let receivers = ["NORTH", "SOUTH"].map(|host| {
            let all = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT);
            let socket = socket_in(host, all);
            socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
            socket
        });
        let own = SocketAddrV4::new(address("DRONE", "RADIO"), PORT);
        let sender = UdpSocket::bind(own).expect("bound");
        sender.set_broadcast(true).expect("allowed");
        let network = Ipv4Addr::from_bits(own.ip().to_bits() | 0xff);
        sender.send_to(b"all", SocketAddrV4::new(network, PORT)).expect("sent");
        let heard = receivers.map(|socket| socket.recv(&mut [0; 8]).is_ok());
        assert_eq!(heard, [true, false]);
        return;
    }
    if !can_emulate(name, &[]) {
        return;
    }
    let (report, _) = run_inside(name, &[]);
    let outs: Vec<_> = [0, 1].iter().map(|one| &report["links"][one]["packets_out"]).collect();
    assert_eq!(outs, [1, 0], "{report}");
}

/// Starts `emulate` with a shell script that prints `ready` and stays; returns when it did.
#[test]
fn each_host_of_a_radio_is_heard_by_all_others_as_the_matrix_says() {
    let name = "each_host_of_a_radio_is_heard_by_all_others_as_the_matrix_says";
    if is_inside(name) {
        // Whether each host hears what each other one broadcasts on a radio.
        let heard = |radio: &str, len: usize| {
            let hosts = ["DRONE", "NORTH", "SOUTH"];
            let sockets = hosts.map(|host| {
                let socket = socket_in(host, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT));
                socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
                socket.set_broadcast(true).expect("allowed");
                socket
            });
            let hears = |from: usize| {
                let own = address(hosts[from], radio);
                let network = Ipv4Addr::from_bits(own.to_bits() | 0xff);
                sockets[from].send_to(&vec![from as u8; len], (network, PORT)).expect("sent");
                let others = (0..3).filter(|&to| to != from);
                // The kernel gives a host its own broadcasts too.
                let mut bytes = [0; 2_000];
                let mut next = |to: usize| sockets[to].recv(&mut bytes).map(|_| bytes[0]).ok();
                let mut got =
                    |to| std::iter::from_fn(|| next(to)).any(|sender| usize::from(sender) == from);
                others.map(&mut got).collect::<Vec<_>>()
            };
            [hears(0), hears(1), hears(2)]
        };
        assert_eq!(heard("WIRE", 1_000), [[true; 2]; 3]);
        assert_eq!(heard("AIR", 1_000), [[true, false], [false, true], [false, false]]);
        assert_eq!(heard("AIR", 100), [[true; 2]; 3], "small ones, where anybody is connected");
        return;
    }
    if !can_emulate(name, &[]) {
        return;
    }
    let (report, _) = run_inside(name, &[]);
    assert_eq!(report["links"].as_array().map(Vec::len), Some(12), "each pair of each radio");
}

fn start_script(test: &str, script: &str) -> (Child, mpsc::Receiver<String>) {
    let mut child = emulator()
        .arg("emulate")
        .arg(scenario(test))
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the lab starts");
    let stdout = child.stdout.take().expect("piped");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    (child, lines)
}

/// Returns the processes that have `marker` in their command line or live in a network namespace
/// called `namespace` (`net:[…]`).
fn processes_of(marker: &str, namespace: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    let pids = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()) && *pid != own)
        .filter(|pid| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let lives_in = fs::read_link(format!("/proc/{pid}/ns/net")).unwrap_or_default();
            String::from_utf8_lossy(&command).contains(marker) || lives_in == Path::new(namespace)
        })
        .collect()
}

#[test]
fn nothing_is_left_after_kill_9() {
    let name = "nothing_is_left_after_kill_9";
    if !can_emulate(name, &[]) {
        return;
    }
    let marker = format!("86{}", std::process::id());
    // One child stays, one is an orphan in a session of its own.
    let script = format!(
        "readlink /proc/self/ns/net; setsid sleep {marker} & sleep {marker} & \
         sleep 0.2; echo ready; wait"
    );
    let (mut child, lines) = start_script(name, &script);
    let namespace = lines.recv_timeout(Duration::from_secs(20)).expect("the host's namespace");
    assert_eq!(lines.recv_timeout(Duration::from_secs(20)).as_deref(), Ok("ready"));
    assert!(processes_of(&marker, &namespace).len() >= 4, "lab, shell and two sleepers");
    child.kill().expect("it runs");
    child.wait().expect("it ran");
    let deadline = Instant::now() + Duration::from_secs(5);
    while !processes_of(&marker, &namespace).is_empty() {
        let left = processes_of(&marker, &namespace);
        assert!(Instant::now() < deadline, "still there: {left:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_polite_request_ends_the_command_too() {
    let name = "a_polite_request_ends_the_command_too";
    if !can_emulate(name, &[]) {
        return;
    }
    let script = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let (mut child, lines) = start_script(name, script);
    assert_eq!(lines.recv_timeout(Duration::from_secs(20)).as_deref(), Ok("ready"));
    sys::signals::terminate(&child).expect("it runs");
    assert_eq!(lines.recv_timeout(Duration::from_secs(10)).as_deref(), Ok("asked"));
    assert!(child.wait().expect("it ran").success());
}

#[test]
fn a_command_that_fails_is_a_failure() {
    let name = "a_command_that_fails_is_a_failure";
    if !can_emulate(name, &[]) {
        return;
    }
    let code = |arguments: &[&str]| {
        let output = emulator().arg("emulate").arg(scenario(name)).args(arguments).output();
        output.expect("the lab starts").status.code()
    };
    assert_eq!(code(&["--", "false"]), Some(1));
    assert_eq!(code(&["--", "/no/such/program"]), Some(1));
    assert_eq!(code(&["--host", "nobody", "--", "true"]), Some(2));
    assert_eq!(code(&["--resolution-ms", "0", "--", "true"]), Some(2));
}
