//! What other languages call: the package in python/ stands on this alone.
//!
//! Texts go in and out, as on the command line: an experiment's TOML, names and options, JSON with
//! the figures. What has millions of rows, messages and packets, comes as columns. Everything here
//! runs in virtual time, on the calling thread, and depends on its arguments alone; panics become
//! errors.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use clap::error::ErrorKind;
use clap::{FromArgMatches, Subcommand};
use emulator::Failure;
use serde_json::{Map, Value};
use toml_keys::Scalar;

use crate::experiment::Experiment;
use crate::experiment::file::Over;
pub use crate::experiment::streams::detail::{Detail, Messages, Packets};
use crate::report::Mode;
use crate::scheme::Scheme;
use crate::sweep::{self, Folder, Plan, Task};

/// The hash of the sources that figures come from: results of two programs with the same hash can
/// be put together.
pub const CODE: &str = sweep::CODE;
/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An experiment has no option of this name.
    UnknownOption(String),
    /// What was asked for cannot be: says what, where (file, line, key) and what to do.
    Input(String),
    /// It was tried and failed.
    Failed(String),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Usage(why) => Self::Input(why),
            Failure::Failed(why) => Self::Failed(why),
        }
    }
}

/// A point or several of an experiment: by lists, or one by one.
#[derive(Clone, Debug)]
pub enum Points<'a> {
    /// Every combination of the values of keys; of none, what the file says.
    Product(&'a [(String, Value)]),
    /// Objects of keys and values, all with the same keys.
    Each(&'a [Map<String, Value>]),
}

/// An experiment's file at some points and with some seeds: what `fulmar-lab sweep` runs.
pub struct Sweep(Plan);

impl Sweep {
    /// Reads a file and what it names, and tries every point.
    ///
    /// # Errors
    /// Every mistake in the file and in what varies, with file, line and key.
    pub fn open(
        path: &Path,
        points: &Points<'_>,
        seeds: Option<(u64, u64)>,
        schemes: &[String],
    ) -> Result<Self, Error> {
        guarded(|| {
            let over = over(points).map_err(Error::Input)?;
            let schemes = schemes_of(schemes)?;
            Plan::open(path, over, checked(seeds)?, &schemes).map(Self).map_err(Error::Input)
        })
    }

    /// Reads the same from a text; what it names is looked for from `path`'s folder on.
    ///
    /// # Errors
    /// As [`Sweep::open`].
    pub fn of_text(
        text: &str,
        path: &Path,
        points: &Points<'_>,
        seeds: Option<(u64, u64)>,
        schemes: &[String],
    ) -> Result<Self, Error> {
        guarded(|| {
            let over = over(points).map_err(Error::Input)?;
            let schemes = schemes_of(schemes)?;
            let plan = Plan::of_text(text, path, over, checked(seeds)?, &schemes);
            plan.map(Self).map_err(Error::Input)
        })
    }

    /// Makes the sweep that [`Sweep::description`] tells of, where the files are not.
    ///
    /// # Errors
    /// When it is of other code, or no description.
    pub fn of_description(text: &str) -> Result<Self, Error> {
        guarded(|| {
            let description: Value = serde_json::from_str(text)
                .map_err(|error| Error::Input(format!("description of a sweep: {error}")))?;
            Plan::of_description(&description).map(Self).map_err(Error::Input)
        })
    }

    /// Returns all that is needed to run it elsewhere, as JSON: what sweep.json in a folder of
    /// results holds.
    pub fn description(&self) -> String {
        self.0.description().to_string()
    }

    /// Returns the hash of what is run, and by which code.
    pub fn hash(&self) -> &str {
        self.0.hash()
    }

    /// Returns what the file calls the experiment.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns the first and the last seed.
    pub fn seeds(&self) -> (u64, u64) {
        self.0.seeds()
    }

    /// Returns the names of the schemes that run at every point.
    pub fn schemes(&self) -> Vec<&'static str> {
        self.0.schemes().iter().map(|scheme| scheme.name()).collect()
    }

    /// Returns the values of every point: a JSON list of objects.
    pub fn points(&self) -> String {
        let points = (0..self.0.point_count()).filter_map(|number| self.0.point(number));
        points.map(|point| point.values()).collect::<Value>().to_string()
    }

    /// Returns how many points there are.
    pub fn point_count(&self) -> u64 {
        self.0.point_count()
    }

    /// Runs a point, or all where none is given, with a seed, or with all, whose samples are pooled
    /// as `fulmar-lab run` pools them; returns a JSON list with an object of figures for each point
    /// and scheme.
    ///
    /// # Errors
    /// When there is no such point or seed, or a scheme needs a real kernel.
    pub fn run(&self, point: Option<u64>, seed: Option<u64>) -> Result<String, Error> {
        let results = guarded(|| self.0.run_pooled(point, seed).map_err(Error::Failed))?;
        Ok(Value::from(results).to_string())
    }

    /// Runs a point with a seed under one scheme; returns what became of each message and each
    /// packet.
    ///
    /// # Errors
    /// As [`Sweep::run`]; when the scheme is unknown.
    pub fn detail(&self, point: u64, seed: u64, scheme: &str) -> Result<Detail, Error> {
        let scheme = schemes_of(&[scheme.to_owned()])?[0];
        guarded(|| self.0.detail(Task { point, seed }, scheme).map_err(Error::Failed))
    }

    /// Runs a point with a seed; returns the bytes of its file of results (Parquet).
    ///
    /// # Errors
    /// As [`Sweep::run`].
    pub fn run_to_parquet(&self, point: u64, seed: u64) -> Result<Vec<u8>, Error> {
        sweep::one(&self.0, Task { point, seed }).map_err(Error::Failed)
    }
}

