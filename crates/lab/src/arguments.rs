//! The options that experiments share on the command line, and how their numbers are read.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use units::{Duration, Rate};

use crate::report::Mode;
use crate::scheme::{CommandScheme, Known, Scheme, SchemeCommand};
use crate::testbed::Recording;
use emulator::Failure;

/// The arguments of every experiment.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("mode").required(true).args(["sim", "emu"])))]
pub(crate) struct RunArgs {
    /// Run in the deterministic world, in virtual time: exact, and fast.
    #[arg(long)]
    sim: bool,
    /// Run between network namespaces in real time: real daemons, real kernel.
    #[arg(long)]
    emu: bool,
    /// Seed of the links, 1 unless said; the same seed gives the same losses.
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run every seed of a range and pool the samples (--sim).
    #[arg(long, value_name = "A-B", value_parser = parse_seeds, conflicts_with = "emu")]
    pub(crate) seeds: Option<(u64, u64)>,
    /// Schemes to run, separated by commas; default: those that `fulmar-lab list` names without
    /// parentheses.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub(crate) schemes: Vec<Scheme>,
    /// Run a scheme of your own as well (--emu): a command for each host, `NAME@drone=COMMAND` and
    /// `NAME@station=COMMAND`, or one for both, `NAME=COMMAND`.
    ///
    /// Say it once for each command. It is handed what the others are handed, at the ports that
    /// {udp_in} and {udp_out} stand for, {tcp_in} and {tcp_out}, or by an interface whose address
    /// is {tunnel}; {address} and {peer} are those of the first link, {peer2} of the second.
    /// docs/your-own-scheme.md explains each, and has three that run as they are.
    #[arg(long = "scheme-command", value_name = "NAME[@SIDE]=COMMAND", conflicts_with = "sim",
          value_parser = SchemeCommand::read)]
    pub(crate) commands: Vec<SchemeCommand>,
    /// Print one JSON object on stdout and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the table as CSV on stdout and nothing else there.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Also write report.json, and pictures where the experiment draws any, into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Play this recorded MAVLink (tlog) in place of the flight that comes with the program; an
    /// experiment that plays none otherwise plays it beside, or in place of, its own messages.
    #[arg(long, value_name = "FILE")]
    pub(crate) tlog: Option<PathBuf>,
    /// Exit 0 although the emulator's audit declares the run invalid.
    #[arg(long)]
    pub(crate) allow_invalid: bool,
}

impl RunArgs {
    /// Returns where the links are to be.
    pub(crate) fn mode(&self) -> Mode {
        if self.sim { Mode::Sim } else { Mode::Emu }
    }

    /// Returns the seed of a run that has one.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// Returns the first and the last seed, if any were given.
    pub(crate) fn given_seeds(&self) -> Option<(u64, u64)> {
        self.seeds.or(self.seed.map(|seed| (seed, seed)))
    }

    /// Returns the first and the last seed.
    pub(crate) fn seeds(&self) -> (u64, u64) {
        self.given_seeds().unwrap_or((self.seed(), self.seed()))
    }

    /// Returns the MAVLink that is played.
    ///
    /// # Errors
    /// When the file does not read, or holds no MAVLink of a vehicle and its ground.
    pub(crate) fn recording(&self) -> Result<Recording, Failure> {
        let read = |path: &PathBuf| Recording::read(path).map_err(Failure::Usage);
        self.tlog.as_ref().map_or_else(|| Ok(Recording::load()?), read)
    }

    /// Refuses recorded MAVLink in an experiment that sends none.
    ///
    /// # Errors
    /// When there is any.
    pub(crate) fn without_tlog(&self, experiment: &str) -> Result<(), Failure> {
        let what =
            || format!("--tlog: {experiment} measures TCP or messages, and sends no MAVLink");
        self.tlog.as_ref().map_or(Ok(()), |_| Err(Failure::Usage(what())))
    }

    /// Returns the schemes to run, those of anybody's commands included: those asked for, else what
    /// runs unasked.
    ///
    /// # Errors
    /// Names every scheme that the experiment does not know in this mode, or what a command lacks.
    pub(crate) fn schemes(&self, known: Known) -> Result<Vec<Scheme>, Failure> {
        let mut schemes = self.known_schemes(known)?;
        schemes.extend(self.own_schemes()?);
        Ok(schemes)
    }

    /// Returns the schemes of anybody's commands.
    ///
    /// # Errors
    /// What a command lacks.
    pub(crate) fn own_schemes(&self) -> Result<impl Iterator<Item = Scheme> + use<>, Failure> {
        let own = CommandScheme::of(&self.commands);
        let own = own.map_err(|why| Failure::Usage(format!("--scheme-command {why}")))?;
        Ok(own.into_iter().map(Scheme::Command))
    }

