//! Reads a TOML document key by key, and remembers every problem with its line and key.
//!
//! Not serde: an operator gets all mistakes of a file at once, each with its place, and a key that
//! nobody asked for is a mistake too. What the keys mean is the other files' business.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Says what is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Line of the file, counted from 1.
    pub(crate) line: usize,
    /// The key with the sections that it is in, such as `path[0].remote`.
    pub(crate) key: String,
    /// What is wrong with it.
    pub(crate) what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            return write!(f, "{}: {}", self.line, self.what);
        }
        write!(f, "{}: {}: {}", self.line, self.key, self.what)
    }
}

/// Holds the text while its sections are read.
pub(crate) struct Document<'t> {
    text: &'t str,
    /// Where each line but the first begins.
    lines: Vec<usize>,
    problems: RefCell<Vec<Problem>>,
}

impl<'t> Document<'t> {
    /// Starts with the text of a file.
    pub(crate) fn new(text: &'t str) -> Self {
        let lines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = lines.map(|(at, _)| at + 1).collect();
        Self { text, lines, problems: RefCell::default() }
    }

    /// Parses the text into a tree that [`Document::root`] reads.
    pub(crate) fn parse(&self) -> Result<Spanned<DeTable<'t>>, Problem> {
        DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let what = format!("not TOML: {}", error.message());
            Problem { line: self.line(at), key: String::new(), what }
        })
    }

    /// Returns the section of the keys before the first heading.
    pub(crate) fn root<'d>(&'d self, tree: &'d Spanned<DeTable<'t>>) -> Section<'d, 't> {
        section(self, String::new(), 1, tree.get_ref())
    }

    /// Returns the problems that were found, in the order of their lines.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems
    }

    fn line(&self, at: usize) -> usize {
        1 + self.lines.partition_point(|line| *line <= at)
    }

    fn report(&self, line: usize, key: String, what: String) {
        self.problems.borrow_mut().push(Problem { line, key, what });
    }
}

/// Reads the keys of one section; each key is asked for by its name.
pub(crate) struct Section<'d, 't> {
    document: &'d Document<'t>,
    path: String,
    line: usize,
    table: &'d DeTable<'t>,
    asked: RefCell<Vec<&'static str>>,
    free: Cell<bool>,
}

/// A value with its place.
#[derive(Clone, Copy)]
struct Value<'d, 't> {
    line: usize,
    value: &'d DeValue<'t>,
}

