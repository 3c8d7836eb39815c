//! One path: a local interface and a remote address with their own packet numbers, round-trip
//! time, loss, window, MTU and health.
//!
//! The session drives it in packet order: `on_datagram` (authenticated), its frames, then
//! `on_packet_received`; on the way out `take_…` for what the path itself wants to say,
//! [`Path::bulk_budget`] for what the application may, `next_packet_number`, `on_packet_sent`.
//! Whatever that ends — packets delivered or lost, a change of state — comes back as an
//! [`Outcome`]. It knows no other path: `paths.rs` sees them together. It tells control from bulk,
//! and not one message from another. The rules are those of [specs/paths.md §1].

mod address;
mod answers;
mod bottleneck;
mod bulk;
mod bulk_bound;
mod bursts;
mod control_window;
mod drain;
#[cfg(any(test, fuzzing, feature = "doors"))]
mod driven;
mod health;
mod inbound;
mod incoming;
mod jitter;
mod link;
mod marks;
mod mtu;
mod numbers;
mod outbound;
mod pacer;
mod passage;
mod path_use;
mod paths;
mod rate_history;
mod relayed;
mod service;
mod silence;
mod skipped;
mod snapshot;
mod streamed;
#[cfg(test)]
pub(crate) mod tests;
mod timers;
mod uncounted;

use units::{Duration, Instant, Rate};

pub(crate) use address::{Route, Token};
pub(crate) use bulk_bound::BulkRole;
pub use bulk_bound::ProtectControl;
pub(crate) use control_window::{CopyRoom, THIN};
pub(crate) use drain::Drain;
#[cfg(any(fuzzing, feature = "doors"))]
pub(crate) use driven::drive;
pub use path_use::{Carries, Cost, PathUse};
pub(crate) use paths::{MUCH_LOSS, PATIENCE_WITHOUT_PATH, Paths};
pub use relayed::RelayRoom;
pub(crate) use snapshot::PathSnapshot;

use address::Address;
use bulk::Bulk;
use health::{Health, HealthView};
use incoming::Incoming;
use link::Link;
use marks::Marks;
use mtu::MtuDiscovery;
use numbers::Numbers;
use relayed::Relayed;
use service::Service;
use snapshot::Counters;
use timers::Probes;

use crate::congestion::{CongestionKind, LinkView, initial_window};
use crate::event::PathState;
use crate::ids::PathId;
use crate::limits;
use crate::recovery::{ClockSample, MAX_ACK_DELAY, SentFrames, SentPacket, SentPackets};

/// What may queue on a thin path, where each datagram takes tens of milliseconds, in both
/// directions: an answer may take so much longer. A path that answers behind a longer queue than
/// this has become thin; behind a shorter one it only stalled.
const THIN_QUEUE: Duration = Duration::from_millis(200);

/// The same while an MTU probe is under way on an unknown path, and the most that is allowed for
/// what stands before a packet on a slow one: the time that such a probe takes at 16 kbit/s.
const PROBE_PATIENCE: Duration = Duration::from_millis(750);

/// So many packets of one kind, marked or long or any, that are lost or unanswered in a row are
/// hardly chance: at 10 % loss one time in a thousand.
const HARDLY_CHANCE: u32 = 3;

/// Configures a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathConfig {
    /// Which congestion controller.
    pub(crate) congestion: CongestionKind,
    /// True on the side that opened the path: its interface is fixed, and its remote address was
    /// configured and not brought up by a stranger.
    pub(crate) initiator: bool,
    /// A path that carried nothing for this long is probed; zero never probes.
    pub(crate) idle_probe: Duration,
    /// How much room bulk leaves to control.
    pub(crate) protect_control: ProtectControl,
}

/// Collects what an input or a timeout has settled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Packets that the peer has received, those among them that had been declared lost included.
    pub(crate) acked: Vec<SentPacket>,
    /// Packets declared lost.
    pub(crate) lost: Vec<SentPacket>,
    /// The state before and after, where it changed.
    pub(crate) changed: Option<(PathState, PathState)>,
    /// True when the path moved to another address, which has proved itself.
    pub(crate) moved: bool,
    /// True when the peer has acknowledged a number that was left out.
    pub(crate) cheated: bool,
    /// A bound on the offset of the peer's clock.
    pub(crate) clock: Option<ClockSample>,
    /// When the peer had received the newest of `acked`, in microseconds of its clock.
    pub(crate) received_at_us: u64,
    /// When that one was sent, where earlier acknowledgements seem to have been lost: then those
    /// before it took as long as it did. Otherwise they may have come together with it.
    pub(crate) repeats_lost: Option<Instant>,
}

