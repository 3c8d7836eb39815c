//! The two ends and what is between them: keys, `[[peer]]`, `[[path]]`, `[[listen]]`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use ipnet::IpNet;
use proto::{MAX_PATHS, MAX_SESSIONS, PublicKey, StaticSecret};
use toml_keys::Section;

use zeroize::Zeroizing;

use super::relay::{Gateways, named};
use super::{Carrier, Listen, MAX_SOCKETS, PathConfig, Peer, Remote, Role, carrier, path_use};
use crate::interface::is_hardware;
use crate::keys;

/// A peer, and where its paths go unless they say otherwise.
pub(super) type ReadPeer = (Peer, Vec<Remote>);

/// Addresses and names that a path may have.
const REMOTES: usize = 8;

const KEY: &str = "a key: base64 of 32 bytes, 44 characters";
/// What stands in the place of keys in the examples of README.md and `dist/`.
const PLACEHOLDERS: [&str; 2] = ["STATION-PUBLIC-KEY", "DRONE-PUBLIC-KEY"];
/// Said of a file that waits to be paired.
const NO_PEER: &str = "there is no [[peer]] yet: fulmar pair, at the station and then on the drone, makes one at both ends";
const REMOTE: &str = "an address or name with a port from 1 to 65535, such as 203.0.113.5:14700, [2001:db8::5]:14700 or \
                      station.example.org:14700";
const ADDRESS: &str = "an address and port such as 203.0.113.5:14700 or [2001:db8::5]:14700";

/// Reads `private_key` or `private_key_file`.
pub(super) fn secret(
    root: &Section<'_>,
    file: &Path,
    warnings: &mut Vec<String>,
) -> Option<StaticSecret> {
    let (key, secret) = match (root.has("private_key"), root.has("private_key_file")) {
        (true, true) => {
            root.wrong("private_key_file", "give private_key or private_key_file, not both");
            return None;
        }
        (true, false) => {
            warn_of_readers(file, "holds the private key", warnings);
            let key: StaticSecret = root.parsed("private_key", KEY)?;
            ("private_key", Zeroizing::new(key.to_bytes()))
        }
        (false, _) => {
            root.require("private_key_file");
            ("private_key_file", key_file(root, "private_key_file", file, warnings)?)
        }
    };
    if *secret == [0; 32] {
        root.wrong(key, "is all zeros: anybody's guess; fulmar keygen makes one");
    }
    Some(StaticSecret::from_bytes(*secret))
}

/// Reads every `[[peer]]`.
pub(super) fn peers(
    root: &Section<'_>,
    secret: Option<&StaticSecret>,
    file: &Path,
    warnings: &mut Vec<String>,
) -> Vec<ReadPeer> {
    let own = secret.map(StaticSecret::public);
    let mut peers: Vec<ReadPeer> = Vec::new();
    let mut known = Known::default();
    let sections = root.sections("peer");
    if sections.is_empty() {
        warnings.push(NO_PEER.into());
    }
    if sections.len() > MAX_SESSIONS {
        let what =
            format!("{} are more than the {MAX_SESSIONS} that one daemon serves", sections.len());
        root.wrong("peer", what);
    }
    for section in sections {
        let name = section.required_text("name").unwrap_or_default().to_owned();
        let key = peer_key(&section);
        let preshared_key = key_file(&section, "preshared_key_file", file, warnings);
        if preshared_key.as_ref().is_some_and(|key| **key == [0; 32]) {
            let what =
                "is all zeros: anybody's guess; fulmar keygen --out makes one, for both ends";
            section.wrong("preshared_key_file", what);
        }
        let allowed = allowed_addresses(&section, &name, &mut known);
        let endpoint = remotes(&section, "endpoint");
        if !known.names.insert(name.clone()) {
            section.wrong("name", format!("\"{name}\" names two peers"));
        }
        let is_private = |key: PublicKey| {
            secret.is_some_and(|secret| *Zeroizing::new(secret.to_bytes()) == key.0)
        };
        if key.is_some_and(is_private) {
            let what = "is what is given as our private key: here belongs the other end's public key (fulmar pubkey \
                        there), and there a private one that nobody else has (fulmar keygen)";
            section.wrong("public_key", what);
        } else if key.is_some() && key == own {
            section.wrong("public_key", "is our own: give the other end's (fulmar pubkey there)");
        }
        if key.is_some_and(|key| key.is_weak()) {
            section.wrong("public_key", "is nobody's: with it anybody could be this peer");
        }
        if key.is_some_and(|key| !known.keys.insert(key)) {
            section.wrong("public_key", "belongs to two peers: each needs a key pair of its own");
        }
        section.finish();
        // A peer whose key is wrong stays, so that what refers to it is not reported as well.
        let key = key.unwrap_or(PublicKey([0; 32]));
        peers.push((Peer { name, key, preshared_key, allowed }, endpoint));
    }
    peers
}