impl<'d, 't> Section<'d, 't> {
    /// Reads a text.
    pub(crate) fn text(&self, key: &'static str) -> Option<&'d str> {
        let found = self.find(key)?;
        let text = found.value.as_str();
        if text.is_none() {
            self.report_type(key, found, "a text in quotes");
        }
        text
    }

    /// Reads a text that must be there.
    pub(crate) fn required_text(&self, key: &'static str) -> Option<&'d str> {
        self.require(key).then(|| self.text(key)).flatten()
    }

    /// Reads a text that means a `T`; `expected` names it with an example.
    pub(crate) fn parsed<T: FromStr>(&self, key: &'static str, expected: &str) -> Option<T> {
        let text = self.text(key)?;
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.wrong(key, format!("\"{text}\" is not {expected}"));
        }
        parsed
    }

    /// Reads a text that means a `T` and must be there.
    pub(crate) fn required<T: FromStr>(&self, key: &'static str, expected: &str) -> Option<T> {
        self.require(key).then(|| self.parsed(key, expected)).flatten()
    }

    /// Reads a list of texts, each of which means a `T`; one text alone is a list of one.
    pub(crate) fn list<T: FromStr>(&self, key: &'static str, expected: &str) -> Vec<T> {
        let Some(found) = self.find(key) else { return Vec::new() };
        let texts: Vec<Option<&str>> = match found.value {
            DeValue::Array(items) => items.iter().map(|item| item.get_ref().as_str()).collect(),
            other => vec![other.as_str()],
        };
        let mut values = Vec::new();
        for text in texts {
            match text.map(|text| (text, text.parse())) {
                Some((_, Ok(value))) => values.push(value),
                Some((text, Err(_))) => self.wrong(key, format!("\"{text}\" is not {expected}")),
                None => self.report_type(key, found, &format!("a list of texts: {expected}")),
            }
        }
        values
    }

    /// Reads a whole number.
    pub(crate) fn number(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let found = self.find(key)?;
        let number = whole_number(found.value);
        if number.is_none_or(|number| !range.contains(&number)) {
            let (from, to) = (range.start(), range.end());
            self.report_type(key, found, &format!("a whole number from {from} to {to}"));
            return None;
        }
        number
    }

    /// Reads a number that may have a fraction.
    pub(crate) fn fraction(&self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        let found = self.find(key)?;
        let number = match found.value {
            DeValue::Float(float) => float.as_str().parse().ok(),
            other => whole_number(other).map(|number| number as f64),
        };
        if number.is_none_or(|number| !range.contains(&number)) {
            let (from, to) = (range.start(), range.end());
            self.report_type(key, found, &format!("a number from {from} to {to}"));
            return None;
        }
        number
    }

    /// Reads a list of whole numbers.
    pub(crate) fn numbers(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<Vec<u64>> {
        let found = self.find(key)?;
        let numbers: Option<Vec<u64>> = found.value.as_array().and_then(|items| {
            let number = |item: &Spanned<DeValue<'t>>| {
                whole_number(item.get_ref()).filter(|number| range.contains(number))
            };
            items.iter().map(number).collect()
        });
        if numbers.is_none() {
            let (from, to) = (range.start(), range.end());
            self.report_type(key, found, &format!("a list of whole numbers from {from} to {to}"));
        }
        numbers
    }

    /// Reads `true` or `false`.
    pub(crate) fn flag(&self, key: &'static str) -> Option<bool> {
        let found = self.find(key)?;
        let flag = found.value.as_bool();
        if flag.is_none() {
            self.report_type(key, found, "true or false");
        }
        flag
    }

    /// Reads one of a few words.
    pub(crate) fn choice<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let chosen = choices.iter().find(|(word, _)| *word == text);
        if chosen.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            self.wrong(key, format!("\"{text}\" is not one of {}", words.join(", ")));
        }
        chosen.map(|&(_, value)| value)
    }

    /// Reads a section within this one, headed `[key]`.
    pub(crate) fn section(&self, key: &'static str) -> Option<Section<'d, 't>> {
        let found = self.find(key)?;
        let Some(table) = found.value.as_table() else {
            self.report_type(key, found, &format!("a section: [{key}]"));
            return None;
        };
        Some(section(self.document, self.full(key), found.line, table))
    }

    /// Reads the sections headed `[[key]]`.
    pub(crate) fn sections(&self, key: &'static str) -> Vec<Section<'d, 't>> {
        let Some(found) = self.find(key) else { return Vec::new() };
        let tables = found.value.as_array().and_then(|items| {
            let table = |item: &'d Spanned<DeValue<'t>>| {
                Some((self.document.line(item.span().start), item.get_ref().as_table()?))
            };
            items.iter().map(table).collect::<Option<Vec<_>>>()
        });
        let Some(tables) = tables else {
            self.report_type(key, found, &format!("sections, each headed [[{key}]]"));
            return Vec::new();
        };
        let numbered = |(at, (line, table))| {
            section(self.document, format!("{}[{at}]", self.full(key)), line, table)
        };
        tables.into_iter().enumerate().map(numbered).collect()
    }

    /// Returns whether a key holds this very text.
    pub(crate) fn is_text(&self, key: &'static str, text: &str) -> bool {
        self.find(key).is_some_and(|found| found.value.as_str() == Some(text))
    }

    /// Returns whether a key holds a list without anything in it.
    pub(crate) fn is_empty_list(&self, key: &'static str) -> bool {
        self.find(key).and_then(|found| found.value.as_array()).is_some_and(|list| list.is_empty())
    }

    /// Gives every key and text of a section whose keys are the operator's own.
    pub(crate) fn entries(&self) -> Vec<(&'d str, Option<&'d str>)> {
        self.free.set(true);
        let entry = |(key, value): (&'d Spanned<_>, &'d Spanned<DeValue<'t>>)| {
            let key: &'d std::borrow::Cow<'t, str> = key.get_ref();
            (key.as_ref(), value.get_ref().as_str())
        };
        self.table.iter().map(entry).collect()
    }

    /// Returns whether a key is there.
    pub(crate) fn has(&self, key: &'static str) -> bool {
        self.find(key).is_some()
    }

    /// Reports that something is wrong with a key of this section, present or not.
    pub(crate) fn wrong(&self, key: &str, what: impl Into<String>) {
        let line = self.lookup(key).map_or(self.line, |found| found.line);
        self.document.report(line, self.full(key), what.into());
    }

    /// Reports a key that is missing; returns whether it is there.
    pub(crate) fn require(&self, key: &'static str) -> bool {
        let present = self.has(key);
        if !present {
            self.wrong(key, "is missing");
        }
        present
    }

    /// Ends the section: keys that nobody asked for are reported.
    pub(crate) fn finish(self) {
        if self.free.get() {
            return;
        }
        let asked = self.asked.take();
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !asked.contains(&name) {
                let line = self.document.line(key.span().start);
                let what = format!("unknown key; the keys here are {}", asked.join(", "));
                self.document.report(line, self.full(name), what);
            }
        }
    }

    fn find(&self, key: &'static str) -> Option<Value<'d, 't>> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        self.lookup(key)
    }

    fn lookup(&self, key: &str) -> Option<Value<'d, 't>> {
        let (name, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(Value { line: self.document.line(name.span().start), value: value.get_ref() })
    }

    fn report_type(&self, key: &str, found: Value<'d, 't>, expected: &str) {
        let what = match found.value {
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {
                format!("{} is not {expected}", plain(found.value))
            }
            DeValue::String(text) => format!("\"{text}\" is not {expected}"),
            other => format!("a value of type {} is not {expected}", other.type_str()),
        };
        self.document.report(found.line, self.full(key), what);
    }

    fn full(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

fn section<'d, 't>(
    document: &'d Document<'t>,
    path: String,
    line: usize,
    table: &'d DeTable<'t>,
) -> Section<'d, 't> {
    let (asked, free) = (RefCell::default(), Cell::new(false));
    Section { document, path, line, table, asked, free }
}

fn whole_number(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn plain(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(integer) => integer.to_string(),
        DeValue::Float(float) => float.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        other => other.type_str().to_owned(),
    }
}
