//! Reads the file of an experiment, and tells every mistake in it with its line and key.
//!
//! A point of a sweep is the file with other values in it: it is read again for each, so that what
//! varies is checked as what is written, and what follows from it (outages that repeat) follows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use netem::Scenario;
use proto::ElasticRedundancy;
use serde_json::{Value, json};
use toml_keys::{Change, FileError, Mistake, Scalar, Section, did_you_mean};

use super::DESCRIPTION;
use super::columns::{self, Columns};
use super::elastic;
use super::streams::{self, Streams};
use super::sweep::{self, Over, Point, Sweep};
use crate::arguments::parse_seeds;
use crate::report::Mode;
use crate::scenario_file::check_hosts;
use crate::scheme::Scheme;

/// Sections of a scenario, in a file that has its links itself.
const OF_SCENARIO: [&str; 6] = ["host", "link", "broadcast", "medium", "group", "neighbours"];
/// The sections of a link's directions, the last two by names of old.
const DIRECTIONS: [&str; 4] = ["from_drone", "from_station", "up", "down"];
/// What a direction has beside what the link has.
const ADDS_UP: &str = "outage";
/// The longest run.
const SECONDS_MAX: f64 = 3_600.0;
/// How long a run lasts whose links are in the file, unless it says so.
const SECONDS: f64 = 60.0;
/// The most seeds of a run.
const SEEDS_MAX: u64 = 10_000;
/// The most packets of a run and direction: they are kept in memory with what became of them.
const PACKETS_MAX: f64 = 1e7;

/// What a file asks for.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// What reports call it.
    pub(super) name: String,
    /// The links.
    pub(super) scenario: Scenario,
    /// What is sent.
    pub(super) streams: Streams,
    /// Constants of message delivery's redundancy, where the file has any.
    pub(super) elastic: Option<ElasticRedundancy>,
    /// Empty: those that `mixed-blackout` runs.
    pub(super) schemes: Vec<Scheme>,
    /// First and last, where the file has any.
    pub(super) seeds: Option<(u64, u64)>,
    /// Keys and titles of the table.
    pub(super) columns: Columns,
    /// Whether the file names them.
    pub(super) are_asked: bool,
    /// What varies.
    pub(super) sweeps: Vec<Sweep>,
    over: Over,
}

impl Plan {
    /// Returns where it is run: every combination of what varies, or the points that were given.
    pub(super) fn points(&self) -> Vec<Point> {
        self.over.points(&self.sweeps)
    }
}

/// Reads the text of a file that the file of an experiment names.
pub(super) type ReadFile = Arc<dyn Fn(&Path) -> Result<String, String> + Send + Sync>;

/// A file, and the life that it is run in.
pub(super) struct Source {
    text: String,
    files: ReadFile,
    path: PathBuf,
    /// The life that must have the file's schemes; none where others are run.
    mode: Option<Mode>,
    /// Whether its links are in a file of their own.
    is_beside: bool,
    /// What varies beside, or in place of, what the file says.
    over: Over,
}

impl Source {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn open(path: &Path, mode: Option<Mode>) -> Result<Self, String> {
        Ok(Self::new(read_file(path)?, path, mode, Arc::new(read_file)))
    }

    pub(super) fn new(text: String, path: &Path, mode: Option<Mode>, files: ReadFile) -> Self {
        let has_scenario = |table: toml::Table| table.contains_key("scenario");
        let is_beside = text.parse().is_ok_and(has_scenario);
        Self { text, files, path: path.to_owned(), mode, is_beside, over: Over::default() }
    }

    /// The same file, varied as is said beside it.
    pub(super) fn over(self, over: Over) -> Self {
        Self { over, ..self }
    }

    /// Returns all that the file says, for the report.
    pub(super) fn contents(&self) -> Value {
        json!(self.text.parse::<toml::Table>().unwrap_or_default())
    }

