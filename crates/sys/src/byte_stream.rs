//! TCP and multipath TCP connections of the kernel, as opponents of our own sessions.
//!
//! Of this the daemon uses [`keep_short`] and [`begin_connect`] alone. The congestion control is
//! always chosen, because machines differ in their default; multipath TCP passes the choice on to
//! its sub-flows.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use rustix::net::{SendFlags, send};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// Says which kind of connection the kernel is to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One flow over one path.
    Tcp,
    /// A sub-flow per path that the path manager knows.
    Mptcp,
}

impl Transport {
    fn protocol(self) -> Protocol {
        match self {
            Self::Tcp => Protocol::TCP,
            Self::Mptcp => Protocol::MPTCP,
        }
    }
}

/// Begins a connection of the kernel's usual kind, and does not wait for it: the stream is writable
/// when it is there or has failed, which `take_error` tells. One whose other end is gone without a
/// word ends within some ten seconds.
///
/// # Errors
/// Those of `socket`, `setsockopt` and `connect`.
pub fn begin_connect(to: SocketAddr) -> io::Result<TcpStream> {
    /// Before the other end is asked whether it is there, between two questions, and for how long
    /// it may be silent then.
    const KEPT: [Duration; 3] =
        [Duration::from_secs(5), Duration::from_secs(2), Duration::from_secs(10)];
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEPT[0]).with_interval(KEPT[1]))?;
    socket.set_tcp_user_timeout(Some(KEPT[2]))?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Waits for connections at an address.
///
/// # Errors
/// When the kernel lacks the transport or the congestion control, or the address is in use.
pub fn listen(transport: Transport, congestion: &str, at: SocketAddr) -> io::Result<TcpListener> {
    let socket = make(transport, congestion, at)?;
    socket.set_reuse_address(true)?;
    let at_address = |error| named(&format!("listen at {at}"), error);
    socket.bind(&at.into()).and_then(|()| socket.listen(16)).map_err(at_address)?;
    Ok(socket.into())
}

/// Connects to an address, within a time.
///
/// # Errors
/// Those of [`listen`]; or nobody answers in time.
pub fn connect(
    transport: Transport,
    congestion: &str,
    to: SocketAddr,
    within: Duration,
) -> io::Result<TcpStream> {
    let socket = make(transport, congestion, to)?;
    socket
        .connect_timeout(&to.into(), within)
        .map_err(|error| named(&format!("connect to {to}"), error))?;
    Ok(socket.into())
}

/// Returns the congestion control that a connection uses.
pub fn congestion(stream: &TcpStream) -> io::Result<String> {
    let name = SockRef::from(stream).tcp_congestion()?;
    let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// Writes what the socket takes at once and returns how much that was.
///
/// # Errors
/// `WouldBlock` when it takes nothing now, whatever the socket's blocking mode.
pub fn send_now(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

/// Keeps short what the kernel takes and cannot send at once: about `bytes`. What waits with the
/// caller instead can still be dropped.
///
/// # Errors
/// Those of `setsockopt`.
pub fn keep_short(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    SockRef::from(stream).set_tcp_notsent_lowat(bytes)
}

/// Makes the kernel forget what is unsent, and reset the connection, when the stream is closed.
///
/// # Errors
/// When the socket is not that of a connection.
pub fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

fn make(transport: Transport, congestion: &str, address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(transport.protocol()))
        .map_err(|error| named(&format!("make a socket for {transport:?}"), error))?;
    socket
        .set_tcp_congestion(congestion.as_bytes())
        .map_err(|error| named(&format!("use congestion control {congestion}"), error))?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

fn named(operation: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{operation}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn both_transports_carry_bytes() {
        for transport in [Transport::Tcp, Transport::Mptcp] {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let listener = match listen(transport, "reno", any) {
                Ok(listener) => listener,
                Err(error) => {
                    crate::sandbox::skip("both_transports_carry_bytes", &error.to_string());
                    continue;
                }
            };
            let at = listener.local_addr().unwrap();
            let client = connect(transport, "reno", at, Duration::from_secs(5)).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            assert_eq!(send_now(&client, b"bytes").unwrap(), 5);
            let mut bytes = [0; 5];
            server.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"bytes");
            assert_eq!(congestion(&client).unwrap(), "reno");
        }
    }
}
