//! ConClone delivery: control messages copied to every path, the first copy wins [ConClone §3.3].
//!
//! [`Outbox`] is the sender's half, [`Inbox`] the receiver's. Neither sees datagrams, keys or
//! sockets: the session polls the one when a path has room and hands the other what was opened.
//! Packets that are sent once on one path are `datagram/`. The rules are specs/delivery.md.

#[cfg(test)]
mod delivery_tests;
mod floors;
mod inbox;
mod message;
mod outbox;
mod pending;
mod receiver_lane;
mod seen_window;
mod sender_lanes;
#[cfg(test)]
mod simulation;

pub(crate) use inbox::{Inbox, Reception};
pub(crate) use outbox::{Outbox, Rejected};
pub(crate) use seen_window::{SeenWindow, extend};

use units::Duration;

use crate::ids::PathId;
use crate::select::{Class, LaneKey, Order, Policy};

/// Hands a message to [`Outbox::submit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Submission {
    /// The consumer at the other end.
    pub(crate) channel: u8,
    /// How it is to be delivered.
    pub(crate) policy: Policy,
    /// Whose order it keeps.
    pub(crate) lane: LaneKey,
    /// The message.
    pub(crate) payload: Vec<u8>,
}

/// One copy of a control message as it goes over the wire; maps to the wire's frame field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlFrame<'a> {
    /// The consumer: 0 is the tunnel.
    pub(crate) channel: u8,
    /// The class that the sender's selector gave it.
    pub(crate) class: Class,
    /// Its order within its lane.
    pub(crate) order: Order,
    /// Numbers control messages session-wide, for removing duplicates; low 32 bits.
    pub(crate) seq: u32,
    /// The domain of order; meaningless without an order.
    pub(crate) lane: u16,
    /// Numbers the messages of a lane; low 32 bits.
    pub(crate) lane_seq: u32,
    /// The lowest number of the lane that is still alive at the sender; never above `lane_seq`.
    pub(crate) floor: u32,
    /// Beyond this age it is not delivered.
    pub(crate) ttl_ms: u16,
    /// When it was handed in, microseconds on the sender's clock; low 32 bits.
    pub(crate) submitted_us: u32,
    /// The message.
    pub(crate) payload: &'a [u8],
}

/// Tells that messages of a lane below `floor` will not come any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneFloor {
    /// The lane.
    pub(crate) lane: u16,
    /// Its lowest number that is still alive, low 32 bits.
    pub(crate) floor: u32,
}

/// What the outbox has to know of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlPath {
    /// Which path.
    pub(crate) id: PathId,
    /// True when it is believed to work; a suspected path still gets its copies of control.
    pub(crate) usable: bool,
}

/// The age of a message of the peer, as well as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageAge {
    /// Time since it was submitted.
    pub(crate) estimate: Duration,
    /// How far the truth may lie from the estimate.
    pub(crate) error: Duration,
}

/// A message that the receiver passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControlDelivery {
    /// The consumer: 0 is the tunnel.
    pub(crate) channel: u8,
    /// The class that the sender's selector gave it.
    pub(crate) class: Class,
    /// Estimated time since it was submitted, at the moment of delivery.
    pub(crate) age: Duration,
    /// The message.
    pub(crate) payload: Vec<u8>,
}
