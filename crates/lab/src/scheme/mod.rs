//! The names of what is compared, spelled the same in every figure, table and file.
//!
//! Six kinds of things, a file each: sessions of Fulmar, the kernel's transports, tunnels of
//! others, single TCP flows under a congestion control, yardsticks that exist in the world only,
//! and whatever commands somebody gives. What a kind is in each life stands with the kind;
//! [`Scheme`] is any of them, for the command line.

mod command;
mod congestion;
mod kernel;
mod session;
mod tunnel;
mod yardstick;

use core::fmt;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::{Serialize, Serializer};
use tcp_asran::Flavour;

use crate::report::Mode;
pub(crate) use command::{Carries, CommandScheme, SchemeCommand, link_of, take_failures};
pub(crate) use congestion::CongestionControl;
pub(crate) use kernel::KernelTransport;
pub(crate) use session::{Carried, DECLARED, Packets, SessionScheme};
pub(crate) use tunnel::OtherTunnel;
pub(crate) use yardstick::Yardstick;

/// Names a way to carry traffic over the links under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// A session of Fulmar.
    Session(SessionScheme),
    /// What applications use without us.
    Kernel(KernelTransport),
    /// A tunnel of others.
    Tunnel(OtherTunnel),
    /// One TCP flow, which tells what its congestion control is worth.
    Congestion(CongestionControl),
    /// What others are measured against.
    Yardstick(Yardstick),
    /// Somebody's own, by its commands.
    Command(CommandScheme),
}

/// Says how a scheme is named and explained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// The name in figures, tables and files, and on the command line.
    pub(crate) name: &'static str,
    /// What it does, in a few words for legends and notes.
    pub(crate) meaning: &'static str,
    /// The same for `--help`.
    pub(crate) help: &'static str,
}

/// Every scheme by the name that experiments call it by.
impl Scheme {
    pub(crate) const FULMAR: Self = Self::Session(SessionScheme::Fulmar);
    pub(crate) const FULMAR_TARGET: Self = Self::Session(SessionScheme::FulmarTarget(None));
    pub(crate) const FULMAR_BACKUP: Self = Self::Session(SessionScheme::FulmarBackup);
    pub(crate) const FULMAR_STRICT: Self = Self::Session(SessionScheme::FulmarStrict);
    pub(crate) const FULMAR_OFF: Self = Self::Session(SessionScheme::FulmarOff);
    pub(crate) const FULMAR_AUTO: Self = Self::Session(SessionScheme::FulmarBy(Carried::Auto));
    pub(crate) const FULMAR_TCP: Self = Self::Session(SessionScheme::FulmarBy(Carried::Tcp));
    pub(crate) const FULMAR_TCP_ONE: Self = Self::Session(SessionScheme::FulmarBy(Carried::TcpOne));
    pub(crate) const FLOWCODE: Self = Self::Session(SessionScheme::FlowCode(Packets::Four));
    pub(crate) const FLOWCODE_K2: Self = Self::Session(SessionScheme::FlowCode(Packets::Two));
    pub(crate) const FLOWCODE_K8: Self = Self::Session(SessionScheme::FlowCode(Packets::Eight));
    pub(crate) const FLOWCODE_K16: Self = Self::Session(SessionScheme::FlowCode(Packets::Sixteen));
    pub(crate) const MIN_RTT: Self = Self::Session(SessionScheme::MinRtt);
    pub(crate) const ROUND_ROBIN: Self = Self::Session(SessionScheme::RoundRobin);
    pub(crate) const REDUNDANT: Self = Self::Session(SessionScheme::Redundant);
    pub(crate) const UDP: Self = Self::Kernel(KernelTransport::Udp);
    pub(crate) const IDEAL_ARQ: Self = Self::Yardstick(Yardstick::IdealArq);
    pub(crate) const BOUND: Self = Self::Yardstick(Yardstick::Bound);
    pub(crate) const LRT: Self = Self::Session(SessionScheme::Lrt);
    pub(crate) const BLOCK_RLNC: Self = Self::Yardstick(Yardstick::BlockRlnc);
    pub(crate) const KERNEL_TCP: Self = Self::Kernel(KernelTransport::Tcp);
    pub(crate) const KERNEL_TCP_CUBIC: Self = Self::Kernel(KernelTransport::TcpCubic);
    pub(crate) const KERNEL_TCP_BBR: Self = Self::Kernel(KernelTransport::TcpBbr);
    pub(crate) const KERNEL_TCP_RENO: Self = Self::Kernel(KernelTransport::TcpReno);
    pub(crate) const KERNEL_MPTCP: Self = Self::Kernel(KernelTransport::Mptcp);
    pub(crate) const KERNEL_MPTCP_BBR: Self = Self::Kernel(KernelTransport::MptcpBbr);
    pub(crate) const CONCLONE_TCP: Self = Self::Kernel(KernelTransport::ConcloneTcp);
    pub(crate) const TCP_LRR_IDEAL: Self = Self::Kernel(KernelTransport::TcpLrrIdeal);
    pub(crate) const TCP_LRR: Self = Self::Kernel(KernelTransport::TcpLrr);
    pub(crate) const WIREGUARD_GO: Self = Self::Tunnel(OtherTunnel::WireguardGo);
    pub(crate) const KCPTUN: Self = Self::Tunnel(OtherTunnel::Kcptun);
    pub(crate) const RENO: Self = Self::Congestion(CongestionControl::Reno);
    pub(crate) const CUBIC: Self = Self::Congestion(CongestionControl::Cubic);
    pub(crate) const BBR: Self = Self::Congestion(CongestionControl::Bbr);
    pub(crate) const ASRAN: Self = Self::Congestion(CongestionControl::Asran(Flavour::Asran));
    pub(crate) const ASRAN_CUBIC: Self =
        Self::Congestion(CongestionControl::Asran(Flavour::AsranCubic));
    pub(crate) const ASRAN_JUMP: Self =
        Self::Congestion(CongestionControl::Asran(Flavour::AsranJump));
    pub(crate) const ASRAN_DELAY: Self =
        Self::Congestion(CongestionControl::Asran(Flavour::AsranDelay));

