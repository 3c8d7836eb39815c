//! What the file says of a socket's place: for a path, or an address that is listened at.
//!
//! What follows from that is in `sockets.rs`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::outlets::Outlets;
use super::sockets::InterfaceSocket;
use crate::config::{Carrier, Listen, PathConfig};
use crate::interface::{Families, Found};

/// Gives those that share another one's interface the same as that has found.
pub(super) fn share(
    sockets: &BTreeMap<usize, InterfaceSocket>,
    found: &mut [Result<Found, String>],
) {
    let seekers: Vec<_> = sockets.values().filter(|socket| socket.wanted.is_some()).collect();
    for (place, socket) in seekers.iter().enumerate() {
        let Some((group, name)) = &socket.beside else { continue };
        let is_it = |other: &&InterfaceSocket| other.group == *group && other.name == *name;
        if let Some(other) = seekers.iter().position(is_it) {
            found[place] = found[other].clone();
        }
    }
}

/// Returns the group of a path's socket: paths to one peer, and apart from them those that share an
/// interface anyway.
pub(super) fn group_of(path: &PathConfig) -> u64 {
    /// Above the numbers of peers, twice: paths that go have the first.
    const BESIDE: u64 = 1 << 40;
    path.peer as u64 | if path.beside.is_some() { BESIDE } else { 0 }
}

/// Returns the path whose interface one shares, by group and name.
pub(super) fn beside_of(path: &PathConfig) -> Option<(u64, String)> {
    path.beside.as_ref().map(|beside| (path.peer as u64, beside.path.clone()))
}

/// Makes the place of a path's socket.
pub(super) fn of_path(path: &PathConfig) -> InterfaceSocket {
    let families = path.families();
    let any: IpAddr = match families.ipv6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    let place = (Some(path.interface.clone()), (any, 0).into());
    let beside = beside_of(path);
    let socket = closed(path.name.clone(), place, families, group_of(path), false);
    InterfaceSocket { carrier: path.carrier, beside, ..socket }
}

/// Makes the place of one that is listened at.
pub(super) fn of_listen(listen: &Listen) -> InterfaceSocket {
    let families = Families::of([listen.address.ip()]);
    // No peer has such a number. One of each carrier may have the same port.
    let by_tcp = u64::from(listen.carrier == Carrier::Tcp);
    let group = u64::MAX - 2 * u64::from(listen.address.port()) - by_tcp;
    let place = (listen.interface.clone(), listen.address);
    let socket = closed(listen.name.clone(), place, families, group, true);
    InterfaceSocket { carrier: listen.carrier, ..socket }
}

fn closed(
    name: String,
    (wanted, local): (Option<String>, SocketAddr),
    families: Families,
    group: u64,
    listens: bool,
) -> InterfaceSocket {
    let interface = wanted.clone();
    let (udp, trouble, seen, last_error) = (None, None, None, None);
    let (heard, former) = (false, None);
    let (carrier, stream, beside) = Default::default();
    let (outlets, said) = (Outlets::default(), Vec::new());
    let errors = 0;
    let sends_ipv6 = local.is_ipv6();
    InterfaceSocket {
        name,
        interface,
        wanted,
        families,
        group,
        udp,
        carrier,
        stream,
        beside,
        heard,
        former,
        trouble,
        outlets,
        errors,
        last_error,
        said,
        local,
        listens,
        seen,
        sends_ipv6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_port_may_be_listened_at_by_each_carrier_and_the_next_port_as_well() {
        let listen = |carrier, port| Listen {
            name: "lte".to_owned(),
            carrier,
            address: ([0, 0, 0, 0], port).into(),
            interface: None,
        };
        let places = [(Carrier::Udp, 443), (Carrier::Tcp, 443), (Carrier::Udp, 444)];
        let groups = places.map(|(carrier, port)| of_listen(&listen(carrier, port)).group);
        assert!(groups[0] != groups[1] && groups[1] != groups[2] && groups[0] != groups[2]);
    }
}
