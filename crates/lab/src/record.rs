//! `fulmar-lab report FILE...`: runs a recorded experiment again and sets its figures beside the
//! paper's, beside ours of when it was recorded, and beside what it must reach. With `--record` ours is recorded anew.
//!
//! The files are in `experiments/`; `docs` for them is experiments/README.md. Running is
//! `experiment`; nothing is measured here.

use core::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ::record::date;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toml_edit::{DocumentMut, InlineTable, value};

use crate::doubt::Doubtful;
use crate::experiment::Experiment;
use crate::report::{Mode, Report, table};
use crate::statistics::median_interval;
use crate::testbed;
use crate::traces::folder;
use emulator::Failure;
use sys::print::{print, tell};

/// What is said of a figure whose interval holds the paper's, and of one whose does not.
const AGREES: &str = "agrees";
const DIFFERS: &str = "differs";
/// Characters of a date without the time of day.
const DATE: usize = 10;

/// A recorded experiment: what to run, and what came of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// What it shows, in a line.
    pub(crate) title: String,
    /// Where in the paper, or in our own demands.
    pub(crate) source: String,
    /// What `fulmar-lab run` is given.
    pub(crate) run: Vec<String>,
    /// When ours was recorded, and what made it.
    #[serde(default)]
    recorded: Option<Made>,
    /// What to look at.
    pub(crate) figure: Vec<Figure>,
}

/// When the figures of a file were recorded, and by what.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Made {
    /// Year, month and day.
    date: String,
    /// The commit that was checked out, where the program could tell.
    commit: Option<String>,
    /// The hash of the sources that the figures come from.
    code: String,
    /// What the machine was, where it can matter.
    machine: Option<String>,
}

/// One figure of a recorded experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// The scheme that it is about.
    scheme: String,
    /// The parameter point, where a scheme has several: key and value of the result.
    #[serde(default)]
    point: Map<String, Value>,
    /// The key of the figure; `up.control_lost` reaches into objects.
    key: String,
    /// What the paper prints.
    paper: Option<f64>,
    /// What we measured when the file was written.
    ours: Option<f64>,
    /// What it must not exceed.
    at_most: Option<f64>,
    /// What it must reach.
    at_least: Option<f64>,
}

/// A figure measured anew.
#[derive(Clone, Debug, Serialize)]
struct Row {
    scheme: String,
    key: String,
    paper: Option<f64>,
    recorded: Option<f64>,
    now: Option<f64>,
    /// By how much that may be wrong.
    error: f64,
    must: String,
    met: bool,
    /// Whether the error could turn the verdict over.
    in_doubt: bool,
    /// Between which values the seeds' median lies with 95 % confidence; none below six seeds.
    interval: Option<(f64, f64)>,
    /// Whether it agrees with the paper's.
    verdict: String,
    /// Whether it is another one than the file's, in virtual time, which is exact.
    drifted: bool,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, code {}", self.date, self.code)?;
        let more = [("commit", &self.commit), ("on", &self.machine)];
        more.iter().try_for_each(|(what, value)| match value {
            Some(value) => write!(f, ", {what} {value}"),
            None => Ok(()),
        })
    }
}

impl Record {
    /// Reads a file.
    ///
    /// # Errors
    /// Names the file, and what is wrong with it.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("read {name}: {error}"))?;
        toml::from_str(&text).map_err(|error| format!("{name}: {error}"))
    }

    /// Returns the experiment that the file describes.
    ///
    /// # Errors
    /// What the command line has against its arguments.
    pub(crate) fn experiment(&self) -> Result<Experiment, String> {
        Experiment::parse(&self.run)
    }

    /// Sets the figures of a report beside the recorded ones.
    fn rows(&self, report: &Report) -> Vec<Row> {
        let row = |figure: &Figure| {
            let row = figure.row(&report.results);
            let drifted = report.mode == Mode::Sim
                && row.recorded.zip(row.now).is_some_and(|(then, now)| !is_same(then, now));
            Row { drifted, ..row }
        };
        self.figure.iter().map(row).collect()
    }
}

