//! Packets whose loss says nothing of the path, and what the peer is told of them [specs/paths.md
//! §4] (rule 7).
//!
//! A probe that is longer than the link carries, what went to an address that has not proved
//! itself, what was under way to an address that the path has left since, and what the kernel
//! refused are missing at the peer as a loss is: it counts by gaps in the numbers. So each later
//! datagram of the path names them, until one of those is acknowledged. Where others come up
//! meanwhile that do not follow on them, only the newest are named: few are told of at a time, and
//! a datagram has room for more than that.

use crate::wire::UncountedFrame;

/// Remembers the newest packet numbers of a path that do not count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uncounted {
    newest: Option<UncountedFrame>,
}

impl Uncounted {
    /// Notes that packets from `first` to `last` do not count.
    pub(super) fn note(&mut self, first: u64, last: u64) {
        if last < first {
            return;
        }
        let known =
            self.newest.filter(|known| (known.first..=known.first + known.count).contains(&first));
        let first = known.map_or(first, |known| known.first);
        let end = known.map_or(0, |known| known.first + known.count).max(last + 1);
        self.newest = Some(UncountedFrame { first, count: end - first });
    }

    /// Forgets those that a packet named which the peer has acknowledged.
    pub(super) fn on_acked(&mut self, largest: u64) {
        self.newest.take_if(|known| known.first + known.count <= largest);
    }

    /// Returns what the peer is to be told.
    pub(super) fn untold(&self) -> Option<UncountedFrame> {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_named_together_until_a_later_packet_is_acknowledged() {
        let mut uncounted = Uncounted::default();
        [3, 4, 5].into_iter().for_each(|number| uncounted.note(number, number));
        let frame = |first, count| Some(UncountedFrame { first, count });
        assert_eq!(uncounted.untold(), frame(3, 3));
        uncounted.note(4, 9);
        assert_eq!(uncounted.untold(), frame(3, 7));
        uncounted.on_acked(9);
        assert_eq!(uncounted.untold(), frame(3, 7), "9 may have named those before it alone");
        uncounted.note(11, 11);
        assert_eq!(uncounted.untold(), frame(11, 1), "the newest");
        uncounted.note(11, 10);
        assert_eq!(uncounted.untold(), frame(11, 1), "none");
        uncounted.on_acked(12);
        assert_eq!(uncounted.untold(), None);
    }
}
