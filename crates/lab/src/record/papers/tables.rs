//! Tables of READMEs, whose rows are written from the whole results of records between two marks.
//!
//! ```text
//! <!-- rows of falls.toml where load=counted: #cell code; scheme=fulmar: control_lost, control_gap_s .1 s -->
//! | cell | fulmar |
//! | --- | --- |
//! | … |
//! <!-- /rows -->
//! ```
//! The heading is the author's. A column is what tells a row from others (`#KEY FORMAT`), or
//! figures of the one result at that row, where further keys may say which: `KEY FORMAT, …`. A
//! format is `.1`, `%1` (of a share), `all` (the same, of which 1 is "all"), `ms`, `code`, or
//! nothing; words behind it are units. `KEY/KEY` is one over the other, `KEY=A|B` either of them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::record::kept;
use crate::report::field;

const BEGIN: &str = "<!-- rows of ";
const BEGIN_END: &str = " -->\n";
const END: &str = "<!-- /rows -->";
/// From here on milliseconds are written as seconds.
const LONG_MS: f64 = 10_000.0;

/// A key with the value that it must have.
type Must<'a> = (&'a str, &'a str);

/// What the first mark says.
struct Spec<'a> {
    /// The record, beside the README.
    record: &'a str,
    only: Vec<Must<'a>>,
    columns: Vec<Column<'a>>,
}

enum Column<'a> {
    /// What tells rows apart.
    Head(Cell<'a>),
    /// Figures, and what else the result must be of.
    Figures(Vec<Must<'a>>, Vec<Cell<'a>>),
}

struct Cell<'a> {
    key: &'a str,
    format: &'a str,
    unit: String,
}

/// Returns the READMEs of a folder's folders.
pub(super) fn readmes(folder: &Path) -> Vec<PathBuf> {
    let inner = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let readme = inner.map(|entry| entry.path().join("README.md"));
    let mut readmes: Vec<PathBuf> = readme.filter(|path| path.is_file()).collect();
    readmes.sort_unstable();
    readmes
}

