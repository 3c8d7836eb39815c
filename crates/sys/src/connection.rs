//! TCP connections that carry datagrams: opened at an interface, never waited for, and with little
//! in the kernel that has not left.
//!
//! What these bytes are is `framing.rs`. Beside `byte_stream.rs`, whose connections are opponents
//! of our sessions and local applications.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration as StdDuration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::bound::missing_interface;
use crate::socket_option::set_option;
use crate::tcp_info::{TcpInfo, tcp_info};

/// Bytes that the kernel holds beside what is under way, at least: two or three datagrams, so that
/// the connection goes on while we wait for our turn. It takes no more, so that what comes later
/// and counts more can still go first.
pub const LEAST_UNSENT: usize = 4_096;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Silence after which the kernel asks whether the other end is there, the time between two
/// questions, and how long what was sent may remain unanswered.
const KEPT: [StdDuration; 3] =
    [StdDuration::from_secs(15), StdDuration::from_secs(5), StdDuration::from_secs(30)];
/// The congestion control that is asked for, by its rate rather than by each loss: radios lose.
const CONGESTION: &[u8] = b"bbr";
/// `TCP_RTO_MAX_MS` of Linux 6.15: the longest time between two repeats, 1 s at least.
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// Waits for connections.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
}

impl Listener {
    /// Listens at an address, at one interface alone where one is named.
    ///
    /// # Errors
    /// Those of `socket`, `bind` and `listen`; `NotFound` when the interface is missing.
    pub fn bind(at: SocketAddr, interface: Option<&str>) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        if at.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if let Some(interface) = interface {
            socket.bind_device(Some(interface.as_bytes())).map_err(missing_interface)?;
        }
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&at.into())?;
        socket.listen(BACKLOG)?;
        Ok(Self { listener: socket.into() })
    }

    /// Takes the next connection, if one waits.
    ///
    /// # Errors
    /// Those of `accept`, but that none waits.
    pub fn accept(&self) -> io::Result<Option<(Connection, SocketAddr)>> {
        let (stream, from) = match self.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_none(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        tune(&SockRef::from(&stream))?;
        Ok(Some((Connection { stream }, from)))
    }

    /// Returns where it listens.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
}

