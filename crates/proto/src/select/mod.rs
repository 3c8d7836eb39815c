//! The packet selector: which packet gets which delivery policy.
//!
//! First station of a packet on its way out. It looks, it does not change: frames leave as they
//! came. Carrying a policy out is `control/` and `datagram/`. Being written: signatures are final.

mod config;
mod lane;
mod policy;

pub use config::{Direction, InspectedPorts, PolicyTable, SelectorConfig, message_id};
pub use lane::{LaneKey, StreamKey};
pub use policy::{Class, Copies, Order, Policy, Tier};

/// A MAVLink frame of a local endpoint's datagram, and how it is to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selected<'a> {
    /// The frame, as it came.
    pub frame: &'a [u8],
    /// How it is to be delivered.
    pub policy: Policy,
    /// Whose order it keeps.
    pub lane: LaneKey,
}

/// How a packet of the tunnel is to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// How it is to be delivered.
    pub policy: Policy,
    /// Whose order it keeps.
    pub lane: LaneKey,
    /// True for TCP: the receiver restores the order of what plain delivery carries.
    pub resequence: bool,
}

/// Sorts packets into delivery policies.
#[derive(Debug)]
pub struct Selector {}

impl Selector {
    /// Starts with a configuration, for the direction that this end sends in.
    pub fn new(_config: &SelectorConfig, _direction: Direction) -> Self {
        Self {}
    }

    /// Splits a datagram of a local MAVLink endpoint into its frames.
    pub fn select_frames<'a>(
        &mut self,
        _channel: u8,
        _datagram: &'a [u8],
    ) -> impl Iterator<Item = Selected<'a>> {
        std::iter::empty()
    }

    /// Inspects an IP packet of the tunnel; none: it is not to be forwarded.
    pub fn select_packet(&mut self, _packet: &[u8]) -> Option<Selection> {
        None
    }
}
