//! `fulmar-lab run asran-loss`: real flows of the kernel's TCP, short enough for every test run.
#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::process::{Command, Stdio};

use serde_json::Value;
use tcp_asran::{Error, Flavour, Loaded};

/// Tells why this machine cannot run flows under ASRAN between emulated hosts.
fn lacking() -> Option<String> {
    if std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").is_err() {
        return Some("/dev/net/tun cannot be opened".to_owned());
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["-np", "--", "true"]).stderr(Stdio::null());
    if !unshare.status().is_ok_and(|status| status.success()) {
        return Some("only root makes namespaces and loads BPF programs".to_owned());
    }
    match Loaded::load_apart(&[Flavour::AsranDelay]) {
        Err(error @ Error::Refused { .. }) => panic!("{error}"),
        loaded => loaded.err().map(|error| error.to_string()),
    }
}

fn lab(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_fulmar-lab"))
        .args(["run", "asran-loss", "--json"])
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn flows_run_alone_and_beside_each_other() {
    if let Some(reason) = lacking() {
        let line = format!("SKIPPED: flows_run_alone_and_beside_each_other: {reason}\n");
        // Past the capture of the test harness.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let grid = ["--loss", "0.01", "--rtt", "20", "--queue-packets", "20", "--rate", "4"];
    let runs = ["--seconds", "2", "--repetitions", "1", "--schemes", "cubic,asran_delay"];
    let rest = ["--emu", "--allow-invalid", "--windows", "--out", out];
    let output = lab(&[&grid[..], &runs, &rest].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for result in results {
        let own = result["throughput_mbps"].as_f64().unwrap();
        let beside = result["beside_mbps"].as_f64().unwrap_or(0.0);
        // Whatever the machine does, a link carries no more than its rate of 4 Mbit/s. The two
        // flows are not measured over the very same moments, and of so short a run that shows.
        assert!(own > 0.0 && own < 4.2 && own + beside < 5.0, "{result}");
        assert!(result["queue_ms"].as_f64().unwrap() < 20.0 * 3.0 + 1.0, "{result}");
    }
    assert_eq!(results[2]["beside_kept"], 1.0, "CUBIC beside CUBIC is what the others are held to");
    let windows = std::fs::read_to_string(folder.path().join("windows.csv")).unwrap();
    assert!(windows.lines().any(|line| line.contains("asran_delay")), "{windows}");
    let picture = std::fs::read_to_string(folder.path().join("trade-off.svg")).unwrap();
    assert!(picture.contains("asran_delay"), "{picture}");
}

#[test]
fn the_world_has_no_kernel() {
    let output = lab(&["--sim"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--emu"));
}
