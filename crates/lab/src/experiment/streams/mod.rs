//! Streams of packets over links that fail: what is sent, how it is carried, what becomes of it.
//!
//! ```text
//! workload → sim | emu → ledger → figures, doubt → blackout (table, picture)
//! ```
//! The experiments `mixed-blackout` and `failover` are here, and the demo; `recorded`,
//! `thin-links`, `falls`, `throughput` and experiments in files play streams too.

pub(crate) mod blackout;
pub(crate) mod demo;
pub(crate) mod detail;
pub(crate) mod doubt;
pub(crate) mod emu;
pub(crate) mod failover;
pub(crate) mod figures;
pub(crate) mod ledger;
pub(crate) mod mixed_blackout;
pub(crate) mod play;
mod player;
pub(crate) mod sim;
pub(crate) mod video;
pub(crate) mod workload;
