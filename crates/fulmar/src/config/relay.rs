//! Relayed links: `[relay]` of a relay's file, `[[relay]]` of a drone's or a station's, whose
//! daemon is a gateway then.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use proto::{Rate, RelayForm, RelaySide};
use toml_keys::Section;
use zeroize::Zeroizing;

use super::peers::{check_interface, key_file};
use super::{LogConfig, PathConfig, Role, local};

/// Where frames go, unless the file says otherwise: to everybody.
const WIRE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::BROADCAST, 14_710);
const RADIO: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::BROADCAST, 14_711);
/// Gateways that one daemon is.
const GATEWAYS: usize = 8;
/// Packets of a generation, and combinations for each, as published [FlowCode §IV-B].
const K: u64 = 4;
const R: u64 = 10;

const SIDES: [(&str, RelaySide); 2] = [("ground", RelaySide::Ground), ("air", RelaySide::Air)];
const ADDRESS: &str = "a broadcast address or an IPv4 multicast group with a port, such as 255.255.255.255:14710 or \
                       239.255.77.1:14710";
/// What a relay's file has nothing of.
const OF_SESSIONS: [&str; 13] = [
    "private_key",
    "private_key_file",
    "peer",
    "path",
    "listen",
    "tunnel",
    "mavlink",
    "control",
    "message",
    "selector",
    "reliability",
    "transport",
    "record",
];

/// Where a node meets others: an interface, and the address at which all of them wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HopConfig {
    pub(crate) interface: String,
    pub(crate) address: SocketAddrV4,
}

/// Everything that a relay is told by its file.
#[derive(Debug)]
pub(crate) struct RelayFile {
    /// Where it was read.
    pub(crate) file: PathBuf,
    pub(crate) side: RelaySide,
    /// 1 to 63; no other relay of its side has it.
    pub(crate) number: u8,
    pub(crate) wire: HopConfig,
    pub(crate) radio: HopConfig,
    /// What the radio carries.
    pub(crate) rate: Rate,
    pub(crate) group_key: Zeroizing<[u8; 32]>,
    pub(crate) realtime: bool,
    pub(crate) status: PathBuf,
    pub(crate) log: LogConfig,
    pub(crate) warnings: Vec<String>,
}

/// A gateway beside the sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewayConfig {
    pub(crate) name: String,
    pub(crate) side: RelaySide,
    pub(crate) wire: HopConfig,
    pub(crate) form: RelayForm,
    pub(crate) k: usize,
    pub(crate) group_key: Zeroizing<[u8; 32]>,
    /// Whether a station waits for drones there.
    pub(crate) listens: bool,
}

/// Reads the file of a relay.
pub(super) fn relay_file(root: &Section<'_>, file: &Path) -> Option<RelayFile> {
    let mut warnings = Vec::new();
    for key in OF_SESSIONS.into_iter().filter(|key| root.has(key)) {
        root.wrong(key, "belongs to a drone's or a station's file: a relay has no session");
    }
    let realtime = root.flag("realtime").unwrap_or(false);
    let (status, log) = (local::status(root, file), local::log(root));
    if !root.has("relay") {
        root.wrong("relay", "is missing: a relay needs [relay] with side, node, group_key_file");
    }
    let section = root.section("relay")?;
    section.require("side");
    let side = section.choice("side", &SIDES);
    section.require("node");
    let number = section.number("node", 1..=63).map(|number| number as u8);
    let group_key = group_key(&section, file, &mut warnings);
    let wire = hop(&section, "wire", WIRE);
    let radio = hop(&section, "radio", RADIO);
    let rate = radio.as_ref().and_then(|(radio, _)| rate(radio));
    if let (Some((_, wire)), Some((at, radio))) = (&wire, &radio)
        && (&wire.interface, wire.address.port()) == (&radio.interface, radio.address.port())
    {
        at.wrong("address", "needs another port than the wire's: both are at one interface");
    }
    for key in ["form", "k", "f", "r", "name"].into_iter().filter(|key| section.has(key)) {
        section.wrong(key, "belongs to a gateway's [[relay]]");
    }
    let [wire, radio] = [wire, radio].map(|read| {
        read.map(|(section, hop)| {
            section.finish();
            hop
        })
    });
    section.finish();
    Some(RelayFile {
        file: file.to_owned(),
        side: side?,
        number: number?,
        wire: wire?,
        radio: radio?,
        rate: rate?,
        group_key: group_key?,
        realtime,
        status,
        log,
        warnings,
    })
}

/// The relayed links of a file.
#[derive(Default)]
pub(super) struct Gateways {
    pub(super) read: Vec<GatewayConfig>,
    /// The names of those in which something is wrong, which was said: nothing else is wrong with
    /// naming them.
    wrong: Vec<String>,
}

