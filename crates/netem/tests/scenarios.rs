//! Scenario files: those that are shipped, those in the documentation, and arbitrary text.

use fulmar_netem::{
    Delay, Direction, Duration, Instant, LinkRate, OutageMode, QueueLimit, Rate, Scenario,
};
use proptest::prelude::*;

const SHIPPED: [(&str, &str); 5] = [
    ("mixed-blackout", include_str!("../../../scenarios/mixed-blackout.toml")),
    ("conclone-interval", include_str!("../../../scenarios/conclone-interval.toml")),
    ("two-10mbit", include_str!("../../../scenarios/two-10mbit.toml")),
    ("two-unequal", include_str!("../../../scenarios/two-unequal.toml")),
    ("lossy20", include_str!("../../../scenarios/lossy20.toml")),
];

/// The slot matrix that the documentation names.
const FLIGHT: &str = "slot_ms 11.776\nm1 r1 1101\nm2 r1 0111\nm1 r2 0001\n";

/// Plays the trace files that the documentation names.
fn read(path: &str) -> Result<String, String> {
    let text = match path {
        "traces/lte.up" | "traces/lte.down" => "1\n1\n7\n",
        "traces/delay.txt" => "10\n12.5\n",
        "traces/delay.csv" => "time_s,delay_ms\n0,10\n1,20\n",
        "traces/rate.csv" => "time_s,rate_mbps\n0,10\n1,0\n2,5\n",
        "traces/loss.csv" => "time_s,loss\n0,0.1\n1,0.9\n",
        "traces/outages.csv" => "start_s,seconds,mode\n50,2,hold\n60,1.5,drop\n",
        "traces/flight.01" => "1101\n",
        "traces/flight.slots" => FLIGHT,
        other => return Err(format!("cannot read {other}: no such file")),
    };
    Ok(text.to_owned())
}

