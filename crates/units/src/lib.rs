//! Times, rates and seeded randomness: the vocabulary that the sans-IO crates share.
//!
//! Nothing here reads a clock or the operating system's random numbers: time comes in as an
//! argument and randomness comes from a seed, so that the same seed gives the same run.

mod duration;
mod instant;
mod rate;
mod rng;

pub use duration::Duration;
pub use instant::Instant;
pub use rate::Rate;
pub use rng::Rng;
