//! `run FILE.toml`: an experiment without Rust, with the traffic and the figures of `mixed-blackout`.
//!
//! `read.rs` reads the file, with its streams (`streams.rs`), the columns of its table (`columns.rs`)
//! and what varies (`sweep.rs`); what is run and measured is `play.rs`.

mod columns;
mod read;
mod streams;
mod sweep;

use std::path::PathBuf;

use clap::Args;
use emulator::Failure;
use serde_json::{Value, json};

use super::Description;
use crate::arguments::RunArgs;
use crate::doubt::rankings_in_doubt;
use crate::experiment::streams::blackout::Blackout;
use crate::experiment::streams::mixed_blackout;
use crate::experiment::streams::play::play;
use crate::report::{Mode, Report, merged};
use read::{Plan, Source};
use streams::KINDS;
use sweep::Point;

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
}

/// Runs the experiment of a file, once for each point of its sweeps.
pub(super) fn run(args: &FileArgs) -> Result<Report, Failure> {
    let mode = args.run.mode();
    let life = args.run.schemes.is_empty().then_some(mode);
    let source = Source::open(&args.file, life).map_err(Failure::Usage)?;
    let plan = source.plan().map_err(Failure::Usage)?;
    let (first, last) = args.run.given_seeds().or(plan.seeds).unwrap_or(args.run.seeds());
    let known = match mode {
        Mode::Sim => DESCRIPTION.sim,
        Mode::Emu => DESCRIPTION.emu,
    };
    let schemes = match (&args.run.schemes[..], &plan.schemes[..]) {
        ([], [_, ..]) => plan.schemes.clone(),
        _ => args.run.schemes(known)?,
    };
    let (mut results, mut audits) = (Vec::new(), Vec::new());
    for point in plan.points() {
        let here = source.at(&point).map_err(Failure::Usage)?;
        let out = args.run.out.as_ref().map(|directory| directory.join(point.folder()));
        let name = format!("{} {}", plan.name, point.name());
        let played =
            play(name.trim_end(), &here.scene(), &schemes, (mode, (first, last)), out.as_deref())?;
        let finish = |result| at_point(&point, here.without_absent(result));
        results.extend(played.results.into_iter().map(finish));
        audits.extend(played.audit);
    }
    let parameters = plan.parameters();
    let mut report = match mode {
        Mode::Sim => Report::sim(plan.name, (first, last), parameters, results),
        Mode::Emu => {
            let point: Vec<&str> = plan.sweeps.iter().map(|sweep| &sweep.key[..]).collect();
            let doubts = rankings_in_doubt(&results, &plan.columns, &point);
            Report::emu(plan.name, first, parameters, &audits, results)
                .judged_by_figures(&audits, doubts)
        }
    };
    report.columns = Some(plan.columns);
    Ok(report)
}

impl Plan {
    /// Makes the scene.
    fn scene(&self) -> Blackout {
        let workload = self.streams.workload.clone();
        Blackout { workload, ..Blackout::of(self.scenario.clone()) }
    }

    fn parameters(&self) -> Value {
        merged([self.scene().parameters(), sweep::parameters(&self.sweeps)])
    }

    /// Takes the figures of streams that there are none of out of a result: they are null.
    fn without_absent(&self, mut result: Value) -> Value {
        let absent = KINDS.iter().filter(|kind| !(kind.is_sent)(&self.streams.workload));
        let beginnings: Vec<&str> = absent.flat_map(|kind| kind.figures.iter().copied()).collect();
        if !beginnings.is_empty() {
            forget(&mut result, &beginnings);
        }
        result
    }
}

/// Makes figures null whose names begin like this, wherever in a result they stand.
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

/// Says in a result at which point it was measured, right behind its scheme.
fn at_point(point: &Point, result: Value) -> Value {
    merged([json!({"scheme": result["scheme"]}), point.values(), result])
}

/// Lists what may be sent, for `--help`.
fn help() -> String {
    format!("Kinds of [[stream]], and their keys:\n{}", streams::help())
}

#[cfg(test)]
mod tests;