fn parse(text: &str, file: &str) -> Scenario {
    Scenario::from_toml_with(text, file, &mut read).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    match Scenario::from_toml_with(text, "s.toml", &mut read) {
        Ok(_) => panic!("no error in:\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// The TOML blocks of the documentation.
fn documented() -> Vec<&'static str> {
    let document = include_str!("../../../docs/scenarios.md");
    let blocks = document.split("```toml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default()).collect()
}

fn assert_reads_back(scenario: &Scenario) {
    let text = scenario.to_toml();
    assert_eq!(&parse(&text, "written.toml"), scenario, "{text}");
}

#[test]
fn neighbours_are_known_or_looked_for() {
    let link = "[[link]]\nname = \"wifi\"\nbetween = [\"a\", \"b\"]\n";
    for (line, resolve) in [("", false), ("\"known\"", false), ("\"resolve\"", true)] {
        let line = if line.is_empty() { String::new() } else { format!("neighbours = {line}\n") };
        let scenario = parse(&format!("{line}{link}"), "scenario.toml");
        assert_eq!(scenario.resolve_neighbours, resolve);
        assert_reads_back(&scenario);
    }
    let error = Scenario::from_toml("neighbours = \"ask\"\n", "scenario.toml").unwrap_err();
    assert!(error.to_string().contains("not one of \"known\", \"resolve\""), "{error}");
}

#[test]
fn shipped_scenarios_read_and_are_written_back() {
    for (name, text) in SHIPPED {
        let scenario = parse(text, &format!("{name}.toml"));
        assert_eq!(scenario.name, name);
        assert_reads_back(&scenario);
    }
}

#[test]
fn every_example_of_the_documentation_reads_and_is_written_back() {
    let examples = documented();
    assert!(examples.len() >= 10, "{}", examples.len());
    for example in examples {
        assert_reads_back(&parse(example, "docs/scenarios.md"));
    }
}

#[test]
fn mixed_blackout_is_the_scene_that_it_says_it_is() {
    let scenario = parse(SHIPPED[0].1, "mixed-blackout.toml");
    assert_eq!(scenario.seconds, 60.0);
    let [wifi, lte] = &scenario.links[..] else { panic!("two links") };
    for (link, delay, mbps, loss) in [(wifi, 10, 20.0, 0.02), (lte, 35, 4.0, 0.01)] {
        for model in [&link.up, &link.down] {
            assert_eq!(model.delay, Delay::Fixed(Duration::from_millis(delay)));
            assert_eq!(model.rate, LinkRate::Constant(Rate::from_mbps(mbps)));
            assert_eq!(model.loss.independent, loss);
            assert_eq!(model.outages.len(), 1);
        }
    }
    let outage = wifi.up.outages[0];
    assert_eq!(
        (outage.start, outage.duration),
        (Instant::from_millis(20_000), Duration::from_secs(10))
    );
    assert_eq!(outage.mode, OutageMode::Drop);
    let outage = lte.down.outages[0];
    assert_eq!(
        (outage.start, outage.duration),
        (Instant::from_millis(42_000), Duration::from_secs(2))
    );
    assert_eq!(outage.mode, OutageMode::Hold { queue: None });
    assert_eq!(lte.up.queue, QueueLimit { packets: None, bytes: Some(125_000) });
}

#[test]
fn repeated_outages_end_with_the_run() {
    let text = "seconds = 100\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n\
        [[link.outage]]\nstart_s = 5\nseconds = 1\nevery_s = 30\nmode = \"drop\"\n";
    let scenario = parse(text, "s.toml");
    let starts: Vec<f64> =
        scenario.links[0].up.outages.iter().map(|outage| outage.start.as_secs_f64()).collect();
    assert_eq!(starts, [5.0, 35.0, 65.0, 95.0]);
}

#[test]
fn interfaces_of_broadcasts_come_after_those_of_links() {
    let text = "[[broadcast]]\nname = \"air\"\nfrom = \"a\"\nto = [\"b\", \"c\"]\n\
        [[link]]\nname = \"l\"\nbetween = [\"c\", \"a\"]\n";
    let scenario = parse(text, "s.toml");
    let c = scenario.host("c").expect("c is there");
    let ends: Vec<_> = scenario
        .interfaces(c)
        .iter()
        .map(|interface| (interface.link, interface.sends, interface.address.to_string()))
        .collect();
    let own = (0, Direction::Up, "10.77.0.1".to_owned());
    assert_eq!(ends, [own, (1, Direction::Down, "10.77.1.3".to_owned())]);
    assert_eq!((scenario.link_name(0), scenario.link_name(1)), (Some("l"), Some("air")));
    assert_eq!(scenario.link_name(2), None);
}

#[test]
fn directions_are_named_after_the_host_they_come_from() {
    let text = |way: &str, other: &str, outage: &str| {
        format!(
            "[[link]]\nname = \"l\"\nbetween = [\"drone\", \"station\"]\n[[link.outage]]\n\
             start_s = 1\nseconds = 1\nmode = \"drop\"\ndirection = \"{outage}\"\n\
             [link.{way}]\nrate_mbps = 1\n[link.{other}]\nrate_mbps = 9\n"
        )
    };
    let new = parse(&text("from_drone", "from_station", "from_station"), "s.toml");
    let old = parse(&text("up", "down", "down"), "s.toml");
    assert_eq!(new.links, old.links);
    let drone = new.host("drone").expect("the drone is there");
    let (direction, model) = new.links[0].sent_by(drone);
    assert_eq!((direction, model.mean_rate()), (Direction::Up, Some(Rate::from_mbps(1.0))));
    assert!(model.outages.is_empty() && new.links[0].down.outages.len() == 1);
    assert_reads_back(&new);
    let both = error(&text("from_drone", "up", "both"));
    assert!(both.contains("link.l.up: not together with from_drone"), "{both}");
    let nobody = error(&text("from_drone", "from_station", "from_mast"));
    let what = "\"from_mast\" is not one of \"from_drone\", \"from_station\", \"both\"";
    assert!(nobody.ends_with(what), "{nobody}");
    let nobody = error(&text("from_drone", "from_mast", "both"));
    assert!(nobody.contains("link.l.from_mast: unknown key; the keys here are"), "{nobody}");
}

#[test]
fn rates_in_steps_read_and_are_written_back() {
    let link = "[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n";
    let scenario =
        parse(&format!("{link}rate_steps = [[0, 12], [8, 0.5]]\nrate_every_s = 10\n"), "s.toml");
    let LinkRate::Csv { series, .. } = &scenario.links[0].up.rate else { panic!("steps") };
    let rate = |s| series.at(Instant::ZERO + Duration::from_secs(s)).as_mbps();
    assert_eq!([rate(0), rate(8), rate(10), rate(19)], [12.0, 0.5, 12.0, 0.5]);
    assert_reads_back(&scenario);
    let wrong = |body: &str| error(&format!("{link}{body}"));
    let what = "s.toml:4: link.l.rate_steps: ";
    assert!(
        wrong("rate_steps = [[0, -1]]")
            .starts_with(&format!("{what}a value of type array is not a list of pairs"))
    );
    assert!(wrong("rate_steps = [[0, 1, 2]]").starts_with(what));
    assert_eq!(wrong("rate_steps = [[1, 1]]"), format!("{what}step 1: the first time must be 0"));
    assert!(wrong("rate_steps = [[0, 1], [5, 2]]\nrate_every_s = 5").starts_with(what));
    assert!(wrong("rate_every_s = 5").ends_with("link.l.rate_every_s: needs rate_steps"));
    assert!(wrong("rate_steps = [[0, 1]]\nrate_mbps = 1").contains("not together with"));
}

/// Each is a link's body and what its error says behind `s.toml:`.
const WRONG: [(&str, &str); 30] = [
    ("delay_ms = -1", "4: link.l.delay_ms: -1 is not a number, 0 or more"),
    ("delay_ms = \"10\"", "4: link.l.delay_ms: \"10\" is not a number, 0 or more"),
    ("delay_ms = 1\ndelay_csv = \"x\"", "5: link.l.delay_csv: not together with delay_ms"),
    ("delay_file = \"traces/delay.txt\"", "1: link.l.delay_interval_ms: is missing"),
    (
        "delay_csv = \"traces/nothing\"",
        "4: link.l.delay_csv: cannot read traces/nothing: no such file",
    ),
    (
        "rate_csv = \"traces/loss.csv\"",
        "4: link.l.rate_csv: traces/loss.csv:1: no column rate_mbps; there are time_s, loss",
    ),
    (
        "rate_mbps = 0",
        "4: link.l.rate_mbps: must be more than 0; for a link that stands still use an outage with mode = \"hold\"",
    ),
    (
        "jitter_shape = \"odd\"",
        "4: link.l.jitter_shape: \"odd\" is not one of \"uniform\", \"normal\", \"exponential\"",
    ),
    ("queue_packets = -5", "4: link.l.queue_packets: -5 is not a whole number from 0"),
    ("queue = \"none\"", "4: link.l.queue: \"none\" is not \"unlimited\""),
    ("reorder = 0.1", "4: link.l.reorder: needs a reorder_lag_ms above 0"),
    ("medium = \"ch1\"", "4: link.l.medium: no \"ch1\" in this scenario; there are none"),
    ("groups = [\"g\"]", "4: link.l.groups: no \"g\" in this scenario; there are none"),
    ("groups = 5", "4: link.l.groups: 5 is not a list of texts: the name of a [[group]]"),
    (
        "[link.burst_loss]\ngood_ms = 1",
        "4: link.l.burst_loss: needs either good_ms and bad_ms or to_bad and to_good",
    ),
    ("[link.slot_loss]\nfile = \"traces/flight.01\"", "4: link.l.slot_loss.slot_ms: is missing"),
    ("[link.slots]\nsmall_bytes = 9", "4: link.l.slots.slot_ms: is missing"),
    ("[link.slots]\nslot_ms = 0", "5: link.l.slots.slot_ms: must be more than 0"),
    ("rate_mbps = 1\n[link.slots]\nslot_ms = 1", "5: link.l.slots: "),
    ("retries = 256", "4: link.l.retries: 256 is not a whole number from 0 to 255"),
    (
        "retries = 15\n[link.slots]\nslot_ms = 10",
        "4: link.l.retries: repeats what recorded slots lose: needs slots and slot_loss beside it",
    ),
    (
        "[link.slots]\nslot_ms = 10\n[link.slot_loss]\nfile = \"traces/flight.01\"\nslot_ms = 11",
        "4: link.l.slots: has slots of 10 ms, and slot_loss slots of 11 ms",
    ),
    (
        "[link.slot_loss]\nmatrix = \"traces/flight.slots\"\nfrom = \"m1\"\nto = \"r9\"",
        "6: link.l.slot_loss.from: traces/flight.slots has no row m1 r9; it has m1 r1, m2 r1",
    ),
    (
        "[link.slot_loss]\nmatrix = \"traces/flight.slots\"\nto = \"r1\"",
        "4: link.l.slot_loss.from: is missing",
    ),
    (
        "[link.slot_loss]\nmatrix = \"traces/flight.slots\"\nslot_ms = 1",
        "6: link.l.slot_loss.slot_ms: not together with matrix",
    ),
    (
        "[link.slot_loss]\nmatrix = \"traces/flight.01\"",
        "5: link.l.slot_loss.matrix: traces/flight.01:1: a slot matrix begins with how long",
    ),
    (
        "[[link.outage]]\nstart_s = 1\nseconds = 1\nmode = \"off\"",
        "7: link.l.outage[0].mode: \"off\" is not one of \"drop\", \"hold\"",
    ),
    (
        "[[link.outage]]\nstart_s = 1\nseconds = 2\nevery_s = 2\nmode = \"drop\"",
        "7: link.l.outage[0].every_s: must be longer than the outage",
    ),
    ("[link.up]\nbetween = 1", "5: link.l.up.between: unknown key; the keys here are"),
    (
        "[link.outage]\nstart_s = 1",
        "4: link.l.outage: is one of several: head each of them [[outage]]",
    ),
];

#[test]
fn errors_name_line_and_key_and_what_would_be_right() {
    for (body, expected) in WRONG {
        let text = format!("[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n{body}\n");
        let error = error(&text);
        assert!(error.starts_with(&format!("s.toml:{expected}")), "{body}\n{error}\n{expected}");
    }
}

#[test]
fn errors_of_other_tables_name_them_too() {
    let twice = "[[host]]\nname = \"a\"\n[[host]]\nname = \"a\"\n";
    assert_eq!(error(twice), "s.toml:4: host[1].name: there is another \"a\"");
    let long = "[[link]]\nname = \"a-name-too-long-for-linux\"\n";
    assert!(
        error(long).contains(
            "s.toml:2: link[0].name: \"a-name-too-long-for-linux\" is not 1 to 15 letters"
        )
    );
    let same = "[[link]]\nname = \"l\"\nbetween = [\"a\", \"a\"]\n";
    assert_eq!(error(same), "s.toml:3: link.l.between: names the same host twice");
    let medium = "[[medium]]\nname = \"m\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n\
        medium = \"m\"\n";
    assert_eq!(
        error(medium),
        "s.toml:6: link.l.medium: a link on a medium needs rate_mbps, or slots"
    );
    let rated = format!("{medium}rate_mbps = 1\n");
    let ack = rated.replacen("name = \"m\"\n", "name = \"m\"\nack_ms = 0.3\n", 1);
    let told = error(&ack);
    assert!(told.contains("link.l.medium: has ack_ms, which is for links with slots"), "{told}");
    let slots = "[[link]]\nname = \"s\"\nbetween = [\"a\", \"b\"]\nmedium = \"m\"\n\
        [link.slots]\nslot_ms = 10\n";
    let told = error(&format!("{rated}{slots}"));
    assert!(
        told.contains("link.s.medium: has links with rate_mbps and links with slots"),
        "{told}"
    );
    let group = "[[group]]\nname = \"g\"\n[group.burst_loss]\nto_bad = 0.1\nto_good = 0.1\n";
    let group = error(group);
    assert!(group.starts_with("s.toml:3: group.g.burst_loss: needs good_ms and bad_ms\n"));
    assert!(group.contains("s.toml:5: group.g.burst_loss.to_good: unknown key"), "{group}");
    let receiver = "[[broadcast]]\nname = \"r\"\nfrom = \"a\"\nto = [\"b\"]\n\
        [[broadcast.receiver]]\nhost = \"c\"\n";
    assert_eq!(error(receiver), "s.toml:6: broadcast.r.receiver[0].host: \"c\" is not in \"to\"");
    assert_eq!(error("seconds = inf"), "s.toml:1: seconds: inf is not a number from 0 to 31536000");
    assert!(error("\n\nseconds = 60 seconds").starts_with("s.toml:3: "));
    let step = "[[host]]\nname = \"a\"\n[[host.clock_step]]\nat_s = 1\n";
    assert_eq!(error(step), "s.toml:3: host.a.clock_step[0].by_ms: is missing");
}

#[test]
fn mistakes_of_radios_name_line_and_key() {
    let wrong = [
        ("", "1: radio.r.hosts: is missing"),
        ("hosts = [\"a\"]", "3: radio.r.hosts: must name 2 to 64 hosts"),
        ("hosts = [\"a\", \"a\"]", "3: radio.r.hosts: \"a\" is there twice"),
        (
            "hosts = [\"a\", \"b\"]\nretries = 2",
            "4: radio.r.retries: nobody acknowledges a broadcast; only a [[link]] repeats",
        ),
        (
            "hosts = [\"m1\", \"r1\"]\nrate_mbps = 1\n[radio.matrix]\nfile = \"traces/flight.slots\"",
            "4: radio.r.rate_mbps: not together with matrix",
        ),
        (
            "hosts = [\"m1\", \"r3\"]\n[radio.matrix]\nfile = \"traces/flight.slots\"",
            "5: radio.r.matrix.file: traces/flight.slots has nobody called \"r3\"; it has m1, r1, m2, r2",
        ),
        (
            "hosts = [\"a\", \"b\"]\n[radio.matrix]\nfile = \"traces/flight.slots\"\nnames = [\"m1\"]",
            "6: radio.r.matrix.names: must have one for each host: 2",
        ),
        (
            "hosts = [\"a\", \"b\"]\n[radio.matrix]\nfile = \"traces/flight.slots\"\nnames = [\"m1\", \"m1\"]",
            "6: radio.r.matrix.names: \"m1\" is there twice",
        ),
        (
            "hosts = [\"m1\", \"r1\"]\n[radio.matrix]\nfile = \"traces/flight.slots\"\nslot_ms = 3",
            "6: radio.r.matrix.slot_ms: unknown key; the keys here are file, names",
        ),
        (
            "hosts = [\"a\", \"b\"]\n[radio.matrix]\nfile = \"gone\"",
            "5: radio.r.matrix.file: cannot read gone: no such file",
        ),
    ];
    for (body, expected) in wrong {
        let error = error(&format!("[[radio]]\nname = \"r\"\n{body}\n"));
        assert!(error.starts_with(&format!("s.toml:{expected}")), "{body}\n{error}\n{expected}");
    }
}

#[test]
fn all_mistakes_of_a_scenario_are_told_at_once() {
    let text = "sed = 3\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nloss = 2\n\
        [link.from_a]\ndelay = 5\nrate_csv = \"x.csv\"\n";
    let keys = "jitter_ms, jitter_shape, keep_order, loss, ";
    let error = error(text);
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 4, "{error}");
    assert!(lines[0].starts_with("s.toml:1: sed: unknown key; the keys here are name, seconds"));
    assert_eq!(lines[1], "s.toml:5: link.l.loss: 2 is not a probability from 0 to 1");
    assert!(lines[2].starts_with("s.toml:7: link.l.from_a.delay: unknown key"), "{error}");
    assert!(lines[2].contains(keys), "{error}");
    assert_eq!(lines[3], "s.toml:8: link.l.from_a.rate_csv: cannot read x.csv: no such file");
}

/// Pieces of scenario files, right and wrong ones.
fn pieces() -> impl Strategy<Value = String> {
    let words = [
        "[[link]]",
        "[[host]]",
        "[link.up]",
        "[[link.outage]]",
        "[link.burst_loss]",
        "[[group]]",
        "[[medium]]",
        "[[broadcast]]",
        "[[broadcast.receiver]]",
        "[[radio]]",
        "[radio.matrix]",
        "hosts = [\"m1\", \"r1\"]",
        "hosts = [\"a\", \"b\", \"c\"]",
        "file = \"traces/flight.slots\"",
        "names = [\"m1\", \"r1\", \"m2\"]",
        "name = \"a\"",
        "name = \"b\"",
        "between = [\"a\", \"b\"]",
        "between = [1, {}]",
        "delay_ms = 1e300",
        "delay_ms = 5",
        "seconds = 1e18",
        "seconds = 5",
        "start_s = 1e9",
        "every_s = 0.00001",
        "mode = \"hold\"",
        "mode = \"drop\"",
        "loss = 0.5",
        "rate_mbps = 1e-9",
        "rate_mbps = 1e30",
        "queue_bytes = 0",
        "clock_skew_ppm = -100000",
        "clock_offset_ms = 1e12",
        "from = \"a\"",
        "to = [\"b\", \"c\"]",
        "host = \"b\"",
        "medium = \"a\"",
        "groups = [\"a\"]",
        "good_ms = 0",
        "bad_ms = 0.05",
        "good_ms = 1e9",
        "outage_csv = \"traces/outages.csv\"",
        "[link]",
        "link = 5",
        "seed = -1",
        "delivery_file = \"traces/lte.up\"",
        "gap_ms = 3",
        "[[host.clock_step]]",
        "by_ms = -1e12",
        "at_s = 3",
        "[link.slots]",
        "retries = 3",
        "matrix = \"traces/flight.slots\"",
        "from = \"m1\"",
        "to = \"r1\"",
        "[link.slot_loss]",
        "file = \"traces/flight.01\"",
        "slot_ms = 0.000001",
        "region_ms = 1e9",
    ];
    let words = words.map(str::to_owned).to_vec();
    prop::collection::vec(prop::sample::select(words), 0..25).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn text_never_panics_and_what_reads_is_written_back(text in pieces()) {
        if let Ok(scenario) = Scenario::from_toml_with(&text, "s.toml", &mut read) {
            assert_reads_back(&scenario);
        }
    }

    #[test]
    fn any_characters_never_panic(text in "\\PC{0,60}") {
        let _ = Scenario::from_toml_with(&text, "s.toml", &mut read);
    }
}
