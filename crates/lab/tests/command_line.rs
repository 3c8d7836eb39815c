//! What scripts rely on: exit codes, one JSON object on standard output, names of schemes and
//! figures, the same seed giving the same figures.
#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::process::{Command, Output};

use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fulmar-lab")).args(arguments).output().unwrap()
}

/// Runs a command that must succeed and print one JSON object and nothing else.
fn json(arguments: &[&str]) -> Value {
    let output = lab(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn exit_code(arguments: &[&str]) -> i32 {
    lab(arguments).status.code().unwrap()
}

#[test]
fn wrong_usage_ends_with_2_and_nothing_on_stdout() {
    let wrong: [&[&str]; 9] = [
        &[],
        &["run", "conclone-interval"],
        &["run", "conclone-interval", "--sim", "--emu"],
        &["run", "no-such-experiment", "--sim"],
        &["run", "conclone-interval", "--sim", "--schemes", "no_such_scheme"],
        &["run", "conclone-interval", "--sim", "--schemes", "kernel_mptcp"],
        &["run", "conclone-interval", "--sim", "--loss", "1"],
        &["run", "conclone-interval", "--sim", "--seeds", "9-3"],
        &["report", "no-such-file.toml"],
    ];
    for arguments in wrong {
        let output = lab(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
    assert_eq!(exit_code(&["--help"]), 0);
    assert_eq!(exit_code(&["run", "mixed-blackout", "--help"]), 0);
}

#[test]
fn a_run_is_one_object_with_the_promised_keys() {
    let arguments = ["run", "conclone-interval", "--sim", "--json", "--messages", "40"];
    let report = json(&[&arguments[..], &["--seed", "7"]].concat());
    assert_eq!(report["experiment"], "conclone-interval");
    assert_eq!((report["mode"].as_str(), report["seed"].as_u64()), (Some("sim"), Some(7)));
    assert_eq!(report["valid"], true);
    let results = report["results"].as_array().unwrap();
    let names: Vec<&str> = results.iter().filter_map(|result| result["scheme"].as_str()).collect();
    assert_eq!(
        names,
        ["fulmar", "conclone_tcp", "min_rtt", "round_robin", "redundant", "ideal_arq", "udp"]
    );
    let keys = ["mean_s", "std_s", "max_s", "over_1s", "completion_s", "lost", "duplicates"];
    for (result, key) in results.iter().flat_map(|result| keys.map(|key| (result, key))) {
        assert!(result[key].is_number(), "{key}: {result}");
    }
    assert_eq!(report, json(&[&arguments[..], &["--seed", "7"]].concat()), "same seed, same run");
    assert_ne!(report["results"], json(&[&arguments[..], &["--seed", "8"]].concat())["results"]);
}

#[test]
fn mixed_blackout_names_its_figures() {
    let report = json(&["run", "mixed-blackout", "--sim", "--json", "--schemes", "udp,redundant"]);
    let keys = [
        "control_sent",
        "control_lost",
        "control_late_100ms",
        "control_gap_s",
        "control_p50_ms",
        "control_p99_ms",
        "data_goodput_mbps",
        "wire_bytes",
    ];
    for result in report["results"].as_array().unwrap() {
        assert!(keys.iter().all(|key| result[key].is_number()), "{result}");
        assert_eq!(result["control_sent"], 3_000);
        for direction in ["up", "down"] {
            assert_eq!(result[direction]["control_sent"], 3_000, "{result}");
        }
    }
    // The Wi-Fi is dead for a sixth of the run, and 2 % are lost in the rest.
    let udp = &report["results"][0];
    let lost = udp["control_lost"].as_f64().unwrap();
    assert!((500.0..600.0).contains(&lost), "{udp}");
    assert!(udp["control_gap_s"].as_f64().unwrap() > 10.0, "{udp}");
}

#[test]
fn what_needs_recordings_says_that_there_are_none() {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    lab.args(["run", "flowcode-recorded", "--sim", "--json", "--cc", "cubic"]);
    let output = lab.env("FULMAR_SHARED", "no-such-folder").output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("SKIPPED: flowcode-recorded"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for result in results {
        let why = result["skipped"].as_str().unwrap();
        assert!(why.contains("FULMAR_SHARED") && result["goodput_mbps"].is_null(), "{result}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    let run = ["run", "conclone-interval", "--sim", "--messages", "5", "--schemes", "udp"];
    let (csv, json) = ([&run[..], &["--csv"]].concat(), [&run[..], &["--json"]].concat());
    for arguments in
        [&["list"][..], &["list", "--json"], &["model", "conclone"], &run, &csv, &json, &["--help"]]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
        let ended = command.args(arguments).stdout(closed()).output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {told}");
        assert!(!told.contains("panicked") && !told.contains("ipe"), "{arguments:?}: {told}");
    }
    // And nobody reads what is said of progress, or the complaint.
    for (arguments, code) in [(&run[..], 0), (&["report", "no-such-file.toml"], 2)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
        let ended = command.args(arguments).stderr(closed()).output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn list_and_model_speak_json() {
    let list = json(&["list", "--json"]);
    let names: Vec<&str> = list["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|known| known["experiment"].as_str())
        .collect();
    for name in ["conclone-interval", "mixed-blackout", "throughput", "failover", "lifetime"] {
        assert!(names.contains(&name), "{names:?}");
        assert_eq!(exit_code(&["run", name, "--help"]), 0);
    }
    let model = json(&["model", "conclone", "--json"]);
    assert!(model["checks"].as_array().unwrap().len() > 30);
    let gain =
        ["model", "asran-gain", "--i", "1", "--last-max", "2", "--t", "2.5", "--step", "0.1"];
    let gain = json(&[&gain[..], &["--subflow", "1,2,2.5", "--json"]].concat());
    assert!((gain["cubic_total"].as_f64().unwrap() - 62.375).abs() < 1e-9, "{gain}");
    assert!((gain["asran_total"].as_f64().unwrap() - 100.263).abs() < 1e-3, "{gain}");
    // The same sum in another order: equal but for rounding.
    let of_subflows = gain["subflows"]["gain"].as_f64().unwrap();
    assert!((of_subflows - gain["gain"].as_f64().unwrap()).abs() < 1e-9, "{gain}");
    assert_eq!(exit_code(&["model", "asran-gain", "--step", "0"]), 2);
}

#[test]
fn report_and_picture_are_written_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new");
    let arguments = ["run", "mixed-blackout", "--sim", "--schemes", "udp", "--no-video", "--out"];
    let output = lab(&[&arguments[..], &[out.to_str().unwrap()]].concat());
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("scheme"), "a table for people");
    let written = std::fs::read_to_string(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(report["results"][0]["scheme"], "udp");
    let picture = std::fs::read_to_string(out.join("control-delay.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("Wi-Fi silently dead"));
}
