//! UDP sockets for paths: bound to an interface, batched in both directions, marked per batch.
//!
//! Receiving and the socket's set-up (GRO, packet information, ECN, no fragmentation) are
//! quinn-udp's. Sending is our own `sendmsg`: quinn-udp writes the whole TOS byte and leaves no
//! room for a DSCP, and it cannot choose the outgoing interface of a socket that serves several.

use std::io::{self, IoSliceMut};
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use quinn_udp::{RecvMeta, UdpSocketState};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::bound::missing_interface;
use crate::control_messages::ControlMessages;
use crate::socket_option::set_option;

/// Segments that one GSO send may carry: the limit of Linux.
pub const MAX_SEGMENTS: usize = 64;
/// Bytes that one GSO send may carry: the largest UDP payload over IPv4.
pub const MAX_BATCH: usize = 65_507;
/// Receive buffers per call; each takes up to 64 datagrams that GRO has joined.
const BUFFERS: usize = 8;
/// What GRO may join into one buffer.
const BUFFER_BYTES: usize = 65_536;
/// The instruction of a classic BPF program that returns a constant (`BPF_RET | BPF_K`).
const BPF_RETURN: u16 = 0x06;

/// Says how a socket is opened.
#[derive(Clone, Debug)]
pub struct UdpOptions {
    /// Local address; port 0 lets the kernel choose.
    pub local: SocketAddr,
    /// Whether a socket of IPv6's unspecified address carries IPv4 too, under IPv4's addresses.
    pub both_families: bool,
    /// Interface that all datagrams come from and leave by (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// Bytes of `SO_SNDBUF`: small, since what waits there can no longer be overtaken.
    pub send_buffer: usize,
    /// Bytes of `SO_RCVBUF`: what may come in while the process does not run.
    pub receive_buffer: usize,
    /// Whether equal datagrams may be sent as one (GSO) where the kernel is known to do it right.
    pub segmentation: bool,
    /// Whether [`UdpSocket::beside`] may open more sockets of the same address, where the kernel
    /// lets it.
    pub shared: bool,
}

/// Sends and receives datagrams in batches.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
    state: UdpSocketState,
    segmentation: bool,
    /// Whether what comes in goes to this socket, however many others have its address.
    receives_all: bool,
    /// Whether addresses of IPv4 are mapped into those of IPv6.
    is_mapped: bool,
}

/// Describes datagrams of equal size that leave together.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Where they go.
    pub destination: SocketAddr,
    /// The local address that they leave from; none lets the kernel choose.
    pub local: Option<IpAddr>,
    /// Index of the interface that they leave by; none lets the kernel choose.
    pub interface: Option<u32>,
    /// The six bits of the differentiated-services code point.
    pub dscp: u8,
    /// The two ECN bits.
    pub ecn: u8,
    /// The datagrams, one after the other.
    pub bytes: &'a [u8],
    /// Size of each datagram; the last may be shorter.
    pub segment: usize,
}

/// Describes a run of datagrams that came in together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The sender's address.
    pub source: SocketAddr,
    /// The local address that they were sent to.
    pub local: Option<IpAddr>,
    /// Index of the interface that they came in by; 0 where unknown.
    pub interface: u32,
    /// The two ECN bits.
    pub ecn: u8,
}

/// Holds received datagrams until the next call.
pub struct ReceiveBuffers {
    bytes: Vec<u8>,
    metas: [RecvMeta; BUFFERS],
    filled: usize,
}

impl Default for ReceiveBuffers {
    fn default() -> Self {
        let metas = [RecvMeta::default(); BUFFERS];
        Self { bytes: vec![0; BUFFERS * BUFFER_BYTES], metas, filled: 0 }
    }
}

impl ReceiveBuffers {
    /// Tells whether the last call had room for no more: there may be something left.
    pub fn is_full(&self) -> bool {
        self.filled == BUFFERS
    }

