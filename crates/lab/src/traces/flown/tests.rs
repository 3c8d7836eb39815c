//! Flights in virtual time: packets over links that are known, recorded as a daemon would, made
//! links again, flown again.

use std::collections::BTreeMap;
use std::fs;

use netem::{Link, LinkModel, Scenario};
use record::schema::{Control, CopySent, Path as Sample, Session};
use record::segment::Segment;
use record::topic;
use tempfile::TempDir;

use super::*;

/// From one control message to the next.
const EVERY_S: f64 = 0.02;
/// A message that takes longer is missed.
const IN_TIME_S: f64 = 0.1;
/// The date at which flights begin: 24 November 2026.
const DATE_NS: u64 = 1_795_547_717_000_000_000;

const HARD: &str = r#"
seconds = 120
[[link]]
name = "wifi"
between = ["drone", "station"]
delay_ms = 10
loss = 0.02
[link.burst_loss]
good_ms = 1500
bad_ms = 120
loss_bad = 0.7
[[link.outage]]
start_s = 12
seconds = 4
every_s = 25
mode = "drop"
[[link]]
name = "lte"
between = ["drone", "station"]
delay_ms = 35
rate_mbps = 4
loss = 0.01
[link.burst_loss]
good_ms = 2500
bad_ms = 200
loss_bad = 0.8
[[link.outage]]
start_s = 14
seconds = 1.5
every_s = 25
mode = "hold"
"#;

/// What one direction of one link did with the control messages: when each left, and when it
/// arrived.
type Flown = Vec<(f64, Option<f64>)>;

fn scenario_of(text: &str) -> Scenario {
    Scenario::from_toml(text, "hard.toml").expect("it is sound")
}

/// Sends a control message by every link in both directions, every 20 ms from `phase` on.
fn fly(scenario: &Scenario, seed: u64, phase: f64) -> Vec<[Flown; 2]> {
    let fly = |model: &LinkModel, label: &str| {
        let mut link = Link::new(model, seed, label);
        let times = (0..).map(|n| phase + f64::from(n) * EVERY_S);
        let times = times.take_while(|at| *at < scenario.seconds);
        let sent = times.map(|at| {
            let verdict = link.handle_packet(Instant::ZERO + duration(at), 100);
            let arrival = verdict.deliveries.first().map(|one| one.at);
            (at, arrival.map(|at| at.since(Instant::ZERO).as_secs_f64()))
        });
        sent.collect()
    };
    let links = scenario.links.iter();
    links.map(|pair| [fly(&pair.up, &pair.name), fly(&pair.down, &pair.name)]).collect()
}

fn lost(flown: &Flown) -> usize {
    flown.iter().filter(|(_, arrived)| arrived.is_none()).count()
}

/// Counts the messages of a direction of which no copy arrived in time.
fn missed(links: &[[Flown; 2]], way: usize) -> usize {
    let is_missed = |n: &usize| {
        links.iter().all(|link| {
            let (sent, arrived) = link[way][*n];
            arrived.is_none_or(|arrived| arrived - sent > IN_TIME_S)
        })
    };
    (0..links[0][way].len()).filter(is_missed).count()
}

/// A computer that records: the drone (0) or the station (1).
struct Recorder<'a> {
    names: &'a [&'a str],
    /// What its date is off by, and what its daemon's clock showed when the flight began, in
    /// seconds.
    clocks: (f64, f64),
    /// From when on there was each link.
    since: &'a [f64],
}