/// Reads every `[[path]]` of a drone.
pub(super) fn paths(
    root: &Section<'_>,
    role: Option<Role>,
    file: &Path,
    peers: &[ReadPeer],
    relays: &Gateways,
    warnings: &mut Vec<String>,
) -> Vec<PathConfig> {
    let sections = root.sections("path");
    match role {
        Some(Role::Station) if !sections.is_empty() => {
            root.wrong(
                "path",
                "belongs to a drone's file: a station waits at [[listen]] addresses",
            );
        }
        // One that is to be paired is given its paths then.
        Some(Role::Drone) if sections.is_empty() && !peers.is_empty() && !root.has("path") => {
            root.wrong("path", "is missing: a drone needs a [[path]] for each link");
        }
        _ => {}
    }
    check_count(root, "path", sections.len());
    let mut paths: Vec<PathConfig> = Vec::new();
    let mut read = Vec::new();
    for section in sections {
        let is_relayed = section.has("relay");
        let relay = named(&section, relays);
        let interface = interface_of(&section, is_relayed);
        let name = section.text("name").or(section.text("relay")).unwrap_or(&interface).to_owned();
        let peer = peer(&section, peers);
        let mut remotes = remotes(&section, "remote");
        if remotes.is_empty() && !section.has("remote") && !is_relayed {
            remotes = peer.and_then(|peer| peers.get(peer)).map_or(Vec::new(), |at| at.1.clone());
            if remotes.is_empty() && !peers.is_empty() {
                section.wrong("remote", "is missing, and the peer has no endpoint");
            }
        }
        if paths.iter().any(|path| path.name == name) {
            section.wrong("name", format!("\"{name}\" names two paths"));
        }
        let usage = path_use::read(&section);
        let carried = carrier::read(&section, |section| self::remotes(section, "fallback"));
        let leads_somewhere = if is_relayed { relay.is_some() } else { !remotes.is_empty() };
        let (carrier, beside, proxy) = (Carrier::Udp, None, None);
        let path = |peer| PathConfig {
            name,
            interface,
            remotes,
            proxy,
            relay,
            carrier,
            beside,
            peer,
            usage,
        };
        let path = peer.filter(|_| leads_somewhere).map(path);
        let new = path.map_or(Vec::new(), |path| carried.paths(path));
        let siblings = paths.iter().filter(|path| Some(path.peer) == peer).count();
        if siblings + new.len().max(1) > MAX_PATHS {
            let what = format!(
                "has {siblings} paths already, connections too: no session has more than {MAX_PATHS}"
            );
            section.wrong("peer", what);
        } else {
            paths.extend(new);
        }
        read.push((section, peer, usage));
    }
    path_use::check(&read, peers, warnings);
    let has_login = |path: &PathConfig| path.proxy.as_ref().is_some_and(|it| it.login.is_some());
    if paths.iter().any(has_login) {
        warn_of_readers(file, "holds a proxy's password", warnings);
    }
    if paths.len() > MAX_SOCKETS {
        check_count(root, "path", paths.len());
    }
    read.into_iter().for_each(|(section, ..)| section.finish());
    paths
}

