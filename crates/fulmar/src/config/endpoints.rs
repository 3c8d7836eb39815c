//! The local endpoints: `[[mavlink]]`, `[[control]]` and `[[message]]`, and what all kinds have in
//! common.

use std::net::{IpAddr, Ipv4Addr};

use proto::Duration;
use proto::select::{Copies, Order, Policy};
use toml_keys::Section;

use super::filter::filters;
use super::kind::{Kind, endpoint_kind};
use super::message::message;
use super::peers::{ReadPeer, peer};
use super::{Content, EndpointConfig, EndpointKind, MavlinkContent, Remote, Role, reliability};

/// Reads every endpoint, in the order of the file within each of the lists.
pub(super) fn read(
    root: &Section<'_>,
    role: Option<Role>,
    peers: &[ReadPeer],
) -> Vec<EndpointConfig> {
    let mut endpoints = Vec::new();
    for section in root.sections("mavlink") {
        let read = mavlink(&section, role, peers);
        add(&section, read, &mut endpoints);
        section.finish();
    }
    for section in root.sections("control") {
        let read = control(&section, peers);
        add(&section, read, &mut endpoints);
        section.finish();
    }
    for section in root.sections("message") {
        let read = message(&section, peers);
        add(&section, read, &mut endpoints);
        section.finish();
    }
    endpoints
}

/// Warns of endpoints that programs of other hosts can reach: they listen to anyone who speaks to
/// them.
pub(super) fn warn_of_strangers(endpoints: &[EndpointConfig], warnings: &mut Vec<String>) {
    for endpoint in endpoints {
        let (address, is_open) = match &endpoint.kind {
            EndpointKind::UdpServer(address) | EndpointKind::TcpServer(address) => {
                (address, !address.ip().is_loopback())
            }
            EndpointKind::UdpClient(Remote::Address(address)) => {
                (address, is_heard_by_many(address.ip()))
            }
            _ => continue,
        };
        if is_open {
            let name = &endpoint.name;
            warnings.push(format!(
                "endpoint \"{name}\" listens at {address}: whoever reaches that speaks to the vehicle \
                 without a key; 127.0.0.1 serves programs of this host"
            ));
        }
    }
}

/// Tells whether a client there takes answers of many. The broadcast address of a network is known
/// as one once it is open.
fn is_heard_by_many(address: IpAddr) -> bool {
    address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST)
}

fn mavlink(
    section: &Section<'_>,
    role: Option<Role>,
    peers: &[ReadPeer],
) -> Option<EndpointConfig> {
    let name = section.required_text("name").unwrap_or_default().to_owned();
    let channel = section.number("channel", 1..=255).unwrap_or(1) as u8;
    let kinds = [
        ("udp-server", Kind::UdpServer),
        ("udp-client", Kind::UdpClient),
        ("tcp-server", Kind::TcpServer),
        ("tcp-client", Kind::TcpClient),
        ("serial", Kind::Serial),
    ];
    section.require("kind");
    // A kind that is not understood must not make the others' keys unknown.
    let _ = ["address", "device", "baud", "flow_control"].map(|key| section.has(key));
    let kind = section.choice("kind", &kinds).and_then(|kind| endpoint_kind(section, kind));
    // Beside the autopilot it is told about the link; a ground station is not.
    let usual = if role == Some(Role::Drone) { 1.0 } else { 0.0 };
    let hertz = section.fraction("radio_status_hz", 0.0..=10.0).unwrap_or(usual);
    let radio_status = (hertz > 0.0).then(|| Duration::from_secs_f64(1.0 / hertz.max(0.01)));
    let peer = peer(section, peers);
    let share = section.flag("share").unwrap_or(false);
    let status_text = section.flag("statustext").unwrap_or(true);
    // A ground station reads the link's quality from the numbers; an autopilot flies without.
    let renumber = section.flag("renumber").unwrap_or(role == Some(Role::Station));
    let filters = filters(section);
    let content =
        Content::Mavlink(MavlinkContent { radio_status, status_text, renumber, share, filters });
    Some(EndpointConfig { name, channel, peer: peer?, kind: kind?, content })
}

fn control(section: &Section<'_>, peers: &[ReadPeer]) -> Option<EndpointConfig> {
    let name = section.required_text("name").unwrap_or_default().to_owned();
    section.require("channel");
    let channel = section.number("channel", 1..=255);
    let kinds = [("udp-server", Kind::UdpServer), ("udp-client", Kind::UdpClient)];
    let kind = section.choice("kind", &kinds);
    let kind = if section.has("kind") { kind } else { Some(Kind::UdpServer) };
    let kind = kind.and_then(|kind| endpoint_kind(section, kind));
    let orders = [("none", Order::None), ("in-order", Order::InOrder), ("latest", Order::Latest)];
    let order = section.choice("order", &orders).unwrap_or(Policy::DECLARED.order);
    let usual = Policy::DECLARED.ttl;
    let ttl = section.number("ttl_ms", 10..=60_000).map_or(usual, Duration::from_millis);
    let peer = peer(section, peers);
    // One path at a time is for experiments and for links paid by the byte.
    let copies = [("all", Copies::All), ("best", Copies::Best)];
    let copies = section.choice("copies", &copies).unwrap_or(Policy::DECLARED.copies);
    let target = reliability::target(section, ttl);
    if section.has("copies") && section.has("target") {
        let what = "cannot stand beside target, which says how many copies that takes; leave one of them out";
        section.wrong("copies", what);
    }
    let content = Content::Declared(Policy { order, ttl, copies, target, ..Policy::DECLARED });
    Some(EndpointConfig { name, channel: channel? as u8, peer: peer?, kind: kind?, content })
}

fn add(section: &Section<'_>, read: Option<EndpointConfig>, endpoints: &mut Vec<EndpointConfig>) {
    let Some(endpoint) = read else { return };
    for other in endpoints.iter() {
        if other.name == endpoint.name {
            section.wrong("name", format!("\"{}\" names two endpoints", endpoint.name));
        }
        if other.kind.collides_with(&endpoint.kind) {
            section
                .wrong("kind", format!("endpoint \"{}\" uses this address or device", other.name));
        }
        if (other.peer, other.channel) != (endpoint.peer, endpoint.channel) {
            continue;
        }
        match (&other.content, &endpoint.content) {
            // Several MAVLink endpoints may share a channel: each is given every frame.
            (Content::Mavlink(_), Content::Mavlink(_)) => {}
            (Content::Message(theirs), Content::Message(ours)) => {
                if theirs.stream.id == ours.stream.id {
                    let (stream, channel) = (ours.stream.id, endpoint.channel);
                    let what = format!(
                        "{stream} of channel {channel} is the stream of endpoint \"{}\"",
                        other.name
                    );
                    section.wrong("stream", what);
                }
            }
            _ => {
                let (channel, name) = (other.channel, &other.name);
                section
                    .wrong("channel", format!("{channel} is the channel of endpoint \"{name}\""));
            }
        }
    }
    endpoints.push(endpoint);
}
