//! Pairs of paths over emulated links in virtual time: the bench on which controllers and health
//! are measured. Unlike the world of `netem` it has no sessions, keys or bytes, only the packets
//! that paths exchange, so that a minute of traffic takes milliseconds.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use netem::{Link, LinkModel};

use super::super::*;
use crate::ids::InterfaceId;
use crate::recovery::{AckInfo, AckToSend, Arrival, SentFrame};
use crate::via::Via;

/// IPv4 and UDP headers, bytes.
const OVERHEAD: usize = 28;
/// Bulk that waited longer at the sender is dropped, as a session does.
const BULK_MAX_AGE: Duration = Duration::from_millis(150);

/// What a flow's sender has to send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Nothing.
    Idle,
    /// As much as the path takes.
    Greedy,
    /// This many full datagrams at this interval.
    Bursts { datagrams: usize, every: Duration },
}

#[derive(Clone, Debug)]
enum Item {
    Ack(AckToSend),
    Challenge(u64),
    Response(u64),
    Control,
    Bulk { queued_at: Instant },
}

#[derive(Clone, Debug)]
struct Wire {
    pn: u64,
    bytes: usize,
    eliciting: bool,
    sent_at: Instant,
    items: Vec<Item>,
}

/// One end of a flow, with its path and its applications.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) path: Path,
    link: usize,
    source: Source,
    queue: VecDeque<Instant>,
    next_burst: Instant,
    control_every: Option<Duration>,
    next_control: Instant,
    control_due: u32,
    /// Arrival and delay since sending, of bulk received from the other end.
    pub(crate) bulk: Vec<(Instant, Duration)>,
    /// Its bytes of UDP payload.
    pub(crate) bulk_bytes: u64,
    /// Arrival and delay since sending, of control received from the other end.
    pub(crate) control: Vec<(Instant, Duration)>,
    /// Changes of state, when and to what.
    pub(crate) changes: Vec<(Instant, PathState)>,
    /// Packets declared lost.
    pub(crate) lost: u64,
}

impl End {
    fn new(now: Instant, congestion: CongestionKind, side: u32, link: usize) -> Self {
        let config = PathConfig {
            congestion,
            initiator: side == 0,
            idle_probe: Duration::from_secs(1),
            protect_control: ProtectControl::Off,
        };
        let mut path = Path::new(now, PathId(0), route(side), config, 7 + u64::from(side));
        path.confirm_address(now, Duration::ZERO);
        Self {
            path,
            link,
            source: Source::Idle,
            queue: VecDeque::new(),
            next_burst: now,
            control_every: None,
            next_control: now,
            control_due: 0,
            bulk: Vec::new(),
            bulk_bytes: 0,
            control: Vec::new(),
            changes: Vec::new(),
            lost: 0,
        }
    }

    fn timeout(&self, now: Instant) -> Option<Instant> {
        let burst = matches!(self.source, Source::Bursts { .. }).then_some(self.next_burst);
        let control = self.control_every.map(|_| self.next_control);
        let waiting = matches!(self.source, Source::Greedy) || !self.queue.is_empty();
        let pacing = if waiting { self.path.pacing_deadline(now) } else { None };
        [burst, control, pacing, self.path.timeout()].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Source::Bursts { datagrams, every } = self.source
            && self.next_burst <= now
        {
            self.next_burst += every;
            self.queue.extend(std::iter::repeat_n(now, datagrams));
        }
        if let Some(every) = self.control_every
            && self.next_control <= now
        {
            self.next_control += every;
            self.control_due += 1;
        }
        let outcome = self.path.on_timeout(now);
        self.note(now, outcome);
    }

    fn note(&mut self, now: Instant, outcome: Outcome) {
        self.lost += outcome.lost.len() as u64;
        if let Some((_, to)) = outcome.changed {
            self.changes.push((now, to));
        }
        for packet in outcome.acked {
            for frame in packet.frames {
                if let SentFrame::Ack { largest, .. } = frame {
                    self.path.on_ack_of_ack(largest, packet.sent_at);
                }
            }
        }
    }

