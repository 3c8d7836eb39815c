//! Writes what the packages hold beside the programs: manual pages and completions, made from the
//! same definition as `--help`, and the licences of the crates that are linked in.
//! `scripts/package` calls it.
//!
//! A program of its own, so that neither the daemon nor the lab carries any of it.

mod licences;
mod manuals;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

/// Writes manual pages, completions and the licences of linked crates.
#[derive(Debug, Parser)]
#[command(name = "packaging")]
struct Arguments {
    /// The folder to write into: man/, bash/, zsh/, fish/, licences/.
    folder: PathBuf,
    /// What the programs are built for: which crates are linked in depends on it.
    #[arg(long, value_name = "TRIPLE")]
    target: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match write(&arguments.folder, &arguments.target) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("packaging: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path, target: &str) -> Result<(), String> {
    let crates = licences::Crates::ask_cargo(target)?;
    for (program, command) in
        [("fulmar", fulmar::command_line()), ("fulmar-lab", fulmar_lab::command_line())]
    {
        manuals::write(folder, command)
            .map_err(|error| format!("{}: manual pages of {program}: {error}", folder.display()))?;
        crates.write(program, &folder.join("licences"))?;
    }
    Ok(())
}
