//! `run FILE.toml`: an experiment without Rust, with the traffic and the figures of
//! `mixed-blackout`.
//!
//! `read.rs` reads the file, with its streams (`streams.rs`), the columns of its table
//! (`columns.rs`) and what varies (`sweep.rs`); what is run and measured is `play.rs`.

mod columns;
mod elastic;
mod read;
mod streams;
mod study;
mod sweep;

use std::path::{Path, PathBuf};
#[cfg(any(fuzzing, test))]
use std::sync::Arc;

use clap::Args;
use emulator::Failure;
use serde_json::{Value, json};

use super::Description;
use crate::arguments::{RecordArgs, RunArgs, seeds_shown};
use crate::chart::{Sample, Swept};
use crate::doubt::rankings_in_doubt;
use crate::experiment::streams::blackout::Blackout;
#[cfg(fuzzing)]
use crate::experiment::streams::blackout::SCENARIO;
use crate::experiment::streams::mixed_blackout;
use crate::experiment::streams::play::play;
use crate::report::{Mode, Report, merged};
use read::{Plan, Source};
use streams::KINDS;
pub(crate) use study::{Inputs, Study};
pub(crate) use sweep::{Over, Point};
use sys::print::tell;

/// Describes what files are, unless they say otherwise.
pub(super) const DESCRIPTION: Description =
    Description { experiment: "file", ..mixed_blackout::DESCRIPTION };

/// The arguments of an experiment in a file; they go before what the file says.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = help())]
pub(crate) struct FileArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// The file, as docs/experiments.md describes it.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    #[command(flatten)]
    records: RecordArgs,
}