/// Reads every `[[listen]]` of a station.
pub(super) fn listens(
    root: &Section<'_>,
    role: Option<Role>,
    relays: &mut Gateways,
) -> Vec<Listen> {
    let sections = root.sections("listen");
    match role {
        Some(Role::Drone) if !sections.is_empty() => {
            root.wrong("listen", "belongs to a station's file: a drone opens [[path]]s");
        }
        Some(Role::Station) if sections.is_empty() && !root.has("listen") => {
            root.wrong("listen", "is missing: a station needs a [[listen]] address for its drones");
        }
        _ => {}
    }
    check_count(root, "listen", sections.len());
    let mut listens: Vec<Listen> = Vec::new();
    for section in sections {
        if section.has("relay") {
            listen_at_relay(section, relays);
            continue;
        }
        let address: Option<SocketAddr> = section.required("address", ADDRESS);
        if address.is_some_and(|address| address.port() == 0) {
            section.wrong("address", "needs a port other than 0: drones must know it");
        }
        let carrier = carrier::of_listen(&section);
        let interface = section.text("interface").map(str::to_owned);
        if let Some(interface) = &interface {
            check_wanted_interface(&section, interface);
        }
        let name = match (section.text("name"), &interface, address) {
            (Some(name), _, _) => name.to_owned(),
            (None, Some(interface), _) => interface.clone(),
            (None, None, address) => address.map_or_else(String::new, |at| at.to_string()),
        };
        let is_same = |listen: &Listen| {
            Some(listen.address) == address
                && listen.interface == interface
                && listen.carrier == carrier
        };
        if listens.iter().any(is_same) {
            section.wrong("address", "is listened at twice");
        }
        section.finish();
        if let Some(address) = address {
            listens.push(Listen { name, carrier, address, interface });
        }
    }
    listens
}

/// Reads which peer a section is about: by name, or the only one there is.
pub(super) fn peer(section: &Section<'_>, peers: &[ReadPeer]) -> Option<usize> {
    match section.text("peer") {
        Some(name) => {
            let found = peers.iter().position(|(peer, _)| peer.name == name);
            if found.is_none() {
                let names: Vec<_> = peers.iter().map(|(peer, _)| peer.name.as_str()).collect();
                let what = format!(
                    "there is no [[peer]] named \"{name}\"; there are {}",
                    names.join(", ")
                );
                section.wrong("peer", what);
            }
            found
        }
        None if peers.len() > 1 => {
            section.wrong("peer", "is missing: the file has several peers, name one");
            None
        }
        None => (!peers.is_empty()).then_some(0),
    }
}

/// Tells whether an address is one host's, whichever.
pub(crate) fn is_of_one_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !address.is_multicast() && !is_broadcast
}

/// Warns of peers that could speak in our name: their packets in the tunnel may carry our
/// addresses.
pub(super) fn warnings_of_own<'p>(
    peers: impl Iterator<Item = &'p Peer>,
    own: &[IpAddr],
) -> Vec<String> {
    let warning = |peer: &Peer| {
        let covers = |net: &IpNet| Some((*net, *own.iter().find(|own| net.contains(*own))?));
        let (net, own) = peer.allowed.iter().find_map(covers)?;
        let name = &peer.name;
        Some(format!(
            "peer \"{name}\": allowed_addresses {net} covers our own address {own}: what comes from the \
             peer may claim to be ours"
        ))
    };
    peers.filter_map(warning).collect()
}

/// Interface names that the kernel would not take.
pub(super) fn check_interface(section: &Section<'_>, name: &str) {
    let is_odd =
        |letter: char| "/:".contains(letter) || letter.is_whitespace() || letter.is_control();
    let fits =
        (1..=15).contains(&name.len()) && !name.contains(is_odd) && name != "." && name != "..";
    if section.has("interface") && !fits {
        let name = name.escape_debug();
        let what = format!(
            "\"{name}\" cannot be an interface: write its name as ip link shows it, such as wlan0"
        );
        section.wrong("interface", what);
    }
}

/// Reads the key in the file that a key names.
pub(super) fn key_file(
    section: &Section<'_>,
    key: &'static str,
    file: &Path,
    warnings: &mut Vec<String>,
) -> Option<Zeroizing<[u8; 32]>> {
    let name = section.text(key)?;
    if name.parse::<PublicKey>().is_ok() {
        let what = "holds a key, not the name of a file: put the key into a file (chmod 600) and name that";
        section.wrong(key, what);
        return None;
    }
    let path = file.parent().unwrap_or(Path::new("")).join(name);
    match keys::read_key(&path) {
        Ok(bytes) => {
            warn_of_readers(&path, "holds a secret", warnings);
            Some(bytes)
        }
        Err(error) => {
            let hint = match error.kind() {
                std::io::ErrorKind::NotFound => "; fulmar keygen --out makes a new one",
                _ => "",
            };
            section.wrong(key, format!("{}: {error}{hint}", path.display()));
            None
        }
    }
}

