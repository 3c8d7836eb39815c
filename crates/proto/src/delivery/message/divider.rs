//! Division: messages wait here until a form asks for a symbol [LRT §III-A].
//!
//! A symbol is made at the moment when it leaves. What is left of it after a message is filled with
//! the next message when one waits then, and with zeros when none does: the residual-space rule
//! follows from binding late. Streams take turns, a symbol each, so that a long message does not
//! hold up those of other streams.

use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant};

use super::record::Record;
use super::{MessageOrder, MessageStream};
use crate::limits;

/// A piece of fewer bytes is not worth its head: the rest of the symbol stays empty instead.
const LEAST_PIECE: usize = 16;

/// Names a stream among all channels and both orders.
pub(super) type StreamKey = (u8, u16, bool);

/// Says why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too much waits already.
    Busy,
    /// It is longer than [`limits::MESSAGE_BYTES`].
    TooLarge,
}

/// Says how long a symbol is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divided {
    /// When the last of its messages expires; none where one of them never does.
    pub(crate) expires: Option<Instant>,
}

/// What the sender's half counted, of one stream or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DividerCounters {
    /// Messages handed in.
    pub(crate) submitted: u64,
    /// Messages wholly divided.
    pub(crate) divided: u64,
    /// Messages dropped because their deadline passed before they were divided.
    pub(crate) expired: u64,
    /// Bytes of the messages that wait.
    pub(crate) waiting_bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    offset: usize,
    submitted: Instant,
    waited: Duration,
    deadline: Option<Duration>,
}

#[derive(Debug, Default)]
struct Stream {
    /// The number of the message at the front once a piece of it has left.
    next: u64,
    waiting: VecDeque<Waiting>,
    counters: DividerCounters,
}

/// Keeps messages until they are divided into symbols.
#[derive(Debug)]
pub(crate) struct Divider {
    streams: BTreeMap<StreamKey, Stream>,
    /// Streams with something to send, in the order of their turns.
    turns: VecDeque<StreamKey>,
    bytes: usize,
    messages: usize,
    /// How many bytes more the session may hold.
    room: usize,
    /// A message of so many bytes was refused: tell when there is room again.
    refused: Option<usize>,
}

impl Default for Divider {
    fn default() -> Self {
        let (streams, turns) = (BTreeMap::new(), VecDeque::new());
        Self { streams, turns, bytes: 0, messages: 0, room: usize::MAX, refused: None }
    }
}

