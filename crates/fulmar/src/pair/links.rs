//! The interfaces over which a drone looks for the station of a code: those with a route to it.

use std::net::{IpAddr, Ipv4Addr};

use sys::interfaces::{self, Interface};

use crate::config::Remote;

/// The kernel's table of IPv4 routes; addresses as numbers of this machine's byte order.
const ROUTES: &str = "/proc/thread-self/net/route";
/// The mark of a route that is in use, `RTF_UP`.
const UP: u32 = 1;

/// An interface, and where the station may be found from there; addresses of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Its name, with the family where it has another one already.
    pub(super) name: String,
    pub(super) interface: String,
    pub(super) remotes: Vec<Remote>,
}

/// A route of IPv4.
struct Route {
    interface: String,
    network: u32,
    mask: u32,
}

/// Lists the links to any of `remotes`, except by `tunnel`.
///
/// # Errors
/// Where interfaces cannot be listed, or there is no link.
pub(super) fn find(remotes: &[Remote], tunnel: Option<&str>) -> Result<Vec<Link>, String> {
    let interfaces = interfaces::list().map_err(|error| format!("list the interfaces: {error}"))?;
    let text = std::fs::read_to_string(ROUTES).map_err(|error| format!("{ROUTES}: {error}"))?;
    let mut links = choose(&interfaces, &routes(&text), remotes);
    links.retain(|link| Some(link.interface.as_str()) != tunnel);
    links.truncate(proto::MAX_PATHS);
    if links.is_empty() {
        let to: Vec<_> = remotes.iter().map(Remote::to_string).collect();
        return Err(format!("no interface of this host has a route to {}", to.join(" or ")));
    }
    Ok(links)
}

fn choose(interfaces: &[Interface], routes: &[Route], remotes: &[Remote]) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for interface in interfaces.iter().filter(|interface| interface.running) {
        for is_ipv6 in [false, true] {
            let reaches = |remote: &&Remote| match remote {
                Remote::Address(at) => {
                    at.is_ipv6() == is_ipv6 && reaches(interface, routes, at.ip())
                }
                // It may be anywhere, and have addresses of both families; one path serves both.
                Remote::Name(..) => {
                    let has_ipv4 = has_route(interface, routes, Ipv4Addr::UNSPECIFIED);
                    let has_ipv6 = interface.addresses.iter().any(IpAddr::is_ipv6);
                    let leads_out = !interface.addresses.iter().any(IpAddr::is_loopback);
                    has_ipv4 != is_ipv6 && (has_ipv4 || has_ipv6) && leads_out
                }
            };
            let remotes: Vec<Remote> = remotes.iter().filter(reaches).cloned().collect();
            if remotes.is_empty() {
                continue;
            }
            let is_second = links.iter().any(|link| link.interface == interface.name);
            let suffix = if is_second { "-ipv6" } else { "" };
            let (name, interface) = (format!("{}{suffix}", interface.name), interface.name.clone());
            links.push(Link { name, interface, remotes });
        }
    }
    links
}

fn reaches(interface: &Interface, routes: &[Route], remote: IpAddr) -> bool {
    let loops = |addresses: &[IpAddr]| addresses.iter().any(IpAddr::is_loopback);
    if remote.is_loopback() || loops(&interface.addresses) {
        return remote.is_loopback() && loops(&interface.addresses);
    }
    match remote {
        IpAddr::V4(remote) => has_route(interface, routes, remote),
        // Routers announce themselves to every interface that has an address for more than its
        // link.
        IpAddr::V6(_) => interface.addresses.iter().any(IpAddr::is_ipv6),
    }
}

fn has_route(interface: &Interface, routes: &[Route], remote: Ipv4Addr) -> bool {
    let ours = routes.iter().filter(|route| route.interface == interface.name);
    let remote = u32::from_ne_bytes(remote.octets());
    interface.addresses.iter().any(IpAddr::is_ipv4)
        && ours.into_iter().any(|route| remote & route.mask == route.network)
}

fn routes(table: &str) -> Vec<Route> {
    let route = |line: &str| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let route =
            Route { interface: (*fields.first()?).into(), network: number(1)?, mask: number(7)? };
        (number(3)? & UP != 0).then_some(route)
    };
    table.lines().skip(1).filter_map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_interfaces_with_a_route_to_the_station() {
        let number = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        let line = |name: &str, network, mask| {
            format!(
                "{name}\t{}\t00000000\t0003\t0\t0\t0\t{}\t0\t0\t0\n",
                number(network),
                number(mask)
            )
        };
        let table = "Iface\tDestination\n".to_owned()
            + &line("wlan0", [0; 4], [0; 4])
            + &line("wwan0", [0; 4], [0; 4])
            + &line("docker0", [172, 17, 0, 0], [255, 255, 0, 0])
            + &line("eth0", [10, 1, 0, 0], [255, 255, 0, 0])
            + "nonsense\n";
        let interface = |name: &str, running, addresses: &[&str]| {
            crate::interface::tests::interface(1, name, running, addresses)
        };
        let interfaces = [
            interface("lo", true, &["127.0.0.1", "::1"]),
            interface("wlan0", true, &["192.0.2.7", "2001:db8::7"]),
            interface("wwan0", false, &["192.0.2.8"]),
            interface("docker0", true, &["172.17.0.1"]),
            interface("eth0", true, &["10.1.0.2"]),
            interface("usb0", true, &["2001:db8::9"]),
        ];
        let links = |remotes: &[&str]| {
            let remotes: Vec<_> = remotes.iter().map(|text| text.parse().unwrap()).collect();
            let found = choose(&interfaces, &routes(&table), &remotes).into_iter();
            let shown = found.map(|link| (link.name, link.remotes.len()));
            shown.collect::<Vec<_>>()
        };
        let found = |names: &[(&str, usize)]| {
            names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<Vec<_>>()
        };
        assert_eq!(links(&["203.0.113.5:1"]), found(&[("wlan0", 1)]));
        assert_eq!(links(&["station.example.org:1"]), found(&[("wlan0", 1), ("usb0", 1)]));
        let all = ["203.0.113.5:1", "[2001:db8::5]:1", "10.1.2.3:1", "127.0.0.1:1"];
        let expected = [("lo", 1), ("wlan0", 2), ("wlan0-ipv6", 1), ("eth0", 1), ("usb0", 1)];
        assert_eq!(links(&all), found(&expected));
        assert_eq!(links(&[]), []);
    }
}
