//! Algorithms that are registered for as long as a value lives: for tests and experiments.
//!
//! Nothing is pinned. When the process dies, for whatever reason, the kernel frees the names;
//! sockets that use an algorithm keep it until they close.

use std::hash::{BuildHasher, Hasher, RandomState};

use libbpf_rs::{Link, Object};

use crate::object::{self, Extras};
use crate::trace::{self, Record};
use crate::{Error, Flavour};

/// Keeps flavours registered while it lives.
#[derive(Debug)]
pub struct Loaded {
    names: Vec<(Flavour, String)>,
    // Links first: they are dropped in this order, and a name must be free before its programs go.
    _links: Vec<Link>,
    object: Object,
}

impl Loaded {
    /// Registers flavours under their names with `suffix` appended (at most 15 bytes in all).
    ///
    /// # Errors
    ///
    /// Every kind of [`Error`] but that of pins; nothing stays registered then.
    pub fn load(flavours: &[Flavour], suffix: &str) -> Result<Self, Error> {
        Self::with(flavours, suffix, Extras::default())
    }

    /// Does what [`Loaded::load`] does, and records every event for [`Loaded::take_trace`].
    ///
    /// # Errors
    ///
    /// As [`Loaded::load`].
    pub fn load_traced(flavours: &[Flavour]) -> Result<Self, Error> {
        let extras = Extras { trace: true, ..Extras::default() };
        apart(|suffix| Self::with(flavours, suffix, extras))
    }

    /// Takes what has happened since the last call to all connections that use these algorithms.
    /// The buffer has room for about 18,000 records; what happens while it is full is not recorded.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`]. Without tracing the list is empty.
    pub fn take_trace(&self) -> Result<Vec<Record>, Error> {
        trace::take(&self.object)
    }

    /// Does what [`Loaded::load`] does, with a suffix that no other process of this machine uses,
    /// nor this one a second time.
    ///
    /// # Errors
    ///
    /// As [`Loaded::load`].
    pub fn load_apart(flavours: &[Flavour]) -> Result<Self, Error> {
        apart(|suffix| Self::load(flavours, suffix))
    }

    /// Returns the name under which a flavour is registered.
    ///
    /// # Panics
    ///
    /// When the flavour was not asked for.
    pub fn name(&self, flavour: Flavour) -> &str {
        let found = self.names.iter().find(|(loaded, _)| *loaded == flavour);
        &found.unwrap_or_else(|| panic!("{flavour} was not loaded")).1
    }

    fn with(flavours: &[Flavour], suffix: &str, extras: Extras) -> Result<Self, Error> {
        let mut object = object::load(flavours, suffix, extras)?;
        let mut links = Vec::new();
        let mut names = Vec::new();
        for &flavour in flavours {
            let name = object::full_name(flavour, suffix)?;
            links.push(object::register(&mut object, flavour, &name)?);
            names.push((flavour, name));
        }
        Ok(Loaded { names, _links: links, object })
    }
}

/// Loads under a suffix that nobody uses.
fn apart(load: impl Fn(&str) -> Result<Loaded, Error>) -> Result<Loaded, Error> {
    let mut outcome = load(&random_suffix());
    for _ in 0..16 {
        if !matches!(outcome, Err(Error::NameTaken { .. })) {
            break;
        }
        outcome = load(&random_suffix());
    }
    outcome
}

/// Makes a random suffix of four characters: names hold for the whole machine, while process
/// numbers repeat from namespace to namespace.
fn random_suffix() -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut value = RandomState::new().build_hasher().finish();
    let mut suffix = String::from("_");
    for _ in 0..3 {
        suffix.push(char::from(DIGITS[(value % 36) as usize]));
        value /= 36;
    }
    suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_suffixes_fit_every_flavour() {
        for flavour in Flavour::ALL {
            let name = object::full_name(flavour, &random_suffix());
            assert!(name.is_ok(), "{name:?}");
        }
    }
}
