//! Writes what came into a file, in place of what it has.

use core::fmt;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use ::record::date;
use toml_edit::{DocumentMut, InlineTable, value};

use super::Outcome;
use super::row::Row;
use crate::report::{Mode, rounded};
use crate::whole_file;

/// Characters of a date without the time of day.
const DATE: usize = 10;

/// Writes figures into a file, with the date and what made them.
///
/// # Errors
/// Names the file, and what cannot be done with it.
pub(super) fn record_anew(file: &Path, outcome: &Outcome, rows: &[Row]) -> Result<(), String> {
    let named = |error: &dyn fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| named(&error))?;
    let mut document: DocumentMut = text.parse().map_err(|error| named(&error))?;
    if let Some(figures) = document["figure"].as_array_of_tables_mut() {
        for (figure, row) in figures.iter_mut().zip(rows) {
            match row.now {
                // As it is reported: whole numbers without a point.
                Some(now) if now.fract() == 0.0 && now.abs() < 1e15 => {
                    figure["ours"] = value(now as i64);
                }
                Some(now) => figure["ours"] = value(now),
                None => {}
            }
        }
    }
    let mut made = InlineTable::new();
    let code = outcome.versions["code"].as_str().unwrap_or_default();
    made.insert("date", today().into());
    if let Some(commit) = commit(file) {
        made.insert("commit", commit.into());
    }
    made.insert("code", code.into());
    if outcome.mode == Mode::Emu {
        let kernel = outcome.versions["kernel"].as_str().unwrap_or_default();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        made.insert("machine", format!("{kernel}, {processors} processors").into());
    }
    made.insert("seconds", rounded(outcome.seconds, 1).into());
    document["recorded"] = value(made);
    whole_file::write(file, document.to_string().as_bytes())
}

/// Returns the day, by the clock of this machine.
fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date::utc(now.as_secs()).chars().take(DATE).collect()
}

/// Returns the commit that a file's folder has checked out; none where that is no repository.
fn commit(file: &Path) -> Option<String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut git = Command::new("git");
    git.arg("-C").arg(folder.unwrap_or(Path::new("."))).args(["rev-parse", "--short=12", "HEAD"]);
    let output = git.stderr(Stdio::null()).output().ok().filter(|it| it.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
