//! FlowCode's source and destination [FlowCode §III-A]: packets travel as coded generations.
//!
//! ```text
//! source        k packets ─► generation ─► k combinations, each with random coefficients of its own
//!               no ACK within t_ARQ ─► one combination more, up to k · r in all
//!               nothing new can be packed ─► what has no ACK by then is repeated, in sequence
//! destination   k independent combinations ─► k packets, and an ACK with the generation's number
//! f = t_RTT · n_Tx / (t_pkt · k)          generations in flight at most [FlowCode §III-B]
//! t_ARQ = time in which the generations in flight are transmitted [FlowCode §III-A]
//! ```
//! A packet is any string of bytes: neither end knows a session, a path or a relay. Whoever drives
//! the source offers it room, says what its way is like, and sends what it makes; whoever drives
//! the destination broadcasts its ACKs. How generations leave is [`Published`].
//!
//! *Deviations from the paper*:
//! 1. What a dummy costs are its coefficients: combinations are as long as the longest packet of
//!    their generation, and each packet's length stands before it inside what is coded.
//! 2. A generation is packed when there is room to send it, not before; what waits can still be
//!    dropped.
//! 3. t_ARQ is never shorter than the ACK takes, counted from each combination that has left:
//!    transmitters here have round-trip times that differ, and what is asked for before the ACK can
//!    have come is wasted.
//! 4. f and t_ARQ follow from the measured rate and round-trip time, which the paper sets by hand.
//! 5. When no transmitter works, all that has no ACK begins anew: its k combinations leave in
//!    sequence before anything new once one works again. The paper's source cannot know of an
//!    outage; its retries run out.
//! 6. Coefficients are never zero: with k = 1, or one packet left to learn, a combination always
//!    helps.
//! 7. The destination answers every further combination of a decoded generation with the ACK: the
//!    first may have been lost.
//! 8. At both ends the generations under way have a bound, in number and in bytes, whatever f is.

mod destination;
mod pace;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use destination::{Destination, Packet};
pub(crate) use pace::{Published, Way};
pub(crate) use source::{Combination, Source};
use units::Duration;

/// Bytes of a packet's length, before it inside what is coded.
pub(crate) const LENGTH: usize = 2;
/// For how long what no path or transmitter can carry may wait for one that can.
pub(crate) const STUCK: Duration = Duration::from_secs(1);
/// No wait for an ACK, or for an earlier packet, is longer.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(2);