/// Returns a text with the rows of its tables written anew.
///
/// `results` gives the results of a record that lies beside it.
///
/// # Errors
/// Names the table and what is wrong with its mark, or the figure that no result has.
pub(super) fn with_rows(
    text: &str,
    results: impl Fn(&str) -> Result<Vec<Value>, String>,
) -> Result<String, String> {
    let (mut written, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once(BEGIN) {
        let (mark, table) = behind.split_once(BEGIN_END).ok_or("a mark of rows has no end")?;
        let (table, after) =
            table.split_once(END).ok_or_else(|| format!("rows of {mark}: no {END} behind them"))?;
        let named = |why: String| format!("rows of {mark}: {why}");
        let heading: Vec<&str> = table.split_inclusive('\n').take(2).collect();
        let spec = Spec::read(mark).map_err(named)?;
        let rows = spec.rows(&results(spec.record).map_err(named)?).map_err(named)?;
        written += &format!("{before}{BEGIN}{mark}{BEGIN_END}{}{rows}{END}", heading.concat());
        rest = after;
    }
    Ok(written + rest)
}

/// Returns the results that are kept of a record beside a README.
///
/// # Errors
/// When there are none, or they cannot be read.
pub(super) fn results_beside(readme: &Path, record: &str) -> Result<Vec<Value>, String> {
    let place = kept::result_of(&readme.with_file_name(record));
    let outcome = kept::read_result(&place)?;
    Ok(outcome.ok_or_else(|| format!("{}: there is none", place.display()))?.results)
}

impl<'a> Spec<'a> {
    fn read(mark: &'a str) -> Result<Self, String> {
        let (of, columns) = mark.split_once(':').ok_or("no `:` behind the record")?;
        let (record, only) = of.split_once(" where ").unwrap_or((of, ""));
        let columns = columns.split(';').map(Column::read).collect::<Result<_, String>>()?;
        Ok(Self { record: record.trim(), only: musts(only)?, columns })
    }

    fn rows(&self, results: &[Value]) -> Result<String, String> {
        let own: Vec<&Value> = results.iter().filter(|result| fits(result, &self.only)).collect();
        let heads: Vec<&Cell<'_>> = self.columns.iter().filter_map(Column::head).collect();
        let mut seen: Vec<Vec<&Value>> = Vec::new();
        for result in &own {
            let head: Vec<&Value> = heads.iter().map(|cell| field(result, cell.key)).collect();
            if !seen.contains(&head) {
                seen.push(head);
            }
        }
        if seen.is_empty() {
            return Err("no result is of it".to_owned());
        }
        let mut rows = String::new();
        for head in &seen {
            let is_here = |result: &&&Value| {
                heads.iter().zip(head).all(|(cell, value)| field(result, cell.key) == *value)
            };
            let here: Vec<&Value> = own.iter().filter(is_here).copied().collect();
            let cells = self.columns.iter().map(|column| column.shown(&here));
            let cells = cells.collect::<Result<Vec<String>, String>>()?;
            rows += &format!("| {} |\n", cells.join(" | "));
        }
        Ok(rows)
    }
}

impl<'a> Column<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(head) = text.strip_prefix('#') {
            return Ok(Self::Head(Cell::read(head)?));
        }
        let (only, cells) = text.split_once(':').unwrap_or(("", text));
        let cells = cells.split(',').map(Cell::read).collect::<Result<_, String>>()?;
        Ok(Self::Figures(musts(only)?, cells))
    }

    fn head(&self) -> Option<&Cell<'a>> {
        match self {
            Self::Head(cell) => Some(cell),
            Self::Figures(..) => None,
        }
    }

    fn shown(&self, here: &[&Value]) -> Result<String, String> {
        let (only, cells) = match self {
            Self::Head(cell) => return cell.shown(here[0]),
            Self::Figures(only, cells) => (only, cells),
        };
        let fitting: Vec<&&Value> = here.iter().filter(|result| fits(result, only)).collect();
        let [result] = fitting[..] else {
            return Err(format!("{} results are of {only:?} in one row", fitting.len()));
        };
        let shown = cells.iter().map(|cell| cell.shown(result));
        Ok(shown.collect::<Result<Vec<_>, String>>()?.join(", "))
    }
}

impl<'a> Cell<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let key = words.next().ok_or("a column has no key")?;
        let format = words.next().unwrap_or_default();
        let unit = words.map(|word| format!(" {word}")).collect();
        Ok(Self { key, format, unit })
    }

    fn shown(&self, result: &Value) -> Result<String, String> {
        if let Some((part, whole)) = self.key.split_once('/') {
            let parts = [part, whole].map(|key| field(result, key).as_f64());
            let [Some(part), Some(whole)] = parts else {
                return Err(format!("no result has {}", self.key));
            };
            return Ok(format!("{}{}", self.number(part / whole)?, self.unit));
        }
        let value = field(result, self.key);
        let shown = match (value, value.as_f64()) {
            (Value::Null, _) if !has(result, self.key) => {
                return Err(format!("no result has {}", self.key));
            }
            (Value::Null, _) => return Ok("–".to_owned()),
            (Value::Array(items), _) if items.is_empty() => "–".to_owned(),
            (Value::Array(items), _) => {
                let words = items.iter().map(|item| item.as_str().unwrap_or_default());
                words.collect::<Vec<_>>().join(", ")
            }
            (_, Some(number)) => self.number(number)?,
            (Value::String(text), _) if self.format == "code" => format!("`{text}`"),
            (Value::String(text), _) => text.clone(),
            (other, _) => other.to_string(),
        };
        Ok(format!("{shown}{}", self.unit))
    }

    fn number(&self, number: f64) -> Result<String, String> {
        let wrong = || format!("{:?} is no format of a number", self.format);
        let digits = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        Ok(match self.format.split_at_checked(1) {
            None => number.to_string(),
            Some((".", rest)) => format!("{number:.*}", digits(rest)?),
            Some(("%", rest)) => format!("{:.*} %", digits(rest)?, 100.0 * number),
            Some(_) => match self.format {
                "all" if number >= 1.0 => "all".to_owned(),
                "all" => format!("{:.1} %", 100.0 * number),
                "ms" if number < LONG_MS => format!("{number:.0} ms"),
                "ms" => format!("{:.1} s", number / 1e3),
                _ => return Err(wrong()),
            },
        })
    }
}

