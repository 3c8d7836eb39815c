//! The MAVLink traffic that is not forwarded, counted by the rule that holds it back.
//!
//! It only counts: the rules are in specs/delivery.md §2, and `selector.rs` applies them.

use std::collections::BTreeMap;

/// Says why something is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotForwarded {
    /// Frames of this message id: it carries a secret, or the configuration says so.
    Message(u32),
    /// Frames of ids that the public definitions do not know: the configuration says so.
    Unknown,
    /// Frames with a wrong checksum, or cut short.
    Broken,
    /// Bytes that belong to no frame, including those of broken ones.
    Bytes,
    /// Frames that a program passed back, or whose source lives at the other end.
    CameBack,
}

/// Counts by channel and rule. There are no more entries than channels times messages that the
/// configuration names.
#[derive(Clone, Debug, Default)]
pub(super) struct NotForwardedCounts(BTreeMap<(u8, NotForwarded), u64>);

impl NotForwardedCounts {
    /// Adds to a count.
    pub(super) fn add(&mut self, channel: u8, rule: NotForwarded, count: u64) {
        if count > 0 {
            *self.0.entry((channel, rule)).or_default() += count;
        }
    }

    /// Lists channel, rule and count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, NotForwarded, u64)> + '_ {
        self.0.iter().map(|(&(channel, rule), &count)| (channel, rule, count))
    }
}
