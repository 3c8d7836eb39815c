//! Deliveries: the ways of getting packets to the other end, one folder each behind one trait.
//!
//! The session offers room on a path, hands over what came in, and says what became of what was
//! sent; a delivery uses that as it likes. So the session names none of them, and none knows a key,
//! a packet number or a socket. [`Deliveries`] is the list; `submit.rs` says which carries what.
//!
//! ```text
//! out   poll_before_ack → poll_urgent → poll_alone | poll_tier, by tier → poll_along     one datagram
//! in    handle_frame → poll_delivery, poll_event;   of what was sent: on_acked | on_lost
//! ```

mod accounts;
mod builder;
pub(crate) mod control;
pub(crate) mod datagram;
pub(crate) mod generation;
pub(crate) mod message;
mod submit;
pub(crate) mod tunnel;

use core::fmt::Debug;

use units::{Duration, Instant};

pub(crate) use accounts::Accounts;
pub(crate) use builder::Builder;
pub(crate) use submit::{Packet, Refused};

use crate::event::Event;
use crate::ids::PathId;
use crate::limits;
use crate::memory::{Held, Room};
use crate::path::{Path, PathSnapshot, Paths};
use crate::recovery::{Mark, PeerClock, Receipt};
use crate::rejection::{Rejection, Rejections};
use crate::schedule::{Decision, ScheduleView, Scheduler};
use crate::select::{Class, Reliability, Tier};
use crate::status::SessionStatus;
use crate::wire::{DATAGRAM_OVERHEAD, Frame};
use control::Control;
use datagram::Datagrams;
use message::{MessageForm, Messages};
use tunnel::{Tunnel, TunnelForm};

/// So long before its end a held message is passed on, for timers are late [specs/delivery.md §4].
pub(crate) const RELEASE_AHEAD: Duration = Duration::from_millis(5);

/// What an operator can set about deliveries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryConfig {
    /// How messages travel.
    pub(crate) form: MessageForm,
    /// The same at both ends.
    pub(crate) nonce: u64,
    /// Whether MAVLink's transfers travel coded.
    pub(crate) coded_transfers: bool,
    /// Bulk that has waited longer is dropped.
    pub(crate) bulk_max_age: Duration,
    /// How long RTP may be sent again; zero: never.
    pub(crate) rtp_life: Duration,
    /// How TCP of the tunnel travels.
    pub(crate) tunnel: TunnelForm,
    /// How long TCP's packets wait for an earlier one in plain delivery.
    pub(crate) resequence_max: Duration,
    /// How much of control is to be in time.
    pub(crate) reliability: Reliability,
    /// Secret.
    pub(crate) seed: u64,
}

/// A frame's surroundings as it comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    /// The moment.
    pub(crate) now: Instant,
    /// The path that it came by.
    pub(crate) path: PathId,
    /// The peer's clock.
    pub(crate) clock: PeerClock<'a>,
    /// Every path.
    pub(crate) paths: &'a Paths,
}

/// Says what a delivery did with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing: it is another delivery's.
    NotMine,
    /// What it asks for.
    Done,
    /// Nothing, for this reason.
    Rejected(Rejection),
}

impl From<bool> for Taken {
    fn from(makes_sense: bool) -> Self {
        if makes_sense { Self::Done } else { Self::Rejected(Rejection::Malformed) }
    }
}

/// What waits for a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// What no congestion window holds back.
    pub(crate) urgent: bool,
    /// What takes a datagram of its own.
    pub(crate) alone: bool,
    /// Of the tier of telemetry.
    pub(crate) telemetry: bool,
    /// Of the tier of messages.
    pub(crate) message: bool,
    /// Of the tier of bulk.
    pub(crate) bulk: bool,
    /// What goes along with anything, and has waited long enough to leave alone.
    pub(crate) along: bool,
}

impl Waiting {
    /// Tells whether anything waits.
    pub(crate) fn is_any(self) -> bool {
        self.urgent || self.goes_once() || self.along
    }

    /// Tells whether anything waits that goes by one path alone.
    pub(crate) fn goes_once(self) -> bool {
        self.alone || self.telemetry || self.message || self.bulk
    }

