//! The frames of message delivery: source and repair symbols, and what the receiver says of them
//! [specs/message.md §3].
//!
//! Both forms of the delivery use them: the elastic window has the one coder 0, the LRT form
//! numbers its coders. Numbers travel whole, not cut to their low bits, so nothing has to be
//! extended.

use smallvec::SmallVec;

use super::{Reader, WireError, put_varint, varint_len};
use crate::limits;

/// Carries a symbol of a message, uncoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceFrame<'a> {
    /// The coder that it belongs to.
    pub(crate) coder: u64,
    /// Its number in the coder.
    pub(crate) id: u64,
    /// How far back the oldest symbol lies that the sender still keeps; those before it are
    /// decoded or given up. At most `id`.
    pub(crate) back: u64,
    /// The symbol without its padding.
    pub(crate) payload: &'a [u8],
}

/// Carries a combination of symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RepairFrame<'a> {
    /// The coder that it belongs to.
    pub(crate) coder: u64,
    /// Its number: coefficients follow from it.
    pub(crate) repair: u64,
    /// The first symbol of the combination.
    pub(crate) first: u64,
    /// How many symbols it combines: at least one.
    pub(crate) count: u16,
    /// The combination, as long as the longest of its symbols.
    pub(crate) payload: &'a [u8],
}

/// Says what the receiver of a coder has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeedbackFrame {
    /// The coder.
    pub(crate) coder: u64,
    /// Every symbol below is decoded or given up.
    pub(crate) next: u64,
    /// Symbols that the receiver knows of end here: one beyond the largest number that it saw.
    pub(crate) end: u64,
    /// Combinations that it holds and that will each recover one of the missing symbols.
    pub(crate) rank: u64,
    /// One beyond the largest number of a repair symbol that it saw.
    pub(crate) repairs: u64,
    /// Missing symbols below `end`, as far as there is room: rising, disjoint (first, count).
    pub(crate) missing: SmallVec<[(u64, u64); 4]>,
}

/// Says how many symbols the decoder of a coder has seen [LRT §III-C].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankFrame {
    /// The coder.
    pub(crate) coder: u64,
    /// Its rank.
    pub(crate) rank: u64,
    /// Every coder below is fully decoded.
    pub(crate) filter: u64,
}

/// Bytes of a source or repair frame around its symbol, at most, for the first 2³⁰ coders.
pub(crate) const SYMBOL_OVERHEAD: usize = 1 + 4 + 8 + 8 + 2 + 2;
/// Bytes of a feedback frame, at most.
pub(crate) const FEEDBACK_MAX: usize = 1 + 5 * 8 + 1 + 16 * limits::MISSING_RANGES;

impl<'a> SourceFrame<'a> {
    pub(super) fn encoded_len(&self) -> usize {
        let fields = [self.coder, self.id, self.back, self.payload.len() as u64];
        1 + fields.into_iter().map(varint_len).sum::<usize>() + self.payload.len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for field in [self.coder, self.id, self.back, self.payload.len() as u64] {
            put_varint(field, out);
        }
        out.extend_from_slice(self.payload);
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let (coder, id, back) = (reader.varint()?, reader.varint()?, reader.varint()?);
        if back > id {
            return Err(WireError::Invalid("symbols kept"));
        }
        Ok(Self { coder, id, back, payload: payload(reader, limits::SYMBOL_BYTES)? })
    }
}

impl<'a> RepairFrame<'a> {
    pub(super) fn encoded_len(&self) -> usize {
        let count = u64::from(self.count);
        let fields = [self.coder, self.repair, self.first, count, self.payload.len() as u64];
        1 + fields.into_iter().map(varint_len).sum::<usize>() + self.payload.len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let count = u64::from(self.count);
        for field in [self.coder, self.repair, self.first, count, self.payload.len() as u64] {
            put_varint(field, out);
        }
        out.extend_from_slice(self.payload);
    }

    /// Reads one whose combination has at most `longest` bytes.
    pub(super) fn decode(reader: &mut Reader<'a>, longest: usize) -> Result<Self, WireError> {
        let (coder, repair, first) = (reader.varint()?, reader.varint()?, reader.varint()?);
        let count: u16 = reader.varint_as("symbols combined")?;
        if count == 0 {
            return Err(WireError::Invalid("symbols combined"));
        }
        Ok(Self { coder, repair, first, count, payload: payload(reader, longest)? })
    }
}

impl FeedbackFrame {
    pub(super) fn encoded_len(&self) -> usize {
        let fields = self.fields().into_iter().map(varint_len).sum::<usize>();
        2 + fields + self.steps().map(varint_len).sum::<usize>()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.fields().into_iter().for_each(|field| put_varint(field, out));
        out.push(self.missing.len() as u8);
        self.steps().for_each(|step| put_varint(step, out));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (coder, next, known) = (reader.varint()?, reader.varint()?, reader.varint()?);
        let (rank, repairs) = (reader.varint()?, reader.varint()?);
        // Both are below 2⁶²: the sum does not overflow.
        let end = next + known;
        let count = reader.u8()?;
        if usize::from(count) > limits::MISSING_RANGES {
            return Err(WireError::Invalid("missing ranges"));
        }
        let mut missing = SmallVec::new();
        let mut at = next;
        for _ in 0..count {
            let first = at + reader.varint()?;
            let count = reader.varint()?;
            at = first.saturating_add(count);
            if count == 0 || at > end {
                return Err(WireError::Invalid("missing range"));
            }
            missing.push((first, count));
        }
        Ok(Self { coder, next, end, rank, repairs, missing })
    }

    fn fields(&self) -> [u64; 5] {
        [self.coder, self.next, self.end - self.next, self.rank, self.repairs]
    }

    /// Walks the gaps before the missing ranges, and their lengths.
    fn steps(&self) -> impl Iterator<Item = u64> + '_ {
        let ends = self.missing.iter().map(|(first, count)| first + count);
        let before = std::iter::once(self.next).chain(ends);
        let steps = self.missing.iter().zip(before);
        steps.flat_map(|((first, count), before)| [first - before, *count])
    }
}

impl RankFrame {
    pub(super) fn encoded_len(&self) -> usize {
        1 + varint_len(self.coder) + varint_len(self.rank) + varint_len(self.filter)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for field in [self.coder, self.rank, self.filter] {
            put_varint(field, out);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { coder: reader.varint()?, rank: reader.varint()?, filter: reader.varint()? })
    }
}

fn payload<'a>(reader: &mut Reader<'a>, longest: usize) -> Result<&'a [u8], WireError> {
    let len: usize = reader.varint_as("symbol length")?;
    if len > longest {
        return Err(WireError::Invalid("symbol length"));
    }
    reader.take(len)
}
