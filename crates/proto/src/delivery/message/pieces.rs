//! The bytes of one message while its pieces come in, in any order.

use crate::limits;

/// Collects pieces, which may overlap if the peer is mad: a byte counts once.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    bytes: Vec<u8>,
    /// What is there: rising, disjoint, not adjacent.
    ranges: Vec<(usize, usize)>,
}

impl Pieces {
    /// Makes room for a message of `total` bytes.
    pub(super) fn new(total: usize) -> Self {
        Self { bytes: vec![0; total], ranges: Vec::new() }
    }

    /// Returns the length of the whole message.
    pub(super) fn total(&self) -> usize {
        self.bytes.len()
    }

    /// Takes a piece; false when it lies outside or the message is in too many pieces.
    pub(super) fn insert(&mut self, offset: usize, piece: &[u8]) -> bool {
        let end = offset + piece.len();
        let Some(place) = self.bytes.get_mut(offset..end) else { return false };
        place.copy_from_slice(piece);
        let first = self.ranges.partition_point(|range| range.1 < offset);
        let last = self.ranges.partition_point(|range| range.0 <= end);
        if first == last {
            if self.ranges.len() >= limits::MESSAGE_PIECES {
                return false;
            }
            self.ranges.insert(first, (offset, end));
            return true;
        }
        let joined = (offset.min(self.ranges[first].0), end.max(self.ranges[last - 1].1));
        self.ranges.splice(first..last, [joined]);
        true
    }

    /// Tells whether nothing is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.ranges.as_slice() == [(0, self.bytes.len())]
    }

    /// Returns the message.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_message_is_whole_when_every_byte_came(
            message in prop::collection::vec(any::<u8>(), 0..300),
            cuts in prop::collection::vec((0_usize..300, 0_usize..80), 0..60),
        ) {
            let mut pieces = Pieces::new(message.len());
            let mut came = vec![false; message.len()];
            for (offset, len) in cuts.into_iter().chain([(0, 0)]) {
                let end = (offset + len).min(message.len());
                let Some(piece) = message.get(offset..end) else { continue };
                prop_assert!(pieces.insert(offset, piece));
                came[offset..end].fill(true);
                prop_assert_eq!(pieces.is_complete(), came.iter().all(|&came| came));
            }
            prop_assert!(pieces.insert(0, &message));
            prop_assert!(pieces.is_complete());
            prop_assert_eq!(pieces.into_bytes(), message);
        }
    }

    #[test]
    fn what_lies_outside_is_refused() {
        let mut pieces = Pieces::new(10);
        assert!(!pieces.insert(8, &[0; 3]) && !pieces.insert(11, &[]));
    }
}
