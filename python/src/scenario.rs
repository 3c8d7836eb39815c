//! Scenarios: hosts and links.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::lab::InputError;

/// Hosts, links and what happens to them, as docs/scenarios.md describes them.
#[pyclass(frozen, module = "fulmar._native")]
pub(crate) struct Scenario(netem::Scenario);

#[pymethods]
impl Scenario {
    /// Reads a text of TOML; `name` is what mistakes call it.
    #[staticmethod]
    #[pyo3(signature = (text, name = "scenario.toml"))]
    fn parse(text: &str, name: &str) -> PyResult<Self> {
        let scenario = netem::Scenario::from_toml(text, name);
        scenario.map(Self).map_err(|error| InputError::new_err(error.to_string()))
    }

    /// Reads a file, and the traces that it names.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        fulmar_lab::api::scenario(&path).map(Self).map_err(crate::lab::exception)
    }

    /// What the scenario is called.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// How long it lasts, seconds.
    #[getter]
    fn seconds(&self) -> f64 {
        self.0.seconds
    }

    /// Names of its hosts.
    #[getter]
    fn hosts(&self) -> Vec<String> {
        self.0.hosts.iter().map(|host| host.name.clone()).collect()
    }

    /// Names of its links.
    #[getter]
    fn links(&self) -> Vec<String> {
        self.0.links.iter().map(|link| link.name.clone()).collect()
    }

    /// Writes it as TOML, every default written out.
    fn to_toml(&self) -> String {
        self.0.to_toml()
    }

    fn __repr__(&self) -> String {
        format!(
            "<fulmar.Scenario {}: {} s, {}>",
            self.0.name,
            self.0.seconds,
            self.links().join(", ")
        )
    }
}
