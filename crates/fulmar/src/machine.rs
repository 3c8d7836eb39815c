//! Where the file does not match this computer, for `fulmar check`: warnings, since a file may be
//! written for another one, and links come and go.

mod doubles;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Instant;

use ipnet::IpNet;
use proto::Duration;
use sys::clock;
use sys::interfaces::{self, Interface};
use sys::serial::{FlowControl, Serial};

use crate::config::{
    Carrier, Config, EndpointConfig, EndpointKind, HopConfig, Line, Listen, PathConfig, Peer,
    RUN_DIRECTORY, RelayFile, Remote,
};
use crate::endpoints::way_trouble;
use crate::events::socket_beside;
use crate::holders::holder;
use crate::interface::{Families, Found, Here, Seeker, find_usable};
use crate::knock::Knock;
use crate::names::{self, Link};
use crate::socket_file::{try_directory, try_place};
use crate::ways::{self, same_network};

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
const RESOLVED_WITHIN: Duration = Duration::from_secs(10);

/// How long it waits for hosts that would say that nobody takes what is sent there: the round trip
/// of a slow mobile network.
const ANSWERED_WITHIN: Duration = Duration::from_millis(1_000);
/// How often it asks meanwhile.
const ASKED_EVERY: Duration = Duration::from_millis(200);
/// How often it looks meanwhile.
const LOOKED_AT_EVERY: std::time::Duration = std::time::Duration::from_millis(10);

/// Returns what does not fit, or could not be found out.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let interfaces = match interfaces::list() {
        Ok(interfaces) => interfaces,
        Err(error) => {
            return vec![format!("the interfaces of this host cannot be listed: {error}")];
        }
    };
    let mut warnings = interface_warnings(config, &interfaces);
    warnings.extend(name_troubles(config, &interfaces));
    warnings.extend(answers(config, &interfaces));
    for endpoint in &config.endpoints {
        let lacks = endpoint_trouble(endpoint);
        warnings.extend(lacks.map(|lacks| format!("endpoint \"{}\": {lacks}", endpoint.name)));
    }
    warnings.extend(doubles::warnings(config));
    let device = Path::new("/dev/net/tun");
    if config.tunnel.is_some() && !device.exists() {
        warnings.push("tunnel: there is no /dev/net/tun here: modprobe tun".into());
    }
    warnings.extend(network_warnings(config));
    warnings.extend(status_trouble(&config.status));
    warnings.extend(beside_keys(config));
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
        let lacks = find_usable(&hop.interface, Families::IPV4, &interfaces, &in_use).err()?;
        Some(format!("{name}: {lacks}"))
    };
    let mut warnings: Vec<String> = hops.into_iter().filter_map(trouble).collect();
    warnings.extend(status_trouble(&config.status));
    warnings
}

/// Says what is wrong with the interfaces of relays, paths and addresses that are listened at, and
/// which was chosen where several fit. Says which networks of peers are this computer's as well.
fn network_warnings(config: &Config) -> Vec<String> {
    let Some(tunnel) = &config.tunnel else { return Vec::new() };
    let networks = interfaces::networks().unwrap_or_default();
    let of_peer = |peer: &Peer| {
        let same = |net: &IpNet| same_network(net.trunc(), &networks, &tunnel.interface);
        let (net, by) = peer.allowed.iter().find_map(|net| Some((*net, same(net)?)))?;
        let name = &peer.name;
        Some(format!(
            "peer \"{name}\": allowed_addresses {net} is the network of {by} too, and only one of the two is reached: give one \
             of them other addresses, or allow only those that are needed, such as a camera's"
        ))
    };
    config.peers.iter().filter_map(of_peer).collect()
}

