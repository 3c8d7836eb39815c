//! The records, and what is kept of their runs.
//!
//! ```text
//! of a record there is               its figures are
//! a run that this program has kept   those of the run, with intervals; where they are not those of the
//! (--resume), or a table to read     file, that is said
//! results/NAME.json beside it        those of the file, with the result's intervals; a result that is not the
//!                                    file's is not used, and that is said
//! neither                            those of the file, without intervals
//! ```
//! Whatever cannot be read is named, and takes nothing else along.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::records;
use crate::record::kept::{self, Kept};
use crate::record::pairs::Pairs;
use crate::record::row::{Row, is_same};
use crate::record::{Figure, Outcome, Record, words_mode};
use crate::report::Mode;
use crate::sweep::CODE;

/// No record, picture or table is larger, bytes: what is would make a page that nobody opens.
const LARGEST: u64 = 4 << 20;

/// Where the figures of a record come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A run that this program has kept.
    Run,
    /// A table that something else made.
    Table,
    /// The result beside the record.
    Result,
    /// The record alone.
    Record,
}

/// A record as far as a page is concerned.
pub(super) struct Told {
    pub(super) record: Record,
    pub(super) mode: Mode,
    /// One for each of the record's figures, in their order.
    pub(super) rows: Vec<Row>,
    pub(super) origin: Origin,
    /// What the emulator says of itself, where that is kept.
    pub(super) account: Option<String>,
    /// Why nobody vouches for it; empty where somebody does.
    pub(super) unvouched: Vec<String>,
    /// What is wrong with what is kept of it.
    pub(super) faults: Vec<String>,
}

/// A file of a record: what it is, or why it cannot be told.
pub(super) struct Book {
    /// From the folder of the records.
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) told: Result<Told, String>,
}

/// All of them.
pub(super) struct Shelf {
    folder: PathBuf,
    books: BTreeMap<PathBuf, Book>,
}

impl Shelf {
    /// Reads every record in the folders of a folder.
    pub(super) fn open(folder: &Path, kept: Option<&Kept>) -> Self {
        let books = records(folder).into_iter().filter_map(|file| {
            let path = file.strip_prefix(folder).ok()?.to_owned();
            let text = read_text(&file);
            let run = |record: &Record| match &record.pairs {
                // A table that lies there is read, not run.
                Some(pairs) => Some(read_pairs(&file, pairs)),
                None => kept?.look(&file, record).transpose(),
            };
            let result = || kept::read_result(&kept::result_of(&file)).transpose();
            Some((path.clone(), Book::of(path, text, run, result)))
        });
        Self { folder: folder.to_owned(), books: books.collect() }
    }

    /// Makes one of texts, a record and what is kept of its run.
    #[cfg(any(test, fuzzing))]
    pub(super) fn of(files: &[(&str, &str, Option<&[u8]>)]) -> Self {
        let book = |(path, text, result): &(&str, &str, Option<&[u8]>)| {
            let result = || Some(kept::parse_result("results.json", (*result)?));
            Book::of(path.into(), Ok((*text).to_owned()), |_| None, result)
        };
        let books = files.iter().map(|file| (PathBuf::from(file.0), book(file)));
        Self { folder: PathBuf::new(), books: books.collect() }
    }

    /// Returns a record by its path from the folder.
    ///
    /// # Errors
    /// Says why it cannot be told.
    pub(super) fn get(&self, path: &Path) -> Result<&Told, String> {
        match self.books.get(path) {
            Some(book) => book.told.as_ref().map_err(Clone::clone),
            None => Err(format!("{}: there is no such record", path.display())),
        }
    }

    /// Returns all of them in the order of their paths.
    pub(super) fn books(&self) -> impl Iterator<Item = &Book> {
        self.books.values()
    }

    /// Reads a text that lies beside the records.
    ///
    /// # Errors
    /// Names it, and why it cannot be read.
    pub(super) fn text(&self, path: &Path) -> Result<String, String> {
        read_text(&self.folder.join(path)).map_err(|_| {
            format!("{}: cannot be read, or is no text of less than 4 MiB", path.display())
        })
    }

