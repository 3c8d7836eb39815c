//! The frame of tunnel delivery [specs/tunnel.md §2].

use super::{Reader, WireError, put_varint, varint_len};

/// Bytes of a tunnel frame around its payload, at most.
pub(crate) const TUNNEL_OVERHEAD: usize = 1 + 8 + 2 + 4 + 2;

/// Carries a packet of the tunnel's TCP that is sent until it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TunnelFrame<'a> {
    /// Numbers the symbols of one direction.
    pub(crate) number: u64,
    /// How far back the previous symbol of its flow lies; zero: it waits for none.
    pub(crate) back: u64,
    /// When it was handed in, microseconds on the sender's clock; low 32 bits.
    pub(crate) submitted_us: u32,
    /// The packet.
    pub(crate) payload: &'a [u8],
}

impl<'a> TunnelFrame<'a> {
    /// Returns how many bytes follow the type.
    pub(super) fn encoded_len(&self) -> usize {
        4 + varint_len(self.number)
            + varint_len(self.back)
            + varint_len(self.payload.len() as u64)
            + self.payload.len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.number, out);
        put_varint(self.back, out);
        out.extend_from_slice(&self.submitted_us.to_le_bytes());
        put_varint(self.payload.len() as u64, out);
        out.extend_from_slice(self.payload);
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let (number, back) = (reader.varint()?, reader.varint()?);
        let submitted_us = reader.u32()?;
        let len = reader.varint_as("payload length")?;
        Ok(Self { number, back, submitted_us, payload: reader.take(len)? })
    }
}
