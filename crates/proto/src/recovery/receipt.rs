//! What an acknowledgement says of one packet.

use units::{Duration, Instant};

use crate::ids::PathId;

/// Says when a packet arrived at the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receipt {
    /// When we heard of it.
    pub(crate) now: Instant,
    /// The path that it went by.
    pub(crate) path: PathId,
    /// When it was sent.
    pub(crate) sent_at: Instant,
    /// When it arrived, by our clock, and how far that may be off; none before the peer's clock is
    /// known. An acknowledgement names the time of its newest packet alone. Those before it came no
    /// later, and it is taken that they came with it, unless the peer's packets are missing just
    /// before this one: then it repeats what was lost, and they took as long as it did.
    pub(crate) arrived: Option<(Instant, Duration)>,
}
