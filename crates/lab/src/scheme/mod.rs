//! The names of what is compared, spelled the same in every figure, table and file.

mod session;

use core::fmt;

use clap::ValueEnum;
use serde::{Serialize, Serializer};

pub(crate) use session::{DECLARED, SessionScheme};

/// Names a way to carry traffic over the links under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Scheme {
    /// The product's own choice: control copied to every path, data by least delay.
    Fulmar,
    /// Fulmar with `protect_control = "strict"`: bulk leaves control room whatever a link does.
    FulmarStrict,
    /// Fulmar with `protect_control = "off"`: bulk fills what congestion control allows.
    FulmarOff,
    /// Fulmar's session without copies: everything on the path of least delay.
    MinRtt,
    /// Fulmar's session without copies: everything on the paths in turn.
    RoundRobin,
    /// Everything on every path, nothing told apart, nothing held back.
    Redundant,
    /// Plain datagrams over the better link.
    Udp,
    /// Retransmission as good as it can be: every loss known after one round trip.
    IdealArq,
    /// What no code can beat: each packet that arrives brings everything handed in so far.
    Bound,
    /// Messages by online network coding as the paper has it, with coders of bounded size.
    Lrt,
    /// Messages by block codes: what comes in within 10 ms is a block.
    BlockRlnc,
    /// The kernel's TCP with CUBIC, over the better link.
    KernelTcpCubic,
    /// The kernel's TCP with BBR, over the better link.
    KernelTcpBbr,
    /// The kernel's TCP with NewReno, over the better link.
    KernelTcpReno,
    /// The kernel's multipath TCP over all links.
    KernelMptcp,
    /// A TCP flow under NewReno.
    Reno,
    /// A TCP flow under CUBIC.
    Cubic,
    /// A TCP flow under BBR.
    Bbr,
    /// A TCP flow under ASRAN over NewReno.
    Asran,
    /// A TCP flow under ASRAN over CUBIC.
    AsranCubic,
    /// A TCP flow under ASRAN whose window jumps back without having been reduced.
    AsranJump,
    /// A TCP flow under ASRAN that looks at the delay.
    AsranDelay,
}

impl Scheme {
    /// Returns the name used in figures, tables and files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fulmar => "fulmar",
            Self::FulmarStrict => "fulmar_strict",
            Self::FulmarOff => "fulmar_off",
            Self::MinRtt => "min_rtt",
            Self::RoundRobin => "round_robin",
            Self::Redundant => "redundant",
            Self::Udp => "udp",
            Self::IdealArq => "ideal_arq",
            Self::Bound => "bound",
            Self::Lrt => "lrt",
            Self::BlockRlnc => "block_rlnc",
            Self::KernelTcpCubic => "kernel_tcp_cubic",
            Self::KernelTcpBbr => "kernel_tcp_bbr",
            Self::KernelTcpReno => "kernel_tcp_reno",
            Self::KernelMptcp => "kernel_mptcp",
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Asran => "asran",
            Self::AsranCubic => "asran_cubic",
            Self::AsranJump => "asran_jump",
            Self::AsranDelay => "asran_delay",
        }
    }

    /// Tells whether it is the product itself, however it protects control.
    pub(crate) const fn is_fulmar(self) -> bool {
        matches!(self, Self::Fulmar | Self::FulmarStrict | Self::FulmarOff)
    }

    /// Says in a few words what the scheme does, for legends and notes.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Fulmar => "control copied to every path, data by least delay",
            Self::FulmarStrict => "the same, control protected strictly",
            Self::FulmarOff => "the same, control not protected from data",
            Self::MinRtt => "one path at a time: least delay",
            Self::RoundRobin => "one path at a time: in turn",
            Self::Redundant => "everything on every path (selector and congestion control off)",
            Self::Udp => "plain datagrams on the better link",
            Self::IdealArq => "every loss known after one round trip",
            Self::Bound => "each packet that arrives brings everything so far",
            Self::Lrt => "messages as in the LRT paper: coders of bounded size",
            Self::BlockRlnc => "messages in blocks of 10 ms, each a random linear code",
            Self::KernelTcpCubic => "the kernel's TCP, CUBIC, better link",
            Self::KernelTcpBbr => "the kernel's TCP, BBR, better link",
            Self::KernelTcpReno => "the kernel's TCP, NewReno, better link",
            Self::KernelMptcp => "the kernel's multipath TCP, a connection for each stream",
            Self::Reno => "a TCP flow under the kernel's NewReno",
            Self::Cubic => "a TCP flow under the kernel's CUBIC",
            Self::Bbr => "a TCP flow under the kernel's BBR",
            Self::Asran => "a TCP flow under ASRAN over NewReno",
            Self::AsranCubic => "a TCP flow under ASRAN over CUBIC",
            Self::AsranJump => "a TCP flow under ASRAN as a simple hook: the window jumps back",
            Self::AsranDelay => "a TCP flow under ASRAN that looks at the delay",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Scheme {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Names the schemes that an experiment knows in one mode.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Known {
    /// Those that run unless others are asked for.
    pub(crate) unasked: &'static [Scheme],
    /// Those that run only when asked for.
    pub(crate) asked: &'static [Scheme],
}

impl Known {
    /// Returns every scheme.
    pub(crate) fn iter(self) -> impl Iterator<Item = Scheme> {
        self.unasked.iter().chain(self.asked).copied()
    }

    /// Names schemes of which all run unasked.
    pub(crate) const fn all(unasked: &'static [Scheme]) -> Self {
        Self { unasked, asked: &[] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_spells_schemes_as_the_figures_do() {
        for scheme in Scheme::value_variants() {
            let value = scheme.to_possible_value().expect("no scheme is hidden");
            assert_eq!(value.get_name(), scheme.name());
        }
    }
}
