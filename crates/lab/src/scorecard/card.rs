//! The card: a figure of each scene, point and scheme, with every seed; its file, whose lines are
//! one figure each.
//!
//! ```text
//! scene.point.scheme.figure = [value of the first seed, value of the second, …]
//! ```
//! The same code makes the same file, in the same order, on every machine: virtual time is exact.

use core::fmt;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use toml_edit::{Document, Item, Table};

use crate::arguments::parse_seeds;
use crate::scheme::Scheme;
use crate::statistics::median;
use crate::whole_file;

/// What the file says of itself.
const HEAD: &str = "\
# The scorecard: what each scheme reaches in each scene, in virtual time: scene.point.scheme.figure = one value for each seed.
# Made by `make scorecard`, and never by hand. docs/scorecard.md says what the scenes are and how it is read;
# `fulmar-lab scorecard --card THIS` shows it as tables, with `--against OTHER` what moved between two of them.
";

/// Tells whether a scheme is our own engine as it is flown.
pub(super) fn is_ours(scheme: &str) -> bool {
    scheme.starts_with(Scheme::FULMAR.name())
}

/// Names a figure of the card.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) scene: String,
    pub(super) point: String,
    pub(super) scheme: String,
    pub(super) figure: String,
}

/// A figure, with a value for each seed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) key: Key,
    pub(super) values: Vec<f64>,
}

/// The card.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Card {
    /// First and last seed.
    pub(super) seeds: (u64, u64),
    /// In the order of scenes and results.
    pub(super) cells: Vec<Cell>,
    /// Scenes that could not be played, and why.
    pub(super) skipped: Vec<(String, String)>,
}

/// What several seeds make of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Key {
    /// Returns the key of another figure, or of another scheme, of the same place.
    pub(super) fn beside(&self, scheme: &str, figure: &str) -> Self {
        Self { scheme: scheme.to_owned(), figure: figure.to_owned(), ..self.clone() }
    }

    fn parts(&self) -> [&str; 4] {
        [&self.scene, &self.point, &self.scheme, &self.figure]
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let part = |part: &str| match part.chars().all(is_bare) {
            true => part.to_owned(),
            false => format!("{part:?}"),
        };
        f.write_str(&self.parts().map(part).join("."))
    }
}

impl Cell {
    /// Returns the median and the span of the seeds.
    pub(super) fn summary(&self) -> Summary {
        Summary::of(&self.values)
    }

    fn to_json(&self) -> Value {
        let Summary { median, least, most } = self.summary();
        let [scene, point, scheme, figure] = self.key.parts();
        json!({
            "scene": scene, "point": point, "scheme": scheme, "figure": figure,
            "values": self.values, "median": median, "least": least, "most": most,
        })
    }
}

impl Summary {
    pub(super) fn of(values: &[f64]) -> Self {
        let by = |choose: fn(f64, f64) -> f64| values.iter().copied().reduce(choose).unwrap_or(0.0);
        let median = median(values).unwrap_or(0.0);
        Self { median, least: by(f64::min), most: by(f64::max) }
    }

    /// Returns how far its seeds are apart.
    pub(super) fn span(self) -> f64 {
        // What is infinite for all seeds has no span.
        if self.most == self.least { 0.0 } else { self.most - self.least }
    }
}

