//! Where the file does not match this computer, for `fulmar check`: warnings, since a file may be written
//! for another one, and links come and go.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Instant;

use proto::Duration;
use sys::interfaces::{self, Interface};

use crate::config::{
    Config, EndpointConfig, EndpointKind, HopConfig, PathConfig, RelayFile, Remote,
};
use crate::endpoints::way_trouble;
use crate::events::socket_beside;
use crate::interface::find_usable;
use crate::names;
use crate::socket_file::{try_directory, try_place};
use crate::ways;

/// Speeds that serial ports and autopilots know, in baud.
const USUAL_SPEEDS: [u32; 21] = [
    1_200, 2_400, 4_800, 9_600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 500_000,
    576_000, 921_600, 1_000_000, 1_152_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000, 3_500_000,
    4_000_000,
];

/// Bytes around a full packet of the tunnel: IPv4, UDP, ours.
const HEADERS: u32 = 28 + 28 + 17;
/// The longest packet that every link must carry.
const LEAST_MTU: u32 = 576;

/// How long `fulmar check` waits for a resolver that does not answer.
const RESOLVED_WITHIN: Duration = Duration::from_secs(5);

/// Returns what does not fit, or could not be found out.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let interfaces = match interfaces::list() {
        Ok(interfaces) => interfaces,
        Err(error) => {
            return vec![format!("the interfaces of this host cannot be listed: {error}")];
        }
    };
    let in_paths = config.paths.iter().map(|path| path.interface.as_str());
    let in_listens = config.listens.iter().filter_map(|listen| listen.interface.as_deref());
    let in_relays = config.relays.iter().map(|relay| relay.wire.interface.as_str());
    let in_use: Vec<_> = in_paths.chain(in_listens).chain(in_relays).collect();
    let interface_trouble =
        |name: &str, ipv6: bool| find_usable(name, ipv6, &interfaces, &in_use).err();
    let mut warnings = Vec::new();
    for relay in &config.relays {
        let lacks = interface_trouble(&relay.wire.interface, false);
        warnings.extend(lacks.map(|lacks| format!("relay \"{}\": {lacks}", relay.name)));
    }
    for path in config.paths.iter().filter(|path| path.relay.is_none()) {
        let lacks = interface_trouble(&path.interface, path.is_ipv6());
        warnings.extend(lacks.map(|lacks| format!("path \"{}\": {lacks}", path.name)));
        let narrow = narrowness(config, path, &interfaces);
        warnings.extend(narrow.map(|narrow| format!("path \"{}\": {narrow}", path.name)));
    }
    warnings.extend(config.paths.iter().flat_map(|path| way_troubles(path, &interfaces)));
    warnings.extend(name_troubles(&config.paths));
    for listen in &config.listens {
        let ipv6 = listen.address.is_ipv6();
        let lacks = listen.interface.as_ref();
        let lacks = lacks.and_then(|name| interface_trouble(name, ipv6));
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
    warnings.extend(status_trouble(&config.status));
    if let Some(record) = &config.record
        && let Err(error) = try_directory(&record.directory)
    {
        let place = record.directory.display();
        warnings.push(format!("record: {place}: {error}; [record] directory names another place"));
    }
    let is_own = |address: &IpAddr| !address.is_loopback();
    let own = interfaces.iter().flat_map(|interface| &interface.addresses).filter(|at| is_own(at));
    warnings.extend(config.warnings_of_own(&own.copied().collect::<Vec<_>>()));
    warnings
}

/// Returns what of a relay's file does not fit.
pub(crate) fn relay_warnings(config: &RelayFile) -> Vec<String> {
    let interfaces = match interfaces::list() {
        Ok(interfaces) => interfaces,
        Err(error) => {
            return vec![format!("the interfaces of this host cannot be listed: {error}")];
        }
    };
    let hops = [("wire", &config.wire), ("radio", &config.radio)];
    let in_use: Vec<_> = hops.iter().map(|(_, hop)| hop.interface.as_str()).collect();
    let trouble = |(name, hop): (&str, &HopConfig)| {
        let lacks = find_usable(&hop.interface, false, &interfaces, &in_use).err()?;
        Some(format!("{name}: {lacks}"))
    };
    let mut warnings: Vec<String> = hops.into_iter().filter_map(trouble).collect();
    warnings.extend(status_trouble(&config.status));
    warnings
}

