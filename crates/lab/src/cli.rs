//! The command line: what can be asked for, in the words that `--help` teaches.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::experiment::streams::demo::DemoArgs;
use crate::experiment::{Description, Experiment};
use crate::model::Model;
use crate::record::ReportArgs;
use crate::scorecard::ScorecardArgs;
use crate::swarm::SwarmArgs;
use crate::sweep::SweepArgs;
use crate::traces::TraceCommand;
use emulator::{AccuracyArgs, EmulateArgs};

const AFTER_HELP: &str = "\
Start here:
  fulmar-lab demo                                   the whole story in a minute and a half
  fulmar-lab list                                   what can be measured
  fulmar-lab run conclone-interval --sim            one experiment, in virtual time
  fulmar-lab run mixed-blackout --emu --json        one experiment, real daemons and kernel
  fulmar-lab run FILE.toml --sim                    an experiment of your own: docs/experiments.md
  fulmar-lab trace window --list                    recordings that can be played as links
  fulmar-lab model conclone                         the paper's equations beside its figures

Exit codes: 0 done, 1 it failed or the figures are not valid, 2 wrong usage.";

/// Emulates links, runs Fulmar and its opponents over them, and reports.
#[derive(Debug, Parser)]
#[command(name = "fulmar-lab", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the lab can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an experiment and report its figures.
    ///
    /// One of those below, or one that a file describes: `fulmar-lab run FILE.toml --sim`. All that
    /// experiments/ has recorded: `fulmar-lab run all --sim --resume DIR`.
    Run {
        /// Which one.
        #[command(subcommand)]
        experiment: Experiment,
    },
    /// Run recorded experiments again: the paper's figures, ours then, ours now, and what must be.
    ///
    /// The files are in experiments/. Exit code 1 when a figure does not reach what it must, or in
    /// virtual time, which is exact, is no longer that of its file, and where a file could not be
    /// run. In virtual time files are run side by side.
    Report(ReportArgs),
    /// List the experiments, their schemes and their figures.
    List {
        /// Print one JSON object on stdout.
        #[arg(long)]
        json: bool,
    },
    /// Run any command between emulated hosts, in real time.
    ///
    /// Each host is a network namespace with an interface per link; the command finds addresses and
    /// namespaces in `FULMAR_ADDRESS_<HOST>_<LINK>` and `FULMAR_NETNS_<HOST>`.
    Emulate(EmulateArgs),
    /// Measure how well the emulator keeps a delay on this machine.
    Accuracy(AccuracyArgs),
    /// Look at recordings of links, and make scenarios of them.
    Trace {
        /// What to do.
        #[command(subcommand)]
        command: TraceCommand,
    },
    /// Play every scene that the engine is judged by, and show the figures of each as one card.
    ///
    /// In virtual time, which is exact: some minutes. The committed card is
    /// experiments/scorecard.toml; `--against` it shows what a change of the engine has moved.
    /// docs/scorecard.md says what the scenes are.
    Scorecard(ScorecardArgs),
    /// Look for what must not be: random links, faults, attackers and traffic, in virtual time.
    ///
    /// Each seed draws a run; both ends are judged all the time. What fails is made small and
    /// printed as a command that runs it again. Exit code 1 when something is found. docs/swarm.md
    /// says more.
    Swarm(SwarmArgs),
    /// Run the experiment of a file at many points and with many seeds, on all processors or a
    /// share of a cluster.
    ///
    /// In virtual time. Results are Parquet, a file for each point and seed; what is there is not
    /// run again, a point that fails is noted and the others go on. The same file, points and seeds
    /// give the same bytes on every machine, so shares (`--shard 3/100`) can run anywhere and be
    /// put together. docs/sweeps.md has examples for Python, Slurm and Ray.
    Sweep(SweepArgs),
    /// Play the scene that breaks what people use today: a table and a picture at the end.
    ///
    /// Two bad links, a recorded flight, 50 control messages a second each way and a video stream;
    /// then the Wi-Fi goes silently dead, comes back, and the LTE stalls. Fulmar and its opponents
    /// play it at the same time, each over links of its own.
    Demo(DemoArgs),
    /// Evaluate a paper's equations, set them beside the figures that it prints, draw its pictures
    /// again.
    Model {
        /// Which model.
        #[command(subcommand)]
        model: Model,
    },
}

