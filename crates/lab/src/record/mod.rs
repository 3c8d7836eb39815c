//! `fulmar-lab report FILE...`: runs a recorded experiment again and sets its figures beside the
//! paper's, beside ours of when it was recorded, and beside what it must reach. With `--record`
//! ours is recorded anew.
//!
//! ```text
//! mod      a file: what is run, what is looked at
//! row      a figure beside the paper's and the file's; the verdict
//! pairs    what a table of pairs comes to, where the experiment was run elsewhere
//! run      the files one by one, or side by side in virtual time
//! progress how far that is, and how much is left
//! kept     what a run that was cut off had already, and what a page is made of
//! anew     what came, written into the file
//! shown    tables, and the summary at the end
//! papers/  every figure and table of the papers beside ours, as a page: nothing is run
//! ```
//! The files are in `experiments/`; `docs` for them is experiments/README.md. Running is
//! `experiment`; nothing is measured here.

mod anew;
mod kept;
mod pairs;
mod papers;
mod progress;
mod row;
mod run;
mod shown;

use core::fmt;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::experiment::Experiment;
use crate::report::{Mode, Report};
use crate::sweep::CODE;
use pairs::Pairs;
#[cfg(fuzzing)]
pub(crate) use papers::try_page;
pub(crate) use run::report;
use sys::print::tell;

/// What takes longer than this, seconds, is run when it is asked for: without it the records of
/// virtual time take some 20 minutes on two processors.
const LONG_S: f64 = 300.0;

/// What `fulmar-lab report` is asked for.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ReportArgs {
    /// Files such as experiments/conclone/fig9-11-table2.toml.
    #[arg(required_unless_present_any = ["all", "html", "list", "claims"], conflicts_with_all = ["all", "sim", "emu", "html", "list", "claims"], value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Run every record beside --papers; `fulmar-lab run all` is the same.
    #[arg(long, conflicts_with_all = ["html", "list", "claims"])]
    all: bool,
    /// Of all, those of virtual time.
    #[arg(long, requires = "all", conflicts_with = "emu")]
    sim: bool,
    /// Of all, those of real time: hours, on a quiet machine.
    #[arg(long, requires = "all")]
    emu: bool,
    /// Of all, those of virtual time too that took over five minutes when they were recorded: what
    /// is kept of these stands on the page without it.
    #[arg(long, requires = "all")]
    long: bool,
    /// Write what comes into the files in place of what they have of ours, with the date and what
    /// made it; and all of the result, with the intervals, into results/ beside the file.
    #[arg(long)]
    record: bool,
    /// Run the parts that the files call quick, and leave out files that have none: a minute for
    /// all four papers. Figures of a part are held against the paper's, and not against those of
    /// the file.
    #[arg(long, conflicts_with = "record")]
    quick: bool,
    /// Keep in this directory what each file came to, and do not run again what is there: a run
    /// that was cut off goes on where it was. What another build left there, or a file that runs
    /// something else now, is run again; an INVALID run is not kept, and made up to three times.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Files that are run at the same time, in virtual time: as many as there are processors unless
    /// said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Make the page of all figures and tables of the papers, DIR/index.html, of what is recorded
    /// and kept; nothing is run. With --resume, what this program has run itself comes first.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["record", "quick", "jobs", "json"])]
    html: Option<PathBuf>,
    /// Write the list of all figures and tables of the papers; nothing is run.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "quick", "jobs", "json"])]
    list: Option<PathBuf>,
    /// Write the table of what we claim into this file, between its marks, and the rows of the
    /// READMEs beside the records between theirs; nothing is run.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "quick", "jobs", "json"])]
    claims: Option<PathBuf>,
    /// What the papers have, and what shows it here; records lie in the folders beside it.
    #[arg(long, value_name = "FILE", default_value = "experiments/papers.toml")]
    papers: PathBuf,
}

impl ReportArgs {
    /// Returns these with the files that are meant by all.
    ///
    /// # Errors
    /// Names a record that cannot be read.
    fn with_all(&self) -> Result<Self, String> {
        let mut own = self.clone();
        if !self.all {
            return Ok(own);
        }
        let mut long = 0;
        for path in papers::records(papers::folder_of(&self.papers)) {
            let record = Record::read(&path)?;
            let mode = words_mode(&record.run);
            let is_long = mode == Mode::Sim && !self.quick && !self.long && record.is_long();
            let is_asked = if mode == Mode::Sim { !self.emu } else { !self.sim };
            match is_long {
                _ if !is_asked => {}
                true => long += 1,
                false => own.files.push(path),
            }
        }
        if long > 0 {
            tell(format_args!(
                "{long} records that take longer are left out: --long runs them too"
            ));
        }
        match own.files.is_empty() {
            true => Err(format!("--all: no records beside {}", self.papers.display())),
            false => Ok(own),
        }
    }
}

