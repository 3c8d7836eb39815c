//! Message delivery: reliable messages in order that do not wait for a retransmission \[LRT\].
//!
//! ```text
//! submit → Divider ─(when a path has room)→ Form → frames ⇢ frames → Form → Reconstruction → delivery
//!          messages → symbols                code                decode     symbols → messages
//! ```
//! Two forms of the same service stand behind one trait: the elastic window (`elastic/`), and the
//! published protocol (`lrt/`). Division, reconstruction, streams, order, deadlines and
//! back-pressure are common to both. Which path is served, and when, is the session's affair;
//! control never passes through here [specs/message.md].

mod delivery;
mod divider;
mod elastic;
mod form;
mod lrt;
mod pieces;
mod reconstruction;
mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use units::{Duration, Instant};

pub(crate) use divider::{Divider, Refused};
pub use elastic::ElasticRedundancy;
pub(crate) use form::{Feedback, Form, FormCounters, Offer, SymbolFrame};

use crate::delivery::Taken;
use crate::limits;
use crate::memory::{Held, Room, Side};
use crate::path::PathSnapshot;
use crate::recovery::PeerClock;
use crate::rejection::Rejection;
use crate::status::{MessageDelay, MessageStatus, MessageStreamStatus};
use crate::wire::{RepairFrame, SourceFrame};
use divider::StreamKey;
use reconstruction::Reconstruction;

/// Names the form of message delivery; both ends must agree on it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum MessageForm {
    /// One elastic window, redundancy that follows what the paths lose.
    #[default]
    Elastic,
    /// The same with constants of its own, which no configuration sets: for the laboratory.
    Tuned(ElasticRedundancy),
    /// Coders of bounded size at a constant redundancy, as published [LRT §III].
    Lrt {
        /// K: symbols that a coder holds at most.
        k: u16,
        /// r: repair symbols per source symbol.
        redundancy: f64,
        /// β: the share of the bandwidth that messages may use.
        beta: f64,
    },
}

impl MessageForm {
    /// Makes a form in its initial state; `key` is the same at both ends.
    pub(crate) fn form(self, key: u64) -> Box<dyn Form> {
        match self {
            Self::Elastic => Self::Tuned(ElasticRedundancy::default()).form(key),
            Self::Tuned(redundancy) => Box::new(elastic::Elastic::new(key, redundancy)),
            Self::Lrt { k, redundancy, beta } => Box::new(lrt::Lrt::new(key, k, redundancy, beta)),
        }
    }
}

/// Says in which order the messages of a stream are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageOrder {
    /// Each waits for the earlier ones of its stream.
    #[default]
    InOrder,
    /// As they come.
    Unordered,
}

/// Names a stream of messages: those of one stream keep their order, others do not wait for them.
///
/// ```
/// use fulmar_proto::{Duration, MessageOrder, MessageStream};
/// let commands = MessageStream::default();
/// let deadline = Some(Duration::from_millis(150));
/// let video = MessageStream { id: 1, order: MessageOrder::Unordered, deadline };
/// assert_ne!(commands.id, video.id);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MessageStream {
    /// The stream, among those of its channel and order.
    pub id: u16,
    /// Whether its messages keep their order.
    pub order: MessageOrder,
    /// Beyond this age a message is of no use: it is neither sent nor delivered. Without one every
    /// message arrives as long as the session lasts.
    pub deadline: Option<Duration>,
}

/// Sums up the parts of the delay of delivered messages: T = T_div + T_e2e + T_dec + T_rec. The
/// paper's T_enc [LRT eq. 1], the time from division to departure, is zero where a path is bound
/// late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DelayParts {
    pub(crate) messages: u32,
    pub(crate) division: Duration,
    pub(crate) end_to_end: Duration,
    pub(crate) decoding: Duration,
    pub(crate) reconstruction: Duration,
}

impl DelayParts {
    /// Adds what another sum holds.
    pub(crate) fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.division += other.division;
        self.end_to_end += other.end_to_end;
        self.decoding += other.decoding;
        self.reconstruction += other.reconstruction;
    }

    /// Returns the mean over the messages; all zero without one.
    pub(crate) fn mean(&self) -> MessageDelay {
        let mean = |sum: Duration| sum / self.messages.max(1);
        MessageDelay {
            division: mean(self.division),
            end_to_end: mean(self.end_to_end),
            decoding: mean(self.decoding),
            reconstruction: mean(self.reconstruction),
        }
    }
}

/// Both halves of message delivery in one session.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) divider: Divider,
    pub(crate) form: Box<dyn Form>,
    reconstruction: Reconstruction,
    /// How much more of what the peer sends may be held.
    room: Side,
}

/// Bytes that a symbol takes once it is known.
const KNOWN_SYMBOL: usize = limits::SYMBOL_BYTES + limits::BESIDE;
/// A decoder that was of no use for so long keeps nothing for repair symbols that may still come.
pub(crate) const UNUSED: Duration = Duration::from_secs(10);
/// Numbers of symbols above this are nonsense: a sender does not get there in the life of the
/// universe.
pub(crate) const LAST_NUMBER: u64 = 1 << 60;

impl Messages {
    /// Starts with nothing sent and nothing received.
    pub(crate) fn new(form: MessageForm, key: u64) -> Self {
        Self {
            divider: Divider::default(),
            form: form.form(key),
            reconstruction: Reconstruction::default(),
            room: Room::PLENTY.theirs,
        }
    }

