//! Which capabilities a file needs: the daemon gives up all others once what the file names is
//! open, and `fulmar check` says them.
//!
//! A socket is opened again when its interface comes back, and a tunnel when somebody has removed
//! it: what these need stays.

use std::fmt;
use std::fs;
use std::net::SocketAddr;

use sys::capabilities::{Capability, is_root};
use sys::limits::{self, BufferLimits};

use crate::config::{Config, EndpointKind};
use crate::endpoints::MESSAGE_BUFFER;
use crate::relay::RECEIVE_BUFFER;

/// The kernel's own limit of a socket's buffer, where it does not tell: 212,992 bytes since Linux
/// 3.
const USUAL_BUFFER: usize = 212_992;
/// The first port that everybody may use, where the kernel does not tell.
const USUAL_PORT: u16 = 1_024;

/// A capability that a file needs, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) capability: Capability,
    pub(crate) reason: String,
    /// Whether it is needed once, at the start.
    pub(crate) at_start: bool,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = if self.at_start { "at the start, " } else { "" };
        write!(f, "{} ({when}{})", self.capability, self.reason)
    }
}

/// What of the computer decides whether something needs a right.
#[derive(Clone, Debug)]
struct Computer {
    first_port: u16,
    largest_receive_buffer: usize,
    largest_send_buffer: usize,
    binding_needs_right: bool,
    is_root: bool,
}

impl Computer {
    /// Asks the kernel; what it does not tell is as usual. The daemon's unit hides `/proc/sys`:
    /// only the first port is read there.
    fn look() -> Self {
        let port = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").ok();
        let usual = BufferLimits { receive: USUAL_BUFFER, send: USUAL_BUFFER };
        let buffers = limits::largest_buffers().unwrap_or(usual);
        Self {
            first_port: port.and_then(|port| port.trim().parse().ok()).unwrap_or(USUAL_PORT),
            largest_receive_buffer: buffers.receive,
            largest_send_buffer: buffers.send,
            binding_needs_right: is_before_5_7(&limits::kernel_release()),
            is_root: is_root(),
        }
    }
}

/// Lists what a file needs on this computer, by capability.
pub(crate) fn needs(config: &Config) -> Vec<Need> {
    needs_at(config, &Computer::look())
}

/// Lists what a relay needs on this computer.
pub(crate) fn relay_needs() -> Vec<Need> {
    let computer = Computer::look();
    let mut needs = Vec::new();
    if computer.is_root {
        let reason = "files of other users, as root".into();
        needs.push(Need { capability: Capability::DacOverride, reason, at_start: false });
    }
    needs.extend(relay_sockets(&computer));
    needs
}

/// Returns what a configuration needs while the daemon runs that was given up, in words.
pub(crate) fn lacking(config: &Config, given_up: &[Capability]) -> Option<String> {
    let needs = needs(config);
    let lacks = needs.iter().filter(|need| !need.at_start && given_up.contains(&need.capability));
    let lacks: Vec<_> = lacks.map(Need::to_string).collect();
    (!lacks.is_empty()).then(|| {
        format!(
            "this file needs {}, given up at the start for a file that did not: restart the daemon",
            lacks.join(", ")
        )
    })
}

fn needs_at(config: &Config, computer: &Computer) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut need = |capability, at_start, reason: String| {
        needs.push(Need { capability, reason, at_start });
    };
    if computer.is_root {
        need(Capability::DacOverride, false, "files of other users, as root".into());
    }
    if let Some(tunnel) = &config.tunnel {
        let what = format!("the tunnel {} and its routes", tunnel.interface);
        need(Capability::NetAdmin, false, what);
    }
    let transport = &config.transport;
    let messages = config.endpoints.iter().any(|it| matches!(it.kind, EndpointKind::Seqpacket(..)));
    let buffers = [
        (
            "receive_buffer_bytes",
            transport.receive_buffer,
            computer.largest_receive_buffer,
            "rmem_max",
        ),
        ("send_buffer_bytes", transport.send_buffer, computer.largest_send_buffer, "wmem_max"),
        (
            "the buffer of a message endpoint",
            if messages { MESSAGE_BUFFER } else { 0 },
            computer.largest_send_buffer,
            "wmem_max",
        ),
    ];
    for (what, bytes, largest, limit) in buffers {
        if bytes > largest {
            let what = format!("{what}: {bytes} is above net.core.{limit}, {largest}");
            need(Capability::NetAdmin, false, what);
        }
    }
    let is_low = |address: &SocketAddr| (1..computer.first_port).contains(&address.port());
    let low = own_addresses(config).filter(is_low);
    for address in low {
        need(Capability::NetBindService, false, format!("the port of {address}"));
    }
    let at_interface = config.listens.iter().any(|listen| listen.interface.is_some());
    if computer.binding_needs_right && (at_interface || !config.paths.is_empty()) {
        let what = "sockets at interfaces, on a kernel before 5.7";
        need(Capability::NetRaw, false, what.into());
    }
    if !config.relays.is_empty() {
        needs.extend(relay_sockets(computer));
    }
    if config.realtime {
        let reason = "realtime = true; a limit, LimitRTPRIO=10, does as well".into();
        needs.push(Need { capability: Capability::SysNice, reason, at_start: true });
    }
    needs
}

