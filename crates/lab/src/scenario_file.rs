//! Takes links from a scenario file in place of those that an experiment makes itself.

use std::path::{Path, PathBuf};

use clap::Args;
use emulator::read_scenario;
use netem::Scenario;

use emulator::Failure;

/// Takes a scenario in place of the links that an experiment makes itself.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ScenarioArgs {
    /// Links of this scenario in place of the experiment's own: hosts called drone and station, the
    /// better link first. Its times count from the first message.
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,
}

impl ScenarioArgs {
    /// Reads the scenario, where one was asked for.
    ///
    /// # Errors
    /// When it does not read, or is not one of links between drone and station.
    pub(crate) fn read(&self) -> Result<Option<Scenario>, Failure> {
        self.scenario.as_deref().map(between_drone_and_station).transpose().map_err(Failure::Usage)
    }
}

/// Tells whether a scenario is one of links between drone and station.
///
/// # Errors
/// Says what such a scenario is.
pub(crate) fn check_hosts(scenario: &Scenario) -> Result<(), &'static str> {
    let ends = ["drone", "station"].map(|name| scenario.host(name));
    let is_plain = ends.iter().all(Option::is_some)
        && !scenario.links.is_empty()
        && scenario.broadcasts.is_empty()
        && scenario
            .links
            .iter()
            .all(|pair| ends.contains(&Some(pair.a)) && ends.contains(&Some(pair.b)));
    let what = "experiments take links between hosts called drone and station, and nothing else";
    if is_plain { Ok(()) } else { Err(what) }
}

fn between_drone_and_station(path: &Path) -> Result<Scenario, String> {
    let scenario = read_scenario(path)?;
    check_hosts(&scenario).map_err(|what| format!("{}: {what}", path.display()))?;
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_that_is_shipped_reads() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
        let mut count = 0;
        for folder in [folder.to_owned(), folder.join("steps")] {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_none_or(|end| end != "toml") {
                    continue;
                }
                let scenario = between_drone_and_station(&path).unwrap();
                assert_eq!(path.file_stem().unwrap().to_str(), Some(scenario.name.as_str()));
                count += 1;
            }
        }
        assert!(count >= 25, "{count} scenarios");
    }
}
