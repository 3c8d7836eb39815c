//! UNCOUNTED: packet numbers whose absence says nothing of a path [specs/wire.md §3] (3.12).

use super::{PACKET_NUMBER_MAX, Reader, WireError, put_varint, varint_len};

/// Its type.
pub(super) const UNCOUNTED: u8 = 0x0d;

/// Names packets of the path that the datagram goes by: those of them that are missing are no loss
/// of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UncountedFrame {
    /// The first of them.
    pub(crate) first: u64,
    /// How many they are, at least one.
    pub(crate) count: u64,
}

impl UncountedFrame {
    pub(super) fn encoded_len(self) -> usize {
        1 + varint_len(self.first) + varint_len(self.count)
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.push(UNCOUNTED);
        put_varint(self.first, out);
        put_varint(self.count, out);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (first, count) = (reader.varint()?, reader.varint()?);
        let is_some = count > 0 && first <= PACKET_NUMBER_MAX;
        if !is_some || count > PACKET_NUMBER_MAX + 1 - first {
            return Err(WireError::Invalid("uncounted numbers"));
        }
        Ok(Self { first, count })
    }
}
