//! Packets of a relayed path that its gateway says have arrived: their acknowledgements are due
//! [specs/paths.md §9].

use std::collections::BTreeMap;

use units::{Duration, Instant};

use crate::limits;

/// What an acknowledgement may take beyond a round trip of small packets, once a packet is said to
/// have arrived.
const LATE: Duration = Duration::from_millis(100);

/// When each was said to have arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Landed(BTreeMap<u64, Instant>);

impl Landed {
    /// Notes a packet; those before `first` are of no interest any more.
    pub(super) fn note(&mut self, now: Instant, pn: u64, first: u64) {
        self.0 = self.0.split_off(&first);
        if pn >= first && self.0.len() < limits::SENT_PACKETS {
            self.0.insert(pn, now);
        }
    }

    /// Returns from when on a packet's acknowledgement is waited for, as if it had been sent then.
    pub(super) fn since(&self, pn: u64) -> Option<Instant> {
        self.0.get(&pn).map(|at| *at + LATE)
    }
}
