//! Reads a scenario file together with the trace files that it names.
//!
//! What the file says is understood in `netem`, which opens no files itself.

use std::path::{Path, PathBuf};

use clap::Args;

use netem::Scenario;

use crate::failure::Failure;

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

/// Reads the scenario at `path`; paths of traces in it are relative to its directory.
pub(crate) fn read(path: &Path) -> Result<Scenario, String> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("read the scenario {name}: {error}"))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut trace = |trace: &str| {
        let file = directory.join(trace);
        std::fs::read_to_string(&file).map_err(|error| format!("read {}: {error}", file.display()))
    };
    Scenario::from_toml_with(&text, &name, &mut trace).map_err(|error| error.to_string())
}

fn between_drone_and_station(path: &Path) -> Result<Scenario, String> {
    let scenario = read(path)?;
    let ends = ["drone", "station"].map(|name| scenario.host(name));
    let is_plain = ends.iter().all(Option::is_some)
        && !scenario.links.is_empty()
        && scenario.broadcasts.is_empty()
        && scenario
            .links
            .iter()
            .all(|pair| ends.contains(&Some(pair.a)) && ends.contains(&Some(pair.b)));
    let what = "experiments take links between hosts called drone and station, and nothing else";
    if is_plain { Ok(scenario) } else { Err(format!("{}: {what}", path.display())) }
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

    #[test]
    fn traces_are_read_from_beside_the_scenario() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.toml");
        let text =
            "[[link]]\nname = \"lte\"\nbetween = [\"a\", \"b\"]\ndelivery_file = \"lte.up\"\n";
        std::fs::write(&path, text).unwrap();
        let missing = read(&path).unwrap_err();
        assert!(missing.contains("s.toml:4: link.lte.delivery_file: read "), "{missing}");
        std::fs::write(directory.path().join("lte.up"), "1\n2\n").unwrap();
        assert_eq!(read(&path).unwrap().links.len(), 1);
    }
}
