//! UDP sockets that broadcast on one interface and hear what is broadcast on it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// What may wait for the interface, in bytes as the kernel counts them.
const SEND_BUFFER: usize = 4_096;

/// Opens a socket that sends and hears datagrams of `port` on `interface` alone, broadcasts included.
///
/// What it broadcasts to 255.255.255.255 leaves by the interface, and comes back to it as well.
///
/// # Errors
/// Those of `socket`, `setsockopt` and `bind`; `NotFound` when the interface is missing, `PermissionDenied`
/// without the right to bind to one.
pub fn open(interface: &str, port: u16) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind_device(Some(interface.as_bytes())).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => io::Error::new(io::ErrorKind::NotFound, error),
        _ => error,
    })?;
    socket.set_broadcast(true)?;
    // What waits here has missed its slot: a few frames, of which the kernel takes no fewer.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_not_found() {
        let error = open("nowhere0", 0).expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    }
}