fn interface_warnings(config: &Config, interfaces: &[Interface]) -> Vec<String> {
    let mut warnings = Vec::new();
    for relay in &config.relays {
        let name = &relay.wire.interface;
        let lacks = find_usable(name, Families::IPV4, interfaces, &[]).err();
        warnings.extend(lacks.map(|lacks| format!("relay \"{}\": {lacks}", relay.name)));
    }
    for (path, found) in found_paths(config, interfaces) {
        let told = match found {
            Err(lacks) => vec![lacks],
            Ok(found) => link_warnings(config, path, &found, interfaces),
        };
        warnings.extend(told.into_iter().map(|told| format!("path \"{}\": {told}", path.name)));
    }
    let seekers: Vec<_> = config.listens.iter().filter_map(listen_seeker).collect();
    let mut found = here(config, interfaces, &seekers).into_iter();
    for listen in &config.listens {
        let lacks = listen.interface.as_ref().and_then(|_| found.next()?.err());
        let lacks = lacks.or_else(|| match listen.carrier {
            Carrier::Udp => bind_trouble(UdpSocket::bind(listen.address), listen.address),
            Carrier::Tcp => bind_trouble(TcpListener::bind(listen.address), listen.address),
        });
        let alone = listen.address.ip().is_loopback().then(|| {
            format!(
                "{} is for programs of this computer alone: no drone reaches it",
                listen.address
            )
        });
        let lacks = alone.or(lacks);
        warnings.extend(lacks.map(|lacks| format!("listen \"{}\": {lacks}", listen.name)));
    }
    warnings
}

/// Says which interface was chosen where several fit, and what keeps datagrams of a path from their
/// way by it.
fn link_warnings(
    config: &Config,
    path: &PathConfig,
    found: &Found,
    interfaces: &[Interface],
) -> Vec<String> {
    let mut warnings = Vec::new();
    if !found.others.is_empty() {
        warnings.push(format!(
            "{} is {} here, and {} would fit too: the first by name that works is taken, and kept while it works",
            path.interface,
            found.name,
            found.others.join(" and ")
        ));
    }
    let interface = interfaces.iter().find(|at| at.index == found.index);
    warnings.extend(interface.into_iter().flat_map(|interface| way_troubles(path, interface)));
    warnings.extend(interface.and_then(|interface| narrowness(config, path, interface)));
    warnings
}

/// Says what keeps datagrams of a path whose interface works from its addresses.
fn way_troubles(path: &PathConfig, interface: &Interface) -> Vec<String> {
    let has = Families::of(interface.addresses.iter().copied());
    let trouble = |remote: &Remote| match remote {
        Remote::Address(address) if has.has(address.ip()) => ways::trouble(interface, address.ip()),
        Remote::Name(host, _) => {
            let of = |is_ipv6| ways::trouble_of_name(interface, host, is_ipv6);
            // One family is enough.
            if has == Families::BOTH { of(true).and(of(false)) } else { of(has.ipv6) }
        }
        Remote::Address(_) => None,
    };
    path.remotes.iter().filter_map(trouble).collect()
}

/// Asks at the addresses of paths whose way is free, and returns what is answered: that nobody
/// takes what is sent there.
fn answers(config: &Config, interfaces: &[Interface]) -> Vec<String> {
    let mut asked = Vec::new();
    for (path, found) in found_paths(config, interfaces) {
        let interface =
            found.ok().and_then(|found| interfaces.iter().find(|at| at.index == found.index));
        let Some(interface) = interface.filter(|at| way_troubles(path, at).is_empty()) else {
            continue;
        };
        if path.carrier != Carrier::Udp {
            continue;
        }
        let addresses = path.remotes.iter().filter_map(|remote| match remote {
            Remote::Address(address) => Some(*address),
            Remote::Name(..) => None,
        });
        let knocks = addresses.filter_map(|address| {
            Knock::new(&interface.name, address, clock::now(), ASKED_EVERY).ok()
        });
        asked.extend(knocks.map(|knock| (path, knock)));
    }
    let deadline = Instant::now() + std::time::Duration::from(ANSWERED_WITHIN);
    loop {
        for (_, knock) in &mut asked {
            knock.ask(clock::now());
            knock.look();
        }
        let is_over = Instant::now() >= deadline;
        if is_over || asked.iter().all(|(_, knock)| knock.trouble().is_some()) {
            break;
        }
        std::thread::sleep(LOOKED_AT_EVERY);
    }
    let told = asked.iter().filter_map(|(path, knock)| Some((&path.name, knock.trouble()?)));
    told.map(|(name, trouble)| format!("path \"{name}\": {trouble}")).collect()
}

