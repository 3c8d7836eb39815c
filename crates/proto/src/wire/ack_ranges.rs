//! The packet numbers that an ACK frame acknowledges, and the messages that a DROPPED frame lists.

use core::ops::RangeInclusive;

use smallvec::SmallVec;

use super::{PACKET_NUMBER_MAX, Reader, WireError, put_varint, varint_len};
use crate::limits::ACK_RANGES;

/// Holds disjoint, non-adjacent ranges of numbers from the highest to the lowest.
///
/// There is at least one and there are at most [`ACK_RANGES`]: what does not fit is the oldest,
/// which earlier frames have reported already.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AckRanges(SmallVec<[(u64, u64); 4]>);

impl AckRanges {
    /// Starts with the range that holds the largest packet number.
    pub(crate) fn new(first: RangeInclusive<u64>) -> Self {
        let (low, high) = first.into_inner();
        assert!(low <= high && high <= PACKET_NUMBER_MAX, "not a range of packet numbers");
        Self(SmallVec::from_slice(&[(low, high)]))
    }

    /// Collects ranges that come from the highest to the lowest; `None` if there are none.
    pub(crate) fn from_descending(
        ranges: impl IntoIterator<Item = RangeInclusive<u64>>,
    ) -> Option<Self> {
        let mut ranges = ranges.into_iter();
        let mut collected = Self::new(ranges.next()?);
        for range in ranges {
            if !collected.push_below(range) {
                break;
            }
        }
        Some(collected)
    }

    /// Adds a range below all others, with a gap of at least one number; false when there is no
    /// room.
    pub(crate) fn push_below(&mut self, range: RangeInclusive<u64>) -> bool {
        if self.0.len() >= ACK_RANGES {
            return false;
        }
        let (low, high) = range.into_inner();
        assert!(low <= high && high + 1 < self.smallest(), "ranges descend and do not touch");
        self.0.push((low, high));
        true
    }

    /// Drops the lowest range, unless it is the only one; tells whether it did.
    pub(crate) fn pop_lowest(&mut self) -> bool {
        self.0.len() > 1 && self.0.pop().is_some()
    }

    /// Returns the largest packet number.
    pub(crate) fn largest(&self) -> u64 {
        self.0[0].1
    }

    /// Returns the smallest packet number.
    pub(crate) fn smallest(&self) -> u64 {
        self.0[self.0.len() - 1].0
    }

    /// Walks the ranges from the highest to the lowest.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = RangeInclusive<u64>> + '_ {
        self.0.iter().map(|(low, high)| *low..=*high)
    }

    /// Returns how many bytes [`AckRanges::encode`] appends.
    pub(crate) fn encoded_len(&self) -> usize {
        let mut len = varint_len(self.0.len() as u64 - 1);
        let mut above = self.largest();
        for (low, high) in &self.0 {
            len += varint_len(above - high) + varint_len(high - low);
            above = low.saturating_sub(2);
        }
        // The gap of the first range is zero and is not sent; the largest number is.
        len - 1 + varint_len(self.largest())
    }

    /// Appends: largest, number of further ranges, first range, then gap and range of each.
    ///
    /// As in [RFC 9000 §19.3.1]: a range counts the numbers beyond its highest, a gap those beyond
    /// the one that must be missing.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.largest(), out);
        put_varint(self.0.len() as u64 - 1, out);
        let mut above = self.largest();
        for (index, (low, high)) in self.0.iter().enumerate() {
            if index > 0 {
                put_varint(above - high, out);
            }
            put_varint(high - low, out);
            above = low.saturating_sub(2);
        }
    }

    /// Reads what [`AckRanges::encode`] wrote.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let largest = reader.varint()?;
        if largest > PACKET_NUMBER_MAX {
            return Err(WireError::Invalid("largest acknowledged"));
        }
        let further = reader.varint_as::<usize>("number of ranges")?;
        if further >= ACK_RANGES {
            return Err(WireError::Invalid("number of ranges"));
        }
        let below = |high: u64, count: u64| {
            high.checked_sub(count).ok_or(WireError::Invalid("acknowledged range"))
        };
        let mut low = below(largest, reader.varint()?)?;
        let mut ranges = Self::new(low..=largest);
        for _ in 0..further {
            let high = below(below(low, 2)?, reader.varint()?)?;
            low = below(high, reader.varint()?)?;
            ranges.0.push((low, high));
        }
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_round_trip_and_the_oldest_fall_off() {
        let many = (0..40).rev().map(|index| index * 10..=index * 10 + 3);
        let ranges = AckRanges::from_descending(many).expect("there are some");
        assert_eq!((ranges.largest(), ranges.smallest()), (393, 80));
        assert_eq!(ranges.iter().last(), Some(80..=83));
        let mut bytes = Vec::new();
        ranges.encode(&mut bytes);
        assert_eq!(bytes.len(), ranges.encoded_len());
        assert_eq!(AckRanges::decode(&mut Reader::new(&bytes)), Ok(ranges));
        assert_eq!(AckRanges::from_descending([]), None);
    }

    /// Every set of numbers below twelve, near zero and at the upper end.
    #[test]
    fn every_small_set_round_trips() {
        const WIDTH: u64 = 12;
        for base in [0, 1, 60, PACKET_NUMBER_MAX - WIDTH + 1] {
            for set in 1_u64..1 << WIDTH {
                let numbers = (0..WIDTH).filter(|bit| set >> bit & 1 == 1).map(|bit| base + bit);
                let numbers: Vec<u64> = numbers.rev().collect();
                let runs = numbers.chunk_by(|above, below| above - below == 1);
                let runs = runs.map(|run| run[run.len() - 1]..=run[0]);
                let ranges = AckRanges::from_descending(runs).expect("not empty");
                let listed = ranges.iter().flat_map(|range| range.rev());
                assert_eq!(listed.collect::<Vec<_>>(), numbers);
                let mut bytes = Vec::new();
                ranges.encode(&mut bytes);
                assert_eq!(bytes.len(), ranges.encoded_len());
                let mut reader = Reader::new(&bytes);
                assert_eq!((AckRanges::decode(&mut reader), reader.len()), (Ok(ranges), 0));
            }
        }
    }

    /// All combinations of five small fields: each is refused, or gives ranges that descend with
    /// gaps and survive another round trip.
    #[test]
    fn every_short_string_is_refused_or_encodes_again() {
        for number in 0..1_u32 << 20 {
            let fields = [0, 1, 2, 3, 4].map(|field| (number >> (4 * field)) as u8 & 0xf);
            let mut reader = Reader::new(&fields);
            let Ok(ranges) = AckRanges::decode(&mut reader) else { continue };
            let mut above = ranges.largest() + 2;
            for range in ranges.iter() {
                assert!(range.start() <= range.end() && range.end() + 1 < above, "{fields:?}");
                above = *range.start();
            }
            let mut again = Vec::new();
            ranges.encode(&mut again);
            assert_eq!(again, fields[..5 - reader.len()]);
        }
    }

    #[test]
    fn ranges_below_zero_and_too_many_are_refused() {
        let decode = |bytes: &[u8]| AckRanges::decode(&mut Reader::new(bytes));
        assert!(decode(&[5, 0, 5]).is_ok());
        assert_eq!(decode(&[5, 0, 6]), Err(WireError::Invalid("acknowledged range")));
        assert_eq!(decode(&[5, 1, 4, 0, 0]), Err(WireError::Invalid("acknowledged range")));
        assert!(decode(&[5, 1, 3, 0, 0]).is_ok());
        assert_eq!(decode(&[63, 32, 0]), Err(WireError::Invalid("number of ranges")));
    }
}
