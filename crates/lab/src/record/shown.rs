//! Prints figures, and the summary at the end.

use core::fmt;

use serde_json::{Value, json};

use super::row::{AGREES, DIFFERS, NOT_TESTABLE, Row, UNDECIDED};
use super::run::{Came, File};
use super::{Outcome, Play, ReportArgs};
use crate::report::{digits, table};
use sys::print::print;

/// Counts what came.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    files: usize,
    figures: usize,
    missed: usize,
    unreached: usize,
    drifted: usize,
    invalid: usize,
    skipped: usize,
    failed: usize,
    agree: usize,
    differ: usize,
    undecided: usize,
    not_testable: usize,
}

/// Tells whether what came can be believed.
pub(super) fn is_valid(outcome: &Outcome, rows: &[Row]) -> bool {
    outcome.faults.is_empty() && !rows.iter().any(|row| row.in_doubt)
}

/// Says in a line what came of a file.
pub(super) fn in_short(outcome: &Outcome, rows: &[Row]) -> String {
    let mut sum = Sum::default();
    sum.add(outcome, rows, false);
    let Sum { figures, missed, unreached, drifted, .. } = sum;
    let Sum { agree, differ, undecided, not_testable, .. } = sum;
    let counts = [
        (missed, "MISSED"),
        (unreached, "unreached, as is known"),
        (drifted, "DRIFTED"),
        (agree, "agree"),
        (differ, "differ"),
        (undecided, UNDECIDED),
        (not_testable, NOT_TESTABLE),
    ];
    let told = counts.iter().filter(|(count, _)| *count > 0);
    let told = told.map(|(count, what)| format!(", {count} {what}")).collect::<String>();
    let invalid = if sum.invalid > 0 { "INVALID, " } else { "" };
    format!("{invalid}{figures} figures{told}")
}

impl Sum {
    /// Counts everything; figures that were written into their files have not drifted.
    pub(super) fn of(came: &[(&File, Came)], are_written: bool) -> Self {
        let mut sum = Self { files: came.len(), ..Self::default() };
        for (file, came) in came {
            match came {
                Came::Out(outcome) => {
                    sum.add(outcome, &file.record.rows(outcome, file.is_part), are_written);
                }
                Came::Skipped(_) => sum.skipped += 1,
                Came::Failed(_) => sum.failed += 1,
            }
        }
        sum
    }

    fn add(&mut self, outcome: &Outcome, rows: &[Row], are_written: bool) {
        let count = |is_one: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is_one(row)).count();
        let is_valid = is_valid(outcome, rows);
        self.figures += rows.len();
        self.missed += count(&Row::is_missed);
        self.unreached += count(&Row::is_unreached);
        self.drifted += if are_written && is_valid { 0 } else { count(&|row| row.drifted) };
        self.invalid += usize::from(!is_valid);
        self.agree += count(&|row| row.verdict == AGREES);
        self.differ += count(&|row| row.verdict.starts_with(DIFFERS));
        self.undecided += count(&|row| row.verdict == UNDECIDED);
        self.not_testable += count(&|row| row.verdict == NOT_TESTABLE);
    }

    pub(super) fn is_met(&self) -> bool {
        self.missed + self.drifted + self.invalid + self.failed == 0
    }

    fn to_json(self) -> Value {
        json!({
            "files": self.files,
            "figures": self.figures,
            "missed": self.missed,
            "unreached": self.unreached,
            "drifted": self.drifted,
            "invalid": self.invalid,
            "skipped": self.skipped,
            "failed": self.failed,
            "agree": self.agree,
            "differ": self.differ,
            "undecided": self.undecided,
            "not_testable": self.not_testable,
        })
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, figures, missed, unreached, drifted, invalid, skipped, failed, .. } =
            self;
        let Self { agree, differ, undecided, not_testable, .. } = self;
        write!(
            f,
            "{files} files, {figures} figures: {missed} do not reach what they must, {unreached} more neither, as their files say, \
             {drifted} are no longer those of their file, \
             {invalid} files are INVALID, {failed} failed, {skipped} were skipped; beside a paper's {agree} agree, {differ} differ, \
             {undecided} are not decided, {not_testable} are not testable"
        )
    }
}

/// Prints what came of a file.
pub(super) fn print_rows(file: &File, outcome: &Outcome, args: &ReportArgs) -> Result<(), String> {
    let record = &file.record;
    let rows = record.rows(outcome, file.is_part);
    print(format_args!("{} ({})", record.title, record.source))?;
    match &file.play {
        Play::Run(_) => {
            print(format_args!("  fulmar-lab run {}", record.words(args.quick).join(" ")))?
        }
        Play::Read(table, pairs) => {
            print(format_args!(
                "  read from {}, which is made by: {}",
                table.display(),
                pairs.made_by
            ))?;
        }
    }
    if file.is_part {
        print("  a part of the record, beside the paper's figures alone")?;
    } else if let Some(made) = &record.recorded {
        print(format_args!("  recorded {made}"))?;
    }
    for line in against(outcome, &rows, args.record) {
        print(format_args!("  {line}"))?;
    }
    let columns = [
        ("scheme", "scheme"),
        ("key", "figure"),
        ("paper", "paper"),
        ("paper_scheme", "paper's scheme"),
        ("recorded", "recorded"),
        ("now", "now"),
        ("interval", "compared (95 %)"),
        ("verdict", "paper's?"),
        ("must", "must be"),
        ("met", "met"),
    ];
    let columns = if file.is_part {
        without(&columns, &["recorded", "must", "met"])
    } else {
        columns.to_vec()
    };
    let value = |row: &Row| {
        let mut value = json!(row);
        value["error"] = json!({"now": row.error});
        let shown = |value: f64| format!("{value:.*}", digits(value));
        let interval = row
            .compared
            .zip(row.interval)
            .map(|(of, (low, high))| format!("{} ({} … {})", shown(of), shown(low), shown(high)));
        value["interval"] = json!(interval.unwrap_or_default());
        value
    };
    let values: Vec<Value> = rows.iter().map(value).collect();
    print(table(&values, &columns))?;
    for row in &rows {
        if let Row { scheme, key, verdict, why: Some(why), .. } = row {
            print(format_args!("  {scheme} {key} {verdict}: {why}"))?;
        }
    }
    print("")
}

