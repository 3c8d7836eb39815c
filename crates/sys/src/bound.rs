//! Plain UDP sockets that are tied to an interface, for questions that concern that interface
//! alone.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// Opens a plain socket whose datagrams leave by an interface alone, whatever the routes say.
///
/// # Errors
/// Those of `socket`, `setsockopt` and `bind`; `NotFound` when the interface is missing.
pub fn udp(interface: &str, is_ipv6: bool) -> io::Result<UdpSocket> {
    let any: IpAddr = match is_ipv6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    let any = SocketAddr::new(any, 0);
    let socket = Socket::new(Domain::for_address(any), Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind_device(Some(interface.as_bytes())).map_err(missing_interface)?;
    socket.bind(&any.into())?;
    Ok(socket.into())
}

/// Says in a word that an interface is not there.
pub(crate) fn missing_interface(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENODEV) => io::Error::new(io::ErrorKind::NotFound, "no such interface"),
        _ => error,
    }
}
