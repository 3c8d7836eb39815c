//! Plain datagram delivery: sent once on one path, short queues, optional resequencing.
//!
//! [`DatagramQueue`] is the sender's half (one for telemetry, one for bulk), [`Resequencer`] the
//! receiver's. What is replicated, sent again or ordered by the sender is `control/`.

mod queue;
mod resequencer;
mod sequence;

pub(crate) use queue::{DatagramQueue, Plain};
pub(crate) use resequencer::Resequencer;
use sequence::Sequence;

use units::Duration;

use crate::select::Class;

/// A packet of plain delivery as it goes over the wire; maps to the wire's frame field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatagramFrame<'a> {
    /// The consumer: 0 is the tunnel.
    pub(crate) channel: u8,
    /// The class that the sender's selector gave it.
    pub(crate) class: Class,
    /// Its place in the order to be restored or among what may be duplicated; opaque.
    pub(crate) sequence: Option<u32>,
    /// When it was handed in, microseconds on the sender's clock; low 32 bits.
    pub(crate) submitted_us: u32,
    /// The packet.
    pub(crate) payload: &'a [u8],
}

/// A packet that the receiver passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatagramDelivery {
    /// The consumer: 0 is the tunnel.
    pub(crate) channel: u8,
    /// The class that the sender's selector gave it.
    pub(crate) class: Class,
    /// Estimated time since it was submitted, at the moment of delivery.
    pub(crate) age: Duration,
    /// The packet.
    pub(crate) payload: Vec<u8>,
}