/// Describes a datagram that is being sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    /// Its number, from [`Path::next_packet_number`].
    pub(crate) pn: u64,
    /// Its UDP payload.
    pub(crate) bytes: usize,
    /// Whether the peer must acknowledge it.
    pub(crate) ack_eliciting: bool,
    /// Whether it carries bulk: it obeyed [`Path::bulk_budget`], and the peer may hold its
    /// acknowledgement back.
    pub(crate) bulk: bool,
    /// Whether it leaves with the mark of control.
    pub(crate) marked: bool,
    /// Where it goes, when not to the path's own route.
    pub(crate) route: Option<Route>,
    /// What it carries.
    pub(crate) frames: SentFrames,
}

/// How long after it was busy a path's capacity is reported, and answers may stand in a queue
/// there: links of vehicles change.
const KNOWN_FOR: Duration = Duration::from_secs(30);

/// One path of a session.
#[derive(Debug)]
pub(crate) struct Path {
    id: PathId,
    config: PathConfig,
    address: Address,
    mtu: MtuDiscovery,
    numbers: Numbers,
    sent: SentPackets,
    incoming: Incoming,
    link: Link,
    health: Health,
    probes: Probes,
    bulk: Bulk,
    marks: Marks,
    service: Service,
    counters: Counters,
    looked_at: Instant,
}

impl Path {
    /// Makes a path whose address is to be validated; `seed` must not be guessable by the peer.
    pub(crate) fn new(
        now: Instant,
        id: PathId,
        route: Route,
        config: PathConfig,
        seed: u64,
    ) -> Self {
        let relayed = route.remote.is_relayed().then(Relayed::default);
        // Two windows, one behind the other, would halve the rate: the relays' is enough.
        let congestion = if relayed.is_some() { CongestionKind::None } else { config.congestion };
        Self {
            id,
            config,
            address: Address::new(now, route, config.initiator, seed),
            mtu: MtuDiscovery::new(now),
            numbers: Numbers::new(seed),
            sent: SentPackets::new(relayed.is_some()),
            incoming: Incoming::default(),
            link: Link::new(now, relayed),
            health: Health::new(now),
            probes: Probes::new(now),
            bulk: Bulk::new(now, congestion),
            marks: Marks::default(),
            service: Service::default(),
            counters: Counters::default(),
            looked_at: now,
        }
    }

    /// Returns which path this is.
    pub(crate) fn id(&self) -> PathId {
        self.id
    }

    /// Lets a probe leave at once.
    pub(crate) fn want_probe(&mut self) {
        self.probes.wanted = true;
    }

    /// Returns the smoothed round-trip time or, before any sample, the initial guess.
    pub(crate) fn srtt_or_initial(&self) -> Duration {
        self.link.rtt.srtt_or_initial()
    }

    /// Returns the least round-trip time lately or, before any sample, the initial guess.
    pub(crate) fn least_rtt(&self) -> Duration {
        self.link.rtt.min_rtt().unwrap_or_else(|| self.link.rtt.srtt_or_initial())
    }

    /// Returns the rate at which the congestion control lets bulk leave: window over round-trip
    /// time.
    pub(crate) fn send_rate(&self) -> Rate {
        if self.link.relayed.is_some() || self.is_stream() {
            return self.link.delivery_rate.max(relayed::LEAST_RATE);
        }
        Rate::from_bytes_in(self.bulk.congestion.cwnd(), self.link.rtt.srtt_or_initial())
    }

    /// Tells whether its window has grown beyond the first one: until then its rate says little of
    /// the path.
    pub(crate) fn was_filled(&self) -> bool {
        self.bulk.congestion.cwnd() > initial_window(self.mtu.current() as u64)
    }

    /// Tells whether it carries less than it could for a moment, on purpose.
    pub(crate) fn runs_dry(&self) -> bool {
        self.bulk.congestion.runs_dry()
    }