    /// Gives every received datagram to `handle`, in the order in which they came.
    pub fn for_each(&mut self, mut handle: impl FnMut(&Incoming, &mut [u8])) {
        let buffers = self.bytes.chunks_exact_mut(BUFFER_BYTES);
        for (meta, buffer) in self.metas[..self.filled].iter().zip(buffers) {
            let incoming = Incoming {
                source: match (meta.addr.ip().to_canonical(), meta.addr) {
                    (IpAddr::V4(source), SocketAddr::V6(mapped)) => (source, mapped.port()).into(),
                    (_, source) => source,
                },
                local: meta.dst_ip.map(|local| local.to_canonical()),
                interface: meta.interface_index.unwrap_or(0),
                ecn: meta.ecn.map_or(0, |ecn| ecn as u8),
            };
            // The stride comes from the kernel; 0 would never end and is a single datagram.
            let length = meta.len.min(buffer.len());
            let stride = if meta.stride == 0 { length } else { meta.stride };
            for datagram in buffer[..length].chunks_mut(stride.max(1)) {
                handle(&incoming, datagram);
            }
        }
        self.filled = 0;
    }
}

impl UdpSocket {
    /// Opens a socket; an IPv6 socket carries IPv6 alone unless the options say otherwise.
    ///
    /// # Errors
    /// Those of `socket`, `setsockopt` and `bind`; `NotFound` when the interface is missing.
    pub fn bind(options: &UdpOptions) -> io::Result<Self> {
        let socket = unbound(options)?;
        set_send_buffer(&socket, options.send_buffer)?;
        enlarge_receive_buffer(&socket, options.receive_buffer)?;
        if options.shared {
            refuse_taken(options)?;
            socket.set_reuse_port(true)?;
        }
        socket.bind(&options.local.into())?;
        let receives_all = options.shared && receive_for_all(&socket)?;
        if options.shared && !receives_all {
            socket.set_reuse_port(false)?;
        }
        let mut socket = Self::over(socket)?;
        socket.segmentation =
            options.segmentation && socket.state.max_gso_segments() > 1 && segmentation_is_sound();
        socket.receives_all = receives_all;
        socket.is_mapped = options.both_families;
        Ok(socket)
    }

    /// Opens another socket of the same address, which only sends: what comes in goes to this one.
    ///
    /// A datagram waits in the kernel while its neighbour is looked for, for seconds, and counts
    /// against its socket meanwhile. Whoever sends to several hosts keeps them apart like this.
    ///
    /// # Errors
    /// Those of [`UdpSocket::bind`]; `Unsupported` unless [`UdpSocket::may_share`].
    pub fn beside(&self, options: &UdpOptions) -> io::Result<Self> {
        if !self.receives_all {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let socket = unbound(options)?;
        set_send_buffer(&socket, options.send_buffer)?;
        socket.set_reuse_port(true)?;
        socket.bind(&self.local_address()?.into())?;
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self { segmentation: self.segmentation, ..Self::of(socket, state) })
    }

