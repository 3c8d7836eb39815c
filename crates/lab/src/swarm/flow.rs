//! What the applications of a swarm's run hand in: one flow, its rhythm, and packets that say who
//! they are.

use core::fmt;
use std::net::Ipv4Addr;

use proto::select::{Order, Policy};
use proto::{MessageOrder, MessageStream, Source};
use units::{Duration, Instant, Rng};
use world::wrap;

use super::draw::{log_uniform, pick, span};
use super::{DRONE, HOSTS, STATION};

/// Bytes that name a packet: its flow and its number.
const NAME_BYTES: usize = 5;
/// The most bytes of a packet that has to fit a datagram.
const DATAGRAM_MAX: u64 = 1_100;
/// The most bytes of a message: some dozen symbols.
const MESSAGE_MAX: u64 = 30_000;

/// Addresses of the tunnel, the drone's first.
const TUNNEL: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 2), Ipv4Addr::new(10, 99, 0, 1)];
/// A port of the tunnel that the selector does not look into.
const TUNNEL_PORT: u16 = 5_600;

/// One flow of packets of one kind, from one host to the other.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// The host that sends.
    pub(super) from: usize,
    /// What its packets expect.
    pub(super) kind: Kind,
    /// The mean time between two packets.
    pub(super) every: Duration,
    /// Whether packets come at random instead of evenly.
    pub(super) bursty: bool,
    /// The least and the greatest size of a packet.
    pub(super) bytes: (u64, u64),
    /// When the first is due, and when no more are.
    pub(super) span: (Instant, Instant),
}

/// What the packets of a flow expect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Packets of a policy that the application tells.
    Declared(&'static str, Policy),
    /// Messages.
    Message(MessageOrder, Option<Duration>),
    /// UDP in the tunnel.
    Tunnel,
}

/// Declared packets that keep an order and wait for nothing long.
const SEQUENCED: Policy = Policy { order: Order::Sequenced, ..Policy::TRANSACTIONAL };
/// The newest wins, sent once over the best path.
const FRESH: Policy =
    Policy { copies: proto::select::Copies::Best, reliable: false, ..Policy::LIVE };

impl Flow {
    /// Draws the flow of this number for a run in which applications send for `traffic`.
    ///
    /// The first two are commands, one flow each way: what starvation is judged by.
    pub(super) fn draw(number: usize, traffic: Duration, rng: &mut Rng) -> Self {
        let kind = if number < HOSTS {
            Kind::Declared("commands", Policy::DECLARED)
        } else {
            draw_kind(rng)
        };
        let from = if number < HOSTS { number } else { pick(rng, &[DRONE, STATION]) };
        let (every_ms, bytes) = match kind {
            Kind::Tunnel => (log_uniform(rng, 2.0, 200.0), DATAGRAM_MAX),
            Kind::Message(..) => (log_uniform(rng, 10.0, 1_000.0), MESSAGE_MAX),
            Kind::Declared(_, policy) if policy.is_coded() => {
                (log_uniform(rng, 10.0, 500.0), DATAGRAM_MAX)
            }
            Kind::Declared(_, policy) if policy.is_plain() => {
                (log_uniform(rng, 5.0, 500.0), DATAGRAM_MAX)
            }
            Kind::Declared(..) => (log_uniform(rng, 20.0, 1_000.0), 200),
        };
        // Long runs are there for what happens after minutes: they carry less per second.
        let slower = (traffic.as_secs_f64() / 30.0).max(1.0);
        let least = log_uniform(rng, NAME_BYTES as f64, bytes as f64) as u64;
        let most = least + rng.below(bytes - least + 1);
        let whole = number < HOSTS || rng.chance(0.5);
        let ends =
            if whole { (Instant::ZERO, Instant::ZERO + traffic) } else { span(rng, traffic) };
        Self {
            from,
            kind,
            every: Duration::from_secs_f64(every_ms * slower / 1e3),
            bursty: rng.chance(0.5),
            bytes: (least, most),
            span: ends,
        }
    }

    /// Draws what a pilot's hand or an autopilot sends all the time, which a thin link may not
    /// carry.
    pub(super) fn draw_steady(from: usize, traffic: Duration, rng: &mut Rng) -> Self {
        let kind = pick(
            rng,
            &[
                Kind::Declared("commands", Policy::DECLARED),
                Kind::Declared("live set-points", Policy::LIVE),
            ],
        );
        let bytes = log_uniform(rng, 30.0, 150.0) as u64;
        Self {
            from,
            kind,
            every: Duration::from_secs_f64(log_uniform(rng, 0.01, 0.05)),
            bursty: rng.chance(0.5),
            bytes: (bytes, bytes),
            span: (Instant::ZERO, Instant::ZERO + traffic),
        }
    }

