//! Control as a delivery: both halves, and when they have a path's turn.

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::{ControlPath, Inbox, LaneFloor, Outbox, Reception};
use crate::delivery::{
    Builder, Delivered, Delivery, Incoming, Loss, Offer, Outlook, Taken, Turn, Waiting,
};
use crate::event::Event;
use crate::ids::PathId;
use crate::limits;
use crate::memory::{Held, Room};
use crate::path::{CopyRoom, PATIENCE_WITHOUT_PATH, Path};
use crate::recovery::{Age, Mark, Receipt};
use crate::rejection::Rejection;
use crate::schedule::control_order;
use crate::select::{Reliability, Tier};
use crate::status::SessionStatus;
use crate::wire::{self, CONTROL_OVERHEAD, ControlFrame, Frame};

/// Plans are told at most this often what is known of the paths, beside their changes: what an
/// acknowledgement changes is less than this.
const REFRESH: Duration = Duration::from_millis(5);
/// Bytes that a message may have for the schedulers' question whether a path has room for it.
const MESSAGE_GUESS: usize = 300;
/// The tiers of messages that are not control.
const OTHERS: [Tier; 2] = [Tier::Telemetry, Tier::Message];
/// Marks a copy of the message with a session-wide number.
const COPY: u8 = 0;
/// Marks the floor of a lane: lane, number.
const FLOOR: u8 = 1;
/// Marks the list of messages that were not passed on, as it was after so many changes.
const DROPPED: u8 = 2;

/// Both halves of control delivery in one session.
#[derive(Debug)]
pub(crate) struct Control {
    pub(in crate::delivery) outbox: Outbox,
    inbox: Inbox,
    /// When the outbox was told last what is known of the paths.
    refreshed: Option<Instant>,
}

impl Control {
    /// Starts with nothing sent and nothing received; `seed` is for what plans draw.
    pub(crate) fn new(reliability: &Reliability, seed: u64) -> Self {
        Self { outbox: Outbox::new(reliability, seed), inbox: Inbox::new(), refreshed: None }
    }

    /// Takes in what message delivery carried; false when it makes no sense.
    pub(crate) fn handle_carried(
        &mut self,
        now: Instant,
        frame: &ControlFrame<'_>,
        age: Age,
    ) -> bool {
        self.inbox.handle_carried(now, frame, age) != Reception::Refused
    }

    /// Adds one copy of a message of `tier` if one waits for the path and fits.
    fn add_copy(
        &mut self,
        now: Instant,
        id: PathId,
        tier: Tier,
        room: CopyRoom,
        datagram: &mut Builder<'_>,
    ) -> bool {
        let ahead = datagram.len() + CONTROL_OVERHEAD + limits::IP_AND_UDP as usize;
        let transit = room.transit + room.rate.transmission_time(ahead);
        let room =
            CopyRoom { transit, ..room.within(datagram.room().saturating_sub(CONTROL_OVERHEAD)) };
        let rides = room.ride > 0 && self.outbox.pending.has_rides(id);
        if !rides && (room.is_none() || !self.outbox.wants(id, tier)) {
            return false;
        }
        let Some((seq, frame)) = self.outbox.poll(now, id, tier, room) else { return false };
        datagram.push(&Frame::Control(frame));
        datagram.note(Mark { kind: COPY, numbers: [seq, 0] });
        datagram.may_wait &= self.outbox.answer_may_wait(seq);
        true
    }
}

impl Delivery for Control {
    fn handle_frame(&mut self, incoming: &Incoming<'_>, frame: &Frame<'_>) -> Taken {
        let now = incoming.now;
        match frame {
            Frame::Control(control) => {
                let age = incoming.clock.age(now, control.submitted_us);
                if self.inbox.handle_control(now, control, age) == Reception::Refused {
                    return Taken::Rejected(Rejection::BeyondBound);
                }
            }
            Frame::LaneFloor { lane, floor } => {
                self.inbox.handle_floor(now, LaneFloor { lane: *lane, floor: *floor });
            }
            Frame::Dropped(dropped) => self.outbox.on_dropped(dropped),
            _ => return Taken::NotMine,
        }
        Taken::Done
    }

    fn waiting_for(&self, _now: Instant, path: &Path) -> Waiting {
        let others = OTHERS.into_iter().filter(|tier| path.serves(*tier));
        let path = path.id();
        Waiting {
            urgent: self.outbox.wants(path, Tier::Control),
            message: self.outbox.wants_others(path, others),
            ..Waiting::default()
        }
    }

    /// Adds which messages were not passed on: no acknowledgement leaves without.
    fn poll_before_ack(&mut self, datagram: &mut Builder<'_>) -> bool {
        if datagram.has_note(DROPPED) {
            return true;
        }
        let Some(room) = datagram.room().checked_sub(wire::ACK_LEAST) else { return false };
        let Some((frame, changes)) = self.inbox.dropped(room) else { return true };
        let fits = room >= wire::DROPPED_LEAST && datagram.push(&Frame::Dropped(frame));
        if fits {
            datagram.note(Mark { kind: DROPPED, numbers: [changes, 0] });
        }
        fits
    }

