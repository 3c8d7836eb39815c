//! Reconstruction: decoded symbols become messages again, in the order of their streams.
//!
//! ```text
//! piece of a message below the stream's next number → dropped
//! whole, no order                                   → ready, unless too late
//! whole, in order, number = next                    → ready, and what waited for it
//! whole, in order, number > next                    → held until the gap closes or its own
//!                                                     deadline is near: then the gap is given up
//! not whole at its deadline                         → dropped; in order, nothing waits for it
//! ```
//! Ages are the likely ones: a deadline here is about use, not safety, so what may be too late by
//! the error of the clock offset is delivered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use units::{Duration, Instant};

use super::DelayParts;
use super::divider::StreamKey;
use super::pieces::Pieces;
use super::record::{Record, Records};
use crate::delivery::{Delivered, RELEASE_AHEAD};
use crate::limits;
use crate::recovery::PeerClock;
use crate::select::Class;

/// Late messages that are remembered, so that the rest of their pieces does not count again: the
/// pieces of one arrive within a few round trips.
const REMEMBERED_LATE: usize = 64;

/// What the receiver's half counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReconstructionCounters {
    /// Messages delivered.
    pub(crate) delivered: u64,
    /// Messages dropped because they came too late, or not whole by their deadline.
    pub(crate) late: u64,
    /// Pieces that made no sense or were beyond the bounds.
    pub(crate) refused: u64,
}

#[derive(Debug)]
struct Partial {
    channel: u8,
    waited: Duration,
    pieces: Pieces,
    /// When nobody wants it any more.
    expires: Option<Instant>,
    /// When its last piece came, its age then, and whether that piece was decoded.
    complete: Option<(Instant, Duration, bool)>,
}

#[derive(Debug, Default)]
struct Stream {
    /// The number that is delivered next, where there is an order.
    next: u64,
    messages: BTreeMap<u64, Partial>,
    parts: DelayParts,
    late: u64,
}

/// Puts messages together and in order.
#[derive(Debug, Default)]
pub(crate) struct Reconstruction {
    streams: BTreeMap<StreamKey, Stream>,
    /// When messages stop waiting: for their pieces, or for earlier ones.
    releases: BTreeSet<(Instant, StreamKey, u64)>,
    held_bytes: usize,
    held: usize,
    ready: VecDeque<Delivered>,
    /// The usual time from division to arrival of symbols that were not decoded.
    usual: Option<Duration>,
    /// The latest of the messages that were late.
    recently_late: VecDeque<(StreamKey, u64)>,
    refused: u64,
}

impl Reconstruction {
    /// Takes a symbol; `decoded` when it did not come in as it was divided.
    pub(crate) fn handle_symbol(
        &mut self,
        now: Instant,
        symbol: &[u8],
        decoded: bool,
        clock: &PeerClock<'_>,
    ) {
        self.handle_timeout(now);
        for record in Records::new(symbol) {
            let taken = record.is_ok_and(|(record, piece)| {
                let age = clock.age(now, record.submitted_us).estimate;
                self.handle_piece(now, &record, piece, decoded, age)
            });
            self.refused += u64::from(!taken);
        }
    }

    /// Returns the next message for the application.
    pub(crate) fn poll_delivery(&mut self) -> Option<Delivered> {
        self.ready.pop_front()
    }

