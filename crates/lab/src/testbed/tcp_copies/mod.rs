//! ConClone as it was published: a TCP connection for each link, control copied on every one of
//! them.
//!
//! ```text
//! control  on every connection, that of the least smoothed round trip first; the first copy wins   [ConClone §3.3.2]
//! data     on the connection of the least smoothed round trip that has sent all it was given       [ConClone §3.1]
//! ```
//! CUBIC and `TCP_NODELAY`, nothing of Fulmar's. In the world the connections are `world::tcp`'s,
//! on the emulator the kernel's. *Deviations from the paper*: the copies are made above the
//! sockets, where the paper changes the kernel's MPTCP, so that a message has its length and number
//! before it, [`HEADER`] bytes; the selector is told which stream is control.

mod kernel;
mod world;

pub(crate) use kernel::{Inlet as CopiesInlet, Outlet as CopiesOutlet, connect};
pub(crate) use world::CopiesEnd;

use super::Stream;

/// Bytes before each message: its length, the stream, its number.
const HEADER: usize = 8;

/// Tells whether a stream is what the selector calls control.
const fn is_control(stream: Stream) -> bool {
    matches!(stream, Stream::Control | Stream::Live | Stream::Mavlink)
}