/// Runs the experiment of a file, once for each point of its sweeps.
pub(super) fn run(args: &FileArgs) -> Result<Report, Failure> {
    let mode = args.run.mode();
    let life = args.run.schemes.is_empty().then_some(mode);
    let source = Source::open(&args.file, life).map_err(Failure::Usage)?;
    let plan = source.plan().map_err(Failure::Usage)?;
    if mode == Mode::Emu {
        source.check_daemons_have(&plan).map_err(Failure::Usage)?;
    }
    warn_of_overridden(&plan, args);
    let (first, last) = args.run.given_seeds().or(plan.seeds).unwrap_or(args.run.seeds());
    let known = match mode {
        Mode::Sim => DESCRIPTION.sim,
        Mode::Emu => DESCRIPTION.emu,
    };
    let schemes = match (&args.run.schemes[..], &plan.schemes[..]) {
        ([], [_, ..]) => plan.schemes.iter().copied().chain(args.run.own_schemes()?).collect(),
        _ => args.run.schemes(known)?,
    };
    let recording = args.run.recording()?;
    let (mut results, mut audits, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    let points = plan.points();
    for (point, folder) in points.iter().zip(sweep::folders(&points)) {
        let here = source.at(point).map_err(Failure::Usage)?;
        let out = args.run.out.as_ref().map(|directory| directory.join(&folder));
        let name = format!("{} {}", plan.name, point.name());
        let records = args.records.record.as_ref().map(|directory| directory.join(folder));
        let played = play(
            name.trim_end(),
            &Blackout { records, ..here.scene() },
            &schemes,
            (mode, (first, last)),
            &recording,
            out.as_deref(),
        )?;
        let finish = |result| at_point(point, plan.with_asked(here.without_absent(result)));
        let finished: Vec<Value> = played.results.into_iter().map(finish).collect();
        samples.extend(finished.iter().flat_map(|result| point.samples(result)));
        results.extend(finished);
        audits.extend(played.audit);
    }
    if let Some(directory) = &args.run.out {
        draw(&plan, (mode, (first, last)), &samples, directory)?;
    }
    let parameters = merged([plan.parameters(), plan.run_with(&source)]);
    let mut report = match mode {
        Mode::Sim => Report::sim(plan.name, (first, last), parameters, results),
        Mode::Emu => {
            let point: Vec<&str> = plan.sweeps.iter().map(|sweep| &sweep.key[..]).collect();
            let doubts = rankings_in_doubt(&results, &plan.columns, &point);
            Report::emu(plan.name, first, parameters, &audits, doubts, results)
        }
    };
    (report.columns, report.shows_empty) = (Some(plan.columns), plan.are_asked);
    Ok(report)
}

/// Reads a text as if it were a file, as far as it can be read without running it.
///
/// # Errors
/// Every mistake in it.
#[cfg(fuzzing)]
pub(crate) fn try_text(text: &str) -> Result<(), String> {
    let mode = text.len().is_multiple_of(2).then_some(Mode::Sim);
    let beside = |path: &std::path::Path| match path.file_name().and_then(|name| name.to_str()) {
        Some("mixed-blackout.toml") => Ok(SCENARIO.to_owned()),
        _ => Err("read: there is no such file".to_owned()),
    };
    let source = Source::new(text.to_owned(), "fuzz.toml".as_ref(), mode, Arc::new(beside));
    let plan = source.plan()?;
    for point in plan.points() {
        let here = source.at(&point).expect("what could be had in the plan");
        let result = here.without_absent(json!({"control_lost": 1}));
        at_point(&point, plan.with_asked(result));
    }
    merged([plan.parameters(), plan.run_with(&source)]);
    Ok(())
}

/// Draws what varies, where anything does.
fn draw(
    plan: &Plan,
    (mode, seeds): (Mode, (u64, u64)),
    samples: &[Sample],
    directory: &Path,
) -> Result<(), String> {
    let made = match mode {
        Mode::Sim => format!("In the deterministic world, {}", seeds_shown(seeds)),
        Mode::Emu => format!("Real daemons and kernel, emulated links, seed {}", seeds.0),
    };
    let keys = plan.sweeps.iter().map(|sweep| sweep.key.clone()).collect();
    let swept = Swept { name: &plan.name, made: &made, keys, columns: &plan.columns, samples };
    for picture in swept.draw(directory)? {
        tell(format_args!("picture: {}", picture.display()));
    }
    Ok(())
}

/// Warns of what the file says and options override.
fn warn_of_overridden(plan: &Plan, args: &FileArgs) {
    let file = args.file.display();
    match (plan.seeds, args.run.given_seeds()) {
        (Some(of_file), Some(given)) if of_file != given => {
            let (given, of_file) = (seeds_shown(given), seeds_shown(of_file));
            tell(format_args!(
                "{file}: seeds: {of_file} of the file are not run: the options say {given}"
            ));
        }
        (Some((first, last)), None) if first != last && args.run.mode() == Mode::Emu => {
            tell(format_args!("{file}: seeds: --emu runs the first alone, {first}"));
        }
        _ => {}
    }
    let given = &args.run.schemes;
    if !plan.schemes.is_empty() && !given.is_empty() && plan.schemes != *given {
        tell(format_args!("{file}: schemes: those of --schemes are run, not those of the file"));
    }
}

impl Plan {
    /// Makes the scene.
    fn scene(&self) -> Blackout {
        let workload = self.streams.workload.clone();
        Blackout { workload, elastic: self.elastic, ..Blackout::of(self.scenario.clone()) }
    }

    fn parameters(&self) -> Value {
        let elastic = self.elastic.as_ref().map(elastic::parameters);
        let elastic = elastic.map_or(json!({}), |constants| json!({"elastic": constants}));
        merged([self.scene().parameters(), elastic, sweep::parameters(&self.sweeps)])
    }

    /// Returns everything that the run has beside the workload: what the file says, and its links,
    /// written out, before anything varies.
    fn run_with(&self, source: &Source) -> Value {
        let links: toml::Table = self.scenario.to_toml().parse().unwrap_or_default();
        json!({"file": source.contents(), "links": links})
    }

    /// Adds, as null, the figures that were asked for and cannot be had.
    fn with_asked(&self, mut result: Value) -> Value {
        if let Value::Object(figures) = &mut result {
            let whole = self.columns.iter().filter(|(key, _)| !key.contains('.'));
            for (key, _) in whole.filter(|_| self.are_asked) {
                figures.entry(key.as_str()).or_insert(Value::Null);
            }
        }
        result
    }

    /// Nulls the figures of streams that the file does not have.
    fn without_absent(&self, mut result: Value) -> Value {
        let absent = KINDS.iter().filter(|kind| !(kind.is_sent)(&self.streams.workload));
        let beginnings: Vec<&str> = absent.flat_map(|kind| kind.figures.iter().copied()).collect();
        if !beginnings.is_empty() {
            forget(&mut result, &beginnings);
        }
        result
    }
}

/// Nulls the figures whose names begin like this, wherever they stand in a result.
fn forget(value: &mut Value, beginnings: &[&str]) {
    match value {
        Value::Object(figures) => {
            // Streams with names have figures of their own.
            for (key, value) in figures.iter_mut().filter(|(key, _)| *key != "streams") {
                if beginnings.iter().any(|beginning| key.starts_with(beginning)) {
                    *value = Value::Null;
                }
                forget(value, beginnings);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| forget(value, beginnings)),
        _ => {}
    }
}

/// Adds to a result the point at which it was measured, right behind its scheme.
fn at_point(point: &Point, result: Value) -> Value {
    merged([json!({"scheme": result["scheme"]}), point.values(), result])
}

/// Lists what may be sent, for `--help`.
fn help() -> String {
    format!("Kinds of [[stream]], and their keys:\n{}", streams::help())
}

#[cfg(test)]
mod tests;
