//! The congestion controls of a run, by the names that the kernel knows them by.
//!
//! ASRAN's flavours are registered while the value lives, under names that neither another run nor an
//! installed copy uses; the others are the kernel's own.

use std::fs;

use tcp_asran::{Flavour, Loaded};

use crate::scheme::{CongestionControl, Scheme};

/// What the kernel knows already.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Keeps the algorithms of some schemes at hand.
#[derive(Debug)]
pub(crate) struct Congestion {
    loaded: Option<Loaded>,
}

impl Congestion {
    /// Registers what `schemes` need and the kernel does not have.
    ///
    /// # Errors
    /// When a scheme is no congestion control, or the kernel lacks it or does not take it.
    pub(crate) fn of(schemes: &[Scheme]) -> Result<Self, String> {
        let available = fs::read_to_string(AVAILABLE).unwrap_or_default();
        let mut flavours: Vec<Flavour> = Vec::new();
        for scheme in schemes {
            match control(*scheme)?.flavour() {
                Some(flavour) if !flavours.contains(&flavour) => flavours.push(flavour),
                Some(_) => {}
                None if available.split_whitespace().any(|one| one == scheme.name()) => {}
                None => {
                    let has = available.trim();
                    return Err(format!("this kernel has no {scheme}; it has {has}"));
                }
            }
        }
        let load = || Loaded::load_apart(&flavours).map_err(|error| error.to_string());
        let loaded = if flavours.is_empty() { None } else { Some(load()?) };
        Ok(Self { loaded })
    }

    /// Returns the kernel's name for a scheme that [`Congestion::of`] was given.
    ///
    /// # Panics
    /// When it was not.
    pub(crate) fn name(&self, scheme: Scheme) -> &str {
        match control(scheme).ok().and_then(CongestionControl::flavour) {
            Some(flavour) => {
                self.loaded.as_ref().expect("the caller asked for the scheme").name(flavour)
            }
            None => scheme.name(),
        }
    }
}

/// Takes a scheme for a congestion control.
fn control(scheme: Scheme) -> Result<CongestionControl, String> {
    match scheme {
        Scheme::Congestion(control) => Ok(control),
        _ => Err(format!("{scheme} is no congestion control")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_need_nothing_loaded() {
        let congestion = Congestion::of(&[Scheme::RENO, Scheme::CUBIC]).expect("every Linux");
        assert!(congestion.loaded.is_none());
        assert_eq!(congestion.name(Scheme::CUBIC), "cubic");
        let error = Congestion::of(&[Scheme::UDP]).expect_err("not a congestion control");
        assert!(error.contains("udp"), "{error}");
        assert_eq!(
            control(Scheme::ASRAN_CUBIC).map(CongestionControl::flavour),
            Ok(Some(Flavour::AsranCubic))
        );
    }
}