impl Figure {
    fn row(&self, results: &[Value]) -> Row {
        let matches = |result: &&Value| {
            result["scheme"] == json!(self.scheme)
                && self.point.iter().all(|(key, value)| result[key] == *value)
        };
        let figure =
            results.iter().find(matches).and_then(|result| Doubtful::of(result, &self.key));
        let (now, error) = figure.map_or((None, 0.0), |f| (Some(f.value), f.error));
        let interval = results.iter().find(matches).and_then(|result| self.interval(result));
        let within = |now: f64| {
            self.at_most.is_none_or(|limit| now <= limit)
                && self.at_least.is_none_or(|limit| now >= limit)
        };
        let must = [(self.at_most, "≤"), (self.at_least, "≥")];
        let must = must.iter().filter_map(|(limit, sign)| Some(format!("{sign} {}", (*limit)?)));
        let of_point = |(key, value): (&String, &Value)| match value {
            Value::String(text) => text.clone(),
            value => format!("{key}={value}"),
        };
        let point: Vec<String> = self.point.iter().map(of_point).collect();
        Row {
            scheme: self.scheme.clone(),
            key: [point, vec![self.key.clone()]].concat().join(" "),
            paper: self.paper,
            recorded: self.ours,
            now,
            must: must.collect::<Vec<_>>().join(", "),
            error,
            met: now.is_some_and(within),
            in_doubt: now.is_some_and(|now| within(now - error) != within(now + error)),
            drifted: false,
            interval,
            verdict: self
                .paper
                .zip(now)
                .map(|(paper, now)| verdict(paper, now, interval))
                .unwrap_or_default(),
        }
    }

    /// Returns between which values the figure lies, from those of the seeds.
    fn interval(&self, result: &Value) -> Option<(f64, f64)> {
        let seeds = result["by_seed"].as_array()?;
        let figures = seeds.iter().map(|seed| Some(Doubtful::of(seed, &self.key)?.value));
        median_interval(&figures.collect::<Option<Vec<f64>>>()?)
    }
}

/// Runs every file's experiment; true when every figure reaches what it must and is that of its file. `keep` writes what
/// came into the files.
pub(crate) fn report(files: &[PathBuf], keep: bool, as_json: bool) -> Result<bool, Failure> {
    let records: Vec<(&PathBuf, Record)> = files
        .iter()
        .map(|file| Ok((file, Record::read(file)?)))
        .collect::<Result<_, String>>()
        .map_err(Failure::Usage)?;
    let mut experiments = Vec::new();
    for (file, record) in &records {
        let named = |why| Failure::Usage(format!("{}: {why}", file.display()));
        experiments.push(record.experiment().map_err(named)?);
    }
    if experiments.iter().any(|experiment| experiment.run_args().mode() == Mode::Emu) {
        // Forks: must come before the first thread.
        testbed::prepare()?;
    }
    let (mut reports, mut sum, began) = (Vec::new(), Sum::default(), Instant::now());
    for (number, ((file, record), experiment)) in records.iter().zip(&experiments).enumerate() {
        let seconds = began.elapsed().as_secs();
        tell(format_args!(
            "{} of {}, after {seconds} s: {}",
            number + 1,
            records.len(),
            file.display()
        ));
        let Some((outcome, rows)) = played(record, experiment)? else {
            let (file, folder) = (file.display(), folder());
            let why = format!(
                "no recordings in {}: FULMAR_SHARED names the folder above",
                folder.display()
            );
            tell(format_args!("SKIPPED: {file}: {why}"));
            reports.push(json!({"file": file.to_string(), "skipped": why}));
            sum.skipped += 1;
            continue;
        };
        let valid = outcome.faults.is_empty() && !rows.iter().any(|row| row.in_doubt);
        if keep && valid {
            record_anew(file, &outcome, &rows)?;
        }
        sum.add(&rows, valid, keep);
        if as_json {
            let file = file.display().to_string();
            reports.push(json!({"file": file, "valid": valid, "figures": rows}));
        } else {
            print_rows(record, &outcome, &rows)?;
        }
    }
    if as_json {
        print(json!({"met": sum.is_met(), "reports": reports}))?;
    } else if records.len() > 1 {
        print(format_args!("{} files, {sum}", records.len()))?;
    }
    Ok(sum.is_met())
}

/// Runs an experiment; nothing where it needs recordings that are not there.
fn played(record: &Record, experiment: &Experiment) -> Result<Option<(Report, Vec<Row>)>, Failure> {
    let lacks = || !folder().is_dir();
    let outcome = match experiment.run() {
        Err(_) if lacks() => return Ok(None),
        outcome => outcome?,
    };
    let rows = record.rows(&outcome);
    let has_none = rows.iter().all(|row| row.now.is_none());
    Ok((!has_none || !lacks()).then_some((outcome, rows)))
}

/// Counts what came.
#[derive(Default)]
struct Sum {
    figures: usize,
    missed: usize,
    drifted: usize,
    invalid: usize,
    skipped: usize,
    agree: usize,
    differ: usize,
}