/// A recorded experiment: what to run, and what came of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// What it shows, in a line.
    pub(crate) title: String,
    /// Where in the paper, or in our own demands.
    pub(crate) source: String,
    /// What `fulmar-lab run` is given.
    #[serde(default)]
    pub(crate) run: Vec<String>,
    /// In place of it, a table that something else made.
    #[serde(default)]
    pairs: Option<Pairs>,
    /// What is run of it in a hurry.
    #[serde(default)]
    quick: Option<Quick>,
    /// When ours was recorded, and what made it.
    #[serde(default)]
    recorded: Option<Made>,
    /// Which of the paper's schemes each of ours is compared with, by the paper's name for it.
    #[serde(default)]
    paper_schemes: BTreeMap<String, String>,
    /// What to look at.
    pub(crate) figure: Vec<Figure>,
}

/// What is run of a file in a hurry.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Quick {
    /// All of it: it takes a moment.
    Whole(bool),
    /// A part: what `fulmar-lab run` is given then.
    Part(Vec<String>),
}

/// When the figures of a file were recorded, and by what.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Made {
    /// Year, month and day.
    date: String,
    /// The commit that was checked out, where the program could tell; `+` behind it says that
    /// files were changed beside it.
    commit: Option<String>,
    /// The hash of the sources that the figures come from; none where the history alone tells.
    code: Option<String>,
    /// What the versions are of the program and, where it can matter, of the kernel.
    #[serde(default)]
    versions: BTreeMap<String, String>,
    /// What the machine was, where it can matter.
    machine: Option<String>,
    /// How long it took there: of use beside the others', to tell how much is left.
    seconds: Option<f64>,
    /// Whether the commit was found afterwards, in the history: one with the same code or, where
    /// no code is known, the one that brought the figures, which gives the date as well.
    #[serde(default)]
    from_history: bool,
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
    /// What it says of that.
    #[serde(default)]
    paper_is: PaperIs,
    /// What it would be if there were nothing in the paper's claim: an interval that holds this and
    /// the paper's decides nothing.
    no_effect: Option<f64>,
    /// What we measured when the file was written.
    ours: Option<f64>,
    /// What it must not exceed.
    at_most: Option<f64>,
    /// What it must reach.
    at_least: Option<f64>,
    /// Why it does not: it is known, and is said each time, but is nothing new against the code.
    /// One that is reached is.
    unreached: Option<String>,
    /// Why it is not the paper's, where it is not.
    why: Option<String>,
    /// Why nothing that comes out can agree with the paper or differ from it.
    not_testable: Option<String>,
}

impl Figure {
    /// Returns the numbers that it has.
    fn numbers(&self) -> impl Iterator<Item = f64> {
        let all = [self.paper, self.no_effect, self.ours, self.at_most, self.at_least];
        all.into_iter().flatten()
    }

    /// Says what is wrong with its numbers and the reasons that it gives.
    fn fault(&self) -> Option<&'static str> {
        let is_wrong = |reason: &Option<String>, has_cause: bool| {
            reason.as_ref().is_some_and(|words| !has_cause || words.trim().is_empty())
        };
        let is_bound = self.at_most.or(self.at_least).is_some();
        let is_compared = self.paper.is_some() && self.not_testable.is_none();
        if is_wrong(&self.unreached, is_bound) {
            Some("`unreached` says why `at_most` or `at_least` of the same figure is not reached")
        } else if is_wrong(&self.why, is_compared) {
            Some(
                "`why` says why the figure is not that of `paper`, and goes without `not_testable`",
            )
        } else if is_wrong(&self.not_testable, true) {
            Some("`not_testable` says why")
        } else if !self.numbers().all(f64::is_finite) {
            Some("one of its numbers is none")
        } else {
            None
        }
    }
}

/// What a paper's figure is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PaperIs {
    /// What was measured.
    #[default]
    Measured,
    /// "Over": what was measured is more.
    Exceeded,
    /// "Under": what was measured is less.
    Undercut,
}

/// What a file has to be run, or read.
#[derive(Debug)]
pub(crate) enum Play {
    /// An experiment of the lab.
    Run(Box<Experiment>),
    /// A table.
    Read(PathBuf, Pairs),
}

/// What a run came to, as far as a record is concerned.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Outcome {
    mode: Mode,
    versions: Value,
    results: Vec<Value>,
    /// What no error of a figure accounts for.
    faults: Vec<String>,
    /// What the emulator says of itself.
    account: String,
    /// How long it took.
    seconds: f64,
}