/// Says where full packets of the tunnel are longer than what an interface carries beside our
/// headers.
fn narrowness(config: &Config, path: &PathConfig, interface: &Interface) -> Option<String> {
    let tunnel = config.tunnel.as_ref()?;
    let (name, mtu) = (&interface.name, interface.mtu);
    if mtu < LEAST_MTU {
        return Some(format!("{name} carries packets of {mtu} bytes, and needs {LEAST_MTU}"));
    }
    let has = Families::of(interface.addresses.iter().copied());
    let headers = if has.ipv4 && path.families().ipv4 { HEADERS } else { HEADERS + 20 };
    (mtu < u32::from(tunnel.mtu) + headers).then(|| {
        format!(
            "{name} carries packets of {mtu} bytes: those of the tunnel ({}) go in pieces there, which costs some of \
             its rate",
            tunnel.mtu
        )
    })
}

/// Finds the interface of each path that has one.
fn found_paths<'c>(
    config: &'c Config,
    interfaces: &[Interface],
) -> Vec<(&'c PathConfig, Result<Found, String>)> {
    // What shares another one's interface is told of there.
    let is_own = |path: &&PathConfig| path.relay.is_none() && path.beside.is_none();
    let paths: Vec<_> = config.paths.iter().filter(is_own).collect();
    let seeker = |path: &&'c PathConfig| Seeker {
        wanted: path.interface.as_str(),
        families: path.families(),
        group: path.peer as u64,
        holds: None,
    };
    let seekers: Vec<_> = paths.iter().map(seeker).collect();
    let found = here(config, interfaces, &seekers);
    paths.into_iter().zip(found).collect()
}

fn listen_seeker(listen: &Listen) -> Option<Seeker<'_>> {
    Some(Seeker {
        wanted: listen.interface.as_deref()?,
        families: Families::of([listen.address.ip()]),
        group: listen.address.port().into(),
        holds: None,
    })
}