/// Says what keeps datagrams of a path whose interface works from its addresses.
fn way_troubles(path: &PathConfig, interfaces: &[Interface]) -> Vec<String> {
    let is_it = |at: &&Interface| at.name == path.interface && at.running && path.relay.is_none();
    let Some(interface) = interfaces.iter().find(is_it) else { return Vec::new() };
    let has = |is_ipv6| interface.addresses.iter().any(|address| address.is_ipv6() == is_ipv6);
    let trouble = |remote: &Remote| match remote {
        Remote::Address(address) if has(address.is_ipv6()) => {
            ways::trouble(interface, address.ip())
        }
        Remote::Name(host, _) if has(path.is_ipv6()) => {
            ways::trouble_of_name(interface, host, path.is_ipv6())
        }
        _ => None,
    };
    let troubles = path.remotes.iter().filter_map(trouble);
    troubles.map(|trouble| format!("path \"{}\": {trouble}", path.name)).collect()
}

/// Says where full packets of the tunnel are longer than what an interface carries beside our headers.
fn narrowness(config: &Config, path: &PathConfig, interfaces: &[Interface]) -> Option<String> {
    let tunnel = config.tunnel.as_ref()?;
    let found = interfaces.iter().find(|interface| interface.name == path.interface)?;
    let (name, mtu) = (&path.interface, found.mtu);
    if mtu < LEAST_MTU {
        return Some(format!("{name} carries packets of {mtu} bytes, and needs {LEAST_MTU}"));
    }
    let headers = if path.is_ipv6() { HEADERS + 20 } else { HEADERS };
    (mtu < u32::from(tunnel.mtu) + headers).then(|| {
        format!(
            "{name} carries packets of {mtu} bytes: those of the tunnel ({}) go in pieces there, which costs some of \
             its rate",
            tunnel.mtu
        )
    })
}

/// Looks up every name that paths have; says what is wrong with which, or that nobody answered.
fn name_troubles(paths: &[PathConfig]) -> Vec<String> {
    let names = paths.iter().flat_map(|path| {
        path.remotes.iter().filter_map(|remote| match remote {
            Remote::Name(host, port) => Some((host.clone(), *port, path.is_ipv6())),
            Remote::Address(_) => None,
        })
    });
    let mut open: BTreeSet<_> = names.collect();
    let (sender, answers) = channel();
    for (host, port, is_ipv6) in open.clone() {
        let sender = sender.clone();
        let asker = move || {
            let trouble = names::look_up(&host, port, is_ipv6).err();
            // Nobody listens any more to one that took too long.
            let _ = sender.send(((host, port, is_ipv6), trouble));
        };
        // Where there is no thread, there is no answer either.
        let _ = std::thread::Builder::new().name("names".into()).spawn(asker);
    }
    drop(sender);
    let deadline = Instant::now() + std::time::Duration::from(RESOLVED_WITHIN);
    let mut troubles = Vec::new();
    while let Ok((name, trouble)) =
        answers.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        open.remove(&name);
        troubles.extend(trouble.map(|trouble| format!("remote {} {trouble}", name.0)));
    }
    let within = RESOLVED_WITHIN.as_secs();
    for (host, ..) in open {
        troubles.push(format!("remote {host} was not looked up within {within} s"));
    }
    troubles.sort();
    troubles.dedup();
    troubles.into_iter().map(|trouble| format!("{trouble}; not verified")).collect()
}

fn endpoint_trouble(endpoint: &EndpointConfig) -> Option<String> {
    match &endpoint.kind {
        // Its socket lets others bind there as well, and a group needs no address.
        EndpointKind::UdpServer(address) if address.ip().is_multicast() => None,
        EndpointKind::UdpServer(address) => bind_trouble(UdpSocket::bind(address), *address),
        EndpointKind::TcpServer(address) => bind_trouble(TcpListener::bind(address), *address),
        EndpointKind::UdpClient(address) => way_trouble(*address),
        EndpointKind::Seqpacket(path, _) => {
            try_place(path).err().map(|error| format!("{}: {error}", path.display()))
        }
        EndpointKind::Serial(device, baud) => {
            if !device.exists() {
                return Some(format!("there is no {}", device.display()));
            }
            let is_odd = !USUAL_SPEEDS.contains(baud);
            is_odd.then(|| format!("{baud} baud is an odd speed: is it what the other end has?"))
        }
    }
}

/// Says why the status socket could not be made, without which no command reaches the daemon.
fn status_trouble(path: &Path) -> Option<String> {
    let place = path.display();
    if UnixStream::connect(path).is_ok() {
        let by = "by this file's daemon, or by another program (ss -xlp)";
        return Some(format!("status socket: {place} is in use: {by}"));
    }
    let error = try_place(path).and_then(|()| try_place(&socket_beside(path))).err()?;
    Some(format!("status socket: {place}: {error}; [status] socket names another place"))
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