/// What can be neither the name of an interface nor a pattern for names nor the place of hardware.
fn check_wanted_interface(section: &Section<'_>, wanted: &str) {
    if !is_hardware(wanted) {
        check_interface(section, wanted);
    } else if wanted.ends_with(':') || wanted.contains(|letter: char| letter.is_control()) {
        let what = format!(
            "\"{}\" is no place of hardware such as \"usb:1-1.2\" (ls /sys/bus/usb/devices)",
            wanted.escape_debug()
        );
        section.wrong("interface", what);
    }
}

/// Reads the interface of a path; one over relays has none of its own.
fn interface_of(section: &Section<'_>, is_relayed: bool) -> String {
    if is_relayed {
        section.exclusive(&["relay", "interface", "remote"]);
        return section.text("interface").unwrap_or_default().to_owned();
    }
    let interface = section.required_text("interface").unwrap_or_default().to_owned();
    check_wanted_interface(section, &interface);
    interface
}

/// Reads a `[[listen]]` whose drones come over relays.
fn listen_at_relay(section: Section<'_>, relays: &mut Gateways) {
    section.exclusive(&["relay", "address", "interface", "carrier"]);
    let _ = (section.has("address"), section.has("interface"), section.text("name"));
    if let Some(relay) = named(&section, relays) {
        if relays.read[relay].listens {
            section.wrong("relay", "is listened at twice");
        }
        relays.read[relay].listens = true;
    }
    section.finish();
}

/// Reads where a station may be found.
fn remotes(section: &Section<'_>, key: &'static str) -> Vec<Remote> {
    let remotes: Vec<Remote> = section.list(key, REMOTE);
    let addresses = || remotes.iter().filter_map(Remote::address);
    if remotes.iter().any(|remote| remote.port() == 0)
        || addresses().any(|address| address.ip().is_unspecified())
    {
        section.wrong(key, "needs the station's address and a port other than 0");
    }
    if addresses().any(|address| !is_of_one_host(address.ip())) {
        section
            .wrong(key, "is an address of many (multicast or broadcast): give the station's own");
    }
    if section.is_empty_list(key) {
        section.wrong(key, "needs an address");
    }
    if remotes.len() > REMOTES {
        section.wrong(key, format!("has more than {REMOTES} addresses"));
    }
    remotes
}

/// Reads a peer's public key.
fn peer_key(section: &Section<'_>) -> Option<PublicKey> {
    let key = "public_key";
    let Some(placeholder) = PLACEHOLDERS.iter().find(|text| section.is_text(key, text)) else {
        return section.required(key, KEY);
    };
    let what = "stands in the example in place of a key: put in what fulmar pubkey prints at the \
                other end";
    section.wrong(key, format!("{placeholder} {what}"));
    None
}

/// What the peers read so far have taken.
#[derive(Default)]
struct Known {
    names: BTreeSet<String>,
    keys: BTreeSet<PublicKey>,
    /// With the name of the peer.
    nets: BTreeMap<IpNet, String>,
}

fn allowed_addresses(section: &Section<'_>, name: &str, known: &mut Known) -> Vec<IpNet> {
    let expected = "an address with its prefix such as 10.77.0.2/32";
    let allowed: Vec<IpNet> = section.list("allowed_addresses", expected);
    let mut allowed: Vec<IpNet> = allowed.iter().map(IpNet::trunc).collect();
    allowed.sort_unstable();
    allowed.dedup();
    for net in &allowed {
        if let Some(other) = known.nets.insert(*net, name.to_owned()) {
            let what = format!("{net} belongs to peer \"{other}\" already");
            section.wrong("allowed_addresses", what);
        }
    }
    allowed
}

/// Warns of a file with a secret that others may read.
fn warn_of_readers(path: &Path, holds: &str, warnings: &mut Vec<String>) {
    if keys::is_open(path) {
        let path = path.display();
        warnings.push(format!("{path} {holds} and others may read it: chmod 600 {path}"));
    }
}

/// Refuses more sections that open a socket each than the daemon has room for.
fn check_count(root: &Section<'_>, key: &str, count: usize) {
    if count > MAX_SOCKETS {
        root.wrong(key, format!("{count} are more than the {MAX_SOCKETS} that one daemon opens"));
    }
}
