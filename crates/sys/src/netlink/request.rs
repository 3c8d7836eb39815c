//! Encodes a request: its header, its fixed part and its attributes.

use super::{ALIGNMENT, HEADER};

/// One request being encoded.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Starts a request that changes something (`RTM_NEW…`, `RTM_DEL…`) and wants an
    /// acknowledgement.
    pub(crate) fn change(kind: u16, flags: i32) -> Self {
        Self::new(kind, flags | libc::NLM_F_ACK)
    }

    /// Starts a request for a list (`RTM_GETLINK`, `SOCK_DIAG_BY_FAMILY`).
    pub(crate) fn dump(kind: u16) -> Self {
        Self::new(kind, libc::NLM_F_DUMP)
    }

    /// Appends the fixed part of a message, or of a nested one.
    pub(crate) fn fixed(mut self, fixed: &[u8]) -> Self {
        self.bytes.extend_from_slice(fixed);
        self
    }

    /// Appends one attribute.
    pub(crate) fn attribute(self, kind: u16, value: &[u8]) -> Self {
        self.nest(kind, |request| request.fixed(value))
    }

    /// Appends a text attribute with its closing zero.
    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        self.nest(kind, |request| request.fixed(value.as_bytes()).fixed(&[0]))
    }

    /// Appends an attribute that `content` fills.
    pub(crate) fn nest(mut self, kind: u16, content: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        let mut request = content(self);
        let length = (request.bytes.len() - start) as u16;
        request.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        request.bytes.resize(request.bytes.len().next_multiple_of(ALIGNMENT), 0);
        request
    }

    /// Returns the bytes to send; the answer will carry `sequence`.
    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }

    fn new(kind: u16, flags: i32) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        Self { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nests_carry_their_length() {
        let bytes = Request::change(16, 0)
            .fixed(&[0; 16])
            .nest(18, |request| request.text(1, "veth"))
            .finish(7);
        assert_eq!(bytes.len(), HEADER + 16 + 4 + 12);
        assert_eq!(bytes[0..4], 48_u32.to_ne_bytes());
        assert_eq!(bytes[8..12], 7_u32.to_ne_bytes());
        assert_eq!(bytes[32..36], [16, 0, 18, 0], "the nest counts the padding inside it");
        assert_eq!(bytes[36..40], [9, 0, 1, 0]);
        assert_eq!(&bytes[40..45], b"veth\0");
    }
}
