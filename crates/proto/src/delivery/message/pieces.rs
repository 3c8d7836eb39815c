//! The bytes of one message while its pieces come in, in any order.
//!
//! Memory is taken for what has come, not for what a piece says that the message will be.

use std::collections::BTreeMap;

use crate::limits;

/// Collects pieces, which may overlap if the peer is mad.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    total: usize,
    /// What has come without a gap, from the front.
    front: Vec<u8>,
    /// Pieces behind a gap, by where they begin, and their bytes together.
    later: BTreeMap<usize, Vec<u8>>,
    later_bytes: usize,
}

impl Pieces {
    /// Starts a message of `total` bytes.
    pub(super) fn new(total: usize) -> Self {
        Self { total, front: Vec::new(), later: BTreeMap::new(), later_bytes: 0 }
    }

    /// Returns the length of the whole message.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Returns how many bytes are held.
    pub(super) fn held(&self) -> usize {
        self.front.len() + self.later_bytes
    }

    /// Takes a piece; false when it lies outside or the message is in too many pieces.
    pub(super) fn insert(&mut self, offset: usize, piece: &[u8]) -> bool {
        if offset + piece.len() > self.total {
            return false;
        }
        if offset <= self.front.len() {
            self.append(offset, piece);
            while let Some(entry) = self.later.first_entry()
                && *entry.key() <= self.front.len()
            {
                let (offset, piece) = entry.remove_entry();
                self.later_bytes -= piece.len();
                self.append(offset, &piece);
            }
            return true;
        }
        let known = self.later.get(&offset).map(Vec::len);
        if known.is_some_and(|known| known >= piece.len()) {
            return true;
        }
        if known.is_none() && self.later.len() >= limits::MESSAGE_PIECES {
            return false;
        }
        self.later_bytes += piece.len() - known.unwrap_or(0);
        self.later.insert(offset, piece.to_vec());
        true
    }

    /// Tells whether nothing is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.front.len() == self.total
    }

    /// Returns the message.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.front
    }

    /// Appends what is new of a piece that begins at or before the end of the front.
    fn append(&mut self, offset: usize, piece: &[u8]) {
        let Some(fresh) = piece.get(self.front.len() - offset..) else { return };
        let needed = self.front.len() + fresh.len();
        if needed > self.front.capacity() {
            // Twice what there is, but no more than there can be.
            self.front
                .reserve_exact((2 * self.front.len()).clamp(needed, self.total) - self.front.len());
        }
        self.front.extend_from_slice(fresh);
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
