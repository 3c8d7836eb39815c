//! The native half of the Python package `fulmar`: `fulmar._native`.
//!
//! ```text
//! lab       experiments by name, sweeps, their folders of results
//! table     columns as Arrow, without a copy
//! model     the papers' equations
//! scenario  links
//! ```
//! No experiment is here: the crate `fulmar-lab` is called (its module `api`), with the interpreter
//! released. What is wrong comes as an exception of the package; panics end in the lab.

mod lab;
mod model;
mod scenario;
mod table;

use pyo3::prelude::*;

/// Native parts of the package fulmar.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    lab::add(module)?;
    model::add(module)?;
    module.add_class::<scenario::Scenario>()?;
    module.add_class::<table::Table>()?;
    Ok(())
}
