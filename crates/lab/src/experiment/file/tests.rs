//! Claims about files of experiments: what they run, and what they say of mistakes.

use std::path::Path;

use toml_keys::Scalar;

use super::*;
use crate::experiment::streams::play::Played;
use crate::scheme::Scheme;
use crate::testbed::Recording;

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

/// A scenario whose link has another host, in line 3, and whose direction has a key of its own, in
/// line 6.
const BESIDE: &str = "\
[[link]]
name = \"radio\"
between = [\"drone\", \"base\"]
delay_ms = 20
[link.from_drone]
loss = 0.1
";

fn beside(path: &Path) -> Result<String, String> {
    match path.to_str() {
        Some("base.toml") => Ok(BESIDE.to_owned()),
        Some("station.toml") => Ok(BESIDE.replace("base", "station")),
        Some("wrong.toml") => Ok(BESIDE.replace("delay_ms", "\"de\\nlay\"").replace("loss", "los")),
        _ => Err(format!("read {}: there is no file", path.display())),
    }
}

fn source(text: &str, mode: Mode) -> Source {
    Source::new(text.to_owned(), Path::new("own.toml"), Some(mode), Arc::new(beside))
}

/// Plays a scene in the world, with seed 1.
fn played(scene: &Blackout, schemes: &[Scheme]) -> Played {
    let recording = Recording::load().unwrap();
    play("own", scene, schemes, (Mode::Sim, (1, 1)), &recording, None).unwrap()
}

fn parse(text: &str, mode: Mode) -> Result<Plan, String> {
    source(text, mode).plan()
}

/// Returns what is wrong with a text whose sweep has another key and other values.
fn mistake(key: &str, values: &str) -> String {
    let text = OWN.replace("link.radio.loss", key).replace("[0, 0.5]", values);
    parse(&text, Mode::Sim).unwrap_err()
}

#[test]
fn the_file_of_mixed_blackout_is_that_experiment() {
    let plan = Source::open(Path::new(FILE), Some(Mode::Sim)).unwrap().plan().unwrap();
    let built_in = Blackout::new().unwrap();
    assert_eq!(plan.name, "mixed-blackout");
    assert_eq!(plan.scenario, built_in.scenario);
    assert_eq!(plan.parameters(), built_in.parameters());
    let known: Vec<Scheme> = DESCRIPTION.sim.unasked.to_vec();
    assert!(plan.schemes.is_empty() || plan.schemes == known);
    assert_eq!(plan.columns, mixed_blackout::DESCRIPTION.columns());
}

#[test]
fn every_file_that_is_shipped_reads() {
    let folder = Path::new(FILE).parent().unwrap();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    // The scorecard's card and the papers' items are no experiments.
    let others = ["scorecard.toml", "papers.toml"];
    let is_one = |path: &std::path::PathBuf| {
        path.extension().is_some_and(|end| end == "toml")
            && !others.iter().any(|other| path.ends_with(other))
    };
    let read: Vec<_> = files.filter(is_one).collect();
    assert!(read.len() >= 3, "{read:?}");
    for (path, mode) in read.iter().flat_map(|path| [(path, Mode::Sim), (path, Mode::Emu)]) {
        Source::open(path, Some(mode)).unwrap().plan().unwrap();
    }
}

#[test]
fn a_file_may_bring_its_links_and_vary_them() {
    let (source, plan) = (source(OWN, Mode::Sim), parse(OWN, Mode::Sim).unwrap());
    let points = plan.points();
    assert_eq!(sweep::folders(&points), ["link.radio.loss=0", "link.radio.loss=0.5"]);
    let scene = source.at(&points[1]).unwrap().scene();
    assert_eq!(scene.scenario.links[0].down.loss.independent, 0.5);
    assert_eq!((scene.workload.seconds, scene.workload.control_hz), (2.0, 50.0));
    assert!(!scene.workload.recording && scene.workload.video_mbps == 0.0);
    let lost = |point| {
        let scene = source.at(point).unwrap().scene();
        let played = played(&scene, &plan.schemes);
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
        "own.toml:6: stream[0].kind: \"tcp\": it does not run beside other streams: run bulk-lossy",
        "own.toml:14: sweep[0].key: link.wifi.loss: no [[link]] is called \"wifi\"; there are radio",
    ] {
        assert!(mistakes.contains(expected), "{expected}\n{mistakes}");
    }
    assert_eq!(mistakes.lines().count(), 5, "{mistakes}");
    assert!(parse(&text.replace("second =", "seconds ="), Mode::Emu).is_err());
}

#[test]
fn a_point_is_checked_as_what_is_written_in_a_file() {
    for (key, values, expected) in [
        (
            "stream.control.bytes",
            "[8, 100]",
            ":15: sweep[0].values: 8: stream.control.bytes: 8 is not a whole number from 17 to 1200",
        ),
        ("stream.control.bytes", "[100.7]", "100.7 is not a whole number from 17 to 1200"),
        (
            "stream.video.mbps",
            "[1]",
            ":14: sweep[0].key: stream.video.mbps: no [[stream]] is called \"video\"; there are control",
        ),
        ("link.radio.rate_mbps", "[5, 0]", "0: link.radio.rate_mbps: must be more than 0"),
        ("link.radio.loss", "[2, 3]", "2: link.radio.loss: 2 is not a probability from 0 to 1"),
        (
            "link.radio.delay",
            "[1, 2]",
            ":14: sweep[0].key: link.radio.delay: unknown key; the keys here are",
        ),
        ("link.radio.between", "[1]", "link.radio.between: is not one value"),
        ("seeds", "[\"1-2\"]", ":14: sweep[0].key: \"seeds\" is the same for the whole run"),
        ("seconds", "[0]", "0 is not a number from 0.1 to 3600"),
        (
            "stream.control.rate_hz",
            "[[1]]",
            "value 1: a value of type array is no number, text or flag",
        ),
    ] {
        let mistake = mistake(key, values);
        assert!(mistake.contains(expected), "{expected}\n{mistake}");
        assert_eq!(mistake.matches("sweep[0]").count(), if values == "[2, 3]" { 2 } else { 1 });
    }
    let twice = format!("{OWN}\n[[sweep]]\nkey = \"link.radio.loss\"\nvalues = [1]\n");
    assert!(parse(&twice, Mode::Sim).unwrap_err().contains("another sweep varies"));
}

#[test]
fn values_that_cannot_be_had_together_are_a_mistake() {
    let rate = "[[sweep]]\nkey = \"link.radio.reorder\"\nvalues = [0, 0.1]\n";
    let lag = "[[sweep]]\nkey = \"link.radio.reorder_lag_ms\"\nvalues = [5, 0]\n";
    let own = OWN.replace("delay_ms = 20", "delay_ms = 20\nreorder_lag_ms = 1");
    let mistake = parse(&format!("{own}{rate}{lag}"), Mode::Sim).unwrap_err();
    assert!(mistake.contains("reorder=0.1,link.radio.reorder_lag_ms=0: "), "{mistake}");
    assert!(mistake.contains("needs a reorder_lag_ms above 0"), "{mistake}");
}

#[test]
fn every_key_may_vary_whatever_its_type() {
    let outage = "delay_ms = 20\n[[link.outage]]\nstart_s = 0.5\nseconds = 0.1\nmode = \"drop\"\nevery_s = 1\n";
    let with = |key: &str, values: &str| {
        let text = OWN.replace("delay_ms = 20", outage);
        let text = text.replace("link.radio.loss", key).replace("[0, 0.5]", values);
        let (source, plan) = (source(&text, Mode::Sim), parse(&text, Mode::Sim).unwrap());
        let scene = |point| source.at(point).unwrap().scene();
        plan.points().iter().map(scene).collect::<Vec<_>>()
    };
    let outages: Vec<usize> = with("seconds", "[1, 4]")
        .iter()
        .map(|scene| scene.scenario.links[0].up.outages.len())
        .collect();
    assert_eq!(outages, [1, 4], "they repeat until the end of the point's run");
    let modes = with("link.radio.outage.0.mode", "[\"drop\", \"hold\"]");
    assert_ne!(modes[0].scenario, modes[1].scenario);
    let one_way = with("link.radio.from_drone.loss", "[0.25]");
    let pair = &one_way[0].scenario.links[0];
    assert_eq!((pair.up.loss.independent, pair.down.loss.independent), (0.25, 0.0));
    assert_eq!(with("stream.control.rate_hz", "[0]")[0].workload.control_hz, 0.0);
}

#[test]
fn figures_of_streams_that_are_not_there_are_null() {
    let text = OWN.replace("kind = \"control\"", "kind = \"video\"");
    let asked = parse(&text, Mode::Sim).unwrap_err();
    assert!(asked.contains("\"control_lost\" needs a stream of kind \"control\""), "{asked}");
    let text = text.replace("figures =", "# figures =");
    let plan = parse(&text, Mode::Sim).unwrap();
    assert!(plan.columns.iter().all(|(key, _)| !key.starts_with("control_")));
    let played = played(&plan.scene(), &plan.schemes);
    let result = plan.without_absent(played.results[0].clone());
    assert!(result["control_gap_s"].is_null() && result["up"]["control_gap_s"].is_null());
    assert!(result["data_goodput_mbps"].as_f64() > Some(1.0));
}

#[test]
fn words_that_are_nearly_right_are_recognised() {
    let text = OWN
        .replace("udp", "fulmr")
        .replace("seconds", "secconds")
        .replace("control_lost", "control_losd")
        .replace("kind = \"control\"", "kind = \"contrl\"");
    let mistakes = parse(&text, Mode::Sim).unwrap_err();
    for meant in ["fulmar", "seconds", "control_lost", "control"] {
        assert!(mistakes.contains(&format!("did you mean {meant}?")), "{meant}\n{mistakes}");
    }
}

#[test]
fn a_file_without_links_or_with_too_much_traffic_is_told_so() {
    let nowhere = "[[stream]]\nkind = \"control\"\n";
    let mistake = parse(nowhere, Mode::Sim).unwrap_err();
    assert!(mistake.contains("[[host]] and [[link]]"), "{mistake}");
    let both = format!("scenario = \"x.toml\"\n{OWN}");
    let mistake = parse(&both, Mode::Sim).unwrap_err();
    assert!(mistake.contains("link: not together with scenario, line 1"), "{mistake}");
    let much = OWN.replace("\"control\"", "\"video\"\nmbps = 1000").replace("figures", "#");
    let mistake = parse(&much.replace("seconds = 2", "seconds = 3600"), Mode::Sim).unwrap_err();
    assert!(mistake.contains("packets in one direction are more than 10000000"), "{mistake}");
}

#[test]
fn every_key_of_a_stream_is_documented() {
    let docs = include_str!("../../../../../docs/experiments.md");
    for kind in &KINDS {
        let row = docs.lines().find(|line| line.starts_with(&format!("| `{}` |", kind.word)));
        let row = row.unwrap_or_else(|| panic!("{}", kind.word));
        for key in kind.keys {
            let (from, to) = (key.range.start(), key.range.end());
            let said = format!("`{}` ({}; {from} to {to})", key.name, key.default);
            assert!(row.contains(&said), "{said}\n{row}");
        }
    }
}

#[test]
fn a_direction_is_asked_only_of_figures_that_have_one() {
    for key in ["up.video_share_250ms", "down.wire_bytes", "mavlink.lost"] {
        let mistake = parse(&OWN.replace("up.control_p50_ms", key), Mode::Sim).unwrap_err();
        assert!(mistake.contains(&format!("{key:?} is none of")), "{mistake}");
        assert!(mistake.contains("up.mavlink.lost, down.mavlink.lost"), "{mistake}");
    }
    let flight = OWN.replace("kind = \"control\"", "kind = \"flight\"");
    let flight = flight.replace("\"control_lost\", \"up.control_p50_ms\"", "\"down.mavlink.lost\"");
    assert!(parse(&flight, Mode::Sim).is_ok());
}

#[test]
fn links_that_are_wrong_keep_their_lines() {
    let wrong = OWN.replace("delay_ms", "delay");
    assert!(parse(&wrong, Mode::Sim).unwrap_err().contains("own.toml:11: link.radio.delay"));
    let elsewhere = OWN.replace("\"station\"", "\"base\"");
    assert!(parse(&elsewhere, Mode::Sim).unwrap_err().contains("drone and station"));
}

#[test]
fn several_streams_of_a_kind_have_names_ways_and_figures_of_their_own() {
    let text = OWN
        .replace("udp\"", "fulmar\", \"udp\"")
        .replace("\"up.control_p50_ms\"", "\"streams.aux.p99_ms\", \"streams.log.late\"")
        .replace(
            "[[link]]",
            "[[stream]]\nkind = \"control\"\nname = \"aux\"\nrate_hz = 10\nfrom = \"drone\"\n\
             [[stream]]\nkind = \"video\"\nname = \"rear\"\nmbps = 1\nfrom = \"station\"\n\
             [[stream]]\nkind = \"datagrams\"\nname = \"log\"\nbytes = 300\ndeadline_ms = 10\n\
             [[link]]",
        )
        .replace("link.radio.loss", "stream.aux.rate_hz")
        .replace("[0, 0.5]", "[10, 20]");
    let (source, plan) = (source(&text, Mode::Sim), parse(&text, Mode::Sim).unwrap());
    let titles: Vec<&str> = plan.columns.iter().map(|(_, title)| &title[..]).collect();
    let lost = "lost (the one without a name)";
    assert_eq!(titles, ["scheme", "stream.aux.rate_hz", lost, "aux p99 ms", "log late"]);
    let scene = source.at(&plan.points()[1]).unwrap().scene();
    let played = played(&scene, &plan.schemes);
    for result in &played.results {
        let streams = &result["streams"];
        assert_eq!((&result["control_sent"], &result["control_lost"]), (&json!(100), &json!(0)));
        assert_eq!((&streams["aux"]["sent"], &streams["aux"]["lost"]), (&json!(40), &json!(0)));
        assert!(streams["aux"]["up"].is_null(), "one way has no two directions");
        assert!(streams["rear"]["goodput_mbps"].as_f64() > Some(0.9), "{result}");
        assert_eq!(result["data_goodput_mbps"], json!(0.0), "the drone sends no video");
        assert_eq!(streams["log"]["up"]["sent"], json!(100));
        // Later than 10 ms they all are: the link takes 20.
        assert_eq!((&streams["log"]["late"], &streams["log"]["lost"]), (&json!(100), &json!(0)));
        assert_eq!(
            (&result["up"]["strangers"], &result["down"]["strangers"]),
            (&json!(0), &json!(0))
        );
    }
    assert_eq!(played.results[1]["streams"]["aux"]["p50_ms"], json!(20.0));
}

#[test]
fn messages_all_arrive_and_pings_come_back() {
    let text = OWN
        .replace("udp\"", "fulmar\", \"udp\"")
        .replace("\"up.control_p50_ms\"", "\"streams.ping.p50_ms\", \"streams.messages.lost\"")
        .replace(
            "[[link]]",
            "[[stream]]\nkind = \"messages\"\nfrom = \"drone\"\n\
             [[stream]]\nkind = \"ping\"\n\
             [[link]]",
        )
        .replace("delay_ms = 20", "delay_ms = 20\nloss = 0.1");
    let text = &text[..text.find("[[sweep]]").unwrap()];
    let plan = parse(text, Mode::Sim).unwrap();
    let played = played(&plan.scene(), &plan.schemes);
    let [fulmar, udp] = &played.results[..] else { panic!("two schemes") };
    assert_eq!(fulmar["streams"]["messages"]["sent"], json!(100));
    assert_eq!(fulmar["streams"]["messages"]["lost"], json!(0));
    assert!(udp["streams"]["messages"]["lost"].as_u64() > Some(3), "{udp}");
    for result in [fulmar, udp] {
        let ping = &result["streams"]["ping"];
        assert_eq!(ping["sent"], json!(10));
        assert!((40.0..60.0).contains(&ping["p50_ms"].as_f64().unwrap()), "{ping}");
        assert_eq!(
            (&result["up"]["strangers"], &result["down"]["strangers"]),
            (&json!(0), &json!(0))
        );
    }
    assert_eq!(udp["streams"]["ping"]["p50_ms"], json!(40.0));
    let both = text.replace("\"ping\"", "\"ping\"\nfrom = \"both\"");
    assert!(parse(&both, Mode::Sim).unwrap_err().contains("a ping is from one end"));
}

#[test]
fn telemetry_is_neither_copied_nor_sent_again() {
    let text = OWN
        .replace("udp\"", "fulmar\", \"min_rtt\", \"redundant\", \"udp\"")
        .replace("\"up.control_p50_ms\"", "\"streams.telemetry.lost\"")
        .replace("[[link]]", "[[stream]]\nkind = \"telemetry\"\n\n[[link]]")
        .replace("delay_ms = 20", "delay_ms = 20\nloss = 0.2");
    let text = &text[..text.find("[[sweep]]").unwrap()];
    let second = &text[text.find("[[link]]").unwrap()..].replace("radio", "other");
    let plan = parse(&format!("{text}{second}"), Mode::Sim).unwrap();
    let played = played(&plan.scene(), &plan.schemes);
    let figure = |place: usize, key: &str| {
        let telemetry = &played.results[place]["streams"]["telemetry"];
        assert!(telemetry["up"].is_null() && telemetry["sent"] == 100, "{telemetry}");
        telemetry[key].as_f64().unwrap()
    };
    let control = |place: usize| played.results[place]["control_lost"].as_f64().unwrap();
    // One of five is lost on each link; of what goes over both, one of 25.
    for place in [0, 1, 3] {
        assert!((10.0..30.0).contains(&figure(place, "lost")), "{}", played.results[place]);
        assert_eq!(figure(place, "duplicates"), 0.0);
    }
    assert!(figure(2, "lost") < 10.0);
    assert_eq!((control(0), figure(0, "p50_ms")), (0.0, 20.0));
    for result in &played.results {
        assert_eq!(
            (&result["up"]["strangers"], &result["down"]["strangers"]),
            (&json!(0), &json!(0))
        );
    }
}

#[test]
fn mistakes_of_names_and_ways_are_told() {
    let second = |lines: &str| {
        let text = OWN.replace("[[link]]", &format!("[[stream]]\n{lines}\n[[link]]"));
        parse(&text, Mode::Sim).unwrap_err()
    };
    for (lines, expected) in [
        (
            "kind = \"control\"",
            "stream[1].name: there is another stream \"control\": give it a name",
        ),
        ("kind = \"live\"\nname = \"a b\"", "\"a b\" is not 1 to 32 letters, digits, - or _"),
        ("kind = \"live\"\nfrom = \"dron\"", "\"dron\" is not one of"),
        ("kind = \"flight\"\nfrom = \"drone\"", "stream.flight.from: unknown key"),
        ("kind = \"telemetry\"\nbytes = 29", "stream.telemetry.bytes: 29 is not"),
    ] {
        let mistake = second(lines);
        assert!(mistake.contains(expected), "{expected}\n{mistake}");
    }
    let figure = |key: &str| parse(&OWN.replace("up.control_p50_ms", key), Mode::Sim).unwrap_err();
    assert!(figure("streams.aux.lost").contains("no stream has the name \"aux\"; there are none"));
    let named = OWN.replace("\"control\"", "\"control\"\nname = \"pilot\"");
    let wrong = parse(&named.replace("up.control_p50_ms", "streams.pilot.up.p98_ms"), Mode::Sim);
    assert!(wrong.unwrap_err().contains("\"up.p98_ms\" is none of sent, lost"));
    assert!(
        parse(&named.replace("up.control_p50_ms", "streams.pilot.up.p99_ms"), Mode::Sim).is_ok()
    );
}

#[test]
fn schemes_of_the_other_life_do_no_harm_where_others_are_asked_for() {
    let text = OWN.replace("udp", "kernel_mptcp");
    let of = |mode| Source::new(text.clone(), Path::new("own.toml"), mode, Arc::new(beside)).plan();
    assert!(of(Some(Mode::Sim)).is_err() && of(Some(Mode::Emu)).is_ok());
    assert_eq!(of(None).unwrap().schemes, [Scheme::KERNEL_MPTCP]);
}

#[test]
fn broken_files_never_panic_and_mistakes_are_a_line_each() {
    let try_it = |text: String| {
        let Err(mistakes) = parse(&text, Mode::Sim) else { return };
        assert!(mistakes.lines().all(|line| line.starts_with("own.toml:")), "{mistakes}");
    };
    for at in 0..OWN.len() {
        try_it(OWN[..at].to_owned());
        for other in ["", "\"", "[", "=", "-9", "\n", "é"] {
            try_it(format!("{}{other}{}", &OWN[..at], &OWN[at + 1..]));
        }
    }
}

#[test]
fn a_figure_that_is_asked_for_is_shown_though_it_cannot_be_had() {
    let text = OWN
        .replace("\"up.control_p50_ms\"", "\"streams.radio.p99_ms\", \"live_age_p99_ms\"")
        .replace(
            "[[link]]",
            "[[stream]]\nkind = \"live\"\nname = \"radio\"\nrate_hz = 0\n[[link]]",
        );
    let plan = parse(&text, Mode::Sim).unwrap();
    let played = played(&plan.scene(), &plan.schemes);
    let result = plan.with_asked(plan.without_absent(played.results[0].clone()));
    assert_eq!(result.get("live_age_p99_ms"), Some(&Value::Null), "{result}");
    let mut report = Report::sim("own", (1, 1), Value::Null, vec![result]);
    (report.columns, report.shows_empty) = (Some(plan.columns), plan.are_asked);
    let table = report.table(&[]);
    assert!(table.lines().next().unwrap().ends_with("radio p99 ms  live p99 ms"), "{table}");
    assert!(table.lines().nth(1).unwrap().ends_with("-            -"), "{table}");
}

#[test]
fn a_figure_that_can_never_be_had_is_a_mistake() {
    let asks = |figure: &str, text: &str| {
        let text =
            text.replace("kind = \"control\"", "kind = \"control\"\n[[stream]]\nkind = \"video\"");
        parse(&text.replace("up.control_p50_ms", figure), Mode::Sim)
    };
    let mistake = asks("wire_to_redundant", OWN).unwrap_err();
    assert_eq!(mistake, "own.toml:3: figures: \"wire_to_redundant\" needs the scheme redundant");
    assert!(asks("wire_to_redundant", &OWN.replace("schemes", "# ")).is_ok(), "it runs unasked");
    let without_sweep = OWN.split("[[sweep]]").next().unwrap();
    let mistake = asks("video_goodput_wifi_dead_mbps", without_sweep).unwrap_err();
    assert!(
        mistake.contains("own.toml:3: figures: \"video_goodput_wifi_dead_mbps\" needs"),
        "{mistake}"
    );
    assert!(asks("video_goodput_wifi_dead_mbps", OWN).is_ok(), "what varies may bring it about");
}

#[test]
fn hosts_that_are_not_drone_and_station_are_named_with_their_line() {
    let here = parse(&OWN.replace("\"station\"", "\"base\""), Mode::Sim).unwrap_err();
    assert!(here.contains("own.toml:10: link.radio.between: no host \"base\" here"), "{here}");
    let declared = format!("{OWN}[[host]]\nname = \"drone\"\n[[host]]\nname = \"station\"\n");
    let here = parse(&declared.replacen("\"station\"]", "\"base\"]", 1), Mode::Sim).unwrap_err();
    let expected = "own.toml:10: link.radio.between: no host \"base\"; there are drone, station";
    assert_eq!(here, expected);
    let head = OWN.split("[[link]]").next().unwrap();
    let there = parse(&format!("scenario = \"base.toml\"\n{head}"), Mode::Sim).unwrap_err();
    assert!(
        there.contains("scenario: base.toml:3: link.radio.between: no host \"base\""),
        "{there}"
    );
}

#[test]
fn each_mistake_of_a_scenario_beside_is_a_line() {
    let head = OWN.split("[[link]]").next().unwrap();
    let there = parse(&format!("scenario = \"wrong.toml\"\n{head}"), Mode::Sim).unwrap_err();
    let lines: Vec<&str> = there.lines().collect();
    assert_eq!(lines.len(), 2, "{there}");
    assert!(
        lines[0].starts_with("own.toml:1: scenario: wrong.toml:4: link.radio.de\\nlay: unknown")
    );
    assert!(
        lines[1].starts_with("own.toml:1: scenario: wrong.toml:6: link.radio.from_drone.los: ")
    );
}

#[test]
fn a_sweep_of_a_key_that_a_direction_says_itself_is_a_mistake() {
    let own = OWN.replace("delay_ms = 20", "delay_ms = 20\n[link.from_drone]\nloss = 0.1");
    let expected = ":16: sweep[0].key: link.radio.loss would vary nothing in from_drone, which has loss \
                    itself in line 13: vary link.radio.from_drone.loss";
    let mistake = parse(&own, Mode::Sim).unwrap_err();
    assert!(mistake.contains(expected), "{mistake}");
    let of_direction = own.replace("link.radio.loss", "link.radio.from_drone.loss");
    assert!(parse(&of_direction, Mode::Sim).is_ok());
    let (head, tail) = (OWN.split("[[link]]").next().unwrap(), OWN.find("[[sweep]]").unwrap());
    let there = format!("scenario = \"station.toml\"\n{head}{}", &OWN[tail..]);
    let mistake = parse(&there, Mode::Sim).unwrap_err();
    assert!(mistake.contains("which has loss itself in line 6"), "{mistake}");
}

#[test]
fn of_several_streams_of_a_kind_a_sweep_and_a_figure_say_which() {
    let two = "kind = \"video\"\nmbps = 1\n[[stream]]\nkind = \"video\"\nname = \"rear\"";
    let text = OWN.replace("kind = \"control\"", two).replace("\"up.control_p50_ms\"", "");
    let text = text.replace("control_lost", "data_goodput_mbps").replace("[0, 0.5]", "[1, 2]");
    let mistake = parse(&text.replace("link.radio.loss", "stream.video.mbps"), Mode::Sim);
    let expected = "sweep[0].key: stream.video.mbps: 2 [[stream]] are of kind \"video\": write stream.0 or stream.rear";
    assert!(mistake.clone().unwrap_err().contains(expected), "{mistake:?}");
    for (key, first) in [("stream.0.mbps", 2.0), ("stream.rear.mbps", 1.0)] {
        let text = text.replace("link.radio.loss", key);
        let plan = parse(&text, Mode::Sim).unwrap();
        let at = source(&text, Mode::Sim).at(&plan.points()[1]).unwrap();
        assert_eq!(at.streams.workload.video_mbps, first);
        assert_eq!(plan.columns[2].1, "video Mbit/s (the one without a name)");
    }
    let named = text.replace("mbps = 1", "name = \"front\"").replace("link.radio.loss", "seconds");
    assert_eq!(parse(&named, Mode::Sim).unwrap().columns[2].1, "video Mbit/s (front)");
}

#[test]
fn the_report_of_a_file_holds_all_that_it_ran_with() {
    let text = OWN.replacen('\n', "\nseeds = \"1-3\"\n", 1);
    let (source, plan) = (source(&text, Mode::Sim), parse(&text, Mode::Sim).unwrap());
    let with = plan.run_with(&source);
    let (file, link) = (&with["file"], &with["links"]["link"][0]);
    assert_eq!((&file["seeds"], &file["schemes"][0]), (&json!("1-3"), &json!("udp")));
    assert_eq!(file["stream"], json!([{"kind": "control"}]));
    assert_eq!(file["sweep"][0]["values"], json!([0, 0.5]));
    assert_eq!((&link["name"], &link["from_station"]["delay_ms"]), (&json!("radio"), &json!(20)));
    assert_eq!(link["from_drone"]["queue_packets"], json!(1000), "defaults too: {link}");
    assert_eq!(with["links"]["host"][1]["name"], "station");
}

#[test]
fn mistakes_of_lists_and_sweeps_say_what_would_be_right() {
    let with = |old: &str, new: &str| parse(&OWN.replace(old, new), Mode::Sim).unwrap_err();
    assert!(with("[\"udp\"]", "[]").contains("own.toml:2: schemes: is empty"));
    assert!(
        with("[\"control_lost\", \"up.control_p50_ms\"]", "[]").contains("3: figures: is empty")
    );
    assert!(with("[0, 0.5]", "[0, 0.5, 0]").contains(":15: sweep[0].values: 0 is there twice"));
    assert!(mistake("seeds", "[1]").contains("the same for the whole run: seeds = \"1-20\" runs"));
    assert!(
        mistake("link.radio.outage.0.start_s", "[1, 2]")
            .contains(":14: sweep[0].key: link.radio.outage: there is none in the file")
    );
    let many: Vec<String> = (0..1_001).map(|value| value.to_string()).collect();
    let many = with("[0, 0.5]", &format!("[{}]", many.join(", ")));
    assert!(many.contains(":15: sweep[0].values: has 1001 values, not 1 to 1000"), "{many}");
    let unit = with("delay_ms = 20", "delay_ms = 20\nrate_mbps = \"4 Mbit/s\"");
    assert!(
        unit.contains("\"4 Mbit/s\" is not a number, 0 or more: write a number alone"),
        "{unit}"
    );
    let both = with("seconds = 2", "scenario = \"station.toml\"");
    assert!(both.contains("own.toml:8: link: not together with scenario, line 1"), "{both}");
}

#[test]
fn more_points_may_be_said_beside_a_file_than_in_it() {
    let value = |number: u32| Scalar::Number(f64::from(number) / 1e5);
    let beside = |count| {
        let values = (0..count).map(value).collect();
        let over = Over::Product(vec![("link.radio.loss".to_owned(), values)]);
        source(OWN, Mode::Sim).over(over).plan()
    };
    assert_eq!(beside(2_000).unwrap().points().len(), 2_000);
    let many = beside(10_001).unwrap_err();
    assert!(many.contains("10001 points are more than 10000"), "{many}");
}
