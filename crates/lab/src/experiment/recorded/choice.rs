//! Chooses the windows that are run: those of scenario files, or some of recorded links by a rule.

use std::path::PathBuf;

use clap::Args;
use netem::Scenario;

use super::reachable::{Idle, capacities, wire_bits};
use super::window::Window;
use crate::experiment::streams::figures::LATE_S;
use crate::experiment::streams::workload::Workload;
use crate::testbed::Direction;
use crate::traces;
use crate::traces::{Choice, Combination, LinkSet, WindowOptions};
use emulator::read_scenario;

/// Bytes of the messages that tell which links are alive.
const CONTROL_BYTES: usize = 100;
/// The most windows of one kind that are asked for of a combination.
const WINDOWS_MAX: usize = 100;

/// What the command line says about the windows.
#[derive(Clone, Debug, Args)]
pub(crate) struct WindowArgs {
    /// A scenario with hosts called drone and station, the better link first; once for each.
    #[arg(long, required_unless_present = "set", conflicts_with = "set", value_name = "FILE")]
    scenario: Vec<PathBuf>,
    /// Recorded links: every pair and triple of a set (lte-drives), or one combination
    /// (lte-drives:att+verizon); once for each. FULMAR_SHARED names the folder.
    #[arg(long, value_name = "NAME")]
    set: Vec<String>,
    /// Windows of each combination: worst:N by the seconds in which no link carries 1 Mbit/s, then
    /// by those in which one does; random:N by --window-seed.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "worst:3,random:3",
        value_name = "RULE:N,...",
        value_parser = parse_choice
    )]
    windows: Vec<Choice>,
    /// What random windows are drawn with.
    #[arg(long, default_value_t = 1, value_name = "N")]
    window_seed: u64,
    /// Length of each window; unless said, the scenario's own, of recorded links 120.
    #[arg(long, value_name = "S", value_parser = crate::arguments::positive)]
    seconds: Option<f64>,
    /// Rate from drone to station as a share of that from station to drone; unless said, as
    /// recorded.
    #[arg(long, value_name = "SHARE", conflicts_with = "scenario", value_parser = parse_share)]
    to_station: Option<f64>,
}

impl WindowArgs {
    /// Returns the windows that are asked for.
    ///
    /// # Errors
    /// Says which file does not read, or which set does not exist.
    pub(crate) fn windows(&self, traffic: &Workload) -> Result<Vec<Window>, String> {
        let window = |scenario: Scenario, notes, living| Window {
            seconds: self.seconds.map_or(scenario.seconds, |asked| asked.min(scenario.seconds)),
            scenario,
            traffic: traffic.clone(),
            notes,
            living,
        };
        if self.set.is_empty() {
            let read = |path: &PathBuf| {
                let mut scenario = read_scenario(path)?;
                scenario.seconds = self.seconds.unwrap_or(scenario.seconds);
                Ok(window(scenario, Vec::new(), None))
            };
            return self.scenario.iter().map(read).collect();
        }
        let sets = recordings()?;
        let mut windows = Vec::new();
        for name in &self.set {
            for combination in combinations(&sets, name)? {
                for chosen in self.of_combination(&combination) {
                    let starts: Vec<String> = combination
                        .links()
                        .iter()
                        .zip(&chosen.starts_s)
                        .map(|(link, start)| format!("{link} from {start} s"))
                        .collect();
                    let notes = core::iter::once(starts.join(", ")).chain(chosen.notes).collect();
                    let mut scenario = chosen.scenario;
                    scenario.name = chosen.name;
                    better_first(&mut scenario)?;
                    windows.push(window(scenario, notes, Some(chosen.alive)));
                }
            }
        }
        Ok(windows)
    }

    fn of_combination(&self, combination: &Combination) -> Vec<traces::Window> {
        let usual = WindowOptions::default();
        let options = WindowOptions {
            seconds: self.seconds.map_or(usual.seconds, |seconds| seconds.ceil() as usize),
            to_station: self.to_station,
            ..usual
        };
        let choose = |choice: &Choice| {
            let choice = match *choice {
                Choice::Random { count, .. } => Choice::Random { count, seed: self.window_seed },
                worst => worst,
            };
            combination.windows(choice, &options)
        };
        self.windows.iter().flat_map(choose).collect()
    }
}

/// Returns windows of a combination of recorded links, the better link first.
///
/// # Errors
/// When there are no recordings, or no such combination.
pub(crate) fn recorded_windows(
    combination: &str,
    choices: &[Choice],
    seconds: f64,
) -> Result<Vec<Scenario>, String> {
    let options = WindowOptions { seconds: seconds.ceil() as usize, ..WindowOptions::default() };
    let mut windows = Vec::new();
    for combination in combinations(&recordings()?, combination)? {
        for chosen in choices.iter().flat_map(|choice| combination.windows(*choice, &options)) {
            let mut scenario = chosen.scenario;
            scenario.name = chosen.name;
            better_first(&mut scenario)?;
            windows.push(scenario);
        }
    }
    Ok(windows)
}

