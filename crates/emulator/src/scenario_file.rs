//! Reads a scenario file together with the trace files that it names.
//!
//! `netem`, which opens no files itself, parses it.

use std::path::Path;

use netem::Scenario;
use toml_keys::Change;

/// Reads the scenario at `path`; paths of traces in it are relative to its directory.
///
/// # Errors
/// Names the file, the line and the key.
pub fn read_scenario(path: &Path) -> Result<Scenario, String> {
    read_changed_scenario(path, &[])
}

/// Reads a scenario as if the values of `changes` stood in its file.
///
/// # Errors
/// As of [`read_scenario`]; and changes of what the scenario has not.
pub fn read_changed_scenario(path: &Path, changes: &[Change]) -> Result<Scenario, String> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("read the scenario {name}: {error}"))?;
    Scenario::from_toml_changed(&text, &name, changes, &mut traces_beside(path))
        .map_err(|error| error.to_string())
}

/// Returns what reads the traces that a file names, relative to its directory.
pub fn traces_beside(path: &Path) -> impl FnMut(&str) -> Result<String, String> {
    let directory = path.parent().unwrap_or(Path::new("")).to_owned();
    move |trace| {
        let file = directory.join(trace);
        std::fs::read_to_string(&file).map_err(|error| format!("read {}: {error}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_read_from_beside_the_scenario() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.toml");
        let text =
            "[[link]]\nname = \"lte\"\nbetween = [\"a\", \"b\"]\ndelivery_file = \"lte.up\"\n";
        std::fs::write(&path, text).unwrap();
        let missing = read_scenario(&path).unwrap_err();
        assert!(missing.contains("s.toml:4: link.lte.delivery_file: read "), "{missing}");
        std::fs::write(directory.path().join("lte.up"), "1\n2\n").unwrap();
        assert_eq!(read_scenario(&path).unwrap().links.len(), 1);
    }
}
