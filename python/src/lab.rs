//! Experiments and sweeps.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use fulmar_lab::api::{self, Error, Points};
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Map, Value};

use crate::table::Table;

create_exception!(
    fulmar,
    InputError,
    PyValueError,
    "What was asked for cannot be: says what, where (file, line, key) and what to do."
);
create_exception!(fulmar, RunError, PyRuntimeError, "An experiment was tried and failed.");

/// How often a run that goes on is asked whether Ctrl-C was pressed.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);
/// The stack of a run: that of a program's first thread.
const STACK: usize = 8 << 20;

/// Adds what is here to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("InputError", py.get_type::<InputError>())?;
    module.add("RunError", py.get_type::<RunError>())?;
    module.add("CODE", api::CODE)?;
    module.add("VERSION", api::VERSION)?;
    module.add_class::<Plan>()?;
    module.add_class::<Results>()?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(experiments, module)?)?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    Ok(())
}

/// Makes an exception of an error.
pub(crate) fn exception(error: Error) -> PyErr {
    match error {
        Error::UnknownOption(why) => PyTypeError::new_err(why),
        Error::Input(why) => InputError::new_err(why),
        Error::Failed(why) => RunError::new_err(why),
    }
}

/// Does something long beside the interpreter, which is free meanwhile; Ctrl-C ends the wait, not
/// what runs.
fn beside<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let (done, outcome) = mpsc::channel();
    std::thread::Builder::new()
        .name("fulmar".to_owned())
        .stack_size(STACK)
        .spawn(move || drop(done.send(work())))
        .map_err(|error| RunError::new_err(format!("start a thread: {error}")))?;
    let outcome = Arc::new(std::sync::Mutex::new(outcome));
    loop {
        let waiting = Arc::clone(&outcome);
        let waited = py.detach(move || match waiting.lock() {
            Ok(outcome) => outcome.recv_timeout(SIGNALS_EVERY),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match waited {
            Ok(outcome) => return outcome.map_err(exception),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(RunError::new_err("the run ended without a word"));
            }
        }
    }
}

/// Runs an experiment in virtual time; returns its report as JSON.
#[pyfunction]
fn run(py: Python<'_>, experiment: String, words: Vec<String>) -> PyResult<String> {
    beside(py, move || api::run(&experiment, &words))
}

/// Returns what can be run, as JSON.
#[pyfunction]
fn experiments() -> String {
    api::experiments()
}

/// Does what a command line of fulmar-lab says; returns the exit code.
#[pyfunction]
fn command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| api::main(words))
}

/// An experiment's file at some points and with some seeds.
#[pyclass(frozen, module = "fulmar._native")]
pub(crate) struct Plan(Arc<api::Sweep>);

#[pymethods]
impl Plan {
    /// Reads a file, or a text that stands for it; `over` and `points` are JSON.
    #[staticmethod]
    #[pyo3(signature = (path, text, over, points, seeds, schemes))]
    fn open(
        path: PathBuf,
        text: Option<String>,
        over: Option<&str>,
        points: Option<&str>,
        seeds: Option<(u64, u64)>,
        schemes: Vec<String>,
    ) -> PyResult<Self> {
        let product: Map<String, Value> = parsed("over", over.unwrap_or("{}"))?;
        let product: Vec<(String, Value)> = product.into_iter().collect();
        let each: Vec<Map<String, Value>> = parsed("points", points.unwrap_or("[]"))?;
        let points = if points.is_some() { Points::Each(&each) } else { Points::Product(&product) };
        let sweep = match text {
            None => api::Sweep::open(&path, &points, seeds, &schemes),
            Some(text) => api::Sweep::of_text(&text, &path, &points, seeds, &schemes),
        };
        sweep.map(|sweep| Self(Arc::new(sweep))).map_err(exception)
    }

    /// Makes the plan that `description` tells of.
    #[staticmethod]
    fn of_description(text: &str) -> PyResult<Self> {
        api::Sweep::of_description(text).map(|sweep| Self(Arc::new(sweep))).map_err(exception)
    }

    /// Returns all that is needed to run it elsewhere, as JSON.
    fn description(&self) -> String {
        self.0.description()
    }

    #[getter]
    fn hash(&self) -> &str {
        self.0.hash()
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn seeds(&self) -> (u64, u64) {
        self.0.seeds()
    }

    #[getter]
    fn schemes(&self) -> Vec<&'static str> {
        self.0.schemes()
    }

    /// Returns the values of every point, as a JSON list.
    fn points(&self) -> String {
        self.0.points()
    }

    #[getter]
    fn point_count(&self) -> u64 {
        self.0.point_count()
    }

    /// Runs a point, or all, with a seed, or with all; returns figures as a JSON list, an object
    /// for each point and scheme.
    #[pyo3(signature = (point, seed))]
    fn run(&self, py: Python<'_>, point: Option<u64>, seed: Option<u64>) -> PyResult<String> {
        let sweep = Arc::clone(&self.0);
        beside(py, move || sweep.run(point, seed))
    }

    /// Runs a point with a seed; returns its file of results, Parquet.
    fn run_to_parquet<'py>(
        &self,
        py: Python<'py>,
        point: u64,
        seed: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let sweep = Arc::clone(&self.0);
        let bytes = beside(py, move || sweep.run_to_parquet(point, seed))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Runs a point with a seed under one scheme; returns tables of its messages and its packets.
    fn detail(
        &self,
        py: Python<'_>,
        point: u64,
        seed: u64,
        scheme: String,
    ) -> PyResult<(Table, Table)> {
        let sweep = Arc::clone(&self.0);
        let detail = beside(py, move || sweep.detail(point, seed, &scheme))?;
        Ok((Table::of_messages(detail.messages)?, Table::of_packets(detail.packets)?))
    }
}

/// A folder of results.
#[pyclass(frozen, module = "fulmar._native")]
pub(crate) struct Results(api::Results);

#[pymethods]
impl Results {
    /// Makes the folder, or takes one that holds the same sweep.
    #[staticmethod]
    fn open(path: PathBuf, plan: &Plan) -> PyResult<Self> {
        api::Results::open(Path::new(&path), &plan.0).map(Self).map_err(exception)
    }

    /// Returns points and seeds whose results are not there.
    fn missing(&self, plan: &Plan) -> PyResult<Vec<(u64, u64)>> {
        self.0.missing(&plan.0).map_err(exception)
    }

    /// Puts results in their place, whole or not at all.
    fn keep(&self, py: Python<'_>, point: u64, seed: u64, bytes: &[u8]) -> PyResult<()> {
        py.detach(|| self.0.keep((point, seed), bytes)).map_err(exception)
    }

    /// Notes why a point failed with a seed.
    fn keep_failure(&self, plan: &Plan, point: u64, seed: u64, why: &str) -> PyResult<()> {
        self.0.keep_failure(&plan.0, (point, seed), why).map_err(exception)
    }
}

fn parsed<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| InputError::new_err(format!("{what}: {error}")))
}
