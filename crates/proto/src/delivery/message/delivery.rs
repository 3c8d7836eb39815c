//! Messages as a delivery: symbols and feedback, and when they have a path's turn.
//!
//! A symbol leaves in a datagram of its own: what follows it, its repair first, has the next one.
//! The scheduler says which path is the best for new symbols, the path's congestion controller how
//! many may leave; which symbol goes is the form's decision.

use units::{Duration, Instant};

use super::{Feedback, Messages, Offer};
use crate::delivery::{
    self, Builder, Delivered, Delivery, Incoming, Loss, Outlook, Taken, Waiting,
};
use crate::event::Event;
use crate::limits;
use crate::memory::{Held, Room};
use crate::path::Path;
use crate::recovery::{Mark, Receipt};
use crate::schedule::Decision;
use crate::select::{Class, Tier};
use crate::status::SessionStatus;
use crate::wire::Frame;

/// Bytes of messages that may leave at once on a path without a queue, whatever its window is.
const AT_ONCE: usize = 4 * limits::SYMBOL_BYTES;
/// Bytes of messages that wait, beyond which they are a transfer: what 2 Mbit/s pile up in 200 ms
/// without a link.
const LONG: usize = 48 << 10;
/// Marks a symbol: which one does not matter, feedback says what is missing.
const SYMBOL: Mark = Mark { kind: 0, numbers: [0; 2] };

impl Delivery for Messages {
    fn handle_frame(&mut self, incoming: &Incoming<'_>, frame: &Frame<'_>) -> Taken {
        let (now, clock) = (incoming.now, &incoming.clock);
        let feedback = match frame {
            Frame::Source(source) => return self.handle_source(now, source, clock),
            Frame::Repair(repair) => return self.handle_repair(now, repair, clock),
            Frame::Feedback(feedback) => Feedback::Window(feedback),
            Frame::Rank(rank) => Feedback::Rank(*rank),
            _ => return Taken::NotMine,
        };
        let paths = incoming.paths.shown_for(now, Tier::Message);
        Taken::from(self.handle_feedback(now, feedback, &paths))
    }

    fn waiting(&self) -> Waiting {
        Waiting { alone: self.form.wants(&self.divider), ..Waiting::default() }
    }

    /// Feedback leaves alone where it is due; a path that has been silent for long gets it with its
    /// probes alone.
    fn waiting_for(&self, now: Instant, path: &Path) -> Waiting {
        let heard = path.last_received_at().is_some_and(|at| now.since(at) < limits::LONGEST_BURST);
        let along =
            heard && path.serves(Tier::Message) && self.form.feedback_is_due(now, path.id());
        Waiting { along, ..Waiting::default() }
    }

    /// Adds one symbol if the form has one for the path.
    fn poll_alone(&mut self, offer: &mut delivery::Offer<'_>, datagram: &mut Builder<'_>) {
        let (now, path) = (offer.turn.now, offer.turn.path);
        // A long transfer is bulk to control, and where bulk waits there is enough on the way.
        let as_bulk = self.divider.bytes() > LONG || offer.waiting.bulk;
        let budget = if as_bulk { path.bulk_budget(now) } else { path.message_budget(now) };
        let has_budget = budget > 0;
        // What an application hands in now and then is never paced on an idle path; a backlog is,
        // and drips into silence: what gets through first ends it, and a stalled radio keeps it
        // all.
        let now_and_then = self.divider.bytes() <= AT_ONCE;
        let may_exceed =
            path.may_exceed(now) && (now_and_then || path.may_drip(now, AT_ONCE as u64));
        if !has_budget && !may_exceed {
            return;
        }
        let view = offer.view(self.divider.bytes(), limits::SYMBOL_BYTES);
        let is_best = offer.scheduler.offer_symbol(&view, path.id()) == Decision::Send;
        let form_offer = Offer { path: path.id(), is_best, has_budget, paths: offer.snapshots };
        let (room, divider) = (datagram.room(), &mut self.divider);
        let Some(symbol) = self.form.poll_symbol(now, &form_offer, room, divider) else { return };
        if datagram.push(&symbol.frame()) {
            datagram.note(SYMBOL);
            datagram.bulk = true;
            offer.accounts.of(Class::Message).copies_sent += 1;
        }
    }

    /// Adds what the peer's sender is to be told.
    fn poll_along(&mut self, path: &Path, datagram: &mut Builder<'_>) {
        while path.serves(Tier::Message)
            && let Some(frame) = self.form.poll_feedback(path.id(), datagram.room())
        {
            datagram.push(&frame);
        }
    }

    fn on_acked(&mut self, _mark: Mark, receipt: &Receipt) {
        self.form.on_acked(receipt.path);
    }

    fn on_lost(&mut self, _mark: Mark, loss: &Loss<'_>) {
        self.form.on_lost(loss.path, loss.congested);
    }

    fn set_paths(&mut self, outlook: &Outlook<'_>) {
        if self.form.follows_paths() {
            self.form
                .follow_paths(outlook.now, &outlook.paths.shown_for(outlook.now, Tier::Message));
        }
    }

    fn held(&self) -> Held {
        Messages::held(self)
    }

    fn set_room(&mut self, room: &Room) {
        Messages::set_room(self, room);
    }

    fn timeout(&self) -> Option<Instant> {
        self.form.timeout().into_iter().chain(self.reconstruction.timeout()).min()
    }

    fn handle_timeout(&mut self, now: Instant, probe: Duration) {
        self.form.handle_timeout(now, probe);
        self.reconstruction.handle_timeout(now);
    }

    fn poll_delivery(&mut self) -> Option<Delivered> {
        self.reconstruction.poll_delivery()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.divider.poll_room().then_some(Event::RoomForMessages)
    }

    fn show(&self, _now: Instant, status: &mut SessionStatus) {
        status.messages = self.status();
        status.message_streams = self.stream_status();
    }
}
