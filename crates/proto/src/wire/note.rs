//! NOTE: what an end tells the other of itself, for people [specs/wire.md §3] (3.13).

use super::{Reader, WireError, put_varint, varint_len};
use crate::limits;

/// Its type.
pub(super) const NOTE: u8 = 0x0e;

/// Says something under a name; what it means is the application's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoteFrame<'a> {
    /// What it is about.
    pub(crate) name: u16,
    /// Numbers the sender's changes: of two of one name the higher counts.
    pub(crate) change: u32,
    /// What is said; nothing takes back what was said before.
    pub(crate) text: &'a [u8],
}

impl<'a> NoteFrame<'a> {
    pub(super) fn encoded_len(&self) -> usize {
        3 + varint_len(u64::from(self.change)) + 1 + self.text.len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(NOTE);
        out.extend_from_slice(&self.name.to_le_bytes());
        put_varint(u64::from(self.change), out);
        out.push(self.text.len() as u8);
        out.extend_from_slice(self.text);
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let name = u16::from_le_bytes(reader.array()?);
        let change = reader.varint_as("change")?;
        let len = usize::from(reader.u8()?);
        if len > limits::NOTE_BYTES {
            return Err(WireError::Invalid("length of a note"));
        }
        Ok(Self { name, change, text: reader.take(len)? })
    }
}
