//! ASRAN [ASRAN §3.2] for the TCP of an unmodified Linux kernel: BPF congestion controls and their
//! loader.
//!
//! The algorithm itself is in `bpf/asran.bpf.c`, which also says what it does and where it departs
//! from the paper. This crate embeds the compiled object, and registers its algorithms with the
//! running kernel: for good ([`install`], [`remove`], [`status`]), or while a value lives
//! ([`Loaded`]). Not the controller of our own transport: that is `proto::congestion`, compared
//! with this one through `replay`.
//!
//! Once registered, every program chooses an algorithm by its name: with
//! `setsockopt(TCP_CONGESTION)`, or for a whole network namespace by the sysctl
//! `net.ipv4.tcp_congestion_control`.

mod error;
mod flavour;
mod flows;
mod installed;
mod loaded;
mod object;
mod pins;
mod privileges;
mod replay;
mod trace;
mod words;

pub use error::Error;
pub use flavour::Flavour;
pub use flows::{Flow, Memory, Phase, flows};
pub use installed::{Installed, Removed, State, Status, install, remove, set_default, status};
pub use loaded::Loaded;
pub use replay::{Event, Snapshot, replay};
pub use trace::{Record, Step};
