//! The packet selector: which packet gets which delivery policy.
//!
//! The first step of a packet on its way out. It looks but changes nothing: frames leave as they
//! came. `delivery/` carries the policies out. The rules are those of specs/delivery.md §2.

mod config;
mod ip;
mod lane;
mod mavlink;
mod messages;
mod not_forwarded;
mod policy;
mod rtp;
mod selector;
mod signing;
mod stream;
mod table;
mod target;

pub use config::{Direction, InspectedPorts, PolicyTable, SelectorConfig, UnknownMessage};
pub use lane::{LaneKey, StreamKey};
pub use mavlink::{
    MavlinkFrame, MavlinkFrames, Version, encode_frame, message_definition, message_id,
};
pub use messages::MessageDefinition;
pub use not_forwarded::NotForwarded;
pub use policy::{Class, Copies, Order, Policy, Tier};
pub use rtp::RtpFrame;
pub use selector::{Selected, Selection, Selector, SelectorCounters};
pub use stream::{StreamFramer, StreamLoss};
pub use table::SETUP_SIGNING;
pub use target::{Reliability, Target};
