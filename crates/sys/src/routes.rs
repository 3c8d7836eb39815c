//! By which way this host would send to an address, as the kernel's tables say, and whether
//! somebody is there.
//!
//! `ip route get ADDRESS oif INTERFACE` does not say it: for a socket that is bound to an interface
//! the kernel takes an address that no route leads to for a neighbour, and asks for it where nobody
//! answers. So the route itself is asked for (`RTM_F_FIB_MATCH`), and where there is none, there is
//! none.

use std::io;
use std::net::IpAddr;

use crate::netlink::{Request, Socket, attributes, ip, u32_at};

/// Size of `rtmsg`, which begins every message about a route.
const ROUTE_HEADER: usize = 12;
/// Size of `ndmsg`, which begins every message about a neighbour.
const NEIGHBOUR_HEADER: usize = 12;
/// Asks for the route, not for what would be done with a packet: linux/rtnetlink.h, since Linux
/// 4.13.
const RTM_F_FIB_MATCH: u32 = 0x2000;
/// Asks for the number of its table as well.
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;

/// Shows a route that an address has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The interface by which it leads, where it leads by one.
    pub interface: Option<u32>,
    /// Who passes the packets on; none where the address is on the interface's own network.
    pub gateway: Option<IpAddr>,
    /// The table that it stands in.
    pub table: u32,
}