    /// Adds copies of control and floors of lanes.
    fn poll_urgent(&mut self, turn: &Turn<'_>, datagram: &mut Builder<'_>) {
        let (now, path, id) = (turn.now, turn.path, turn.path.id());
        let mut room = turn.paths.control_room(now, path);
        room.doubt = turn.clock_error;
        let one_repeat = path.may_be_slow(now);
        let most = path.control_datagram(now, self.outbox.is_behind(now, id, Tier::Control));
        datagram.may_wait = path.is_sound_for_control(now) && turn.paths.answers_may_wait(now);
        while datagram.len() < most && self.add_copy(now, id, Tier::Control, room, datagram) {
            datagram.urgent = true;
            room.repeat = if one_repeat { 0 } else { room.repeat };
            // In a datagram that leaves anyway it costs no headers.
            room.newest = room.newest.max(room.fresh);
            room.ride = room.repeat;
        }
        // Copies carry their lane's floor: a floor alone may wait for one.
        while (room.fresh > 0 || datagram.urgent)
            && datagram.room() >= CONTROL_OVERHEAD
            && let Some(LaneFloor { lane, floor }) = self.outbox.poll_floor(now, id)
        {
            datagram.push(&Frame::LaneFloor { lane, floor });
            datagram.may_wait = false;
            datagram.note(Mark { kind: FLOOR, numbers: [lane.into(), floor.into()] });
            datagram.urgent = true;
        }
    }

    /// Adds what is not control: telemetry that is sent again as well, behind that which is not.
    fn poll_tier(&mut self, tier: Tier, offer: &mut Offer<'_>, datagram: &mut Builder<'_>) {
        let (now, id, room) = (offer.turn.now, offer.turn.path.id(), CopyRoom::both(usize::MAX));
        if tier != Tier::Message || !offer.waiting.message {
            return;
        }
        for tier in OTHERS {
            if !offer.turn_to(tier) {
                continue;
            }
            while self.outbox.wants(id, tier)
                && offer.is_for(MESSAGE_GUESS)
                && self.add_copy(now, id, tier, room, datagram)
            {
                datagram.bulk = true;
            }
        }
    }

    fn on_acked(&mut self, mark: Mark, receipt: &Receipt) {
        match (mark.kind, mark.numbers) {
            (COPY, [seq, _]) => self.outbox.on_acked(seq, receipt),
            (FLOOR, floor) => self.outbox.floors.on_acked(lane_floor(floor)),
            (_, [changes, _]) => self.inbox.on_dropped_told(changes),
        }
    }

    fn on_lost(&mut self, mark: Mark, loss: &Loss<'_>) {
        match (mark.kind, mark.numbers) {
            (COPY, [seq, _]) => self.outbox.on_lost(loss.now, seq, loss.path),
            (FLOOR, floor) => self.outbox.floors.on_lost(lane_floor(floor), loss.path),
            _ => {}
        }
    }

    fn set_paths(&mut self, outlook: &Outlook<'_>) {
        let is_old = |at: Instant| outlook.now.since(at) >= REFRESH;
        let refreshes = self.outbox.plans.targets.is_in_use() && self.refreshed.is_none_or(is_old);
        if !outlook.changed && !refreshes {
            return;
        }
        self.refreshed = Some(outlook.now);
        let mut paths = SmallVec::<[ControlPath; 8]>::new();
        for path in control_order(outlook.paths.iter(), |path| path.control_place()) {
            let carries = path.carries();
            paths.push(ControlPath {
                id: path.id(),
                usable: path.is_usable(),
                repeat_after: path.repeat_after(),
                transit: path.control_arrival(outlook.now),
                answer_after: path.answer_at_once_after(),
                held: path.control_answer_after() - path.answer_at_once_after(),
                cost: path.usage().cost,
                carries,
                backup: carries.has(Tier::Control) && !path.serves(Tier::Control),
            });
        }
        let usable = outlook.paths.serving(Tier::Control).filter(|path| path.is_usable());
        let probe = usable.map(Path::control_answer_after).min().unwrap_or(PATIENCE_WITHOUT_PATH);
        if outlook.changed {
            self.outbox.set_paths(outlook.now, &paths, probe);
            self.inbox.set_wait(probe);
        } else {
            self.outbox.refresh_paths(&paths, probe);
        }
    }

    fn held(&self) -> Held {
        Held { ours: self.outbox.held(), theirs: self.inbox.held_bytes() }
    }

    fn set_room(&mut self, room: &Room) {
        self.outbox.set_room(room.ours.for_control());
        self.inbox.set_room(room.theirs.for_control());
    }

    fn timeout(&self) -> Option<Instant> {
        self.outbox.timeout().into_iter().chain(self.inbox.timeout()).min()
    }

    fn handle_timeout(&mut self, now: Instant, _probe: Duration) {
        self.outbox.handle_timeout(now);
        self.inbox.handle_timeout(now);
    }

    fn poll_delivery(&mut self) -> Option<Delivered> {
        let ready = self.inbox.poll_delivery()?;
        let (channel, class, age, payload) = (ready.channel, ready.class, ready.age, ready.payload);
        Some(Delivered { channel, class, stream: None, age, life: Some(ready.life), payload })
    }

    fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.outbox.poll_event() {
            return Some(event);
        }
        let super::Ended { message, outcome, mavlink } = self.outbox.poll_outcome()?;
        Some(Event::MessageEnded { message, outcome, mavlink })
    }

    fn end(&mut self, now: Instant) {
        self.outbox.end();
        self.inbox.end(now);
    }

    fn show(&self, _now: Instant, status: &mut SessionStatus) {
        status.reliability = self.outbox.plans.targets.statuses().collect();
        for row in &mut status.classes {
            let sent = &self.outbox.counters[row.class.index()];
            let received = &self.inbox.counters()[row.class.index()];
            row.dropped += sent.expired + sent.superseded_unsent;
            row.superseded += sent.superseded - sent.superseded_unsent;
            row.copies_sent += sent.copies_sent;
            row.acknowledged += sent.delivered;
            row.indeterminate += sent.indeterminate;
            row.held += received.held;
            row.duplicates += received.duplicates;
            row.late += received.late;
        }
    }
}

fn lane_floor([lane, floor]: [u64; 2]) -> LaneFloor {
    LaneFloor { lane: lane as u16, floor: floor as u32 }
}
