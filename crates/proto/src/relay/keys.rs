//! The codes of frames: one key for each sender and boot, from the group's [specs/relay.md §1].
//!
//! Rejected: homomorphic codes and signatures (keys of kilobytes, or milliseconds for a frame), and
//! a signature for each frame (a quarter of a core).

use super::frame::{self, Body, CODE, Header, Hop, NodeName, Side, U48};
use crate::crypto::MacKey;

const LABEL: &str = "fulmar relay 2";

/// What all nodes of a group share.
#[derive(Clone)]
pub(crate) struct GroupKey([u8; 32]);

impl Drop for GroupKey {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

impl GroupKey {
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Derives the key of a sender's boot.
    pub(crate) fn of(&self, sender: NodeName, boot: u64) -> MacKey {
        let mut known = [0; 42];
        known[..32].copy_from_slice(&self.0);
        known[32..34].copy_from_slice(&[sender.side as u8, sender.number]);
        known[34..].copy_from_slice(&boot.to_le_bytes());
        let key = MacKey::derive(LABEL, &known);
        zeroize::Zeroize::zeroize(&mut known);
        key
    }
}

/// This node, since it started: who it is, and the counter that no frame shares with another.
pub(crate) struct Boot {
    pub(crate) name: NodeName,
    pub(crate) boot: u64,
    key: MacKey,
    counter: u64,
}

impl Boot {
    /// Starts with a boot that was never used: random, so that nothing must be remembered.
    pub(crate) fn new(name: NodeName, group: &GroupKey, boot: u64) -> Self {
        Self { name, boot, key: group.of(name, boot), counter: 0 }
    }

    /// Writes a frame; false when all counters are used.
    pub(crate) fn seal(
        &mut self,
        hop: Hop,
        direction: Side,
        body: &Body,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(header) = self.next_header(hop, direction) else { return false };
        frame::write(&header, body, out);
        sign(&self.key, header.counter, out);
        true
    }

    /// Returns the header of the next frame; none when all counters are used.
    pub(crate) fn next_header(&mut self, hop: Hop, direction: Side) -> Option<Header> {
        let (sender, boot, counter) = (self.name, self.boot, self.counter);
        // The largest is never used.
        self.counter += u64::from(counter < U48);
        (counter < U48).then_some(Header { sender, hop, direction, boot, counter })
    }
}

/// Appends the code of a frame with this counter, which covers it and all of the counter.
pub(crate) fn sign(key: &MacKey, counter: u64, frame: &mut Vec<u8>) {
    let code = key.code(&[frame, &counter.to_le_bytes()[..6]]);
    frame.extend_from_slice(&code[..CODE]);
}

/// Checks the code of a frame with this counter.
pub(crate) fn is_genuine(key: &MacKey, counter: u64, bytes: &[u8]) -> bool {
    let Some((said, code)) = bytes.split_last_chunk::<CODE>() else { return false };
    key.verify_start(&[said, &counter.to_le_bytes()[..6]], code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: NodeName = NodeName { side: Side::Air, number: 3 };

    fn sealed(boot: &mut Boot, hop: Hop) -> Vec<u8> {
        let mut out = Vec::new();
        let body = Body::Small { source: 1, number: 2, datagram: vec![7; 9] };
        assert!(boot.seal(hop, Side::Air, &body, &mut out));
        out
    }

    #[test]
    fn any_changed_bit_of_a_frame_is_noticed() {
        let group = GroupKey::new([5; 32]);
        let mut boot = Boot::new(NAME, &group, 77);
        let bytes = sealed(&mut boot, Hop::Radio);
        let key = group.of(NAME, 77);
        assert!(is_genuine(&key, 0, &bytes) && !is_genuine(&key, 1, &bytes));
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_genuine(&key, 0, &changed), "bit {bit}");
        }
    }

    #[test]
    fn each_group_name_side_and_boot_has_a_key_of_its_own() {
        let group = GroupKey::new([5; 32]);
        let bytes = sealed(&mut Boot::new(NAME, &group, 77), Hop::Wire);
        let other = |name, boot| is_genuine(&group.of(name, boot), 0, &bytes);
        assert!(other(NAME, 77) && !other(NAME, 78));
        assert!(!other(NodeName { number: 4, ..NAME }, 77));
        assert!(!other(NodeName { side: Side::Ground, ..NAME }, 77));
        assert!(!is_genuine(&GroupKey::new([6; 32]).of(NAME, 77), 0, &bytes));
    }

    #[test]
    fn counters_end_before_one_comes_twice() {
        let mut boot = Boot::new(NAME, &GroupKey::new([5; 32]), 1);
        boot.counter = U48 - 1;
        sealed(&mut boot, Hop::Wire);
        let body = Body::State(super::super::frame::State::default());
        assert!(!boot.seal(Hop::Wire, Side::Air, &body, &mut Vec::new()));
    }
}
