//! Plain datagram delivery: sent once on one path, short queues, optional resequencing; RTP again
//! while it is of use.
//!
//! [`DatagramQueue`] is the sender's half (one for telemetry, one for bulk), [`Resequencer`] the
//! receiver's. What is replicated, sent again or ordered by the sender is `delivery/control/`.

mod again;
mod delivery;
mod frames;
mod kept;
mod queue;
mod resequencer;
mod sequence;

use again::Expected;
pub(crate) use delivery::Datagrams;
use queue::DatagramQueue;
pub(crate) use queue::{Plain, RtpPiece};
use resequencer::Resequencer;
use sequence::Sequence;