impl Record {
    /// Reads a file.
    ///
    /// # Errors
    /// Names the file, and what is wrong with it.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        if path.extension().is_some_and(|end| end != "toml") {
            let record = path.with_extension("toml");
            let instead =
                if record.is_file() { record } else { "experiments/lrt/fig5.toml".into() };
            let instead = instead.display();
            return Err(format!(
                "{name}: no recorded experiment, which is a TOML file: try {instead}"
            ));
        }
        let text = fs::read_to_string(path).map_err(|error| format!("read {name}: {error}"))?;
        Self::of_text(&name.to_string(), &text)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The name, and what is wrong with it.
    fn of_text(name: &str, text: &str) -> Result<Self, String> {
        let record: Self = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        if record.run.is_empty() == record.pairs.is_none() {
            return Err(format!(
                "{name}: says either what is run (`run`) or which table is read (`pairs`)"
            ));
        }
        if record.recorded.as_ref().is_some_and(|made| made.code.is_none() && !made.from_history) {
            return Err(format!(
                "{name}: `recorded` has no `code`: say `from_history = true` where date and commit are the history's"
            ));
        }
        let fault = |figure: &Figure| {
            Some(format!("{name}: {} {}: {}", figure.scheme, figure.key, figure.fault()?))
        };
        match record.figure.iter().find_map(fault) {
            Some(why) => Err(why),
            None => Ok(record),
        }
    }

    /// Returns the experiment that the file describes, or the table that it names.
    ///
    /// # Errors
    /// What the command line has against its arguments.
    pub(crate) fn play(&self, path: &Path, is_quick: bool) -> Result<Play, String> {
        if let Some(pairs) = &self.pairs {
            let folder = path.parent().unwrap_or(Path::new("."));
            return Ok(Play::Read(folder.join(&pairs.file), pairs.clone()));
        }
        Experiment::parse(self.words(is_quick)).map(Box::new).map(Play::Run)
    }

    /// Returns what `fulmar-lab run` is given.
    fn words(&self, is_quick: bool) -> &[String] {
        match &self.quick {
            Some(Quick::Part(words)) if is_quick => words,
            _ => &self.run,
        }
    }

    /// Tells whether there is something to be run in a hurry.
    fn is_quick(&self) -> bool {
        self.quick.as_ref().is_some_and(|quick| !matches!(quick, Quick::Whole(false)))
    }

    /// Tells whether what is run in a hurry is a part, whose figures are others than those of the
    /// file.
    fn is_part(&self, is_quick: bool) -> bool {
        is_quick && matches!(self.quick, Some(Quick::Part(_)))
    }

    /// Tells whether it took long when it was recorded.
    fn is_long(&self) -> bool {
        let seconds = self.recorded.as_ref().and_then(|made| made.seconds);
        seconds.is_some_and(|seconds| seconds > LONG_S)
    }
}

/// Tells where what these words run takes place.
fn words_mode(words: &[String]) -> Mode {
    if words.iter().any(|word| word == "--emu") { Mode::Emu } else { Mode::Sim }
}

impl Play {
    /// Tells where it takes place.
    fn mode(&self) -> Mode {
        match self {
            Self::Run(experiment) => experiment.run_args().mode(),
            Self::Read(..) => Mode::Sim,
        }
    }
}

impl Outcome {
    /// Returns the part of a report that a record is concerned with.
    fn of(report: Report) -> Self {
        Self {
            mode: report.mode,
            versions: report.versions,
            results: report.results,
            faults: report.faults,
            account: report.audit_summary,
            seconds: 0.0,
        }
    }

    /// Makes what a table came to that was read.
    fn of_table(results: Vec<Value>) -> Self {
        Self {
            mode: Mode::Sim,
            versions: json!({"code": CODE}),
            results,
            faults: Vec::new(),
            account: String::new(),
            seconds: 0.0,
        }
    }