    /// Reads what the file asks for, and tries every point of it.
    ///
    /// # Errors
    /// Every mistake in the file with its line and key, in its scenario, and in what varies.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        let mut sweeps = Vec::new();
        let plan = self.read(&[], &mut sweeps);
        let known = plan.as_ref().map_or_else(|error| &error.mistakes[..], |_| &[]);
        let mut mistakes: Vec<Mistake> = known.to_vec();
        mistakes.extend(sweeps.iter().flat_map(|sweep| self.mistakes_of(sweep, known)));
        let links = self.links();
        mistakes.extend(sweeps.iter().filter_map(|sweep| mistake_of_direction(&links, sweep)));
        if mistakes.is_empty() && sweeps.len() > 1 {
            mistakes.extend(self.mistake_together(&sweeps));
        }
        match plan {
            Ok(plan) if mistakes.is_empty() => Ok(plan),
            _ => {
                mistakes.sort_by_key(|mistake| mistake.line);
                Err(FileError { file: self.name(), mistakes }.to_string())
            }
        }
    }

    /// Reads what the file asks for at a point.
    ///
    /// # Errors
    /// What is wrong there; nothing that was not wrong when the plan was read, unless files
    /// changed.
    pub(super) fn at(&self, point: &Point) -> Result<Plan, String> {
        self.read(&point.0, &mut Vec::new()).map_err(|error| error.to_string())
    }

    /// Reads the file with changes; `sweeps` are filled in even where it has mistakes.
    fn read(&self, changes: &[Change], sweeps: &mut Vec<Sweep>) -> Result<Plan, FileError> {
        let of_scenario = |change: &Change| {
            let section = change.key.split('.').next().unwrap_or_default();
            self.is_beside && OF_SCENARIO.contains(&section)
        };
        let (links, own): (Vec<Change>, Vec<Change>) =
            changes.iter().cloned().partition(of_scenario);
        toml_keys::read_changed(&self.text, &self.name(), &own, |root| {
            self.whole(root, links, sweeps)
        })
    }

    /// Says that daemons have no keys for what the file sets or varies.
    ///
    /// # Errors
    /// Where it does.
    pub(super) fn check_daemons_have(&self, plan: &Plan) -> Result<(), String> {
        let varies = |sweep: &Sweep| sweep.key.split('.').next() == Some(elastic::ELASTIC);
        let line = plan.sweeps.iter().find(|sweep| varies(sweep)).map(|sweep| sweep.lines[0]);
        let table = || self.text.lines().position(|line| line.trim() == "[elastic]");
        let line = match (line, plan.elastic) {
            (None, None) => return Ok(()),
            (line, _) => line.or_else(|| Some(table()? + 1)).unwrap_or(1),
        };
        let what = "needs --sim: daemons have the constants that they were built with".to_owned();
        let mistakes = vec![Mistake { line, key: elastic::ELASTIC.to_owned(), what }];
        Err(FileError { file: self.name(), mistakes }.to_string())
    }

    /// Reads every key.
    fn whole(
        &self,
        root: &Section<'_>,
        links: Vec<Change>,
        sweeps: &mut Vec<Sweep>,
    ) -> Option<Plan> {
        let stem = self.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("file");
        let name = root.text("name").unwrap_or(stem).to_owned();
        let seconds = root.fraction("seconds", 0.1..=SECONDS_MAX);
        let scenario = self.scenario(root, (&name, seconds), links);
        let mut streams = streams::read(root);
        let elastic = elastic::read(root);
        let schemes = schemes(root, self.mode);
        let seeds = root.text("seeds").and_then(|text| seeds(root, text));
        *sweeps = sweep::read(root, &self.over);
        if root.is_empty_list("schemes") {
            root.wrong("schemes", "is empty: name some, or leave it out for the usual ones");
        }
        let (mut columns, are_asked) = columns::read(root, &streams);
        let swept = sweeps.iter().map(|sweep| (sweep.key.clone(), sweep.key.clone()));
        columns.splice(1..1, swept.collect::<Vec<_>>());
        let scenario = scenario?;
        streams.workload.seconds = scenario.seconds;
        check_size(root, &streams);
        let sweeps = sweeps.clone();
        let varies = sweeps.iter().any(Sweep::is_of_scene);
        let over = self.over.clone();
        let plan = Plan {
            name,
            scenario,
            streams,
            elastic,
            schemes,
            seeds,
            columns,
            are_asked,
            sweeps,
            over,
        };
        if are_asked {
            let scene = (!varies).then(|| plan.scene());
            columns::check(root, &plan.columns, &plan.schemes, scene.as_ref());
        }
        Some(plan)
    }

    /// Reads the links: from the file that this one names, relative to it, or from this one.
    fn scenario(
        &self,
        root: &Section<'_>,
        (name, seconds): (&str, Option<f64>),
        mut changes: Vec<Change>,
    ) -> Option<Scenario> {
        let there: Vec<&str> = OF_SCENARIO.into_iter().filter(|key| root.has(key)).collect();
        let scenario = if root.has("scenario") {
            for key in there {
                let line = root.line("scenario");
                let what = format!(
                    "not together with scenario, line {line}, whose file has the links: leave one out"
                );
                root.wrong(key, what);
            }
            let value = seconds.map(Scalar::Number);
            changes.extend(value.map(|value| Change { key: "seconds".to_owned(), value }));
            match self.beside(root.text("scenario")?, &changes) {
                Ok(scenario) => scenario,
                Err(mistakes) => {
                    mistakes.into_iter().for_each(|mistake| root.wrong("scenario", mistake));
                    return None;
                }
            }
        } else if there.is_empty() {
            let what = "is missing: name a scenario file, or write the links here, as [[host]] and \
                        [[link]]";
            root.wrong("scenario", what);
            return None;
        } else {
            let seconds = seconds.unwrap_or(SECONDS);
            let scenario =
                Scenario::from_section(root, name, seconds, &mut self.traces(&self.path));
            check_ends(root, &scenario);
            scenario
        };
        let key = if root.has("scenario") { "scenario" } else { "link" };
        if scenario.seconds > SECONDS_MAX {
            let what = format!("lasts {} s: say seconds, {SECONDS_MAX} at most", scenario.seconds);
            root.wrong(key, what);
        }
        Some(scenario)
    }

    /// Reads the scenario that this file names; its mistakes, one line each, where it has any.
    fn beside(&self, name: &str, changes: &[Change]) -> Result<Scenario, Vec<String>> {
        let path = self.beside_path(name);
        let text = (self.files)(&path).map_err(|error| vec![error])?;
        let (shown, traces) = (path.display().to_string(), &mut self.traces(&path));
        let scenario = Scenario::from_toml_changed(&text, &shown, changes, traces)
            .map_err(|error| error.lines())?;
        check_hosts(&scenario).map_err(|wrong| vec![wrong.located(&text, &shown)])?;
        Ok(scenario)
    }

    fn beside_path(&self, name: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(name)
    }

    /// Returns what reads the traces that a file names, relative to its directory.
    fn traces(&self, of: &Path) -> impl FnMut(&str) -> Result<String, String> + use<> {
        let directory = of.parent().unwrap_or(Path::new("")).to_owned();
        let files = Arc::clone(&self.files);
        move |trace| files(&directory.join(trace))
    }

    /// Returns the text that has the links.
    fn links(&self) -> String {
        let named = || {
            let table: toml::Table = self.text.parse().ok()?;
            (self.files)(&self.beside_path(table.get("scenario")?.as_str()?)).ok()
        };
        if self.is_beside { named().unwrap_or_default() } else { self.text.clone() }
    }

    /// Says what is wrong with the values of a sweep, each by itself, that was not wrong before;
    /// once, where it is the same with all of them.
    fn mistakes_of(&self, sweep: &Sweep, known: &[Mistake]) -> Vec<Mistake> {
        let mut found = Vec::new();
        for value in &sweep.values {
            let change = sweep.change(value);
            let Err(error) = self.read(&[change], &mut Vec::new()) else { continue };
            let new = || error.mistakes.iter().filter(|mistake| !known.contains(mistake));
            // A scenario has several; what follows from another mistake would only hide that.
            let of_first =
                new().filter(|mistake| new().next().is_some_and(|one| one.key == mistake.key));
            found.extend(of_first.map(|mistake| (value, mistake.clone())));
        }
        let [key_line, values_line] = sweep.lines;
        let told = |line, key, what| Mistake { line, key: format!("{}.{key}", sweep.name), what };
        let say = |mistake: &Mistake| {
            let (section, what) = (&mistake.key, &mistake.what);
            let last = sweep.key.rsplit('.').next().unwrap_or_default();
            let is_same = section.rsplit('.').next() == Some(last);
            if is_same { format!("{}: {what}", sweep.key) } else { format!("{section}: {what}") }
        };
        if let [(_, first), rest @ ..] = &found[..]
            && found.len() == sweep.values.len()
            && rest.iter().all(|(_, mistake)| mistake.what == first.what)
        {
            return vec![told(key_line, "key", say(first))];
        }
        let each = |(value, mistake): &(&Scalar, Mistake)| {
            told(values_line, "values", format!("{value}: {}", say(mistake)))
        };
        found.iter().map(each).collect()
    }

    /// Says what is wrong with a combination of values each of which is fine by itself.
    fn mistake_together(&self, sweeps: &[Sweep]) -> Option<Mistake> {
        self.over.points(sweeps).iter().find_map(|point| {
            let error = self.read(&point.0, &mut Vec::new()).err()?;
            let (first, name) = (error.mistakes.first()?, point.name());
            let what = format!("at {name}: {}: {}", first.key, first.what);
            Some(Mistake { line: sweeps[0].lines[1], key: "sweep".to_owned(), what })
        })
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// Reads the text of a file.
pub(super) fn read_file(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("read {}: {error}", path.display()))
}

