//! Decodes answers: their messages, the attributes of a message, and errors.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{ALIGNMENT, HEADER};

/// One message of an answer: its type and what follows its header.
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) body: &'a [u8],
}

/// Splits the attributes of a message into their types and values.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some((kind & libc::NLA_TYPE_MASK as u16, value))
    })
}

/// Reads a number in the host's byte order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads an address, of the family that its length says.
pub(crate) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(octets).into());
    }
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into())
}

/// Splits a datagram into its messages, each with its sequence number.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u32, Message<'_>)> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let sequence = u32_at(bytes, 8)?;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
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
