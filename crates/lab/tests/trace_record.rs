//! `trace record` as a user runs it: what it refuses, and a flight that is recorded over emulated
//! radios.
#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const LAB: &str = env!("CARGO_BIN_EXE_fulmar-lab");
/// How many slots the flight has; then it begins again.
const SLOTS: usize = 80;
/// How long masts record.
const SECONDS: usize = 10;
/// Slots of 117.76 ms: what a busy machine is late by is a part of one.
const RATE_MBPS: &str = "0.1";
/// Runs before a test gives up: in some an edge of the emulator's slots lies where frames are sent.
const TRIES: usize = 5;
const MASTS: [&str; 4] = ["m1", "m2", "m3", "m4"];
const RECEIVERS: [&str; 4] = ["r1", "r2", "r3", "r4"];

/// Rows by transmitter and receiver.
type Rows = BTreeMap<(String, String), Vec<bool>>;

fn lab(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(LAB).current_dir(directory).args(arguments).output().unwrap()
}

fn error(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let output = lab(directory, arguments);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Says in plain sight that a test did not run, past the capture of the test harness.
fn skip(name: &str, reason: &str) {
    let _ = std::io::stderr().write_all(format!("SKIPPED: {name}: {reason}\n").as_bytes());
}

#[test]
fn record_says_what_is_the_matter_with_its_arguments() {
    let directory = TempDir::new().unwrap();
    let of =
        |arguments: &[&str]| error(directory.path(), &[&["trace", "record"], arguments].concat());
    let (code, text) = of(&["nowhere0", "--node", "m1", "--out", "m1.log"]);
    assert!(
        code == 1 && text.contains("nowhere0: no such interface; interfaces here are "),
        "{text}"
    );
    let (code, text) = of(&["lo", "--node", "mast one", "--out", "m1.log"]);
    assert!(
        code == 2 && text.contains("--node \"mast one\": a node has 1 to 15 letters"),
        "{text}"
    );
    let (code, text) = of(&["lo", "--node", "m1", "--rate-mbps", "1000", "--out", "m1.log"]);
    assert!(
        code == 2 && text.contains("slots would last 0.011776 ms, not 0.1 ms to a minute"),
        "{text}"
    );
    assert!(!directory.path().join("m1.log").exists(), "nothing is left of what did not begin");
}

#[test]
fn convert_says_which_file_and_line_is_wrong() {
    let directory = TempDir::new().unwrap();
    let header = "time_s,event,node,sender,slot,slot_ms,lat_deg,lon_deg,alt_m\n";
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("m1.log", &format!("{header}1,sent,m1,m1,5,10,,,\n"));
    write("r1.log", &format!("{header}1,received,r1,m1,5,10,,,\n1,received,r1,m1,x,10,,,\n"));
    write("other.csv", "time_s,rate_mbps\n0,1\n1,1\n");
    let of = |files: &[&str]| {
        let arguments =
            [&["trace", "convert", "--to", "slots", "--out", "a.slots"], files].concat();
        error(directory.path(), &arguments).1
    };
    let text = of(&["m1.log", "r1.log"]);
    assert!(text.contains("r1.log:3: column slot: \"x\" is not a whole number"), "{text}");
    let text = of(&["m1.log"]);
    assert!(
        text.contains("no node has heard another: logs of those that listen are missing"),
        "{text}"
    );
    let text = of(&["m1.log", "other.csv"]);
    assert!(
        text.contains("other.csv: is neither a log of trace record nor a slot matrix; of"),
        "{text}"
    );
    let text = of(&["m1:r1=m9.csv"]);
    assert!(text.contains("read m9.csv: No such file"), "{text}");
    assert!(!directory.path().join("a.slots").exists());
}

#[test]
fn forms_are_made_of_each_other() {
    let directory = TempDir::new().unwrap();
    let slots = "slot_ms 12\nm1 r1 0110111101\nm1 r2 0000000000\n";
    fs::write(directory.path().join("a.slots"), slots).unwrap();
    let run = |arguments: &[&str]| {
        let output = lab(directory.path(), &[&["trace", "convert", "--to"], arguments].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        errors
    };
    let told = run(&["deliveries", "a.slots", "--out", "d"]);
    assert!(told.contains("r2 has heard nothing of m1: no file"), "{told}");
    run(&["slots", "m1:r1=d/m1-r1.deliveries", "--slot-ms", "12", "--out", "b.slots"]);
    let back = fs::read_to_string(directory.path().join("b.slots")).unwrap();
    assert_eq!(back, "slot_ms 12\nm1 r1 0110111101\n", "nothing was lost");
    run(&["rate", "a.slots", "--out", "r"]);
    let rates = fs::read_to_string(directory.path().join("r/m1-r1.rate.csv")).unwrap();
    assert_eq!(rates, "time_s,rate_mbps\n0,0.7\n");
    run(&["loss", "a.slots", "--out", "l"]);
    let losses = fs::read_to_string(directory.path().join("l/m1-r2.loss.csv")).unwrap();
    assert_eq!(losses, "time_s,loss\n0,1\n");
}

/// Draws what each receiver hears of each mast.
fn flight() -> Rows {
    let mut state = 2_463_534_242_u32;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let pairs = MASTS.iter().flat_map(|mast| RECEIVERS.map(|receiver| (*mast, receiver)));
    pairs
        .map(|(mast, receiver)| {
            let slots = (0..SLOTS).map(|_| draw() % 100 < 60).collect();
            ((mast.to_owned(), receiver.to_owned()), slots)
        })
        .collect()
}

fn matrix_text(rows: &Rows) -> String {
    let digits = |slots: &[bool]| -> String {
        slots.iter().map(|&slot| if slot { '1' } else { '0' }).collect()
    };
    let lines = rows.iter().map(|((from, to), slots)| format!("{from} {to} {}\n", digits(slots)));
    format!("slot_ms 117.76\n{}", lines.collect::<String>())
}

fn rows(matrix: &str) -> Rows {
    let row = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let slots = words[2].chars().map(|digit| digit == '1').collect();
        ((words[0].to_owned(), words[1].to_owned()), slots)
    };
    matrix.lines().skip(1).map(row).collect()
}

/// A flight that was recorded.
struct Flown {
    rows: Rows,
    /// The columns in which all masts sent.
    common: Range<usize>,
    told: String,
}

/// Flies a matrix between eight hosts, all of which record; or returns what was told when that
/// failed.
fn recorded(directory: &Path, flight: &Rows) -> Result<Flown, String> {
    fs::write(directory.join("flight.slots"), matrix_text(flight)).unwrap();
    let hosts: Vec<&str> = MASTS.into_iter().chain(RECEIVERS).collect();
    let scene = format!(
        "[[radio]]\nname = \"air\"\nhosts = {hosts:?}\nmatrix = {{ file = \"flight.slots\" }}\n"
    );
    fs::write(directory.join("scene.toml"), scene).unwrap();
    let start = |host: &str| {
        let (send, group) = if MASTS.contains(&host) { ("--send", "m") } else { ("", "r") };
        let netns = format!("FULMAR_NETNS_{}", host.to_uppercase());
        format!(
            "nsenter --net=${netns} {LAB} trace record air --node {host} {send} --ahead 8 --rate-mbps {RATE_MBPS} \
             --out {host}.log & {group}=\"${group} $!\"\n"
        )
    };
    // Who listens is there first and goes last. A clean end is part of what is tried.
    let end =
        |group: &str| format!("kill ${group}; for one in ${group}; do wait $one || exit 1; done\n");
    let script = [
        RECEIVERS.map(start).concat(),
        "sleep 2\n".to_owned(),
        MASTS.map(start).concat(),
        format!("sleep {SECONDS}\n"),
        end("m"),
        // Eight frames of each may wait for their slots.
        "sleep 2\n".to_owned(),
        end("r"),
    ]
    .concat();
    for host in &hosts {
        let _ = fs::remove_file(directory.join(format!("{host}.log")));
    }
    let mut command = Command::new(LAB);
    command.current_dir(directory).args(["emulate", "scene.toml", "--", "sh", "-c", &script]);
    let flown = command.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&flown.stderr).into_owned();
    if !flown.status.success() {
        return Err(told);
    }
    let mut arguments = vec!["trace", "convert", "--to", "slots", "--out", "again.slots"];
    let logs: Vec<String> = hosts.iter().map(|host| format!("{host}.log")).collect();
    arguments.extend(logs.iter().map(String::as_str));
    let made = lab(directory, &arguments);
    let notes = String::from_utf8_lossy(&made.stderr).into_owned();
    if !made.status.success() {
        return Err(notes);
    }
    let again = fs::read_to_string(directory.join("again.slots")).unwrap();
    Ok(Flown { rows: rows(&again), common: common(directory), told: told + &notes })
}

