//! Where a sender's segments begin: what is written is cut when it is first sent, as with
//! `TCP_NODELAY`, and repeated in the same pieces.

use std::collections::VecDeque;

/// Segments below the oldest that is not acknowledged whose place is kept, for what a receiver says
/// of duplicates.
const KEPT: u64 = 8_192;

/// The first bytes of segments, in their order.
#[derive(Debug)]
pub(super) struct Cuts {
    /// The number of the first segment that is kept.
    first: u64,
    /// Where each begins; the last entry is where the next new one will.
    starts: VecDeque<u64>,
}

impl Default for Cuts {
    fn default() -> Self {
        Self { first: 0, starts: VecDeque::from([0]) }
    }
}

impl Cuts {
    /// Cuts a new segment of so many bytes off.
    pub(super) fn push(&mut self, bytes: u64) {
        self.starts.push_back(self.end() + bytes);
    }

    /// Returns where the next new segment begins.
    pub(super) fn end(&self) -> u64 {
        self.starts.back().copied().unwrap_or_default()
    }

    /// Returns where a segment begins, from the oldest that is kept to the next new one.
    pub(super) fn start_of(&self, segment: u64) -> u64 {
        let at = segment.saturating_sub(self.first) as usize;
        self.starts.get(at).copied().unwrap_or_else(|| self.end())
    }

    /// Returns the first segment that begins at a byte or behind it; none beyond what was cut, or
    /// too long ago.
    pub(super) fn segment_at(&self, byte: u64) -> Option<u64> {
        if self.starts.front().is_none_or(|start| byte < *start) {
            return None;
        }
        let at = self.starts.partition_point(|start| *start < byte);
        (at < self.starts.len()).then(|| self.first + at as u64)
    }

    /// Forgets segments that are long acknowledged.
    pub(super) fn forget(&mut self, una: u64) {
        while self.first + KEPT < una && self.starts.len() > 1 {
            self.starts.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_any_length_are_found_again() {
        let mut cuts = Cuts::default();
        [100, 1_228, 7].into_iter().for_each(|bytes| cuts.push(bytes));
        assert_eq!([0, 1, 2, 3].map(|segment| cuts.start_of(segment)), [0, 100, 1_328, 1_335]);
        let at = [0, 1, 100, 101, 1_328, 1_335, 1_336].map(|byte| cuts.segment_at(byte));
        assert_eq!(at, [Some(0), Some(1), Some(1), Some(2), Some(2), Some(3), None]);
        (0..2 * KEPT).for_each(|_| cuts.push(10));
        cuts.forget(KEPT + 3);
        assert_eq!((cuts.segment_at(1_328), cuts.segment_at(1_335)), (None, Some(3)));
        assert_eq!(cuts.start_of(4), 1_345);
    }
}
