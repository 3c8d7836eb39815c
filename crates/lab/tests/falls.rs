//! Links that were fast and become thin: no program that does nothing clever has the shorter
//! silence.
//!
//! Cells of `fulmar-lab run falls`, drawn from its grid so that every value of every axis comes up,
//! and its scenes. What a cell is: its name; what its bars are: docs/experiments.md. `fulmar-lab
//! run falls --sim --only CELL` runs one again.
#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::process::Command;

use serde_json::Value;

/// How many cells are drawn, and with which seed they are drawn and played.
const DRAWN: [&str; 4] = ["--cells", "60", "--seed", "1"];

/// Why cells miss bars.
const DEEP: &str = "at 2 to 10 kbit/s what was sent within a round trip stands for seconds before anybody can know";
const VIDEO: &str = "video stands before control when the link falls";
const LOSSY: &str = "a lost answer of a link of 20 kbit/s is missed for seconds";
const ONE: &str = "one message is missing to the bar";
const CHANCE: &str = "at the bar: of five or seven seeds one or none reaches it, as a packet falls";
const FOUND: &str =
    "a rate is found from below: 3 of 12 seeds reach the bar, the median is 5 % over it";
const FLAP: &str = "each second is another fall";
const OPENING: &str = "one round trip in 44 succeeds on a link, and a handshake takes two";
/// Cells that are known to miss bars: which, and why.
const KNOWN: [(&str, &[&str], &str); 22] = [
    ("alone_0.3M_20k_60s_1000kB_counted_loss0.05", &["gap"], LOSSY),
    ("other-dead_10M_5k_30s_16kB_counted", &["gap"], DEEP),
    ("both_50M_64k_60s_64kB_counted-video_loss0.05", &["gap"], CHANCE),
    ("other-dead_50M_2k_5s_64kB_live", &["gap"], DEEP),
    ("other-dead_0.3M_10k_5s_500kB_live", &["age"], DEEP),
    ("other-dead_1M_64k_1s_64kB_live-video_loss0.05", &["age"], VIDEO),
    ("alone_50M_50k_30s_500kB_counted-video_loss0.05", &["gap"], VIDEO),
    ("first_0.1M_20k_60s_64kB_live-video_loss0.05", &["age"], VIDEO),
    ("alone_1M_50k_5s_500kB_live", &["in_time"], ONE),
    ("other-dead_50M_500k_1s_500kB_live-video_loss0.05", &["age"], VIDEO),
    ("both_3M_10k_5s_16kB_counted_loss0.05", &["gap"], FOUND),
    ("alone_0.1M_10k_30s_16kB_counted_loss0.05", &["gap"], DEEP),
    ("alone_1M_5k_5s_16kB_live_loss0.05", &["gap", "age"], DEEP),
    ("alone_0.3M_5k_60s_64kB_counted-video", &["gap"], DEEP),
    ("both_50M_2k_5s_500kB_counted_loss0.05", &["gap"], DEEP),
    ("both_0.1M_64k_60s_16kB_live-video", &["age"], VIDEO),
    ("alone_0.3M_20k_30s_500kB_live-video_loss0.05", &["age"], VIDEO),
    ("both_1M_200k_60s_1000kB_live-video_loss0.05", &["age"], VIDEO),
    ("alone_3M_10k_5s_64kB_counted-video", &["gap"], DEEP),
    ("first_0.3M_50k_30s_64kB_live-video_loss0.05", &["age"], CHANCE),
    ("loss85-always", &["gap", "in_time"], OPENING),
    ("flap", &["in_time"], FLAP),
];

#[test]
fn no_program_that_does_nothing_clever_has_the_shorter_silence() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    let output = command.args(["run", "falls", "--sim", "--json"]).args(DRAWN).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["results"].as_array().unwrap().iter();
    let judged: Vec<&Value> = results.filter(|result| result["scheme"] == "fulmar").collect();
    let mut wrong = Vec::new();
    for result in &judged {
        let cell = result["cell"].as_str().unwrap();
        let bars = result["bars_missed"].as_array().unwrap().iter();
        let missed: Vec<&str> = bars.map(|bar| bar.as_str().unwrap()).collect();
        let known = KNOWN.iter().find(|(name, ..)| *name == cell);
        if missed != known.map_or(&[][..], |(_, bars, _)| *bars) {
            wrong.push(format!("(\"{cell}\", &{missed:?}, \"\"), // {}", figures(result)));
        }
    }
    let lost = KNOWN.iter().filter(|(name, ..)| judged.iter().all(|one| one["cell"] != *name));
    let lost: Vec<&str> = lost.map(|(name, ..)| *name).collect();
    assert!(wrong.is_empty(), "not as KNOWN has it:\n{}", wrong.join("\n"));
    assert!(lost.is_empty(), "not played: {lost:?}");
}

/// Sets the figures of a cell beside its bars.
fn figures(result: &Value) -> String {
    let of = |key: &str| &result[key];
    format!(
        "gap {} ({}), in time {} ({}), age {} ({}), stale {}, wire {}",
        of("control_gap_s"),
        of("gap_bar_s"),
        of("control_in_time"),
        of("in_time_bar"),
        of("live_age_fall_ms"),
        of("age_bar_ms"),
        of("stale"),
        of("wire_share_fall")
    )
}