    /// Leaves out what the path does not serve now; what is urgent waits for no path closed to it.
    pub(crate) fn served_by(self, path: &Path) -> Self {
        let serves = |tier| path.serves(tier);
        Self {
            alone: self.alone && serves(Tier::Message),
            telemetry: self.telemetry && serves(Tier::Telemetry),
            message: self.message && (serves(Tier::Telemetry) || serves(Tier::Message)),
            bulk: self.bulk && serves(Tier::Bulk),
            ..self
        }
    }

    /// Adds what waits elsewhere.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            urgent: self.urgent || other.urgent,
            alone: self.alone || other.alone,
            telemetry: self.telemetry || other.telemetry,
            message: self.message || other.message,
            bulk: self.bulk || other.bulk,
            along: self.along || other.along,
        }
    }
}

/// A path that is being served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<'a> {
    /// The moment.
    pub(crate) now: Instant,
    /// The path that the datagram will go by.
    pub(crate) path: &'a Path,
    /// Every path.
    pub(crate) paths: &'a Paths,
    /// By how much the peer may take a message for too old: as far as its clock may be off for us.
    pub(crate) clock_error: Duration,
}

/// Offers room on a path to what goes once.
#[derive(Debug)]
pub(crate) struct Offer<'a> {
    /// Which path, and when.
    pub(crate) turn: Turn<'a>,
    /// Every path that serves what it is offered to, as schedulers see it.
    pub(crate) snapshots: &'a [PathSnapshot],
    /// The same of telemetry, messages and bulk.
    pub(crate) by_tier: [&'a [PathSnapshot]; 3],
    /// What waits in all deliveries.
    pub(crate) waiting: Waiting,
    /// Bytes of it that schedulers are told of.
    pub(crate) backlog: usize,
    /// Says which path is the best.
    pub(crate) scheduler: &'a mut dyn Scheduler,
    /// Counts what leaves.
    pub(crate) accounts: &'a mut Accounts,
}

impl Offer<'_> {
    /// Offers the room to a tier below control from now on; tells whether the path serves that.
    pub(crate) fn turn_to(&mut self, tier: Tier) -> bool {
        let [telemetry, message, bulk] = self.by_tier;
        self.snapshots = match tier {
            Tier::Control | Tier::Telemetry => telemetry,
            Tier::Message => message,
            Tier::Bulk => bulk,
        };
        self.turn.path.serves(tier)
    }

    /// Tells whether the scheduler gives the path a packet of so many bytes.
    pub(crate) fn is_for(&self, packet: usize) -> bool {
        let frame = packet + DATAGRAM_OVERHEAD;
        let view = ScheduleView { frame, ..self.view(self.backlog, packet) };
        self.scheduler.offer(&view, self.turn.path.id()) == Decision::Send
    }

    /// Returns what schedulers are shown.
    pub(crate) fn view(&self, backlog: usize, packet: usize) -> ScheduleView<'_> {
        let (paths, now) = (self.snapshots, self.turn.now);
        ScheduleView { paths, now, backlog: backlog as u64, packet, frame: packet }
    }
}

/// Says how a packet was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss<'a> {
    /// When that was found.
    pub(crate) now: Instant,
    /// The path that it went by.
    pub(crate) path: PathId,
    /// Whether that had a queue: sending more would not have helped.
    pub(crate) congested: bool,
    /// Every path.
    pub(crate) paths: &'a Paths,
}

/// What became of the paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook<'a> {
    /// The moment.
    pub(crate) now: Instant,
    /// Every path.
    pub(crate) paths: &'a Paths,
    /// Whether any of them has changed, other than by what came in there.
    pub(crate) changed: bool,
    /// Whether each packet of bulk goes by every path that works; otherwise it goes once.
    pub(crate) replicates: bool,
}

/// What an application is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// The consumer, 0 is the tunnel; and the class that the sender's selector gave it.
    pub(crate) channel: u8,
    pub(crate) class: Class,
    /// The stream of messages that it came by.
    pub(crate) stream: Option<u16>,
    /// Estimated time since it was handed in; for how long it is still of use, where bounded.
    pub(crate) age: Duration,
    pub(crate) life: Option<Duration>,
    /// The packet or message.
    pub(crate) payload: Vec<u8>,
}

