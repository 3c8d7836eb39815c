//! One section of the file, asked key by key, and every mistake in it with its line.

use core::ops::RangeInclusive;
use std::cell::RefCell;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong so far: line, and what the mistake says.
type Mistakes = RefCell<Vec<(usize, String)>>;

/// Reads a text key by key.
///
/// # Errors
/// Every mistake in it, a line each.
pub(super) fn read<T>(
    text: &str,
    file: &str,
    keys: impl FnOnce(&Section<'_>) -> T,
) -> Result<T, String> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let tree = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("{file}:{}: not TOML: {}", line(at), error.message())
    })?;
    let mistakes = Mistakes::default();
    let root = Section {
        text,
        mistakes: &mistakes,
        path: String::new(),
        line: 1,
        table: tree.get_ref(),
        asked: RefCell::default(),
    };
    let value = keys(&root);
    root.finish();
    let mut mistakes = mistakes.into_inner();
    mistakes.sort_by_key(|(line, _)| *line);
    if mistakes.is_empty() {
        return Ok(value);
    }
    let lines = mistakes.iter().map(|(line, what)| format!("{file}:{line}: {what}"));
    Err(lines.collect::<Vec<_>>().join("\n"))
}

/// A section, and what was asked of it.
pub(super) struct Section<'d> {
    text: &'d str,
    mistakes: &'d Mistakes,
    path: String,
    line: usize,
    table: &'d DeTable<'d>,
    asked: RefCell<Vec<String>>,
}

impl<'d> Section<'d> {
    pub(super) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Reports a key that is missing; returns whether it is there.
    pub(super) fn require(&self, key: &str) -> bool {
        let present = self.has(key);
        if !present {
            self.wrong(key, "is missing");
        }
        present
    }

    /// Reports what is wrong with a key, present or not.
    pub(super) fn wrong(&self, key: &str, what: impl Into<String>) {
        let span = self.table.get_key_value(key).map(|(key, _)| key.span().start);
        let line = span.map_or(self.line, |at| self.line_of(at));
        let path = if self.path.is_empty() { String::new() } else { format!("{}.", self.path) };
        self.mistakes.borrow_mut().push((line, format!("{path}{key}: {}", what.into())));
    }

    /// Reads the sections headed `[[key]]`.
    pub(super) fn sections(&self, key: &str) -> Vec<Self> {
        let Some(value) = self.find(key) else { return Vec::new() };
        let items = value.as_array().map_or(&[][..], |items| &items[..]);
        let section = |(number, item): (usize, &'d Spanned<DeValue<'d>>)| {
            let table = item.get_ref().as_table()?;
            let path = format!("{key}[{number}]");
            let line = self.line_of(item.span().start);
            let (text, mistakes, asked) = (self.text, self.mistakes, RefCell::default());
            Some(Self { text, mistakes, path, line, table, asked })
        };
        let sections: Option<Vec<Self>> = items.iter().enumerate().map(section).collect();
        if sections.is_none() || value.as_array().is_none() {
            self.wrong(key, format!("these are sections, each headed [[{key}]]"));
        }
        sections.unwrap_or_default()
    }

    pub(super) fn text(&self, key: &str) -> Option<&'d str> {
        self.of_type(key, "a text in quotes", DeValue::as_str)
    }

    pub(super) fn required_text(&self, key: &str) -> Option<&'d str> {
        self.require(key).then(|| self.text(key)).flatten()
    }

    /// Returns whether a key holds this very text.
    pub(super) fn is_text(&self, key: &str, text: &str) -> bool {
        self.find(key).and_then(DeValue::as_str) == Some(text)
    }

    /// Reads one of a few words.
    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        self.of_type(key, &format!("one of {}", words.join(", ")), |value| {
            choices.iter().find(|(word, _)| value.as_str() == Some(word)).map(|(_, value)| *value)
        })
    }

    /// Reads a list of texts.
    pub(super) fn texts(&self, key: &str) -> Vec<&'d str> {
        let texts = self.of_type(key, "a list of texts in quotes", |value| {
            value.as_array()?.iter().map(|item| item.get_ref().as_str()).collect()
        });
        texts.unwrap_or_default()
    }

    /// Reads a number that may have a fraction.
    pub(super) fn fraction(&self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        self.of_type(key, &expected, |value| number(value).filter(|value| range.contains(value)))
    }

    /// Reads a list of numbers, `most` at most.
    pub(super) fn fractions(&self, key: &str, most: usize) -> Vec<f64> {
        let expected = format!("a list of 1 to {most} numbers");
        let numbers = self.of_type(key, &expected, |value| {
            let items = value.as_array().filter(|items| (1..=most).contains(&items.len()))?;
            items.iter().map(|item| number(item.get_ref())).collect()
        });
        numbers.unwrap_or_default()
    }

    /// Ends a section: keys that nobody asked for are mistakes.
    pub(super) fn finish(self) {
        let asked = self.asked.borrow().join(", ");
        for key in self.table.keys().map(Spanned::get_ref) {
            if !self.asked.borrow().iter().any(|known| known == key.as_ref()) {
                self.wrong(key, format!("unknown key; the keys here are {asked}"));
            }
        }
    }

    fn of_type<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'d DeValue<'d>) -> Option<T>,
    ) -> Option<T> {
        let value = read(self.find(key)?);
        if value.is_none() {
            self.wrong(key, format!("is not {expected}"));
        }
        value
    }

    fn find(&self, key: &str) -> Option<&'d DeValue<'d>> {
        if !self.asked.borrow().iter().any(|known| known == key) {
            self.asked.borrow_mut().push(key.to_owned());
        }
        self.table.get(key).map(Spanned::get_ref)
    }

    fn line_of(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }
}

/// Returns a finite number.
fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).ok()? as f64
        }
        DeValue::Float(float) => float.as_str().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}
