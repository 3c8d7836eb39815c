//! Single TCP flows of the kernel's, each under a congestion control.

use tcp_asran::Flavour;

use super::About;

/// A congestion control of the kernel's TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CongestionControl {
    Reno,
    Cubic,
    Bbr,
    /// One of ours, which has to be loaded.
    Asran(Flavour),
}

impl CongestionControl {
    /// Returns how the scheme is named and explained.
    pub(crate) const fn about(self) -> About {
        match self {
            Self::Reno => About {
                name: "reno",
                meaning: "a TCP flow under the kernel's NewReno",
                help: "A TCP flow under NewReno",
            },
            Self::Cubic => About {
                name: "cubic",
                meaning: "a TCP flow under the kernel's CUBIC",
                help: "A TCP flow under CUBIC",
            },
            Self::Bbr => About {
                name: "bbr",
                meaning: "a TCP flow under the kernel's BBR",
                help: "A TCP flow under BBR",
            },
            Self::Asran(Flavour::Asran) => About {
                name: "asran",
                meaning: "a TCP flow under ASRAN over NewReno",
                help: "A TCP flow under ASRAN over NewReno",
            },
            Self::Asran(Flavour::AsranCubic) => About {
                name: "asran_cubic",
                meaning: "a TCP flow under ASRAN over CUBIC",
                help: "A TCP flow under ASRAN over CUBIC",
            },
            Self::Asran(Flavour::AsranJump) => About {
                name: "asran_jump",
                meaning: "a TCP flow under ASRAN as a simple hook: the window jumps back",
                help: "A TCP flow under ASRAN whose window jumps back without having been reduced",
            },
            Self::Asran(Flavour::AsranDelay) => About {
                name: "asran_delay",
                meaning: "a TCP flow under ASRAN that looks at the delay",
                help: "A TCP flow under ASRAN that looks at the delay",
            },
        }
    }

    /// Returns the flavour that has to be loaded; none of what is the kernel's own.
    pub(crate) const fn flavour(self) -> Option<Flavour> {
        match self {
            Self::Reno | Self::Cubic | Self::Bbr => None,
            Self::Asran(flavour) => Some(flavour),
        }
    }
}
