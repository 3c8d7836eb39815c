//! Plain datagrams as a delivery: a queue for telemetry, one for bulk, and what restores order.

use units::{Duration, Instant};

use super::{DatagramQueue, Expected, Plain, Resequencer};
use crate::delivery::{
    Builder, Delivered, Delivery, Incoming, Loss, Offer, Outlook, Taken, Turn, Waiting,
};
use crate::event::PathState;
use crate::limits;
use crate::memory::{Held, Room};
use crate::path::{MUCH_LOSS, Path};
use crate::recovery::{Mark, Receipt};
use crate::select::{Class, Policy, Tier};
use crate::status::SessionStatus;
use crate::wire::{DATAGRAM_OVERHEAD, Frame};

/// Marks a packet that may be sent again, by its number.
const AGAIN: u8 = 0;

/// Both halves of plain delivery in one session.
#[derive(Debug)]
pub(crate) struct Datagrams {
    telemetry: DatagramQueue,
    bulk: DatagramQueue,
    resequencer: Resequencer,
}

impl Datagrams {
    /// Starts with nothing sent and nothing received; bulk is dropped beyond `bulk_max_age`, and
    /// TCP's packets wait for an earlier one no longer than `resequence_max`.
    pub(crate) fn new(bulk_max_age: Duration, resequence_max: Duration) -> Self {
        Self {
            telemetry: DatagramQueue::new(Policy::TELEMETRY.ttl, limits::TELEMETRY_BYTES),
            bulk: DatagramQueue::new(bulk_max_age, limits::BULK_BYTES),
            resequencer: Resequencer::new(resequence_max),
        }
    }

    /// Takes a packet in.
    pub(crate) fn submit(&mut self, now: Instant, packet: Plain) {
        match (packet.class, packet.rtp) {
            (Class::Telemetry, None) => self.telemetry.push(now, packet),
            _ => self.bulk.push(now, packet),
        }
    }

    /// Tells whether the path takes the next packet of bulk. A last copy only goes where there is
    /// room to spare.
    fn may_take_bulk(&self, offer: &Offer<'_>, len: usize) -> bool {
        let path = offer.turn.path;
        if self.bulk.is_last_next(path.id()) {
            return path.state() == PathState::Active && !path.has_queue();
        }
        offer.is_for(len)
    }
}

impl Delivery for Datagrams {
    fn handle_frame(&mut self, incoming: &Incoming<'_>, frame: &Frame<'_>) -> Taken {
        let Frame::Datagram(datagram) = frame else { return Taken::NotMine };
        let (now, path) = (incoming.now, incoming.path);
        let age = incoming.clock.age(now, datagram.submitted_us).estimate;
        self.resequencer.handle_datagram(now, path, datagram, age);
        Taken::Done
    }

    fn waiting(&self) -> Waiting {
        Waiting {
            telemetry: !self.telemetry.is_empty(),
            bulk: !self.bulk.is_empty(),
            ..Waiting::default()
        }
    }

    fn backlog(&self) -> usize {
        self.telemetry.bytes() + self.bulk.bytes()
    }

    fn poll_tier(&mut self, tier: Tier, offer: &mut Offer<'_>, datagram: &mut Builder<'_>) {
        let (now, id) = (offer.turn.now, offer.turn.path.id());
        match tier {
            Tier::Telemetry if offer.waiting.telemetry => {
                while let Some(len) = self.telemetry.next_len(now, id)
                    && offer.is_for(len)
                    && add_packet(&mut self.telemetry, offer, datagram)
                {}
            }
            Tier::Bulk => {
                while let Some(len) = self.bulk.next_len(now, id)
                    && self.may_take_bulk(offer, len)
                    && add_packet(&mut self.bulk, offer, datagram)
                {
                    offer.scheduler.on_sent(id);
                }
            }
            Tier::Control | Tier::Telemetry | Tier::Message => {}
        }
    }

    fn on_acked(&mut self, mark: Mark, _receipt: &Receipt) {
        self.bulk.on_acked(mark.numbers[0] as u32);
    }

    fn on_lost(&mut self, mark: Mark, loss: &Loss<'_>) {
        self.bulk.on_lost(loss.now, mark.numbers[0] as u32, loss.paths.reach());
    }

    fn set_paths(&mut self, outlook: &Outlook<'_>) {
        if !outlook.changed {
            return;
        }
        let paths = outlook.paths;
        self.bulk.set_replicas(
            paths.active_for(Tier::Bulk).filter(|_| outlook.replicates).map(Path::id),
        );
        self.bulk.set_outage(outlook.now, paths.active_for(Tier::Bulk).next().is_none());
        self.bulk.set_outlook(paths.reach(), paths.loses_much());
    }

    fn held(&self) -> Held {
        let ours = self.telemetry.held() + self.bulk.held();
        Held { ours, theirs: self.resequencer.held() }
    }

    fn set_room(&mut self, room: &Room) {
        let (ours, theirs) = (room.ours.for_loss(), room.theirs.for_loss());
        self.telemetry.set_room(ours);
        self.bulk.set_room(ours);
        self.resequencer.set_room(theirs);
    }

    fn timeout(&self) -> Option<Instant> {
        let queues = self.telemetry.timeout().into_iter().chain(self.bulk.timeout());
        queues.chain(self.resequencer.timeout()).min()
    }

    fn handle_timeout(&mut self, now: Instant, _probe: Duration) {
        self.resequencer.handle_timeout(now);
        self.telemetry.handle_timeout(now);
        self.bulk.handle_timeout(now);
    }

    fn poll_delivery(&mut self) -> Option<Delivered> {
        self.resequencer.poll_delivery()
    }

    fn show(&self, now: Instant, status: &mut SessionStatus) {
        status.queue_free_percent =
            self.bulk.free_percent(now).min(self.telemetry.free_percent(now));
        for row in &mut status.classes {
            match row.class {
                Class::Telemetry => row.dropped += self.telemetry.dropped(),
                Class::Bulk => {
                    row.dropped += self.bulk.dropped();
                    row.duplicates += self.resequencer.duplicates();
                }
                _ => {}
            }
        }
    }
}

/// Adds the next packet of a queue if it fits.
fn add_packet(
    queue: &mut DatagramQueue,
    offer: &mut Offer<'_>,
    datagram: &mut Builder<'_>,
) -> bool {
    let turn = offer.turn;
    let room = datagram.room().saturating_sub(DATAGRAM_OVERHEAD);
    let Some((frame, number)) = queue.poll(turn.now, turn.path.id(), room) else { return false };
    datagram.bulk = true;
    offer.accounts.of(frame.class).copies_sent += 1;
    let fits = datagram.push(&Frame::Datagram(frame));
    if let Some(number) = number {
        datagram.note(Mark { kind: AGAIN, numbers: [number.into(), 0] });
        if let Some(expected) = expected(&turn) {
            queue.expect(number, expected);
        }
    }
    fits
}

/// Returns what to expect of a packet that leaves on a path that loses much: on others the
/// answers to later packets tell soon enough.
fn expected(turn: &Turn<'_>) -> Option<Expected> {
    let path = turn.path;
    (path.loss() >= MUCH_LOSS).then(|| {
        let overdue_at = turn.now + path.overdue_after();
        Expected { path: path.id(), overdue_at, reach: turn.paths.reach() }
    })
}