    /// Makes what a sound run came to.
    #[cfg(test)]
    fn sound(mode: Mode, results: Vec<Value>) -> Self {
        Self {
            mode,
            versions: Value::Null,
            results,
            faults: Vec::new(),
            account: String::new(),
            seconds: 0.0,
        }
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.date)?;
        let by = if self.from_history { " by the history" } else { "" };
        let commit = self.commit.as_ref().map(|commit| format!("{commit}{by}"));
        let more = [("code", &self.code), ("commit", &commit), ("on", &self.machine)];
        let more = more.into_iter().filter_map(|(what, value)| Some((what, value.as_ref()?)));
        let versions = self.versions.iter().map(|(what, version)| (&what[..], version));
        more.chain(versions).try_for_each(|(what, value)| write!(f, ", {what} {value}"))
    }
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

    /// Schemes that no paper has: a paper's figure beside one of them compares two things under one
    /// name.
    const OURS: [&str; 4] = ["fulmar", "min_rtt", "round_robin", "redundant"];

    /// Names what a file's figures can be of.
    fn schemes(play: &Play) -> Vec<String> {
        match play {
            Play::Run(experiment) => {
                let known = experiment.description();
                let schemes = known.sim.iter().chain(known.emu.iter());
                schemes.map(|scheme| scheme.name().to_owned()).collect()
            }
            Play::Read(path, pairs) => {
                let results = pairs.results(path).expect("a sound table");
                results.iter().filter_map(|one| Some(one["scheme"].as_str()?.to_owned())).collect()
            }
        }
    }

    #[test]
    fn recorded_experiments_can_be_run_and_kept_their_promises() {
        let files = files();
        assert!(files.len() >= 5, "{files:?}");
        for file in files {
            let record = Record::read(&file).expect("a sound file");
            let play = record.play(&file, false).unwrap_or_else(|why| panic!("{file:?}: {why}"));
            let known = schemes(&play);
            let made = record.recorded.as_ref().expect("it says what made it");
            assert!(made.commit.is_some(), "{file:?}: {made}");
            let named = |name: &String| {
                record.figure.iter().any(|it| it.paper.is_some() && it.scheme == *name)
            };
            assert!(record.paper_schemes.keys().all(named), "{file:?}: {:?}", record.paper_schemes);
            for figure in &record.figure {
                assert!(known.contains(&figure.scheme), "{file:?}: {figure:?}");
                let ours = figure.ours.expect("every figure was recorded");
                let is_ours = OURS.iter().any(|own| figure.scheme.starts_with(own));
                let wrong = figure.paper.is_some() && is_ours;
                assert!(!wrong, "{file:?}: a paper's figure beside another scheme's: {figure:?}");
                let is_named = record.paper_schemes.contains_key(&figure.scheme);
                assert!(is_named || figure.paper.is_none(), "{file:?}: of whom is {figure:?}?");
                let is_broken = figure.at_most.is_some_and(|limit| ours > limit)
                    || figure.at_least.is_some_and(|limit| ours < limit);
                assert_eq!(is_broken, figure.unreached.is_some(), "{file:?}: {figure:?}");
            }
        }
    }

    #[test]
    fn each_paper_has_something_that_is_run_in_a_hurry() {
        let files = files();
        for paper in ["asran", "conclone", "flowcode", "lrt"] {
            let mut own =
                files.iter().filter(|file| file.parent().is_some_and(|it| it.ends_with(paper)));
            let quick = own.any(|file| {
                let record = Record::read(file).expect("a sound file");
                let play = record.play(file, true).expect("a sound part");
                record.is_quick() && play.mode() == Mode::Sim
            });
            assert!(quick, "{paper}");
        }
    }

    #[test]
    fn what_is_no_record_is_told_from_one() {
        let table =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/asran/ns3-mobility.csv");
        let why = Record::read(&table).expect_err("a table");
        assert!(why.contains("ns3-mobility.toml"), "{why}");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("both.toml");
        fs::write(&path, "title = \"t\"\nsource = \"s\"\nfigure = []\n").expect("written");
        let why = Record::read(&path).expect_err("says nothing");
        assert!(why.contains("`run`") && why.contains("both.toml"), "{why}");
        let read = |made: &str, figure: &str| {
            let head = "title = \"t\"\nsource = \"s\"\nrun = [\"x\"]";
            let figure = format!("[[figure]]\nscheme = \"udp\"\nkey = \"lost\"\n{figure}\n");
            fs::write(&path, format!("{head}\n{made}\n{figure}")).expect("written");
            Record::read(&path).map(|record| record.recorded.map(|made| made.to_string()))
        };
        for (figure, what) in [
            ("at_most = 1\nunreached = \" \"", "unreached"),
            ("unreached = \"a hair\"", "unreached"),
            ("why = \"a hair\"", "why"),
            ("paper = 1\nnot_testable = \"a fit\"\nwhy = \"a hair\"", "why"),
            ("not_testable = \"\"", "not_testable"),
        ] {
            let why = read("", figure).expect_err("neither what nor why");
            assert!(why.contains(&format!("udp lost: `{what}`")), "{why}");
        }
        let made = "recorded = { date = \"2026-11-21\", commit = \"8cda8bbf304e\"";
        let why = read(&format!("{made} }}"), "").expect_err("made of what?");
        assert!(why.contains("both.toml: `recorded`") && why.contains("from_history"), "{why}");
        let told = read(&format!("{made}, from_history = true }}"), "").expect("sound");
        assert_eq!(told.as_deref(), Some("2026-11-21, commit 8cda8bbf304e by the history"));
    }
}
