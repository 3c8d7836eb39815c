//! The papers' equations.

use models::{asran, conclone};
use pyo3::prelude::*;

use crate::lab::InputError;

/// Adds a module `model` to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(success_probability, module)?)?;
    module.add_function(wrap_pyfunction!(ideal_time, module)?)?;
    module.add_function(wrap_pyfunction!(recovery_time, module)?)?;
    module.add_function(wrap_pyfunction!(completion_ratio, module)?)?;
    module.add_function(wrap_pyfunction!(tolerable_loss, module)?)?;
    module.add_function(wrap_pyfunction!(mean_lifetime, module)?)?;
    module.add_function(wrap_pyfunction!(asran_gain, module)?)?;
    module.add_function(wrap_pyfunction!(checks, module)?)?;
    Ok(())
}

fn probability(name: &str, value: f64) -> PyResult<f64> {
    if (0.0..1.0).contains(&value) {
        return Ok(value);
    }
    Err(InputError::new_err(format!("{name}: {value} is no probability from 0 to below 1")))
}

fn positive(name: &str, value: f64) -> PyResult<f64> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(InputError::new_err(format!("{name}: {value} is not above 0")))
}

fn interfaces(n: u32) -> PyResult<u32> {
    if (1..=1_000).contains(&n) {
        return Ok(n);
    }
    Err(InputError::new_err(format!("n: {n} interfaces: 1 to 1000")))
}

#[pyfunction]
fn success_probability(failures: Vec<f64>) -> PyResult<f64> {
    for failure in &failures {
        if !(0.0..=1.0).contains(failure) {
            return Err(InputError::new_err(format!("failures: {failure} is no probability")));
        }
    }
    Ok(conclone::success_probability(&failures))
}

#[pyfunction]
#[pyo3(signature = (*, count, interval_s))]
fn ideal_time(count: u32, interval_s: f64) -> PyResult<f64> {
    Ok(conclone::ideal_time(count, positive("interval_s", interval_s)?))
}

#[pyfunction]
#[pyo3(signature = (*, count, k, interval_s, f, n))]
fn recovery_time(count: u32, k: f64, interval_s: f64, f: f64, n: u32) -> PyResult<f64> {
    let (k, interval_s) = (positive("k", k)?, positive("interval_s", interval_s)?);
    Ok(conclone::recovery_time(count, k, interval_s, probability("f", f)?, interfaces(n)?))
}

#[pyfunction]
#[pyo3(signature = (*, k, f, n))]
fn completion_ratio(k: f64, f: f64, n: u32) -> PyResult<f64> {
    Ok(conclone::completion_ratio(positive("k", k)?, probability("f", f)?, interfaces(n)?))
}

#[pyfunction]
#[pyo3(signature = (*, k, ratio, n))]
fn tolerable_loss(k: f64, ratio: f64, n: u32) -> PyResult<f64> {
    if !(ratio.is_finite() && ratio > 1.0) {
        return Err(InputError::new_err(format!("ratio: {ratio} is not above 1")));
    }
    Ok(conclone::tolerable_loss(positive("k", k)?, ratio, interfaces(n)?))
}

#[pyfunction]
#[pyo3(signature = (*, n, rate))]
fn mean_lifetime(n: u32, rate: f64) -> PyResult<f64> {
    Ok(conclone::lifetime::mean_lifetime(interfaces(n)?, positive("rate", rate)?))
}

/// Returns JSON.
#[pyfunction]
#[pyo3(signature = (*, i, last_max, t, step))]
fn asran_gain(i: f64, last_max: f64, t: f64, step: f64) -> PyResult<String> {
    let gain = asran::gain(asran::Stretch { i, last_max, t, rtt: 1.0 }, step, &[]);
    let gain = gain.map_err(InputError::new_err)?;
    serde_json::to_string(&gain).map_err(|error| InputError::new_err(error.to_string()))
}

/// Returns JSON.
#[pyfunction]
fn checks() -> PyResult<String> {
    let all = conclone::checks();
    serde_json::to_string(&all).map_err(|error| InputError::new_err(error.to_string()))
}