/// Tells whether a result has a figure, be it null.
fn has(result: &Value, key: &str) -> bool {
    match key.rsplit_once('.') {
        _ if result.get(key).is_some() => true,
        Some((object, last)) => field(result, object).get(last).is_some(),
        None => false,
    }
}

/// Reads `KEY=VALUE, …`.
fn musts(text: &str) -> Result<Vec<Must<'_>>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').ok_or(format!("{part:?} is not KEY=VALUE"))).collect()
}

fn fits(result: &Value, only: &[Must<'_>]) -> bool {
    only.iter().all(|(key, must)| match field(result, key) {
        Value::String(text) => must.split('|').any(|one| one == text),
        other => other.as_f64().is_some_and(|number| must.parse() == Ok(number)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn results(record: &str) -> Result<Vec<Value>, String> {
        let of = |loss: f64, scheme: &str, share: f64, ms: Option<f64>| json!({"loss": loss, "scheme": scheme, "share": share, "p99_ms": ms, "up": {"lost": 3}});
        match record {
            "a.toml" => Ok(vec![
                of(0.02, "fulmar", 1.0, Some(71.6)),
                of(0.02, "udp", 0.98, None),
                of(0.1, "fulmar", 0.999, Some(16_240.0)),
                of(0.1, "udp", 0.9, Some(50.0)),
            ]),
            _ => Err("there is none".to_owned()),
        }
    }

    fn table(mark: &str) -> Result<String, String> {
        with_rows(&format!("before\n{BEGIN}{mark} -->\n| h |\n| - |\n| 7 |\n{END}\nafter"), results)
    }

    #[test]
    fn rows_are_those_of_the_results_and_all_else_is_the_authors() {
        let mark = "a.toml: #loss %0; scheme=fulmar: share all, p99_ms ms; scheme=udp: p99_ms .1 ms; scheme=udp: up.lost";
        let written = table(mark);
        // A figure within an object is one too.
        let rows = "| 2 % | all, 72 ms | – | 3 |\n| 10 % | 99.9 %, 16.2 s | 50.0 ms | 3 |\n";
        let expected = format!("before\n{BEGIN}{mark} -->\n| h |\n| - |\n{rows}{END}\nafter");
        assert_eq!(written.as_deref(), Ok(&expected[..]));
        assert_eq!(with_rows(&expected, results).as_deref(), Ok(&expected[..]), "and again");
        let one =
            table("a.toml where scheme=udp: #scheme code; loss=0.1: share %1").expect("sound");
        assert!(one.contains("| `udp` | 90.0 % |"), "{one}");
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        for (mark, why) in [
            ("b.toml: #loss", "there is none"),
            ("a.toml #loss", "no `:` behind the record"),
            ("a.toml where loss=7: #loss", "no result is of it"),
            ("a.toml: #loss; share", "2 results are of"),
            ("a.toml: #loss; scheme=udp: shared", "no result has shared"),
            ("a.toml: #loss %x", "no format of a number"),
            ("a.toml: #loss; scheme: share", "not KEY=VALUE"),
        ] {
            let said = table(mark).expect_err("it cannot");
            assert!(said.contains(why) && said.contains("rows of"), "{mark}: {said}");
        }
        assert!(with_rows("<!-- rows of a.toml: #loss", results).is_err());
    }
}
