//! Claims about files of experiments: what they run, and what they say of mistakes.

use std::path::Path;

use super::*;
use crate::scheme::Scheme;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/mixed-blackout.toml");

/// Two links and control, in lines 1 to 16.
const OWN: &str = "\
seconds = 2
schemes = [\"udp\"]
figures = [\"control_lost\", \"up.control_p50_ms\"]

[[stream]]
kind = \"control\"

[[link]]
name = \"radio\"
between = [\"drone\", \"station\"]
delay_ms = 20

[[sweep]]
key = \"link.radio.loss\"
values = [0, 0.5]
";

fn parse(text: &str, mode: Mode) -> Result<Plan, String> {
    Plan::parse(text, Path::new("own.toml"), mode)
}

#[test]
fn the_file_of_mixed_blackout_is_that_experiment() {
    let plan = Plan::read(Path::new(FILE), Mode::Sim).unwrap();
    let built_in = Blackout::new().unwrap();
    assert_eq!(plan.name, "mixed-blackout");
    assert_eq!(plan.scenario, built_in.scenario);
    assert_eq!(plan.parameters(), built_in.parameters());
    let known: Vec<Scheme> = DESCRIPTION.sim.unasked.to_vec();
    assert!(plan.schemes.is_empty() || plan.schemes == known);
    assert_eq!(plan.columns, mixed_blackout::DESCRIPTION.columns());
}

#[test]
fn a_file_may_bring_its_links_and_vary_them() {
    let plan = parse(OWN, Mode::Sim).unwrap();
    let points = plan.points();
    let shown: Vec<String> = points.iter().map(Point::folder).collect();
    assert_eq!(shown, ["link.radio.loss=0", "link.radio.loss=0.5"]);
    let scene = plan.scene(&points[1]);
    assert_eq!(scene.scenario.links[0].down.loss.independent, 0.5);
    assert_eq!((scene.workload.seconds, scene.workload.control_hz), (2.0, 50.0));
    assert!(!scene.workload.recording && scene.workload.video_mbps == 0.0);
    let life = (Mode::Sim, (1, 1));
    let lost = |point| {
        let played = play("own", &plan.scene(point), &plan.schemes, life, None).unwrap();
        let result = at_point(point, played.results[0].clone());
        (result["link.radio.loss"].clone(), result["control_lost"].as_u64())
    };
    assert_eq!(lost(&points[0]), (json!(0.0), Some(0)));
    assert!(lost(&points[1]).1.is_some_and(|lost| lost > 30), "of a hundred");
}

#[test]
fn every_mistake_is_told_with_its_line_and_key() {
    let text = OWN
        .replace("udp", "kernel_mptcp")
        .replace("control_lost", "lost")
        .replace("kind = \"control\"", "kind = \"tcp\"")
        .replace("link.radio.loss", "link.wifi.loss")
        .replace("seconds = 2", "second = 2");
    let mistakes = parse(&text, Mode::Sim).unwrap_err();
    for expected in [
        "own.toml:1: second: unknown key",
        "own.toml:2: schemes: \"kernel_mptcp\" cannot be had here: it needs --emu",
        "own.toml:3: figures: \"lost\" is none of control_sent",
        "own.toml:6: stream[0].kind: \"tcp\" does not run beside other streams: run throughput",
        "own.toml:14: sweep[0].key: no link \"wifi\"; the links are radio",
    ] {
        assert!(mistakes.contains(expected), "{expected}\n{mistakes}");
    }
    assert_eq!(mistakes.lines().count(), 5, "{mistakes}");
    assert!(parse(&text.replace("second =", "seconds ="), Mode::Emu).is_err());
}

#[test]
fn headings_may_be_indented_and_lists_of_lists_are_no_headings() {
    let indented: String = OWN.lines().map(|line| format!("  {line}\n")).collect();
    assert_eq!(
        parse(&indented, Mode::Sim).unwrap().scenario,
        parse(OWN, Mode::Sim).unwrap().scenario
    );
    let steps = OWN.replace("delay_ms = 20", "rate_steps = [\n[0, 5],\n[1, 2],\n]");
    assert!(parse(&steps, Mode::Sim).is_ok(), "{:?}", parse(&steps, Mode::Sim));
}

#[test]
fn a_sweep_takes_what_the_key_itself_takes_and_each_key_once() {
    let vary = |key: &str, values: &str| {
        let text = OWN.replace("link.radio.loss", key).replace("[0, 0.5]", values);
        parse(&text, Mode::Sim).map(|_| ()).unwrap_err()
    };
    for (key, values, expected) in [
        ("stream.control.bytes", "[8, 100]", "takes whole numbers from 17 to 1200, not 8"),
        ("stream.control.bytes", "[100.7]", "takes whole numbers from 17 to 1200, not 100.7"),
        ("link.radio.rate_mbps", "[0]", "takes 0.001 to 10000, not 0"),
    ] {
        let mistake = vary(key, values);
        assert!(mistake.contains(expected), "{expected}\n{mistake}");
    }
    let twice = format!("{OWN}\n[[sweep]]\nkey = \"link.radio.loss\"\nvalues = [1]\n");
    assert!(parse(&twice, Mode::Sim).unwrap_err().contains("another sweep varies this key"));
}

#[test]
fn a_direction_is_asked_only_of_figures_that_have_one() {
    for key in ["up.video_share_250ms", "down.wire_bytes", "mavlink.lost"] {
        let mistake = parse(&OWN.replace("up.control_p50_ms", key), Mode::Sim).unwrap_err();
        assert!(mistake.contains(&format!("{key:?} is none of")), "{mistake}");
        assert!(mistake.contains("up.mavlink.lost, down.mavlink.lost"), "{mistake}");
    }
    assert!(parse(&OWN.replace("up.control_p50_ms", "down.mavlink.lost"), Mode::Sim).is_ok());
}

#[test]
fn links_that_are_wrong_keep_their_lines() {
    let wrong = OWN.replace("delay_ms", "delay");
    assert!(parse(&wrong, Mode::Sim).unwrap_err().contains("own.toml:11: link.radio.delay"));
    let elsewhere = OWN.replace("\"station\"", "\"base\"");
    assert!(parse(&elsewhere, Mode::Sim).unwrap_err().contains("drone and station"));
}