/// A folder of a sweep's results, as `fulmar-lab sweep --out` makes it.
pub struct Results(Folder);

impl Results {
    /// Makes the folder, or takes one that holds the same sweep.
    ///
    /// # Errors
    /// When it cannot be written, or holds another sweep: says in what they differ.
    pub fn open(path: &Path, sweep: &Sweep) -> Result<Self, Error> {
        guarded(|| Folder::open(path, &sweep.0).map(Self).map_err(Error::Input))
    }

    /// Returns points and seeds whose results are not there yet, in their order.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn missing(&self, sweep: &Sweep) -> Result<Vec<(u64, u64)>, Error> {
        let tasks: Vec<Task> = sweep.0.tasks().collect();
        let done = self.0.done(&tasks).map_err(Error::Failed)?;
        let rest = tasks.into_iter().filter(|task| !done.contains(task));
        Ok(rest.map(|task| (task.point, task.seed)).collect())
    }

    /// Puts the results of a point and a seed in their place, whole or not at all.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn keep(&self, (point, seed): (u64, u64), bytes: &[u8]) -> Result<(), Error> {
        self.0.keep(Task { point, seed }, bytes).map_err(Error::Failed)
    }

    /// Notes why a point failed with a seed.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn keep_failure(
        &self,
        sweep: &Sweep,
        (point, seed): (u64, u64),
        why: &str,
    ) -> Result<(), Error> {
        self.0.keep_failure(&sweep.0, Task { point, seed }, why).map_err(Error::Failed)
    }
}

/// Runs an experiment by its name, with the words that `fulmar-lab run` takes behind it (`--loss`,
/// `0.05`); returns the report that `--sim --json` prints.
///
/// # Errors
/// When there is no such experiment or option, and whatever the experiment says.
pub fn run(experiment: &str, words: &[String]) -> Result<String, Error> {
    guarded(|| {
        let file = Path::new(experiment).extension().is_some_and(|end| end == "toml");
        let named = if file { vec!["file", experiment] } else { vec![experiment] };
        let all = named.into_iter().chain(["--sim"]).chain(words.iter().map(String::as_str));
        let command = clap::Command::new("fulmar.run").no_binary_name(true);
        let command = Experiment::augment_subcommands(command.subcommand_required(true));
        let matches = command.try_get_matches_from(all);
        let parsed = matches.and_then(|matches| Experiment::from_arg_matches(&matches));
        let experiment = parsed.map_err(|error| match error.kind() {
            ErrorKind::UnknownArgument => Error::UnknownOption(first_lines(&error)),
            _ => Error::Input(first_lines(&error)),
        })?;
        if experiment.run_args().mode() == Mode::Emu {
            return Err(Error::Input(
                "emu: real time is the command line's: fulmar-lab run".into(),
            ));
        }
        let report = experiment.run()?;
        serde_json::to_string(&report).map_err(|error| Error::Failed(error.to_string()))
    })
}

