//! Routes of an emulation whose links form chains: which neighbour leads to which link.
//!
//! Pure: a scenario goes in, routes come out. `network` enters them into the hosts' namespaces. No
//! routing protocol runs and nothing changes while the emulation does: a link that is out takes
//! its packets with it, as the scenario says.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use netem::{Interface, Scenario};

/// A route that a host needs to reach a link it is not on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The network of the link: 10.77.n.0.
    pub(crate) network: Ipv4Addr,
    /// The link over which the host sends.
    pub(crate) over: usize,
    /// The neighbour's address on that link.
    pub(crate) gateway: Ipv4Addr,
}

/// Says whether a host lies between others, and so forwards.
///
/// Two links to the same neighbour do not make a relay: such a host picks a link itself.
pub(crate) fn forwards(scenario: &Scenario, host: usize) -> bool {
    let mut others = neighbours(scenario, host).map(|(_, other)| other);
    let first = others.next();
    others.any(|other| Some(other) != first)
}

/// Returns the routes of a host: to every link that it is not on, by way of the fewest hosts; of
/// equals, by the link that the scenario names first.
///
/// What is sent to an address arrives over that address's own link, because the way leads to the
/// nearer end of it. Broadcasts have no way back and take no part.
pub(crate) fn routes(scenario: &Scenario, host: usize) -> Vec<Route> {
    let ways = ways(scenario, host);
    let mut routes = Vec::new();
    for (number, pair) in scenario.links.iter().enumerate() {
        if pair.a == host || pair.b == host {
            continue;
        }
        let nearer = [pair.a, pair.b].into_iter().filter_map(|end| ways[end]).min();
        let Some(Way { over, gateway, .. }) = nearer else { continue };
        let [a, b, _, _] = gateway.octets();
        // A scenario has at most 256 links.
        let network = Ipv4Addr::new(a, b, number as u8, 0);
        routes.push(Route { network, over, gateway });
    }
    routes
}

/// How a host gets to another: compared by length first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    hops: usize,
    over: usize,
    gateway: Ipv4Addr,
}

/// Returns the way to every other host; none to the host itself and to those out of reach.
fn ways(scenario: &Scenario, host: usize) -> Vec<Option<Way>> {
    let mut ways: Vec<Option<Way>> = vec![None; scenario.hosts.len()];
    let mut queue = VecDeque::new();
    for (link, neighbour) in neighbours(scenario, host) {
        if ways[neighbour].is_none() {
            let gateway = address(scenario, neighbour, link);
            ways[neighbour] = Some(Way { hops: 1, over: link, gateway });
            queue.push_back(neighbour);
        }
    }
    while let Some(reached) = queue.pop_front() {
        let Some(way) = ways[reached] else { continue };
        for (_, next) in neighbours(scenario, reached) {
            if next != host && ways[next].is_none() {
                ways[next] = Some(Way { hops: way.hops + 1, ..way });
                queue.push_back(next);
            }
        }
    }
    ways
}

/// Returns the links of a host and the hosts at their other ends, in the order of the scenario.
fn neighbours(scenario: &Scenario, host: usize) -> impl Iterator<Item = (usize, usize)> {
    scenario.links.iter().enumerate().filter_map(move |(link, pair)| match host {
        _ if pair.a == host => Some((link, pair.b)),
        _ if pair.b == host => Some((link, pair.a)),
        _ => None,
    })
}

fn address(scenario: &Scenario, host: usize, link: usize) -> Ipv4Addr {
    let on_link = |interface: &&Interface| interface.link == link;
    let interfaces = scenario.interfaces(host);
    let found = interfaces.iter().find(on_link);
    found.expect("a link's ends have interfaces on it").address
}

#[cfg(test)]
mod tests {
    use netem::LinkModel;

    use super::*;

    fn chain() -> Scenario {
        let model = LinkModel::default();
        Scenario::new("chain", 1.0)
            .link("air1", "uav1", "relay1", &model)
            .link("air2", "uav2", "relay1", &model)
            .link("hop", "relay1", "relay2", &model)
            .link("ground", "relay2", "station", &model)
    }

    fn text(scenario: &Scenario, host: &str) -> Vec<String> {
        let host = scenario.host(host).expect("the scenario has it");
        let routes = routes(scenario, host);
        routes.iter().map(|route| format!("{} via {}", route.network, route.gateway)).collect()
    }

    #[test]
    fn a_chain_is_routed_end_to_end() {
        let chain = chain();
        let of_uav = ["10.77.1.0 via 10.77.0.2", "10.77.2.0 via 10.77.0.2"];
        assert_eq!(text(&chain, "uav1")[..2], of_uav);
        assert_eq!(text(&chain, "uav1")[2], "10.77.3.0 via 10.77.0.2");
        assert_eq!(text(&chain, "relay1"), ["10.77.3.0 via 10.77.2.2"]);
        let of_station =
            ["10.77.0.0", "10.77.1.0", "10.77.2.0"].map(|to| to.to_owned() + " via 10.77.3.1");
        assert_eq!(text(&chain, "station"), of_station);
        let relays: Vec<bool> = (0..chain.hosts.len()).map(|host| forwards(&chain, host)).collect();
        assert_eq!(relays, [false, true, false, true, false], "uav1 relay1 uav2 relay2 station");
    }

    #[test]
    fn the_address_chooses_the_last_link() {
        let model = LinkModel::default();
        let diamond = Scenario::new("diamond", 1.0)
            .link("a1", "drone", "left", &model)
            .link("b1", "drone", "right", &model)
            .link("a2", "left", "station", &model)
            .link("b2", "right", "station", &model);
        assert_eq!(text(&diamond, "drone"), ["10.77.2.0 via 10.77.0.2", "10.77.3.0 via 10.77.1.2"]);
    }

    #[test]
    fn two_links_to_one_neighbour_make_no_relay_and_islands_no_route() {
        let model = LinkModel::default();
        let pair = Scenario::new("pair", 1.0)
            .link("wifi", "drone", "station", &model)
            .link("lte", "drone", "station", &model)
            .link("apart", "buoy", "ship", &model);
        assert!((0..4).all(|host| !forwards(&pair, host) && routes(&pair, host).is_empty()));
    }
}