    /// Returns the path of something beside the records.
    pub(super) fn place(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }
}

impl Book {
    fn of(
        path: PathBuf,
        text: Result<String, String>,
        run: impl FnOnce(&Record) -> Option<Result<Outcome, String>>,
        result: impl FnOnce() -> Option<Result<Outcome, String>>,
    ) -> Self {
        let name = path.display().to_string();
        let read = text.clone().and_then(|text| Record::of_text(&name, &text));
        let told = read.map(|record| Told::of(record, run, result));
        Self { path, text: text.unwrap_or_default(), told }
    }
}

impl Told {
    /// Returns the figures with what they came to.
    pub(super) fn figures(&self) -> impl Iterator<Item = (&Figure, &Row)> {
        self.record.figure.iter().zip(&self.rows)
    }

    fn of(
        record: Record,
        run: impl FnOnce(&Record) -> Option<Result<Outcome, String>>,
        result: impl FnOnce() -> Option<Result<Outcome, String>>,
    ) -> Self {
        let mode = words_mode(&record.run);
        let (mut faults, mut unvouched) = (Vec::new(), Vec::new());
        let mut sound = |came: Option<Result<Outcome, String>>| match came? {
            Ok(outcome) => Some(outcome),
            Err(why) => {
                faults.push(why);
                None
            }
        };
        let run = sound(run(&record));
        let beside = if run.is_none() { sound(result()) } else { None };
        let (origin, outcome) = match (run, beside) {
            (Some(outcome), _) if record.pairs.is_some() => (Origin::Table, Some(outcome)),
            (Some(outcome), _) => (Origin::Run, Some(outcome)),
            (None, Some(outcome)) => (Origin::Result, Some(outcome)),
            (None, None) => (Origin::Record, None),
        };
        let rows = outcome.as_ref().map(|outcome| record.rows(outcome, false));
        let is_other =
            |row: &&Row| row.recorded.zip(row.now).is_some_and(|(then, now)| !is_same(then, now));
        let other = rows.iter().flatten().find(is_other);
        let other = other.map(|row| {
            let (now, then) = (row.now.unwrap_or_default(), row.recorded.unwrap_or_default());
            format!("{} {} is {now} there and {then} in the record", row.scheme, row.key)
        });
        let recorded = record.recorded.as_ref();
        let by_record = recorded.and_then(|made| made.code.clone());
        let (origin, rows, outcome) = match (origin, rows, other) {
            (Origin::Result, Some(_), Some(other)) => {
                faults.push(format!(
                    "the result is of another state than the record, and not used: {other}"
                ));
                (Origin::Record, record.own_rows(), None)
            }
            (origin, Some(rows), other) => {
                if let (Mode::Sim, Some(other)) = (mode, other) {
                    faults.push(format!("what came is no longer what the record has: {other}"));
                }
                (origin, rows, outcome)
            }
            (origin, None, _) => (origin, record.own_rows(), None),
        };
        let code = match &outcome {
            Some(outcome) => outcome.versions["code"].as_str().map(str::to_owned),
            None => by_record,
        };
        if let Some(outcome) = outcome.as_ref().filter(|outcome| !outcome.faults.is_empty()) {
            unvouched.push(format!("the audit refuses it: {}", outcome.faults.join("; ")));
        }
        match code {
            Some(code) if code == CODE => {}
            Some(code) => unvouched.push(format!("made by code {code}, this program is of {CODE}")),
            None => unvouched.push("nothing says by which code it was made".to_owned()),
        }
        let account = outcome.map(|outcome| outcome.account);
        Self { record, mode, rows, origin, account, unvouched, faults }
    }
}

fn read_pairs(file: &Path, pairs: &Pairs) -> Result<Outcome, String> {
    let table = file.parent().unwrap_or(Path::new(".")).join(&pairs.file);
    pairs.results(&table).map(Outcome::of_table)
}

fn read_text(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("read {}: {error}", path.display());
    if fs::metadata(path).map_err(failed)?.len() > LARGEST {
        return Err(format!("read {}: larger than {LARGEST} bytes", path.display()));
    }
    fs::read_to_string(path).map_err(failed)
}
