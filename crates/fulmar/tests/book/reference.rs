//! The reference pages: the command line is what `--help` says, the configuration what the reader
//! asks for.
//!
//! `FULMAR_WRITE_REFERENCE=1 cargo test -p fulmar --test book reference` writes the first anew. The
//! second is written by hand: a key that it lacks, or has and the reader has not, and a default
//! that dist/ gives otherwise, is a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::{PUBLIC_KEY, fulmar, root, text};

const COMMAND_LINE: &str = "docs/command-line.md";
const CONFIGURATION: &str = "docs/configuration.md";

/// Returns what a command says of itself.
fn help(words: &[String]) -> String {
    let asked =
        Command::new(env!("CARGO_BIN_EXE_fulmar")).args(words).arg("--help").output().unwrap();
    assert!(asked.status.success(), "{words:?}");
    let text = String::from_utf8(asked.stdout).unwrap();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Adds a command and those below it, in the order of the help.
fn add_command(words: &[String], page: &mut String) {
    let help = help(words);
    let depth = "#".repeat(words.len().min(2) + 1);
    let name = words.iter().fold("fulmar".to_owned(), |name, word| format!("{name} {word}"));
    if !words.is_empty() {
        *page += &format!("\n{depth} `{name}`\n");
    }
    *page += &format!("\n```text\n{}\n```\n", help.trim_end());
    let (_, commands) = help.split_once("\nCommands:\n").unwrap_or_default();
    for line in commands.lines().take_while(|line| !line.is_empty()) {
        let is_entry = line.starts_with("  ") && !line.starts_with("   ");
        let word = line.split_whitespace().next().unwrap_or_default();
        if is_entry && word != "help" {
            let words: Vec<String> = words.iter().cloned().chain([word.to_owned()]).collect();
            add_command(&words, page);
        }
    }
}

#[test]
fn the_command_line_is_what_the_program_says_of_itself() {
    let mut page = "# Command line\n\nWhat `fulmar --help` and the help of each command say. `fulmar-lab --help` has the \
                    laboratory's.\n"
        .to_owned();
    add_command(&[], &mut page);
    if std::env::var_os("FULMAR_WRITE_REFERENCE").is_some() {
        std::fs::write(root().join(COMMAND_LINE), &page).unwrap();
    }
    let write = "FULMAR_WRITE_REFERENCE=1 cargo test -p fulmar --test book reference";
    assert!(text(COMMAND_LINE) == page, "{COMMAND_LINE} is not current: {write} writes it");
}

/// A section's name, with the brackets that it stands in, and for each of its keys what is said of
/// it.
type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the sections of the page with their rows.
fn documented() -> Sections {
    let page = text(CONFIGURATION);
    let mut sections = Sections::new();
    let mut section = None;
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            let mut names = heading.split('`').skip(1).step_by(2).map(str::to_owned);
            section = if heading == "At the top" { Some(String::new()) } else { names.next() };
            sections
                .extend(section.iter().cloned().chain(names).map(|name| (name, BTreeMap::new())));
        }
        let key = line.strip_prefix("| `").and_then(|row| row.split('`').next());
        if let (Some(section), Some(key)) = (&section, key) {
            sections.entry(section.clone()).or_default().insert(key.to_owned(), line.to_owned());
        }
    }
    sections
}

/// Keys that only a serial port has: elsewhere they are asked for so that they can be refused in
/// better words.
const SERIAL: [&str; 3] = ["device", "baud", "flow_control"];
/// The same of gateways, of what only relays have.
const OF_RELAYS: [&str; 2] = ["node", "radio"];
/// The same of relays, of what only gateways have.
const OF_GATEWAYS: [&str; 5] = ["form", "k", "f", "r", "name"];

