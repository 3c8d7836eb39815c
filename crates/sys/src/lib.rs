//! The one crate of Fulmar that touches the kernel, and the only one with `unsafe`.
//!
//! It offers the kernel's facilities under the project's own names and types and decides nothing:
//! what to send, when and over which path is settled above, in `proto`, `fulmar` and `lab`. Each
//! module wraps one facility; none keeps state beyond the file descriptors it owns.

pub mod isolate;
pub mod link;
pub mod netns;
pub mod packet_ring;
pub mod realtime;
mod rtnetlink;
pub mod wall_clock;
