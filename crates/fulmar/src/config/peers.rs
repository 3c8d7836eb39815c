//! Who talks to whom and over what: keys, `[[peer]]`, `[[path]]`, `[[listen]]`.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ipnet::IpNet;
use proto::{MAX_PATHS, PublicKey, StaticSecret};

use super::reader::Section;
use super::{Listen, PathConfig, Peer, Role};
use crate::keys;

/// A peer, and where its paths go unless they say otherwise.
pub(super) type ReadPeer = (Peer, Option<SocketAddr>);

const KEY: &str = "a key: base64 of 32 bytes, 44 characters";
const ADDRESS: &str = "an address and port such as 203.0.113.5:14700 or [2001:db8::5]:14700";

/// Reads `private_key` or `private_key_file`.
pub(super) fn secret(
    root: &Section<'_, '_>,
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
            let key: PublicKey = root.parsed("private_key", KEY)?;
            ("private_key", key.0)
        }
        (false, _) => {
            root.require("private_key_file");
            ("private_key_file", key_file(root, "private_key_file", file, warnings)?)
        }
    };
    if secret == [0; 32] {
        root.wrong(key, "is all zeros: anybody's guess; fulmar keygen makes one");
    }
    Some(StaticSecret::from_bytes(secret))
}

/// Reads every `[[peer]]`.
pub(super) fn peers(
    root: &Section<'_, '_>,
    secret: Option<&StaticSecret>,
    file: &Path,
    warnings: &mut Vec<String>,
) -> Vec<ReadPeer> {
    let own = secret.map(StaticSecret::public);
    let mut peers: Vec<ReadPeer> = Vec::new();
    let sections = root.sections("peer");
    if sections.is_empty() {
        root.wrong("peer", "is missing: name the other end in a [[peer]] section");
    }
    for section in sections {
        let name = section.required_text("name").unwrap_or_default().to_owned();
        let key: Option<PublicKey> = section.required("public_key", KEY);
        let preshared_key = key_file(&section, "preshared_key_file", file, warnings);
        let allowed = allowed_addresses(&section, &peers);
        let endpoint = section.parsed("endpoint", ADDRESS);
        if peers.iter().any(|(peer, _)| peer.name == name) {
            section.wrong("name", format!("\"{name}\" names two peers"));
        }
        if key.is_some() && key == own {
            section.wrong("public_key", "is our own: give the other end's (fulmar pubkey there)");
        }
        if key.is_some_and(|key| key.is_weak()) {
            section.wrong("public_key", "is nobody's: with it anybody could be this peer");
        }
        if key.is_some_and(|key| peers.iter().any(|(peer, _)| peer.key == key)) {
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
    root: &Section<'_, '_>,
    role: Option<Role>,
    peers: &[ReadPeer],
) -> Vec<PathConfig> {
    let sections = root.sections("path");
    match role {
        Some(Role::Station) if !sections.is_empty() => {
            root.wrong(
                "path",
                "belongs to a drone's file: a station waits at [[listen]] addresses",
            );
        }
        Some(Role::Drone) if sections.is_empty() => {
            root.wrong("path", "is missing: a drone needs a [[path]] for each link");
        }
        _ => {}
    }
    let mut paths: Vec<PathConfig> = Vec::new();
    for section in sections {
        let interface = section.required_text("interface").unwrap_or_default().to_owned();
        check_interface(&section, &interface);
        let name = section.text("name").unwrap_or(&interface).to_owned();
        let peer = peer(&section, peers);
        let remote = section.parsed("remote", ADDRESS);
        let remote = remote.or_else(|| peers.get(peer?)?.1);
        if remote.is_some_and(|remote| remote.port() == 0 || remote.ip().is_unspecified()) {
            section.wrong("remote", "needs the station's address and a port other than 0");
        }
        if remote.is_none() && !section.has("remote") {
            section.wrong("remote", "is missing, and the peer has no endpoint");
        }
        if paths.iter().any(|path| path.name == name) {
            section.wrong("name", format!("\"{name}\" names two paths"));
        }
        let siblings = paths.iter().filter(|path| Some(path.peer) == peer).count();
        if siblings >= MAX_PATHS {
            section.wrong("peer", format!("has {MAX_PATHS} paths already: no session has more"));
        }
        section.finish();
        if let (Some(peer), Some(remote)) = (peer, remote) {
            paths.push(PathConfig { name, interface, remote, peer });
        }
    }
    paths
}

/// Reads every `[[listen]]` of a station.
pub(super) fn listens(root: &Section<'_, '_>, role: Option<Role>) -> Vec<Listen> {
    let sections = root.sections("listen");
    match role {
        Some(Role::Drone) if !sections.is_empty() => {
            root.wrong("listen", "belongs to a station's file: a drone opens [[path]]s");
        }
        Some(Role::Station) if sections.is_empty() => {
            root.wrong("listen", "is missing: a station needs a [[listen]] address for its drones");
        }
        _ => {}
    }
    let mut listens: Vec<Listen> = Vec::new();
    for section in sections {
        let address: Option<SocketAddr> = section.required("address", ADDRESS);
        if address.is_some_and(|address| address.port() == 0) {
            section.wrong("address", "needs a port other than 0: drones must know it");
        }
        let interface = section.text("interface").map(str::to_owned);
        if let Some(interface) = &interface {
            check_interface(&section, interface);
        }
        let name = match (section.text("name"), &interface, address) {
            (Some(name), _, _) => name.to_owned(),
            (None, Some(interface), _) => interface.clone(),
            (None, None, address) => address.map_or_else(String::new, |at| at.to_string()),
        };
        if listens
            .iter()
            .any(|listen| Some(listen.address) == address && listen.interface == interface)
        {
            section.wrong("address", "is listened at twice");
        }
        section.finish();
        if let Some(address) = address {
            listens.push(Listen { name, address, interface });
        }
    }
    listens
}

/// Reads which peer a section is about: by name, or the only one there is.
pub(super) fn peer(section: &Section<'_, '_>, peers: &[ReadPeer]) -> Option<usize> {
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

/// Interface names that the kernel would not take.
pub(super) fn check_interface(section: &Section<'_, '_>, name: &str) {
    let fits = name.len() <= 15 && !name.contains(['/', ' ', ':']) && name != "." && name != "..";
    if section.has("interface") && (name.is_empty() || !fits) {
        section
            .wrong("interface", format!("\"{name}\" cannot be an interface: 1 to 15 characters"));
    }
}

fn allowed_addresses(section: &Section<'_, '_>, peers: &[ReadPeer]) -> Vec<IpNet> {
    let expected = "an address with its prefix such as 10.77.0.2/32";
    let allowed: Vec<IpNet> = section.list("allowed_addresses", expected);
    let allowed: Vec<IpNet> = allowed.iter().map(IpNet::trunc).collect();
    for net in &allowed {
        if let Some((other, _)) = peers.iter().find(|(peer, _)| peer.allowed.contains(net)) {
            let what = format!("{net} belongs to peer \"{}\" already", other.name);
            section.wrong("allowed_addresses", what);
        }
    }
    allowed
}

fn key_file(
    section: &Section<'_, '_>,
    key: &'static str,
    file: &Path,
    warnings: &mut Vec<String>,
) -> Option<[u8; 32]> {
    let name = section.text(key)?;
    let path = file.parent().unwrap_or(Path::new("")).join(name);
    match keys::read_key(&path) {
        Ok(bytes) => {
            warn_of_readers(&path, "holds a secret", warnings);
            Some(bytes)
        }
        Err(error) => {
            section.wrong(key, format!("{}: {error}", path.display()));
            None
        }
    }
}

fn warn_of_readers(path: &Path, holds: &str, warnings: &mut Vec<String>) {
    let open = path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
    if open {
        let path = path.display();
        warnings.push(format!("{path} {holds} and others may read it: chmod 600 {path}"));
    }
}