/// Reads every `[[relay]]` of a drone or station.
pub(super) fn gateways(
    root: &Section<'_>,
    role: Option<Role>,
    file: &Path,
    warnings: &mut Vec<String>,
) -> Gateways {
    let sections = root.sections("relay");
    if sections.len() > GATEWAYS {
        let count = sections.len();
        root.wrong("relay", format!("{count} are more than the {GATEWAYS} that one daemon has"));
    }
    let mut gateways: Vec<GatewayConfig> = Vec::new();
    let mut wrong = Vec::new();
    for section in sections {
        let name = section.required_text("name").unwrap_or_default().to_owned();
        if gateways.iter().any(|other| other.name == name) {
            section.wrong("name", format!("\"{name}\" names two relayed links"));
        }
        let usual = match role {
            Some(Role::Drone) => RelaySide::Air,
            _ => RelaySide::Ground,
        };
        let side = section.choice("side", &SIDES).unwrap_or(usual);
        let group_key = group_key(&section, file, warnings);
        let wire = hop(&section, "wire", WIRE).map(|(at, wire)| {
            let is_same = |other: &&GatewayConfig| {
                (&other.wire.interface, other.wire.address.port())
                    == (&wire.interface, wire.address.port())
            };
            if let Some(other) = gateways.iter().find(is_same) {
                let what = format!("has the port of \"{}\": give each a port", other.name);
                at.wrong("address", what);
            }
            at.finish();
            wire
        });
        let (form, k) = form(&section);
        for key in ["node", "radio"].into_iter().filter(|key| section.has(key)) {
            section.wrong(key, "belongs to [relay] of a relay's file: a gateway has no radio");
        }
        section.finish();
        if let (Some(wire), Some(group_key)) = (wire, group_key) {
            gateways.push(GatewayConfig { name, side, wire, form, k, group_key, listens: false });
        } else {
            wrong.push(name);
        }
    }
    Gateways { read: gateways, wrong }
}

/// Reads which relayed link a section names; none where it names none, or one that is not there.
pub(super) fn named(section: &Section<'_>, gateways: &Gateways) -> Option<usize> {
    let name = section.text("relay")?;
    let found = gateways.read.iter().position(|gateway| gateway.name == name);
    if found.is_none() && !gateways.wrong.iter().any(|wrong| wrong == name) {
        let names: Vec<_> = gateways.read.iter().map(|gateway| gateway.name.as_str()).collect();
        let there = match names.as_slice() {
            [] => "this file has none".to_owned(),
            names => format!("there are {}", names.join(", ")),
        };
        section.wrong("relay", format!("there is no [[relay]] named \"{name}\"; {there}"));
    }
    found
}

/// Warns of relayed links that nothing uses.
pub(super) fn warn_of_unused(
    gateways: &[GatewayConfig],
    paths: &[PathConfig],
    warnings: &mut Vec<String>,
) {
    for (place, GatewayConfig { name, listens, .. }) in gateways.iter().enumerate() {
        if !listens && !paths.iter().any(|path| path.relay == Some(place)) {
            warnings.push(format!(
                "relay \"{name}\" is used by no [[path]] and no [[listen]]: nothing goes over it"
            ));
        }
    }
}

fn group_key(
    section: &Section<'_>,
    file: &Path,
    warnings: &mut Vec<String>,
) -> Option<Zeroizing<[u8; 32]>> {
    if !section.has("group_key_file") {
        let what = "is missing: one key for all nodes of the group, at both ends (fulmar keygen --out relay.key)";
        section.wrong("group_key_file", what);
    }
    let key = key_file(section, "group_key_file", file, warnings)?;
    if *key == [0; 32] {
        section.wrong("group_key_file", "is all zeros: anybody's guess; fulmar keygen makes one");
    }
    Some(key)
}

/// Reads `wire` or `radio`; returns its section, which is not finished.
fn hop<'d>(
    section: &Section<'d>,
    key: &'static str,
    usual: SocketAddrV4,
) -> Option<(Section<'d>, HopConfig)> {
    if !section.has(key) {
        section.wrong(key, format!("is missing: {key} = {{ interface = \"eth0\" }}"));
    }
    let at = section.section(key)?;
    let interface = at.required_text("interface").unwrap_or_default().to_owned();
    check_interface(&at, &interface);
    let address: SocketAddrV4 = at.parsed("address", ADDRESS).unwrap_or(usual);
    if address.port() == 0 {
        at.wrong("address", "needs a port other than 0: all nodes wait there");
    }
    if address.ip().is_unspecified() || address.ip().is_loopback() && interface != "lo" {
        at.wrong("address", format!("reaches nobody: it is to be {ADDRESS}"));
    }
    Some((at, HopConfig { interface, address }))
}

/// Reads what a radio carries.
fn rate(radio: &Section<'_>) -> Option<Rate> {
    if !radio.has("rate_mbps") {
        let what = "is missing: what the radio carries in Mbit/s, somewhat less than it is set to";
        radio.wrong("rate_mbps", what);
    }
    radio.fraction("rate_mbps", 0.01..=10_000.0).map(|mbps| Rate::from_bps((mbps * 1e6) as u64))
}

fn form(section: &Section<'_>) -> (RelayForm, usize) {
    let f = section.number("f", 1..=64).map(|f| f as usize);
    let k = section.number("k", 1..=16).unwrap_or(K) as usize;
    let r = section.number("r", 1..=255).unwrap_or(R) as usize;
    let (ranked, published) = (RelayForm::Ranked { f }, RelayForm::Published { f, r });
    let form = section.choice("form", &[("ranked", ranked), ("published", published)]);
    let form = form.unwrap_or(ranked);
    if section.has("r") && form == ranked {
        section.wrong("r", "belongs to form = \"published\"");
    }
    (form, k)
}
