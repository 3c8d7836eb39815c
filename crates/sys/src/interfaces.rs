//! The network interfaces of this host, and a descriptor that tells when they change.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::netlink::{Request, Socket, attributes, ip, u32_at};

/// Size of `ifinfomsg`, which begins every message about a link.
const LINK_HEADER: usize = 16;
/// Size of `ifaddrmsg`, which begins every message about an address.
const ADDRESS_HEADER: usize = 8;

/// Shows an interface at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number; a new one when the interface is created again.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is switched on.
    pub is_up: bool,
    /// Whether it is, and has a carrier.
    pub running: bool,
    /// The longest IP packet, in bytes.
    pub mtu: u32,
    /// Its addresses, sorted; link-local IPv6 ones are left out.
    pub addresses: Vec<IpAddr>,
}

/// Tells when interfaces come, go, or change their carrier or addresses, and when routes change.
#[derive(Debug)]
pub struct InterfaceWatch(Socket);

impl InterfaceWatch {
    /// Subscribes to the kernel's announcements.
    ///
    /// # Errors
    /// Those of netlink sockets.
    pub fn open() -> io::Result<Self> {
        let addresses = libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        let routes = libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_IPV6_ROUTE;
        Ok(Self(Socket::subscribe((libc::RTMGRP_LINK | addresses | routes) as u32)?))
    }

    /// Consumes the announcements; returns whether there were any.
    ///
    /// # Errors
    /// Those of `recv`.
    pub fn changed(&self) -> io::Result<bool> {
        self.0.drain()
    }
}

impl AsFd for InterfaceWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Lists the interfaces of this network namespace.
///
/// # Errors
/// Those of netlink.
pub fn list() -> io::Result<Vec<Interface>> {
    let mut socket = Socket::route()?;
    let mut interfaces = Vec::new();
    let request = Request::dump(libc::RTM_GETLINK).fixed(&[0; LINK_HEADER]);
    socket.exchange(request, |message| {
        interfaces.extend(link(message.body));
    })?;
    let request = Request::dump(libc::RTM_GETADDR).fixed(&[0; ADDRESS_HEADER]);
    socket.exchange(request, |message| {
        if let Some((index, address)) = address(message.body)
            && let Some(interface) = interfaces.iter_mut().find(|at| at.index == index)
        {
            interface.addresses.push(address);
        }
    })?;
    for interface in &mut interfaces {
        interface.addresses.sort_unstable();
    }
    Ok(interfaces)
}

/// Tells whether an interface is switched on, with or without a carrier.
///
/// # Errors
/// Those of netlink, and where there is no such interface.
pub fn is_switched_on(index: u32) -> io::Result<bool> {
    let mut header = [0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    let request = Request::change(libc::RTM_GETLINK, 0).fixed(&header);
    let mut flags = 0;
    Socket::route()?
        .exchange(request, |message| flags = u32_at(message.body, 8).unwrap_or_default())?;
    Ok(flags & libc::IFF_UP as u32 != 0)
}

/// Lists the networks that this host is in: the name of an interface, its address there, and how
/// many bits of that are the network's. Link-local ones are among them.
///
/// # Errors
/// Those of netlink.
pub fn networks() -> io::Result<Vec<(String, IpAddr, u8)>> {
    let names = list()?;
    let mut networks = Vec::new();
    let request = Request::dump(libc::RTM_GETADDR).fixed(&[0; ADDRESS_HEADER]);
    Socket::route()?.exchange(request, |message| {
        let index = u32_at(message.body, 4).unwrap_or_default();
        let Some(interface) = names.iter().find(|interface| interface.index == index) else {
            return;
        };
        let Some(&bits) = message.body.get(1) else { return };
        for (kind, value) in attributes(message.body.get(ADDRESS_HEADER..).unwrap_or_default()) {
            // On a point-to-point link both ends.
            if matches!(kind, libc::IFA_LOCAL | libc::IFA_ADDRESS)
                && let Some(address) = ip(value)
            {
                networks.push((interface.name.clone(), address, bits));
            }
        }
    })?;
    networks.sort_unstable();
    networks.dedup();
    Ok(networks)
}

pub(crate) fn link(body: &[u8]) -> Option<Interface> {
    let index = u32_at(body, 4)?;
    let flags = u32_at(body, 8)?;
    let wanted = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    let (mut name, mut mtu) = (None, 0);
    for (kind, value) in attributes(body.get(LINK_HEADER..)?) {
        match kind {
            libc::IFLA_IFNAME => name = Some(value.strip_suffix(b"\0").unwrap_or(value)),
            libc::IFLA_MTU => mtu = u32_at(value, 0).unwrap_or(0),
            _ => {}
        }
    }
    Some(Interface {
        index,
        name: String::from_utf8_lossy(name?).into_owned(),
        is_up: flags & libc::IFF_UP as u32 != 0,
        running: flags & wanted == wanted,
        mtu,
        addresses: Vec::new(),
    })
}

pub(crate) fn address(body: &[u8]) -> Option<(u32, IpAddr)> {
    let index = u32_at(body, 4)?;
    let (mut local, mut other) = (None, None);
    for (kind, value) in attributes(body.get(ADDRESS_HEADER..)?) {
        match kind {
            libc::IFA_LOCAL => local = ip(value),
            libc::IFA_ADDRESS => other = ip(value),
            _ => {}
        }
    }
    // On a point-to-point link IFA_ADDRESS is the peer's and IFA_LOCAL ours; IPv6 has only the
    // former.
    let address = local.or(other)?;
    let link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    (!link_local).then_some((index, address))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::{interface_setup, sandbox};

    #[test]
    fn loopback_is_listed() {
        let interfaces = list().unwrap();
        let loopback = interfaces.iter().find(|interface| interface.name == "lo").unwrap();
        assert_eq!(loopback.index, 1);
        if loopback.running {
            assert!(loopback.addresses.contains(&Ipv4Addr::LOCALHOST.into()));
        }
    }

    #[test]
    fn what_changes_is_announced_and_listed() {
        if !sandbox::inside("interfaces::tests::what_changes_is_announced_and_listed") {
            return;
        }
        let watch = InterfaceWatch::open().unwrap();
        assert!(!watch.changed().unwrap());
        let address = Ipv4Addr::new(192, 0, 2, 9);
        interface_setup::add_address("lo", address, 32).unwrap();
        assert!(watch.changed().unwrap());
        assert!(!watch.changed().unwrap());
        assert!(list().unwrap()[0].addresses.contains(&address.into()));
    }
}
