//! The card for people: a table for each scene, what moved between two cards, and where we are
//! behind.

use serde_json::{Map, Value};

use super::card::{Card, Cell, Summary};
use super::compare::{Behind, Difference, Moved, Verdict};
use super::play::command;
use super::scenes::{self, Scene};
use crate::report::table;

/// Returns the tables of a card.
pub(super) fn card(card: &Card) -> String {
    let mut text = String::new();
    for scene in scenes::ALL {
        if let Some((_, why)) = card.skipped.iter().find(|(name, _)| name == scene.name) {
            text += &format!("SKIPPED: {}: {why}\n\n", scene.name);
        }
        let of_scene = card.cells.iter().filter(|cell| cell.key.scene == scene.name);
        let rows = rows(of_scene);
        if rows.is_empty() {
            continue;
        }
        let titles =
            ["point", "scheme"].into_iter().chain(scene.figures.iter().map(|one| one.name));
        let columns: Vec<(&str, &str)> = titles.map(|title| (title, title)).collect();
        text += &format!("{}: {}\n{}\n\n", scene.name, scene.about, table(&rows, &columns));
    }
    text.trim_end().to_owned()
}

/// Returns the list of scenes: what each is for, and the command that runs it by itself.
pub(super) fn list() -> String {
    let of = |scene: &Scene| format!("{}\n    {}\n    {}", scene.name, scene.about, command(scene));
    scenes::ALL.iter().map(of).collect::<Vec<_>>().join("\n")
}

/// Returns the cells that moved beyond the span of their seeds; all that have another value where
/// they are asked for.
pub(super) fn difference(difference: &Difference, all: bool) -> String {
    let is_shown = |moved: &&Moved| all || moved.verdict != Verdict::Within;
    let mut shown: Vec<&Moved> = difference.differing.iter().filter(is_shown).collect();
    // What is worse is read first.
    shown.sort_by_key(|moved| match moved.verdict {
        Verdict::Worse => 0,
        Verdict::Better => 1,
        Verdict::Other => 2,
        Verdict::Within => 3,
    });
    let row = |moved: &&Moved| {
        object([
            ("cell", moved.key.to_string()),
            ("then", summary(moved.then)),
            ("now", summary(moved.now)),
            ("change", change(moved.then.median, moved.now.median)),
            ("verdict", moved.verdict.word().to_owned()),
        ])
    };
    let rows: Vec<Value> = shown.iter().map(row).collect();
    let columns =
        [("cell", "cell"), ("then", "then"), ("now", "now"), ("change", "change"), ("verdict", "")];
    let moved = if rows.is_empty() { String::new() } else { table(&rows, &columns) + "\n" };
    let names = |word: &str, keys: &[super::card::Key]| -> String {
        keys.iter().map(|key| format!("{key}  {word}\n")).collect()
    };
    format!(
        "{moved}{}{}{}",
        names("is new", &difference.new),
        names("is gone", &difference.gone),
        difference.summary()
    )
}

/// Returns where somebody that does nothing clever is better than we are.
pub(super) fn behind(behind: &[Behind]) -> String {
    if behind.is_empty() {
        return "Nowhere behind plain copies, one path at a time or plain UDP.".to_owned();
    }
    let row = |one: &Behind| {
        object([
            ("cell", one.key.to_string()),
            ("ours", summary(one.ours)),
            ("rival", one.rival.name().to_owned()),
            ("theirs", summary(one.theirs)),
            ("ratio", change(one.theirs.median, one.ours.median)),
        ])
    };
    let rows: Vec<Value> = behind.iter().map(row).collect();
    let columns = [
        ("cell", "cell"),
        ("ours", "ours"),
        ("rival", "behind"),
        ("theirs", "theirs"),
        ("ratio", "ours to theirs"),
    ];
    let count = behind.len();
    format!(
        "Behind plain copies, one path at a time or plain UDP, by more than the span of the seeds ({count} cells; \
         bytes against plain copies alone):\n{}",
        table(&rows, &columns)
    )
}

/// Writes the median, and where the seeds differ from what to what.
pub(super) fn summary(Summary { median, least, most }: Summary) -> String {
    let (least, most, median) = (number(least), number(most), number(median));
    if least == most { median } else { format!("{median} ({least}…{most})") }
}

