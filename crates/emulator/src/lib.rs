//! The real-time emulator: runs real programs over emulated links, between network namespaces.
//!
//! The deterministic world (`netem::World`) runs the same scenarios in virtual time. A measurement
//! starts an [`Emulation`], runs programs inside its hosts, and asks for its [`Audit`] at the end;
//! the command `emulate` does the same for any program, and `accuracy` measures the emulator
//! itself.

// Where nobody reads any more, `println!` panics: `sys::print` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod audit;
mod command;
mod emulation;
mod engine;
mod frame;
mod network;
mod pending;
mod queue_delay;
mod routes;
mod scenario_file;
mod stalls;
mod verdict_log;
mod witness;

pub use audit::{Audit, Claim, Lateness, Losses, ProcessorUse};
pub use command::accuracy::{AccuracyArgs, run_accuracy};
pub use command::emulate::{EmulateArgs, run_emulate};
pub use command::failure::Failure;
pub use emulation::{Emulation, LinkReport, Options};
pub use queue_delay::{QueueDelay, QueueWatch};
pub use scenario_file::{read_changed_scenario, read_scenario, traces_beside};
pub use stalls::{Stall, Stalled, Stalls};