/// One way of delivering: both its halves.
///
/// What a delivery notes of a datagram that it adds to ([`Builder::note`]) comes back as the mark
/// of [`Delivery::on_acked`] or [`Delivery::on_lost`].
pub(crate) trait Delivery: Debug {
    /// Takes a frame that came in, if it is one of its own.
    fn handle_frame(&mut self, incoming: &Incoming<'_>, frame: &Frame<'_>) -> Taken;

    /// Says what of it waits, for whichever path asks: cheap, asked for each datagram.
    fn waiting(&self) -> Waiting {
        Waiting::default()
    }

    /// Says what of it waits for this path beside that.
    fn waiting_for(&self, _now: Instant, _path: &Path) -> Waiting {
        Waiting::default()
    }

    /// Returns the bytes that schedulers are told of.
    fn backlog(&self) -> usize {
        0
    }

    /// Returns how many flows of its bulk wait: so many datagrams of a round of bulk begin with it.
    fn turns(&self) -> usize {
        usize::from(self.waiting().bulk)
    }

    /// Adds what the peer must know before any acknowledgement, and tells whether one may follow.
    fn poll_before_ack(&mut self, _datagram: &mut Builder<'_>) -> bool {
        true
    }

    /// Adds what no congestion window holds back.
    fn poll_urgent(&mut self, _turn: &Turn<'_>, _datagram: &mut Builder<'_>) {}

    /// Adds what has a datagram to itself, which is empty so far.
    fn poll_alone(&mut self, _offer: &mut Offer<'_>, _datagram: &mut Builder<'_>) {}

    /// Adds what goes once, of one tier.
    fn poll_tier(&mut self, _tier: Tier, _offer: &mut Offer<'_>, _datagram: &mut Builder<'_>) {}

