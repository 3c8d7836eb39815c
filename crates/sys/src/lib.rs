//! The one crate of Fulmar that touches the kernel. Beside it only the vector kernels of `coding`
//! have `unsafe`.
//!
//! It offers the kernel's facilities under the project's own names and types and decides nothing:
//! what to send, when and over which path is settled above, in `proto`, `fulmar` and `lab`. Each
//! module wraps one facility; none keeps state beyond the file descriptors it owns.

pub mod arrival;
pub mod bound;
pub mod bpf_filesystem;
pub mod broadcast;
pub mod byte_stream;
pub mod capabilities;
pub mod clock;
pub mod connection;
mod control_messages;
pub mod device;
pub mod dumps;
pub mod entropy;
pub mod framing;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod interface_setup;
pub mod interfaces;
pub mod isolate;
pub mod limits;
pub mod multicast;
mod netlink;
pub mod netns;
pub mod notify;
pub mod packet_ring;
pub mod poller;
pub mod print;
pub mod realtime;
pub mod routes;
pub mod sandbox;
pub mod seqpacket;
pub mod serial;
pub mod signals;
pub mod socket_diag;
mod socket_option;
pub mod tcp_info;
pub mod timens;
pub mod tun;
pub mod udp;
mod uucp_lock;
pub mod wakeup;
pub mod wall_clock;