impl Sum {
    fn add(&mut self, rows: &[Row], valid: bool, are_kept: bool) {
        let count = |is_one: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is_one(row)).count();
        self.figures += rows.len();
        self.missed += count(&|row| !row.met);
        self.drifted += if are_kept { 0 } else { count(&|row| row.drifted) };
        self.invalid += usize::from(!valid);
        self.agree += count(&|row| row.verdict == AGREES);
        self.differ += count(&|row| row.verdict.starts_with(DIFFERS));
    }

    fn is_met(&self) -> bool {
        self.missed + self.drifted + self.invalid == 0
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figures, missed, drifted, invalid, skipped, agree, differ } = self;
        write!(
            f,
            "{figures} figures: {missed} do not reach what they must, {drifted} are no longer those of their file, {invalid} \
             files are INVALID, {skipped} were skipped; {agree} agree with a paper's, {differ} differ"
        )
    }
}

/// Writes what came into a file, in place of what it has.
fn record_anew(file: &Path, outcome: &Report, rows: &[Row]) -> Result<(), String> {
    let named = |error: &dyn fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| named(&error))?;
    let mut document: DocumentMut = text.parse().map_err(|error| named(&error))?;
    if let Some(figures) = document["figure"].as_array_of_tables_mut() {
        for (figure, row) in figures.iter_mut().zip(rows) {
            match row.now {
                // As it is reported: whole numbers without a point.
                Some(now) if now.fract() == 0.0 && now.abs() < 1e15 => {
                    figure["ours"] = value(now as i64);
                }
                Some(now) => figure["ours"] = value(now),
                None => {}
            }
        }
    }
    let mut made = InlineTable::new();
    let code = outcome.versions["code"].as_str().unwrap_or_default();
    made.insert("date", today().into());
    if let Some(commit) = commit(file) {
        made.insert("commit", commit.into());
    }
    made.insert("code", code.into());
    if outcome.mode == Mode::Emu {
        let kernel = outcome.versions["kernel"].as_str().unwrap_or_default();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        made.insert("machine", format!("{kernel}, {processors} processors").into());
    }
    document["recorded"] = value(made);
    let whole = file.with_extension("toml.new");
    fs::write(&whole, document.to_string()).map_err(|error| named(&error))?;
    fs::rename(&whole, file).map_err(|error| named(&error))
}

/// Returns the day, by the clock of this machine.
fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date::utc(now.as_secs()).chars().take(DATE).collect()
}

