//! What a run hands back: one object, printed as JSON or as a table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::doubt::beside;
use crate::experiment::Description;
use crate::figure::Figure;
use crate::scheme::SchemeCommand;
use emulator::Audit;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What a report is called in the directory that it is written into.
const REPORT: &str = "report.json";

/// Says where the links of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// In the deterministic world, in virtual time.
    Sim,
    /// Between network namespaces, in real time, with the real daemon and kernel.
    Emu,
}

/// The outcome of one run of one experiment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The experiment's name.
    pub(crate) experiment: String,
    /// Where the links were.
    pub(crate) mode: Mode,
    /// The seed of the links, or the first of several.
    pub(crate) seed: u64,
    /// First and last seed, where several were run and pooled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seeds: Option<(u64, u64)>,
    /// False where something failed that no error of a figure accounts for, and where a ranking
    /// would turn over within the errors.
    pub(crate) valid: bool,
    /// Those rankings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) doubts: Vec<String>,
    /// What no error of a figure accounts for.
    #[serde(skip)]
    pub(crate) faults: Vec<String>,
    /// What produced the figures.
    pub(crate) versions: Value,
    /// What was asked for.
    pub(crate) parameters: Value,
    /// Why each scheme of somebody's own that failed did; it has no figures.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) failed: BTreeMap<&'static str, String>,
    /// What the emulator says about itself: an object, or a list of them where a run consists of
    /// several emulations; null in the world, which is exact.
    pub(crate) audit: Value,
    /// One object per scheme and parameter point.
    pub(crate) results: Vec<Value>,
    /// The audit in a line, for people.
    #[serde(skip)]
    pub(crate) audit_summary: String,
    /// Keys and titles of the table, where they are not the experiment's.
    #[serde(skip)]
    pub(crate) columns: Option<Vec<(String, String)>>,
    /// Whether the table shows columns that no result has: those were asked for.
    #[serde(skip)]
    pub(crate) shows_empty: bool,
}

impl Report {
    /// Makes a report of a run in the world.
    pub(crate) fn sim(
        experiment: impl Into<String>,
        seeds: (u64, u64),
        parameters: Value,
        results: Vec<Value>,
    ) -> Self {
        Self {
            experiment: experiment.into(),
            mode: Mode::Sim,
            seed: seeds.0,
            seeds: (seeds.0 != seeds.1).then_some(seeds),
            valid: true,
            doubts: Vec::new(),
            faults: Vec::new(),
            versions: versions(),
            parameters,
            failed: BTreeMap::new(),
            audit: Value::Null,
            results,
            audit_summary: String::new(),
            columns: None,
            shows_empty: false,
        }
    }

    /// Makes a report of a run on the emulator; a run may consist of several emulations.
    ///
    /// It is judged by the figures, which carry errors of their own, and not by the time that the
    /// emulator or the programs stood still: `doubts` are the rankings that may turn over.
    pub(crate) fn emu(
        experiment: impl Into<String>,
        seed: u64,
        parameters: Value,
        audits: &[Audit],
        doubts: Vec<String>,
        results: Vec<Value>,
    ) -> Self {
        let faults: Vec<String> = audits.iter().flat_map(|audit| audit.faults.clone()).collect();
        let accounts = audits.iter().map(|audit| format!("emulator audit: {}", audit.account()));
        let programs = json!({
            "iproute2": program_version("ip", "-V"),
            "iperf3": program_version("iperf3", "--version"),
        });
        Self {
            mode: Mode::Emu,
            valid: faults.is_empty() && doubts.is_empty(),
            doubts,
            faults,
            versions: merged([versions(), programs]),
            audit: if let [audit] = audits { json!(audit) } else { json!(audits) },
            audit_summary: accounts.collect::<Vec<_>>().join("\n"),
            ..Self::sim(experiment, (seed, seed), parameters, results)
        }
    }

    /// Notes the commands of somebody's own schemes, and which of these have failed: their rows
    /// keep what was asked for and say why they have nothing else.
    pub(crate) fn note_commands(
        &mut self,
        commands: &[SchemeCommand],
        failed: BTreeMap<&'static str, String>,
        described: &Description,
    ) {
        if commands.is_empty() {
            return;
        }
        let texts: Vec<&str> = commands.iter().map(|command| &command.text[..]).collect();
        let names: Vec<&str> = commands.iter().map(|command| &command.name[..]).collect();
        let told = json!({"scheme_commands": texts, "scheme_of_each": names});
        self.parameters = merged([self.parameters.take(), told]);
        let is_kept = |key: &str, value: &Value| {
            let exact = |figure: &Figure| figure.key == key && figure.is_exact;
            value.is_string() || described.figures().any(exact)
        };
        for row in self.results.iter_mut().filter_map(Value::as_object_mut) {
            let why = row["scheme"].as_str().and_then(|name| failed.get(name));
            if let Some(why) = why {
                row.retain(|key, value| is_kept(key, value));
                row.insert("skipped".to_owned(), json!(why));
            }
        }
        // Nothing is ranked that has no figures.
        self.doubts.retain(|doubt| !failed.keys().any(|name| doubt.contains(name)));
        self.valid = self.faults.is_empty() && self.doubts.is_empty();
        self.failed = failed;
    }

