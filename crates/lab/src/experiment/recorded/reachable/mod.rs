//! What could have been reached over links whose future is known: the yardstick of `recorded`.
//!
//! Computed from the links' models alone, in the workload's time, without a run. Not a scheme: no
//! sender knows what these know.
//!
//! ```text
//! LinkModel → Capacity (bits per millisecond) ─┬─ Idle: one message alone      single, any_time, alive
//!                                              └─ Plan: everything that is sent    edf, edf_copies, video
//! ```
//! What is random about a link (losses, jitter, corruption) is left out, and what falls within a
//! millisecond is counted in the sender's favour; so are the limits of queues, since a sender that
//! knows the future does not fill them. What is certain counts: rate, delay, outages, a loss of 1.
//!
//! | figure | what it says | may a real sender be better? |
//! | --- | --- | --- |
//! | `single` | one copy at once, over an empty link, the best one for each message | yes: by a copy later, or by parts over several links |
//! | `any_time` | as many copies as one likes, at any time, each over an empty link | no, but by sending parts of a message over several links |
//! | `edf` | everything of control's kind once, in order of its deadline | no, as long as messages are 100 bytes |
//! | `edf_copies` | the same, a copy on every link | yes: copies may be left out |
//! | video | what `edf` leaves, given to video in order of its deadline | no, in the share of bytes |

mod capacity;
mod idle;
mod plan;

pub(crate) use capacity::{Capacity, Slot, capacities};
pub(crate) use idle::Idle;
pub(crate) use plan::{Demand, Plan};

/// What a message costs beside its own bytes, at least: IPv4 20, UDP 8, a short header 5 and an
/// authentication tag 16. Less than any scheme here needs.
pub(crate) const WIRE_OVERHEAD: usize = 49;

/// Returns the bits that a message of `bytes` puts on a link.
pub(crate) const fn wire_bits(bytes: usize) -> u64 {
    ((bytes + WIRE_OVERHEAD) * 8) as u64
}
