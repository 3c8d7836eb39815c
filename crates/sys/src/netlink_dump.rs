//! Reads netlink: lists of links, addresses and sockets, and announcements that they have changed.
//!
//! Not requests that change something: those are `rtnetlink`'s. Formats: linux/netlink.h.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags};

/// Largest message that the kernel sends in answer to a dump.
const RECEIVE_BYTES: usize = 65_536;
/// Size of the header of every message.
const HEADER: usize = 16;

/// Listens to route netlink, or asks another family of netlink.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    sequence: u32,
}

/// One message of an answer: its type and what follows its header.
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) body: &'a [u8],
}

impl Listener {
    /// Opens a socket for dumps alone.
    pub(crate) fn open() -> io::Result<Self> {
        Self::subscribe(0)
    }

    /// Opens a socket that also hears the multicast groups of the mask `groups` (`RTMGRP_*`).
    pub(crate) fn subscribe(groups: u32) -> io::Result<Self> {
        Self::of_family(libc::NETLINK_ROUTE, groups)
    }

    /// Opens a socket of a netlink family (`NETLINK_*`).
    pub(crate) fn of_family(family: i32, groups: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: socket has no memory to mind.
        let descriptor = unsafe { libc::socket(libc::AF_NETLINK, kind, family) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: socket has just returned this descriptor; nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // SAFETY: sockaddr_nl is plain old data; all-zero is valid.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as _;
        address.nl_groups = groups;
        let size = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: the address is valid for the size that is passed.
        let failed = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { socket, sequence: 0 })
    }

    /// Asks for a dump (`RTM_GETLINK`, `SOCK_DIAG_BY_FAMILY`) and gives every message of it to `handle`.
    pub(crate) fn dump(
        &mut self,
        kind: u16,
        body: &[u8],
        mut handle: impl FnMut(&Message<'_>),
    ) -> io::Result<()> {
        self.send(kind, libc::NLM_F_DUMP as u16, body)?;
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

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence += 1;
        let flags = flags | libc::NLM_F_REQUEST as u16;
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&self.sequence.to_ne_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(body);
        rustix::net::send(&self.socket, &message, SendFlags::empty())?;
        Ok(())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Splits the attributes of a message into their types and values.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind & libc::NLA_TYPE_MASK as u16, value))
    })
}

/// Reads a number in the host's byte order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Splits a datagram into its messages, each with its sequence number.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u32, Message<'_>)> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let sequence = u32_at(bytes, 8)?;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((sequence, Message { kind, body }))
    })
}

pub(crate) fn error_of(body: &[u8]) -> io::Result<()> {
    match u32_at(body, 0).map(|code| code as i32) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_answers_end_quietly() {
        let body = [9, 0, 3, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0, 8, 0, 4, 0, 7, 0, 0, 0];
        let found: Vec<_> = attributes(&body).collect();
        assert_eq!(found, [(3, &b"eth0\0"[..]), (4, &[7, 0, 0, 0][..])]);
        for cut in 0..body.len() {
            assert!(attributes(&body[..cut]).count() <= 1);
            assert_eq!(messages(&body[..cut]).count(), 0);
        }
    }

    #[test]
    fn every_number_of_an_error_is_taken() {
        assert!(error_of(&[0; 4]).is_ok() && error_of(&[]).is_err());
        let denied = error_of(&(-libc::EPERM).to_ne_bytes()).unwrap_err();
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
        assert!(error_of(&i32::MIN.to_ne_bytes()).is_err());
    }
}
