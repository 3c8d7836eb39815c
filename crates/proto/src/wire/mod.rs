//! The wire format: types to bytes and back (specs/wire.md).
//!
//! Nothing here knows a key, a session or a clock. Everything that is decoded comes from the
//! network: decoders return an error for nonsense and never allocate more than the limits say.
//! Encryption lies between [`header`] and [`frame`]: headers travel in clear, frames are sealed.

mod ack_ranges;
mod dropped;
mod frame;
mod generation;
mod header;
mod message;
mod note;
mod path_use;
mod piece;
mod reader;
mod tunnel;
mod uncounted;

pub(crate) use ack_ranges::AckRanges;
use dropped::DROPPED;
pub(crate) use dropped::{DROPPED_LEAST, DroppedFrame};
pub(crate) use frame::{
    ACK_LEAST, AckFrame, CLOSED, CONTROL_OVERHEAD, ControlFrame, DATAGRAM_OVERHEAD, DatagramFrame,
    Frame, Frames, KEY_IN_USE, REVOKED,
};
pub(crate) use generation::{COMBINATION_OVERHEAD, CombinationFrame, DECODED_BYTES};
pub(crate) use header::{
    DATA_HEADER, DATA_OVERHEAD, DataHeader, DatagramType, PACKET_NUMBER_MAX, unknown_index,
};
pub(crate) use message::{
    FEEDBACK_MAX, FeedbackFrame, RankFrame, RepairFrame, SYMBOL_OVERHEAD, SourceFrame,
};
use note::NOTE;
pub(crate) use note::NoteFrame;
use path_use::PATH_USE;
pub(crate) use path_use::PathUseFrame;
use piece::PIECE;
pub(crate) use piece::{PIECE_OVERHEAD, PieceFrame};
pub(crate) use reader::{Reader, put_varint, varint_len};
pub(crate) use tunnel::{TUNNEL_OVERHEAD, TunnelFrame};
use uncounted::UNCOUNTED;
pub(crate) use uncounted::UncountedFrame;

/// Says why bytes from the network are not what they claim to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WireError {
    /// They end within a field.
    Truncated,
    /// A type that this version does not know.
    UnknownType(u8),
    /// A field holds a value that no sender may put there.
    Invalid(&'static str),
}
