//! Tunnels of others, as Debian packages them.

use super::About;

/// A tunnel that is not ours; over the better link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherTunnel {
    WireguardGo,
    Kcptun,
}

impl OtherTunnel {
    /// Returns how the scheme is named and explained.
    pub(crate) const fn about(self) -> About {
        match self {
            Self::WireguardGo => About {
                name: "wireguard_go",
                meaning: "an encrypted tunnel over the better link",
                help: "WireGuard's tunnel in user space (package wireguard-go), over the better link",
            },
            Self::Kcptun => About {
                name: "kcptun",
                meaning: "TCP ended at both ends of KCP with block codes, better link",
                help: "kcptun (package kcptun) over the better link: ends TCP in the middle",
            },
        }
    }

    /// Returns the programs that it consists of, and the package that has them.
    pub(crate) const fn programs(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::WireguardGo => (&["wireguard-go"], "wireguard-go"),
            Self::Kcptun => (&["kcptun-client", "kcptun-server"], "kcptun"),
        }
    }
}
