//! Makes network interfaces and gives them addresses, routes and neighbours.
//!
//! The tunnel's interface gets its addresses and routes here, and the emulator makes a virtual
//! Ethernet cable for each end of an emulated link: one end in a host's namespace, the other in its
//! own, where `packet_ring` picks the frames up.

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::netlink::{Request, change};
use crate::netns::Namespace;

/// An Ethernet address.
pub type MacAddress = [u8; 6];

// linux/veth.h and linux/if_link.h; libc has no VETH_INFO_PEER.
const VETH_INFO_PEER: u16 = 1;
const CREATE: i32 = libc::NLM_F_CREATE | libc::NLM_F_EXCL;

// linux/ethtool.h: the old single-flag commands, which every kernel since 2.6 knows.
const GET_LINK: u32 = 0x0a;
const SET_TX_CHECKSUM: u32 = 0x17;
const SET_SCATTER_GATHER: u32 = 0x19;
const SET_TSO: u32 = 0x1f;
const SET_GSO: u32 = 0x24;
const SET_GRO: u32 = 0x2c;
const SIOCETHTOOL: u32 = 0x8946;

/// Describes one end of a virtual Ethernet cable.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// The interface's name there: 1 to 15 bytes without space and slash.
    pub name: &'a str,
    /// The interface's Ethernet address.
    pub mac: MacAddress,
    /// The namespace that it lives in.
    pub namespace: &'a Namespace,
}

/// Makes a virtual Ethernet cable; both ends are down and without addresses.
///
/// `mtu` is the longest IP packet in bytes. The cable vanishes with the namespace of either end.
pub fn create_veth(one: &VethEnd<'_>, other: &VethEnd<'_>, mtu: u32) -> io::Result<()> {
    let describe = |request: Request, end: &VethEnd<'_>| {
        let fd = end.namespace.as_fd().as_raw_fd();
        request
            .text(libc::IFLA_IFNAME, end.name)
            .attribute(libc::IFLA_ADDRESS, &end.mac)
            .attribute(libc::IFLA_MTU, &mtu.to_ne_bytes())
            .attribute(libc::IFLA_NET_NS_FD, &fd.to_ne_bytes())
    };
    let request = Request::change(libc::RTM_NEWLINK, CREATE).fixed(&interface_message(0, 0));
    let request = describe(request, one).nest(libc::IFLA_LINKINFO, |info| {
        info.text(libc::IFLA_INFO_KIND, "veth").nest(libc::IFLA_INFO_DATA, |data| {
            data.nest(VETH_INFO_PEER, |peer| describe(peer.fixed(&interface_message(0, 0)), other))
        })
    });
    change(request)
        .map_err(|error| named(&format!("make the cable {}–{}", one.name, other.name), error))
}

/// Limits the interface to IP packets of so many bytes, in the calling thread's namespace.
///
/// # Errors
/// When there is no such interface, or it cannot have that limit.
pub fn set_mtu(name: &str, mtu: u32) -> io::Result<()> {
    let message = interface_message(index(name)?, 0);
    let request = Request::change(libc::RTM_NEWLINK, 0).fixed(&message);
    change(request.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes()))
        .map_err(|error| named(&format!("limit {name} to {mtu} bytes"), error))
}

/// Switches the interface on, in the calling thread's namespace.
pub fn set_up(name: &str) -> io::Result<()> {
    let message = interface_message(index(name)?, libc::IFF_UP);
    change(Request::change(libc::RTM_NEWLINK, 0).fixed(&message))
        .map_err(|error| named(&format!("switch {name} on"), error))
}

/// Removes the interface, in the calling thread's namespace; of a cable both ends go.
pub fn remove(name: &str) -> io::Result<()> {
    let message = interface_message(index(name)?, 0);
    change(Request::change(libc::RTM_DELLINK, 0).fixed(&message))
        .map_err(|error| named(&format!("remove {name}"), error))
}

