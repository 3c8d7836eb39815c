//! Nodes of relayed links (specs/relay.md): what they decide is `proto`'s `RelayNode`, here are
//! their sockets.
//!
//! ```text
//! hop.rs   a socket for broadcasts at an interface, as long as that is there
//! post.rs  a node with its hops: frames in, frames out, what it says of itself
//! run.rs   the daemon of role = "relay"; a gateway's post belongs to daemon/relays.rs
//! ```

mod hop;
mod post;
mod run;

pub(crate) use hop::RECEIVE_BUFFER;
pub(crate) use post::{Post, Tokens};
pub(crate) use run::run;
