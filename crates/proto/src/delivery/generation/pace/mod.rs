//! What may differ between forms: when a generation is packed, how many combinations leave, and
//! when more do.

mod published;

use core::fmt::Debug;

use units::{Duration, Rate};

pub(crate) use published::Published;

/// What a source knows of its way to the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// Those that combine for themselves (n_Tx); paths of one session do not: together they are
    /// one.
    pub(crate) transmitters: usize,
    /// What all of them send together.
    pub(crate) rate: Rate,
    /// From a combination by the slowest of them to its ACK (t_RTT).
    pub(crate) rtt: Duration,
    /// The same by the fastest, at best.
    pub(crate) least_rtt: Duration,
}

/// More combinations that are to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct More {
    /// When, counted from the last one that left, if no ACK has come (t_ARQ).
    pub(crate) after: Duration,
    /// How many.
    pub(crate) combinations: usize,
}

/// Decides how generations leave.
pub(crate) trait Pace: Debug + Send {
    /// Returns how long fewer than k packets wait for more of them.
    fn wait(&self, way: &Way) -> Duration;

    /// Returns how many generations may be in flight (f), each of so many bytes.
    fn in_flight(&self, way: &Way, generation: usize) -> usize;

    /// Returns how many combinations each transmitter is asked for at first (s).
    fn first(&self, k: usize, way: &Way) -> usize;

    /// Returns what is asked for without an ACK once `sent` combinations have left, while so many
    /// bytes are in flight; none when the retries are over.
    fn more(&self, k: usize, sent: usize, in_flight: usize, way: &Way) -> Option<More>;

    /// Tells whether the packets themselves leave first, and combinations after them.
    fn is_systematic(&self) -> bool;
}