    /// Returns the source of the session that its packets enter by.
    pub(super) fn source(&self, number: usize) -> Source {
        let channel = Self::channel_of(number);
        match self.kind {
            Kind::Declared(_, policy) => Source::Declared { channel, policy },
            Kind::Message(order, deadline) => {
                let stream = MessageStream { id: u16::from(channel) * 3, order, deadline };
                Source::Message { channel, stream }
            }
            Kind::Tunnel => Source::Tunnel,
        }
    }

    /// Returns the channel that its packets are delivered to.
    pub(super) fn channel(&self, number: usize) -> u8 {
        if self.kind == Kind::Tunnel { 0 } else { Self::channel_of(number) }
    }

    /// Returns the time until its next packet.
    pub(super) fn pause(&self, rng: &mut Rng) -> Duration {
        if self.bursty { self.every.mul_f64(rng.exponential(1.0)) } else { self.every }
    }

    /// Makes a packet.
    pub(super) fn packet(&self, seed: u64, number: usize, sequence: u32) -> Vec<u8> {
        let mut rng = Rng::stream(seed, &format!("packet {number} {sequence}"));
        let (least, most) = self.bytes;
        let mut bytes = vec![0; (least + rng.below(most - least + 1)) as usize];
        rng.fill(&mut bytes);
        bytes[0] = number as u8;
        bytes[1..NAME_BYTES].copy_from_slice(&sequence.to_be_bytes());
        bytes
    }

    /// Returns the packet as the tunnel carries it; none where it enters as it is.
    pub(super) fn wrapped(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let [drone, station] = TUNNEL;
        let (source, destination) =
            if self.from == DRONE { (drone, station) } else { (station, drone) };
        (self.kind == Kind::Tunnel).then(|| wrap(packet, source, destination, TUNNEL_PORT))
    }

    /// Tells whether the end of each packet is told.
    pub(super) fn is_accounted_for(&self) -> bool {
        matches!(self.kind, Kind::Declared(_, policy)
            if policy.reliable && !policy.is_coded() && !policy.is_plain())
    }

    /// Returns the age beyond which a packet must not be delivered.
    pub(super) fn life(&self) -> Option<Duration> {
        match self.kind {
            Kind::Declared(_, policy) if !policy.is_plain() && !policy.is_coded() => {
                Some(policy.ttl)
            }
            _ => None,
        }
    }

    /// Tells whether a packet that comes behind a later one is wrong.
    pub(super) fn keeps_order(&self) -> bool {
        match self.kind {
            Kind::Declared(_, policy) => policy.order != Order::None,
            Kind::Message(order, _) => order == MessageOrder::InOrder,
            Kind::Tunnel => false,
        }
    }

    /// Tells whether every packet arrives for as long as the session lasts.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.kind, Kind::Message(_, None))
    }

    /// Tells whether its packets are commands: none may be lost while a link is able to carry them.
    pub(super) fn is_command(&self) -> bool {
        matches!(self.kind, Kind::Declared(_, Policy::DECLARED | Policy::TRANSACTIONAL))
    }

    fn channel_of(number: usize) -> u8 {
        number as u8 + 1
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = self.bytes;
        let from = if self.from == DRONE { "drone" } else { "station" };
        match self.kind {
            Kind::Declared(name, _) => f.write_str(name)?,
            Kind::Message(order, deadline) => write!(f, "messages {order:?} {deadline:?}")?,
            Kind::Tunnel => f.write_str("tunnel")?,
        }
        let how = if self.bursty { "at random" } else { "evenly" };
        write!(f, " from the {from}, {least}-{most} bytes every {:?} {how}", self.every)?;
        write!(f, ", {:.3} to {:.3} s", self.span.0.as_secs_f64(), self.span.1.as_secs_f64())
    }
}

/// Returns the flow and the number that a packet names.
pub(super) fn name_of(packet: &[u8]) -> Option<(usize, u32)> {
    let (flow, rest) = packet.split_first()?;
    let sequence = rest.first_chunk::<4>()?;
    Some((usize::from(*flow), u32::from_be_bytes(*sequence)))
}

fn draw_kind(rng: &mut Rng) -> Kind {
    let deadline = Duration::from_millis(100 + rng.below(2_000));
    let deadline = rng.chance(0.4).then_some(deadline);
    let order = pick(rng, &[MessageOrder::InOrder, MessageOrder::Unordered]);
    let kinds = [
        Kind::Declared("commands", Policy::DECLARED),
        Kind::Declared("commands in order", Policy::TRANSACTIONAL),
        Kind::Declared("sequenced commands", SEQUENCED),
        Kind::Declared("live set-points", Policy::LIVE),
        Kind::Declared("live, once", FRESH),
        Kind::Declared("heartbeats", Policy::LIVENESS),
        Kind::Declared("telemetry", Policy::TELEMETRY),
        Kind::Declared("parameters", Policy::TRANSFER),
        Kind::Message(order, deadline),
        Kind::Message(order, deadline),
        Kind::Tunnel,
        Kind::Tunnel,
    ];
    pick(rng, &kinds)
}
