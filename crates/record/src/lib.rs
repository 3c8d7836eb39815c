//! Flight records: what they hold (`schema.rs`), how they are written (`segment.rs`, `tlog.rs`),
//! kept on disk (`store.rs`, `age.rs`) and read again, cut or whole (`flight.rs`, `cut.rs`), with
//! texts that are safe to show (`harmless.rs`).
//!
//! A record is an MCAP file of JSON messages. No network, no thread and no clock here: the daemon's
//! recorder has those.

mod age;
pub mod cut;
pub mod date;
pub mod flight;
#[cfg(fuzzing)]
#[allow(missing_docs, clippy::expect_used, reason = "these are doors for tests")]
pub mod fuzzing;
pub mod harmless;
pub mod schema;
pub mod segment;
pub mod store;
pub mod tlog;
pub mod topic;