    /// Returns when [`Reconstruction::handle_timeout`] wants to be called.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.releases.first().map(|(at, ..)| *at)
    }

    /// Ends the wait of what has waited long enough.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, key, number)) = self.releases.first() {
            if at > now {
                break;
            }
            self.releases.pop_first();
            let Some(stream) = self.streams.get_mut(&key) else { continue };
            let whole = stream.messages.get(&number).is_some_and(|held| held.complete.is_some());
            if !whole {
                self.drop_late(key, number);
            }
            if key.2 {
                self.raise(now, key, if whole { number } else { number + 1 });
            }
        }
    }

    /// Returns what was counted.
    pub(crate) fn counters(&self) -> ReconstructionCounters {
        let of_streams = |count: fn(&Stream) -> u64| self.streams.values().map(count).sum();
        ReconstructionCounters {
            delivered: of_streams(|stream| stream.parts.messages.into()),
            late: of_streams(|stream| stream.late),
            refused: self.refused,
        }
    }

    /// Returns the parts of the delay of what was delivered, of all streams together.
    pub(crate) fn parts(&self) -> DelayParts {
        self.streams.values().fold(DelayParts::default(), |mut sum, stream| {
            sum.add(&stream.parts);
            sum
        })
    }

    /// Returns of each stream the parts of the delay of what it delivered, and how many of its
    /// messages were late.
    pub(crate) fn by_stream(&self) -> impl Iterator<Item = (StreamKey, &DelayParts, u64)> {
        self.streams.iter().map(|(key, stream)| (*key, &stream.parts, stream.late))
    }

    /// Returns the bytes and messages that wait.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.held_bytes, self.held)
    }

    fn handle_piece(
        &mut self,
        now: Instant,
        record: &Record,
        piece: &[u8],
        decoded: bool,
        age: Duration,
    ) -> bool {
        let key = (record.channel, record.stream, record.ordered);
        if self.streams.len() >= limits::MESSAGE_STREAMS && !self.streams.contains_key(&key) {
            return false;
        }
        let stream = self.streams.entry(key).or_default();
        if record.ordered && record.number < stream.next {
            return true;
        }
        if !stream.messages.contains_key(&record.number) {
            let left = record.deadline().map(|deadline| deadline.saturating_sub(age));
            if left.is_some_and(|left| left.is_zero()) {
                // Too late already: in order, nothing waits for it either.
                self.drop_late(key, record.number);
                if record.ordered {
                    self.raise(now, key, record.number + 1);
                }
                return true;
            }
            if !self.begin(now, key, record, left) {
                return false;
            }
        }
        let stream = self.streams.entry(key).or_default();
        let Some(partial) = stream.messages.get_mut(&record.number) else { return false };
        if partial.complete.is_some() {
            return true;
        }
        let before = partial.pieces.held();
        if partial.pieces.total() != record.total as usize
            || self.held_bytes + piece.len() > limits::HELD_MESSAGE_BYTES
            || !partial.pieces.insert(record.offset as usize, piece)
        {
            return false;
        }
        self.held_bytes = self.held_bytes + partial.pieces.held() - before;
        if partial.pieces.is_complete() {
            partial.complete = Some((now, age, decoded));
            if record.ordered {
                self.pass_on_due(now, key);
            } else {
                self.pass_on(now, key, record.number);
            }
        }
        true
    }

    /// Begins a message; false when that would be beyond the bounds.
    fn begin(
        &mut self,
        now: Instant,
        key: StreamKey,
        record: &Record,
        left: Option<Duration>,
    ) -> bool {
        if self.held >= limits::HELD_WINDOW_MESSAGES {
            return false;
        }
        let expires = left.map(|left| now + left.saturating_sub(RELEASE_AHEAD));
        if let Some(at) = expires {
            self.releases.insert((at, key, record.number));
        }
        self.held += 1;
        let partial = Partial {
            channel: record.channel,
            waited: Duration::from_micros(record.waited_us.into()),
            pieces: Pieces::new(record.total as usize),
            expires,
            complete: None,
        };
        self.streams.entry(key).or_default().messages.insert(record.number, partial);
        true
    }

    /// Stops waiting in an ordered stream for numbers below `next`.
    fn raise(&mut self, now: Instant, key: StreamKey, next: u64) {
        loop {
            let Some(stream) = self.streams.get_mut(&key) else { return };
            let Some((&number, held)) = stream.messages.first_key_value() else { break };
            if number >= next {
                break;
            }
            if held.complete.is_some() {
                self.pass_on(now, key, number);
            } else {
                self.drop_late(key, number);
            }
        }
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.next = stream.next.max(next);
        }
        self.pass_on_due(now, key);
    }

    /// Passes on what nothing stands before any more.
    fn pass_on_due(&mut self, now: Instant, key: StreamKey) {
        while let Some(stream) = self.streams.get_mut(&key)
            && let Some(first) = stream.messages.get(&stream.next)
            && first.complete.is_some()
        {
            let number = stream.next;
            stream.next += 1;
            self.pass_on(now, key, number);
        }
    }

    fn pass_on(&mut self, now: Instant, key: StreamKey, number: u64) {
        let Some(partial) = self.remove(key, number) else { return };
        let Some((complete_at, age, decoded)) = partial.complete else { return };
        let transit = age.saturating_sub(partial.waited);
        let usual = self.usual.unwrap_or(transit);
        let end_to_end = if decoded { transit.min(usual) } else { transit };
        if !decoded {
            self.usual = Some((usual * 15 + transit) / 16);
        }
        let held = now.since(complete_at);
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.parts.add(&DelayParts {
                messages: 1,
                division: partial.waited,
                end_to_end,
                decoding: transit - end_to_end,
                reconstruction: held,
            });
        }
        self.ready.push_back(Delivered {
            channel: partial.channel,
            class: Class::Message,
            stream: Some(key.1),
            age: age + held,
            life: partial.expires.map(|at| (at + RELEASE_AHEAD).since(now)),
            payload: partial.pieces.into_bytes(),
        });
    }

    /// Drops what is held of a message that nobody wants any more, and counts it once.
    fn drop_late(&mut self, key: StreamKey, number: u64) {
        self.remove(key, number);
        let name = (key, number);
        if self.recently_late.contains(&name) {
            return;
        }
        if self.recently_late.len() >= REMEMBERED_LATE {
            self.recently_late.pop_front();
        }
        self.recently_late.push_back(name);
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.late += 1;
        }
    }

    fn remove(&mut self, key: StreamKey, number: u64) -> Option<Partial> {
        let partial = self.streams.get_mut(&key)?.messages.remove(&number)?;
        self.held -= 1;
        self.held_bytes -= partial.pieces.held();
        if let Some(at) = partial.expires {
            self.releases.remove(&(at, key, number));
        }
        Some(partial)
    }
}
