//! The number that a plain packet carries when it may be duplicated or has to keep its order.
//!
//! Two independent counts share the field: packets whose order is restored (TCP), and packets that
//! merely have replicas (`redundant`), which must not wait for one another.

use crate::window::extend;

/// A number of one of the two counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sequence {
    /// Among packets whose order is restored.
    Ordered(u32),
    /// Among packets that only have replicas.
    Replicated(u32),
}

/// The top bit of the field says which count it is; 31 bits are left for the number.
const ORDERED: u32 = 1 << 31;

impl Sequence {
    pub(super) fn to_wire(self) -> u32 {
        match self {
            Self::Ordered(number) => number | ORDERED,
            Self::Replicated(number) => number & !ORDERED,
        }
    }

    pub(super) fn from_wire(field: u32) -> Self {
        let number = field & !ORDERED;
        if field & ORDERED != 0 { Self::Ordered(number) } else { Self::Replicated(number) }
    }
}

/// Extends the low 31 bits of a number to the number nearest to `near`.
pub(super) fn extend31(low: u32, near: u64) -> u64 {
    extend(low << 1, near << 1) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_keeps_count_and_number() {
        for sequence in
            [Sequence::Ordered(0), Sequence::Ordered(ORDERED - 1), Sequence::Replicated(7)]
        {
            assert_eq!(Sequence::from_wire(sequence.to_wire()), sequence);
        }
    }

    #[test]
    fn number_is_read_back_from_its_31_bits_at_every_edge() {
        let around = |edge: u64| edge.saturating_sub(2)..=edge + 2;
        let half = u64::from(ORDERED) / 2;
        let edges = [0, half, 2 * half, 3 * half, 4 * half, 1 << 40, (1 << 40) + half];
        for number in edges.into_iter().flat_map(around) {
            let low = number as u32 & !ORDERED;
            // As far as the count can be ahead or behind: a quarter of what the field holds, and
            // more.
            for apart in [0, 1, 2, half / 2, half - 1] {
                assert_eq!(extend31(low, number + apart), number, "{apart} ahead");
                assert_eq!(extend31(low, number.saturating_sub(apart)), number, "{apart} behind");
            }
        }
    }

    #[test]
    fn numbers_go_on_past_31_bits() {
        assert_eq!(extend31(1, u64::from(ORDERED) - 1), u64::from(ORDERED) + 1);
        assert_eq!(extend31(ORDERED - 1, u64::from(ORDERED)), u64::from(ORDERED) - 1);
        assert_eq!(extend31(5, 0), 5);
    }
}