    /// Tells whether other sockets may have this one's address: it was opened as `shared`, and the
    /// kernel gives it all that comes in for them.
    pub fn may_share(&self) -> bool {
        self.receives_all
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Returns how many datagrams one send should join: 1 where segmentation does not work.
    pub fn max_segments(&self) -> usize {
        if self.segmentation { MAX_SEGMENTS } else { 1 }
    }

    /// Receives what waits, up to the size of `buffers`; returns whether anything did.
    ///
    /// # Errors
    /// Those of `recvmmsg`; an empty socket is no error.
    pub fn receive(&self, buffers: &mut ReceiveBuffers) -> io::Result<bool> {
        let mut rest = buffers.bytes.chunks_exact_mut(BUFFER_BYTES);
        let mut slices: [IoSliceMut<'_>; BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
        match self.state.recv((&self.socket).into(), &mut slices, &mut buffers.metas) {
            Ok(count) => buffers.filled = count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => buffers.filled = 0,
            Err(error) => return Err(error),
        }
        Ok(buffers.filled > 0)
    }

    /// Sends datagrams; returns how many bytes of them left, whole datagrams only.
    ///
    /// Fewer than all means that the socket's buffer is full: wait until it is writable. Where the
    /// device refuses segmentation (EIO, EINVAL) datagrams go one by one from then on. A datagram
    /// larger than the interface's MTU counts as sent: the path will find it lost.
    ///
    /// # Errors
    /// Those of `sendmsg`, other than a full buffer.
    pub fn send(&mut self, outgoing: &Outgoing<'_>) -> io::Result<usize> {
        assert!(outgoing.segment > 0, "datagrams without a size");
        if outgoing.bytes.len() <= outgoing.segment {
            return self.send_once(outgoing);
        }
        if self.segmentation {
            match self.send_once(outgoing) {
                Err(error) if refuses_segmentation(&error) => {}
                sent => return sent,
            }
        }
        let mut sent = 0;
        for datagram in outgoing.bytes.chunks(outgoing.segment) {
            let accepted = self.send_once(&Outgoing { bytes: datagram, ..*outgoing })?;
            if accepted == 0 {
                break;
            }
            sent += accepted;
        }
        // They pass one by one: it was the segmentation that the device refused.
        self.segmentation = false;
        Ok(sent)
    }

    /// Sets up a socket that is bound, to send datagrams one by one.
    pub(crate) fn over(socket: Socket) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        // Timestamps, packet information, TOS and the GRO stride together do not fit quinn-udp's
        // space for control messages: the ECN bits would be cut off, and nobody reads the time.
        match set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0) {
            // Emulations of Linux may know no timestamps: then there are none.
            Err(error) if error.raw_os_error() != Some(libc::ENOPROTOOPT) => return Err(error),
            _ => {}
        }
        Ok(Self::of(socket, state))
    }

    fn of(socket: Socket, state: UdpSocketState) -> Self {
        Self { socket, state, segmentation: false, receives_all: false, is_mapped: false }
    }

    fn send_once(&self, outgoing: &Outgoing<'_>) -> io::Result<usize> {
        let address = SockAddr::from(match outgoing.destination {
            SocketAddr::V4(to) if self.is_mapped => (to.ip().to_ipv6_mapped(), to.port()).into(),
            to => to,
        });
        let mut part = libc::iovec {
            iov_base: outgoing.bytes.as_ptr() as *mut _,
            iov_len: outgoing.bytes.len(),
        };
        let mut control = ControlMessages::of(outgoing);
        // SAFETY: msghdr is plain old data; all-zero is its empty value.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_name = address.as_ptr() as *mut _;
        header.msg_namelen = address.len();
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        (header.msg_control, header.msg_controllen) = control.parts();
        loop {
            // SAFETY: the header points to an address, a part and control messages that outlive
            // the call, each with its own length; sendmsg only reads them.
            let sent =
                unsafe { libc::sendmsg(self.socket.as_raw_fd(), &header, libc::MSG_DONTWAIT) };
            if sent >= 0 {
                return Ok(outgoing.bytes.len());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => return Ok(0),
                Some(libc::EMSGSIZE) => return Ok(outgoing.bytes.len()),
                _ => return Err(error),
            }
        }
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Opens a socket that is tied to its interface, and to no address yet.
pub(crate) fn unbound(options: &UdpOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(options.local), Type::DGRAM, Some(Protocol::UDP))?;
    if options.local.is_ipv6() {
        socket.set_only_v6(!options.both_families)?;
    }
    if let Some(interface) = &options.interface {
        socket.bind_device(Some(interface.as_bytes())).map_err(missing_interface)?;
    }
    Ok(socket)
}

/// Goes past the system's limit where the process may, and to the limit where it may not.
pub(crate) fn set_send_buffer(socket: &Socket, bytes: usize) -> io::Result<()> {
    let forced = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    match set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, forced) {
        Ok(()) => Ok(()),
        Err(_) => socket.set_send_buffer_size(bytes),
    }
}

/// Goes past the system's limit where the process may, and to the limit where it may not.
pub(crate) fn enlarge_receive_buffer(socket: &Socket, bytes: usize) -> io::Result<()> {
    let forced = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    match set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, forced) {
        Ok(()) => Ok(()),
        Err(_) => socket.set_recv_buffer_size(bytes),
    }
}