    fn known_schemes(&self, known: Known) -> Result<Vec<Scheme>, Failure> {
        if self.schemes.is_empty() {
            return Ok(known.unasked.to_vec());
        }
        let known: Vec<Scheme> = known.iter().collect();
        let is_unknown = |scheme: &&Scheme| !known.contains(scheme);
        let unknown: Vec<&str> =
            self.schemes.iter().filter(is_unknown).map(|scheme| scheme.name()).collect();
        if unknown.is_empty() {
            return Ok(self.schemes.clone());
        }
        let names: Vec<&str> = known.iter().map(|scheme| scheme.name()).collect();
        let (mode, other) = if self.sim { ("--sim", "--emu") } else { ("--emu", "--sim") };
        let elsewhere =
            |scheme: &&Scheme| is_unknown(scheme) && scheme.lives_elsewhere(self.mode());
        let elsewhere: Vec<&str> =
            self.schemes.iter().filter(elsewhere).map(|scheme| scheme.name()).collect();
        let needs = match &elsewhere[..] {
            [] => String::new(),
            names => format!("; {} needs {other}", names.join(", ")),
        };
        Err(Failure::Usage(format!(
            "--schemes {}: not this experiment's under {mode}, which has {}{needs}",
            unknown.join(","),
            names.join(", ")
        )))
    }
}

/// Where the flight records of a run go.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RecordArgs {
    /// Keep the flight records of Fulmar's daemons in this directory, a folder for each scheme and
    /// side (--emu); `fulmar record` shows them, `fulmar-lab trace from-record` makes links of
    /// them.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["sim", "seeds"])]
    pub(crate) record: Option<PathBuf>,
}

/// What the links of an experiment are like, where no scenario says so.
///
/// Defaults are those of most experiments; another sets its own with `mut_arg`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LinkArgs {
    /// Rate of each link, Mbit/s.
    #[arg(long, default_value_t = 10.0, value_name = "MBPS", value_parser = positive,
          conflicts_with = "scenario")]
    pub(crate) rate_mbps: f64,
    /// One-way delay of each link, milliseconds.
    #[arg(long, default_value_t = 20.0, value_name = "MS", value_parser = positive,
          conflicts_with = "scenario")]
    pub(crate) delay_ms: f64,
}

impl LinkArgs {
    /// Returns the rate of each link.
    pub(crate) fn rate(&self) -> Rate {
        Rate::from_mbps(self.rate_mbps)
    }

    /// Returns the one-way delay of each link.
    pub(crate) fn delay(&self) -> Duration {
        Duration::from_secs_f64(self.delay_ms / 1e3)
    }
}

/// How often an experiment on the emulator is repeated.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct RepetitionArgs {
    /// Repetitions, with seeds that follow each other.
    #[arg(long, default_value_t = 5, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) repetitions: u64,
}

/// Reads a loss below 1: something has to get through.
pub(crate) fn loss(text: &str) -> Result<f64, String> {
    let loss = text.parse::<f64>().ok().filter(|loss| (0.0..1.0).contains(loss));
    loss.ok_or_else(|| format!("`{text}` is not a loss from 0 to below 1"))
}

/// Reads a positive number.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| *value > 0.0 && *value <= 1e6);
    value.ok_or_else(|| format!("`{text}` is not a number above zero, and a million at most"))
}

/// Names the seeds of a run.
pub(crate) fn seeds_shown((first, last): (u64, u64)) -> String {
    if first == last { format!("seed {first}") } else { format!("seeds {first}-{last}") }
}

/// Reads `A-B` with A ≤ B, or `A` alone.
pub(crate) fn parse_seeds(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse().ok().zip(last.parse().ok()).filter(|(first, last)| first <= last);
    range.ok_or_else(|| format!("{text:?} is not a range of seeds like 1-20"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range() {
        assert_eq!((parse_seeds("1-20"), parse_seeds("4")), (Ok((1, 20)), Ok((4, 4))));
        assert!(["", "9-3", "a-b", "1-"].iter().all(|text| parse_seeds(text).is_err()));
        assert!(!parse_seeds("1\n\u{1b}").unwrap_err().contains(['\n', '\u{1b}']), "in one line");
    }

    #[test]
    fn numbers_are_in_their_ranges() {
        assert_eq!((loss("0"), loss("0.284")), (Ok(0.0), Ok(0.284)));
        assert!(["1", "-0.1", "NaN", "x"].iter().all(|text| loss(text).is_err()));
        assert_eq!(positive("0.5"), Ok(0.5));
        assert!(["0", "-1", "inf", "NaN", "1e7", ""].iter().all(|text| positive(text).is_err()));
    }
}