    /// Adds what costs little and goes along with anything, where the path serves what it is about.
    fn poll_along(&mut self, _path: &Path, _datagram: &mut Builder<'_>) {}

    /// Learns that a packet arrived that it had added to.
    fn on_acked(&mut self, _mark: Mark, _receipt: &Receipt) {}

    /// Learns that such a packet was lost.
    fn on_lost(&mut self, _mark: Mark, _loss: &Loss<'_>) {}

    /// Learns what became of the paths, after anything that changes them.
    fn set_paths(&mut self, _outlook: &Outlook<'_>) {}

    /// Returns how many bytes it holds.
    fn held(&self) -> Held;

    /// Learns how many more it may hold until it is told anew.
    fn set_room(&mut self, room: &Room);

    /// Returns when [`Delivery::handle_timeout`] wants to be called.
    fn timeout(&self) -> Option<Instant> {
        None
    }

    /// Lets time pass; `probe` is the time after which the peer's answer is overdue.
    fn handle_timeout(&mut self, _now: Instant, _probe: Duration) {}

    /// Returns the next packet or message for an application.
    fn poll_delivery(&mut self) -> Option<Delivered> {
        None
    }

    /// Returns what an application should know.
    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// Learns that the session is over.
    fn end(&mut self, _now: Instant) {}

    /// Adds what people and scripts may see.
    fn show(&self, _now: Instant, _status: &mut SessionStatus) {}
}

/// Every delivery of a session, and what became of the traffic.
#[derive(Debug)]
pub(crate) struct Deliveries {
    message: Messages,
    control: Control,
    datagram: Datagrams,
    tunnel: Tunnel,
    /// The place of the delivery whose bulk goes first now, and in how many datagrams more.
    turn: (u8, usize),
    coded_transfers: bool,
    rtp_life: Duration,
    accounts: Accounts,
    rejected: Rejections,
}

/// The place of tunnel delivery in the list.
const TUNNEL: u8 = 3;

/// Does something with each delivery and its place in the list. Message delivery comes before
/// control, whose lanes it carries.
macro_rules! each {
    ([$($all:tt)+], $place:pat, $delivery:ident => $do:expr) => {{
        let ($place, $delivery) = (0_u8, $($all)+.message);
        $do;
        let ($place, $delivery) = (1_u8, $($all)+.control);
        $do;
        let ($place, $delivery) = (2_u8, $($all)+.datagram);
        $do;
        let ($place, $delivery) = (TUNNEL, $($all)+.tunnel);
        $do;
    }};
}

impl Deliveries {
    /// Starts with nothing sent and nothing received.
    pub(crate) fn new(config: &DeliveryConfig) -> Self {
        Self {
            message: Messages::new(config.form, config.nonce),
            control: Control::new(&config.reliability, config.seed),
            datagram: Datagrams::new(config.bulk_max_age, config.resequence_max),
            tunnel: Tunnel::new(config.tunnel, config.seed, config.nonce),
            turn: (0, 0),
            coded_transfers: config.coded_transfers,
            rtp_life: config.rtp_life,
            accounts: Accounts::default(),
            rejected: Rejections::default(),
        }
    }

    /// Returns how many bytes they hold.
    pub(crate) fn held(&self) -> Held {
        let mut held = Held::default();
        each!([&self], _, delivery => held = held.and(delivery.held()));
        held
    }

    /// Learns how many more they may hold until they are told anew.
    pub(crate) fn set_room(&mut self, room: &Room) {
        each!([&mut self], _, delivery => delivery.set_room(room));
    }

    /// Takes a frame that came in.
    pub(crate) fn handle_frame(&mut self, incoming: &Incoming<'_>, frame: &Frame<'_>) {
        let mut taken = Taken::NotMine;
        each!([&mut self], _, delivery => if taken == Taken::NotMine {
            taken = delivery.handle_frame(incoming, frame);
        });
        if let Taken::Rejected(reason) = taken {
            self.rejected.count(reason);
        }
    }

    /// Says what waits, for whichever path asks.
    pub(crate) fn waiting(&self) -> Waiting {
        let mut waiting = Waiting::default();
        each!([&self], _, delivery => waiting = waiting.and(delivery.waiting()));
        waiting
    }

    /// Says what waits for a path beside that.
    pub(crate) fn waiting_for(&self, now: Instant, path: &Path) -> Waiting {
        let mut waiting = Waiting::default();
        each!([&self], _, delivery => waiting = waiting.and(delivery.waiting_for(now, path)));
        waiting
    }

    /// Adds what the peer must know before any acknowledgement, and tells whether one may follow.
    pub(crate) fn poll_before_ack(&mut self, datagram: &mut Builder<'_>) -> bool {
        let mut may_follow = true;
        each!([&mut self], place, delivery => {
            datagram.set_owner(place);
            may_follow &= delivery.poll_before_ack(datagram);
        });
        may_follow
    }

    /// Adds what no congestion window holds back.
    pub(crate) fn poll_urgent(&mut self, turn: &Turn<'_>, datagram: &mut Builder<'_>) {
        each!([&mut self], place, delivery => {
            datagram.set_owner(place);
            delivery.poll_urgent(turn, datagram);
        });
    }

    /// Adds what goes once, in the order of priority, while the scheduler and the path's window let
    /// it. `waiting` is what [`Deliveries::waiting`] and [`Deliveries::waiting_for`] say.
    pub(crate) fn poll_once(
        &mut self,
        turn: Turn<'_>,
        waiting: Waiting,
        has_budget: bool,
        scheduler: &mut dyn Scheduler,
        datagram: &mut Builder<'_>,
    ) {
        let tiers = [Tier::Telemetry, Tier::Message, Tier::Bulk];
        let shown = turn.paths.shown_for_each(turn.now, tiers);
        let by_tier = shown.each_ref().map(|shown| &shown[..]);
        let mut backlog = 0;
        each!([&self], _, delivery => backlog += delivery.backlog());
        let accounts = &mut self.accounts;
        let mut offer =
            Offer { turn, snapshots: by_tier[1], by_tier, waiting, backlog, scheduler, accounts };
        if waiting.alone && !datagram.is_noted() {
            each!([&mut self], place, delivery => if !datagram.bulk {
                datagram.set_owner(place);
                delivery.poll_alone(&mut offer, datagram);
            });
        }
        if !has_budget || datagram.bulk {
            return;
        }
        for tier in [Tier::Telemetry, Tier::Message] {
            offer.turn_to(tier);
            each!([&mut self], place, delivery => {
                datagram.set_owner(place);
                delivery.poll_tier(tier, &mut offer, datagram);
            });
        }
        if !offer.turn_to(Tier::Bulk) {
            return;
        }
        // Flows of the tunnel let other bulk have its turn, whatever they have waiting.
        let crowd = self.tunnel.backlog();
        let own = (backlog - crowd).div_ceil(limits::MIN_DATAGRAM);
        let ahead = own.saturating_mul(self.tunnel.turns() * limits::MAX_DATAGRAM);
        let backlogs = [backlog - crowd + crowd.min(ahead), backlog];
        let (before, mut used) = (datagram.len(), false);
        for is_turn in [true, false] {
            each!([&mut self], place, delivery => if (place == self.turn.0) == is_turn {
                offer.backlog = backlogs[usize::from(place == TUNNEL)];
                datagram.set_owner(place);
                delivery.poll_tier(Tier::Bulk, &mut offer, datagram);
            });
            used |= is_turn && datagram.len() > before;
        }
        if used || datagram.len() > before {
            self.end_turn(used);
        }
    }

    /// Lets the next delivery's bulk go first, where the one whose turn it was has had it: so that
    /// a ping does not stand behind a transfer, nor one transfer behind a hundred.
    fn end_turn(&mut self, used: bool) {
        let (turn, left) = self.turn;
        if used && left > 1 {
            self.turn.1 = left - 1;
            return;
        }
        // The next in the list that has bulk waiting; from the front again after the last.
        let mut next = None;
        let mut first = None;
        each!([&self], place, delivery => {
            let turns = delivery.turns();
            if turns > 0 {
                first = first.or(Some((place, turns)));
                next = next.or(Some((place, turns)).filter(|_| place > turn));
            }
        });
        self.turn = next.or(first).unwrap_or((turn, 1));
    }

    /// Adds what costs little and goes along with anything.
    pub(crate) fn poll_along(&mut self, path: &Path, datagram: &mut Builder<'_>) {
        each!([&mut self], place, delivery => {
            datagram.set_owner(place);
            delivery.poll_along(path, datagram);
        });
    }

    /// Learns that a packet arrived to which the delivery at this place of the list had added.
    pub(crate) fn on_acked(&mut self, owner: u8, mark: Mark, receipt: &Receipt) {
        each!([&mut self], place, delivery => if place == owner {
            delivery.on_acked(mark, receipt);
        });
    }

    /// Learns that such a packet was lost.
    pub(crate) fn on_lost(&mut self, owner: u8, mark: Mark, loss: &Loss<'_>) {
        each!([&mut self], place, delivery => if place == owner {
            delivery.on_lost(mark, loss);
        });
    }

    /// Learns what became of the paths.
    pub(crate) fn set_paths(&mut self, outlook: &Outlook<'_>) {
        each!([&mut self], _, delivery => delivery.set_paths(outlook));
    }

    /// Returns when [`Deliveries::handle_timeout`] wants to be called.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let mut first = None;
        each!([&self], _, delivery => first = delivery.timeout().into_iter().chain(first).min());
        first
    }

    /// Lets time pass; `probe` is the time after which the peer's answer is overdue.
    pub(crate) fn handle_timeout(&mut self, now: Instant, probe: Duration) {
        each!([&mut self], _, delivery => delivery.handle_timeout(now, probe));
    }

    /// Returns what an application is to get next.
    pub(crate) fn poll_delivery(
        &mut self,
        now: Instant,
        clock: PeerClock<'_>,
    ) -> Option<Delivered> {
        loop {
            let ready = self.next_delivery()?;
            if !submit::is_carried(&ready) {
                self.accounts.of(ready.class).on_delivered(ready.age);
                return Some(ready);
            }
            self.handle_carried(now, clock, &ready.payload);
        }
    }

    /// Returns what an application should know next.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        each!([&mut self], _, delivery => if let Some(event) = delivery.poll_event() {
            return Some(event);
        });
        None
    }

    /// Learns that the session is over.
    pub(crate) fn end(&mut self, now: Instant) {
        each!([&mut self], _, delivery => delivery.end(now));
    }

    /// Adds what people and scripts may see.
    pub(crate) fn show(&self, now: Instant, status: &mut SessionStatus) {
        status.classes = self.accounts.rows();
        each!([&self], _, delivery => delivery.show(now, status));
        status.rejected += self.rejected;
    }

    fn next_delivery(&mut self) -> Option<Delivered> {
        each!([&mut self], _, delivery => if let Some(ready) = delivery.poll_delivery() {
            return Some(ready);
        });
        None
    }
}