/// Tells the errors by which drivers without checksum offload turn segmentation down.
fn refuses_segmentation(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

/// Says that the address is taken, as a socket that shares it with others would not.
fn refuse_taken(options: &UdpOptions) -> io::Result<()> {
    unbound(options)?.bind(&options.local.into())
}

/// Lets the first socket of an address have everything that comes in for it; returns whether the
/// kernel can do that.
///
/// Where it cannot (emulations of Linux, such as qemu's of programs), what comes in would be spread
/// over all sockets of the address and be lost in those that only send. So there this one has to
/// stay alone: it still reaches everybody, but a host that does not answer may hold up the others.
fn receive_for_all(socket: &Socket) -> io::Result<bool> {
    let first = libc::sock_filter { code: BPF_RETURN, jt: 0, jf: 0, k: 0 };
    let mut program = [first];
    let program = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    let size = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the program and its one instruction live during the call, and its size is passed.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size,
        )
    };
    if failed == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(false),
        error => Err(error),
    }
}

/// Linux 7.0 to 7.1.4 writes wrong lengths and checksums into batches whose last datagram is as
/// long as the others. A drone's links do not need segmentation, but they need their packets.
fn segmentation_is_sound() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    !mangles_equal_segments(&release)
}

fn mangles_equal_segments(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let version = (next(), next(), next());
    ((7, 0, 0)..=(7, 1, 4)).contains(&version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback(segmentation: bool) -> UdpSocket {
        let options = UdpOptions {
            local: "127.0.0.1:0".parse().unwrap(),
            both_families: false,
            interface: None,
            send_buffer: 65_536,
            receive_buffer: 1 << 20,
            segmentation,
            shared: false,
        };
        UdpSocket::bind(&options).unwrap()
    }

    fn receive_all(socket: &UdpSocket, count: usize) -> Vec<(Incoming, Vec<u8>)> {
        let mut buffers = ReceiveBuffers::default();
        let mut received = Vec::new();
        for _ in 0..1_000 {
            if socket.receive(&mut buffers).unwrap() {
                buffers.for_each(|from, bytes| received.push((*from, bytes.to_vec())));
            }
            if received.len() >= count {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        received
    }

    #[test]
    fn batch_arrives_as_the_datagrams_that_it_was_made_of() {
        for segmentation in [true, false] {
            let (mut near, far) = (loopback(segmentation), loopback(true));
            let bytes: Vec<u8> = (0..10_500_u32).map(|i| (i / 1_000) as u8).collect();
            let outgoing = Outgoing {
                destination: far.local_address().unwrap(),
                local: Some("127.0.0.1".parse().unwrap()),
                interface: Some(1),
                dscp: 46,
                ecn: 2,
                bytes: &bytes,
                segment: 1_000,
            };
            assert_eq!(near.send(&outgoing).unwrap(), bytes.len());
            let received = receive_all(&far, 11);
            assert_eq!(received.len(), 11);
            for (i, (from, datagram)) in received.iter().enumerate() {
                assert_eq!(datagram.len(), if i < 10 { 1_000 } else { 500 });
                assert!(datagram.iter().all(|&byte| byte == i as u8));
                assert_eq!(from.source, near.local_address().unwrap());
                assert_eq!(from.local, Some("127.0.0.1".parse().unwrap()));
                assert_eq!((from.interface, from.ecn), (1, 2));
            }
        }
    }

    #[test]
    fn ipv6_carries_source_and_ecn() {
        let options = UdpOptions {
            local: "[::1]:0".parse().unwrap(),
            both_families: false,
            interface: None,
            send_buffer: 65_536,
            receive_buffer: 65_536,
            segmentation: true,
            shared: false,
        };
        let (Ok(mut near), Ok(far)) = (UdpSocket::bind(&options), UdpSocket::bind(&options)) else {
            use std::io::Write;
            let line = b"SKIPPED: ipv6_carries_source_and_ecn: no IPv6 on the loopback\n";
            std::io::stderr().write_all(line).unwrap();
            return;
        };
        let outgoing = Outgoing {
            destination: far.local_address().unwrap(),
            local: Some("::1".parse().unwrap()),
            interface: None,
            dscp: 0,
            ecn: 1,
            bytes: b"hello",
            segment: 5,
        };
        assert_eq!(near.send(&outgoing).unwrap(), 5);
        let received = receive_all(&far, 1);
        assert_eq!(received[0].0.ecn, 1);
        assert_eq!(received[0].0.local, Some("::1".parse().unwrap()));
    }

    #[test]
    fn sockets_beside_send_from_one_address_and_the_first_receives() {
        let options = UdpOptions {
            local: "127.0.0.1:0".parse().unwrap(),
            both_families: false,
            interface: None,
            send_buffer: 65_536,
            receive_buffer: 1 << 20,
            segmentation: true,
            shared: true,
        };
        let first = UdpSocket::bind(&options).unwrap();
        let address = first.local_address().unwrap();
        let mut others: Vec<_> = (0..8).map(|_| first.beside(&options).unwrap()).collect();
        others.remove(3);
        let mut far = loopback(true);
        let far_address = far.local_address().unwrap();
        for other in &mut others {
            let outgoing = Outgoing {
                destination: far_address,
                local: None,
                interface: None,
                dscp: 0,
                ecn: 0,
                bytes: b"hello",
                segment: 5,
            };
            assert_eq!(other.send(&outgoing).unwrap(), 5);
        }
        let received = receive_all(&far, 7);
        assert_eq!(received.len(), 7);
        assert!(received.iter().all(|(from, _)| from.source == address));
        // Answers, from any port, reach the first.
        let answer = Outgoing {
            destination: address,
            local: None,
            interface: None,
            dscp: 0,
            ecn: 0,
            bytes: b"hello",
            segment: 5,
        };
        for _ in 0..4 {
            assert_eq!(far.send(&answer).unwrap(), 5);
            assert_eq!(loopback(true).send(&answer).unwrap(), 5);
        }
        assert_eq!(receive_all(&first, 8).len(), 8);

        // Another program is told that the address is taken.
        let second = UdpOptions { local: address, ..options };
        assert_eq!(UdpSocket::bind(&second).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    /// Lets the loopback of this namespace pass a byte a second.
    fn choke_loopback() -> bool {
        let shape = "qdisc add dev lo root tbf rate 8bit burst 2000 limit 1000000";
        let status = std::process::Command::new("tc").args(shape.split(' ')).status();
        status.is_ok_and(|status| status.success())
    }

    #[test]
    fn a_full_socket_says_so_and_waits_for_nothing() {
        let name = "udp::tests::a_full_socket_says_so_and_waits_for_nothing";
        if !crate::sandbox::inside(name) {
            return;
        }
        if !choke_loopback() {
            return crate::sandbox::skip(name, "tc cannot make a token bucket filter");
        }
        let (mut near, far) = (loopback(true), loopback(true));
        // The flag of the call has to do, whatever the socket's own is.
        near.socket.set_nonblocking(false).unwrap();
        let destination = far.local_address().unwrap();
        let (refused, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let bytes = &[0; 1_000];
            let (local, interface, dscp, ecn, segment) = (None, None, 0, 0, 1_000);
            let outgoing = Outgoing { destination, local, interface, dscp, ecn, bytes, segment };
            while near.send(&outgoing).unwrap() > 0 {}
            refused.send(()).unwrap();
        });
        // A send that waits would wait for a quarter of an hour.
        let patience = std::time::Duration::from_secs(60);
        told.recv_timeout(patience).expect("a full socket refuses");
    }

    #[test]
    fn missing_interface_is_named_as_such() {
        let options = UdpOptions {
            local: "0.0.0.0:0".parse().unwrap(),
            both_families: false,
            interface: Some("nosuchif0".into()),
            send_buffer: 65_536,
            receive_buffer: 65_536,
            segmentation: true,
            shared: false,
        };
        assert_eq!(UdpSocket::bind(&options).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn kernels_that_mangle_are_known() {
        for (release, mangles) in [
            ("6.18.44-lts", false),
            ("7.0.0-rc1", true),
            ("7.0.0-14-generic", true),
            ("7.1.4", true),
            ("7.1.5", false),
            ("7.2.0", false),
            ("odd", false),
        ] {
            assert_eq!(mangles_equal_segments(release), mangles, "{release}");
        }
    }
}