    /// Takes a symbol that came in. Where there is no room the peer keeps it, and sends it again;
    /// what nothing is missing before has room longest, so that messages become whole and leave.
    pub(crate) fn handle_source(
        &mut self,
        now: Instant,
        frame: &SourceFrame<'_>,
        clock: &PeerClock<'_>,
    ) -> Taken {
        let (ahead, in_turn) = (self.room.for_loss(), self.room.for_messages());
        let room = if self.form.is_next(frame) { in_turn } else { ahead };
        let taken = self.has_room(room) && self.form.handle_source(now, frame);
        self.reconstruct(now, clock);
        self.taken(now, taken, frame.id.saturating_add(1))
    }

    /// Takes a combination that came in, if there is room.
    pub(crate) fn handle_repair(
        &mut self,
        now: Instant,
        frame: &RepairFrame<'_>,
        clock: &PeerClock<'_>,
    ) -> Taken {
        let taken = self.has_room(self.room.for_loss()) && self.form.handle_repair(now, frame);
        self.reconstruct(now, clock);
        self.taken(now, taken, frame.first.saturating_add(frame.count.into()))
    }

    /// Takes feedback; false when it makes no sense.
    pub(crate) fn handle_feedback(
        &mut self,
        now: Instant,
        feedback: Feedback<'_>,
        paths: &[PathSnapshot],
    ) -> bool {
        self.form.handle_feedback(now, feedback, paths)
    }

    /// Shows what was sent and received.
    fn status(&self) -> MessageStatus {
        let (sent, form) = (self.divider.counters(), self.form.counters());
        let received = self.reconstruction.counters();
        MessageStatus {
            submitted: sent.submitted,
            expired: sent.expired,
            waiting_bytes: self.divider.bytes(),
            source_symbols: form.source,
            repair_symbols: form.repair,
            resent_symbols: form.resent,
            given_up_symbols: form.given_up,
            received_symbols: form.received,
            decoded_symbols: form.decoded,
            redundant_symbols: form.redundant,
            delivered: received.delivered,
            late: received.late,
            refused: received.refused,
            delay: self.reconstruction.parts().mean(),
        }
    }

    /// Shows each stream: what it has sent from here, and what it has delivered here.
    fn stream_status(&self) -> Vec<MessageStreamStatus> {
        let mut rows: BTreeMap<StreamKey, MessageStreamStatus> = BTreeMap::new();
        for (key, sent) in self.divider.counters_by_stream() {
            let row = rows.entry(key).or_insert_with(|| stream_row(key));
            row.submitted = sent.submitted;
            row.sent = sent.divided;
            row.expired = sent.expired;
            row.waiting_bytes = sent.waiting_bytes;
        }
        for (key, parts, late) in self.reconstruction.by_stream() {
            let row = rows.entry(key).or_insert_with(|| stream_row(key));
            row.delivered = parts.messages.into();
            row.late = late;
            row.delay = parts.mean();
        }
        rows.into_values().collect()
    }

    /// Takes a decoded symbol of any bytes.
    #[cfg(any(test, fuzzing, feature = "doors"))]
    pub(crate) fn reconstruct_symbol(
        &mut self,
        now: Instant,
        symbol: &[u8],
        clock: &PeerClock<'_>,
    ) {
        self.reconstruction.handle_symbol(now, symbol, false, clock);
    }

    /// Returns the bytes and messages that wait for pieces or for earlier messages.
    #[cfg(any(test, fuzzing, feature = "doors"))]
    pub(crate) fn waits(&self) -> (usize, usize) {
        self.reconstruction.held()
    }

    fn held(&self) -> Held {
        let (bytes, messages) = self.reconstruction.held();
        let theirs = bytes + messages * limits::BESIDE;
        self.form.held().and(Held { ours: self.divider.held(), theirs })
    }

    fn set_room(&mut self, room: &Room) {
        self.divider.set_room(room.ours.for_messages());
        // A queue that fills the room empties through the coder, so that has all there is.
        self.form.set_room(room.ours.for_control(), room.theirs.for_loss());
        self.room = room.theirs;
    }

    /// Tells whether `room` holds what one symbol can make known.
    fn has_room(&self, room: usize) -> bool {
        self.room == Room::PLENTY.theirs || room >= self.form.may_decode() * KNOWN_SYMBOL
    }

    /// Says what became of a symbol, of those below `end`: where memory is short there may have
    /// been none for it.
    fn taken(&mut self, now: Instant, taken: bool, end: u64) -> Taken {
        if taken || self.room == Room::PLENTY.theirs {
            return Taken::from(taken);
        }
        self.form.on_refused(now, end);
        Taken::Rejected(Rejection::BeyondBound)
    }

    fn reconstruct(&mut self, now: Instant, clock: &PeerClock<'_>) {
        while let Some((symbol, decoded)) = self.form.poll_decoded() {
            self.reconstruction.handle_symbol(now, &symbol, decoded, clock);
        }
    }
}

/// Returns the row of a stream by which nothing has gone yet.
fn stream_row((channel, stream, ordered): StreamKey) -> MessageStreamStatus {
    let order = if ordered { MessageOrder::InOrder } else { MessageOrder::Unordered };
    MessageStreamStatus { channel, stream, order, ..MessageStreamStatus::default() }
}
