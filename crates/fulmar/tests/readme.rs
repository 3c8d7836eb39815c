//! What the README and the documents show: whoever copies it has files that work.

use std::path::Path;
use std::process::{Command, Output};

use proto::select::{
    Direction, Policy, Selector, SelectorConfig, Version, encode_frame, message_definition,
    message_id,
};

const PUBLIC_KEY: &str = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=";

fn fulmar(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fulmar"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the program was built for this test")
}

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(path).expect("the document is there")
}

/// Returns the policy that a message gets by default.
fn policy(id: u32) -> Option<Policy> {
    let mut selector = Selector::new(&SelectorConfig::default(), Direction::ToVehicle);
    let frame = encode_frame(Version::V2, 0, (1, 1), id, &[7; 40]).expect("a known message");
    selector.select_frames(1, &frame).next().map(|selected| selected.policy)
}

#[test]
fn table_of_messages_is_what_the_selector_does() {
    let document = document("docs/mavlink.md");
    let mut told = Vec::new();
    for row in document.lines().filter(|line| line.starts_with("| ")) {
        let mut cells = row.split(" | ");
        let (names, policy_name) = (cells.next().unwrap_or(""), cells.next().unwrap_or(""));
        let Some(expected) = Policy::from_name(policy_name.trim_matches('`')) else { continue };
        let words =
            names.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
        for id in words.filter_map(message_id) {
            assert_eq!(policy(id), Some(expected), "{row}");
            told.push(id);
        }
    }
    assert!(told.len() > 60, "the table was found: {told:?}");
    for id in (0..1 << 16).filter(|id| message_definition(*id).is_some()) {
        let is_telemetry = policy(id).is_none_or(|policy| policy == Policy::TELEMETRY);
        assert!(is_telemetry || told.contains(&id), "{id} is not in the table");
    }
}

#[test]
fn first_flight_of_the_readme_makes_files_that_are_valid() {
    let readme = document("README.md");
    let (_, section) = readme.split_once("## First flight").expect("the section is there");
    let (_, script) = section.split_once("```sh\n").expect("it begins with a script");
    let (script, _) = script.split_once("\n```").expect("which ends");
    let directory = tempfile::tempdir().expect("there is room for a file");
    let program = Path::new(env!("CARGO_BIN_EXE_fulmar")).parent().expect("a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    let ran = shell.args(["-ec", script]).current_dir(directory.path()).env("PATH", path).output();
    let ran = ran.expect("there is a shell");
    assert!(ran.status.success(), "{ran:?}");
    for file in ["drone.toml", "station.toml"] {
        let checked = fulmar(&["check", file], &directory.path().join("first-flight"));
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn examples_of_the_readme_are_valid_once_the_keys_are_in() {
    let readme = document("README.md");
    let examples: Vec<&str> = readme
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```").map(|(example, _)| example))
        .collect();
    assert_eq!(examples.len(), 2, "a drone's and a station's");
    for example in examples {
        let directory = tempfile::tempdir().expect("there is room for a file");
        let made = fulmar(&["keygen", "--out", "private.key"], directory.path());
        assert!(made.status.success(), "{made:?}");
        let keys = [("STATION-PUBLIC-KEY", PUBLIC_KEY), ("DRONE-PUBLIC-KEY", PUBLIC_KEY)];
        let text =
            keys.iter().fold(example.to_owned(), |text, (word, key)| text.replace(word, key));
        assert_ne!(text, example, "the example has a place for the key");
        std::fs::write(directory.path().join("fulmar.toml"), text).expect("a file can be written");
        let checked = fulmar(&["check", "fulmar.toml"], directory.path());
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
