//! The congestion controls of a run, by the names that the kernel knows them by.
//!
//! ASRAN's flavours are registered while the value lives, under names that neither another run nor
//! an installed copy uses; the others are the kernel's own.

use std::fs;

use tcp_asran::{Flavour, Loaded};

use crate::scheme::CongestionControl;

/// What the kernel knows already.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Keeps some congestion controls at hand.
#[derive(Debug)]
pub(crate) struct Congestion {
    loaded: Option<Loaded>,
}

impl Congestion {
    /// Registers those of `controls` that the kernel does not have.
    ///
    /// # Errors
    /// When the kernel lacks one or does not take it.
    pub(crate) fn of(controls: &[CongestionControl]) -> Result<Self, String> {
        let available = fs::read_to_string(AVAILABLE).unwrap_or_default();
        let mut flavours: Vec<Flavour> = Vec::new();
        for control in controls {
            let name = control.about().name;
            match control.flavour() {
                Some(flavour) if !flavours.contains(&flavour) => flavours.push(flavour),
                Some(_) => {}
                None if available.split_whitespace().any(|one| one == name) => {}
                None => {
                    let has = available.trim();
                    return Err(format!("this kernel has no {name}; it has {has}"));
                }
            }
        }
        let load = || Loaded::load_apart(&flavours).map_err(|error| error.to_string());
        let loaded = if flavours.is_empty() { None } else { Some(load()?) };
        Ok(Self { loaded })
    }

    /// Returns the kernel's name for one that [`Congestion::of`] was given.
    ///
    /// # Panics
    /// When it was not.
    pub(crate) fn name(&self, control: CongestionControl) -> &str {
        match control.flavour() {
            Some(flavour) => self.loaded.as_ref().expect("the caller asked for it").name(flavour),
            None => control.about().name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_need_nothing_loaded() {
        let (reno, cubic) = (CongestionControl::Reno, CongestionControl::Cubic);
        let congestion = Congestion::of(&[reno, cubic]).expect("every Linux");
        assert!(congestion.loaded.is_none());
        assert_eq!(congestion.name(cubic), "cubic");
    }
}