    /// Says in a sentence what may be believed of a run in real time.
    pub(crate) fn belief(&self) -> String {
        let turns = self.doubts.join("; ");
        match (&self.faults[..], &self.doubts[..]) {
            ([], []) => {
                "The machine moved no figure by more than its error, and turned no ranking over."
                    .to_owned()
            }
            ([], _) => format!(
                "INVALID: the machine moved no figure by more than its error, but may have turned over \
                 rankings: {turns}"
            ),
            (faults, []) => format!("INVALID: {}", faults.join("; ")),
            (faults, _) => format!("INVALID: {}; may turn over: {turns}", faults.join("; ")),
        }
    }

    /// Writes the report into a directory, which is made, and returns its path.
    ///
    /// # Errors
    /// Says which path could not be written, and why.
    pub(crate) fn write(&self, directory: &Path) -> Result<PathBuf, String> {
        let path = directory.join(REPORT);
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::write(&path, text + "\n"))
            .map_err(|error| format!("write {}: {error}", path.display()))?;
        Ok(path)
    }

    /// Returns the results as a table of the report's columns, or of these: (key, title); unless
    /// they were asked for without those that no result has, such as figures of a stream that was
    /// left out.
    pub(crate) fn table(&self, columns: &[(String, String)]) -> String {
        let is_there = |(key, _): &&(String, String)| {
            self.shows_empty || self.results.iter().any(|result| !field(result, key).is_null())
        };
        let columns: Vec<(String, String)> =
            self.columns(columns).iter().filter(is_there).cloned().collect();
        table(&self.results, &columns)
    }

    /// Returns the same as CSV, with keys for titles and figures as exact as JSON has them.
    pub(crate) fn csv(&self, columns: &[(String, String)]) -> String {
        let columns = self.columns(columns);
        let of = |result: &Value| -> String {
            let cells: Vec<String> =
                columns.iter().map(|(key, _)| csv_cell(field(result, key))).collect();
            cells.join(",")
        };
        let header: Vec<&str> = columns.iter().map(|(key, _)| &key[..]).collect();
        let rows = core::iter::once(header.join(",")).chain(self.results.iter().map(of));
        rows.collect::<Vec<_>>().join("\n")
    }

    fn columns<'a>(&'a self, columns: &'a [(String, String)]) -> &'a [(String, String)] {
        self.columns.as_deref().unwrap_or(columns)
    }
}

/// Makes the directory of a report, and makes sure that one can be written there before hours are
/// spent on a run.
///
/// # Errors
/// Says which path could not be written, and why.
pub(crate) fn try_directory(directory: &Path) -> Result<(), String> {
    let path = directory.join(REPORT);
    let try_it = || {
        std::fs::create_dir_all(directory)?;
        let was_there = path.exists();
        std::fs::OpenOptions::new().append(true).create(true).open(&path)?;
        if was_there { Ok(()) } else { std::fs::remove_file(&path) }
    };
    try_it().map_err(|error: std::io::Error| format!("--out: write {}: {error}", path.display()))
}

/// Lays out results as a table, a row each, of (key, title) columns; nested keys are `up.lost`.
pub(crate) fn table<T: AsRef<str>>(results: &[Value], columns: &[(T, T)]) -> String {
    let header = columns.iter().map(|(_, title)| title.as_ref().to_owned()).collect();
    let row = |result: &Value| columns.iter().map(|(key, _)| cell(result, key.as_ref())).collect();
    aligned(&core::iter::once(header).chain(results.iter().map(row)).collect::<Vec<_>>())
}

/// Lays out results as a table, a column each, of (key, title) rows: for many figures of few
/// schemes.
pub(crate) fn tall_table<T: AsRef<str>>(results: &[Value], rows: &[(T, T)]) -> String {
    let row = |(key, title): &(T, T)| {
        let cells = results.iter().map(|result| cell(result, key.as_ref()));
        core::iter::once(title.as_ref().to_owned()).chain(cells).collect()
    };
    aligned(&rows.iter().map(row).collect::<Vec<_>>())
}

/// Returns a figure of a result; `up.control_lost` reaches into objects, missing ones are null.
pub(crate) fn field<'a>(result: &'a Value, key: &str) -> &'a Value {
    result.get(key).unwrap_or_else(|| key.split('.').fold(result, |value, part| &value[part]))
}

/// Rounds a figure to `digits` behind the point, so that JSON does not claim more than is known.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10.0_f64.powi(digits);
    (value * scale).round() / scale
}