impl Connection {
    /// Begins a connection that leaves by an interface alone, and does not wait for it: it is
    /// writable when it is there or has failed, which [`Connection::failure`] tells.
    ///
    /// # Errors
    /// Those of `socket`, `setsockopt` and `connect`; `NotFound` when the interface is missing.
    pub fn begin(to: SocketAddr, interface: Option<&str>) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        if let Some(interface) = interface {
            socket.bind_device(Some(interface.as_bytes())).map_err(missing_interface)?;
        }
        socket.set_nonblocking(true)?;
        tune(&SockRef::from(&socket))?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(Self { stream: socket.into() }),
        }
    }

    /// Returns why it failed, if it did, since this was asked last.
    pub fn failure(&self) -> Option<io::Error> {
        self.stream.take_error().unwrap_or_else(Some)
    }

    /// Tells whether it has come about.
    pub fn is_there(&self) -> bool {
        self.stream.peer_addr().is_ok()
    }

    /// Reads what has come; none where nothing has, and zero at the end.
    ///
    /// # Errors
    /// Those of `recv`, but that nothing waits.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.stream.read(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_none(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes what the kernel takes, and returns how much that was.
    ///
    /// # Errors
    /// Those of `send`, but that there is no room.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.stream.write(&bytes[written..]) {
                Ok(more) => written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_none(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Returns how many bytes were written that the other end has not acknowledged.
    ///
    /// # Errors
    /// Those of `ioctl`.
    pub fn unacknowledged(&self) -> io::Result<usize> {
        // SIOCOUTQ is another name of it.
        self.ask(libc::TIOCOUTQ)
    }

    /// Returns how many of those have not left.
    ///
    /// # Errors
    /// Those of `ioctl`.
    pub fn unsent(&self) -> io::Result<usize> {
        /// `SIOCOUTQNSD` of `linux/sockios.h`.
        const SIOCOUTQNSD: libc::Ioctl = 0x894B;
        self.ask(SIOCOUTQNSD)
    }

    /// Returns the kernel's account of it.
    ///
    /// # Errors
    /// Those of `getsockopt`.
    pub fn info(&self) -> io::Result<TcpInfo> {
        tcp_info(&self.stream)
    }

    /// Lets the kernel hold so many bytes that have not left.
    ///
    /// # Errors
    /// Those of `setsockopt`.
    pub fn set_unsent(&self, bytes: usize) -> io::Result<()> {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        set_option(&self.stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
    }

    /// Asks a question whose answer is one int.
    fn ask(&self, what: libc::Ioctl) -> io::Result<usize> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: both questions that are asked write one int, which lives during the call.
        let failed = unsafe { libc::ioctl(self.stream.as_raw_fd(), what, &raw mut bytes) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(usize::try_from(bytes).unwrap_or(0))
    }

    /// Ends it at once: what has not arrived never does.
    pub fn abort(self) {
        // Where that fails, the kernel tries for a while to bring what it has.
        let _ = SockRef::from(&self.stream).set_linger(Some(StdDuration::ZERO));
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Sets what every connection needs; what an older kernel does not know is left out.
fn tune(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEPT[0]).with_interval(KEPT[1]))?;
    socket.set_tcp_user_timeout(Some(KEPT[2]))?;
    let unsent = LEAST_UNSENT as libc::c_int;
    set_option(&**socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, unsent)?;
    let _ = set_option(&**socket, libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, 1);
    let _ = set_option(&**socket, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, 1_000);
    let _ = socket.set_tcp_congestion(CONGESTION);
    Ok(())
}

/// Tells whether an error only says that there is nothing now.
fn is_none(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;
    use crate::poller::{Interest, Poller};

    fn pair() -> (Connection, Connection) {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let near = Connection::begin(listener.local_address().unwrap(), None).unwrap();
        wait(&listener, Interest::Read);
        let (far, _) = listener.accept().unwrap().unwrap();
        wait(&near, Interest::Write);
        assert!(near.is_there() && near.failure().is_none());
        assert!(listener.accept().unwrap().is_none());
        (near, far)
    }

    fn wait(descriptor: impl AsFd, interest: Interest) {
        let mut poller = Poller::new().unwrap();
        poller.add(descriptor, 1, interest).unwrap();
        let (now, mut ready) = (crate::clock::now(), Vec::new());
        poller.wait(now, Some(now + Duration::from_secs(30)), &mut ready).unwrap();
        assert_eq!(ready.len(), 1);
    }

    #[test]
    fn bytes_arrive_and_the_end_is_seen() {
        let (mut near, mut far) = pair();
        let mut buffer = [0; 64];
        assert_eq!(far.read(&mut buffer).unwrap(), None);
        assert_eq!(near.write(b"datagrams").unwrap(), 9);
        wait(&far, Interest::Read);
        assert_eq!(far.read(&mut buffer).unwrap(), Some(9));
        near.abort();
        wait(&far, Interest::Read);
        assert!(!matches!(far.read(&mut buffer), Ok(None)), "it has ended");
    }

    #[test]
    fn the_kernel_holds_little_beside_what_is_under_way_and_says_how_much() {
        let (mut near, _far) = pair();
        let (piece, mut written) = ([7; 1_000], 0);
        while near.write(&piece).unwrap() == piece.len() {
            written += piece.len();
            assert!(written < 64 << 20, "it takes everything");
        }
        // The kernel looks at what has not left when it begins another segment, of up to 64 kB.
        let unsent = near.info().unwrap().not_sent as usize;
        assert!(unsent <= LEAST_UNSENT + 65_536, "{unsent}");
        assert!(near.unacknowledged().unwrap() > 0);
    }

    #[test]
    fn a_missing_interface_and_nobody_there_are_told() {
        let nowhere = Connection::begin("127.0.0.1:9".parse().unwrap(), Some("nowhere0"));
        assert_eq!(nowhere.unwrap_err().kind(), ErrorKind::NotFound);
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refused = match Connection::begin(free, None) {
            Ok(connection) => {
                wait(&connection, Interest::Write);
                connection.failure().map(|error| error.kind())
            }
            Err(error) => Some(error.kind()),
        };
        assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
    }
}
