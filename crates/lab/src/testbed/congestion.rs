//! The congestion controls of a run: which name of the kernel's a scheme of single TCP flows stands
//! for.
//!
//! ASRAN's flavours are registered while the value lives, under names that no other run has and that
//! an installed copy does not take; the others are the kernel's own.

use std::fs;

use tcp_asran::{Flavour, Loaded};

use crate::scheme::Scheme;

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
            match (flavour(*scheme), own_name(*scheme)) {
                (Some(flavour), _) if !flavours.contains(&flavour) => flavours.push(flavour),
                (Some(_), _) => {}
                (None, Some(name)) if available.split_whitespace().any(|one| one == name) => {}
                (None, Some(name)) => {
                    return Err(format!("this kernel has no {name}; it has {}", available.trim()));
                }
                (None, None) => return Err(format!("{scheme} is no congestion control")),
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
        let of_flavour = || Some(self.loaded.as_ref()?.name(flavour(scheme)?));
        own_name(scheme).or_else(of_flavour).expect("the caller asked for the scheme")
    }
}

/// Returns the name of an algorithm of the kernel's own.
fn own_name(scheme: Scheme) -> Option<&'static str> {
    matches!(scheme, Scheme::Reno | Scheme::Cubic | Scheme::Bbr).then(|| scheme.name())
}

/// Returns the flavour of ASRAN that a scheme is, by their common name.
fn flavour(scheme: Scheme) -> Option<Flavour> {
    Flavour::ALL.into_iter().find(|flavour| flavour.name() == scheme.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_need_nothing_loaded() {
        let congestion = Congestion::of(&[Scheme::Reno, Scheme::Cubic]).expect("every Linux");
        assert!(congestion.loaded.is_none());
        assert_eq!(congestion.name(Scheme::Cubic), "cubic");
        let error = Congestion::of(&[Scheme::Udp]).expect_err("not a congestion control");
        assert!(error.contains("udp"), "{error}");
        assert_eq!(flavour(Scheme::AsranCubic), Some(Flavour::AsranCubic));
    }
}
