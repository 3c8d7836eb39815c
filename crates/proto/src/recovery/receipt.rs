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
    /// When it had arrived at the latest, by our clock, and how far that may be off; none before the peer's clock
    /// is known. An acknowledgement names the time of its newest packet alone, and a path keeps the order, as a rule: the
    /// packets before it came no later.
    pub(crate) arrived: Option<(Instant, Duration)>,
}
