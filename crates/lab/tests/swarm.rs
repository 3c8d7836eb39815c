//! The swarm looks for what must not be: the runs that have found something, and five hundred
//! others.
#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::process::{Command, Output};

use serde_json::Value;

/// Runs that are played each time.
const SEEDS: &str = "1-500";
/// Runs that have found something.
const CORPUS: &str = include_str!("swarm-corpus.txt");
/// Runs that find what is not mended yet.
const OPEN: &str = include_str!("swarm-open.txt");

fn swarm(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    command.arg("swarm").args(arguments).output().unwrap()
}

/// Reads seeds and the parts that are left out.
fn runs(corpus: &str) -> impl Iterator<Item = (&str, &str)> {
    corpus.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split_whitespace();
        (words.next().unwrap(), words.next().unwrap())
    })
}

#[test]
fn nothing_is_found_in_five_hundred_seeds() {
    let output = swarm(&["--seeds", SEEDS, "--jobs", "2", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = found["findings"].as_array().unwrap();
    let open: Vec<u64> = runs(OPEN).map(|(seed, _)| seed.parse().unwrap()).collect();
    let is_open = |found: &Value| {
        found["rule"] == "Silent" && found["seed"].as_u64().is_some_and(|seed| open.contains(&seed))
    };
    assert!(findings.iter().all(is_open), "{found:#}");
    assert_eq!(output.status.code(), Some(i32::from(!findings.is_empty())));
}

#[test]
fn what_was_found_is_not_found_again() {
    assert!(runs(CORPUS).count() > 0, "the corpus holds runs");
    for (seed, parts) in runs(CORPUS) {
        let output = swarm(&["--seed", seed, "--without", parts, "--no-shrink"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{seed} {parts}\n{said}");
    }
}

#[test]
fn the_runs_that_are_open_are_runs_with_falls() {
    for (seed, parts) in runs(OPEN) {
        let shown = swarm(&["--seed", seed, "--without", parts, "--show"]);
        let text = String::from_utf8(shown.stdout).unwrap();
        assert!(text.contains("Fall to "), "{seed} {parts}: {text}");
        let before = swarm(&["--seed", seed, "--show", "--without", "falls"]);
        let text = String::from_utf8(before.stdout).unwrap();
        assert!(!text.contains("Fall to ") && !text.contains("link5:"), "{seed}: {text}");
    }
}

#[test]
fn a_seed_shows_what_it_draws_and_its_parts_can_be_left_out() {
    let shown = swarm(&["--seed", "97", "--show"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("flow0: commands from the drone") && text.contains("[[link]]"), "{text}");
    let without = swarm(&["--seed", "97", "--show", "--without", "flow0"]);
    assert!(!String::from_utf8(without.stdout).unwrap().contains("flow0:"));
    let added = ["link9:", "fault10: Attack(Cookies", "fault12: Twin"];
    let besieged = String::from_utf8(swarm(&["--seed", "1839", "--show"]).stdout).unwrap();
    assert!(added.iter().all(|part| besieged.contains(part)), "{besieged}");
    let plain = swarm(&["--seed", "1839", "--show", "--without", "siege,twin"]);
    let plain = String::from_utf8(plain.stdout).unwrap();
    assert!(added.iter().all(|part| !plain.contains(part)), "{plain}");
    let unknown = swarm(&["--seed", "97", "--without", "fault99"]);
    assert_eq!(unknown.status.code(), Some(2));
}