    /// Every scheme, in the order of lists.
    const ALL: [Self; 38] = [
        Self::FULMAR,
        Self::FULMAR_TARGET,
        Self::FULMAR_BACKUP,
        Self::FULMAR_STRICT,
        Self::FULMAR_OFF,
        Self::FULMAR_AUTO,
        Self::FULMAR_TCP,
        Self::FULMAR_TCP_ONE,
        Self::FLOWCODE,
        Self::FLOWCODE_K2,
        Self::FLOWCODE_K8,
        Self::FLOWCODE_K16,
        Self::MIN_RTT,
        Self::ROUND_ROBIN,
        Self::REDUNDANT,
        Self::UDP,
        Self::IDEAL_ARQ,
        Self::BOUND,
        Self::LRT,
        Self::BLOCK_RLNC,
        Self::KERNEL_TCP,
        Self::KERNEL_TCP_CUBIC,
        Self::KERNEL_TCP_BBR,
        Self::KERNEL_TCP_RENO,
        Self::KERNEL_MPTCP,
        Self::KERNEL_MPTCP_BBR,
        Self::TCP_LRR,
        Self::TCP_LRR_IDEAL,
        Self::CONCLONE_TCP,
        Self::WIREGUARD_GO,
        Self::KCPTUN,
        Self::RENO,
        Self::CUBIC,
        Self::BBR,
        Self::ASRAN,
        Self::ASRAN_CUBIC,
        Self::ASRAN_JUMP,
        Self::ASRAN_DELAY,
    ];

    /// Returns the name used in figures, tables and files.
    pub(crate) const fn name(self) -> &'static str {
        self.about().name
    }

    /// Takes the scheme for a congestion control.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn control(self) -> Result<CongestionControl, String> {
        match self {
            Self::Congestion(control) => Ok(control),
            _ => Err(format!("{self} is no congestion control")),
        }
    }

    /// Tells whether the scheme can be had in the other life only.
    pub(crate) const fn lives_elsewhere(self, mode: Mode) -> bool {
        match (self, mode) {
            (Self::Session(SessionScheme::FulmarBy(_)), Mode::Sim) => true,
            (
                Self::Kernel(
                    KernelTransport::Udp
                    | KernelTransport::TcpLrr
                    | KernelTransport::TcpLrrIdeal
                    | KernelTransport::ConcloneTcp,
                )
                | Self::Session(_),
                _,
            ) => false,
            (
                Self::Kernel(_) | Self::Tunnel(_) | Self::Congestion(_) | Self::Command(_),
                Mode::Sim,
            )
            | (Self::Yardstick(_), Mode::Emu) => true,
            _ => false,
        }
    }

    /// Tells whether it is somebody's own and has failed.
    pub(crate) fn has_failed(self) -> bool {
        matches!(self, Self::Command(own) if own.has_failed())
    }

    /// Says in a few words what the scheme does, for legends and notes.
    pub(crate) const fn meaning(self) -> &'static str {
        self.about().meaning
    }

    const fn about(self) -> About {
        match self {
            Self::Session(scheme) => scheme.about(),
            Self::Kernel(transport) => transport.about(),
            Self::Tunnel(tunnel) => tunnel.about(),
            Self::Congestion(control) => control.about(),
            Self::Yardstick(yardstick) => yardstick.about(),
            Self::Command(scheme) => scheme.about(),
        }
    }
}

impl ValueEnum for Scheme {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let about = self.about();
        Some(PossibleValue::new(about.name).help(about.help))
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
    fn every_scheme_has_a_name_of_its_own() {
        let mut names = Scheme::ALL.map(Scheme::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for scheme in Scheme::ALL {
            assert_eq!(Scheme::from_str(scheme.name(), false), Ok(scheme));
        }
    }
}
