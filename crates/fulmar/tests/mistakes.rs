//! Forty and more mistaken files: what `fulmar check` says of each, to the letter.
//!
//! Beside each file in `mistakes/` is what is said of it. With `FULMAR_BLESS=1` these are written
//! anew: read them before they are committed. Each must say where, which key, and what to write.

#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The private key of all these files is 32 bytes of 7; that of their first peer is 32 bytes of 9.
const PRIVATE: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
const PEERS_PUBLIC: &str = "V9tLNZ8jrl4Ubk4lEgVnBHIlBjSMFQwUdT0Mkz0E1CE=";

/// A directory with the keys that the files name.
fn place() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, key) in [("private.key", PRIVATE), ("peer.pub", PEERS_PUBLIC)] {
        let file = directory.path().join(name);
        fs::write(&file, format!("{key}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    directory
}

/// Checks a file, and returns whether it passes and what is said of it.
fn check(directory: &Path, name: &str) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let output = command.arg("check").arg(name).current_dir(directory).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

fn mistaken() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|one| one == "toml")).collect();
    files.sort();
    files
}

#[test]
fn each_mistaken_file_is_told_where_its_mistake_is_and_what_to_write() {
    let (directory, files) = (place(), mistaken());
    assert!(files.len() >= 40, "{}", files.len());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        fs::copy(&file, directory.path().join(name)).unwrap();
        let (passes, said) = check(directory.path(), name);
        assert!(!passes, "{name} passes: {said}");
        assert!(!said.contains(PRIVATE), "{name}: a private key is shown: {said}");
        let beside = file.with_extension("txt");
        if std::env::var_os("FULMAR_BLESS").is_some() {
            fs::write(&beside, &said).unwrap();
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(said, expected, "{name}");
        let first = said.lines().nth(1).unwrap_or_default();
        assert!(first.starts_with(&format!("{name}:")), "{name}: file and line: {said}");
    }
}

#[test]
fn what_is_no_text_or_no_file_is_told_so() {
    let directory = place();
    let at = |name: &str| directory.path().join(name);
    let mistyped = fs::read_to_string(mistaken()[0].with_file_name("key-mistyped.toml")).unwrap();
    let utf16: Vec<u8> = mistyped.encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(at("utf16.toml"), [&[0xFF, 0xFE][..], &utf16].concat()).unwrap();
    fs::write(at("empty.toml"), "\n \n").unwrap();
    fs::create_dir(at("directory.toml")).unwrap();
    let told = |name: &str, what: &str| {
        let (passes, said) = check(directory.path(), name);
        assert!(!passes && said.contains(&format!("{name}:1: {what}")), "{name}: {said}");
    };
    told("utf16.toml", "cannot read: not text in UTF-8: save it so");
    told("empty.toml", "is empty: begin with the example of your end");
    told("directory.toml", "cannot read: Is a directory (os error 21); name the file in it");
    told("nowhere.toml", "cannot read: No such file or directory (os error 2); ls shows");
    // How editors of other systems save a text changes no line of it.
    let line = "key-mistyped.toml:11: path[0].interfase: unknown key";
    let saved = [
        format!("\u{FEFF}{mistyped}"),
        mistyped.replace('\n', "\r\n"),
        mistyped.replace("interf", "\tinterf"),
    ];
    for text in saved {
        fs::write(at("key-mistyped.toml"), text).unwrap();
        let (passes, said) = check(directory.path(), "key-mistyped.toml");
        assert!(!passes && said.contains(line), "{said}");
    }
}
