//! Datagrams and messages with the time at which the kernel received them: what waited in a socket
//! while the process stood still is as old as that.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use socket2::SockAddr;
use units::Instant;

use crate::clock;
use crate::socket_option::set_option;
use crate::wall_clock::realtime_nanos;

/// Space for one control message of a time, aligned for `cmsghdr`.
#[repr(align(8))]
struct Control([u8; 64]);

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes that it had, perhaps more than the buffer holds.
    pub length: usize,
    /// Where it came from, on the Internet.
    pub source: Option<SocketAddr>,
    /// When the kernel received it, by [`clock::now`]; none where it does not tell.
    pub at: Option<Instant>,
}

/// Has the kernel note when it receives something for a socket.
///
/// # Errors
/// Those of `setsockopt`: emulations of Linux may know no times.
pub fn stamp(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Receives a datagram or a message, without waiting.
///
/// The kernel's times are those of the wall clock: whoever sets it forward makes older what lies in
/// the sockets at that moment, and nothing else.
///
/// # Errors
/// Those of `recvmsg`: `WouldBlock` when there is none.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Arrival> {
    let socket = socket.as_fd().as_raw_fd();
    let mut control = Control([0; 64]);
    let mut told = 0;
    let mut read = |address: *mut _, address_length: *mut libc::socklen_t| {
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: msghdr is plain old data; all-zero is its empty value.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_name = address;
        // SAFETY: the caller gives the length of the room for the address.
        header.msg_namelen = unsafe { *address_length };
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = control.0.len() as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the header points to room for an address, a part and control messages that
        // outlive the call, each with its own length.
        let length = unsafe { libc::recvmsg(socket, &mut header, flags) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        told = header.msg_controllen as usize;
        // SAFETY: as above; the kernel has written so many bytes of an address.
        unsafe { *address_length = header.msg_namelen };
        Ok(length)
    };
    // SAFETY: recvmsg has written an address of the length that it told, or none of length zero.
    let (length, source) = unsafe { SockAddr::try_init(|at, length| read(at.cast(), length)) }?;
    let waited = stamped(&control.0[..told.min(64)]).map(|at| realtime_nanos().saturating_sub(at));
    let at =
        waited.map(|waited| Instant::from_nanos(clock::now().as_nanos().saturating_sub(waited)));
    Ok(Arrival { length, source: source.as_socket(), at })
}

/// Finds the time that the kernel has told, nanoseconds of the wall clock; it was asked for nothing
/// else.
fn stamped(control: &[u8]) -> Option<u64> {
    // SAFETY: CMSG_LEN only computes.
    let begin = unsafe { libc::CMSG_LEN(0) } as usize;
    if control.len() < begin + size_of::<libc::timespec>() {
        return None;
    }
    // SAFETY: a header and a time lie within the bytes, as was just seen; both are plain old data,
    // and are read without any demand on alignment.
    let (header, time) = unsafe {
        let at = control.as_ptr();
        let header = at.cast::<libc::cmsghdr>().read_unaligned();
        (header, at.add(begin).cast::<libc::timespec>().read_unaligned())
    };
    let is_it = (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
    let seconds = u64::try_from(time.tv_sec).ok().filter(|_| is_it)?;
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn what_has_waited_is_as_old() {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (local, peer) = UnixDatagram::pair().unwrap();
        stamp(&near).unwrap();
        stamp(&local).unwrap();
        let before = clock::now();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.send_to(b"hello", near.local_addr().unwrap()).unwrap();
        peer.send(b"message").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let mut buffer = [0; 16];
        let arrival = receive(&near, &mut buffer).unwrap();
        assert_eq!((arrival.length, arrival.source), (5, from.local_addr().ok()));
        for at in [arrival.at, receive(&local, &mut buffer).unwrap().at] {
            let waited = clock::now().since(at.unwrap()).as_millis();
            assert!(waited >= 299 && at.unwrap().as_nanos() + 1_000_000 > before.as_nanos());
        }
        assert_eq!(receive(&near, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