/// Reports links that are not between drone and station, where they stand in this file.
fn check_ends(root: &Section<'_>, scenario: &Scenario) {
    let links = root.sections("link");
    // Links that could not be read have their own mistakes.
    if scenario.link_count() == 0 && !links.is_empty() {
        return;
    }
    let Err(wrong) = check_hosts(scenario) else { return };
    let is_it =
        |link: &Section<'_>| wrong.link.as_deref().is_some_and(|name| link.is_text("name", name));
    match links.into_iter().find(is_it) {
        Some(mut link) => {
            link.call(wrong.link.as_deref().unwrap_or_default());
            link.wrong("between", wrong.what);
        }
        None => root.wrong(if root.has("broadcast") { "broadcast" } else { "link" }, wrong.what),
    }
}

/// Says that a sweep varies a key of a link that one of its directions sets itself: that direction
/// would not vary.
fn mistake_of_direction(links: &str, sweep: &Sweep) -> Option<Mistake> {
    let mut found = None;
    // What is wrong with the links has been told.
    let _ = toml_keys::read(links, "", |root| {
        found = own_of_direction(root, &sweep.key);
        Some(())
    });
    Some(Mistake { line: sweep.lines[0], key: format!("{}.key", sweep.name), what: found? })
}

fn own_of_direction(root: &Section<'_>, key: &str) -> Option<String> {
    let (name, rest) = key.strip_prefix("link.")?.split_once('.')?;
    let own = rest.split('.').next().filter(|own| *own != ADDS_UP)?;
    let links = root.sections("link");
    let place = links.iter().position(|link| link.is_text("name", name));
    let link = links.get(place.or_else(|| name.parse().ok())?)?;
    DIRECTIONS.iter().find_map(|direction| {
        let section = link.section(direction).filter(|section| section.has(own))?;
        let line = section.line(own);
        Some(format!(
            "{key} would vary nothing in {direction}, which has {own} itself in line {line}: vary \
             link.{name}.{direction}.{rest}"
        ))
    })
}

