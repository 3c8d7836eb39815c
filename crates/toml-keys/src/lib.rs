//! Reads a TOML file key by key, and tells every mistake in it at once, each with its line and key.
//!
//! Not serde: whoever writes a file by hand gets all its mistakes in one go, and a key that nobody
//! asked for is a mistake too. What the keys mean is the business of whoever asks for them.

mod change;
mod hints;
mod section;
mod values;

use core::fmt;
use std::cell::RefCell;

use toml::de::DeTable;

pub use change::{Change, Scalar};
pub use section::Section;

/// Words that are less alike than this (Jaro-Winkler, of 1) are not taken for each other.
const ALIKE: f64 = 0.8;

/// A mistake in a file, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line of the file, counted from 1.
    pub line: usize,
    /// The key with the sections that it is in, such as `path[0].remote`; empty when the mistake is
    /// in no key.
    pub key: String,
    /// What is wrong with it, and what would be right.
    pub what: String,
}

impl Mistake {
    /// Makes a mistake of a whole file, such as that it cannot be read.
    pub fn of_file(what: impl Into<String>) -> Self {
        Self { line: 1, key: String::new(), what: what.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, what) = (one_line(&self.key), one_line(&self.what));
        if key.is_empty() {
            return write!(f, "{}: {what}", self.line);
        }
        write!(f, "{}: {key}: {what}", self.line)
    }
}

/// Why a file cannot be used: its name and every mistake in it, in the order of their lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file's name as the caller gave it.
    pub file: String,
    /// What is wrong; at least one.
    pub mistakes: Vec<Mistake>,
}

impl FileError {
    /// Returns the mistakes as text, one line each, with the file's name.
    pub fn lines(&self) -> Vec<String> {
        let file = one_line(&self.file);
        self.mistakes.iter().map(|mistake| format!("{file}:{mistake}")).collect()
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}

impl std::error::Error for FileError {}

/// Reads the text of a file: `keys` asks for every key there may be, and returns none only after
/// it has reported a mistake.
///
/// # Errors
/// Every mistake in the text: what `keys` reported, what is not of the type that it asked for, and
/// the keys that it did not ask for.
///
/// # Panics
/// When `keys` returns none without a mistake.
pub fn read<T>(
    text: &str,
    file: &str,
    keys: impl FnOnce(&Section<'_>) -> Option<T>,
) -> Result<T, FileError> {
    read_changed(text, file, &[], keys)
}

/// Reads the text of a file as if the values of `changes` stood in it.
///
/// # Errors
/// As of [`read`]; and a change of what the file has not, such as a section of that name.
///
/// # Panics
/// As of [`read`].
pub fn read_changed<T>(
    text: &str,
    file: &str,
    changes: &[Change],
    keys: impl FnOnce(&Section<'_>) -> Option<T>,
) -> Result<T, FileError> {
    let failed = |mistakes| FileError { file: file.to_owned(), mistakes };
    let document = Document::new(text);
    let changes = change::Changes::new(changes);
    let mut tree = DeTable::parse(text).map_err(|error| {
        let line = document.line(error.span().map_or(0, |span| span.start));
        let (key, hint) = hints::of_line(text, line);
        let what = format!("not TOML: {}{hint}", error.message());
        failed(vec![Mistake { line, key, what }])
    })?;
    changes.apply(tree.get_mut()).map_err(|mistake| failed(vec![mistake]))?;
    let root = Section::root(&document, tree.get_ref());
    let value = keys(&root);
    root.finish();
    let mistakes = document.into_mistakes();
    if !mistakes.is_empty() {
        return Err(failed(mistakes));
    }
    Ok(value.expect("a file that cannot be used has a mistake"))
}

/// Returns a text as one line that steers no terminal: names come from files, where they may hold
/// anything.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() {
            true => line.extend(letter.escape_debug()),
            false => line.push(letter),
        }
    }
    line
}

/// Returns the word that was meant by one that is none of those that there are.
pub fn closest<'w>(word: &str, words: &[&'w str]) -> Option<&'w str> {
    let likeness = words.iter().map(|known| (strsim::jaro_winkler(word, known), *known));
    let best = likeness.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(likeness, _)| *likeness > ALIKE).map(|(_, word)| word)
}

/// Asks whether the closest of some words was meant, in the end of a mistake; empty where none is
/// close.
pub fn did_you_mean(word: &str, words: &[&str]) -> String {
    closest(word, words).map_or(String::new(), |known| format!("; did you mean {known}?"))
}

/// What the sections of a file have in common: where its lines are, and what is wrong so far.
struct Document {
    /// Where each line but the first begins.
    lines: Vec<usize>,
    mistakes: RefCell<Vec<Mistake>>,
}

impl Document {
    fn new(text: &str) -> Self {
        let lines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { lines: lines.map(|(at, _)| at + 1).collect(), mistakes: RefCell::default() }
    }

    fn line(&self, at: usize) -> usize {
        1 + self.lines.partition_point(|line| *line <= at)
    }

    fn report(&self, mistake: Mistake) {
        self.mistakes.borrow_mut().push(mistake);
    }

    fn into_mistakes(self) -> Vec<Mistake> {
        let mut mistakes = self.mistakes.into_inner();
        mistakes.sort_by_key(|mistake| mistake.line);
        // What two directions of a link have in common is checked for each, and told once.
        mistakes.dedup();
        mistakes
    }
}

#[cfg(test)]
mod tests;
