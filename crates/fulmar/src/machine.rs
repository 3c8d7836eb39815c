//! Where the file does not match this computer, for `fulmar check`: warnings, since a file may be written
//! for another one, and links come and go.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;

use sys::interfaces::{self, Interface};

use crate::config::{Config, EndpointConfig, EndpointKind, Remote};

/// Speeds that serial ports and autopilots know, in baud.
const USUAL_SPEEDS: [u32; 21] = [
    1_200, 2_400, 4_800, 9_600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 500_000,
    576_000, 921_600, 1_000_000, 1_152_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000, 3_500_000,
    4_000_000,
];

/// Returns what does not fit.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let interfaces = match interfaces::list() {
        Ok(interfaces) => interfaces,
        Err(error) => {
            return vec![format!("the interfaces of this host cannot be listed: {error}")];
        }
    };
    let mut warnings = Vec::new();
    for path in &config.paths {
        let ipv6 = path.remotes.iter().find_map(Remote::address).is_some_and(|at| at.is_ipv6());
        let lacks = interface_trouble(&path.interface, ipv6, &interfaces);
        warnings.extend(lacks.map(|lacks| format!("path \"{}\": {lacks}", path.name)));
    }
    for listen in &config.listens {
        let ipv6 = listen.address.is_ipv6();
        let lacks = listen.interface.as_ref();
        let lacks = lacks.and_then(|name| interface_trouble(name, ipv6, &interfaces));
        let lacks = lacks.or_else(|| bind_trouble(UdpSocket::bind(listen.address), listen.address));
        warnings.extend(lacks.map(|lacks| format!("listen \"{}\": {lacks}", listen.name)));
    }
    for endpoint in &config.endpoints {
        let lacks = endpoint_trouble(endpoint);
        warnings.extend(lacks.map(|lacks| format!("endpoint \"{}\": {lacks}", endpoint.name)));
    }
    let device = Path::new("/dev/net/tun");
    if config.tunnel.is_some() && !device.exists() {
        warnings.push("tunnel: there is no /dev/net/tun here: modprobe tun".into());
    }
    let is_own = |address: &IpAddr| !address.is_loopback();
    let own = interfaces.iter().flat_map(|interface| &interface.addresses).filter(|at| is_own(at));
    warnings.extend(config.warnings_of_own(&own.copied().collect::<Vec<_>>()));
    warnings
}

fn interface_trouble(name: &str, ipv6: bool, interfaces: &[Interface]) -> Option<String> {
    let Some(found) = interfaces.iter().find(|interface| interface.name == name) else {
        let names: Vec<_> = interfaces.iter().map(|at| at.name.as_str()).collect();
        return Some(format!("no interface {name}; interfaces here are {}", names.join(", ")));
    };
    if !found.running {
        return Some(format!("{name} is down or has no carrier"));
    }
    let has_address = found.addresses.iter().any(|address| address.is_ipv6() == ipv6);
    (!has_address).then(|| format!("{name} has no IPv{} address", if ipv6 { 6 } else { 4 }))
}

fn endpoint_trouble(endpoint: &EndpointConfig) -> Option<String> {
    match &endpoint.kind {
        EndpointKind::UdpServer(address) => bind_trouble(UdpSocket::bind(address), *address),
        EndpointKind::TcpServer(address) => bind_trouble(TcpListener::bind(address), *address),
        EndpointKind::UdpClient(_) | EndpointKind::Seqpacket(..) => None,
        EndpointKind::Serial(device, baud) => {
            if !device.exists() {
                return Some(format!("there is no {}", device.display()));
            }
            let is_odd = !USUAL_SPEEDS.contains(baud);
            is_odd.then(|| format!("{baud} baud is an odd speed: is it what the other end has?"))
        }
    }
}

/// Says why an address could not be taken; a program that has it is there now, or may be our daemon.
fn bind_trouble<T>(bound: io::Result<T>, address: SocketAddr) -> Option<String> {
    let error = bound.err()?;
    Some(match error.kind() {
        ErrorKind::AddrInUse => {
            format!("{address} is in use: by this file's daemon, or by another program (ss -tulpn)")
        }
        ErrorKind::AddrNotAvailable => format!("no interface of this host has {}", address.ip()),
        ErrorKind::PermissionDenied => format!("{address} is for root alone"),
        _ => format!("{address}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, running: bool, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Interface { index: 1, name: name.into(), running, addresses }
    }

    #[test]
    fn an_interface_has_to_be_there_with_an_address() {
        let here = [interface("wlan0", true, &["192.0.2.7"]), interface("wwan0", false, &[])];
        let trouble = |name, ipv6| interface_trouble(name, ipv6, &here).unwrap_or_default();
        assert_eq!(trouble("wlan0", false), "");
        assert!(trouble("wlan0", true).contains("no IPv6 address"));
        assert!(trouble("wwan0", false).contains("down"));
        assert!(trouble("wlan1", false).contains("interfaces here are wlan0, wwan0"));
    }
}
