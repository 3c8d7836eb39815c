//! Values that are read as if they stood in the file: what an experiment varies.
//!
//! A change is made in the tree before anything reads it, so that whoever reads the file checks it
//! as it checks what is written there. Its key is a path:
//!
//! ```text
//! seconds                        a key of the file itself
//! link.wifi.loss                 of [[link]], that one whose name is wifi, else the only one whose
//!                                kind is
//! link.wifi.outage.0.start_s     the first one [[link.outage]], which has neither
//! link.wifi.from_drone.loss      of [link.from_drone], which is made where there is none
//! ```

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::{Mistake, did_you_mean};

/// What tells one of several sections headed alike from all others.
const NAME: &str = "name";
/// What does so where a section is the only one of its kind.
const KIND: &str = "kind";

/// Numbers with more digits than this are written with an exponent.
const PLAIN_MAX: f64 = 1e15;

/// A value without parts.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// A finite number.
    Number(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A text.
    Text(String),
}

/// A value and the key that it is read at.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The path to the key.
    pub key: String,
    /// What is read there.
    pub value: Scalar,
}

impl core::fmt::Display for Scalar {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Number(number) if number.abs() < PLAIN_MAX => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number:?}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The changes with their numbers as TOML has them, which a tree borrows.
pub(crate) struct Changes<'c>(Vec<(&'c Change, String)>);

impl<'c> Changes<'c> {
    pub(crate) fn new(changes: &'c [Change]) -> Self {
        Self(changes.iter().map(|change| (change, change.value.to_string())).collect())
    }

    /// Makes the changes in a tree.
    pub(crate) fn apply<'d>(&'d self, tree: &mut DeTable<'d>) -> Result<(), Mistake> {
        for (change, literal) in &self.0 {
            let value = match &change.value {
                Scalar::Number(_) => DeValue::parse(literal)
                    .map_or_else(|_| DeValue::String(Cow::Borrowed(literal)), Spanned::into_inner),
                Scalar::Flag(flag) => DeValue::Boolean(*flag),
                Scalar::Text(text) => DeValue::String(Cow::Borrowed(text)),
            };
            let segments: Vec<&str> = change.key.split('.').collect();
            set(tree, &segments, 0, value).map_err(|what| Mistake {
                line: 1,
                key: change.key.clone(),
                what,
            })?;
        }
        Ok(())
    }
}

/// Sets the value at a path below a table whose own place in the file is `at`.
fn set<'d>(
    table: &mut DeTable<'d>,
    path: &[&'d str],
    at: usize,
    value: DeValue<'d>,
) -> Result<(), String> {
    let (first, rest) = match path {
        [] | [""] => return Err("a key is missing".to_owned()),
        [first, rest @ ..] => (*first, rest),
    };
    if rest.is_empty() {
        return put(table, first, at, value);
    }
    if !table.contains_key(first) {
        table.insert(
            Spanned::new(at..at, Cow::Borrowed(first)),
            Spanned::new(at..at, DeValue::Table(DeTable::new())),
        );
    }
    let Some(found) = table.get_mut(first) else { return Ok(()) };
    let at = found.span().start;
    match found.get_mut() {
        DeValue::Table(table) => set(table, rest, at, value),
        DeValue::Array(sections) => {
            let (which, rest) = (rest[0], &rest[1..]);
            let place = place(first, sections, which)?;
            let at = sections[place].span().start;
            let section = sections.get_mut(place);
            match section.ok_or("there is none")?.get_mut() {
                DeValue::Table(table) => set(table, rest, at, value),
                _ => Err(format!("{first} has no keys")),
            }
        }
        _ => Err(format!("{first} has no keys")),
    }
}

/// Puts a value in place of another, whose line it keeps, or beside the others.
fn put<'d>(
    table: &mut DeTable<'d>,
    key: &'d str,
    at: usize,
    value: DeValue<'d>,
) -> Result<(), String> {
    match table.get_mut(key) {
        Some(old) if old.get_ref().is_array() || old.get_ref().is_table() => {
            return Err("is not one value".to_owned());
        }
        Some(old) => *old.get_mut() = value,
        None => {
            table.insert(Spanned::new(at..at, Cow::Borrowed(key)), Spanned::new(at..at, value));
        }
    }
    Ok(())
}

/// Finds one of several sections by its name, its kind or its number.
fn place(head: &str, sections: &DeArray<'_>, which: &str) -> Result<usize, String> {
    let has = |section: &Spanned<DeValue<'_>>, key| text_of(section, key) == Some(which);
    if let Some(place) = sections.iter().position(|section| has(section, NAME)) {
        return Ok(place);
    }
    let of_kind: Vec<usize> =
        (0..sections.len()).filter(|place| has(&sections[*place], KIND)).collect();
    match &of_kind[..] {
        [place] => Ok(*place),
        [] => {
            let number = which.parse().ok().filter(|place| *place < sections.len());
            number.ok_or_else(|| none_of(head, which, sections))
        }
        several => Err(ambiguous(head, which, several, sections)),
    }
}

fn text_of<'a>(section: &'a Spanned<DeValue<'_>>, key: &str) -> Option<&'a str> {
    section.get_ref().as_table()?.get(key)?.get_ref().as_str()
}

/// Says that there is no such section, and which there are.
fn none_of(head: &str, which: &str, sections: &DeArray<'_>) -> String {
    let name = |section| text_of(section, NAME).or_else(|| text_of(section, KIND));
    let names: Vec<&str> = sections.iter().filter_map(name).collect();
    let there = if names.is_empty() { "they have no names".to_owned() } else { names.join(", ") };
    let meant = did_you_mean(which, &names);
    format!("no [[{head}]] is called {which:?}; there are {there}{meant}")
}

/// Says how each of several sections of a kind is called.
fn ambiguous(head: &str, which: &str, several: &[usize], sections: &DeArray<'_>) -> String {
    let called = |place: &usize| match text_of(&sections[*place], NAME) {
        Some(name) => format!("{head}.{name}"),
        None => format!("{head}.{place}"),
    };
    let ways: Vec<String> = several.iter().map(called).collect();
    format!("{} [[{head}]] are of kind {which:?}: write {}", several.len(), ways.join(" or "))
}
