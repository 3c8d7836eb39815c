//! `fulmar-lab trace synth`: a slot matrix of a flight that nobody has to fly [FlowCode §IV].
//!
//! ```text
//! flight file → flight.rs → course.rs (where, slot by slot) → channel.rs (who hears whom) → SlotMatrix
//!                antenna.rs ┘                                  passes.rs (achievable goodput and range) → rows
//! ```
//! Pure: one file and one seed make the same matrix, byte for byte.
//!
//! *Deviations from the paper* (its traces were never published)
//! 1. Transmitters share one clock of slots; in the field each sent at its own time.
//! 2. A frame fades as a whole; the paper's radios moved 0.25 m during a frame.
//! 3. The aircraft does not bank, and its airspeed is even; wind, gusts and distance from the
//!    course vary.

mod antenna;
mod channel;
mod command;
mod course;
mod flight;
#[cfg(any(fuzzing, test))]
mod fuzzed;
mod passes;
mod picture;
#[cfg(test)]
mod tests;

pub(crate) use channel::{Way, render};
pub(crate) use command::{Flown, SynthArgs, aligned, run};
pub(crate) use flight::{Receiver, Transmitter};
#[cfg(fuzzing)]
pub(crate) use fuzzed::try_flight;
pub(crate) use passes::{Pass, heard, passes, sums};
pub(crate) use picture::map;
