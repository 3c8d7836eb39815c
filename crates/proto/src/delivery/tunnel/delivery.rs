//! TCP of the tunnel as a delivery.

use hdrhistogram::Histogram;
use units::{Duration, Instant, Rate};

use super::TunnelForm;
use super::queue::Waiting as Packet;
use super::release::Release;
use super::repair::{Lossy, Repaired};
use super::segment::{Part, Segment};
use super::sender::{Ask, Sender};
use crate::delivery::{
    Builder, Delivered, Delivery, Incoming, Loss, Offer, Outlook, Taken, Waiting,
};
use crate::event::PathState;
use crate::ids::PathId;
use crate::limits;
use crate::memory::{Held, Room};
use crate::path::{Path, PathSnapshot};
use crate::recovery::Mark;
use crate::rejection::Rejection;
use crate::schedule::Decision;
use crate::select::{Class, Tier};
use crate::status::{DelayPercentiles, SessionStatus, TunnelStatus};
use crate::wire::{DATA_OVERHEAD, Frame, TUNNEL_OVERHEAD, TunnelFrame};

/// Marks a symbol, by its number.
const SYMBOL: u8 = 0;
/// Marks a repair symbol: what becomes of it is of no interest.
const REPAIR: u8 = 1;
/// What is idle for so long gives its memory back.
const IDLE: Duration = Duration::from_secs(60);
/// The longest wait that is told apart, in microseconds.
const LONGEST_WAIT_US: u64 = 4_000_000;

/// Both halves in one session.
#[derive(Debug)]
pub(crate) struct Tunnel {
    form: TunnelForm,
    /// Names flows.
    key: (u64, u64),
    sender: Sender,
    release: Release,
    repaired: Repaired,
    /// How long packets waited for earlier ones; made with the first.
    waits_us: Option<Box<Histogram<u32>>>,
    used_at: Instant,
}

/// Asks the scheduler on behalf of the path that is served.
struct Asked<'a, 'b> {
    offer: &'a Offer<'b>,
    others: usize,
}

impl Ask for Asked<'_, '_> {
    fn is_for(&self, backlog: usize, packet: usize) -> bool {
        let view = self.offer.view(self.others + backlog, packet);
        self.offer.scheduler.offer(&view, self.offer.turn.path.id()) == Decision::Send
    }
}

impl Tunnel {
    /// Starts with nothing sent and nothing received; `seed` is secret, `nonce` the same at both ends.
    pub(crate) fn new(form: TunnelForm, seed: u64, nonce: u64) -> Self {
        Self {
            form,
            key: (seed, !seed),
            sender: Sender::new(nonce),
            release: Release::default(),
            repaired: Repaired::new(nonce),
            waits_us: None,
            used_at: Instant::ZERO,
        }
    }

    /// Tells whether TCP travels by it, and not as plain datagrams.
    pub(crate) fn carries_tcp(&self) -> bool {
        self.form == TunnelForm::Window
    }

    /// Tells whether a packet is a part of TCP that must arrive.
    pub(crate) fn is_symbol(&self, packet: &[u8]) -> bool {
        Segment::read(packet, self.key).is_some_and(|segment| segment.part != Part::Ack)
    }

    /// Takes a packet in, if it is a part of TCP that must arrive. Gives back what is not.
    pub(crate) fn submit(&mut self, now: Instant, packet: Vec<u8>) -> Option<Vec<u8>> {
        let segment = Segment::read(&packet, self.key);
        let Some(Segment { flow, part }) = segment.filter(|segment| segment.part != Part::Ack)
        else {
            return Some(packet);
        };
        self.used_at = now;
        self.sender.submit(Packet { flow, part, since: now, payload: packet });
        None
    }

    fn is_idle(&self) -> bool {
        self.sender.is_idle() && self.release.is_idle()
    }
}