impl Card {
    /// Reads a card's file.
    ///
    /// # Errors
    /// Names the file, and what is wrong with it.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("read {name}: {error}"))?;
        Self::of_text(&text).map_err(|what| {
            format!("{name}: {what}; a card is what `fulmar-lab scorecard --out FILE` writes")
        })
    }

    /// Writes the card's file, whole or not at all.
    ///
    /// # Errors
    /// Names the file, and why it could not be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        whole_file::write(path, self.to_text().as_bytes())
    }

    /// Returns the cells by their keys.
    pub(super) fn by_key(&self) -> BTreeMap<&Key, &Cell> {
        self.cells.iter().map(|cell| (&cell.key, cell)).collect()
    }

    /// Returns the same with fewer seeds and scenes.
    ///
    /// # Errors
    /// When it does not have all of these seeds.
    pub(super) fn only(
        &self,
        seeds: (u64, u64),
        scenes: &[&str],
        ours: bool,
    ) -> Result<Self, String> {
        let (first, last) = self.seeds;
        if seeds.0 < first || seeds.1 > last {
            return Err(format!(
                "its seeds are {first}-{last}, and {}-{} were asked for",
                seeds.0, seeds.1
            ));
        }
        let (from, to) = ((seeds.0 - first) as usize, (seeds.1 - first) as usize);
        let is_kept =
            |key: &Key| scenes.contains(&&key.scene[..]) && (!ours || is_ours(&key.scheme));
        let cells = self.cells.iter().filter(|cell| is_kept(&cell.key));
        let cells = cells
            .map(|cell| Cell { key: cell.key.clone(), values: cell.values[from..=to].to_vec() });
        Ok(Self { seeds, cells: cells.collect(), skipped: self.skipped.clone() })
    }

    /// Returns the card as one object.
    pub(super) fn to_json(&self) -> Value {
        let skipped = |(scene, why): &(String, String)| json!({"scene": scene, "why": why});
        json!({
            "seeds": self.seeds,
            "cells": self.cells.iter().map(Cell::to_json).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(skipped).collect::<Vec<_>>(),
        })
    }

    fn to_text(&self) -> String {
        let mut text = format!("{HEAD}seeds = \"{}-{}\"\n", self.seeds.0, self.seeds.1);
        for (scene, why) in &self.skipped {
            text += &format!("# SKIPPED: {scene}: {why}\n");
        }
        let mut scene = "";
        for cell in &self.cells {
            if cell.key.scene != scene {
                scene = &cell.key.scene;
                text += "\n";
            }
            let values: Vec<String> = cell.values.iter().map(f64::to_string).collect();
            text += &format!("{} = [{}]\n", cell.key, values.join(", "));
        }
        text
    }

    fn of_text(text: &str) -> Result<Self, String> {
        let document = Document::parse(text).map_err(|error| error.to_string())?;
        let root = document.as_table();
        let seeds = root.get("seeds").and_then(Item::as_str).ok_or("it has no seeds")?;
        let seeds = parse_seeds(seeds)?;
        let mut card = Self { seeds, ..Self::default() };
        let tables = |table: &Table| -> Vec<(String, Item)> {
            table.iter().map(|(key, item)| (key.to_owned(), item.clone())).collect()
        };
        let inner = |item: &Item| item.as_table().map(tables).unwrap_or_default();
        for (scene, of_scene) in tables(root) {
            for (point, of_point) in inner(&of_scene) {
                for (scheme, of_scheme) in inner(&of_point) {
                    for (figure, values) in inner(&of_scheme) {
                        let (scene, point, scheme) = (scene.clone(), point.clone(), scheme.clone());
                        let key = Key { scene, point, scheme, figure };
                        let values = values_of(&values, seeds).ok_or_else(|| {
                            format!("{key}: not a list of a number for each seed")
                        })?;
                        card.cells.push(Cell { key, values });
                    }
                }
            }
        }
        Ok(card)
    }
}

/// Reads a number for each seed.
fn values_of(item: &Item, (first, last): (u64, u64)) -> Option<Vec<f64>> {
    let number = |value: &toml_edit::Value| {
        value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
    };
    let values: Vec<f64> = item.as_array()?.iter().map(number).collect::<Option<_>>()?;
    (Some(values.len() as u64) == (last - first).checked_add(1)).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Card {
        let cell = |scene: &str, point: &str, values: &[f64]| {
            let [scene, point] = [scene, point].map(str::to_owned);
            let (scheme, figure) = ("fulmar".to_owned(), "gap_s".to_owned());
            Cell { key: Key { scene, point, scheme, figure }, values: values.to_vec() }
        };
        let cells = vec![
            cell("thin", "64k", &[0.1, 0.0, 12.5]),
            cell("falls", "both_0.3M_20k", &[f64::INFINITY, 1.0, 3.0]),
        ];
        Card { seeds: (1, 3), cells, skipped: Vec::new() }
    }

    #[test]
    fn a_card_is_read_as_it_was_written_in_its_order() {
        let text = card().to_text();
        assert!(text.ends_with(
            "seeds = \"1-3\"\n\nthin.64k.fulmar.gap_s = [0.1, 0, 12.5]\n\n\
             falls.\"both_0.3M_20k\".fulmar.gap_s = [inf, 1, 3]\n"
        ));
        assert_eq!(Card::of_text(&text), Ok(card()));
        for wrong in ["", "seeds = \"1-3\"\na.b.c.d = [1, 2]\n", "seeds = \"1-3\"\na.b.c.d = 1\n"] {
            assert!(Card::of_text(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seeds_make_a_median_and_a_span_and_some_of_them_can_be_had() {
        let all = card();
        let Summary { median, least, most } = all.cells[0].summary();
        assert_eq!((median, least, most), (0.1, 0.0, 12.5));
        assert_eq!(all.cells[1].summary().median, 3.0);
        let some = all.only((2, 3), &["falls"], false).expect("it has these");
        assert_eq!((some.cells.len(), &some.cells[0].values[..]), (1, &[1.0, 3.0][..]));
        assert!(all.only((1, 4), &["falls"], false).is_err());
        let silent = Summary::of(&[f64::INFINITY; 3]);
        assert_eq!(silent.span(), 0.0);
    }
}
