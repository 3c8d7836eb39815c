//! A section of a file: which keys it has, which were asked for, and the sections within it.
//!
//! How a key's value is read is in `values.rs`.

use std::cell::{Cell, RefCell};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{Document, Mistake, did_you_mean};

/// Reads the keys of one section; each is asked for by its name.
///
/// A key that is absent, and one whose value is wrong, both read as none; the latter is reported.
pub struct Section<'d> {
    document: &'d Document,
    path: String,
    /// How the file heads it: the path without numbers and names.
    head: String,
    line: usize,
    table: &'d DeTable<'d>,
    asked: RefCell<Vec<String>>,
    free: Cell<bool>,
}

/// A value with the line of its key.
#[derive(Clone, Copy)]
pub(crate) struct Found<'d> {
    pub(crate) line: usize,
    /// Whether a change made it, of which there is nothing in the file.
    is_made: bool,
    pub(crate) value: &'d DeValue<'d>,
}

impl<'d> Section<'d> {
    /// Returns whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Reports a key that is missing; returns whether it is there.
    pub fn require(&self, key: &str) -> bool {
        let present = self.has(key);
        if !present {
            self.wrong(key, "is missing");
        }
        present
    }

    /// Returns the line of a key; of the section, where the key is not there.
    pub fn line(&self, key: &str) -> usize {
        self.lookup(key).map_or(self.line, |found| found.line)
    }

    /// Reports every key but the first of those that are there: they exclude each other.
    pub fn exclusive(&self, keys: &[&str]) {
        let mut there = keys.iter().filter(|key| self.table.contains_key(**key));
        let Some(first) = there.next() else { return };
        for other in there {
            self.wrong(other, format!("not together with {first}"));
        }
    }

    /// Reports that something is wrong with a key of this section, present or not; with the whole
    /// section, when the key is empty.
    pub fn wrong(&self, key: &str, what: impl Into<String>) {
        self.report(self.line(key), key, what.into());
    }

    /// Names the section in mistakes, in place of its number among those of its kind.
    pub fn call(&mut self, name: &str) {
        let numbered = self.path.strip_suffix(']').and_then(|path| path.rsplit_once('['));
        let kind = numbered.map_or(self.path.as_str(), |(kind, _)| kind);
        self.path = format!("{kind}.{name}");
    }

    /// Reads a section within this one, headed `[key]`.
    pub fn section(&self, key: &str) -> Option<Self> {
        let found = self.find(key)?;
        let Some(table) = found.value.as_table() else {
            let head = self.head(key);
            if found.value.is_array() {
                self.wrong(key, format!("there is one of these: head it [{head}]"));
            } else {
                self.report_type(key, found, &format!("a section: [{head}]"));
            }
            return None;
        };
        Some(Self::new(self.document, (self.full(key), self.head(key)), found.line, table))
    }

    /// Reads the sections headed `[[key]]`.
    pub fn sections(&self, key: &str) -> Vec<Self> {
        let Some(found) = self.find(key) else { return Vec::new() };
        let tables = found.value.as_array().and_then(|items| {
            let table = |item: &'d Spanned<DeValue<'d>>| {
                Some((self.document.line(item.span().start), item.get_ref().as_table()?))
            };
            items.iter().map(table).collect::<Option<Vec<_>>>()
        });
        let Some(tables) = tables else {
            if found.is_made {
                self.wrong(key, "there is none in the file");
            } else {
                let what = format!("is one of several: head each of them [[{key}]]");
                self.report(found.line, key, what);
            }
            return Vec::new();
        };
        let numbered = |(at, (line, table))| {
            let path = format!("{}[{at}]", self.full(key));
            Self::new(self.document, (path, self.head(key)), line, table)
        };
        tables.into_iter().enumerate().map(numbered).collect()
    }

    /// Gives every key and text of a section whose keys are the writer's own.
    pub fn entries(&self) -> Vec<(&'d str, Option<&'d str>)> {
        self.free.set(true);
        let entry = |(key, value): (&'d Spanned<_>, &'d Spanned<DeValue<'d>>)| {
            let key: &'d std::borrow::Cow<'d, str> = key.get_ref();
            (key.as_ref(), value.get_ref().as_str())
        };
        self.table.iter().map(entry).collect()
    }

    /// Ends a section within another: keys that nobody asked for are reported.
    pub fn finish(self) {
        if self.free.get() {
            return;
        }
        let asked = self.asked.take();
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !asked.iter().any(|known| known == name) {
                let words: Vec<&str> = asked.iter().map(String::as_str).collect();
                let (there, meant) = (words.join(", "), did_you_mean(name, &words));
                let what = format!("unknown key; the keys here are {there}{meant}");
                self.report(self.document.line(key.span().start), name, what);
            }
        }
    }

    pub(crate) fn root(document: &'d Document, table: &'d DeTable<'d>) -> Self {
        Self::new(document, Default::default(), 1, table)
    }

    pub(crate) fn find(&self, key: &str) -> Option<Found<'d>> {
        let mut asked = self.asked.borrow_mut();
        if !asked.iter().any(|known| known == key) {
            asked.push(key.to_owned());
        }
        self.lookup(key)
    }

    /// Reports a value that is not what was `expected`.
    pub(crate) fn report_type(&self, key: &str, found: Found<'d>, expected: &str) {
        self.report(found.line, key, format!("{} is not {expected}", shown(found.value)));
    }

    fn new(
        document: &'d Document,
        (path, head): (String, String),
        line: usize,
        table: &'d DeTable<'d>,
    ) -> Self {
        let (asked, free) = (RefCell::default(), Cell::new(false));
        Self { document, path, head, line, table, asked, free }
    }

    fn lookup(&self, key: &str) -> Option<Found<'d>> {
        let (name, value) = self.table.get_key_value(key)?;
        let (at, value) = (name.span(), value.get_ref());
        Some(Found { line: self.document.line(at.start), is_made: at.is_empty(), value })
    }

    fn report(&self, line: usize, key: &str, what: String) {
        self.document.report(Mistake { line, key: self.full(key), what });
    }

    fn full(&self, key: &str) -> String {
        joined(&self.path, key)
    }

    fn head(&self, key: &str) -> String {
        joined(&self.head, key)
    }
}

/// Returns a value as a mistake names it.
pub(crate) fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(integer) => integer.to_string(),
        DeValue::Float(float) => float.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::String(text) => format!("{text:?}"),
        other => format!("a value of type {}", other.type_str()),
    }
}

fn joined(path: &str, key: &str) -> String {
    match (path, key) {
        ("", key) => key.to_owned(),
        (path, "") => path.to_owned(),
        (path, key) => format!("{path}.{key}"),
    }
}
