//! The elastic window: one window of symbols for all streams, trimmed by what the peer has decoded.
//!
//! [`Sender`] keeps every symbol until feedback says that it is known at the other end, and decides
//! what else is sent: repair symbols, and symbols again. How much repair is `redundancy.rs`, which
//! path brings a symbol sooner `detour.rs`, what is sent when nothing gets through `silence.rs`.
//! [`Receiver`] decodes and says what is missing.
//!
//! *Deviations from \[LRT\]*:
//! 1. One window without coder boundaries, at which protection would drop; memory is bounded by
//!    what is acknowledged.
//! 2. Feedback names missing symbols, so that repair symbols do not pay for a rank above the loss.
//! 3. The rate is the congestion controller's: a bucket between src · (1 + r) and Bw · β needs a
//!    bandwidth that nobody knows.
//! 4. Records carry place and length, so that streams and unordered messages do not wait for
//!    symbols of others.

mod detour;
mod receiver;
mod redundancy;
mod sender;
mod silence;

use units::{Duration, Instant};

use super::{Divider, Feedback, Form, FormCounters, Offer, SymbolFrame};
use crate::ids::PathId;
use crate::limits;
use crate::memory::Held;
use crate::path::PathSnapshot;
use crate::wire::{Frame, RepairFrame, SourceFrame};
use receiver::Receiver;
pub use redundancy::ElasticRedundancy;
use sender::Sender;

/// Bytes that a coder takes even where there is no room: so many symbols leave in a round trip
/// then.
const LEAST_CODER: usize = 24 * limits::SYMBOL_BYTES;
/// How often each end gives back the memory that its window has not needed lately. So the receiver
/// keeps what the sender has trimmed for at least as long, and less than twice as long: beyond the
/// time by which one path is slower than another, whose repair symbols may still contain it.
const GIVEN_BACK_EACH: Duration = Duration::from_secs(1);
/// By how much the time of an answer may vary, whatever was measured: it may come so much earlier
/// than the smoothed round-trip time, and so much later before it is overdue.
const VARIATION: Duration = Duration::from_millis(2);

/// The elastic window as a form of message delivery.
#[derive(Debug)]
pub(super) struct Elastic {
    sender: Sender,
    receiver: Receiver,
}

impl Elastic {
    /// Starts with empty windows.
    pub(super) fn new(key: u64, redundancy: ElasticRedundancy) -> Self {
        Self { sender: Sender::new(key, redundancy), receiver: Receiver::new(key) }
    }
}

impl Form for Elastic {
    fn wants(&self, divider: &Divider) -> bool {
        self.sender.wants(divider)
    }

    fn poll_symbol(
        &mut self,
        now: Instant,
        offer: &Offer<'_>,
        room: usize,
        divider: &mut Divider,
    ) -> Option<SymbolFrame<'_>> {
        self.sender.poll_symbol(now, offer, room, divider)
    }

    fn follows_paths(&self) -> bool {
        self.sender.follows_paths()
    }

    fn follow_paths(&mut self, now: Instant, paths: &[PathSnapshot]) {
        self.sender.follow_paths(now, paths);
    }

    fn on_acked(&mut self, path: PathId) {
        self.sender.on_acked(path);
    }

    fn on_lost(&mut self, path: PathId, congested: bool) {
        self.sender.on_lost(path, congested);
    }

    fn handle_feedback(
        &mut self,
        now: Instant,
        feedback: Feedback<'_>,
        paths: &[PathSnapshot],
    ) -> bool {
        match feedback {
            Feedback::Window(feedback) => self.sender.handle_feedback(now, feedback, paths),
            Feedback::Rank(_) => false,
        }
    }

    fn handle_source(&mut self, now: Instant, frame: &SourceFrame<'_>) -> bool {
        self.receiver.handle_source(now, frame)
    }

    fn handle_repair(&mut self, now: Instant, frame: &RepairFrame<'_>) -> bool {
        self.receiver.handle_repair(now, frame)
    }

    fn poll_decoded(&mut self) -> Option<(Vec<u8>, bool)> {
        self.receiver.poll_decoded()
    }

    fn is_next(&self, frame: &SourceFrame<'_>) -> bool {
        self.receiver.is_next(frame.id)
    }

    fn on_refused(&mut self, now: Instant, end: u64) {
        self.receiver.on_refused(now, end);
    }

    fn may_decode(&self) -> usize {
        self.receiver.may_decode()
    }

    fn held(&self) -> Held {
        Held { ours: self.sender.held(), theirs: self.receiver.held() }
    }

    fn set_room(&mut self, ours: usize, theirs: usize) {
        self.sender.set_room(ours);
        self.receiver.set_room(theirs);
    }

    fn feedback_is_due(&self, now: Instant, path: PathId) -> bool {
        self.receiver.feedback_is_due(now, path)
    }

    fn poll_feedback(&mut self, path: PathId, room: usize) -> Option<Frame<'static>> {
        self.receiver.poll_feedback(path, room)
    }

    fn timeout(&self) -> Option<Instant> {
        self.sender.timeout().into_iter().chain(self.receiver.timeout()).min()
    }

    fn handle_timeout(&mut self, now: Instant, probe: Duration) {
        self.sender.handle_timeout(now, probe);
        self.receiver.handle_timeout(now);
    }

    fn counters(&self) -> FormCounters {
        let (sent, received) = (self.sender.counters(), self.receiver.counters());
        FormCounters {
            received: received.received,
            decoded: received.decoded,
            redundant: received.redundant,
            ..sent
        }
    }
}