impl Recorder<'_> {
    /// Returns the file of a flight.
    fn record(&self, links: &[[Flown; 2]], way: usize, peer_clock: f64) -> Vec<u8> {
        let role = ["drone", "station"][way];
        let info = BTreeMap::from([("role".to_owned(), role.to_owned())]);
        let mut file = Segment::begin(&info).expect("it begins");
        let ns = |at: f64| DATE_NS.saturating_add_signed(((at + self.clocks.0) * 1e9) as i64);
        let peer = ["station", "drone"][way];
        let seconds = links[0][way].last().map_or(0.0, |(at, _)| *at);
        for (n, &(at, _)) in links[0][way].iter().enumerate() {
            let message = self.control(links, way, n);
            file.add(&topic::control(peer), ns(at), &message).expect("it is added");
        }
        for tenth in 0..(seconds * 10.0) as u32 {
            let at = f64::from(tenth) / 10.0;
            for (place, link) in links.iter().enumerate().filter(|(n, _)| self.since[*n] <= at) {
                let sample = self.sample(place, &link[1 - way], at);
                file.add(&topic::path(peer, &sample.name), ns(at), &sample).expect("it is added");
            }
            if tenth % 10 == 0 {
                let session = Session {
                    connected: true,
                    clock_ms: (self.clocks.1 + at) * 1e3,
                    clock_offset_ms: Some((peer_clock - self.clocks.1) * 1e3),
                    clock_error_ms: Some(0.2),
                    ..Session::default()
                };
                file.add(&topic::session(peer), ns(at), &session).expect("it is added");
            }
        }
        file.finish().expect("it ends")
    }

    fn control(&self, links: &[[Flown; 2]], way: usize, n: usize) -> Control {
        let at = links[0][way][n].0;
        let there = links.iter().enumerate().filter(|(place, _)| self.since[*place] <= at);
        let copies = there.map(|(place, link)| {
            let (sent, arrived) = link[way][n];
            CopySent {
                path: self.names[place].to_owned(),
                sent_ms: 0.0,
                arrived_ms: arrived.map(|arrived| (arrived - sent) * 1e3),
                acked: arrived.is_some(),
                lost: arrived.is_none(),
            }
        });
        let class = "control".to_owned();
        Control { number: n as u64, class, copies: copies.collect(), ..Control::default() }
    }

    /// What the daemon knows of a path by what came in by it.
    fn sample(&self, place: usize, inward: &Flown, at: f64) -> Sample {
        let came = inward.iter().filter_map(|(_, arrived)| arrived.filter(|time| *time <= at));
        let silent = at - came.fold(0.0, f64::max);
        Sample {
            name: self.names[place].to_owned(),
            id: place as u8,
            state: if silent > 0.15 { "suspected" } else { "active" }.to_owned(),
            srtt_ms: Some(40.0),
            min_rtt_ms: Some([20.0, 70.0][place]),
            silent_ms: Some(silent * 1e3),
            ..Sample::default()
        }
    }
}

const DRONE: Recorder<'_> =
    Recorder { names: &["wifi", "lte"], clocks: (0.0, 1_000.0), since: &[0.0, 0.0] };
/// A station does not know the drone's names, and its date is another.
const STATION: Recorder<'_> = Recorder {
    names: &["203.0.113.7:4500", "198.51.100.2:9000"],
    clocks: (-3_600.5, 70.0),
    since: &[0.0, 0.0],
};

/// Records a flight in a folder.
fn record(links: &[[Flown; 2]]) -> (TempDir, [PathBuf; 2]) {
    let folder = tempfile::tempdir().expect("a folder");
    let files = ["drone.mcap", "station.mcap"].map(|name| folder.path().join(name));
    fs::write(&files[0], DRONE.record(links, 0, STATION.clocks.1)).expect("written");
    fs::write(&files[1], STATION.record(links, 1, DRONE.clocks.1)).expect("written");
    (folder, files)
}

fn args(files: &[PathBuf], out: PathBuf) -> FromRecordArgs {
    FromRecordArgs {
        files: files.to_vec(),
        out,
        from: None,
        to: None,
        peer: Vec::new(),
        rate_mbps: 12.0,
        queue_kb: 250.0,
        json: true,
    }
}

