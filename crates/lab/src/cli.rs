//! The command line: what can be asked for, in the words that `--help` teaches.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand};

use crate::emulate::{AccuracyArgs, EmulateArgs};
use crate::experiment::{Experiment, Known};
use crate::failure::Failure;
use crate::model::asran::Stretch;
use crate::report::Mode;
use crate::scheme::Scheme;

const AFTER_HELP: &str = "\
Start here:
  fulmar-lab demo                                   the whole story in a minute and a half
  fulmar-lab list                                   what can be measured
  fulmar-lab run conclone-interval --sim            one experiment, in virtual time
  fulmar-lab run mixed-blackout --emu --json        one experiment, real daemons and kernel
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

/// Is what the lab can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an experiment and report its figures.
    Run {
        /// Which one.
        #[command(subcommand)]
        experiment: Experiment,
    },
    /// Run recorded experiments again: the paper's figures, ours then, ours now, and what must be.
    ///
    /// The files are in experiments/. Exit code 1 when a figure does not reach what it must.
    Report {
        /// Files such as experiments/conclone/fig10-table2.toml.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print one JSON object on stdout.
        #[arg(long)]
        json: bool,
    },
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
    /// Play the scene that breaks what people use today: a table and a picture at the end.
    ///
    /// Two bad links, a recorded flight, 50 control messages a second each way and a video stream;
    /// then the Wi-Fi goes silently dead, comes back, and the LTE stalls. Fulmar and its opponents
    /// play it at the same time, each over links of its own.
    Demo(DemoArgs),
    /// Evaluate a paper's equations and set them beside the figures that it prints.
    Model {
        /// Which paper.
        #[command(subcommand)]
        paper: Paper,
    },
}

/// Names a paper with an analysis.
#[derive(Debug, Subcommand)]
pub(crate) enum Paper {
    /// ConClone, equations 1 to 16.
    Conclone {
        /// Print one JSON object on stdout.
        #[arg(long)]
        json: bool,
    },
    /// ASRAN, equations 1 to 3: what it gains over CUBIC between two losses.
    AsranGain(AsranGainArgs),
}

/// Is what the model of ASRAN takes; the paper's example unasked.
#[derive(Clone, Debug, Args)]
pub(crate) struct AsranGainArgs {
    /// Window just after a loss.
    #[arg(long, default_value_t = 1.0, value_name = "WINDOW")]
    pub(crate) i: f64,
    /// Window before the previous loss, which slow start returns to.
    #[arg(long, default_value_t = 2.0, value_name = "WINDOW")]
    pub(crate) last_max: f64,
    /// Time until the next loss.
    #[arg(long, default_value_t = 2.5, value_name = "TIME")]
    pub(crate) t: f64,
    /// Distance of the points that are summed.
    #[arg(long, default_value_t = 0.1, value_name = "TIME")]
    pub(crate) step: f64,
    /// A sub-flow (of MPTCP) as I,LAST_MAX,T or I,LAST_MAX,T,RTT; give it once for each.
    #[arg(long, value_name = "I,LAST_MAX,T[,RTT]", value_parser = Stretch::parse)]
    pub(crate) subflow: Vec<Stretch>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Is what every experiment takes.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("mode").required(true).args(["sim", "emu"])))]
pub(crate) struct RunArgs {
    /// Run in the deterministic world, in virtual time: exact, and fast.
    #[arg(long)]
    sim: bool,
    /// Run between network namespaces in real time: real daemons, real kernel.
    #[arg(long)]
    emu: bool,
    /// Seed of the links; the same seed gives the same losses.
    #[arg(long, default_value_t = 1, value_name = "N", conflicts_with = "seeds")]
    pub(crate) seed: u64,
    /// Run every seed of a range and pool the samples (--sim).
    #[arg(long, value_name = "A-B", value_parser = parse_seeds, conflicts_with = "emu")]
    pub(crate) seeds: Option<(u64, u64)>,
    /// Schemes to run, separated by commas; default: all that the experiment knows in this mode.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) schemes: Vec<Scheme>,
    /// Print one JSON object on stdout and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write report.json, and pictures where the experiment draws any, into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Exit 0 although the emulator's audit declares the run invalid.
    #[arg(long)]
    pub(crate) allow_invalid: bool,
}

impl RunArgs {
    /// Returns where the links are to be.
    pub(crate) fn mode(&self) -> Mode {
        if self.sim { Mode::Sim } else { Mode::Emu }
    }

    /// Returns the first and the last seed.
    pub(crate) fn seeds(&self) -> (u64, u64) {
        self.seeds.unwrap_or((self.seed, self.seed))
    }

    /// Returns the schemes to run: those asked for, else those that run unasked.
    ///
    /// # Errors
    /// Names the first scheme that the experiment does not know in this mode.
    pub(crate) fn schemes(&self, known: Known) -> Result<Vec<Scheme>, Failure> {
        self.find_schemes(known).map_err(Failure::Usage)
    }

    fn find_schemes(&self, known: Known) -> Result<Vec<Scheme>, String> {
        if self.schemes.is_empty() {
            return Ok(known.unasked.to_vec());
        }
        let known: Vec<Scheme> = known.iter().collect();
        if let Some(unknown) = self.schemes.iter().find(|scheme| !known.contains(scheme)) {
            let names: Vec<&str> = known.iter().map(|scheme| scheme.name()).collect();
            let mode = if self.sim { "--sim" } else { "--emu" };
            return Err(format!(
                "--schemes {unknown}: not one of this experiment's under {mode}: {}",
                names.join(", ")
            ));
        }
        Ok(self.schemes.clone())
    }
}

/// Is what the demo takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArgs {
    /// Seed of the links.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Where the picture and the report go.
    #[arg(long, default_value = "demo-out", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// Reads `A-B` with A ≤ B.
fn parse_seeds(text: &str) -> Result<(u64, u64), String> {
    let range = text.split_once('-').and_then(|(first, last)| {
        let range = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        (range.0 <= range.1).then_some(range)
    });
    range.ok_or_else(|| format!("`{text}` is not a range of seeds like 1-20"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn seeds_are_a_range() {
        assert_eq!(parse_seeds("1-20"), Ok((1, 20)));
        assert!(["", "5", "9-3", "a-b", "1-"].iter().all(|text| parse_seeds(text).is_err()));
    }
}