/// Lists what the sockets of relayed links need.
fn relay_sockets(computer: &Computer) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut need = |capability, reason: String| {
        needs.push(Need { capability, reason, at_start: false });
    };
    if RECEIVE_BUFFER > computer.largest_receive_buffer {
        let largest = computer.largest_receive_buffer;
        need(
            Capability::NetAdmin,
            format!(
                "the buffers of relayed links: {RECEIVE_BUFFER} is above net.core.rmem_max, {largest}"
            ),
        );
    }
    if computer.binding_needs_right {
        need(Capability::NetRaw, "sockets at interfaces, on a kernel before 5.7".into());
    }
    needs
}

/// Lists the addresses at which the daemon waits.
fn own_addresses(config: &Config) -> impl Iterator<Item = SocketAddr> {
    let endpoints = config.endpoints.iter().filter_map(|endpoint| match endpoint.kind {
        EndpointKind::UdpServer(address) | EndpointKind::TcpServer(address) => Some(address),
        _ => None,
    });
    config.listens.iter().map(|listen| listen.address).chain(endpoints)
}

fn is_before_5_7(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (5, 7),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;
    use crate::config::tests::drone;

    const USUAL: Computer = Computer {
        first_port: USUAL_PORT,
        largest_receive_buffer: USUAL_BUFFER,
        largest_send_buffer: USUAL_BUFFER,
        binding_needs_right: false,
        is_root: false,
    };

    fn needs_of(more: &str, computer: &Computer) -> Vec<String> {
        let config = parse(&drone(more), Path::new("/etc/fulmar/drone.toml")).unwrap();
        needs_at(&config, computer).iter().map(Need::to_string).collect()
    }

    #[test]
    fn each_need_has_its_reason_in_the_file() {
        let small = "[transport]\nreceive_buffer_bytes = 131072\n";
        assert!(needs_of(small, &USUAL).is_empty());
        assert_eq!(
            needs_of("", &USUAL),
            ["CAP_NET_ADMIN (receive_buffer_bytes: 1048576 is above net.core.rmem_max, 212992)"]
        );
        assert!(needs_of("", &Computer { largest_receive_buffer: 1 << 20, ..USUAL }).is_empty());
        assert_eq!(
            needs_of(&format!("[tunnel]\naddress = \"10.0.0.1/24\"\n{small}"), &USUAL),
            ["CAP_NET_ADMIN (the tunnel fulmar0 and its routes)"]
        );
        let low =
            "[[mavlink]]\nname = \"low\"\nkind = \"tcp-server\"\naddress = \"127.0.0.1:80\"\n";
        assert_eq!(
            needs_of(&format!("{low}{small}"), &USUAL),
            ["CAP_NET_BIND_SERVICE (the port of 127.0.0.1:80)"]
        );
        assert!(
            needs_of(&format!("{low}{small}"), &Computer { first_port: 80, ..USUAL }).is_empty()
        );
        let old = Computer { binding_needs_right: true, is_root: true, ..USUAL };
        assert_eq!(
            needs_of(small, &old),
            [
                "CAP_DAC_OVERRIDE (files of other users, as root)",
                "CAP_NET_RAW (sockets at interfaces, on a kernel before 5.7)"
            ]
        );
    }

    #[test]
    fn a_file_that_needs_what_was_given_up_is_refused_and_what_is_only_for_the_start_is_not() {
        let low = "[[mavlink]]\nname = \"low\"\nkind = \"tcp-server\"\naddress = \"127.0.0.1:1\"\n";
        let config = parse(&drone(low), Path::new("/etc/fulmar/drone.toml")).unwrap();
        let said = lacking(&config, &[Capability::NetBindService, Capability::SysNice]).unwrap();
        assert!(said.contains("127.0.0.1:1") && said.ends_with("restart the daemon"), "{said}");
        assert_eq!(lacking(&config, &[Capability::SysNice]), None);
        assert_eq!(lacking(&config, &[]), None);
    }

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert!(is_before_5_7("4.19.0-27-amd64\n") && is_before_5_7("5.6.19"));
        assert!(!is_before_5_7("5.10.0") && !is_before_5_7("6.1.0-rpi7") && !is_before_5_7(""));
    }
}