/// Returns what can be run, with schemes and figures: what `fulmar-lab list --json` prints.
pub fn experiments() -> String {
    crate::experiments().to_string()
}

/// Reads a scenario's file, and the traces that it names.
///
/// # Errors
/// Every mistake, with file, line and key.
pub fn scenario(path: &Path) -> Result<netem::Scenario, Error> {
    guarded(|| emulator::read_scenario(path).map_err(Error::Input))
}

/// Does what a command line says, `fulmar-lab` and its words; returns the exit code.
pub fn main(words: Vec<OsString>) -> u8 {
    let code = crate::main_with(words);
    (0..=2).find(|known| std::process::ExitCode::from(*known) == code).unwrap_or(1)
}

/// Returns what `of` does; a panic is an error.
fn guarded<T>(of: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // What is handed in is not used again after an error.
    catch_unwind(AssertUnwindSafe(of)).unwrap_or_else(|panic| {
        Err(Error::Failed(format!("panicked: {}", sweep::words_of(panic.as_ref()))))
    })
}

fn checked(seeds: Option<(u64, u64)>) -> Result<Option<(u64, u64)>, Error> {
    match seeds {
        Some((first, last)) if first > last => Err(Error::Input(format!(
            "seeds: from {first} to {last}: the first is beyond the last"
        ))),
        seeds => Ok(seeds),
    }
}

fn schemes_of(names: &[String]) -> Result<Vec<Scheme>, Error> {
    let known = <Scheme as clap::ValueEnum>::value_variants;
    let scheme = |name: &String| {
        <Scheme as clap::ValueEnum>::from_str(name, false).map_err(|_| {
            let names: Vec<&str> = known().iter().map(|scheme| scheme.name()).collect();
            Error::Input(format!("schemes: there is no {name:?}; there are {}", names.join(", ")))
        })
    };
    names.iter().map(scheme).collect()
}

fn over(points: &Points<'_>) -> Result<Over, String> {
    let value = |key: &str, value: &Value| -> Result<Scalar, String> {
        sweep::scalar(value)
            .ok_or_else(|| format!("over: {key}: {value} is no number, text or flag"))
    };
    match points {
        Points::Product(keys) => {
            let list = |(key, values): &(String, Value)| {
                let Some(values) = values.as_array().filter(|values| !values.is_empty()) else {
                    return Err(format!("over: {key}: {values} is no list of values"));
                };
                let values = values.iter().map(|one| value(key, one)).collect::<Result<_, _>>()?;
                Ok((key.clone(), values))
            };
            Ok(Over::Product(keys.iter().map(list).collect::<Result<_, _>>()?))
        }
        Points::Each(points) => sweep::points_of(points).map_err(|what| format!("points: {what}")),
    }
}

/// Returns what clap says, without its usage and its tip to ask for help.
fn first_lines(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    let text = text.split("\n\nFor more information").next().unwrap_or_default();
    text.trim_start_matches("error: ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_that_of_the_command_line_and_mistakes_are_told_apart() {
        let words = ["--loss", "0.05", "--seconds", "2"].map(str::to_owned);
        match run("lrt-tcp", &["--los".to_owned()]) {
            Err(Error::UnknownOption(why)) => assert!(why.contains("--los"), "{why}"),
            other => panic!("{other:?}"),
        }
        match run("lrt-tpc", &words) {
            Err(Error::Input(why)) => assert!(why.contains("lrt-tpc"), "{why}"),
            other => panic!("{other:?}"),
        }
        let missing = Sweep::open(Path::new("none.toml"), &Points::Product(&[]), None, &[]);
        assert!(matches!(missing, Err(Error::Input(why)) if why.contains("none.toml")));
    }

    #[test]
    fn panic_is_an_error_with_its_words() {
        let outcome: Result<(), Error> = guarded(|| panic!("on purpose"));
        assert_eq!(outcome, Err(Error::Failed("panicked: on purpose".to_owned())));
    }
}
