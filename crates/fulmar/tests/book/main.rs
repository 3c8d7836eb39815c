//! The book (docs/), the README and the other texts for users: every command in them runs, every
//! file is valid, every page is found, and the reference is that of this program.
//!
//! A fenced block says what it is: docs/README.md lists the words. What cannot run in a test says
//! so, and is counted.

#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

mod blocks;
mod commands;
mod configuration;
mod messages;
mod pages;
mod reference;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Anybody's public key, for files that need one.
const PUBLIC_KEY: &str = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=";

/// Returns where the project is.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of a file of the project.
fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn fulmar(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fulmar"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Puts keys where a file shown to people has words for them.
fn with_keys(file: &str) -> String {
    ["STATION-PUBLIC-KEY", "DRONE-PUBLIC-KEY"]
        .iter()
        .fold(file.to_owned(), |file, word| file.replace(word, PUBLIC_KEY))
}
