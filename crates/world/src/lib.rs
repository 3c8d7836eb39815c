//! Sessions of Fulmar as hosts of [`netem::World`]: the one driver of an endpoint in virtual time.
//!
//! ```text
//! Driver         an endpoint and its sockets: what the daemon's loop does, without sockets and a
//!                clock
//! SessionHost    a driver and its applications: packets in, packets out
//! DatagramHost   plain datagrams over the first link, to compare with
//! RelayGroup     gateways and relays, and a session over them
//! Pair, Crowd    a drone and its station, or several, and a record of what they were told
//! tcp            TCP flows over links or through sessions: Linux's TCP as a state machine
//! ```
//! The lab measures with the hosts, tests and examples use the pair. Whoever needs more of a host
//! (attackers, restarts) builds it around a [`Driver`].

mod crowd;
mod datagram_host;
mod driver;
mod pair;
mod relayed;
mod session_host;
pub mod tcp;
mod tunnel_packet;

pub use crowd::Crowd;
pub use datagram_host::DatagramHost;
pub use driver::{Driver, Identity};
pub use pair::{DRONE, Pair, Peer, STATION, Seen, one_link, two_links};
pub use relayed::RelayGroup;
pub use session_host::SessionHost;
pub use tunnel_packet::{unwrap, wrap};
