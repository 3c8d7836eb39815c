//! What keeps datagrams from their destination on this side of the link, in words: no route, a
//! gateway that does not answer, a filter that drops what comes back.
//!
//! The kernel does not say so when it sends. An address that no route leads to, by an interface
//! that a socket is bound to, it takes for a neighbour; and what the reverse path filter drops is
//! told to nobody. So `status` and `check` ask.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use sys::interfaces::{self, Interface};
use sys::routes::{self, Way};

/// Where the kernel shows its settings of IPv4 and IPv6.
const SETTINGS: &str = "/proc/sys/net";

/// Says why nothing gets from an interface to an address or back, as far as this host can tell.
pub(crate) fn trouble(interface: &Interface, remote: IpAddr) -> Option<String> {
    let by = Some(interface.index);
    // What cannot be asked is no trouble.
    match routes::way(remote, None, by).ok()? {
        Some(way) => neighbour_trouble(interface, remote, way)
            .or_else(|| filter_trouble(interface, remote, &remote.to_string())),
        None => Some(no_route(interface, remote, &remote.to_string())),
    }
}

/// Says the same of a host of which the name alone is known: its address is anywhere.
pub(crate) fn trouble_of_name(interface: &Interface, host: &str, is_ipv6: bool) -> Option<String> {
    // Addresses that nobody has [RFC 5737, RFC 3849]: a route that leads there leads everywhere.
    let anywhere: IpAddr = match is_ipv6 {
        true => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        false => Ipv4Addr::new(198, 51, 100, 1).into(),
    };
    match routes::way(anywhere, None, Some(interface.index)).ok()? {
        Some(_) => filter_trouble(interface, anywhere, host),
        None => Some(no_route(interface, anywhere, host)),
    }
}

/// Returns the interface, but for the tunnel's, whose network is this one. One address alone is no
/// network.
pub(crate) fn same_network<'n>(
    net: IpNet,
    networks: &'n [(String, IpAddr, u8)],
    tunnel: &str,
) -> Option<&'n str> {
    let is_same =
        |address: IpAddr, bits| IpNet::new(address, bits).is_ok_and(|one| one.trunc() == net);
    let has_others = net.prefix_len() < net.max_prefix_len();
    let mut same =
        networks.iter().filter(|(name, address, bits)| name != tunnel && is_same(*address, *bits));
    same.next().filter(|_| has_others).map(|(name, ..)| name.as_str())
}

/// Says why an interface that is there does not run.
pub(crate) fn why_not_running(interface: &Interface) -> String {
    let name = &interface.name;
    match interfaces::is_switched_on(interface.index) {
        Ok(false) => format!("{name} is down: it is switched off, ip link set {name} up"),
        Ok(true) => format!(
            "{name} is down: it has no carrier; is the cable in, the Wi-Fi joined, the modem connected?"
        ),
        Err(_) => format!("{name} is down or has no carrier"),
    }
}

/// Says that an interface can have no IPv6 address, where that is so.
pub(crate) fn ipv6_is_off(name: &str) -> String {
    match setting(&format!("ipv6/conf/{name}/disable_ipv6")) {
        Some(1) => {
            format!(": IPv6 is switched off on it, sysctl -w net.ipv6.conf.{name}.disable_ipv6=0")
        }
        _ => String::new(),
    }
}

fn no_route(interface: &Interface, remote: IpAddr, whom: &str) -> String {
    let name = &interface.name;
    let by_source = interface.addresses.iter().find_map(|address| {
        let way = routes::way(remote, Some(*address), Some(interface.index)).ok()??;
        Some((address, way.table))
    });
    match by_source {
        Some((address, table)) => format!(
            "{name} has a route to {whom} for packets from {address} alone, in table {table}, and ours have no address \
             yet when they look for one: ip rule add oif {name} lookup {table}"
        ),
        None => format!(
            "{name} has no route to {whom}: it needs a default route of its own, ip route add default via GATEWAY dev \
             {name} metric 700"
        ),
    }
}

fn neighbour_trouble(interface: &Interface, remote: IpAddr, way: Way) -> Option<String> {
    let (next, what) = match way.gateway {
        Some(gateway) => (gateway, format!("the gateway {gateway}")),
        None => (remote, format!("{remote}, on the network of this interface,")),
    };
    let is_missing = routes::is_neighbour_missing(interface.index, next).unwrap_or(false);
    let (name, asks) =
        (&interface.name, if next.is_ipv4() { "ARP" } else { "neighbour discovery" });
    is_missing.then(|| {
        format!("{what} does not answer on {name} ({asks}): is it there, is the address of {name} one of its network?")
    })
}

