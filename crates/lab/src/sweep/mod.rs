//! `fulmar-lab sweep`: the experiment of a file at many points and with many seeds, on all
//! processors of a machine, or on a share of the machines of a cluster.
//!
//! ```text
//! plan      what is run: points, seeds, schemes; the hash that stands in every result
//! folder    where results go: a file for each point and seed, whole or not there; what is done
//!           already
//! table     results as Parquet
//! run       the tasks, on threads
//! ```
//! The same file, `over` and seeds give the same tasks under the same numbers everywhere, and each
//! the same bytes.

mod folder;
mod plan;
mod run;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use emulator::Failure;
use serde_json::json;
use toml_keys::Scalar;

use crate::arguments::{parse_seeds, seeds_shown};
use crate::chart::Swept;
use crate::experiment::file::Over;
use crate::parallel;
use crate::scheme::Scheme;
pub(crate) use folder::Folder;
pub(crate) use plan::{CODE, Plan, Task, points_of, scalar};
use run::Progress;
pub(crate) use run::{STACK, one, shown_seconds, words_of};
use sys::print::{print, tell};

/// The arguments of a sweep.
#[derive(Clone, Debug, Args)]
pub(crate) struct SweepArgs {
    /// The experiment, as docs/experiments.md describes it; its `[[sweep]]` is run too. Or the
    /// sweep.json of a folder of results, which holds all that is needed to run the same sweep
    /// where the files are not.
    #[arg(value_name = "FILE.toml|sweep.json")]
    file: PathBuf,
    /// Where results go: sweep.json says what was run, points/ has a Parquet file for each point
    /// and seed, failed/ why one failed. What is there already is not run again.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// A key of the file and its values, as KEY=[VALUE, ...]: link.lte.loss=[0, 0.05]. Of several,
    /// every combination is run; they go before what the file says of the same key.
    #[arg(long, value_name = "KEY=[VALUE,...]", value_parser = parse_over)]
    over: Vec<(String, Vec<Scalar>)>,
    /// Points one by one, in place of combinations: a file with a JSON object {"KEY": VALUE, ...}
    /// on each line.
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "over")]
    points: Option<PathBuf>,
    /// Seeds; those of the file, else 1.
    #[arg(long, value_name = "A-B", value_parser = parse_seeds)]
    seeds: Option<(u64, u64)>,
    /// Schemes to run at every point, separated by commas; those of the file unless said.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    schemes: Vec<Scheme>,
    /// Run one share of the tasks: 3/100 is the third of a hundred. Shares may run anywhere, at any
    /// time, into one folder or into folders of their own that are put together afterwards.
    #[arg(long, value_name = "I/N", value_parser = parse_shard, default_value = "1/1")]
    shard: (u64, u64),
    /// Tasks that run at the same time; as many as there are processors unless said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Say what would be run, and run nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object on stdout at the end.
    #[arg(long)]
    json: bool,
}