/// Gives the interface an address, in the calling thread's namespace.
pub fn add_address(name: &str, address: impl Into<IpAddr>, prefix: u8) -> io::Result<()> {
    let address = address.into();
    change(address_request(libc::RTM_NEWADDR, CREATE, index(name)?, address, prefix))
        .map_err(|error| named(&format!("add {address}/{prefix} to {name}"), error))
}

/// Takes an address from the interface, in the calling thread's namespace. With the first address
/// of a network its other addresses go too, unless `promote_secondaries` is set.
pub fn remove_address(name: &str, address: impl Into<IpAddr>, prefix: u8) -> io::Result<()> {
    let address = address.into();
    change(address_request(libc::RTM_DELADDR, 0, index(name)?, address, prefix))
        .map_err(|error| named(&format!("remove {address}/{prefix} from {name}"), error))
}

/// Routes a prefix to the interface, in the calling thread's namespace; returns whether there was
/// no route yet.
pub fn add_route(name: &str, address: IpAddr, prefix: u8) -> io::Result<bool> {
    match change(route_request(libc::RTM_NEWROUTE, CREATE, index(name)?, address, prefix)) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
        Err(error) => Err(named(&format!("route {address}/{prefix} to {name}"), error)),
    }
}

/// Ends what [`add_route`] began; a route that does not exist is no error.
pub fn remove_route(name: &str, address: IpAddr, prefix: u8) -> io::Result<()> {
    match change(route_request(libc::RTM_DELROUTE, 0, index(name)?, address, prefix)) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        done => done
            .map_err(|error| named(&format!("end the route {address}/{prefix} to {name}"), error)),
    }
}

/// Routes an IPv4 prefix by way of a neighbour on the interface, in the calling thread's namespace.
pub fn add_gateway_route(
    name: &str,
    network: Ipv4Addr,
    prefix: u8,
    gateway: Ipv4Addr,
) -> io::Result<()> {
    let (table, origin) = (libc::RT_TABLE_MAIN, libc::RTPROT_STATIC);
    let (scope, kind) = (libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST);
    let message = [libc::AF_INET as u8, prefix, 0, 0, table, origin, scope, kind, 0, 0, 0, 0];
    let request = Request::change(libc::RTM_NEWROUTE, CREATE)
        .fixed(&message)
        .attribute(libc::RTA_DST, &network.octets())
        .attribute(libc::RTA_GATEWAY, &gateway.octets())
        .attribute(libc::RTA_OIF, &index(name)?.to_ne_bytes());
    change(request).map_err(|error| named(&format!("route {network}/{prefix} to {gateway}"), error))
}

