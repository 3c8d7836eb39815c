//! Sockets that belong to a multicast group, on every interface that one names.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};

/// Binds a socket at a group's address and port, beside other programs of this host that do the
/// same: each hears all.
///
/// # Errors
/// Those of `socket` and `bind`.
pub fn bind(group: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(group), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&group.into())?;
    Ok(socket.into())
}

/// Joins a group on the interface of a number; once more is no error.
///
/// # Errors
/// Those of the socket option: the interface is gone, or the system's limit of memberships is
/// reached.
pub fn join(socket: &UdpSocket, group: IpAddr, interface: u32) -> io::Result<()> {
    let socket = SockRef::from(socket);
    let joined = match group {
        IpAddr::V4(group) => {
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(interface))
        }
        IpAddr::V6(group) => socket.join_multicast_v6(&group, interface),
    };
    match joined {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(()),
        joined => joined,
    }
}

/// Lets what is sent to groups leave by the interface that has an address.
///
/// # Errors
/// `AddrNotAvailable` when none has it.
pub fn leave_by(socket: &UdpSocket, near: Ipv4Addr) -> io::Result<()> {
    SockRef::from(socket).set_multicast_if_v4(&near)
}
