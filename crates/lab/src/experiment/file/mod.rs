//! `run FILE.toml`: an experiment without Rust, with the traffic and the figures of `mixed-blackout`.
//!
//! `read.rs` and `section.rs` read the file, `sweep.rs` varies it; what is run and measured is `play.rs`.

mod read;
mod section;
mod sweep;

use std::path::PathBuf;

use clap::Args;
use emulator::Failure;
use serde_json::{Value, json};

use super::Description;
use crate::arguments::RunArgs;
use crate::experiment::streams::blackout::Blackout;
use crate::experiment::streams::doubt::rankings_in_doubt;
use crate::experiment::streams::mixed_blackout;
use crate::experiment::streams::play::play;
use crate::report::{Mode, Report, merged};
use read::Plan;
use sweep::Point;

/// Describes what files are, unless they say otherwise.
pub(super) const DESCRIPTION: Description =
    Description { experiment: "file", ..mixed_blackout::DESCRIPTION };

/// The arguments of an experiment in a file; they go before what the file says.
#[derive(Clone, Debug, Args)]
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
    let plan = Plan::read(&args.file, mode).map_err(Failure::Usage)?;
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
        let scene = plan.scene(&point);
        let out = args.run.out.as_ref().map(|directory| directory.join(point.folder()));
        let name = format!("{} {}", plan.name, point.folder());
        let played =
            play(name.trim_end(), &scene, &schemes, (mode, (first, last)), out.as_deref())?;
        results.extend(played.results.into_iter().map(|result| at_point(&point, result)));
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
    /// Makes the scene of a point.
    fn scene(&self, point: &Point) -> Blackout {
        let (mut scenario, mut workload) = (self.scenario.clone(), self.workload.clone());
        point.apply(&mut scenario, &mut workload);
        Blackout { workload, ..Blackout::of(scenario) }
    }

    fn points(&self) -> Vec<Point> {
        sweep::points(&self.sweeps)
    }

    fn parameters(&self) -> Value {
        let scene = self.scene(&Point::default());
        let sweeps = self.sweeps.iter().map(|sweep| (sweep.key.clone(), json!(sweep.values)));
        let sweeps: serde_json::Map<_, _> = sweeps.collect();
        let sweeps = if sweeps.is_empty() { json!({}) } else { json!({"sweep": sweeps}) };
        merged([scene.parameters(), sweeps])
    }
}

/// Says in a result at which point it was measured, right behind its scheme.
fn at_point(point: &Point, result: Value) -> Value {
    merged([json!({"scheme": result["scheme"]}), point.values(), result])
}

#[cfg(test)]
mod tests;