impl Divider {
    /// Takes a message in.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        channel: u8,
        stream: MessageStream,
        bytes: &[u8],
    ) -> Result<(), Refused> {
        if bytes.len() > limits::MESSAGE_BYTES {
            return Err(Refused::TooLarge);
        }
        let key = (channel, stream.id, stream.order == MessageOrder::InOrder);
        let no_stream =
            self.streams.len() >= limits::MESSAGE_STREAMS && !self.streams.contains_key(&key);
        if no_stream || !self.has_room(bytes.len()) {
            self.refused = Some(bytes.len());
            return Err(Refused::Busy);
        }
        self.bytes += bytes.len();
        self.messages += 1;
        let state = self.streams.entry(key).or_default();
        state.counters.submitted += 1;
        state.counters.waiting_bytes += bytes.len();
        if state.waiting.is_empty() {
            self.turns.push_back(key);
        }
        state.waiting.push_back(Waiting {
            bytes: bytes.to_vec(),
            offset: 0,
            submitted: now,
            waited: Duration::ZERO,
            deadline: stream.deadline,
        });
        Ok(())
    }

    /// Tells whether as many bytes more may wait.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= limits::QUEUED_MESSAGE_BYTES
            && self.messages < limits::QUEUED_MESSAGES
            && bytes + limits::BESIDE <= self.room
    }

    /// Notes how many bytes more the session may hold.
    pub(super) fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// Returns the bytes that are held.
    pub(super) fn held(&self) -> usize {
        self.bytes + self.messages * limits::BESIDE
    }

    /// Tells whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Returns the bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the next symbol; false when nothing waits.
    pub(crate) fn divide(&mut self, now: Instant, symbol: &mut Vec<u8>) -> Option<Divided> {
        symbol.clear();
        let mut divided: Option<Divided> = None;
        while let Some(&key) = self.turns.front() {
            self.drop_expired(now, key);
            let Some(state) = self.streams.get_mut(&key) else { break };
            let Some(waiting) = state.waiting.front_mut() else {
                self.turns.pop_front();
                continue;
            };
            if waiting.offset == 0 {
                waiting.waited = now.since(waiting.submitted);
            }
            let record = record(key, state.next, waiting);
            let left = waiting.bytes.len() - waiting.offset;
            let room = limits::SYMBOL_BYTES - symbol.len();
            if room < record.encoded_len() + left.min(LEAST_PIECE) {
                break;
            }
            record.encode(symbol);
            let piece = left.min(limits::SYMBOL_BYTES - symbol.len());
            symbol.extend_from_slice(&waiting.bytes[waiting.offset..waiting.offset + piece]);
            waiting.offset += piece;
            let expires = waiting.deadline.map(|deadline| waiting.submitted + deadline);
            let ends = waiting.offset == waiting.bytes.len();
            divided = Some(Divided {
                expires: match divided {
                    None => expires,
                    Some(before) => before.expires.zip(expires).map(|(a, b)| a.max(b)),
                },
            });
            self.end_turn(key, ends);
        }
        divided
    }

    /// Tells once that there is room again after a message was refused.
    pub(crate) fn poll_room(&mut self) -> bool {
        let room = self.bytes <= limits::QUEUED_MESSAGE_BYTES / 2
            && self.messages <= limits::QUEUED_MESSAGES / 2
            && self.refused.is_some_and(|bytes| bytes + limits::BESIDE <= self.room);
        room && self.refused.take().is_some()
    }

    /// Returns what was counted, of all streams together.
    pub(crate) fn counters(&self) -> DividerCounters {
        self.counters_by_stream().fold(DividerCounters::default(), |sum, (_, counters)| {
            DividerCounters {
                submitted: sum.submitted + counters.submitted,
                divided: sum.divided + counters.divided,
                expired: sum.expired + counters.expired,
                waiting_bytes: sum.waiting_bytes + counters.waiting_bytes,
            }
        })
    }

    /// Returns what was counted of each stream.
    pub(super) fn counters_by_stream(&self) -> impl Iterator<Item = (StreamKey, DividerCounters)> {
        self.streams.iter().map(|(key, stream)| (*key, stream.counters))
    }

    /// Passes the turn on after a piece; `ends` when the message is wholly divided.
    fn end_turn(&mut self, key: StreamKey, ends: bool) {
        if ends && let Some(state) = self.remove_front(key, true) {
            state.counters.divided += 1;
        }
        self.turns.pop_front();
        if self.streams.get(&key).is_some_and(|state| !state.waiting.is_empty()) {
            self.turns.push_back(key);
        }
    }

    /// Drops messages at the front of a stream that nobody will want any more.
    fn drop_expired(&mut self, now: Instant, key: StreamKey) {
        while let Some(state) = self.streams.get(&key)
            && let Some(front) = state.waiting.front()
            && front.deadline.is_some_and(|deadline| now.since(front.submitted) > deadline)
        {
            let begun = front.offset > 0;
            if let Some(state) = self.remove_front(key, begun) {
                state.counters.expired += 1;
            }
        }
    }

    /// Takes the front message out; `numbered` when a piece of it has left under its number.
    fn remove_front(&mut self, key: StreamKey, numbered: bool) -> Option<&mut Stream> {
        let state = self.streams.get_mut(&key)?;
        let waiting = state.waiting.pop_front()?;
        self.bytes -= waiting.bytes.len();
        self.messages -= 1;
        state.counters.waiting_bytes -= waiting.bytes.len();
        state.next += u64::from(numbered);
        Some(state)
    }
}

fn record((channel, stream, ordered): StreamKey, number: u64, waiting: &Waiting) -> Record {
    let micros = |duration: Duration| u32::try_from(duration.as_micros()).unwrap_or(u32::MAX);
    let millis = |deadline: Duration| u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX);
    Record {
        channel,
        stream,
        ordered,
        number,
        submitted_us: waiting.submitted.as_micros() as u32,
        waited_us: micros(waiting.waited),
        deadline_ms: waiting.deadline.map(millis),
        total: waiting.bytes.len() as u32,
        offset: waiting.offset as u32,
    }
}
