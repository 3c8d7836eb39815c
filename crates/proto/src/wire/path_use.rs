//! PATH_USE: how the initiator's operator wants a path to be used [specs/wire.md §3] (3.11).

use super::{Reader, WireError};
use crate::ids::PathId;

/// Its type.
pub(super) const PATH_USE: u8 = 0x0c;

/// Says how a path is to be used. What it says may make no sense: that is found out where it is
/// taken ([`crate::PathUse`]), so that the rest of the datagram is not lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathUseFrame {
    /// Which path.
    pub(crate) path: PathId,
    /// Numbers the changes of this path's use, modulo 256.
    pub(crate) change: u8,
    /// Whether it is a backup, and what it carries.
    pub(crate) flags: u8,
    /// What a byte costs, in thousandths.
    pub(crate) cost: u32,
}

impl PathUseFrame {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[PATH_USE, self.path.0, self.change, self.flags]);
        out.extend_from_slice(&self.cost.to_le_bytes());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            path: PathId(reader.u8()?),
            change: reader.u8()?,
            flags: reader.u8()?,
            cost: reader.u32()?,
        })
    }
}