    fn receive(&mut self, now: Instant, side: u32, wire: Wire) {
        let from = route(side);
        self.path.on_datagram(now, wire.pn, from, wire.bytes);
        let mut urgent = wire.eliciting;
        for item in wire.items {
            match item {
                Item::Ack(ack) => {
                    let info = AckInfo {
                        largest: ack.largest,
                        received_at_us: ack.received_at.as_micros(),
                        delay: ack.delay,
                        ranges: &ack.ranges,
                        elsewhere: false,
                    };
                    let outcome = self.path.on_ack(now, &info);
                    self.note(now, outcome);
                }
                Item::Challenge(token) => self.path.on_challenge(token, from),
                Item::Response(token) => {
                    let outcome = self.path.on_response(now, token);
                    self.note(now, outcome);
                }
                Item::Control => self.control.push((now, now.since(wire.sent_at))),
                Item::Bulk { queued_at } => {
                    urgent = false;
                    self.bulk_bytes += wire.bytes as u64;
                    self.bulk.push((now, now.since(queued_at)));
                }
            }
        }
        let arrival =
            Arrival { ack_eliciting: wire.eliciting, urgent, may_wait: false, in_order: false };
        self.path.on_packet_received(now, wire.pn, arrival);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Wire> {
        let mut items = Vec::new();
        let mut frames = SentFrames::new();
        let (mut bytes, mut eliciting, mut bulk) = (40, true, false);
        if self.control_due > 0 {
            self.control_due -= 1;
            bytes += 60;
            items.push(Item::Control);
        } else if let Some(token) = self.path.take_response() {
            items.push(Item::Response(token.token));
            eliciting = false;
        } else if let Some(token) = self.path.take_challenge(now) {
            items.push(Item::Challenge(token.token));
        } else if let Some(size) = self.path.mtu_probe(now) {
            bytes = size;
            frames.push(SentFrame::MtuProbe { size: size as u16 });
        } else if self.path.probe_is_wanted() {
            items.clear();
        } else if self.path.ack_is_due(now) {
            eliciting = false;
        } else if let Some(queued_at) = self.take_bulk(now) {
            (bytes, bulk) = (self.path.max_datagram(), true);
            items.push(Item::Bulk { queued_at });
        } else {
            return None;
        }
        if self.path.ack_has_news(now)
            && let Some(ack) = self.path.take_ack(now)
        {
            frames.push(SentFrame::Ack { path: PathId(0), largest: ack.largest });
            items.push(Item::Ack(ack));
        }
        let pn = self.path.next_packet_number();
        let outgoing = Outgoing {
            pn,
            bytes,
            ack_eliciting: eliciting,
            bulk,
            marked: false,
            route: None,
            frames,
        };
        self.path.on_packet_sent(now, outgoing);
        Some(Wire { pn, bytes, eliciting, sent_at: now, items })
    }

    fn take_bulk(&mut self, now: Instant) -> Option<Instant> {
        while self.queue.front().is_some_and(|&at| now.since(at) > BULK_MAX_AGE) {
            self.queue.pop_front();
        }
        if self.path.bulk_budget(now) < self.path.max_datagram() {
            return None;
        }
        match self.source {
            Source::Greedy => Some(now),
            _ => self.queue.pop_front(),
        }
    }

    /// Forgets what came in so far: for long runs that look at the path alone.
    pub(crate) fn forget_deliveries(&mut self) {
        self.bulk.clear();
        self.control.clear();
    }

    /// Returns the goodput of bulk from `from` to `to`, in Mbit/s.
    pub(crate) fn goodput_mbps(&self, from: Instant, to: Instant) -> f64 {
        let size = self.bulk_bytes as f64 / self.bulk.len().max(1) as f64;
        let count = self.bulk.iter().filter(|(at, _)| (from..to).contains(at)).count();
        count as f64 * size * 8.0 / to.since(from).as_secs_f64() / 1e6
    }

    /// Returns the `q`-quantile of the delay of bulk that came in from `from` to `to`.
    pub(crate) fn delay_quantile(&self, from: Instant, to: Instant, q: f64) -> Duration {
        let window = self.bulk.iter().filter(|(at, _)| (from..to).contains(at));
        let mut delays: Vec<Duration> = window.map(|&(_, delay)| delay).collect();
        delays.sort_unstable();
        let index = (delays.len().saturating_sub(1) as f64 * q) as usize;
        delays.get(index).copied().unwrap_or_default()
    }
}

struct Flight {
    at: Instant,
    order: u64,
    to: usize,
    wire: Wire,
}

impl Ord for Flight {
    /// The earliest is the greatest, because the heap yields the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Flight {}

/// Flows between pairs of ends over shared links.
pub(crate) struct Testbed {
    pub(crate) now: Instant,
    pub(crate) links: Vec<Link>,
    /// End 2·i and end 2·i + 1 talk to each other.
    pub(crate) ends: Vec<End>,
    flying: BinaryHeap<Flight>,
    order: u64,
}

impl Testbed {
    pub(crate) fn new(models: &[LinkModel], seed: u64) -> Self {
        let link = |(i, model)| Link::new(model, seed, &format!("link {i}"));
        Self {
            now: Instant::from_millis(1),
            links: models.iter().enumerate().map(link).collect(),
            ends: Vec::new(),
            flying: BinaryHeap::new(),
            order: 0,
        }
    }

