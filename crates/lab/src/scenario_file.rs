//! Takes links from a scenario file in place of those that an experiment makes itself.

use std::path::{Path, PathBuf};

use clap::Args;
use emulator::read_scenario;
use netem::Scenario;
use toml_keys::{FileError, Mistake};

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

/// Why a scenario is not one of links between drone and station.
#[derive(Debug)]
pub(crate) struct WrongHosts {
    /// The name of the first link with another end.
    pub(crate) link: Option<String>,
    /// What is wrong, and what such a scenario is.
    pub(crate) what: String,
}

impl WrongHosts {
    /// Says it with the line of the link in the text of its file.
    pub(crate) fn located(&self, text: &str, file: &str) -> String {
        let Some(name) = &self.link else { return format!("{file}: {}", self.what) };
        let mut line = 1;
        // Whoever read the scenario has told what else is wrong with it.
        let _ = toml_keys::read(text, file, |root| {
            let links = root.sections("link");
            let link = links.iter().find(|link| link.is_text("name", name));
            line = link.map_or(1, |link| link.line("between"));
            Some(())
        });
        let (key, what) = (format!("link.{name}.between"), self.what.clone());
        FileError { file: file.to_owned(), mistakes: vec![Mistake { line, key, what }] }.to_string()
    }
}

/// Tells whether a scenario is one of links between drone and station.
///
/// # Errors
/// Says what such a scenario is, and which link is not of it.
pub(crate) fn check_hosts(scenario: &Scenario) -> Result<(), WrongHosts> {
    const TAKEN: &str =
        "experiments take links between hosts called drone and station, and nothing else";
    for pair in &scenario.links {
        let ends = [pair.a, pair.b].map(|host| &scenario.hosts[host].name[..]);
        if let Some(other) = ends.iter().find(|end| !["drone", "station"].contains(end)) {
            let what = format!("no host {other:?} here: {TAKEN}");
            return Err(WrongHosts { link: Some(pair.name.clone()), what });
        }
    }
    let is_plain = !scenario.links.is_empty() && scenario.link_count() == scenario.links.len();
    if is_plain { Ok(()) } else { Err(WrongHosts { link: None, what: TAKEN.to_owned() }) }
}

fn between_drone_and_station(path: &Path) -> Result<Scenario, String> {
    let scenario = read_scenario(path)?;
    check_hosts(&scenario).map_err(|wrong| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        wrong.located(&text, &path.display().to_string())
    })?;
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
