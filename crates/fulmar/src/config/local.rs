//! What concerns this host alone: `[tunnel]`, `[status]`, `[log]`.

use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use toml_keys::Section;

use super::peers::{ReadPeer, check_interface};
use super::{LogConfig, TunnelConfig};

/// Where the sockets of `fulmar status` are looked for.
pub(crate) const RUN_DIRECTORY: &str = "/run/fulmar";
/// What the tunnel's interface is called unless the file has another name.
pub(crate) const TUNNEL: &str = "fulmar0";
/// The largest packet of the tunnel whose sealed datagram fits an Ethernet frame.
const LARGEST_MTU: u64 = 1_400;

/// Reads `[tunnel]`.
pub(super) fn tunnel(root: &Section<'_>, peers: &[ReadPeer]) -> Option<TunnelConfig> {
    let section = root.section("tunnel")?;
    let interface = section.text("interface").unwrap_or(TUNNEL).to_owned();
    check_interface(&section, &interface);
    section.require("address");
    let addresses: Vec<IpNet> = section.list("address", "an address with prefix: 10.77.0.2/24");
    for (peer, _) in peers {
        let is_peers = |own: &&IpNet| {
            let single = |net: &&IpNet| net.prefix_len() == net.max_prefix_len();
            peer.allowed.iter().filter(single).any(|net| net.addr() == own.addr())
        };
        if let Some(own) = addresses.iter().find(is_peers) {
            let (own, name) = (own.addr(), &peer.name);
            let what = format!(
                "{own} is the address of peer \"{name}\" (allowed_addresses): each end needs one of its own"
            );
            section.wrong("address", what);
        }
    }
    for net in &addresses {
        if let Some(why) = no_hosts(net) {
            section.wrong(
                "address",
                format!("{net} {why}: give this end an address such as 10.77.0.2/24"),
            );
        }
    }
    let mtu = section.number("mtu", 576..=LARGEST_MTU).unwrap_or(1_280) as u16;
    if mtu < 1_280 && addresses.iter().any(|address| matches!(address, IpNet::V6(_))) {
        section.wrong("mtu", "IPv6 needs at least 1280");
    }
    let mss_clamp = section.flag("mss_clamp").unwrap_or(true);
    section.finish();
    Some(TunnelConfig { interface, addresses, mtu, mss_clamp })
}

/// Says why no end of a tunnel can have an address, in words that follow it.
pub(crate) fn no_hosts(net: &IpNet) -> Option<&'static str> {
    let address = net.addr();
    let is_reserved = match address {
        // "This network", and class E with the broadcast address [RFC 6890 §2.2.2].
        IpAddr::V4(address) => matches!(address.octets()[0], 0 | 240..=255),
        IpAddr::V6(address) => address.to_ipv4_mapped().is_some(),
    };
    match address {
        _ if net.prefix_len() == 0 => Some("is everything there is"),
        _ if address.is_unspecified() || is_reserved => Some("is no address of a host"),
        _ if address.is_loopback() => Some("is every computer's own (loopback)"),
        _ if address.is_multicast() => Some("is a multicast address"),
        _ => None,
    }
}

/// Reads `[status]`; the socket is named after the file, so that daemons do not collide.
pub(super) fn status(root: &Section<'_>, file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let usual = Path::new(RUN_DIRECTORY).join(format!("{stem}.sock"));
    let Some(section) = root.section("status") else { return usual };
    let socket = section.text("socket").map_or(usual, PathBuf::from);
    if std::fs::symlink_metadata(&socket).is_ok_and(|there| !there.file_type().is_socket()) {
        let what = format!("something else than a socket lies at {}", socket.display());
        section.wrong("socket", what);
    }
    section.finish();
    socket
}

/// Reads `[log]`.
pub(super) fn log(root: &Section<'_>) -> LogConfig {
    let usual = LogConfig { level: tracing::Level::INFO, json: false };
    let Some(section) = root.section("log") else { return usual };
    let levels = [
        ("error", tracing::Level::ERROR),
        ("warn", tracing::Level::WARN),
        ("info", tracing::Level::INFO),
        ("debug", tracing::Level::DEBUG),
        ("trace", tracing::Level::TRACE),
    ];
    let level = section.choice("level", &levels).unwrap_or(usual.level);
    let json = section.choice("format", &[("text", false), ("json", true)]).unwrap_or(usual.json);
    section.finish();
    LogConfig { level, json }
}
