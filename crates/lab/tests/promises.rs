//! What the first flight promises, in the deterministic world: exact figures, seeds printed.
//!
//! The same with every scheme and every seed is `fulmar-lab report experiments/*/*.toml`; here it
//! is our own scheme, so that a change that breaks a promise fails a test.
#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::process::Command;

use serde_json::Value;

/// Runs an experiment and returns its results.
fn results(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"))
        .arg("run")
        .args(arguments)
        .args(["--sim", "--json"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["results"].as_array().unwrap().clone()
}

fn figure(result: &Value, key: &str) -> f64 {
    result[key].as_f64().unwrap_or_else(|| panic!("{key} in {result}"))
}

#[test]
fn control_messages_follow_each_other_within_the_promised_time() {
    let arguments = ["conclone-interval", "--schemes", "fulmar", "--seeds", "1-20"];
    let pooled = &results(&arguments)[0];
    assert_eq!(figure(pooled, "delivered"), 40_000.0);
    for result in pooled["by_seed"].as_array().unwrap() {
        let bounds = [("mean_s", 0.525), ("std_s", 0.035), ("max_s", 0.8)];
        for (key, bound) in bounds {
            assert!(figure(result, key) <= bound, "{key} in {result}");
        }
        for key in ["lost", "duplicates", "over_1s"] {
            assert_eq!(figure(result, key), 0.0, "{key} in {result}");
        }
    }
}

#[test]
fn control_and_video_survive_the_blackout_as_promised() {
    let schemes = ["--schemes", "fulmar,redundant", "--seeds", "1-4"];
    let both = results(&[&["mixed-blackout"], &schemes[..]].concat());
    for result in both[0]["by_seed"].as_array().unwrap() {
        for direction in ["up", "down"] {
            let control = &result[direction];
            assert_eq!(figure(control, "control_sent"), 3_000.0);
            assert!(figure(control, "control_miss_share") <= 0.01, "{result}");
        }
        assert!(figure(result, "control_gap_s") <= 0.08, "{result}");
        assert!(figure(result, "video_share_250ms_wifi_up") >= 0.97, "{result}");
        assert!(figure(result, "video_goodput_wifi_dead_mbps") >= 3.2, "{result}");
    }
    let bytes = figure(&both[0], "wire_bytes") / figure(&both[1], "wire_bytes");
    assert!(bytes <= 0.65, "{bytes} of redundant's bytes");
}

#[test]
fn without_video_hardly_a_control_message_is_missed() {
    let arguments = ["mixed-blackout", "--no-video", "--schemes", "fulmar", "--seeds", "1-20"];
    let pooled = &results(&arguments)[0];
    for direction in ["up", "down"] {
        let miss = figure(&pooled[direction], "control_miss_share");
        assert!(miss <= 0.001, "{direction}: {miss}");
    }
}

#[test]
fn the_death_of_a_link_costs_control_nothing_and_data_a_moment() {
    let arguments = ["failover", "--schemes", "fulmar", "--deaths", "100", "--seeds", "1-3"];
    let result = &results(&arguments)[0];
    assert_eq!(figure(result, "deaths"), 300.0);
    for key in ["control_lost", "control_duplicates", "data_never_moved"] {
        assert_eq!(figure(result, key), 0.0, "{key} in {result}");
    }
    assert!(figure(result, "control_excess_ms") <= 1.0, "{result}");
    assert!(figure(result, "data_move_max_ms") <= 100.0, "{result}");
}
