//! The frame of datagrams that go in pieces [specs/wire.md §7].

use super::{Reader, WireError, put_varint, varint_len};
use crate::limits;

/// Bytes of a PIECE frame around its payload, at most.
pub(crate) const PIECE_OVERHEAD: usize = 1 + 2 + 1 + 2;

/// Type of the frame.
pub(super) const PIECE: u8 = 0x0f;
const PLACE: u8 = 0x03;
const COUNT_SHIFT: u8 = 2;
const URGENT: u8 = 0x10;

/// Carries a piece of the frames of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceFrame<'a> {
    /// Numbers the datagrams that go in pieces, modulo 2¹⁶.
    pub(crate) datagram: u16,
    /// Which piece it is, from 0.
    pub(crate) place: u8,
    /// How many there are, 2 to 4.
    pub(crate) count: u8,
    /// Whether the peer waits for the acknowledgement of what is within.
    pub(crate) urgent: bool,
    /// The piece.
    pub(crate) payload: &'a [u8],
}

impl<'a> PieceFrame<'a> {
    /// Returns how many bytes [`PieceFrame::encode`] appends, the type included.
    pub(super) fn encoded_len(&self) -> usize {
        4 + varint_len(self.payload.len() as u64) + self.payload.len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(PIECE);
        out.extend_from_slice(&self.datagram.to_le_bytes());
        let urgent = if self.urgent { URGENT } else { 0 };
        out.push(self.place | self.count.saturating_sub(1) << COUNT_SHIFT | urgent);
        put_varint(self.payload.len() as u64, out);
        out.extend_from_slice(self.payload);
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let datagram = u16::from_le_bytes(reader.array()?);
        let flags = reader.u8()?;
        let (place, count) = (flags & PLACE, (flags >> COUNT_SHIFT & PLACE) + 1);
        let is_known = flags & !(PLACE | PLACE << COUNT_SHIFT | URGENT) == 0;
        let len: usize = reader.varint_as("payload length")?;
        if !is_known || place >= count || count < 2 || len == 0 || len > limits::MAX_DATAGRAM {
            return Err(WireError::Invalid("piece"));
        }
        let urgent = flags & URGENT != 0;
        Ok(Self { datagram, place, count, urgent, payload: reader.take(len)? })
    }
}