/// Says why there are no recordings, where there are none.
pub(crate) fn lacks_recordings() -> Option<String> {
    let folder = traces::folder();
    let why = "FULMAR_SHARED names the folder above";
    (!folder.is_dir()).then(|| format!("no recordings in {}: {why}", folder.display()))
}

/// Reads `worst:N` or `random:N`.
pub(crate) fn parse_choice(text: &str) -> Result<Choice, String> {
    let parts = text.split_once(':').and_then(|(rule, count)| {
        let count =
            count.parse::<usize>().ok().filter(|count| (1..=WINDOWS_MAX).contains(count))?;
        match rule {
            "worst" => Some(Choice::Worst(count)),
            "random" => Some(Choice::Random { count, seed: 0 }),
            _ => None,
        }
    });
    parts.ok_or_else(|| format!("`{text}` is not worst:N or random:N, N from 1 to {WINDOWS_MAX}"))
}

/// Reads which sets of recorded links there are.
fn recordings() -> Result<Vec<LinkSet>, String> {
    match lacks_recordings() {
        Some(why) => Err(why),
        None => traces::link_sets(&traces::folder()),
    }
}

/// Puts the link first that is alive for more seconds, both directions together, of equals the one
/// that carries more: schemes of one link use it.
fn better_first(scenario: &mut Scenario) -> Result<(), String> {
    let mut ranks = vec![(0, 0); scenario.links.len()];
    for direction in Direction::BOTH {
        let links = capacities(scenario, direction, scenario.seconds)?;
        for (rank, link) in ranks.iter_mut().zip(&links) {
            let alive = Idle::new(link, wire_bits(CONTROL_BYTES)).alive(scenario.seconds, LATE_S);
            rank.0 += alive.into_iter().filter(|alive| *alive).count();
            rank.1 += link.slots().iter().map(|slot| slot.bits).sum::<u64>();
        }
    }
    let mut ranked: Vec<_> = ranks.into_iter().zip(scenario.links.drain(..)).collect();
    ranked.sort_by_key(|(rank, _)| core::cmp::Reverse(*rank));
    scenario.links = ranked.into_iter().map(|(_, pair)| pair).collect();
    Ok(())
}

/// Finds every pair and triple of a set, or one combination of any size.
fn combinations(sets: &[LinkSet], name: &str) -> Result<Vec<Combination>, String> {
    let (set_name, links) =
        name.split_once(':').map_or((name, None), |(set, all)| (set, Some(all)));
    let set = sets.iter().find(|set| set.name == set_name).ok_or_else(|| {
        let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
        format!("--set {name}: no such set; there are {}", names.join(", "))
    })?;
    if links.is_none() {
        return Ok(traces::combinations(set, 2..=3));
    }
    let all = traces::combinations(set, 2..=4);
    let names: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
    let found = all.into_iter().find(|one| one.name == name);
    found
        .map(|one| vec![one])
        .ok_or_else(|| format!("--set {name}: no such combination; there are {}", names.join(", ")))
}

/// Reads a share above nothing, all at most.
fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| format!("`{text}` is not a share above 0, and 1 at most"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_that_lives_longer_comes_first() {
        let rates = [("dead", "0,50\n1,0\n4,0"), ("thin", "0,1\n5,1"), ("fast", "0,9\n5,9")];
        let mut text = String::new();
        for (name, _) in rates {
            text += &format!(
                "[[link]]\nname = \"{name}\"\nbetween = [\"drone\", \"station\"]\nrate_csv = \"{name}\"\n"
            );
        }
        let mut read = |file: &str| {
            let of = rates.iter().find(|(name, _)| *name == file).expect("one of them");
            Ok(format!("time_s,rate_mbps\n{}\n", of.1))
        };
        let text = format!("seconds = 4\n{text}");
        let mut scenario = Scenario::from_toml_with(&text, "s.toml", &mut read).expect("sound");
        better_first(&mut scenario).expect("both hosts are there");
        let names: Vec<&str> = scenario.links.iter().map(|pair| pair.name.as_str()).collect();
        assert_eq!(names, ["fast", "thin", "dead"]);
    }

    #[test]
    fn rules_and_shares_are_read() {
        assert_eq!(parse_choice("worst:3"), Ok(Choice::Worst(3)));
        assert_eq!(parse_choice("random:100"), Ok(Choice::Random { count: 100, seed: 0 }));
        for wrong in ["worst", "worst:0", "worst:101", "best:3", "random:x"] {
            assert!(parse_choice(wrong).is_err(), "{wrong}");
        }
        assert_eq!((parse_share("0.1"), parse_share("1")), (Ok(0.1), Ok(1.0)));
        assert!(["0", "1.1", "NaN"].iter().all(|text| parse_share(text).is_err()));
    }
}