/// Returns the commit that a file's folder has checked out; none where that is no repository.
fn commit(file: &Path) -> Option<String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut git = Command::new("git");
    git.arg("-C").arg(folder.unwrap_or(Path::new("."))).args(["rev-parse", "--short=12", "HEAD"]);
    let output = git.stderr(Stdio::null()).output().ok().filter(|it| it.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Tells whether two figures are the same but for how they are written.
fn is_same(then: f64, now: f64) -> bool {
    (then - now).abs() <= 1e-9 * then.abs().max(now.abs())
}

/// Says whether a figure is the paper's. One figure without an interval tells how far off it is, and no more.
fn verdict(paper: f64, now: f64, interval: Option<(f64, f64)>) -> String {
    let off = match paper {
        0.0 => format!("{now:+.3}"),
        paper => format!("{:+.1} %", (now / paper - 1.0) * 100.0),
    };
    match interval {
        None => format!("{off}, no interval"),
        Some((low, high)) if (low..=high).contains(&paper) => AGREES.to_owned(),
        Some(_) => format!("{DIFFERS}: {off}"),
    }
}

fn print_rows(record: &Record, outcome: &Report, rows: &[Row]) -> Result<(), String> {
    print(format_args!(
        "{} ({})\n  fulmar-lab run {}",
        record.title,
        record.source,
        record.run.join(" ")
    ))?;
    if let Some(made) = &record.recorded {
        print(format_args!("  recorded {made}"))?;
    }
    if !outcome.faults.is_empty() {
        print(format_args!("  INVALID: {}", outcome.audit_summary))?;
    }
    for row in rows.iter().filter(|row| row.in_doubt) {
        print(format_args!(
            "  INVALID: {} {} may be met or not within its error",
            row.scheme, row.key
        ))?;
    }
    for row in rows.iter().filter(|row| row.drifted) {
        print(format_args!(
            "  DRIFTED: {} {} is no longer that of the file, which --record makes anew",
            row.scheme, row.key
        ))?;
    }
    let columns = [
        ("scheme", "scheme"),
        ("key", "figure"),
        ("paper", "paper"),
        ("recorded", "recorded"),
        ("now", "now"),
        ("interval", "95 % of seeds"),
        ("verdict", "paper's?"),
        ("must", "must be"),
        ("met", "met"),
    ];
    let value = |row: &Row| {
        let mut value = json!(row);
        value["error"] = json!({"now": row.error});
        let interval = row.interval.map(|(low, high)| format!("{low} … {high}"));
        value["interval"] = json!(interval.unwrap_or_default());
        value
    };
    let values: Vec<Value> = rows.iter().map(value).collect();
    print(format_args!("{}\n", table(&values, &columns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file below `experiments/`.
    fn files() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let folders = fs::read_dir(root).expect("experiments/ is there");
        let in_folder = |folder: fs::DirEntry| fs::read_dir(folder.path()).ok();
        let entries = folders.flatten().filter_map(in_folder).flatten().flatten();
        let toml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
        entries.map(|entry| entry.path()).filter(toml).collect()
    }

    /// Records that demand what no release has reached: as long as that is so, `ours` says by how much.
    const UNREACHED: [&str; 1] = ["falls/falls.toml"];

    #[test]
    fn recorded_experiments_can_be_run_and_kept_their_promises() {
        let files = files();
        assert!(files.len() >= 5, "{files:?}");
        for file in files {
            let record = Record::read(&file).expect("a sound file");
            let experiment = record.experiment().unwrap_or_else(|why| panic!("{file:?}: {why}"));
            let known = experiment.description();
            let is_unreached = UNREACHED.iter().any(|name| file.ends_with(name));
            let mut broken = Vec::new();
            for figure in &record.figure {
                let mut schemes = known.sim.iter().chain(known.emu.iter());
                let scheme = schemes.any(|scheme| scheme.name() == figure.scheme);
                assert!(scheme, "{file:?}: {figure:?}");
                let ours = figure.ours.expect("every figure was recorded");
                if figure.at_most.is_some_and(|limit| ours > limit)
                    || figure.at_least.is_some_and(|limit| ours < limit)
                {
                    broken.push(figure);
                }
            }
            assert_eq!(is_unreached, !broken.is_empty(), "{file:?}: {broken:?}");
        }
    }

    #[test]
    fn figures_find_their_point_and_their_verdict() {
        let text = "scheme = \"udp\"\nkey = \"up.lost\"\nat_most = 3\npoint = { links = \"two\" }";
        let figure: Figure = toml::from_str(text).expect("a sound figure");
        let result = |links, lost| json!({"scheme": "udp", "links": links, "up": {"lost": lost}});
        let row = figure.row(&[result("one", 9), result("two", 2)]);
        assert_eq!((row.now, row.met, row.must.as_str()), (Some(2.0), true, "≤ 3"));
        assert!(!figure.row(&[result("two", 4)]).met);
        assert!(!figure.row(&[]).met, "a figure that is missing is not met");
        let mut stalled = result("two", 4);
        stalled["up"]["error"] = json!({"lost": 2});
        let row = figure.row(&[stalled]);
        assert!(!row.met && row.in_doubt && row.error == 2.0, "{row:?}");
        let mut stalled = result("two", 3);
        stalled["up"]["error"] = json!({"lost": 1});
        assert!(figure.row(&[stalled]).in_doubt, "met as seen, and not within the error");
        let text = "scheme = \"tcp\"\nkey = \"s\"\npaper = 68.0";
        let figure: Figure = toml::from_str(text).expect("a sound figure");
        let of = |first: i32| {
            let seeds: Vec<Value> = (first..first + 20).map(|s| json!({"s": s})).collect();
            figure.row(&[json!({"scheme": "tcp", "s": first + 10, "by_seed": seeds})])
        };
        let (near, far) = (of(60), of(70));
        assert_eq!((near.interval, near.verdict.as_str()), (Some((65.0, 74.0)), "agrees"));
        assert_eq!(far.verdict, "differs: +17.6 %");
        let single = figure.row(&[json!({"scheme": "tcp", "s": 68})]);
        assert_eq!(single.verdict, "+0.0 %, no interval");
        let text = "scheme = \"udp\"\nkey = \"lost\"\npoint = { rtt_ms = 60.0 }";
        let figure: Figure = toml::from_str(text).expect("a sound figure");
        assert_eq!(figure.row(&[]).key, "rtt_ms=60.0 lost");
    }
}
