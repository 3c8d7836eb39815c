//! `fulmar-lab report`: the same bytes however many files run at once, what a run that was cut off
//! left is used and nothing else, one file that cannot be run ends no other, and what is wrong is
//! named at the end.
#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const HEAD: &str = "title = \"t\"\nsource = \"s\"\n";

fn report(arguments: &[&str], files: &[PathBuf]) -> Output {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    lab.env("FULMAR_SHARED", env!("CARGO_MANIFEST_DIR"));
    lab.arg("report").args(arguments).args(files).output().unwrap()
}

fn words(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Writes a record of a run that takes a moment; `more` comes before its figure, `ours` into it.
fn record(folder: &Path, name: &str, messages: u32, more: &str, ours: &str) -> PathBuf {
    let path = folder.join(name);
    let run = format!(
        "run = [\"conclone-interval\", \"--sim\", \"--schemes\", \"udp\", \"--messages\", \"{messages}\"]\n"
    );
    let figure = "[[figure]]\nscheme = \"udp\"\nkey = \"delivered\"\npaper = 7\n";
    fs::write(&path, format!("{HEAD}{run}{more}\n{figure}{ours}\n")).unwrap();
    path
}

#[test]
fn files_side_by_side_print_the_same_bytes_as_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let whose = "paper_schemes = { udp = \"plain\" }";
    let files: Vec<PathBuf> = (1..=5)
        .map(|i| (format!("{i}.toml"), 400 - 60 * i))
        .map(|(name, messages)| record(folder.path(), &name, messages, whose, "why = \"more\""))
        .collect();
    for form in [&["--json"][..], &[]] {
        let with = |jobs: &str| {
            let output = report(&[form, &["--jobs", jobs]].concat(), &files);
            assert!(output.status.success(), "{:?}", words(&output));
            output.stdout
        };
        assert_eq!(with("1"), with("4"), "{form:?}");
    }
    let (text, told) = words(&report(&[], &files));
    assert!(text.contains("5 files, 5 figures: 0 do not reach"), "{text}");
    assert_eq!(
        (text.matches("plain").count(), text.matches(" %, no interval: more").count()),
        (5, 5)
    );
    assert!(told.contains("5 of 5 files") && told.contains("nothing left"), "{told}");
}

#[test]
fn what_is_kept_is_used_as_long_as_the_same_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let arguments = ["--json", "--resume", kept.to_str().unwrap()];
    let [one, other] = [("one.toml", 30), ("other.toml", 40)]
        .map(|(name, messages)| record(folder.path(), name, messages, "", ""));
    let alone = words(&report(&arguments, std::slice::from_ref(&one))).0;
    let files = [one.clone(), other];
    let (fresh, told) = words(&report(&arguments, &files));
    assert_eq!(told.matches("kept from before").count(), 1, "{told}");
    let (again, told) = words(&report(&arguments, &files));
    assert_eq!((told.matches("kept from before").count(), &again), (2, &fresh), "{told}");
    assert_eq!(words(&report(&["--json"], &files)).0, fresh, "as if nothing had been kept");
    // Another bar is held against what was kept; another run is another run.
    record(folder.path(), "one.toml", 30, "", "at_most = 0");
    let (bar, told) = words(&report(&arguments, std::slice::from_ref(&one)));
    assert!(told.contains("kept from before") && bar.contains("\"met\":false"), "{bar}{told}");
    record(folder.path(), "one.toml", 31, "", "");
    let (new, told) = words(&report(&arguments, &[one]));
    assert!(!told.contains("kept from before") && new != alone, "{told}");
}

#[test]
fn a_file_that_cannot_be_run_ends_no_other_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = record(folder.path(), "good.toml", 20, "", "");
    let drifted = record(folder.path(), "drifted.toml", 20, "", "ours = 3");
    let missed = record(folder.path(), "missed.toml", 20, "", "at_least = 500");
    let why = "at_least = 500\nunreached = \"too few\"";
    let known = record(folder.path(), "known.toml", 20, "", why);
    let bad = folder.path().join("bad.toml");
    let run =
        "run = [\"conclone-interval\", \"--sim\", \"--schemes\", \"kernel_mptcp\"]\nfigure = []\n";
    fs::write(&bad, format!("{HEAD}{run}")).unwrap();
    let recorded = folder.path().join("recorded.toml");
    let run = "run = [\"recorded\", \"--sim\", \"--set\", \"wifi\"]\nfigure = []\n";
    fs::write(&recorded, format!("{HEAD}{run}")).unwrap();
    let files = [&bad, &good, &drifted, &missed, &known, &recorded].map(Clone::clone);
    let output = report(&[], &files);
    let (text, told) = words(&output);
    assert_eq!(output.status.code(), Some(1), "{text}{told}");
    for (file, what) in [
        (&bad, "FAILED: --schemes kernel_mptcp: not this experiment's"),
        (&drifted, "DRIFTED: udp delivered is"),
        (&missed, "MISSED: udp delivered is"),
        (&known, "UNREACHED: udp delivered is"),
        (&recorded, "SKIPPED: no recordings in"),
    ] {
        assert!(text.contains(&format!("{}: {what}", file.display())), "{text}");
    }
    let sum = "1 do not reach what they must, 1 more neither, as their files say, \
               1 are no longer those of their file";
    assert!(text.contains(sum), "{text}");
    assert!(told.contains("FAILED"), "{told}");
    assert!(report(&[], &[good.clone(), known]).status.success(), "what is known is nothing new");
    let rest = report(&["--json"], &[good, drifted]);
    let rest: Value = serde_json::from_slice(&rest.stdout).unwrap();
    assert_eq!((&rest["summary"]["files"], &rest["summary"]["drifted"]), (&2.into(), &1.into()));
}

#[test]
fn a_part_is_run_in_a_hurry_and_held_against_the_paper_alone() {
    let folder = tempfile::tempdir().unwrap();
    let part = "quick = [\"conclone-interval\", \"--sim\", \"--schemes\", \"udp\", \"--messages\", \"10\"]";
    let quick = record(folder.path(), "quick.toml", 4_000, part, "ours = 1\nat_least = 3000");
    let other = record(folder.path(), "other.toml", 4_000, "", "");
    let output = report(&["--quick", "--json"], &[quick, other.clone()]);
    let (text, told) = words(&output);
    assert!(output.status.success() && told.contains("1 other files say nothing"), "{text}{told}");
    let json: Value = serde_json::from_str(&text).unwrap();
    let figure = &json["reports"][0]["figures"][0];
    assert_eq!(
        (&figure["recorded"], &figure["must"], &figure["drifted"]),
        (&Value::Null, &"".into(), &false.into())
    );
    assert!(figure["now"].as_f64().is_some_and(|now| now <= 10.0), "{figure}");
    let none = report(&["--quick"], &[other]);
    assert_eq!(none.status.code(), Some(2));
    assert!(words(&none).1.contains("--quick"), "{:?}", words(&none));
}