/// Makes a scenario of files, and reads it again from where it was written.
fn again(args: &FromRecordArgs) -> Result<Scenario, String> {
    let (_, path) = make(args)?;
    emulator::read_scenario(&path)
}

fn assert_near(what: &str, was: usize, is: usize) {
    let apart = (is as f64 - was as f64).abs() / was as f64;
    assert!(apart <= 0.1, "{what}: {was} then, {is} now");
}

#[test]
fn flight_flown_again_misses_and_loses_what_it_did_within_a_tenth() {
    for seed in [1, 2] {
        let flown = fly(&scenario_of(HARD), seed, 0.0);
        let (folder, files) = record(&flown);
        let scenario = again(&args(&files, folder.path().join("again"))).expect("a scenario");
        let names: Vec<&str> = scenario.links.iter().map(|pair| &pair.name[..]).collect();
        assert_eq!(names, ["wifi", "lte"], "the drone's names, in its order");
        let then = &flown;
        // Other luck, and messages that leave at other moments.
        let now = fly(&scenario, 7, 0.007);
        for way in [0, 1] {
            assert_near(&format!("seed {seed}: missed"), missed(then, way), missed(&now, way));
            for (name, (then, now)) in names.iter().zip(then.iter().zip(&now)) {
                assert_near(
                    &format!("seed {seed}: {name} lost"),
                    lost(&then[way]),
                    lost(&now[way]),
                );
            }
        }
        for (pair, ms) in scenario.links.iter().zip([10, 35]) {
            let delay = pair.up.delay_at(Instant::ZERO).as_millis();
            assert!((ms..=ms + 1).contains(&delay), "{}: {delay} ms", pair.name);
        }
        let outages = &scenario.links[0].up.outages;
        assert_eq!(outages.iter().filter(|one| one.duration.as_millis() > 3_900).count(), 5);
    }
}

#[test]
fn losses_that_know_nothing_of_each_other_do_not_take_a_second_copy_with_them() {
    // Two per cent of both links' packets, each by itself.
    let text = "seconds = 120\n[[link]]\nname = \"wifi\"\nbetween = [\"drone\", \"station\"]\nloss = 0.02\n\
                [[link]]\nname = \"lte\"\nbetween = [\"drone\", \"station\"]\nloss = 0.02\n";
    let (folder, files) = record(&fly(&scenario_of(text), 1, 0.0));
    let scenario = again(&args(&files, folder.path().join("again"))).expect("a scenario");
    let model = &scenario.links[0].up;
    let mut link = Link::new(model, 3, "wifi");
    let mut is_lost =
        |at: f64| link.handle_packet(Instant::ZERO + duration(at), 100).deliveries.is_empty();
    // Pairs 4 ms apart, as a second copy follows the first.
    let pairs: Vec<(bool, bool)> = (0..5_900)
        .map(|n| f64::from(n) * EVERY_S)
        .map(|at| (is_lost(at), is_lost(at + 0.004)))
        .collect();
    let first = pairs.iter().filter(|(first, _)| *first).count();
    let both = pairs.iter().filter(|(first, second)| *first && *second).count();
    assert!((80..160).contains(&first), "{first} of 5900 were lost: 118 are 2 %");
    assert!(both <= first / 10, "{both} of {first} took the second with them");
}

#[test]
fn one_record_has_the_other_direction_silent_when_it_was_and_says_what_is_assumed() {
    let (folder, files) = record(&fly(&scenario_of(HARD), 1, 0.0));
    let args = args(&files[..1], folder.path().join("alone"));
    let scenario = again(&args).expect("a scenario");
    let wifi = scenario.links.iter().find(|pair| pair.name == "wifi").expect("it is there");
    for model in [&wifi.up, &wifi.down] {
        let long: Vec<_> =
            model.outages.iter().filter(|one| one.duration.as_millis() > 3_800).collect();
        assert_eq!(long.len(), 5, "{:?}", model.outages);
        assert!(
            long[0].start.since(Instant::ZERO).as_millis().abs_diff(12_000) < 300,
            "{:?}",
            long[0]
        );
    }
    let text = fs::read_to_string(args.out.join("scenario.toml")).expect("it is there");
    assert!(
        text.contains("# the drone's record alone: what went from station to drone is assumed")
    );
}

