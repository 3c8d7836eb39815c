//! The few route-netlink requests that emulated links need, encoded by hand.
//!
//! Not a general netlink library and no dump parser: a request goes out, one acknowledgement comes
//! back. `interface_setup` says what the requests mean. Formats: rtnetlink(7), `linux/rtnetlink.h`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Length of `nlmsghdr`: length u32, type u16, flags u16, sequence u32, port u32.
const HEADER: usize = 16;
/// Message type of an acknowledgement or error: `NLMSG_ERROR`.
const ERROR: u16 = 2;

/// One request being encoded.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Starts a request of `kind` that wants an acknowledgement.
    pub(crate) fn new(kind: i32, flags: i32) -> Self {
        let flags = flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK;
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&(kind as u16).to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
        Self { bytes }
    }

    /// Appends the fixed part of a message, or of a nested one.
    pub(crate) fn fixed(mut self, fixed: &[u8]) -> Self {
        self.bytes.extend_from_slice(fixed);
        self
    }

    /// Appends one attribute.
    pub(crate) fn attribute(self, kind: i32, value: &[u8]) -> Self {
        self.nest(kind, |request| request.fixed(value))
    }

    /// Appends a text attribute with its closing zero.
    pub(crate) fn text(self, kind: i32, value: &str) -> Self {
        self.nest(kind, |request| request.fixed(value.as_bytes()).fixed(&[0]))
    }

    /// Appends an attribute that `content` fills.
    pub(crate) fn nest(mut self, kind: i32, content: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&(kind as u16).to_ne_bytes());
        let mut request = content(self);
        let length = (request.bytes.len() - start) as u16;
        request.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        request.bytes.resize(request.bytes.len().next_multiple_of(4), 0);
        request
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes
    }
}

/// Encodes `ifinfomsg`: the interface a link request is about, and the flags it sets.
pub(crate) fn interface_message(index: u32, set_flags: i32) -> [u8; 16] {
    let mut message = [0; 16];
    message[4..8].copy_from_slice(&index.to_ne_bytes());
    message[8..12].copy_from_slice(&(set_flags as u32).to_ne_bytes());
    // The mask of flags that change is the set of flags that are set: none is ever cleared here.
    message[12..16].copy_from_slice(&(set_flags as u32).to_ne_bytes());
    message
}

/// Sends `request` in the calling thread's network namespace and waits for the kernel's answer.
pub(crate) fn call(request: Request) -> io::Result<()> {
    let socket = open()?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &request.finish(), SendFlags::empty(), &kernel)?;
    let mut answer = [0; 4096];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
    acknowledgement(&answer[..length])
}

pub(crate) fn acknowledgement(answer: &[u8]) -> io::Result<()> {
    let field = |at: usize| answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    let kind = field(4).map(|bytes: [u8; 4]| u16::from_ne_bytes([bytes[0], bytes[1]]));
    match (kind, field(HEADER).map(i32::from_ne_bytes)) {
        (Some(ERROR), Some(0)) => Ok(()),
        (Some(ERROR), Some(error)) => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
        _ => Err(io::Error::other("the kernel's answer is no acknowledgement")),
    }
}

fn open() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    // Protocol 0, the default, is NETLINK_ROUTE.
    Ok(rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nests_carry_their_length() {
        let bytes = Request::new(16, 0)
            .fixed(&interface_message(3, 1))
            .nest(18, |request| request.text(1, "veth"))
            .finish();
        assert_eq!(bytes.len(), HEADER + 16 + 4 + 12);
        assert_eq!(bytes[0..4], 48_u32.to_ne_bytes());
        assert_eq!(bytes[32..36], [16, 0, 18, 0], "the nest counts the padding inside it");
        assert_eq!(bytes[36..40], [9, 0, 1, 0]);
        assert_eq!(&bytes[40..45], b"veth\0");
    }

    #[test]
    fn errors_of_the_kernel_are_passed_on() {
        let mut answer = [0; 20];
        answer[4] = 2;
        assert!(acknowledgement(&answer).is_ok());
        answer[16..20].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        let error = acknowledgement(&answer).expect_err("the answer says EPERM");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(acknowledgement(&answer[..10]).is_err());
        answer[16..20].copy_from_slice(&i32::MIN.to_ne_bytes());
        assert!(acknowledgement(&answer).is_err());
    }
}
