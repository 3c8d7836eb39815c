//! The kinds of local endpoint that several sections know, and their keys.

use std::net::SocketAddr;
use std::path::PathBuf;

use toml_keys::Section;

use super::EndpointKind;

const ADDRESS: &str = "an address and port such as 127.0.0.1:14550";

/// The kinds that several sections have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    UdpServer,
    UdpClient,
    TcpServer,
    Serial,
}

/// Reads the keys of a kind.
pub(super) fn endpoint_kind(section: &Section<'_>, kind: Kind) -> Option<EndpointKind> {
    if kind == Kind::Serial {
        let device = section.text("device");
        if !section.has("device") {
            section.wrong("device", "is missing: name the port, such as device = \"/dev/ttyAMA0\"");
        }
        let baud = section.number("baud", 1_200..=12_000_000).unwrap_or(57_600) as u32;
        if section.has("address") {
            section.wrong("address", "belongs to UDP and TCP, not to a serial port");
        }
        return Some(EndpointKind::Serial(PathBuf::from(device?), baud));
    }
    for key in ["device", "baud"] {
        if section.has(key) {
            section.wrong(key, "belongs to kind = \"serial\"");
        }
    }
    let address: SocketAddr = section.required("address", ADDRESS)?;
    if address.port() == 0 {
        section.wrong("address", "needs a port other than 0");
    }
    Some(match kind {
        Kind::UdpServer => EndpointKind::UdpServer(address),
        Kind::UdpClient => EndpointKind::UdpClient(address),
        _ => EndpointKind::TcpServer(address),
    })
}
