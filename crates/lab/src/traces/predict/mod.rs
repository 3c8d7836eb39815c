//! `fulmar-lab trace predict`: what TCP makes of a recording, from the recording alone [FlowCode
//! §VI].
//!
//! ```text
//! coded   each slot delivers as many packets as transmitters were heard in it: an ideal code,
//!         which needs neither repeats nor feedback, so that each packet heard is one that TCP was
//!         waiting for
//! pair    one of them alone: a packet is repeated slot by slot until one lets it through, 16 slots
//!         at most, and below TCP the last that is not acknowledged at 10 kbit/s while TCP sends
//!         nothing new [FlowCode §V]
//! back    acknowledgements take no slot, and pass wherever any pair heard something not long
//!         before or after
//! ```
//! TCP is the world's, in virtual time: one matrix makes the same figures every time. Outages are
//! part of it: what it costs TCP to find out that the link is back is in the figures.
//!
//! `model.rs` plays a recording, `waiting.rs` the queue before it, `stretches.rs` says which parts
//! of it are passes, `command.rs` is the command line.
//!
//! *Deviations from what is flown*
//! 1. The code is ideal: no generation waits for its last packet, and nothing is sent that is not
//!    needed.
//! 2. What lies between TCP and the radios is the tunnel's queue, or a radio's, and a delay.

mod command;
mod model;
mod stretches;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use command::{PredictArgs, run};
pub(crate) use model::{Around, Over, best, play};