/// Rounds a figure that may be missing; missing becomes null.
pub(crate) fn rounded_option(value: Option<f64>, digits: i32) -> Value {
    value.map_or(Value::Null, |value| json!(rounded(value, digits)))
}

/// Returns how many digits behind the point a figure deserves, for people.
pub(crate) fn digits(value: f64) -> usize {
    match value.abs() {
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        // Four digits would show one message in ten thousand, and nothing below.
        size if size > 0.0 && size < 1e-3 => 7,
        _ => 4,
    }
}

/// Joins objects into one; later keys win.
pub(crate) fn merged<const N: usize>(objects: [Value; N]) -> Value {
    let mut all = Map::new();
    for object in objects {
        if let Value::Object(object) = object {
            all.extend(object);
        }
    }
    Value::Object(all)
}

/// Names the program and the system that the figures come from.
fn versions() -> Value {
    json!({
        "fulmar_lab": env!("CARGO_PKG_VERSION"),
        "code": crate::sweep::CODE,
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "kernel": first_line("/proc/sys/kernel/osrelease"),
        "architecture": std::env::consts::ARCH,
        "processors": std::thread::available_parallelism().map_or(1, usize::from),
    })
}

/// Pads cells to columns: the first to the left, the others to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let padded = cells.map(|(i, (text, width))| match i {
            0 => format!("{text:<width$}"),
            _ => format!("{text:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Writes one figure of a result for people: `46.00 (+11.00)` with its error, and a share as
/// `0.975 (0.979)`, with what it is without what is in doubt.
fn cell(result: &Value, key: &str) -> String {
    let figure = field(result, key);
    let Value::Number(number) = figure else {
        return match figure {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
    };
    let digits = number.as_f64().filter(|_| number.is_f64()).map_or(0, digits);
    let shown = |value: f64| format!("{value:.digits$}");
    let own =
        if number.is_f64() { shown(number.as_f64().unwrap_or(0.0)) } else { number.to_string() };
    let error = beside(result, "error", key).as_f64().map(shown);
    if error.is_none_or(|error| error == shown(0.0)) {
        return own;
    }
    match beside(result, "without_stalls", key).as_f64() {
        Some(share) => format!("{own} ({})", shown(share)),
        None => format!("{own} (+{})", shown(beside(result, "error", key).as_f64().unwrap_or(0.0))),
    }
}

/// Writes one figure of a result for programs; what is missing is empty.
fn csv_cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => format!("{other}").replace(',', ";"),
    }
}

/// Returns the first line of what a program prints about its version; null where it is missing.
fn program_version(program: &str, argument: &str) -> Value {
    let output = Command::new(program).arg(argument).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.ok().and_then(|text| text.lines().next().map(str::to_owned)).into()
}

/// Reads the first line of a file of the kernel; null where it cannot be read.
fn first_line(path: &str) -> Value {
    let text = std::fs::read_to_string(path).ok();
    text.and_then(|text| text.lines().next().map(str::to_owned)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_aligns_and_reaches_into_objects() {
        let results = [
            json!({"scheme": "fulmar", "lost": 0, "up": {"p99": 12.3456}}),
            json!({"scheme": "udp", "lost": 1200, "up": {"p99": null}}),
        ];
        let text = table(&results, &[("scheme", "scheme"), ("lost", "lost"), ("up.p99", "p99")]);
        let expected = "scheme  lost    p99\nfulmar     0  12.35\nudp     1200      -";
        assert_eq!(text, expected);
        let text = tall_table(&results, &[("scheme", "scheme"), ("lost", "lost")]);
        assert_eq!(text, "scheme  fulmar   udp\nlost         0  1200");
    }

    #[test]
    fn csv_has_keys_and_exact_figures() {
        let results = vec![json!({"scheme": "udp", "link.a.loss": 0.1, "up": {"p99": 12.3456}})];
        let mut report = Report::sim("own", (1, 1), Value::Null, results);
        let columns = [("scheme", "s"), ("up.p99", "p")];
        let columns = columns.map(|(key, title)| (key.to_owned(), title.to_owned()));
        assert_eq!(report.csv(&columns), "scheme,up.p99\nudp,12.3456");
        report.columns = Some(vec![("link.a.loss".to_owned(), "loss".to_owned())]);
        assert_eq!(report.csv(&[]), "link.a.loss\n0.1");
        assert_eq!(report.table(&[]), "loss  \n0.1000");
    }

    #[test]
    fn rounding_and_merging() {
        assert_eq!(rounded(0.123456, 3), 0.123);
        assert_eq!(rounded_option(None, 3), Value::Null);
        assert_eq!(merged([json!({"a": 1, "b": 2}), json!({"b": 3})]), json!({"a": 1, "b": 3}));
    }
}