/// Returns the keys that the reader takes in a section, for every kind that it may be of.
fn taken(section: &str) -> BTreeSet<String> {
    let directory = tempfile::tempdir().unwrap();
    assert!(fulmar(&["keygen", "--out", "private.key"], directory.path()).status.success());
    let mut keys = BTreeSet::new();
    let message = ["udp-server", "seqpacket", "rtp-server"];
    let kinds: &[&str] = match section {
        "[[mavlink]]" => &["udp-server", "tcp-server", "serial"],
        "[[control]]" => &message[..1],
        "[[message]]" => &message,
        _ => &[""],
    };
    for kind in kinds {
        let role = match section {
            "[[listen]]" => "station",
            "[relay]" | "[relay.wire]" | "[relay.radio]" => "relay",
            _ => "drone",
        };
        let (top, inside) = if section.is_empty() { ("zq9 = 1\n", "") } else { ("", "zq9 = 1\n") };
        let kind = if kind.is_empty() { String::new() } else { format!("kind = \"{kind}\"\n") };
        let mut file = format!("role = \"{role}\"\nprivate_key_file = \"private.key\"\n{top}");
        if section != "[[peer]]" {
            file += &format!("[[peer]]\nname = \"a\"\npublic_key = \"{PUBLIC_KEY}\"\n");
        }
        file += &format!("{section}\n{kind}{inside}");
        std::fs::write(directory.path().join("a.toml"), file).unwrap();
        let said = fulmar(&["check", "a.toml"], directory.path()).stderr;
        let said = String::from_utf8(said).unwrap();
        let line = said.lines().find(|line| line.contains("zq9: unknown key"));
        let line = line.unwrap_or_else(|| panic!("{section}: {said}"));
        let (_, list) = line.split_once("the keys here are ").unwrap();
        let list = list.split("; did you").next().unwrap_or_default();
        let taken =
            list.split(", ").filter(|key| section == "[[mavlink]]" || !SERIAL.contains(key));
        let foreign = match section {
            "[relay]" => &OF_GATEWAYS[..],
            "[[relay]]" => &OF_RELAYS[..],
            _ => &[],
        };
        keys.extend(taken.filter(|key| !foreign.contains(key)).map(str::to_owned));
    }
    keys
}

#[test]
fn every_key_of_the_configuration_is_documented_and_no_other() {
    let documented = documented();
    // Sections of the file, and of the selector: the page has them as headings, not as keys.
    let headings: BTreeSet<String> = documented
        .keys()
        .map(|section| section.trim_matches(['[', ']']).to_owned())
        .flat_map(|name| name.split('.').map(str::to_owned).collect::<Vec<_>>())
        .collect();
    for (section, rows) in &documented {
        // Those without rows: as one before them, or their keys are the names of messages.
        if rows.is_empty() {
            continue;
        }
        let has_sections =
            section.is_empty() || ["[selector]", "[relay]"].contains(&section.as_str());
        let is_key = |key: &String| !(has_sections && headings.contains(key));
        let taken: BTreeSet<String> = taken(section).into_iter().filter(is_key).collect();
        let told: BTreeSet<String> = rows.keys().cloned().collect();
        let missing: Vec<_> = taken.difference(&told).collect();
        let beyond: Vec<_> = told.difference(&taken).collect();
        assert!(missing.is_empty(), "{CONFIGURATION} {section}: has no row for {missing:?}");
        assert!(beyond.is_empty(), "{CONFIGURATION} {section}: the reader knows no {beyond:?}");
    }
    assert!(documented.len() >= 12, "{:?}", documented.keys());
}

#[test]
fn documented_defaults_are_those_of_the_examples() {
    let documented = documented();
    let mut compared = 0;
    for file in ["dist/drone.toml", "dist/station.toml", "dist/relay.toml"] {
        let mut section = String::new();
        for line in text(file).lines().map(|line| line.trim_start_matches('#')) {
            if line.starts_with('[') {
                section = line.split(" #").next().unwrap_or_default().trim().to_owned();
            }
            let Some((key, value)) = line.split_once(" = ") else { continue };
            let Some(row) = documented.get(&section).and_then(|rows| rows.get(key)) else {
                continue;
            };
            let value = value.split("  ").next().unwrap_or_default().trim();
            let default = row.split(" | ").nth(1).unwrap_or_default();
            if default.starts_with('`') {
                assert_eq!(
                    default,
                    format!("`{value}`"),
                    "{CONFIGURATION} {section} {key}: {file}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared >= 15, "{compared} were compared");
}
