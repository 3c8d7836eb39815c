//! The real-time emulator: runs real programs over emulated links, between network namespaces.
//!
//! Not the deterministic world (`netem::World`), which runs the same scenarios in virtual time. An
//! experiment's `--emu` half starts an [`Emulation`], runs daemons and opponents inside its hosts,
//! and asks for its [`Audit`] at the end; `fulmar-lab emulate` does the same for any command.

mod accuracy;
mod audit;
mod command;
mod emulation;
mod engine;
mod frame;
mod network;
mod pending;
mod routes;
mod verdict_log;
mod witness;

pub(crate) use accuracy::{AccuracyArgs, run_accuracy};
pub(crate) use audit::{Audit, Claim};
pub(crate) use command::{EmulateArgs, run_command};
pub(crate) use emulation::{Emulation, LinkReport, Options};
