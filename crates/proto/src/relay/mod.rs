//! Relays: a link layer under the session [FlowCode §III, specs/relay.md].
//!
//! ```text
//! gateway ═ wire ═ relays ┄ radio ┄ relays ═ wire ═ gateway
//! frame.rs      bytes and back                      keys.rs     a code for each frame
//! members.rs    whose frames count                  node.rs     one node, in its role
//! gateway.rs    datagrams in and out                form/       when what is sent: ranked, published
//! sink.rs       decodes and reports ranks           transmitters.rs  who has room, what is under way
//! repeater.rs   between wire and radio              radio.rs    what a radio carries
//! sources.rs    whose numbers count
//! ```
//! Like the session it does no I/O. It knows no session: what it carries is sealed, and of no
//! meaning to it.
//!
//! *Deviations from the paper*: `form/published.rs` and `delivery/generation` have those of the
//! published form; `form/ranked.rs` is ours. In both, what a relay across the radio has heard from
//! another one of its side counts as heard, datagrams of 200 bytes or less are not coded, and every
//! frame is authenticated hop by hop.

mod form;
mod frame;
mod gateway;
mod keys;
#[cfg(any(fuzzing, feature = "doors"))]
pub(crate) mod mad_node;
mod members;
mod node;
mod radio;
mod repeater;
mod sink;
mod sources;
#[cfg(test)]
mod tests;
mod transmitters;

use core::fmt;

use units::Duration;

pub use form::{Fate, RelayForm, Sent};
pub use frame::{Hop, NodeName, Side, longest_datagram};
pub use members::{REFUSALS, Refusal, Refusals};
pub use node::{RelayConfig, RelayMember, RelayNode, RelayRole, RelayStatus};
pub use repeater::Relayed;
pub use sink::Received;

/// What is said again and again, is said so often at least: that a node is there, and what a
/// destination has.
const PRESENCE: Duration = Duration::from_millis(250);
/// What was not heard for so long has ended: a node, a source, or what a relay is given to send.
const ALIVE: Duration = PRESENCE.saturating_mul(4);
/// Reports leave no more often than this. What is to be said again soon is said after twice as
/// long.
const REPORT: Duration = Duration::from_millis(10);
/// So long an answer is waited for where nothing better is known.
const ANSWERED: Duration = Duration::from_millis(50);
/// Sources of a direction, and boots of a name, that lost their place and are remembered: what is
/// still on its way comes of the last few.
const FORMER: usize = 8;

/// A frame that waits to be sealed.
#[derive(Debug)]
struct Queued {
    /// The side that what it is about comes from.
    direction: Side,
    body: frame::Body,
}

/// Says why a node does not do what it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayError {
    /// No transmitter has room now.
    Blocked,
    /// The datagram is longer than this many bytes, or empty.
    TooLarge {
        /// How long it may be.
        limit: usize,
    },
    /// A relay has no session.
    NoGateway,
    /// Relays have the numbers 1 to 63.
    Number,
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked => f.write_str("no relay has room now"),
            Self::TooLarge { limit } => {
                write!(f, "the datagram is not within 1 to {limit} bytes")
            }
            Self::NoGateway => f.write_str("a relay takes no datagrams: gateways do"),
            Self::Number => f.write_str("no such number of a relay: they have 1 to 63"),
        }
    }
}

impl std::error::Error for RelayError {}
