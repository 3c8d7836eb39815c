//! What applications use without us: the kernel's own transports.

use sys::byte_stream::Transport;

use super::About;

/// Congestion control of multipath TCP's sub-flows: what most machines use, and what published
/// figures of multipath TCP are about.
const MPTCP_CONGESTION: &str = "cubic";

/// A transport of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelTransport {
    Udp,
    Tcp,
    TcpCubic,
    TcpBbr,
    TcpReno,
    Mptcp,
    MptcpBbr,
    TcpLrr,
    TcpLrrIdeal,
    ConcloneTcp,
}

impl KernelTransport {
    /// Returns how the scheme is named and explained.
    pub(crate) const fn about(self) -> About {
        match self {
            Self::Udp => About {
                name: "udp",
                meaning: "plain datagrams on the better link",
                help: "Plain datagrams over the better link",
            },
            Self::Tcp => About {
                name: "kernel_tcp",
                meaning: "the kernel's TCP on the better link",
                help: "The kernel's TCP over the better link, its congestion control as asked",
            },
            Self::TcpCubic => About {
                name: "kernel_tcp_cubic",
                meaning: "the kernel's TCP, CUBIC, better link",
                help: "The kernel's TCP with CUBIC, over the better link",
            },
            Self::TcpBbr => About {
                name: "kernel_tcp_bbr",
                meaning: "the kernel's TCP, BBR, better link",
                help: "The kernel's TCP with BBR, over the better link",
            },
            Self::TcpReno => About {
                name: "kernel_tcp_reno",
                meaning: "the kernel's TCP, NewReno, better link",
                help: "The kernel's TCP with NewReno, over the better link",
            },
            Self::Mptcp => About {
                name: "kernel_mptcp",
                meaning: "the kernel's multipath TCP, a connection for each stream",
                help: "The kernel's multipath TCP over all links",
            },
            Self::MptcpBbr => About {
                name: "kernel_mptcp_bbr",
                meaning: "the kernel's multipath TCP, BBR on each sub-flow",
                help: "The kernel's multipath TCP over all links, with BBR on each sub-flow",
            },
            Self::ConcloneTcp => About {
                name: "conclone_tcp",
                meaning: "ConClone as published: a TCP connection for each link, control on all",
                help: "ConClone as published: a TCP connection for each link, control copied on every one, data on that of the least round trip",
            },
            Self::TcpLrrIdeal => About {
                name: "tcp_lrr_ideal",
                meaning: "the same, over a radio that repeats at once",
                help: "The same as tcp_lrr, over a radio that repeats in the very next slots and never backs off",
            },
            Self::TcpLrr => About {
                name: "tcp_lrr",
                meaning: "TCP on the best link, which repeats what is lost, over a low-rate retry",
                help: "TCP over the best link with 15 repeats of its own, and a shim that repeats an un-ACKed packet at 10 kbit/s",
            },
        }
    }

    /// Returns what a stream's connection is, and under which congestion control; none for
    /// datagrams, which connect nothing.
    pub(crate) const fn connection(self) -> Option<(Transport, &'static str)> {
        match self {
            Self::Udp => None,
            Self::Tcp | Self::TcpCubic | Self::TcpLrr | Self::TcpLrrIdeal | Self::ConcloneTcp => {
                Some((Transport::Tcp, "cubic"))
            }
            Self::TcpBbr => Some((Transport::Tcp, "bbr")),
            Self::TcpReno => Some((Transport::Tcp, "reno")),
            Self::Mptcp => Some((Transport::Mptcp, MPTCP_CONGESTION)),
            Self::MptcpBbr => Some((Transport::Mptcp, "bbr")),
        }
    }
}