#[test]
fn part_of_a_flight_begins_and_ends_where_it_is_asked_to() {
    let (folder, files) = record(&fly(&scenario_of(HARD), 1, 0.0));
    let mut args = args(&files, folder.path().join("part"));
    (args.from, args.to) = (Some(30.0), Some(60.0));
    let scenario = again(&args).expect("a scenario");
    assert!((scenario.seconds - 30.0).abs() < 1e-6, "{}", scenario.seconds);
    let wifi = &scenario.links[0].up.outages;
    assert!(
        wifi.iter().any(|one| one.start.since(Instant::ZERO).as_millis().abs_diff(7_000) < 300),
        "{wifi:?}"
    );
    (args.from, args.to) = (Some(500.0), None);
    let error = again(&args).expect_err("nothing is left");
    assert!(error.contains("the record has seconds 0.0 to 119.8 of the flight"), "{error}");
}

#[test]
fn path_that_came_later_is_out_until_then_and_a_single_one_is_a_scenario() {
    let flown = fly(&scenario_of(HARD), 1, 0.0);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("drone.mcap");
    let later = Recorder { since: &[0.0, 40.0], ..DRONE };
    fs::write(&file, later.record(&flown, 0, STATION.clocks.1)).expect("written");
    let scenario = again(&args(&[file], folder.path().join("later"))).expect("a scenario");
    let first = scenario.links[1].up.outages[0];
    assert_eq!((first.start, first.duration.as_secs()), (Instant::ZERO, 40));
    let file = folder.path().join("single.mcap");
    fs::write(&file, DRONE.record(&flown[..1], 0, STATION.clocks.1)).expect("written");
    let scenario = again(&args(&[file], folder.path().join("single"))).expect("a scenario");
    assert_eq!(scenario.links.len(), 1);
}

#[test]
fn record_that_was_cut_makes_a_scenario_of_what_it_holds() {
    let flown = fly(&scenario_of(HARD), 1, 0.0);
    let (folder, files) = record(&flown);
    // In chunks, as a daemon writes: a record in one piece would lose all.
    let mut file = Segment::begin(&BTreeMap::from([("role".into(), "drone".into())])).expect("");
    let mut bytes = Vec::new();
    for tenth in 0..600_u64 {
        let sample = DRONE.sample(0, &flown[0][1], tenth as f64 / 10.0);
        let at = DATE_NS + tenth * 100_000_000;
        file.add(&topic::path("station", "wifi"), at, &sample).expect("it is added");
        bytes.extend(file.take().expect("a chunk"));
    }
    fs::write(&files[0], &bytes[..bytes.len() / 2]).expect("written");
    let scenario = again(&args(&files[..1], folder.path().join("cut"))).expect("a scenario");
    assert!((25.0..35.0).contains(&scenario.seconds), "{}", scenario.seconds);
}