/// Reads the command line; a wrong one ends here with exit code 2 and clap's explanation.
pub(crate) fn parse(words: Vec<OsString>) -> Cli {
    let matches = command().get_matches_from(with_all(with_file(words)));
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Returns the command line, where each experiment lists its figures.
pub(crate) fn command() -> clap::Command {
    let with_figures = |run: clap::Command, known: &Description| {
        run.mut_subcommand(known.experiment, |one| one.after_long_help(known.help()))
    };
    Cli::command().mut_subcommand("run", |run| Experiment::ALL.iter().fold(run, with_figures))
}

/// Lets `run FILE.toml` stand for `run file FILE.toml`.
fn with_file(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_file = |word: &OsString| Path::new(word).extension().is_some_and(|end| end == "toml");
    if words.get(1).is_some_and(|word| word == "run") && words.get(2).is_some_and(is_file) {
        words.insert(2, "file".into());
    }
    words
}

/// Lets `run all` stand for `report --all`.
fn with_all(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "run") && words.get(2).is_some_and(|it| it == "all")
    {
        words.splice(1..3, ["report".into(), "--all".into()]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_an_experiment() {
        let run = |words: &[&str]| {
            Cli::try_parse_from(with_file(words.iter().map(OsString::from).collect()))
        };
        let cli = run(&["fulmar-lab", "run", "own.toml", "--sim"]);
        assert!(matches!(cli.unwrap().command, Command::Run { experiment: Experiment::File(_) }));
        assert!(run(&["fulmar-lab", "run", "own.tom", "--sim"]).is_err());
    }

    #[test]
    fn all_is_every_record() {
        let run = |words: &[&str]| {
            let words = words.iter().map(OsString::from).collect();
            Cli::try_parse_from(with_all(words)).map(|cli| cli.command)
        };
        let all = run(&["fulmar-lab", "run", "all", "--sim", "--resume", "kept"]);
        assert!(matches!(all, Ok(Command::Report(_))), "{all:?}");
        assert!(run(&["fulmar-lab", "run", "all", "--sim", "--emu"]).is_err());
        assert!(run(&["fulmar-lab", "report", "--sim", "x.toml"]).is_err(), "of all alone");
        assert!(run(&["fulmar-lab", "report"]).is_err(), "of what?");
    }

    #[test]
    fn command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn an_experiments_help_names_each_of_its_figures() {
        let mut command = command();
        let run = command.find_subcommand_mut("run").unwrap();
        for known in &Experiment::ALL {
            let help = run.find_subcommand_mut(known.experiment).unwrap().render_long_help();
            let help = help.to_string().replace('\n', " ");
            for figure in known.figures {
                assert!(help.contains(&figure.path()), "{}: {}", known.experiment, figure.path());
            }
        }
    }

    #[test]
    fn arguments_for_the_same_thing_are_told_alike() {
        let mut command = command();
        let run = command.find_subcommand_mut("run").unwrap();
        for one in run.get_subcommands() {
            for arg in one.get_arguments() {
                let (name, told) = (arg.get_id(), format!("{} {arg:?}", one.get_name()));
                let values = arg.get_value_names().unwrap_or_default();
                let is_list = arg.get_value_delimiter().is_some();
                assert_eq!(is_list, values.iter().any(|name| name.ends_with(",...")), "{told}");
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(name != "loss" || help.contains("0 to below 1"), "{told}");
                let without_unit = ["rtt", "rate", "delay", "paths"];
                let long = arg.get_long().unwrap_or_default();
                assert!(!without_unit.contains(&long), "{told}");
            }
        }
    }

    #[test]
    fn names_of_old_are_still_read() {
        for words in [
            &["run", "asran-loss", "--emu", "--rtt", "40", "--rate", "6"][..],
            &["run", "lrt-tcp", "--sim", "--paths", "2"],
        ] {
            let words = [&["fulmar-lab"], words].concat();
            assert!(Cli::try_parse_from(&words).is_ok(), "{words:?}");
        }
    }
}
