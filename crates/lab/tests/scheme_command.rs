//! Somebody's own programs beside the lab's schemes, in real time: what they bring, and what is
//! said of those that fail.

use std::process::Command;

use serde_json::Value;

/// A program that hands datagrams on, both ways.
const FORWARD: &str = "python3 -c \"
import socket, sys, threading
local_in, local_out, port, peer = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
inner = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); inner.bind(('127.0.0.1', local_in))
outer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); outer.bind(('', port))
def hand(source, sink, to):
    while True: sink.sendto(source.recv(65536), to)
threading.Thread(target=hand, args=(inner, outer, (peer, port)), daemon=True).start()
hand(outer, inner, ('127.0.0.1', local_out))
\" {udp_in} {udp_out} {port} {peer}";

#[test]
fn a_program_is_measured_beside_the_labs_schemes_and_one_that_fails_says_why() {
    let name = "a_program_is_measured_beside_the_labs_schemes_and_one_that_fails_says_why";
    if Command::new("python3").arg("--version").output().is_err() {
        return sys::sandbox::skip(name, "python3 is not installed");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"))
        .args(["run", "lrt-tcp", "--emu", "--json", "--schemes", "udp", "--loss", "0"])
        .args(["--messages", "50", "--interval-ms", "10"])
        .args(["--scheme-command", &format!("own={FORWARD}")])
        .args(["--scheme-command", "broken=echo 'no such radio' >&2; exit 7 # {udp_in} {udp_out}"])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    if ["namespace", "/dev/net/tun", "permitted"].iter().any(|lack| said.contains(lack)) {
        return sys::sandbox::skip(name, &said);
    }
    let report: Value = serde_json::from_slice(&output.stdout).expect("one object of JSON");
    let row = |scheme: &str| {
        let rows = report["results"].as_array().expect("results");
        rows.iter().find(|row| row["scheme"] == scheme).expect("a row for each").clone()
    };
    assert_eq!((&row("udp")["delivered"], &row("own")["delivered"]), (&50.into(), &50.into()));
    let broken = row("broken");
    let why = broken["skipped"].as_str().expect("it says why");
    assert!(why.contains("exit status: 7") && why.contains("no such radio"), "{why}");
    assert!(broken["delivered"].is_null() && broken["loss"] == 0.0, "what was asked is kept");
    assert!(said.contains("broken: no figures: it ended with"), "{said}");
    assert_eq!(output.status.code(), Some(1), "not all that was asked for came");
}
