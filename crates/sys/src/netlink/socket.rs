//! A netlink socket: asks, waits for the answer, and hears announcements.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::Request;
use super::answer::{Message, error_of, messages};

/// Largest datagram that the kernel sends in answer to a request.
const RECEIVE_BYTES: usize = 65_536;

/// A socket of one family of netlink, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Socket {
    socket: OwnedFd,
    sequence: u32,
}

/// Sends `request` in the calling thread's network namespace and waits for the acknowledgement.
pub(crate) fn change(request: Request) -> io::Result<()> {
    Socket::route()?.exchange(request, |_| {})
}

impl Socket {
    /// Opens a socket for interfaces, addresses and routes.
    pub(crate) fn route() -> io::Result<Self> {
        Self::open(None, 0)
    }

    /// Opens a socket for what sockets say about themselves.
    pub(crate) fn diagnosis() -> io::Result<Self> {
        Self::open(Some(SOCK_DIAG), 0)
    }

    /// Opens a socket that also hears the multicast groups of the mask `groups` (`RTMGRP_*`).
    pub(crate) fn subscribe(groups: u32) -> io::Result<Self> {
        Self::open(None, groups)
    }

    /// Sends a request and gives every message of the answer to `handle`, until the answer ends.
    pub(crate) fn exchange(
        &mut self,
        request: Request,
        mut handle: impl FnMut(&Message<'_>),
    ) -> io::Result<()> {
        self.sequence += 1;
        rustix::net::send(&self.socket, &request.finish(self.sequence), SendFlags::empty())?;
        let mut buffer = vec![0_u8; RECEIVE_BYTES];
        loop {
            let (_, length) = rustix::net::recv(&self.socket, &mut buffer, RecvFlags::empty())?;
            for (sequence, message) in messages(&buffer[..length]) {
                match i32::from(message.kind) {
                    _ if sequence != self.sequence => {}
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => return error_of(message.body),
                    _ => handle(&message),
                }
            }
        }
    }

    /// Drops the announcements of the subscribed groups; returns whether there were any.
    pub(crate) fn drain(&self) -> io::Result<bool> {
        let mut buffer = [0_u8; 8_192];
        let mut heard = false;
        loop {
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            match rustix::net::recv(&self.socket, &mut buffer[..], flags) {
                // Overflow means that something was announced, and that is all that counts.
                Ok(_) | Err(rustix::io::Errno::NOBUFS) => heard = true,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(heard),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Without a protocol: route netlink.
    fn open(protocol: Option<Protocol>, groups: u32) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
        // Number 0: the kernel chooses the socket's address.
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self { socket, sequence: 0 })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
