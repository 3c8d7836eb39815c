//! DROPPED: control that came in and was not passed on [specs/wire.md §3] (3.9).

use super::{AckRanges, Reader, WireError, put_varint, varint_len};

/// Its type.
pub(super) const DROPPED: u8 = 0x0b;

/// Bytes of a DROPPED frame with one range, at most.
pub(crate) const DROPPED_LEAST: usize = 1 + 8 + 8 + 1 + 8;

/// Lists messages of the control delivery that came in and were not passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DroppedFrame {
    /// Numbers below may be missing in the list.
    pub(crate) unlisted: u64,
    /// Their session-wide numbers, from the largest down.
    pub(crate) numbers: AckRanges,
}

impl DroppedFrame {
    /// Drops the lowest numbers until the frame fits into `room` bytes, at least [`DROPPED_LEAST`],
    /// and raises `unlisted` to say so.
    pub(crate) fn fit(&mut self, room: usize) {
        while self.encoded_len() > room && self.numbers.pop_lowest() {
            self.unlisted = self.unlisted.max(self.numbers.smallest());
        }
    }

    pub(super) fn encoded_len(&self) -> usize {
        1 + varint_len(self.unlisted) + self.numbers.encoded_len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(DROPPED);
        put_varint(self.unlisted, out);
        self.numbers.encode(out);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { unlisted: reader.varint()?, numbers: AckRanges::decode(reader)? })
    }
}
