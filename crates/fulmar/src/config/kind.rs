//! The kinds of local endpoint that several sections know, and their keys.

use std::path::PathBuf;

use toml_keys::Section;

use super::{EndpointKind, Line, Remote};

const ADDRESS: &str = "an address and port such as 127.0.0.1:14550";
const REMOTE: &str =
    "an address and port such as 127.0.0.1:14550, or a name and port such as tablet.local:14550";
/// The keys of a serial port alone.
const OF_SERIAL: [&str; 3] = ["device", "baud", "flow_control"];

/// The kinds that several sections have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    UdpServer,
    UdpClient,
    TcpServer,
    TcpClient,
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
        let flows = [("none", false), ("rts-cts", true)];
        let rts_cts = section.choice("flow_control", &flows).unwrap_or(false);
        return Some(EndpointKind::Serial(PathBuf::from(device?), Line { baud, rts_cts }));
    }
    for key in OF_SERIAL {
        if section.has(key) {
            section.wrong(key, "belongs to kind = \"serial\"");
        }
    }
    let is_client = matches!(kind, Kind::UdpClient | Kind::TcpClient);
    let remote: Remote = section.required("address", if is_client { REMOTE } else { ADDRESS })?;
    if remote.port() == 0 {
        section.wrong("address", "needs a port other than 0");
    }
    match (kind, remote) {
        (Kind::UdpClient, remote) => Some(EndpointKind::UdpClient(remote)),
        (Kind::TcpClient, Remote::Address(address)) if address.ip().is_unspecified() => {
            section.wrong("address", "is nobody's: 127.0.0.1 is this host");
            None
        }
        (Kind::TcpClient, remote) => Some(EndpointKind::TcpClient(remote)),
        (_, Remote::Name(..)) => {
            let what =
                "is a name: a server waits at an address of this host, such as 127.0.0.1:14550";
            section.wrong("address", what);
            None
        }
        (Kind::UdpServer, Remote::Address(address)) => Some(EndpointKind::UdpServer(address)),
        (_, Remote::Address(address)) => Some(EndpointKind::TcpServer(address)),
    }
}
