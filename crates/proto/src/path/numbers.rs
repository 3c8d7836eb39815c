//! The numbers of the packets that a path sends.

use super::skipped::Skipped;
use super::uncounted::Uncounted;

/// Which number is next, which are left out, and which do not count.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) next: u64,
    pub(super) skipped: Skipped,
    /// What the peer is to be told of packets that do not count.
    pub(super) uncounted: Uncounted,
}

impl Numbers {
    /// Begins with none sent; `seed` must not be guessable by the peer.
    pub(super) fn new(seed: u64) -> Self {
        Self { next: 0, skipped: Skipped::new(!seed), uncounted: Uncounted::default() }
    }

    /// Leaves the next one out now and then.
    pub(super) fn skip(&mut self) {
        if self.skipped.leaves_out(self.next) {
            self.next += 1;
        }
    }

    /// Takes the next one; it is used up whether or not it is sent.
    pub(super) fn take(&mut self) -> u64 {
        let pn = self.next;
        self.next += 1;
        pn
    }
}