/// Returns a row for each point and scheme.
fn rows<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<Value> {
    let mut rows: Vec<(&str, &str, Map<String, Value>)> = Vec::new();
    for cell in cells {
        let (point, scheme) = (&cell.key.point[..], &cell.key.scheme[..]);
        let figure = (cell.key.figure.clone(), Value::String(summary(cell.summary())));
        let place = rows.iter().position(|row| (row.0, row.1) == (point, scheme));
        let place = place.unwrap_or_else(|| {
            let names = [("point", point), ("scheme", scheme)];
            let names = names.map(|(key, name)| (key.to_owned(), Value::String(name.to_owned())));
            rows.push((point, scheme, names.into_iter().collect()));
            rows.len() - 1
        });
        rows[place].2.extend([figure]);
    }
    // The schemes of a point stand together, in the order in which the points came.
    let mut points: Vec<&str> = Vec::new();
    for (point, ..) in &rows {
        if !points.contains(point) {
            points.push(point);
        }
    }
    rows.sort_by_key(|row| points.iter().position(|point| *point == row.0));
    rows.into_iter().map(|(_, _, row)| Value::Object(row)).collect()
}

fn object<const N: usize>(fields: [(&str, String); N]) -> Value {
    Value::Object(
        fields.into_iter().map(|(key, text)| (key.to_owned(), Value::String(text))).collect(),
    )
}

/// Writes a value with as many digits as can be read.
fn number(value: f64) -> String {
    if value.is_infinite() {
        return "never".to_owned();
    }
    let digits = match value.abs() {
        size if size >= 1_000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn change(then: f64, now: f64) -> String {
    match (then, now) {
        (then, now) if then.is_infinite() || now.is_infinite() || then == 0.0 => String::new(),
        (then, now) => format!("{:+.1} %", (now / then - 1.0) * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scorecard::card::Key;

    fn cell(point: &str, scheme: &str, figure: &str, values: &[f64]) -> Cell {
        let [point, scheme, figure] = [point, scheme, figure].map(str::to_owned);
        Cell {
            key: Key { scene: "thin".to_owned(), point, scheme, figure },
            values: values.to_vec(),
        }
    }

    #[test]
    fn a_table_has_a_row_for_each_point_and_scheme_with_median_and_span() {
        let cells = vec![
            cell("counted-64", "fulmar", "missed_pct", &[0.1, 0.0, 2.0]),
            cell("counted-64", "fulmar", "p99_ms", &[f64::INFINITY; 3]),
            cell("counted-96", "fulmar", "missed_pct", &[0.0; 3]),
            cell("counted-64", "udp", "missed_pct", &[33.3333; 3]),
        ];
        let all =
            Card { seeds: (1, 3), cells, skipped: vec![("wifi".to_owned(), "why".to_owned())] };
        let text = card(&all);
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let lines: Vec<Vec<String>> = text.lines().map(words).collect();
        assert_eq!(lines[2][..4], ["counted-64", "fulmar", "0.1", "(0…2)"]);
        assert!(lines[2].contains(&"never".to_owned()), "{text}");
        assert_eq!(lines[3][..3], ["counted-64", "udp", "33.33"]);
        assert_eq!(lines[4][0], "counted-96");
        assert!(text.ends_with("SKIPPED: wifi: why"), "{text}");
    }

    #[test]
    fn what_is_worse_is_told_first_and_what_is_within_the_seeds_only_when_asked_for() {
        let of = |gap: [f64; 3], missed: f64, wire: [f64; 3]| Card {
            seeds: (1, 3),
            cells: vec![
                cell("counted-64", "fulmar", "missed_pct", &[missed; 3]),
                cell("counted-64", "fulmar", "gap_s", &gap),
                cell("counted-64", "fulmar", "wire_kb", &wire),
            ],
            skipped: Vec::new(),
        };
        let then = of([0.1; 3], 1.0, [100.0, 200.0, 150.0]);
        let now = of([0.5; 3], 0.0, [100.0, 200.0, 160.0]);
        let between = Difference::between(&then, &now);
        let text = difference(&between, false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("gap_s") && lines[1].ends_with("WORSE"), "{text}");
        assert!(lines[2].contains("missed_pct") && lines[2].ends_with("better"), "{text}");
        assert!(lines[3].starts_with("1 cells are better and 1 WORSE"), "{text}");
        assert!(difference(&between, true).contains("wire_kb"));
    }
}