fn here(
    config: &Config,
    interfaces: &[Interface],
    seekers: &[Seeker<'_>],
) -> Vec<Result<Found, String>> {
    let tunnel = config.tunnel.as_ref().map(|tunnel| tunnel.interface.clone());
    let never: Vec<String> = tunnel.into_iter().collect();
    Here { interfaces, never: &never }.assign(seekers)
}

/// Looks up every name that paths have, through the link of each, and those of endpoints; says what
/// is wrong with which, or that nobody answered.
fn name_troubles(config: &Config, interfaces: &[Interface]) -> Vec<String> {
    let mut open: BTreeSet<(String, u16, Option<Link>)> = BTreeSet::new();
    for (path, found) in found_paths(config, interfaces) {
        // What the link lacks is told already.
        let Ok(found) = found else { continue };
        for remote in &path.remotes {
            if let Remote::Name(host, port) = remote {
                open.insert((host.clone(), *port, Some(Link::of(&found))));
            }
        }
    }
    let remotes = config.endpoints.iter().filter_map(|endpoint| endpoint.kind.remote());
    for remote in remotes {
        if let Remote::Name(host, port) = remote {
            open.insert((host.clone(), *port, None));
        }
    }
    let (sender, answers) = channel();
    for name in open.clone() {
        let sender = sender.clone();
        let asker = move || {
            let (host, port, link) = &name;
            let trouble = match link {
                Some(link) => names::look_up_through(host, *port, link)
                    .and_then(|found| link.lack_of(&found.addresses).map_or(Ok(()), Err)),
                None => names::look_up(host, *port).map(|_| ()),
            };
            // Nobody listens any more to one that took too long.
            let _ = sender.send((name, trouble.err()));
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
        troubles.extend(trouble.map(|trouble| format!("{} {trouble}", called(&name))));
    }
    let within = RESOLVED_WITHIN.as_secs();
    for name in open {
        troubles.push(format!("{} was not looked up within {within} s", called(&name)));
    }
    troubles.sort();
    troubles.dedup();
    troubles.into_iter().map(|trouble| format!("{trouble}; not verified")).collect()
}

/// Names what is looked up.
fn called((host, _, link): &(String, u16, Option<Link>)) -> String {
    match link {
        Some(_) => format!("remote {host}"),
        None => format!("address {host}"),
    }
}

fn endpoint_trouble(endpoint: &EndpointConfig) -> Option<String> {
    match &endpoint.kind {
        // Its socket lets others bind there as well, and a group needs no address.
        EndpointKind::UdpServer(address) if address.ip().is_multicast() => None,
        EndpointKind::UdpServer(address) => bind_trouble(UdpSocket::bind(address), *address),
        EndpointKind::TcpServer(address) => bind_trouble(TcpListener::bind(address), *address),
        EndpointKind::UdpClient(Remote::Address(address)) => way_trouble(*address),
        // A name is looked up with the others; a server may start after us.
        EndpointKind::UdpClient(Remote::Name(..)) | EndpointKind::TcpClient(_) => None,
        EndpointKind::Seqpacket(path, _) => {
            try_place(path).err().map(|error| format!("{}: {error}", path.display()))
        }
        EndpointKind::Serial(device, line) => serial_trouble(device, *line),
    }
}

fn serial_trouble(device: &Path, Line { baud, rts_cts }: Line) -> Option<String> {
    if !device.exists() {
        return Some(format!("there is no {}", device.display()));
    }
    if !USUAL_SPEEDS.contains(&baud) {
        return Some(format!("{baud} baud is an odd speed: is it what the other end has?"));
    }
    let flow = if rts_cts { FlowControl::RtsCts } else { FlowControl::None };
    // A port that nobody has can be opened for a moment; one that somebody has is not touched.
    let other = device.canonicalize().ok().and_then(|device| holder(&device));
    let error = match &other {
        Some(_) => None,
        None => Serial::open(device, baud, flow).err(),
    };
    if other.is_some() || error.as_ref().is_some_and(|it| it.kind() == ErrorKind::ResourceBusy) {
        let device = device.display();
        let by = other.or_else(|| error.map(|error| error.to_string()));
        let by = by.unwrap_or_default();
        return Some(format!(
            "{device} is in use: {by}; where that is this file's daemon, all is well"
        ));
    }
    if let Some(error) = error {
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => "; sudo, or the group dialout",
            _ => "",
        };
        return Some(format!("{}: {error}{hint}", device.display()));
    }
    None
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

/// Names sockets in the folder of the file, where `init`, `pair` and `peers` keep keys: whoever is
/// to use a socket needs a way into its folder.
fn beside_keys(config: &Config) -> Vec<String> {
    let folder_of = |path: &Path| path.parent().and_then(|folder| folder.canonicalize().ok());
    let Some(keys) = config.file.canonicalize().ok().and_then(|file| folder_of(&file)) else {
        return Vec::new();
    };
    let status = ("status socket".to_owned(), config.status.as_path());
    let of_endpoint = |endpoint: &'_ EndpointConfig| match &endpoint.kind {
        EndpointKind::Seqpacket(path, _) => {
            Some((format!("endpoint \"{}\"", endpoint.name), path.clone()))
        }
        _ => None,
    };
    let endpoints: Vec<_> = config.endpoints.iter().filter_map(of_endpoint).collect();
    let endpoints = endpoints.iter().map(|(name, path)| (name.clone(), path.as_path()));
    let beside = std::iter::once(status)
        .chain(endpoints)
        .filter(|(_, path)| folder_of(path) == Some(keys.clone()));
    let told = |(name, path): (String, &Path)| {
        let place = path.display();
        format!(
            "{name}: {place} lies in the folder of the keys: whoever uses it needs a way in there; {RUN_DIRECTORY} is for sockets alone"
        )
    };
    beside.map(told).collect()
}

/// Says why an address could not be taken; a program that has it is there now, or may be our
/// daemon.
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
