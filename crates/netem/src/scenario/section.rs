//! One table of a TOML file, read key by key; knows where it stands, so that every error names
//! file, line and key.
//!
//! Not a deserialiser: each key is asked for by name and type, and what nobody asked for is an
//! error. What the keys mean is in `parse.rs`.

use core::fmt;
use core::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use units::{Duration, Instant, Rate};

/// Says what is wrong with a scenario file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file's name as the caller gave it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The key with its tables, as in `link.wifi.up.loss`; empty when the text is not TOML.
    pub key: String,
    /// What is wrong with it, and what would be right.
    pub what: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.what)
    }
}

impl std::error::Error for ScenarioError {}

/// The text of a scenario file, for finding the line of a position in it.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) file: &'a str,
}

impl Source<'_> {
    pub(super) fn error(&self, span: &Range<usize>, key: &str, what: String) -> ScenarioError {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        ScenarioError { file: self.file.to_owned(), line, key: key.to_owned(), what }
    }
}

type Read<T> = Result<T, ScenarioError>;

/// A table of the file, with the keys that were asked for so far.
pub(super) struct Section<'a> {
    source: Source<'a>,
    path: String,
    span: Range<usize>,
    table: &'a DeTable<'a>,
    known: Vec<String>,
}

impl<'a> Section<'a> {
    pub(super) fn root(source: Source<'a>, table: &'a Spanned<DeTable<'a>>) -> Self {
        Self {
            source,
            path: String::new(),
            span: table.span(),
            table: table.get_ref(),
            known: Vec::new(),
        }
    }

    /// Puts a name into the path that errors show, in place of a bare `link` or `host`.
    pub(super) fn call(&mut self, name: &str) {
        self.path = format!("{}.{name}", self.path);
    }

    /// Returns an error about `key`, or about the whole table when it has no such key.
    pub(super) fn error(&self, key: &str, what: impl Into<String>) -> ScenarioError {
        let entry = self.table.get_key_value(key);
        let span = entry.map_or_else(|| self.span.clone(), |(key, _)| key.span());
        self.source.error(&span, &self.path_of(key), what.into())
    }