/// Reads the schemes, each of which must exist in the life that it is to run in.
fn schemes(root: &Section<'_>, mode: Option<Mode>) -> Vec<Scheme> {
    let [sim, emu] =
        [DESCRIPTION.sim, DESCRIPTION.emu].map(|known| known.iter().collect::<Vec<_>>());
    let (known, option) = match mode {
        Some(Mode::Sim) => (sim.clone(), "--emu"),
        Some(Mode::Emu) => (emu.clone(), "--sim"),
        None => {
            let others = emu.iter().filter(|scheme| !sim.contains(scheme));
            (sim.iter().chain(others).copied().collect(), "")
        }
    };
    let mut schemes = Vec::new();
    let asked: Vec<String> = root.list("schemes", "the name of a scheme");
    for name in &asked {
        match Scheme::from_str(name, false).ok() {
            Some(scheme) if schemes.contains(&scheme) => {
                root.wrong("schemes", format!("{name:?} is there twice"));
            }
            Some(scheme) if known.contains(&scheme) => schemes.push(scheme),
            Some(scheme) if sim.contains(&scheme) || emu.contains(&scheme) => {
                root.wrong("schemes", format!("{name:?} cannot be had here: it needs {option}"));
            }
            _ => {
                let names: Vec<&str> = known.iter().map(|scheme| scheme.name()).collect();
                let (all, meant) = (names.join(", "), did_you_mean(name, &names));
                root.wrong("schemes", format!("{name:?} is none of {all}{meant}"));
            }
        }
    }
    schemes
}

fn seeds(root: &Section<'_>, text: &str) -> Option<(u64, u64)> {
    match parse_seeds(text) {
        Ok((first, last)) if last - first < SEEDS_MAX => return Some((first, last)),
        Ok((first, last)) => {
            let count = u128::from(last - first) + 1;
            root.wrong("seeds", format!("{count} seeds are more than {SEEDS_MAX}"));
        }
        Err(what) => root.wrong("seeds", what),
    }
    None
}

/// Reports streams that would not fit into memory.
fn check_size(root: &Section<'_>, streams: &Streams) {
    let packets = streams.workload.packets_per_second() * streams.workload.seconds;
    if packets > PACKETS_MAX {
        let what = format!("{packets:.0} packets in one direction are more than {PACKETS_MAX}");
        root.wrong("stream", what);
    }
}
