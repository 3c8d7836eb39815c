//! `fulmar record`: flights that were recorded, as a table, as CSV, as one page. It needs no
//! daemon.

mod export;
mod page;
mod plot;
mod summary;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use record::flight::Flight;
use sys::print::{print, tell};

use crate::cli::{RECORD_CSV, RECORD_READERS};
use summary::Summary;

/// What is to be done with a record.
#[derive(Debug, Subcommand)]
pub(crate) enum RecordCommand {
    /// Show what a record holds: its paths, its control messages and their misses, by cause.
    #[command(after_help = RECORD_READERS)]
    Show {
        #[command(flatten)]
        files: Files,
        /// Print one JSON object instead of tables.
        #[arg(long)]
        json: bool,
    },
    /// Write a record's channels as CSV, a file for each, into a directory.
    #[command(after_help = RECORD_CSV)]
    Export {
        #[command(flatten)]
        files: Files,
        /// The directory; it is made where it is missing, and files of the same names are replaced.
        #[arg(short, long, value_name = "DIRECTORY")]
        out: PathBuf,
    },
    /// Write a record as one HTML page, which needs no network: the track, the links over time,
    /// every miss with its cause in words, events.
    Report {
        #[command(flatten)]
        files: Files,
        /// The page; a file of that name is replaced.
        #[arg(short, long, value_name = "FILE", default_value = "report.html")]
        out: PathBuf,
    },
}

/// The files of one flight.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// Files of one computer's record (`.mcap`); several are laid one after the other. One that was
    /// cut is read as far as it goes.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Does what the command line asks for.
pub(crate) fn run(command: RecordCommand) -> Result<(), String> {
    match command {
        RecordCommand::Show { files, json } => {
            let summary = Summary::of(&read(&files)?);
            if json {
                return print(serde_json::json!(summary));
            }
            print(summary.table().trim_end())
        }
        RecordCommand::Export { files, out } => {
            let written = export::write(&read(&files)?, &out)?;
            print(format_args!("wrote {written} files to {}", out.display()))
        }
        RecordCommand::Report { files, out } => {
            let flight = read(&files)?;
            let page = page::page(&flight, &Summary::of(&flight));
            replace(&out, |file| file.write_all(page.as_bytes()))?;
            print(format_args!("wrote {}", out.display()))
        }
    }
}

/// Shows a flight in every way that there is, and keeps nothing.
#[cfg(fuzzing)]
pub(crate) fn try_all(flight: &Flight) {
    let summary = Summary::of(flight);
    assert!(serde_json::to_string(&summary).is_ok() && summary.table().ends_with('\n'));
    let page = page::page(flight, &summary);
    assert!(page.ends_with("</html>\n") && !page.contains("<script"), "it has no script");
    let written = export::each(flight, |_, lay_out| {
        let mut text = Vec::new();
        lay_out(&mut text).map_err(|error| error.to_string())?;
        assert!(text.starts_with(b"time_s,"));
        Ok(())
    });
    assert!(written.is_ok());
}

fn read(files: &Files) -> Result<Flight, String> {
    let flight = Flight::read(&files.files)?;
    for (file, why) in &flight.cut {
        tell(format_args!("{file} was cut, and is read as far as it goes: {why}"));
    }
    Ok(flight)
}

/// Writes a file, in one step in the place of an older one: what lies there may be a link that
/// others have made.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), String> {
    let named = |error: io::Error| format!("write {}: {error}", path.display());
    if path.is_dir() {
        return Err(format!("write {}: a directory is there", path.display()));
    }
    let new = path.with_file_name(format!(".fulmar-{}", sys::entropy::word().map_err(named)?));
    let written = File::create_new(&new).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    });
    written.and_then(|()| fs::rename(&new, path)).map_err(|error| {
        let _ = fs::remove_file(&new);
        named(error)
    })
}
