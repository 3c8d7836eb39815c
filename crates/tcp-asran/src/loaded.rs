//! Algorithms that are registered for as long as a value lives: for tests and experiments.
//!
//! Nothing is pinned. When the process dies, of whatever reason, the kernel takes the names back; sockets that use
//! an algorithm keep it until they close.

use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::{Link, Object};

use crate::object::{self, Extras};
use crate::{Error, Flavour};

/// Keeps flavours registered while it lives.
#[derive(Debug)]
pub struct Loaded {
    names: Vec<(Flavour, String)>,
    // Links first: they are dropped in this order, and a name must be free before its programs go.
    _links: Vec<Link>,
    _object: Object,
}

impl Loaded {
    /// Registers flavours under their names with `suffix` appended (at most 15 bytes in all).
    ///
    /// # Errors
    ///
    /// Every kind of [`Error`] but that of pins; nothing stays registered then.
    pub fn load(flavours: &[Flavour], suffix: &str) -> Result<Self, Error> {
        let mut object = object::load(flavours, suffix, Extras::default())?;
        let mut links = Vec::new();
        let mut names = Vec::new();
        for &flavour in flavours {
            let name = object::full_name(flavour, suffix)?;
            links.push(object::register(&mut object, flavour, &name)?);
            names.push((flavour, name));
        }
        Ok(Loaded { names, _links: links, _object: object })
    }

    /// Does [`Loaded::load`] with a suffix that no other process of this machine uses, nor this one a second time.
    ///
    /// # Errors
    ///
    /// As [`Loaded::load`].
    pub fn load_apart(flavours: &[Flavour]) -> Result<Self, Error> {
        // Numbers of processes repeat in their namespaces, while names of algorithms are the machine's.
        let mut outcome = Err(Error::BadName { name: String::new() });
        for _ in 0..16 {
            outcome = Self::load(flavours, &next_suffix());
            if !matches!(outcome, Err(Error::NameTaken { .. })) {
                break;
            }
        }
        outcome
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
}

/// Makes a suffix of four letters and digits from the process and a counter.
fn next_suffix() -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    // Odd multipliers spread neighbours; what collides all the same is tried again.
    let mut value = std::process::id().wrapping_mul(0x9e37_79b1) ^ count.wrapping_mul(0x85eb_ca6b);
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
    fn suffixes_of_one_process_differ_and_fit() {
        let suffixes: std::collections::HashSet<String> = (0..50).map(|_| next_suffix()).collect();
        assert!(suffixes.len() > 45, "{suffixes:?}");
        for flavour in Flavour::ALL {
            assert!(suffixes.iter().all(|suffix| object::full_name(flavour, suffix).is_ok()));
        }
    }
}
