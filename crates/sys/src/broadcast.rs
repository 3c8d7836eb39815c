//! UDP sockets that broadcast on one interface and hear what is broadcast on it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// What a datagram takes of the memory of a socket, in bytes, and of how many there is room in any case.
const DATAGRAM: usize = 2_304;
const WAITING_MIN: usize = 2;

/// Opens a socket that sends and hears datagrams of `port` on `interface` alone, broadcasts included.
///
/// A few datagrams may wait for the interface, and `waiting` beside them (64 at most).
///
/// What it broadcasts to 255.255.255.255 leaves by the interface, and comes back to it as well.
///
/// # Errors
/// Those of `socket`, `setsockopt` and `bind`; `NotFound` when the interface is missing, `PermissionDenied`
/// without the right to bind to one.
pub fn open(interface: &str, port: u16, waiting: usize) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind_device(Some(interface.as_bytes())).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => io::Error::new(io::ErrorKind::NotFound, error),
        _ => error,
    })?;
    socket.set_broadcast(true)?;
    // The kernel doubles this.
    socket.set_send_buffer_size((WAITING_MIN + waiting.min(64)) * DATAGRAM / 2)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_not_found() {
        let error = open("nowhere0", 0, 0).expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    }
}
