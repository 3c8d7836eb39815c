//! The form `window`: each packet is sent until it arrives.

use super::form::{Asked, Form};
use super::queue::Waiting as Packet;
use super::release::{Release, Released};
use super::repair::Repaired;
use super::sender::Sender;
use super::ways::Ways;
use crate::delivery::{Builder, Incoming, Loss, Offer, Taken};
use crate::event::PathState;
use crate::ids::PathId;
use crate::limits;
use crate::memory::{Held, Room};
use crate::path::PathSnapshot;
use crate::recovery::Mark;
use crate::rejection::Rejection;
use crate::select::Class;
use crate::status::TunnelStatus;
use crate::wire::{Frame, TUNNEL_OVERHEAD, TunnelFrame};
use units::Instant;

/// Marks a symbol, by its number.
const SYMBOL: u8 = 0;
/// Marks a repair symbol; what becomes of it is of no interest.
const REPAIR: Mark = Mark { kind: 2, numbers: [0; 2] };

/// Both halves in one session.
#[derive(Debug)]
pub(super) struct Window {
    sender: Sender,
    release: Release,
    repaired: Repaired,
}

impl Window {
    /// Starts with nothing sent and nothing received; `key` is the same at both ends.
    pub(super) fn new(key: u64) -> Self {
        let (sender, repaired) = (Sender::new(key), Repaired::new(key));
        Self { sender, release: Release::default(), repaired }
    }

    fn poll_repair(&mut self, offer: &mut Offer<'_>, datagram: &mut Builder<'_>) -> bool {
        if datagram.has_note(REPAIR.kind) {
            return false;
        }
        let asked = Asked { offer, own: self.sender.backlog() };
        let Some(repair) = self.sender.poll_repair(datagram.room(), &asked) else { return false };
        datagram.push(&Frame::TunnelRepair(repair));
        datagram.note(REPAIR);
        true
    }

    fn poll_symbol(&mut self, offer: &mut Offer<'_>, datagram: &mut Builder<'_>) -> bool {
        let (now, path) = (offer.turn.now, offer.turn.path.id());
        let ahead = ahead(offer.snapshots, path);
        let room = datagram.room().saturating_sub(TUNNEL_OVERHEAD);
        let asked = Asked { offer, own: self.sender.backlog() };
        let Some(number) = self.sender.poll(now, path, ahead, room, &asked) else { return false };
        let Some(frame) = self.sender.frame(number) else { return false };
        datagram.push(&Frame::Tunnel(frame));
        datagram.note(Mark { kind: SYMBOL, numbers: [number, 0] });
        true
    }
}

impl Form for Window {
    fn submit(&mut self, packet: Packet) {
        self.sender.submit(packet);
    }

    fn handle_frame(&mut self, incoming: &Incoming<'_>, frame: &Frame<'_>) -> Taken {
        let now = incoming.now;
        let age = |symbol: &TunnelFrame<'_>| incoming.clock.age(now, symbol.submitted_us).estimate;
        match frame {
            Frame::Tunnel(symbol) => {
                self.release.handle_symbol(now, symbol, age(symbol));
                self.repaired.handle_symbol(now, symbol);
            }
            Frame::TunnelRepair(repair) => {
                if !self.repaired.handle_repair(now, repair) {
                    return Taken::Rejected(Rejection::Malformed);
                }
            }
            _ => return Taken::NotMine,
        }
        while let Some(symbol) = self.repaired.poll(|number| self.release.is_new(number)) {
            self.release.handle_symbol(now, &symbol, age(&symbol));
        }
        Taken::Done
    }

    fn wants(&self) -> bool {
        self.sender.wants()
    }

    fn backlog(&self) -> usize {
        self.sender.backlog()
    }

    fn turns(&self) -> usize {
        self.sender.turns()
    }

    fn poll_frame(&mut self, offer: &mut Offer<'_>, datagram: &mut Builder<'_>) -> bool {
        if !self.poll_repair(offer, datagram) && !self.poll_symbol(offer, datagram) {
            return false;
        }
        datagram.bulk = true;
        offer.accounts.of(Class::Bulk).copies_sent += 1;
        true
    }

    fn on_acked(&mut self, mark: Mark) {
        if mark.kind == SYMBOL {
            self.sender.on_acked(mark.numbers[0]);
        }
    }

    fn on_lost(&mut self, mark: Mark, loss: &Loss<'_>) {
        if mark.kind == SYMBOL {
            self.sender.on_lost(loss.now, mark.numbers[0]);
        }
    }

    fn set_ways(&mut self, now: Instant, ways: &Ways) {
        let longest = ways.longest.saturating_sub(TUNNEL_OVERHEAD);
        self.sender.set_paths(now, ways.active.iter().copied(), longest);
        self.sender.repairs.set_paths(ways.lossy.iter().copied());
        self.sender.queue.set_ways(now, ways);
        self.release.set_slowest(now, ways.awaited);
    }

    fn held(&self) -> Held {
        Held { ours: self.sender.held(), theirs: self.release.held() + self.repaired.held() }
    }

    fn set_room(&mut self, room: &Room) {
        self.sender.queue.set_room(room.ours.for_loss());
        self.release.set_room(room.theirs.for_loss());
        self.sender.repairs.set_room(room.ours.for_loss());
        self.repaired.set_room(room.theirs.for_loss());
    }

    fn timeout(&self) -> Option<Instant> {
        self.sender.timeout().into_iter().chain(self.release.timeout()).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
        self.release.handle_timeout(now);
    }

    fn poll_released(&mut self) -> Option<Released> {
        self.release.poll()
    }

    fn is_idle(&self) -> bool {
        self.sender.is_idle() && self.release.is_idle()
    }

    fn give_back(&mut self) {
        self.sender.give_back();
        self.release.give_back();
        self.repaired.give_back();
    }

    fn show(&self, status: &mut TunnelStatus) {
        let (sent, received) = (self.sender.counters(), self.release.counters());
        status.flows += self.sender.queue.flows() as u64;
        status.symbols += sent.symbols;
        status.again += sent.again;
        status.repairs += sent.repairs;
        status.recovered += self.repaired.recovered;
        status.copies += sent.copies;
        status.given_up += sent.given_up;
        status.dropped += self.sender.queue.dropped();
        status.expired += received.expired;
    }

    fn duplicates(&self) -> u64 {
        self.release.counters().duplicates
    }
}

/// Returns how many bytes faster paths carry before a packet that leaves now by this one arrives.
fn ahead(paths: &[PathSnapshot], id: PathId) -> usize {
    let Some(own) = paths.iter().find(|path| path.id == id) else { return 0 };
    let one_way = |path: &PathSnapshot| path.srtt_or_initial() / 2;
    let works =
        |path: &&PathSnapshot| path.state == PathState::Active && !path.doubtful && path.id != id;
    let sooner =
        |path: &PathSnapshot| path.send_rate.bytes_in(one_way(own).saturating_sub(one_way(path)));
    let bytes = paths.iter().filter(works).map(sooner).fold(0, u64::saturating_add);
    usize::try_from(bytes).unwrap_or(usize::MAX).min(limits::TUNNEL_BYTES / 2)
}
