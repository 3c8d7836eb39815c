//! `fulmar-lab emulate` with real programs: delays, the audit, and what stays behind.
//!
//! A test that needs a program inside an emulated host runs itself there: the variable `INSIDE`
//! names the part it plays.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

const INSIDE: &str = "FULMAR_TEST_INSIDE";
const PORT: u16 = 7_007;
const PINGS: u32 = 50;

const SCENARIO: &str = r#"
seconds = 10
[[link]]
name = "wifi"
between = ["drone", "station"]
up = { delay_ms = 15 }
down = { delay_ms = 5 }
"#;

fn lab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fulmar-lab"))
}

/// Writes the scenario where the test `name` may find it.
fn scenario(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
    fs::write(&path, SCENARIO).expect("the target directory is writable");
    path
}

/// Says whether hosts can be emulated here, and in plain sight when they cannot.
fn can_emulate(test: &str, options: &[&str]) -> bool {
    let path = scenario(test);
    let output = lab().arg("emulate").arg(path).args(options).args(["--", "true"]).output();
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
    let output: Output = lab()
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

/// Pings the station from the drone and prints the shortest and the median round trip.
fn ping() {
    let address = |host: &str| {
        let text = env::var(format!("FULMAR_ADDRESS_{host}_WIFI")).expect("the emulator says");
        SocketAddrV4::new(text.parse().expect("an address"), PORT)
    };
    let (drone, station) = (address("DRONE"), address("STATION"));
    let namespace = env::var("FULMAR_NETNS_STATION").expect("the emulator says");
    let namespace = sys::netns::Namespace::open(Path::new(&namespace)).expect("it is open");
    let echo = namespace.run(|| UdpSocket::bind(station)).expect("entered").expect("bound");
    thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((length, from)) = echo.recv_from(&mut bytes) {
            let _ = echo.send_to(&bytes[..length], from);
        }
    });
    let socket = UdpSocket::bind(drone).expect("bound");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    let mut round_trips = Vec::new();
    for number in 0..PINGS {
        let sent = Instant::now();
        socket.send_to(&number.to_ne_bytes(), station).expect("sent");
        let mut bytes = [0; 64];
        assert_eq!(socket.recv(&mut bytes).expect("an answer"), 4);
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
}

/// Starts `emulate` with a shell script that prints `ready` and stays; returns when it did.
fn start_script(test: &str, script: &str) -> (Child, mpsc::Receiver<String>) {
    let mut child = lab()
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
        let output = lab().arg("emulate").arg(scenario(name)).args(arguments).output();
        output.expect("the lab starts").status.code()
    };
    assert_eq!(code(&["--", "false"]), Some(1));
    assert_eq!(code(&["--", "/no/such/program"]), Some(1));
    assert_eq!(code(&["--host", "nobody", "--", "true"]), Some(2));
    assert_eq!(code(&["--resolution-ms", "0", "--", "true"]), Some(2));
}
