//! Why what came in under a session's name was not taken.
//!
//! Counting alone: whatever is rejected is forgotten, and nobody is told.

use std::ops::AddAssign;

/// Says why a datagram, or the rest of one, was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// It did not authenticate: forged, damaged, or under keys that are not held any more.
    BadTag,
    /// It had come in before, or is so old that it may have.
    Replay,
    /// Its path was given up, or was never opened here.
    UnknownPath,
    /// A frame in it could not be parsed, or makes no sense.
    Malformed,
    /// It asks for more than there is room for: of paths, lanes, numbers or memory.
    BeyondBound,
}

/// Counts what was rejected since the session began, by its reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejections([u64; 5]);

impl Rejections {
    /// Returns how often it was for this reason.
    pub fn of(&self, reason: Rejection) -> u64 {
        self.0[reason as usize]
    }

    /// Returns how often it was at all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Counts one.
    pub(crate) fn count(&mut self, reason: Rejection) {
        self.0[reason as usize] += 1;
    }
}

impl AddAssign for Rejections {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }
}