#[test]
fn what_makes_no_scenario_is_told_with_what_to_do() {
    let flown = fly(&scenario_of(HARD), 1, 0.0);
    let (folder, files) = record(&flown);
    let file = |name: &str, bytes: Vec<u8>| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("written");
        path
    };
    let out = folder.path().join("never");
    let info = BTreeMap::from([("role".to_owned(), "drone".to_owned())]);
    let begin = || Segment::begin(&info).expect("it begins");
    let empty = file("empty.mcap", begin().finish().expect("it ends"));
    let mut several = begin();
    for peer in ["east", "west"] {
        several.add(&topic::path(peer, "wifi"), DATE_NS, &Sample::default()).expect("added");
    }
    let several = file("several.mcap", several.finish().expect("it ends"));
    let other = Recorder { clocks: (90_000.0, 900_000.0), ..STATION };
    let other = file("other.mcap", other.record(&flown, 1, DRONE.clocks.1));
    let stranger = file("stranger.mcap", b"not a record".to_vec());
    let cases: [(&[PathBuf], &str); 6] = [
        (&[empty], "the record is empty: nothing was recorded before it ended"),
        (&[several], "has several peers: say --peer, of east, west"),
        (&[files[0].clone(), other], "the two records have no moment in common"),
        (&[stranger], "is no record"),
        (&[folder.path().join("missing.mcap")], "missing.mcap: No such file"),
        (&[folder.path().to_owned()], "read "),
    ];
    for (files, wanted) in cases {
        let error = again(&args(files, out.clone())).expect_err(wanted);
        assert!(error.contains(wanted), "{error}");
    }
    let mut asked = args(&files[..1], out);
    asked.peer = vec!["nobody".to_owned()];
    let error = again(&asked).expect_err("there is no such peer");
    assert!(error.contains("--peer nobody: the records are of station"), "{error}");
}

/// What a path carried and what was known of its narrowest hop, ten times a second, in Mbit/s.
fn rates_of(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let sample = |(n, &(out_mbps, capacity)): (usize, &(f64, f64))| {
        let capacity_mbps = (capacity > 0.0).then_some(capacity);
        let state = "active".to_owned();
        (n as f64 / 10.0, Sample { state, out_mbps, capacity_mbps, ..Sample::default() })
    };
    let samples = samples.iter().enumerate().map(sample).collect();
    let seen = view::Seen { samples, ..view::Seen::default() };
    let link = aligned::Link { name: "lte".to_owned(), seen: [Some(seen), None] };
    let [way, _] = direction::ways(&[link], 0, (0.0, 60.0), Rate::from_mbps(12.0));
    way.rates_mbps
}

#[test]
fn an_estimate_that_stays_as_it_was_while_more_passes_is_no_rate() {
    // The link falls to 0.5 Mbit/s and is filled; then it is fast again, and nothing fills it.
    let rough = |n: usize| 0.5 + 0.003 * (n % 4) as f64;
    let fall = (0..20).map(|n| (0.5, rough(n)));
    let after = (0..20).map(|_| (4.5, rough(19)));
    let samples: Vec<(f64, f64)> = (0..2).flat_map(|_| fall.clone().chain(after.clone())).collect();
    let rates = rates_of(&samples);
    let expected = [(0.0, true), (2.0, false), (4.0, true), (6.0, false)];
    assert_eq!(rates.len(), expected.len(), "{rates:?}");
    for ((at, mbps), (then, is_slow)) in rates.into_iter().zip(expected) {
        assert!((at - then).abs() < 0.11, "{at} for {then}");
        assert!(
            if is_slow { (0.49..0.52).contains(&mbps) } else { mbps == 12.0 },
            "{mbps} at {at}"
        );
    }
}

#[test]
fn a_link_that_only_its_falls_fill_has_another_rate_between_them() {
    let rough = |n: usize| 0.3 + 0.003 * (n % 4) as f64;
    // As much passes as in the falls, and nothing is known: it is faster.
    let thin: Vec<(f64, f64)> = (0..10).map(|n| (0.1, rough(n))).chain([(0.1, 0.0); 50]).collect();
    assert_eq!(rates_of(&thin).last().map(|(_, mbps)| *mbps), Some(12.0));
    // What is filled while much passes, and not while little does, is a link of one rate.
    let busy: Vec<(f64, f64)> =
        (0..10).map(|n| (4.0, 3.9 + rough(n))).chain([(0.1, 0.0); 50]).collect();
    let last = rates_of(&busy).last().map_or(0.0, |(_, mbps)| *mbps);
    assert!((4.2..5.1).contains(&last), "{last}");
}