    /// Returns an error when the table has keys that nobody asked for.
    pub(super) fn finish(self) -> Read<()> {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if !self.known.iter().any(|known| known == name) {
                let what = format!("unknown key; known here are {}", self.known.join(", "));
                return Err(self.source.error(&key.span(), &self.path_of(name), what));
            }
        }
        Ok(())
    }

    /// Returns an error when more than one of `keys` is there.
    pub(super) fn exclusive(&self, keys: &[&str]) -> Read<()> {
        let mut there = keys.iter().filter(|&&key| self.table.contains_key(key));
        match (there.next(), there.next()) {
            (Some(one), Some(other)) => Err(self.error(other, format!("not together with {one}"))),
            _ => Ok(()),
        }
    }

    pub(super) fn has(&mut self, key: &'static str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn string(&mut self, key: &'static str) -> Read<Option<String>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.type_error(key, "a string", value)),
        }
    }

    pub(super) fn required_string(&mut self, key: &'static str) -> Read<String> {
        self.string(key)?.ok_or_else(|| self.error(key, "is missing"))
    }

    pub(super) fn strings(&mut self, key: &'static str) -> Read<Option<Vec<String>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let Some(array) = value.as_array() else {
            return Err(self.type_error(key, "an array of strings", value));
        };
        let read = |item: &Spanned<DeValue<'_>>| item.get_ref().as_str().map(str::to_owned);
        let strings: Option<Vec<String>> = array.iter().map(read).collect();
        strings.map(Some).ok_or_else(|| self.error(key, "must be an array of strings"))
    }

    pub(super) fn boolean(&mut self, key: &'static str) -> Read<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_bool() {
            Some(flag) => Ok(Some(flag)),
            None => Err(self.type_error(key, "true or false", value)),
        }
    }

    /// Reads a whole number that is not negative.
    pub(super) fn count(&mut self, key: &'static str) -> Read<Option<u64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value
            .as_integer()
            .and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(self.type_error(key, "a whole number, zero or more", value)),
        }
    }

    /// Reads a finite number.
    pub(super) fn number(&mut self, key: &'static str) -> Read<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match number(value) {
            Some(number) => Ok(Some(number)),
            None => Err(self.type_error(key, "a number", value)),
        }
    }

    /// Reads an array of pairs of finite numbers that are not negative, `most` at most.
    pub(super) fn pairs(
        &mut self,
        key: &'static str,
        most: usize,
    ) -> Read<Option<Vec<(f64, f64)>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let wanted = "an array of pairs such as [[0, 12], [8, 0.5]]";
        let Some(array) = value.as_array() else {
            return Err(self.type_error(key, wanted, value));
        };
        if array.len() > most {
            return Err(self.error(key, format!("has more than {most} pairs")));
        }
        let pair = |item: &Spanned<DeValue<'_>>| {
            let mut numbers = item.get_ref().as_array()?.iter().map(|one| number(one.get_ref()));
            let (first, second) = (numbers.next()??, numbers.next()??);
            (numbers.next().is_none() && first >= 0.0 && second >= 0.0).then_some((first, second))
        };
        let pairs: Option<Vec<_>> = array.iter().map(pair).collect();
        pairs.map(Some).ok_or_else(|| self.error(key, format!("must be {wanted}, none negative")))
    }

    /// Reads a finite number that is not negative.
    pub(super) fn amount(&mut self, key: &'static str) -> Read<Option<f64>> {
        match self.number(key)? {
            Some(number) if number < 0.0 => {
                Err(self.error(key, format!("must not be negative, is {number}")))
            }
            number => Ok(number),
        }
    }

    /// Reads a probability.
    pub(super) fn probability(&mut self, key: &'static str) -> Read<Option<f64>> {
        match self.number(key)? {
            Some(number) if !(0.0..=1.0).contains(&number) => {
                Err(self.error(key, format!("must be a probability from 0 to 1, is {number}")))
            }
            number => Ok(number),
        }
    }

    /// Reads a time in milliseconds.
    pub(super) fn millis(&mut self, key: &'static str) -> Read<Option<Duration>> {
        self.amount(key)?.map(|number| self.nanos(key, number * 1e6)).transpose()
    }

    /// Reads a time in seconds.
    pub(super) fn seconds(&mut self, key: &'static str) -> Read<Option<Duration>> {
        self.amount(key)?.map(|number| self.nanos(key, number * 1e9)).transpose()
    }

    /// Reads a point in time in seconds since the start of the run.
    pub(super) fn instant(&mut self, key: &'static str) -> Read<Option<Instant>> {
        Ok(self.seconds(key)?.map(|since_start| Instant::ZERO + since_start))
    }

    /// Reads a rate in Mbit/s that is not zero.
    pub(super) fn mbps(&mut self, key: &'static str) -> Read<Option<Rate>> {
        let Some(number) = self.amount(key)? else { return Ok(None) };
        let rate = Rate::from_bps((number * 1e6).round() as u64);
        if rate == Rate::ZERO {
            let what = "must be more than 0; for a link that stands still use an outage with \
                        mode = \"hold\"";
            return Err(self.error(key, what));
        }
        Ok(Some(rate))
    }

    /// Returns the table under `key`.
    pub(super) fn table(&mut self, key: &str) -> Read<Option<Section<'a>>> {
        let Some((span, value)) = self.get_spanned(key) else { return Ok(None) };
        match value.as_table() {
            Some(table) => Ok(Some(self.child(key, span, table))),
            None => Err(self.type_error(key, "a table", value)),
        }
    }

    /// Returns the tables of the array of tables under `key`; none when there is no such key.
    pub(super) fn tables(&mut self, key: &'static str) -> Read<Vec<Section<'a>>> {
        let Some((_, value)) = self.get_spanned(key) else { return Ok(Vec::new()) };
        let Some(array) = value.as_array() else {
            return Err(self.type_error(key, &format!("an array of tables ([[{key}]])"), value));
        };
        let mut sections = Vec::new();
        for item in array.iter() {
            let Some(table) = item.get_ref().as_table() else {
                let what = format!("an array of tables ([[{key}]])");
                return Err(self.type_error(key, &what, item.get_ref()));
            };
            sections.push(self.child(key, item.span(), table));
        }
        Ok(sections)
    }

    fn child(&self, key: &str, span: Range<usize>, table: &'a DeTable<'a>) -> Section<'a> {
        Section { source: self.source, path: self.path_of(key), span, table, known: Vec::new() }
    }

    fn nanos(&self, key: &str, nanos: f64) -> Read<Duration> {
        // A century: beyond it, times would come near the end of `Instant`.
        if nanos > 3.2e18 {
            return Err(self.error(key, "is longer than a century"));
        }
        Ok(Duration::from_nanos(nanos.round() as u64))
    }

    fn get(&mut self, key: &'static str) -> Option<&'a DeValue<'a>> {
        self.get_spanned(key).map(|(_, value)| value)
    }

    fn get_spanned(&mut self, key: &str) -> Option<(Range<usize>, &'a DeValue<'a>)> {
        if !self.known.iter().any(|known| known == key) {
            self.known.push(key.to_owned());
        }
        self.table.get(key).map(|value| (value.span(), value.get_ref()))
    }

    fn path_of(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        }
    }

    fn type_error(&self, key: &str, wanted: &str, found: &DeValue<'_>) -> ScenarioError {
        let found = match found {
            DeValue::Integer(number) => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::String(text) => format!("{text:?}"),
            other => format!("a value of type {}", other.type_str()),
        };
        self.error(key, format!("must be {wanted}, is {found}"))
    }
}

/// Returns a finite number.
fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}
