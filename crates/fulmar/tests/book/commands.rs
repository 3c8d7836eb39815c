//! Every command that a text shows: run as it stands, in a network and a folder of its own, with
//! the files that the text shows before it. Those that need what a test has not (a radio, root,
//! another program, minutes) are read by the shell, and their arguments by our programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::blocks::{Block, blocks, documents};
use crate::{text, with_keys};

/// How long the commands of a text may take.
const LIMIT_S: &str = "120";

/// Ends whatever the commands left running.
const PRELUDE: &str = "\
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
ip link set lo up
";

/// Returns where one of our programs was built, if it was.
fn program(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_fulmar")).with_file_name(name);
    beside.exists().then_some(beside)
}

/// Returns one script of a text: its commands, and its configurations as files.
fn script(blocks: &[Block]) -> String {
    let mut script = PRELUDE.to_owned();
    for block in blocks {
        if let (true, Some(role)) = (block.is_configuration(), block.role()) {
            let key = "[ -e private.key ] || fulmar keygen --out private.key >&2";
            let file = with_keys(&block.body);
            script += &format!("{key}\ncat >{role}.toml <<'FILE'\n{file}FILE\n");
        }
        if block.language == "sh" && block.mark.is_empty() {
            script += &format!("echo '== {}'\n{}", block.place(), block.body);
        }
    }
    script
}

/// Returns the calls of a program in a block, as words.
fn calls(block: &Block, program: &str) -> Vec<Vec<String>> {
    let joined = block.body.replace("\\\n", " ");
    let mut calls = Vec::new();
    for line in joined.lines() {
        let line = line.split(" #").next().unwrap_or_default();
        for (at, _) in line.match_indices(&format!("{program} ")) {
            let is_call = line[..at].is_empty() || line[..at].ends_with([' ', '(']);
            let is_word = line[..at].trim_end().ends_with("install");
            if line.starts_with('#') || !is_call || is_word {
                continue;
            }
            let words = words(&line[at + program.len()..]).into_iter();
            calls.push(words.take_while(|word| *word != "--").collect());
        }
    }
    calls
}

/// Splits a call into words, up to where the shell does something else; what is quoted is one.
fn words(call: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in call.chars() {
        match quote {
            Some(end) if letter == end => quote = None,
            None if "'\"".contains(letter) => {
                word.get_or_insert_default();
                quote = Some(letter);
            }
            None if ")|;&><".contains(letter) => break,
            None if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Lets a shell do what a script says, with our programs found first, in a network of its own that
/// is empty.
fn run(script: &str, directory: &Path) -> std::process::Output {
    let folder = Path::new(env!("CARGO_BIN_EXE_fulmar")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    Command::new("timeout")
        .args(["--kill-after=5", LIMIT_S, "unshare", "-Urn", "--pid", "--fork", "--kill-child"])
        .args(["bash", "-euo", "pipefail", "-c", script])
        .env("PATH", format!("{}:{path}:/usr/sbin:/sbin", folder.display()))
        .current_dir(directory)
        .output()
        .unwrap()
}

#[test]
fn every_command_of_the_book_runs() {
    let name = "commands::every_command_of_the_book_runs";
    let apart = Command::new("unshare").args(["-Urn", "--pid", "--fork", "true"]).output();
    if !apart.is_ok_and(|apart| apart.status.success()) {
        return println!("SKIPPED: {name}: no network namespaces for this user (unshare -Urn)");
    }
    let mut ran = 0;
    for document in documents() {
        let blocks = blocks(&document);
        let runs = |block: &&Block| block.language == "sh" && block.mark.is_empty();
        let count = blocks.iter().filter(runs).count();
        if count == 0 {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let done = run(&script(&blocks), directory.path());
        let (said, told) = (&done.stdout, &done.stderr);
        let (said, told) = (String::from_utf8_lossy(said), String::from_utf8_lossy(told));
        assert!(done.status.success(), "{document}: {}\n{said}\n{told}", done.status);
        ran += count;
    }
    assert!(ran >= 5, "{ran} blocks ran");
    println!("{ran} blocks of commands ran");
}

#[test]
fn commands_that_cannot_run_here_are_read_by_the_shell_and_by_our_programs() {
    let directory = tempfile::tempdir().unwrap();
    let (mut shown, mut read) = ([0, 0], 0);
    if program("fulmar-lab").is_none() {
        let name = "commands::commands_of_the_lab_are_read_by_it";
        println!("SKIPPED: {name}: fulmar-lab is not built (cargo test --workspace builds it)");
    }
    let blocks = documents().into_iter().flat_map(|document| blocks(&document));
    for block in blocks.filter(|block| block.language == "sh") {
        let parsed = Command::new("bash").args(["-n", "-c", &block.body]).output().unwrap();
        let told = String::from_utf8_lossy(&parsed.stderr);
        assert!(parsed.status.success(), "{}: {told}", block.place());
        match block.mark.as_str() {
            "hardware" => shown[0] += 1,
            "long" => shown[1] += 1,
            _ => continue,
        }
        for name in ["fulmar", "fulmar-lab"] {
            let Some(program) = program(name) else { continue };
            for call in calls(&block, name) {
                // Whatever comes before it is read first: a word that does not exist is an error.
                let asked = Command::new(&program)
                    .args(&call)
                    .arg("--help")
                    .current_dir(directory.path())
                    .output()
                    .unwrap();
                let told = String::from_utf8_lossy(&asked.stderr);
                assert!(asked.status.success(), "{}: {name} {call:?}: {told}", block.place());
                read += 1;
            }
        }
    }
    let [hardware, long] = shown;
    println!(
        "{hardware} blocks need hardware, root or a network, {long} take long; {read} calls of ours were read"
    );
}

#[test]
fn every_target_of_make_that_is_shown_exists() {
    let makefile = text("Makefile");
    let blocks = documents().into_iter().flat_map(|document| blocks(&document));
    for block in blocks.filter(|block| block.language == "sh") {
        for target in calls(&block, "make").concat() {
            let rule = format!("\n{target}:");
            assert!(makefile.contains(&rule), "{}: make {target}: no such target", block.place());
        }
    }
}

#[test]
fn calls_are_found_wherever_they_stand_in_a_line() {
    let block = Block {
        document: String::new(),
        line: 1,
        language: "sh".into(),
        mark: String::new(),
        body: "x=$(fulmar keygen --out a) y=1   # fulmar fly\nsudo fulmar run \\\n  b.toml &\n# fulmar\n\
               fulmar x@y='a \"b&c\"' '' d; e\n"
            .into(),
    };
    let found =
        [vec!["keygen", "--out", "a"], vec!["run", "b.toml"], vec!["x@y=a \"b&c\"", "", "d"]];
    assert_eq!(calls(&block, "fulmar"), found);
}