    /// Adds a flow whose first end sends over link `forth` and whose second over link `back`;
    /// returns the number of the first end.
    pub(crate) fn add_flow(&mut self, kind: CongestionKind, forth: usize, back: usize) -> usize {
        self.ends.push(End::new(self.now, kind, 0, forth));
        self.ends.push(End::new(self.now, kind, 1, back));
        self.ends.len() - 2
    }

    pub(crate) fn set_source(&mut self, end: usize, source: Source) {
        let end = &mut self.ends[end];
        (end.source, end.next_burst) = (source, self.now);
        end.queue.clear();
    }

    /// Sends a control message every `every` from now on.
    pub(crate) fn set_control(&mut self, end: usize, every: Option<Duration>) {
        let end = &mut self.ends[end];
        (end.control_every, end.next_control) = (every, self.now);
    }

    pub(crate) fn run_until(&mut self, until: Instant) {
        loop {
            (0..self.ends.len()).for_each(|end| self.transmit(end));
            let next = self.next_event();
            if next > until {
                self.now = until;
                return;
            }
            self.now = next.max(self.now);
            while self.flying.peek().is_some_and(|flight| flight.at <= self.now) {
                if let Some(Flight { to, wire, .. }) = self.flying.pop() {
                    self.ends[to].receive(self.now, (to as u32 & 1) ^ 1, wire);
                }
            }
            self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
        }
    }

    fn next_event(&self) -> Instant {
        let arrival = self.flying.peek().map(|flight| flight.at);
        let ends = self.ends.iter().filter_map(|end| end.timeout(self.now));
        ends.chain(arrival).min().unwrap_or(Instant::from_nanos(u64::MAX))
    }

    fn transmit(&mut self, end: usize) {
        while let Some(wire) = self.ends[end].poll_transmit(self.now) {
            let link = &mut self.links[self.ends[end].link];
            let verdict = link.handle_packet(self.now, wire.bytes + OVERHEAD);
            for delivery in verdict.deliveries {
                let (order, wire) = (self.order, wire.clone());
                self.order += 1;
                self.flying.push(Flight { at: delivery.at, order, to: end ^ 1, wire });
            }
        }
    }
}

fn route(side: u32) -> Route {
    let remote = Via::Udp(([10, 0, 0, 1 + side as u8], 7_000).into());
    Route { interface: InterfaceId(0), local: None, remote }
}