    /// Returns the smoothed round-trip time, once there is one.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.link.rtt.srtt()
    }

    /// Returns what it is good for.
    pub(crate) fn state(&self) -> PathState {
        self.health.state
    }

    /// Tells whether what is sent now may be expected to arrive: it works, and no answer is
    /// overdue. *Usable* always means this.
    pub(crate) fn is_usable(&self) -> bool {
        self.health.state == PathState::Active && !self.health.doubtful
    }

    /// Returns what its place among the paths for copies of control depends on.
    pub(crate) fn control_place(&self) -> (PathState, Duration, PathId) {
        (self.health.state, self.link.rtt.srtt_or_initial(), self.id)
    }

    /// Returns where its datagrams leave and go.
    pub(crate) fn route(&self) -> Route {
        self.address.route()
    }

    /// Returns where else the peer may be.
    pub(crate) fn candidate(&self) -> Option<Route> {
        self.address.candidate()
    }

    /// Returns the largest datagram that it carries in one piece, in bytes of UDP payload.
    pub(crate) fn max_datagram(&self) -> usize {
        if self.is_stream() {
            return limits::MAX_DATAGRAM;
        }
        self.link.relayed.as_ref().map_or(self.mtu.current(), Relayed::max_datagram)
    }

    /// Returns the same of one that may go in pieces.
    pub(crate) fn longest_datagram(&self) -> usize {
        self.link.relayed.as_ref().map_or(limits::MAX_DATAGRAM, Relayed::max_datagram)
    }

    /// Learns how long IP packets are that the interface carries.
    pub(crate) fn set_interface_mtu(&mut self, now: Instant, mtu: usize) {
        let headers = match self.route().remote.is_ipv6() {
            true => limits::IPV6_AND_UDP,
            false => limits::IP_AND_UDP,
        };
        self.mtu.set_limit(now, mtu.saturating_sub(headers as usize));
    }

    /// Notes that a datagram goes in pieces.
    pub(crate) fn on_cut(&mut self) {
        self.counters.datagrams_cut += 1;
    }

    /// Returns the age at which an unanswered packet is overdue.
    pub(crate) fn probe_timeout(&self) -> Duration {
        self.link.rtt.probe_timeout()
    }

    /// Returns how long a packet is under way: half of the round trip.
    pub(crate) fn one_way(&self) -> Duration {
        self.link.rtt.srtt_or_initial() / 2
    }

    /// Returns the age at which the answer to a packet of bulk is overdue.
    pub(crate) fn overdue_after(&self) -> Duration {
        self.health_view(self.looked_at).overdue_after(true)
    }

    /// Returns the share of packets that it loses.
    pub(crate) fn loss(&self) -> f64 {
        self.sent.loss().loss()
    }

    /// Returns how many bytes may be sent before its address has proved itself; without limit
    /// after that. Holds for everything, control included.
    pub(crate) fn allowance(&self) -> u64 {
        self.address.allowance()
    }

    fn link_view(&self, now: Instant) -> LinkView {
        LinkView {
            now,
            srtt: self.link.rtt.srtt_or_initial(),
            min_rtt: self.least_rtt(),
            mtu: self.mtu.current() as u64,
        }
    }

    fn health_view(&self, now: Instant) -> HealthView {
        let srtt = self.link.rtt.srtt_or_initial();
        let patience = self.control_held().max(self.thin_patience());
        HealthView {
            srtt,
            rttvar: self.link.rtt.rttvar().unwrap_or(srtt / 2),
            loss: self.sent.loss().loss(),
            loss_in: self.incoming.acks.loss().loss(),
            ack_delay: MAX_ACK_DELAY.max(patience),
            control_ack_delay: patience,
            burst: self.health.bursts.usual(now).max(self.repeat_of_stream(srtt)),
            usual: self.usual_answer(srtt),
        }
    }

    /// Returns how much longer an answer may take because of what the hop has to send before it.
    fn thin_patience(&self) -> Duration {
        if self.link.hop.best_ever() == Rate::ZERO
            && self.mtu.is_probing()
            && !self.has_bulk()
            && self.mtu.is_settled(self.looked_at)
        {
            return PROBE_PATIENCE;
        }
        let Some(rate) = self.slow_rate(self.looked_at) else { return Duration::ZERO };
        let first = self.sent.unheard().next();
        let queued = first.map_or(Duration::ZERO, |first| self.queued(rate, first));
        // The answer stands in a queue, too. Control alone does not refute every rate, and where
        // nothing is busy nothing queues.
        let was_busy = self.link.hop.rate_within(self.looked_at, KNOWN_FOR).is_some();
        let answer = if self.is_thin() && was_busy {
            THIN_QUEUE
        } else {
            rate.transmission_time(self.sent.in_flight() as usize).min(THIN_QUEUE)
        };
        answer.max(queued.min(PROBE_PATIENCE))
    }

    fn probe_interval(&self, now: Instant) -> Duration {
        let interval = match &self.health.suspicion {
            Some(suspicion) => {
                let least = self.least_silent_probe(suspicion.lasts(now));
                suspicion.probe_interval(now, self.link.rtt.srtt_or_initial()).max(least)
            }
            None => self.health_view(now).probe_interval(),
        };
        let careful = self.careful_since(now);
        let wait = careful.map_or(Duration::ZERO, |since| self.careful_wait(now, since));
        interval.max(self.least_probe_interval(now)).max(wait)
    }
}