/// Returns the route to an address: by the interface of this number, where one is given, and for
/// packets from that address of ours; none where there is no such route, or one that refuses.
///
/// # Errors
/// Those of netlink: where nothing is known.
pub fn way(to: IpAddr, from: Option<IpAddr>, by: Option<u32>) -> io::Result<Option<Way>> {
    let (family, bits) = family(to);
    let from = from.filter(|from| from.is_ipv4() == to.is_ipv4());
    let mut header = [0; ROUTE_HEADER];
    header[..3].copy_from_slice(&[family, bits, from.map_or(0, |_| bits)]);
    header[8..].copy_from_slice(&(RTM_F_FIB_MATCH | RTM_F_LOOKUP_TABLE).to_ne_bytes());
    let mut request = Request::change(libc::RTM_GETROUTE, 0).fixed(&header);
    request = request.attribute(libc::RTA_DST, &octets(to));
    if let Some(from) = from {
        request = request.attribute(libc::RTA_SRC, &octets(from));
    }
    if let Some(by) = by {
        request = request.attribute(libc::RTA_OIF, &by.to_ne_bytes());
    }
    let mut way = None;
    match Socket::route()?.exchange(request, |message| way = way.or(route(message.body))) {
        Ok(()) => Ok(way),
        Err(error) if is_none(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Tells whether a neighbour on a network was asked for and has not answered.
///
/// # Errors
/// Those of netlink, or that nothing is known of it (Linux before 5.0 does not tell of one).
pub fn is_neighbour_missing(interface: u32, address: IpAddr) -> io::Result<bool> {
    let mut header = [0; NEIGHBOUR_HEADER];
    header[0] = family(address).0;
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    let request = Request::change(libc::RTM_GETNEIGH, 0).fixed(&header);
    let request = request.attribute(libc::NDA_DST, &octets(address));
    let mut state = 0;
    Socket::route()?.exchange(request, |message| state = neighbour(message.body).unwrap_or(0))?;
    Ok(state & (libc::NUD_INCOMPLETE | libc::NUD_FAILED) != 0)
}

/// Reads a route.
pub(crate) fn route(body: &[u8]) -> Option<Way> {
    let mut way = Way { table: u32::from(*body.get(4)?), ..Way::default() };
    for (kind, value) in attributes(body.get(ROUTE_HEADER..)?) {
        match kind {
            libc::RTA_OIF => way.interface = u32_at(value, 0),
            libc::RTA_GATEWAY => way.gateway = ip(value),
            // A gateway of the other family: its family, 2 bytes, and the address.
            libc::RTA_VIA => way.gateway = ip(value.get(2..)?),
            libc::RTA_TABLE => way.table = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some(way)
}

/// Reads the state of a neighbour.
pub(crate) fn neighbour(body: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(body.get(8..10)?.try_into().ok()?))
}

/// Tells whether the kernel says that there is no route, or one that refuses (unreachable,
/// prohibit, blackhole).
fn is_none(error: &io::Error) -> bool {
    let none = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EACCES, libc::EINVAL, libc::ESRCH];
    error.raw_os_error().is_some_and(|code| none.contains(&code))
}

fn family(address: IpAddr) -> (u8, u8) {
    match address {
        IpAddr::V4(_) => (libc::AF_INET as u8, 32),
        IpAddr::V6(_) => (libc::AF_INET6 as u8, 128),
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::{interfaces, sandbox};

    fn ip(arguments: &str) {
        let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
        assert!(status.success(), "ip {arguments}");
    }

    fn index(name: &str) -> u32 {
        let list = interfaces::list().unwrap();
        list.iter().find(|at| at.name == name).unwrap().index
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_way_is_a_route_and_not_what_the_kernel_supposes() {
        if !sandbox::inside("routes::tests::a_way_is_a_route_and_not_what_the_kernel_supposes") {
            return;
        }
        ip("link add near type veth peer name away");
        ip("address add 192.0.2.5/24 dev near");
        ip("link set near up");
        ip("link set away up");
        let (a, b) = (index("near"), index("away"));
        let far = address("203.0.113.9");
        let supposed =
            Command::new("ip").args(["route", "get", "203.0.113.9", "oif", "near"]).output();
        assert!(supposed.unwrap().status.success(), "the kernel takes it for a neighbour");
        assert_eq!(way(far, None, Some(a)).unwrap(), None);
        assert_eq!(way(far, Some(address("192.0.2.5")), None).unwrap(), None);
        let near = way(address("192.0.2.9"), None, Some(a)).unwrap().unwrap();
        assert_eq!((near.interface, near.gateway), (Some(a), None));
        ip("route add default via 192.0.2.1 dev near metric 700");
        let found = way(far, None, Some(a)).unwrap().unwrap();
        assert_eq!((found.interface, found.gateway), (Some(a), Some(address("192.0.2.1"))));
        assert_eq!(way(far, None, Some(b)).unwrap(), None);
        ip("route add unreachable 203.0.113.0/24");
        assert_eq!(way(far, None, None).unwrap(), None);
        // In a table for its own address alone.
        ip("route del unreachable 203.0.113.0/24");
        ip("route del default");
        ip("route add default via 192.0.2.1 dev near table 100");
        ip("rule add from 192.0.2.5 lookup 100");
        assert_eq!(way(far, None, Some(a)).unwrap(), None);
        let found = way(far, Some(address("192.0.2.5")), Some(a)).unwrap().unwrap();
        assert_eq!((found.gateway, found.table), (Some(address("192.0.2.1")), 100));
    }

    #[test]
    fn a_neighbour_that_was_asked_for_in_vain_is_missing() {
        if !sandbox::inside("routes::tests::a_neighbour_that_was_asked_for_in_vain_is_missing") {
            return;
        }
        ip("link add near type veth peer name away");
        ip("address add 192.0.2.5/24 dev near");
        ip("link set near up");
        ip("link set away up");
        let missing = || is_neighbour_missing(index("near"), address("192.0.2.1"));
        assert!(missing().is_err(), "nobody asked");
        let socket = std::net::UdpSocket::bind("192.0.2.5:0").unwrap();
        socket.send_to(b"?", "192.0.2.1:9").unwrap();
        assert!(missing().unwrap());
        ip("neighbour replace 192.0.2.1 lladdr 02:00:00:00:00:01 dev near");
        assert!(!missing().unwrap());
    }

    #[test]
    fn messages_that_end_early_are_none() {
        assert_eq!((route(&[0; 4]), neighbour(&[0; 9])), (None, None));
        assert_eq!(route(&[0; ROUTE_HEADER]), Some(Way::default()));
    }
}
