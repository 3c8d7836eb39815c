//! Message delivery in a session: handing in, and symbols and feedback on their way out.
//!
//! A symbol leaves in a datagram of its own: what follows it, its repair first, has the next one.
//! The scheduler says which path is the best for new symbols, the path's congestion controller how
//! many may leave; which symbol goes is the form's decision.

use units::{Duration, Instant};

use super::build::Builder;
use super::outbound::FRAME_OVERHEAD;
use super::{SendError, Session};
use crate::delivery::control::{Outbox, Reception, Rejected, Submission};
use crate::delivery::message::{MessageOrder, MessageStream, Offer, Refused};
use crate::event::{MessageId, PathState};
use crate::ids::PathId;
use crate::limits;
use crate::path::{Path, PathSnapshot};
use crate::recovery::SentFrame;
use crate::schedule::{Decision, ScheduleView};
use crate::select::{Class, Order, Tier};
use crate::wire::{Frame, Frames};

/// How long feedback is waited for while no path is known to work.
const PATIENCE: Duration = Duration::from_millis(200);
/// Bytes of messages that may leave at once on a path without a queue, whatever its window is.
const AT_ONCE: usize = 4 * limits::SYMBOL_BYTES;
/// Bytes of messages that wait, beyond which they are a transfer: what 2 Mbit/s pile up in 200 ms without a
/// link.
const LONG: usize = 48 << 10;
/// By which stream the messages of sequenced lanes go: one of the tunnel's channel, where no application has
/// streams, so that they leave in the order in which they came.
pub(super) const LANES_CHANNEL: u8 = 0;
pub(super) const LANES_STREAM: MessageStream = MessageStream {
    id: u16::MAX,
    order: MessageOrder::Unordered,
    deadline: Some(Outbox::CARRIED_LIFE),
};

impl Session {
    pub(super) fn send_message(
        &mut self,
        now: Instant,
        channel: u8,
        stream: MessageStream,
        bytes: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        self.accounts.of(Class::Message).submitted += 1;
        self.messages.divider.submit(now, channel, stream, bytes).map_err(|refused| {
            self.accounts.of(Class::Message).dropped += 1;
            match refused {
                Refused::Busy => SendError::Busy,
                Refused::TooLarge => SendError::TooLarge { limit: limits::MESSAGE_BYTES },
            }
        })?;
        Ok(None)
    }

    /// Sends a message of a sequenced lane: by message delivery, and what is control also as ever.
    pub(super) fn send_carried(
        &mut self,
        now: Instant,
        submission: Submission,
    ) -> Result<Option<MessageId>, SendError> {
        let class = submission.policy.class;
        self.accounts.of(class).submitted += 1;
        let has_room = self.messages.divider.has_room(submission.payload.len() + FRAME_OVERHEAD);
        let mut carried = Vec::with_capacity(submission.payload.len() + FRAME_OVERHEAD);
        let sent = if has_room || class.tier() == Tier::Control {
            self.outbox.submit_carried(now, submission, &mut carried)
        } else {
            Err(Rejected::Busy)
        };
        if sent.is_err() {
            self.accounts.of(class).dropped += 1;
        } else if has_room {
            // Whatever is refused all the same is a loss like others: the lane gives it up.
            let _ = self.messages.divider.submit(now, LANES_CHANNEL, LANES_STREAM, &carried);
        }
        sent.map_err(|Rejected::Busy| SendError::Busy)
    }

    /// Takes in what [`Session::send_carried`] handed to message delivery at the other end.
    pub(super) fn handle_carried(&mut self, now: Instant, bytes: &[u8]) {
        let taken = match Frames::new(bytes).next() {
            Some(Ok(Frame::Control(control))) if control.order == Order::Sequenced => {
                let age = self.message_age(now, control.submitted_us);
                self.inbox.handle_carried(now, &control, age) != Reception::Refused
            }
            _ => false,
        };
        self.rejected += u64::from(!taken);
    }

    /// Tells whether message delivery may have something for the path.
    pub(super) fn wants_symbol(&self, id: PathId) -> bool {
        self.messages.form.wants(id, &self.messages.divider)
    }

    /// Adds one symbol if the form has one for the path.
    pub(super) fn add_symbol(
        &mut self,
        now: Instant,
        index: usize,
        snapshots: &[PathSnapshot],
        datagram: &mut Builder<'_>,
    ) {
        let path = &self.paths[index];
        if self.is_blocked(path) {
            return;
        }
        // A long transfer is bulk to control, and where bulk waits there is enough on the way.
        let as_bulk = self.messages.divider.bytes() > LONG || !self.bulk.is_empty();
        let budget = if as_bulk { path.bulk_budget(now) } else { path.message_budget(now) };
        let has_budget = budget > 0;
        // What an application hands in now and then is never paced on an idle path; a backlog is, and
        // drips into silence: what gets through first ends it, and a stalled radio keeps it all.
        let now_and_then = self.messages.divider.bytes() <= AT_ONCE;
        let may_exceed = path.may_exceed() && (now_and_then || path.may_drip(AT_ONCE as u64));
        if !has_budget && !may_exceed {
            return;
        }
        let id = path.id();
        let offer = Offer {
            path: id,
            is_best: self.is_best(now, id, snapshots),
            has_budget,
            paths: snapshots,
        };
        let (room, divider) = (datagram.room(), &mut self.messages.divider);
        let Some(symbol) = self.messages.form.poll_symbol(now, &offer, room, divider) else {
            return;
        };
        let name = symbol.name();
        if datagram.push(&symbol.frame()) {
            datagram.note(SentFrame::Symbol(name));
            datagram.bulk = true;
            self.accounts.of(Class::Message).copies_sent += 1;
        }
    }

    /// Tells whether feedback must leave on the path now although nothing else does. A path that has
    /// been silent for long gets it with its probes alone.
    pub(super) fn feedback_is_due(&self, now: Instant, index: usize) -> bool {
        let path = &self.paths[index];
        let heard = path.last_received_at().is_some_and(|at| now.since(at) < limits::LONGEST_BURST);
        heard && self.messages.form.feedback_is_due(now, path.id())
    }

    /// Adds what the peer's sender is to be told.
    pub(super) fn add_feedback(&mut self, now: Instant, id: PathId, datagram: &mut Builder<'_>) {
        while let Some(frame) = self.messages.form.poll_feedback(now, id, datagram.room()) {
            datagram.push(&frame);
        }
    }

    /// Returns the time after which an answer of the best path is overdue.
    pub(super) fn probe_timeout(&self) -> Duration {
        let active = self.paths.iter().filter(|path| path.state() == PathState::Active);
        active.map(Path::probe_timeout).min().unwrap_or(PATIENCE)
    }

    /// Tells whether the scheduler gives new symbols to the path.
    fn is_best(&self, now: Instant, id: PathId, snapshots: &[PathSnapshot]) -> bool {
        let backlog = self.messages.divider.bytes() as u64;
        let view = ScheduleView { paths: snapshots, now, backlog, packet: limits::SYMBOL_BYTES };
        self.scheduler.offer_symbol(&view, id) == Decision::Send
    }
}
