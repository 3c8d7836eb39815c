//! One port under two names: two endpoints of a file that would open the same device, socket or
//! address, of which the second does not work, or a client that speaks to its own daemon.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::config::{Carrier, Config, EndpointConfig, EndpointKind, Listen, Remote};

/// Something that one alone can have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Port {
    /// By its own name, whatever link leads to it.
    File(PathBuf),
    Udp(Place),
    Tcp(Place),
}

/// An address that is waited at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    address: SocketAddr,
    /// IPv6's unspecified address stands for IPv4's as well.
    has_both: bool,
}

impl Place {
    fn overlaps(self, other: Self) -> bool {
        let covers = |one: Self, other: IpAddr| {
            one.address.ip().is_unspecified()
                && (one.has_both || one.address.is_ipv4() == other.is_ipv4())
        };
        let (one, two) = (self.address.ip(), other.address.ip());
        self.address.port() == other.address.port()
            && (one == two || covers(self, two) || covers(other, one))
    }
}

/// Says which endpoints want what another one, or a `[[listen]]`, has under another name. The same
/// name is a mistake of the file already.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let listens = config.listens.iter().filter(|listen| listen.interface.is_none());
    let known = |listen: &Listen| {
        let place = place_of(listen);
        let port = match listen.carrier {
            Carrier::Udp => Port::Udp(place),
            Carrier::Tcp => Port::Tcp(place),
        };
        (format!("listen \"{}\"", listen.name), place.address.to_string(), port)
    };
    let mut known: Vec<(String, String, Port)> = listens.map(known).collect();
    let mut warnings = Vec::new();
    for endpoint in &config.endpoints {
        let Some((text, port)) = port_of(endpoint) else { continue };
        let name = format!("endpoint \"{}\"", endpoint.name);
        let found = known.iter().find(|(_, other, known)| *other != text && is_same(known, &port));
        if let Some((other, theirs, _)) = found {
            warnings.push(format!(
                "{name}: {text} is what {other} has under another name, {theirs}: one of the two will not work"
            ));
        }
        known.push((name, text, port));
    }
    for endpoint in &config.endpoints {
        let (client, is_udp) = match &endpoint.kind {
            EndpointKind::UdpClient(Remote::Address(address)) => (address, true),
            EndpointKind::TcpClient(Remote::Address(address)) => (address, false),
            _ => continue,
        };
        let client = Place { address: *client, has_both: false };
        // Another computer may wait at the same port.
        if !client.address.ip().is_loopback() {
            continue;
        }
        let waits = |known: &&(String, String, Port)| match &known.2 {
            Port::Udp(place) => is_udp && place.overlaps(client),
            Port::Tcp(place) => !is_udp && place.overlaps(client),
            Port::File(_) => false,
        };
        if let Some((other, ..)) = known.iter().find(waits) {
            let (name, address) = (&endpoint.name, client.address);
            warnings.push(format!(
                "endpoint \"{name}\" speaks to {address}, where {other} of this file waits"
            ));
        }
    }
    warnings
}

fn is_same(one: &Port, other: &Port) -> bool {
    match (one, other) {
        (Port::Udp(one), Port::Udp(other)) | (Port::Tcp(one), Port::Tcp(other)) => {
            one.overlaps(*other)
        }
        _ => one == other,
    }
}

fn place_of(listen: &Listen) -> Place {
    Place { address: listen.address, has_both: false }
}

/// Returns what an endpoint waits at, as the file has it and as the system does.
fn port_of(endpoint: &EndpointConfig) -> Option<(String, Port)> {
    let place = |address: &SocketAddr| {
        let has_both = address.is_ipv6() && address.ip().is_unspecified();
        Place { address: *address, has_both }
    };
    Some(match &endpoint.kind {
        // Any number may be of one group.
        EndpointKind::UdpServer(address) if address.ip().is_multicast() => return None,
        EndpointKind::UdpServer(address) => (address.to_string(), Port::Udp(place(address))),
        EndpointKind::TcpServer(address) => (address.to_string(), Port::Tcp(place(address))),
        EndpointKind::Serial(device, _) => {
            (device.display().to_string(), Port::File(device.canonicalize().ok()?))
        }
        EndpointKind::Seqpacket(path, _) => {
            let folder = path.parent().and_then(|folder| folder.canonicalize().ok())?;
            let file = folder.join(path.file_name().map(Path::new)?);
            (path.display().to_string(), Port::File(file))
        }
        EndpointKind::UdpClient(_) | EndpointKind::TcpClient(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::parse;
    use crate::config::tests::drone;

    fn warned(text: &str) -> Vec<String> {
        let path = "[[path]]\ninterface = \"wlan0\"\nremote = \"192.0.2.1:14700\"\n";
        let listen = "[[listen]]\naddress = \"0.0.0.0:14700\"\n";
        let text = drone(text).replace("\"drone\"", "\"station\"").replace(path, listen);
        warnings(&parse(&text, Path::new("station.toml")).unwrap())
    }

    fn endpoint(name: &str, kind: &str, at: &str) -> String {
        let key = if kind == "serial" { "device" } else { "address" };
        format!("[[mavlink]]\nname = \"{name}\"\nkind = \"{kind}\"\n{key} = \"{at}\"\n")
    }

    #[test]
    fn one_device_under_two_names_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (device, link) = (folder.path().join("ttyUSB0"), folder.path().join("by-id"));
        std::fs::write(&device, "").unwrap();
        symlink(&device, &link).unwrap();
        let [device, link] = [device, link].map(|path| path.display().to_string());
        let text = endpoint("a", "serial", &device) + &endpoint("b", "serial", &link);
        let told = warned(&text);
        assert_eq!(told.len(), 1, "{told:?}");
        let is = format!(
            "endpoint \"b\": {link} is what endpoint \"a\" has under another name, {device}"
        );
        assert!(told[0].starts_with(&is), "{told:?}");
        assert!(
            warned(&(endpoint("a", "serial", &device) + &endpoint("b", "serial", "/dev/null")))
                .is_empty()
        );
    }

    #[test]
    fn one_address_under_two_names_is_found_and_who_speaks_to_itself() {
        for (one, other, count) in [
            (("udp-server", "0.0.0.0:14550"), ("udp-server", "127.0.0.1:14550"), 1),
            (("udp-server", "[::]:14550"), ("udp-server", "127.0.0.1:14550"), 1),
            (("tcp-server", "127.0.0.1:5760"), ("tcp-server", "0.0.0.0:5760"), 1),
            (("udp-server", "0.0.0.0:5760"), ("tcp-server", "0.0.0.0:5760"), 0),
            (("udp-server", "127.0.0.2:14550"), ("udp-server", "127.0.0.1:14550"), 0),
            (("udp-server", "0.0.0.0:14550"), ("udp-client", "127.0.0.1:14550"), 1),
            (("udp-server", "0.0.0.0:14550"), ("udp-client", "192.0.2.1:14550"), 0),
            (("tcp-server", "127.0.0.1:5760"), ("tcp-client", "127.0.0.1:5760"), 1),
            (("udp-server", "127.0.0.1:14700"), ("tcp-server", "0.0.0.0:1"), 1),
        ] {
            let text = endpoint("a", one.0, one.1) + &endpoint("b", other.0, other.1);
            assert_eq!(warned(&text).len(), count, "{one:?} {other:?}");
        }
    }
}
