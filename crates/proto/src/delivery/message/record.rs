//! Records: what stands in a symbol [specs/message.md §2].
//!
//! A symbol holds one record after the other, each a piece of one message behind its length and
//! place. A record ends with its message or with the symbol, so it needs no length of its own; what
//! is left of the symbol is zeros. Every symbol can be read without the others: streams do not wait
//! for each other, and messages without order for nothing.

use units::Duration;

use crate::limits;
use crate::wire::{Reader, WireError, put_varint, varint_len};

/// A record's first byte: never zero, so that zeros end the symbol.
const RECORD: u8 = 0x80;
const ORDERED: u8 = 0x01;
const WITH_DEADLINE: u8 = 0x02;

/// Says which piece of which message follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The consumer at the other end.
    pub(super) channel: u8,
    /// The stream.
    pub(super) stream: u16,
    /// Whether the stream's messages are delivered in order.
    pub(super) ordered: bool,
    /// The message's number in its stream.
    pub(super) number: u64,
    /// When it was handed in, microseconds on the sender's clock; low 32 bits.
    pub(super) submitted_us: u32,
    /// How long it waited before it was divided.
    pub(super) waited_us: u32,
    /// Beyond this age it is of no use.
    pub(super) deadline_ms: Option<u32>,
    /// Bytes of the message: the length prefix [LRT §III-A].
    pub(super) total: u32,
    /// Bytes of it that stand in earlier symbols.
    pub(super) offset: u32,
}

impl Record {
    /// Returns how many bytes [`Record::encode`] appends.
    pub(super) fn encoded_len(&self) -> usize {
        let deadline = self.deadline_ms.map_or(0, |ms| varint_len(ms.into()));
        let fields = [self.stream.into(), self.number, self.waited_us.into()];
        let sizes = [self.total.into(), self.offset.into()];
        2 + 4 + deadline + fields.into_iter().chain(sizes).map(varint_len).sum::<usize>()
    }

    /// Appends the record's head; its bytes follow.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let ordered = if self.ordered { ORDERED } else { 0 };
        let deadline = if self.deadline_ms.is_some() { WITH_DEADLINE } else { 0 };
        out.extend_from_slice(&[RECORD | ordered | deadline, self.channel]);
        out.extend_from_slice(&self.submitted_us.to_le_bytes());
        put_varint(self.stream.into(), out);
        put_varint(self.number, out);
        put_varint(self.waited_us.into(), out);
        if let Some(ms) = self.deadline_ms {
            put_varint(ms.into(), out);
        }
        put_varint(self.total.into(), out);
        put_varint(self.offset.into(), out);
    }

    /// Returns the deadline.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.deadline_ms.map(|ms| Duration::from_millis(ms.into()))
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let kind = reader.u8()?;
        if kind & !(ORDERED | WITH_DEADLINE) != RECORD {
            return Err(WireError::UnknownType(kind));
        }
        let channel = reader.u8()?;
        let submitted_us = reader.u32()?;
        let stream = reader.varint_as("stream")?;
        let number = reader.varint()?;
        let waited_us = reader.varint_as("wait")?;
        let deadline_ms = match kind & WITH_DEADLINE != 0 {
            true => Some(reader.varint_as("deadline")?),
            false => None,
        };
        let total: u32 = reader.varint_as("message length")?;
        let offset: u32 = reader.varint_as("offset")?;
        let ends_outside = offset > total || (offset == total && total > 0);
        if total as usize > limits::MESSAGE_BYTES || ends_outside {
            return Err(WireError::Invalid("message length"));
        }
        let ordered = kind & ORDERED != 0;
        Ok(Self {
            channel,
            stream,
            ordered,
            number,
            submitted_us,
            waited_us,
            deadline_ms,
            total,
            offset,
        })
    }
}

/// Walks the records of a decoded symbol; ends after the first error.
#[derive(Clone, Debug)]
pub(super) struct Records<'a> {
    reader: Reader<'a>,
}

impl<'a> Records<'a> {
    /// Starts at the front of a symbol, filled up or not.
    pub(super) fn new(symbol: &'a [u8]) -> Self {
        Self { reader: Reader::new(symbol) }
    }

    fn read(&mut self) -> Result<(Record, &'a [u8]), WireError> {
        let record = Record::decode(&mut self.reader)?;
        let piece = (record.total - record.offset) as usize;
        let bytes = self.reader.take(piece.min(self.reader.len()))?;
        Ok((record, bytes))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(Record, &'a [u8]), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() || self.reader.starts_with_zero() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(read)
    }
}
