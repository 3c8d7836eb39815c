//! Writes what came into a file, in place of what it has.

use core::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use ::record::date;
use toml_edit::{DocumentMut, InlineTable, value};

use super::Outcome;
use super::kept::result_of;
use super::row::Row;
use crate::report::{Mode, rounded};
use crate::whole_file;

/// Characters of a date without the time of day.
const DATE: usize = 10;

/// Writes figures into a file, with the date and what made them, the commit (`checked_out`) among
/// it.
///
/// # Errors
/// Names the file, and what cannot be done with it.
pub(super) fn record_anew(
    file: &Path,
    outcome: &Outcome,
    rows: &[Row],
    commit: Option<&str>,
) -> Result<(), String> {
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
    if let Some(commit) = commit {
        made.insert("commit", commit.into());
    }
    made.insert("code", code.into());
    let mut versions = InlineTable::new();
    versions.insert("fulmar_lab", env!("CARGO_PKG_VERSION").into());
    if outcome.mode == Mode::Emu {
        // The release without what a distributor or an owner of machines calls it.
        let kernel = outcome.versions["kernel"].as_str().unwrap_or_default();
        let kernel = kernel.split(|c: char| c != '.' && !c.is_ascii_digit()).next();
        versions.insert("linux", kernel.unwrap_or_default().into());
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        made.insert("machine", format!("{processors} processors").into());
    }
    made.insert("versions", versions.into());
    made.insert("seconds", rounded(outcome.seconds, 1).into());
    document["recorded"] = value(made);
    whole_file::write(file, document.to_string().as_bytes())
}

/// Returns the commit that a file's folder has checked out, with a `+` where tracked files other
/// than `records` and their results, which this report writes, differ from it; none where that is
/// no repository.
pub(super) fn checked_out(file: &Path, records: &[PathBuf]) -> Option<String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(folder.unwrap_or(Path::new("."))).args(words);
        let output = git.stderr(Stdio::null()).output().ok().filter(|it| it.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["diff", "--name-only", "--no-relative", "HEAD"])?;
    let written = records.iter().flat_map(|record| [record.clone(), result_of(record)]);
    let records: Vec<PathBuf> = written.flat_map(|path| path.canonicalize()).collect();
    let is_record = |path: &str| records.iter().any(|record| record.ends_with(path));
    Some(if changed.lines().all(is_record) { commit } else { commit + "+" })
}

/// Returns the day, by the clock of this machine.
fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date::utc(now.as_secs()).chars().take(DATE).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::Record;

    #[test]
    fn what_came_is_written_with_what_made_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (record, code) = (folder.path().join("r.toml"), folder.path().join("code.rs"));
        let text = "title = \"t\"\nsource = \"s\"\nrun = [\"x\"]\n\n[[figure]]\nscheme = \"tcp\"\n\
                    key = \"s\"\nours = 1\n";
        fs::write(&record, text).expect("written");
        fs::write(&code, "1").expect("written");
        let git = |words: &str| {
            let all = format!("-c user.name=t -c user.email=t -c commit.gpgsign=false {words}");
            let git =
                Command::new("git").arg("-C").arg(folder.path()).args(all.split(' ')).output();
            git.is_ok_and(|output| output.status.success())
        };
        // A hook of git names its repository, which is none of this.
        let is_free = std::env::var_os("GIT_DIR").is_none();
        if !(is_free && git("init -q") && git("add .") && git("commit -q -m all")) {
            println!("SKIPPED: what_came_is_written_with_what_made_it: no git that commits");
            return;
        }
        let outcome = Outcome {
            versions: json!({"code": "c0de", "kernel": "6.1.7-29-amd64"}),
            ..Outcome::sound(Mode::Emu, vec![json!({"scheme": "tcp", "s": 2.5})])
        };
        let anew = || {
            let rows = Record::read(&record).expect("sound").rows(&outcome, false);
            let commit = checked_out(&record, std::slice::from_ref(&record));
            record_anew(&record, &outcome, &rows, commit.as_deref()).expect("written");
            let read = Record::read(&record).expect("still sound");
            (read.figure[0].ours, read.recorded.expect("it says what made it"))
        };
        let (first, again) = (anew(), anew());
        assert_eq!((first.0, &first.1.versions["linux"][..]), (Some(2.5), "6.1.7"));
        let own = again.1.commit.expect("a commit");
        assert_eq!(
            (own.len(), first.1.commit.as_ref()),
            (12, Some(&own)),
            "the record is none of it"
        );
        fs::write(&code, "2").expect("written");
        assert_eq!(anew().1.commit, Some(own + "+"), "not what was checked out");
    }
}