/// Says that what comes in is dropped, since the route to where it comes from leads by another
/// interface.
fn filter_trouble(interface: &Interface, remote: IpAddr, whom: &str) -> Option<String> {
    let name = &interface.name;
    let of = |name: &str| setting(&format!("ipv4/conf/{name}/rp_filter")).unwrap_or(0);
    // The larger of the two counts; 1 is strict.
    if remote.is_ipv6() || of("all").max(of(name)) != 1 {
        return None;
    }
    let ours = interface.addresses.iter().find(|address| address.is_ipv4())?;
    let back = routes::way(remote, Some(*ours), None).ok()??.interface?;
    if back == interface.index {
        return None;
    }
    let list = interfaces::list().unwrap_or_default();
    let other = list.into_iter().find(|at| at.index == back).map_or(String::new(), |at| at.name);
    Some(format!(
        "this computer drops what comes from {whom} by {name}, since its route there leads by {other} and \
         net.ipv4.conf.{name}.rp_filter is 1, strict: sysctl -w net.ipv4.conf.{name}.rp_filter=2"
    ))
}

fn setting(place: &str) -> Option<u8> {
    std::fs::read_to_string(format!("{SETTINGS}/{place}")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use sys::sandbox;

    use super::*;

    fn ip(arguments: &str) {
        let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
        assert!(status.success(), "ip {arguments}");
    }

    fn interface(name: &str) -> Interface {
        interfaces::list().unwrap().into_iter().find(|at| at.name == name).unwrap()
    }

    fn told(name: &str) -> String {
        trouble(&interface(name), "203.0.113.9".parse().unwrap()).unwrap_or_default()
    }

    #[test]
    fn the_same_network_is_one_of_the_same_length() {
        let networks =
            [("lan", "192.168.144.1", 24), ("fulmar0", "10.77.0.2", 24), ("ppp0", "10.64.0.1", 32)]
                .map(|(name, address, bits)| (name.to_owned(), address.parse().unwrap(), bits));
        let same = |net: &str| same_network(net.parse().unwrap(), &networks, "fulmar0");
        assert_eq!(same("192.168.144.0/24"), Some("lan"));
        for other in ["192.168.144.25/32", "192.168.0.0/16", "10.77.0.0/24", "10.64.0.1/32"] {
            assert_eq!(same(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_wrong_on_this_side_is_named() {
        if !sandbox::inside("ways::tests::what_is_wrong_on_this_side_is_named") {
            return;
        }
        ip("link add wifi type veth peer name far");
        ip("link add lte type veth peer name away");
        let off = why_not_running(&interface("wifi"));
        assert!(off.contains("switched off, ip link set wifi up"), "{off}");
        ip("link set wifi up");
        let bare = why_not_running(&interface("wifi"));
        assert!(bare.contains("no carrier"), "{bare}");
        for name in ["far", "lte", "away"] {
            ip(&format!("link set {name} up"));
        }
        ip("address add 192.0.2.5/24 dev wifi");
        ip("address add 198.51.100.5/24 dev lte");
        assert!(told("wifi").starts_with("wifi has no route to 203.0.113.9"), "{}", told("wifi"));
        let named = trouble_of_name(&interface("wifi"), "ground.example", false).unwrap();
        assert!(named.starts_with("wifi has no route to ground.example"), "{named}");
        ip("route add default via 192.0.2.1 dev wifi metric 600");
        let neighbour = |state: &str| {
            ip(&format!("neighbour replace 192.0.2.1 dev wifi {state}"));
        };
        neighbour("lladdr 02:00:00:00:00:01");
        assert_eq!(told("wifi"), "");
        neighbour("nud failed");
        assert!(
            told("wifi").starts_with("the gateway 192.0.2.1 does not answer"),
            "{}",
            told("wifi")
        );
        neighbour("lladdr 02:00:00:00:00:01");
        // A route for packets from its address alone.
        ip("route add default via 198.51.100.1 dev lte table 100");
        ip("rule add from 198.51.100.5 lookup 100");
        assert!(told("lte").contains("ip rule add oif lte lookup 100"), "{}", told("lte"));
        ip("rule add oif lte lookup 100");
        assert_eq!(told("lte"), "");
        // Strict filters: what is answered by the rule of its address passes, what is not does not.
        std::fs::write("/proc/sys/net/ipv4/conf/lte/rp_filter", "1").unwrap();
        assert_eq!(told("lte"), "", "the way back is by the rule");
        ip("rule del from 198.51.100.5 lookup 100");
        assert!(told("lte").contains("sysctl -w net.ipv4.conf.lte.rp_filter=2"), "{}", told("lte"));
        assert!(told("lte").contains("leads by wifi"), "{}", told("lte"));
        std::fs::write("/proc/sys/net/ipv4/conf/lte/rp_filter", "2").unwrap();
        assert_eq!(told("lte"), "");
        std::fs::write("/proc/sys/net/ipv6/conf/lte/disable_ipv6", "1").unwrap();
        assert!(ipv6_is_off("lte").contains("disable_ipv6"));
        assert_eq!(ipv6_is_off("no/such"), "");
    }
}