/// Tells the interface for good which Ethernet address a neighbour has, so that nobody need ask.
pub fn add_neighbour(name: &str, address: Ipv4Addr, mac: MacAddress) -> io::Result<()> {
    // ndmsg: family, three bytes of padding, interface, state u16, flags u8, type u8.
    let mut message = [libc::AF_INET as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    message[4..8].copy_from_slice(&index(name)?.to_ne_bytes());
    message[8..10].copy_from_slice(&libc::NUD_PERMANENT.to_ne_bytes());
    let request = Request::change(libc::RTM_NEWNEIGH, libc::NLM_F_CREATE | libc::NLM_F_REPLACE)
        .fixed(&message)
        .attribute(libc::NDA_DST, &address.octets())
        .attribute(libc::NDA_LLADDR, &mac);
    change(request).map_err(|error| named(&format!("add neighbour {address} to {name}"), error))
}

/// Switches segmentation, receive and checksum offloads of the interface off, in the calling
/// thread's namespace.
///
/// Frames then leave it as they would appear on a cable: one packet each, with a correct checksum.
/// A program that reads and re-sends frames, or flips bits in them, depends on both.
pub fn disable_offloads(name: &str) -> io::Result<()> {
    // Segmentation before what it builds on; the kernel would drop it silently otherwise.
    for command in [SET_TSO, SET_GSO, SET_GRO, SET_SCATTER_GATHER, SET_TX_CHECKSUM] {
        ethernet_value(name, command, 0)
            .map_err(|error| named(&format!("switch the offloads of {name} off"), error))?;
    }
    Ok(())
}

/// Returns the number of an interface of the calling thread's namespace.
pub fn index(name: &str) -> io::Result<u32> {
    let socket = any_socket()?;
    rustix::net::netdevice::name_to_index(&socket, name)
        .map_err(|error| named(&format!("find the interface {name}"), error.into()))
}

/// Returns the name of an interface of the calling thread's namespace, which may have changed.
pub fn name_of(index: u32) -> io::Result<String> {
    let name = rustix::net::netdevice::index_to_name(&any_socket()?, index);
    name.map_err(|error| named(&format!("find interface {index}"), error.into()))
}

/// Says whether an interface of the calling thread's namespace has somebody at its other end.
///
/// Of a virtual cable: whether both ends are switched on.
pub fn has_carrier(index: u32) -> io::Result<bool> {
    let name = rustix::net::netdevice::index_to_name(&any_socket()?, index)?;
    Ok(ethernet_value(&name, GET_LINK, 0)? != 0)
}

/// Encodes `ifinfomsg`: the interface a request is about, and the flags it sets.
fn interface_message(index: u32, set_flags: i32) -> [u8; 16] {
    let mut message = [0; 16];
    message[4..8].copy_from_slice(&index.to_ne_bytes());
    message[8..12].copy_from_slice(&(set_flags as u32).to_ne_bytes());
    // The mask of flags that change is the set of flags that are set: none is ever cleared here.
    message[12..16].copy_from_slice(&(set_flags as u32).to_ne_bytes());
    message
}

/// Gives a value to the interface, or gets one from it, as `command` says; returns the value.
fn ethernet_value(name: &str, command: u32, value: u32) -> io::Result<u32> {
    #[repr(C)]
    struct EthernetValue {
        command: u32,
        value: u32,
    }
    let socket = any_socket()?;
    let text = CString::new(name)?;
    let mut data = EthernetValue { command, value };
    // SAFETY: `ifreq` is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(text.as_bytes().iter().take(15)) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut data).cast();
    // SAFETY: `request` is a valid `ifreq` whose data points at `ethtool_value`, as the commands of
    // this module want; both outlive the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut request) } {
        0 => Ok(data.value),
        _ => Err(io::Error::last_os_error()),
    }
}

fn route_request(kind: u16, flags: i32, index: u32, address: IpAddr, prefix: u8) -> Request {
    let scope = if address.is_ipv4() { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
    // rtmsg: family, prefix length of destination and source, type of service, table, who made
    // it, scope, type, flags u32.
    let (table, origin) = (libc::RT_TABLE_MAIN, libc::RTPROT_STATIC);
    let unicast = libc::RTN_UNICAST;
    let message = [family(address), prefix, 0, 0, table, origin, scope, unicast, 0, 0, 0, 0];
    Request::change(kind, flags)
        .fixed(&message)
        .attribute(libc::RTA_DST, &octets(address))
        .attribute(libc::RTA_OIF, &index.to_ne_bytes())
}

fn address_request(kind: u16, flags: i32, index: u32, address: IpAddr, prefix: u8) -> Request {
    // ifaddrmsg: family, prefix length, flags, scope (0, the whole world), interface. Nobody else
    // can have the address on these networks: it is usable at once, without asking the neighbours.
    let mut message = [family(address), prefix, libc::IFA_F_NODAD as u8, 0, 0, 0, 0, 0];
    message[4..8].copy_from_slice(&index.to_ne_bytes());
    Request::change(kind, flags)
        .fixed(&message)
        .attribute(libc::IFA_LOCAL, &octets(address))
        .attribute(libc::IFA_ADDRESS, &octets(address))
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn any_socket() -> io::Result<std::os::fd::OwnedFd> {
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    Ok(rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

fn named(operation: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{operation}: {error}"))
}