/// Prints one object for all.
pub(super) fn print_json(came: &[(&File, Came)], sum: &Sum) -> Result<(), String> {
    let one = |(file, came): &(&File, Came)| {
        let path = file.path.display().to_string();
        match came {
            Came::Out(outcome) => {
                let rows = file.record.rows(outcome, file.is_part);
                json!({"file": path, "part": file.is_part, "valid": is_valid(outcome, &rows), "figures": rows})
            }
            Came::Skipped(why) => json!({"file": path, "skipped": why}),
            Came::Failed(why) => json!({"file": path, "failed": why}),
        }
    };
    let reports: Vec<Value> = came.iter().map(one).collect();
    print(json!({"met": sum.is_met(), "summary": sum.to_json(), "reports": reports}))
}

/// Prints a line for each file, what is against it, and the sum.
pub(super) fn print_summary(
    came: &[(&File, Came)],
    sum: &Sum,
    args: &ReportArgs,
) -> Result<(), String> {
    let counts = [
        ("file", "file"),
        ("figures", "figures"),
        ("missed", "missed"),
        ("unreached", "unreached"),
        ("drifted", "drifted"),
        ("agree", "agree"),
        ("differ", "differ"),
        ("undecided", UNDECIDED),
        ("not_testable", NOT_TESTABLE),
        ("state", ""),
    ];
    let counts = if args.quick {
        without(&counts, &["missed", "unreached", "drifted"])
    } else {
        counts.to_vec()
    };
    let line = |(file, came): &(&File, Came)| {
        let mut own = Sum::default();
        let state = match came {
            Came::Out(outcome) => {
                let rows = file.record.rows(outcome, file.is_part);
                own.add(outcome, &rows, args.record);
                state(&own, file.is_part)
            }
            Came::Skipped(_) => "SKIPPED",
            Came::Failed(_) => "FAILED",
        };
        let mut line = own.to_json();
        line["file"] = json!(file.path.display().to_string());
        line["state"] = json!(state);
        line
    };
    let lines: Vec<Value> = came.iter().map(line).collect();
    print(format_args!("{}\n", table(&lines, &counts)))?;
    for (file, came) in came {
        let reasons = match came {
            Came::Out(outcome) => {
                against(outcome, &file.record.rows(outcome, file.is_part), args.record)
            }
            Came::Skipped(why) => vec![format!("SKIPPED: {why}")],
            Came::Failed(why) => vec![format!("FAILED: {why}")],
        };
        for reason in reasons {
            print(format_args!("{}: {reason}", file.path.display()))?;
        }
    }
    print(sum)
}

fn state(sum: &Sum, is_part: bool) -> &'static str {
    match (sum.invalid, sum.missed, sum.drifted, is_part) {
        (0, 0, 0, true) => "a part",
        (0, 0, 0, false) if sum.unreached > 0 => "as known",
        (0, 0, 0, false) => "met",
        (0, 0, _, _) => "DRIFTED",
        (0, _, _, _) => "MISSED",
        _ => "INVALID",
    }
}

/// Lists what is to be said against what came of a file; a figure that is written into it has not
/// drifted.
fn against(outcome: &Outcome, rows: &[Row], is_written: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if !outcome.faults.is_empty() {
        lines.push(format!("INVALID: {}", outcome.account));
    }
    for row in rows {
        let Row { scheme, key, must, .. } = row;
        if row.in_doubt {
            lines.push(format!("INVALID: {scheme} {key} may be met or not within its error"));
        }
        match row.now {
            None => lines.push(format!("MISSED: {scheme} {key} did not come out")),
            Some(now) if !row.met => {
                let verdict = if row.unreached.is_some() { "UNREACHED" } else { "MISSED" };
                let why = row.unreached.iter().map(|why| format!(": {why}")).collect::<String>();
                lines.push(format!("{verdict}: {scheme} {key} is {now} and must be {must}{why}"));
            }
            Some(now) if row.unreached.is_some() => lines.push(format!(
                "MISSED: {scheme} {key} is {now} and reaches {must}, of which the file says that it does not: take `unreached` out of it"
            )),
            Some(now) if row.drifted && !is_written => lines.push(format!(
                "DRIFTED: {scheme} {key} is {now} and no longer {} as in the file, which --record makes anew",
                row.recorded.unwrap_or_default()
            )),
            Some(_) => {}
        }
    }
    lines
}

fn without<'a>(columns: &[(&'a str, &'a str)], names: &[&str]) -> Vec<(&'a str, &'a str)> {
    columns.iter().filter(|(name, _)| !names.contains(name)).copied().collect()
}
