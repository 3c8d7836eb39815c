//! `asran-instability` and `asran-traffic`: the hop is what was measured in flight, in virtual and
//! in real time, and kernel flows that meet on it give the promised figures.
#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::process::{Command, Output};

use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fulmar-lab")).arg("run").args(arguments).output().unwrap()
}

fn results(output: &Output) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["results"].as_array().unwrap().clone()
}

/// Returns what an emulated run gives; none, in plain sight, where the machine does not allow it.
fn emulated(test: &str, arguments: &[&str]) -> Option<Vec<Value>> {
    let common = ["--emu", "--json", "--allow-invalid", "--repetitions", "1", "--settle-s", "2"];
    let output = lab(&[arguments, &common[..]].concat());
    if output.status.success() {
        return Some(results(&output));
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    let lacking =
        ["make a namespace", "/dev/net/tun", "not permitted", "without clang", "this kernel"];
    assert!(lacking.iter().any(|lack| reason.contains(lack)), "{reason}");
    sys::sandbox::skip(test, &reason);
    None
}

fn figure(result: &Value, key: &str) -> f64 {
    result[key].as_f64().unwrap_or_else(|| panic!("{key} in {result}"))
}

#[test]
fn the_hop_is_what_was_measured_in_flight() {
    let lengths = ["--long-s", "1.7,2,4,8", "--short-ms", "10,40,200"];
    let arguments = ["asran-instability", "--sim", "--json", "--seconds", "1200", "--full", "0.4"];
    let output = lab(&[&arguments[..], &lengths].concat());
    let results = results(&output);
    assert_eq!(results.len(), 12, "every combination of lengths");
    for result in results {
        let (zero, full) = (figure(&result, "zero_share"), figure(&result, "full_share"));
        assert!((zero - 0.19).abs() < 0.015, "{result}");
        assert!((full - 0.40).abs() < 0.025, "{result}");
    }
}

#[test]
fn impossible_outages_are_refused() {
    let wrong: [&[&str]; 4] = [
        &["asran-instability", "--sim", "--long-s", "0.5"],
        &["asran-instability", "--sim", "--zero", "1"],
        &["asran-instability", "--sim", "--rtt-ms", "-5"],
        &["asran-traffic", "--emu", "--heavy", "udp"],
    ];
    for arguments in wrong {
        let output = lab(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn kernel_flows_meet_on_the_hop() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let schemes = ["--schemes", "udp,cubic,asran_cubic", "--seconds", "8", "--rtt-ms", "60"];
    let arguments = [&["asran-instability", "--out", out], &schemes[..]].concat();
    let Some(results) = emulated("kernel_flows_meet_on_the_hop", &arguments) else { return };
    let names: Vec<&str> = results.iter().filter_map(|one| one["scheme"].as_str()).collect();
    assert_eq!(names, ["udp", "cubic", "asran_cubic"]);
    assert!(figure(&results[0], "throughput_mbps") < 1.0, "the hop loses some: {}", results[0]);
    for result in &results[1..] {
        let flow = figure(result, "throughput_mbps");
        assert!((0.2..3.1).contains(&flow), "as much as was offered at most: {result}");
        for key in ["cubic_mbps", "ratio_to_cubic", "cubic_kept", "jain", "srtt_ms", "timeouts"] {
            assert!(figure(result, key) >= 0.0, "{result}");
        }
        assert_eq!(figure(result, "queue_drops"), 0.0, "nothing fills the queue: {result}");
    }
    let tables = ["throughput.csv", "cwnd.csv", "repetitions.csv", "scenario.toml"];
    for name in ["throughput.svg", "cwnd.svg"].into_iter().chain(tables) {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text.len() > 100 && !text.contains("NaN"), "{name}");
    }
}

#[test]
fn a_heavy_sender_fills_the_queue() {
    let name = "a_heavy_sender_fills_the_queue";
    let schemes = ["--schemes", "cubic", "--seconds", "8", "--rtt-ms", "60", "--hop-mbps", "4"];
    let arguments = [&["asran-traffic"], &schemes[..]].concat();
    let Some(results) = emulated(name, &arguments) else { return };
    assert!(figure(&results[0], "queue_drops") > 0.0, "{}", results[0]);
}