impl Delivery for Tunnel {
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
        self.used_at = now;
        while let Some(symbol) = self.repaired.poll(|number| self.release.is_new(number)) {
            self.release.handle_symbol(now, &symbol, age(&symbol));
        }
        Taken::Done
    }

    fn waiting(&self) -> Waiting {
        Waiting { bulk: self.sender.wants(), ..Waiting::default() }
    }

    fn backlog(&self) -> usize {
        self.sender.backlog()
    }

    fn turns(&self) -> usize {
        self.sender.turns()
    }

    fn poll_tier(&mut self, tier: Tier, offer: &mut Offer<'_>, datagram: &mut Builder<'_>) {
        if tier != Tier::Bulk || !self.sender.wants() {
            return;
        }
        let (now, path) = (offer.turn.now, offer.turn.path.id());
        let ahead = ahead(offer.snapshots, path);
        let room = datagram.room();
        let asked = Asked { offer, others: offer.backlog.saturating_sub(self.sender.backlog()) };
        if let Some(repair) = self.sender.poll_repair(room, &asked) {
            datagram.bulk = true;
            datagram.push(&Frame::TunnelRepair(repair));
            datagram.note(Mark { kind: REPAIR, numbers: [0, 0] });
            offer.accounts.of(Class::Bulk).copies_sent += 1;
            offer.scheduler.on_sent(path);
        }
        loop {
            let others = offer.backlog.saturating_sub(self.sender.backlog());
            let room = datagram.room().saturating_sub(TUNNEL_OVERHEAD);
            let asked = Asked { offer, others };
            let Some(number) = self.sender.poll(now, path, ahead, room, &asked) else { return };
            let Some(frame) = self.sender.frame(number) else { return };
            datagram.bulk = true;
            datagram.push(&Frame::Tunnel(frame));
            datagram.note(Mark { kind: SYMBOL, numbers: [number, 0] });
            offer.accounts.of(Class::Bulk).copies_sent += 1;
            offer.scheduler.on_sent(path);
        }
    }

    fn on_acked(&mut self, mark: Mark, _path: PathId) {
        if mark.kind == SYMBOL {
            self.sender.on_acked(mark.numbers[0]);
        }
    }

    fn on_lost(&mut self, mark: Mark, loss: &Loss<'_>) {
        if mark.kind == SYMBOL {
            self.sender.on_lost(loss.now, mark.numbers[0]);
        }
    }

    fn set_paths(&mut self, outlook: &Outlook<'_>) {
        if !outlook.changed {
            return;
        }
        let (now, paths) = (outlook.now, outlook.paths);
        let longest = paths.active().map(|path| path.hoped_datagram(now)).max().unwrap_or(0);
        let longest = longest.saturating_sub(DATA_OVERHEAD + TUNNEL_OVERHEAD);
        self.sender.set_paths(now, paths.active().map(Path::id), longest);
        let lossy = |path: &Path| Lossy {
            rate: path.send_rate(),
            loss: path.loss(),
            rtt: path.srtt_or_initial(),
        };
        self.sender.repairs.set_paths(paths.active().map(lossy));
        // Without congestion control a path's rate has no end.
        let rate =
            paths.active().map(|path| path.send_rate().as_bps()).fold(0, u64::saturating_add);
        let rtt = paths.active().map(Path::least_rtt).max().unwrap_or_default();
        self.sender.queue.set_paths(now, paths.active().count(), Rate::from_bps(rate), rtt);
        self.release.set_slowest(now, paths.active().map(Path::srtt_or_initial).max());
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

    fn handle_timeout(&mut self, now: Instant, _probe: Duration) {
        self.sender.handle_timeout(now);
        self.release.handle_timeout(now);
        if now.since(self.used_at) > IDLE && self.is_idle() {
            self.sender.give_back();
            self.repaired.give_back();
        }
    }

    fn poll_delivery(&mut self) -> Option<Delivered> {
        let ready = self.release.poll()?;
        let waits = self.waits_us.get_or_insert_with(|| Box::new(waits()));
        waits.saturating_record(ready.waited.as_micros());
        let (class, stream) = (Class::Bulk, None);
        Some(Delivered { channel: 0, class, stream, age: ready.age, payload: ready.payload })
    }

    fn show(&self, _now: Instant, status: &mut SessionStatus) {
        let (sent, received) = (self.sender.counters(), self.release.counters());
        let dropped = self.sender.queue.dropped();
        let at = |quantile| {
            let waits = self.waits_us.as_ref();
            waits.map_or(0, |waits| waits.value_at_quantile(quantile))
        };
        status.tunnel = TunnelStatus {
            form: self.form,
            flows: self.sender.queue.flows() as u64,
            symbols: sent.symbols,
            again: sent.again,
            copies: sent.copies,
            repairs: sent.repairs,
            recovered: self.repaired.recovered,
            given_up: sent.given_up,
            dropped,
            expired: received.expired,
            wait: DelayPercentiles {
                p50: Duration::from_micros(at(0.5)),
                p95: Duration::from_micros(at(0.95)),
                p99: Duration::from_micros(at(0.99)),
                max: Duration::from_micros(self.waits_us.as_ref().map_or(0, |waits| waits.max())),
            },
        };
        if let Some(row) = status.classes.iter_mut().find(|row| row.class == Class::Bulk) {
            row.dropped += dropped + sent.given_up;
            row.duplicates += received.duplicates;
        }
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

fn waits() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LONGEST_WAIT_US, 2)
        .expect("1 µs to 4 s at two digits is a valid histogram")
}