/// Runs a sweep, or its share; exit code 1 where a point failed.
pub(crate) fn run_command(args: &SweepArgs) -> Result<ExitCode, Failure> {
    let plan = open(args).map_err(Failure::Usage)?;
    if args.dry_run {
        return Ok(show(&plan, args)?);
    }
    let folder = Folder::open(&args.out, &plan).map_err(Failure::Usage)?;
    let tasks: Vec<Task> = plan.shard(args.shard).collect();
    let done = folder.done(&tasks)?;
    let rest: Vec<Task> = tasks.iter().copied().filter(|task| !done.contains(task)).collect();
    let shard = if args.shard.1 == 1 {
        String::new()
    } else {
        format!(", share {} of {}", args.shard.0, args.shard.1)
    };
    tell(format_args!(
        "{}: {} of {} tasks are done{shard}; results: {}",
        plan.name(),
        done.len(),
        tasks.len(),
        args.out.display()
    ));
    let jobs = args.jobs.map_or_else(parallel::processors, |jobs| jobs as usize);
    let mut progress = Progress::new(rest.len());
    let failed = run::all(&plan, &folder, &rest, jobs, |task, outcome| {
        progress.on_end(&plan, task, outcome);
    })?;
    if args.json {
        print(json!({
            "sweep": plan.hash(),
            "code": CODE,
            "tasks": tasks.len(),
            "done_before": done.len(),
            "failed": failed,
            "out": args.out,
        }))?;
    }
    draw(&plan, &folder)?;
    let ended = rest.len() - failed;
    tell(format_args!("{}: {ended} tasks ended, {failed} failed", plan.name()));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Draws what varies, as soon as every task of all shares is done.
fn draw(plan: &Plan, folder: &Folder) -> Result<(), String> {
    let tasks: Vec<Task> = plan.tasks().collect();
    if folder.done(&tasks)?.len() < tasks.len() {
        return Ok(());
    }
    let (mut samples, mut keys) = (Vec::new(), Vec::new());
    for task in tasks {
        let Some(point) = plan.point(task.point) else { continue };
        keys = point.keys();
        samples.extend(folder.results(task)?.iter().flat_map(|row| point.samples(row)));
    }
    let made = format!("In the deterministic world, {}", seeds_shown(plan.seeds()));
    let (name, columns) = (plan.name(), plan.columns());
    for picture in
        (Swept { name, made: &made, keys, columns, samples: &samples }).draw(folder.path())?
    {
        tell(format_args!("picture: {}", picture.display()));
    }
    Ok(())
}

/// Reads what is to be run.
fn open(args: &SweepArgs) -> Result<Plan, String> {
    let over = match &args.points {
        Some(path) => plan::read_points(path)?,
        None => Over::Product(args.over.clone()),
    };
    if args.file.extension().is_none_or(|end| end != "json") {
        return Plan::open(&args.file, over, args.seeds, &args.schemes);
    }
    if over != Over::default() || args.seeds.is_some() || !args.schemes.is_empty() {
        let file = args.file.display();
        return Err(format!(
            "{file}: says itself what is run: leave --over, --points, --seeds and --schemes out, or name the experiment's \
             TOML file"
        ));
    }
    Plan::open_description(&args.file)
}

/// Says what would be run.
fn show(plan: &Plan, args: &SweepArgs) -> Result<ExitCode, String> {
    let (points, seeds) = (plan.point_count(), plan.seed_count());
    let tasks = plan.shard(args.shard).count();
    if args.json {
        print(json!({
            "sweep": plan.hash(), "code": CODE, "points": points, "seeds": seeds, "tasks": tasks,
        }))?;
    } else {
        print(format_args!(
            "{}: {points} points, {seeds} seeds, {tasks} tasks in this share\nsweep {} by code {}",
            plan.name(),
            plan.hash(),
            CODE
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads `KEY=[VALUE, ...]`, values as TOML writes them.
fn parse_over(text: &str) -> Result<(String, Vec<Scalar>), String> {
    let wrong = || format!("{text:?} is not KEY=[VALUE, ...], as in link.lte.loss=[0, 0.05]");
    let (key, values) = text.split_once('=').ok_or_else(wrong)?;
    let table: toml::Table = format!("values = {values}").parse().map_err(|_| wrong())?;
    // One line of several keys would be one as well.
    let values = match (table.len(), table.get("values")) {
        (1, Some(toml::Value::Array(values))) => values,
        _ => return Err(wrong()),
    };
    let scalars: Option<Vec<Scalar>> = values.iter().map(scalar_of_toml).collect();
    Ok((key.trim().to_owned(), scalars.filter(|values| !values.is_empty()).ok_or_else(wrong)?))
}

fn scalar_of_toml(value: &toml::Value) -> Option<Scalar> {
    match value {
        toml::Value::String(text) => Some(Scalar::Text(text.clone())),
        toml::Value::Integer(number) => Some(Scalar::Number(*number as f64)),
        toml::Value::Float(number) if number.is_finite() => Some(Scalar::Number(*number)),
        toml::Value::Boolean(flag) => Some(Scalar::Flag(*flag)),
        _ => None,
    }
}

/// Reads `I/N`, I from 1 to N.
fn parse_shard(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('/').and_then(|(i, n)| i.parse().ok().zip(n.parse().ok()));
    let shard = parts.filter(|(i, n)| (1..=*n).contains(i));
    shard.ok_or_else(|| format!("{text:?} is not a share such as 3/100, from 1/100 to 100/100"))
}

#[cfg(test)]
mod tests;
