//! The lab: emulates links, runs Fulmar and its opponents over them, and reports.
//!
//! Not the product: nothing here runs on a drone. `cli` says what can be asked for; each folder of
//! `experiment` measures something, on `testbed`; `report` is what comes out. The emulator, the
//! world and the papers' equations are crates of their own.

// Where nobody reads any more, `println!` panics: `sys::print` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod api;
mod arguments;
mod chart;
mod checks;
mod cli;
mod doubt;
mod experiment;
mod figure;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod markup;
mod model;
mod parallel;
mod record;
mod report;
mod scenario_file;
mod scheme;
mod scorecard;
mod statistics;
mod swarm;
mod sweep;
mod testbed;
mod traces;
mod whole_file;

use std::ffi::OsString;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};

use cli::Command;
use emulator::Failure;
use experiment::Experiment;
use experiment::streams::demo;
use report::Mode;
use sys::print::{print, tell};

/// Does what the command line says.
pub fn main() -> ExitCode {
    main_with(std::env::args_os().collect())
}

/// Returns what can be said on the command line, for manual pages and shells' completions.
pub fn command_line() -> clap::Command {
    cli::command()
}

/// Does what a command line says; its first word is the program.
fn main_with(words: Vec<OsString>) -> ExitCode {
    let cli = cli::parse(words);
    match run(cli.command) {
        Ok(code) => code,
        Err(failure) => {
            tell(format_args!("fulmar-lab: {failure}"));
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run { experiment } => run_experiment(&experiment),
        Command::List { json } => {
            list(json)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Emulate(args) => emulator::run_emulate(&args),
        Command::Accuracy(args) => emulator::run_accuracy(&args),
        Command::Report(args) => {
            let met = record::report(&args)?;
            Ok(if met { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        Command::Demo(args) => demo::run(&args),
        Command::Swarm(args) => swarm::run_command(&args),
        Command::Scorecard(args) => scorecard::run_command(&args),
        Command::Sweep(args) => sweep::run_command(&args),
        Command::Trace { command } => traces::run_command(&command),
        Command::Model { model } => {
            model::run(&model)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Runs an experiment, prints and writes its report; an invalid run is a failure unless allowed.
fn run_experiment(experiment: &Experiment) -> Result<ExitCode, Failure> {
    let args = experiment.run_args();
    if args.mode() == Mode::Emu {
        // Forks: must come before the first thread.
        testbed::prepare()?;
    }
    if let Some(directory) = &args.out {
        report::try_directory(directory)?;
    }
    let report = experiment.run()?;
    if let Some(directory) = &args.out {
        tell(format_args!("report: {}", report.write(directory)?.display()));
    }
    let columns = experiment.description().columns();
    match (args.json, args.csv) {
        (true, _) => print_json(&report)?,
        (_, true) => print(report.csv(&columns))?,
        _ => print(report.table(&columns))?,
    }
    if report.mode == Mode::Emu {
        tell(&report.audit_summary);
        tell(report.belief());
    }
    for (scheme, why) in &report.failed {
        tell(format_args!("{scheme}: no figures: {why}"));
    }
    let is_whole = report.valid && report.failed.is_empty();
    Ok(if is_whole || args.allow_invalid { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Returns what can be run, with its schemes and figures.
fn experiments() -> Value {
    let experiment = |known: &experiment::Description| {
        let figures: Vec<String> = known.figures.iter().skip(1).map(figure::Figure::path).collect();
        json!({
            "experiment": known.experiment,
            "about": known.about,
            "sim": known.sim,
            "emu": known.emu,
            "figures": figures,
        })
    };
    json!({"experiments": Experiment::ALL.iter().map(experiment).collect::<Vec<_>>()})
}

/// Prints what can be run.
fn list(json: bool) -> Result<(), String> {
    if json {
        return print_json(&experiments());
    }
    for known in Experiment::ALL {
        let names = |known: scheme::Known| {
            let unasked = known.unasked.iter().map(|scheme| scheme.name().to_owned());
            let asked = known.asked.iter().map(|scheme| format!("({scheme})"));
            let names: Vec<String> = unasked.chain(asked).collect();
            if names.is_empty() { "-".to_owned() } else { names.join(" ") }
        };
        print(format_args!("{}\n    {}", known.experiment, known.about))?;
        print(format_args!("    --sim: {}\n    --emu: {}", names(known.sim), names(known.emu)))?;
        let figures = known.columns().into_iter().map(|(key, _)| key).filter(|key| key != "scheme");
        print(format_args!("    figures: {}", figures.collect::<Vec<_>>().join(" ")))?;
    }
    print("\nschemes; those in parentheses run only when --schemes names them")?;
    for scheme in <scheme::Scheme as clap::ValueEnum>::value_variants() {
        print(format_args!("    {scheme:<18} {}", scheme.meaning()))?;
    }
    Ok(())
}

/// Prints the one object that `--json` promises.
fn print_json(value: &impl Serialize) -> Result<(), String> {
    print(serde_json::to_string(value).map_err(|error| format!("write JSON: {error}"))?)
}