/// Returns the columns in which all masts sent.
fn common(directory: &Path) -> Range<usize> {
    let ends = MASTS.map(|mast| {
        let log = fs::read_to_string(directory.join(format!("{mast}.log"))).unwrap();
        let sent = log.lines().filter(|line| line.contains(",sent,"));
        let slots: Vec<usize> =
            sent.map(|line| line.split(',').nth(4).unwrap().parse().unwrap()).collect();
        (slots[0], slots[slots.len() - 1])
    });
    let origin = ends.iter().map(|(first, _)| *first).min().unwrap();
    let from = ends.iter().map(|(first, _)| *first).max().unwrap();
    let to = ends.iter().map(|(_, last)| *last).min().unwrap();
    from - origin..to + 1 - origin
}

/// Says how much two matrices differ where all masts sent, for the one place in the flight at which
/// recording may have begun.
fn differ(flown: &Flown, flight: &Rows) -> Result<(), String> {
    if flown.common.len() < SLOTS / 2 {
        return Err(format!("{:?} are too few slots", flown.common));
    }
    let place = |start: usize| {
        let differing = flown.rows.iter().map(|(pair, slots)| {
            let expected =
                |slot: usize| flight.get(pair).is_some_and(|slots| slots[(slot + start) % SLOTS]);
            flown.common.clone().filter(|&slot| slots[slot] != expected(slot)).count()
        });
        differing.sum::<usize>()
    };
    let least = (0..SLOTS).map(place).min().unwrap_or(0);
    let problem = || format!("{least} digits of {:?} differ", flown.common);
    (least == 0).then_some(()).ok_or_else(problem)
}

#[test]
fn what_is_flown_in_the_emulator_and_recorded_there_is_the_same_matrix() {
    let name = "what_is_flown_in_the_emulator_and_recorded_there_is_the_same_matrix";
    let works = |flags| {
        let mut command = Command::new("unshare");
        command.args([flags, "--", "true"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").is_err() {
        return skip(name, "/dev/net/tun cannot be opened");
    }
    if !works("-np") {
        return skip(name, "network namespaces are not available");
    }
    let directory = TempDir::new().unwrap();
    let flight = flight();
    let mut found = String::new();
    let mut was_busy = false;
    for _ in 0..TRIES {
        match recorded(directory.path(), &flight) {
            Ok(flown) => match differ(&flown, &flight) {
                Ok(()) => return,
                Err(wrong) => {
                    was_busy |= flown.told.contains("overslept") || flown.told.contains("INVALID");
                    found = format!("{wrong}\n{}", flown.told);
                }
            },
            Err(told) => panic!("{told}"),
        }
    }
    assert!(was_busy, "{found}");
    skip(name, &format!("the machine was too busy {TRIES} times"));
}
