//! The form `flowcode`: packets travel as coded generations [FlowCode §III].
//!
//! ```text
//! queue ─ k packets, or what has waited long enough ─► source ─ combinations ─► whichever path has room
//! combinations ─► destination ─ packets, ACKs by every path ─► release: each flow in its order
//! ```
//! What is coded of a packet:
//! ```text
//! back u16 (how far back its flow's packet before lies) ‖ submitted u32 (low half of the clock, µs) ‖ packet
//! ```
//! Packets are numbered by their place: k · generation + place + 1. A dummy's number is nobody's.

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::form::{Asked, Form};
use super::queue::{Queue, Waiting as Packet};
use super::release::{Release, Released};
use super::sender::Ask;
use super::ways::Ways;
use crate::delivery::generation::{self, Combination, Destination, LENGTH, Published, Source, Way};
use crate::delivery::{Builder, Incoming, Offer, Taken};
use crate::event::PathState;
use crate::ids::PathId;
use crate::limits;
use crate::memory::{Held, Room};
use crate::path::PathSnapshot;
use crate::recovery::{INITIAL_RTT, Mark};
use crate::select::Class;
use crate::status::TunnelStatus;
use crate::wire::{COMBINATION_OVERHEAD, CombinationFrame, DECODED_BYTES, Frame, TunnelFrame};

/// Marks a combination; what becomes of it, ACKs of its generation tell.
const COMBINATION: Mark = Mark { kind: 1, numbers: [0; 2] };
/// Bytes before a packet inside what is coded.
const BEFORE: usize = 2 + 4;

/// The parameters of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCodeParameters {
    /// Packets of a generation, 1 to 16 (k).
    pub k: u8,
    /// Generations in flight; none: what the paths hold (f).
    pub f: Option<u16>,
    /// Combinations for each packet of a generation before it is repeated in sequence (r).
    pub r: u8,
}

impl Default for FlowCodeParameters {
    /// Returns those of the paper, but for f, which belongs to its link.
    fn default() -> Self {
        Self { k: 4, f: None, r: 10 }
    }
}

impl FlowCodeParameters {
    /// Returns how many bytes a frame has around a packet, at most.
    pub(super) fn overhead(self) -> usize {
        COMBINATION_OVERHEAD + usize::from(self.k) + LENGTH + BEFORE
    }
}

/// Both halves in one session.
#[derive(Debug)]
pub(super) struct FlowCode {
    queue: Queue,
    /// Whether what waits has waited long enough for more.
    flushes: bool,
    source: Source,
    destination: Destination,
    /// How many ACKs have left by each path.
    told: SmallVec<[(PathId, u64); 4]>,
    release: Release,
}

impl FlowCode {
    /// Starts with nothing sent and nothing received.
    pub(super) fn new(parameters: FlowCodeParameters, seed: u64) -> Self {
        let pace =
            Published { f: parameters.f.map(usize::from), r: parameters.r.into(), of_each: false };
        Self {
            queue: Queue::default(),
            flushes: false,
            source: Source::new(parameters.k.into(), pace, seed),
            destination: Destination::default(),
            told: SmallVec::new(),
            release: Release::default(),
        }
    }

    /// Chooses what leaves by the path that asks, if it fits into `room` bytes: what is asked for,
    /// then something new, then what is repeated in sequence. Its ACK takes as long as `answer`.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        room: usize,
        answer: Duration,
        ask: &impl Ask,
    ) -> Option<Combination<'_>> {
        if !self.source.is_asked()
            && self.packs()
            && let Some(len) = self.queue.next_len()
        {
            let frame = BEFORE + LENGTH + len + self.around();
            if !ask.is_for(self.backlog(), len, frame) {
                return None;
            }
            self.pack(now);
        }
        let (number, bytes) = self.source.peek().or_else(|| self.source.peek_repeat())?;
        if bytes > room || !ask.is_for(self.backlog(), bytes, bytes + self.around()) {
            return None;
        }
        self.source.take(now, number, answer)
    }

    /// Takes a combination, and passes on what is decoded; false if some of it makes no sense.
    /// `age` says how old is what was submitted then.
    pub(super) fn handle_combination(
        &mut self,
        now: Instant,
        frame: &CombinationFrame<'_>,
        age: impl Fn(u32) -> Duration,
    ) -> bool {
        let CombinationFrame { generation, coefficients, payload } = *frame;
        let mut taken = self.destination.handle_combination(generation, coefficients, payload);
        while let Some(packet) = self.destination.poll() {
            let generation::Packet { generation, k, place, bytes } = packet;
            let Some((&[b0, b1, s0, s1, s2, s3], payload)) = bytes.split_first_chunk::<BEFORE>()
            else {
                taken = false;
                continue;
            };
            let submitted_us = u32::from_be_bytes([s0, s1, s2, s3]);
            let back = u16::from_be_bytes([b0, b1]).into();
            let number = number(generation, k, place);
            let symbol = TunnelFrame { number, back, submitted_us, payload };
            self.release.handle_symbol(now, &symbol, age(submitted_us));
        }
        taken
    }

    /// Learns that a generation is decoded at the other end; false if there has been none of this
    /// number.
    pub(super) fn on_ack(&mut self, generation: u64) -> bool {
        self.source.on_decoded(generation)
    }

    /// Returns the next generation whose ACK is to leave by a path.
    pub(super) fn next_ack(&mut self, path: PathId) -> Option<u64> {
        let (_, told) = self.told.iter_mut().find(|(id, _)| *id == path)?;
        let (generation, count) = self.destination.ack(*told)?;
        *told = count;
        Some(generation)
    }

    /// Returns how many bytes a frame has around a combination, at most.
    pub(super) fn around(&self) -> usize {
        COMBINATION_OVERHEAD + self.source.k()
    }

    /// Tells whether a generation may be packed now.
    fn packs(&self) -> bool {
        let waits = !self.queue.is_empty();
        waits && self.source.has_room() && (self.flushes || self.queue.has(self.source.k()))
    }

    /// Packs a generation of what waits.
    fn pack(&mut self, now: Instant) {
        let (k, generation) = (self.source.k(), self.source.next());
        let mut packets = Vec::with_capacity(k);
        while packets.len() < k {
            let number = number(generation, k, packets.len());
            let Some((packet, before)) = self.queue.pop(now, number) else { break };
            let back = before.and_then(|before| u16::try_from(number - before).ok());
            let back = back.filter(|back| u64::from(*back) < limits::TUNNEL_SEEN).unwrap_or(0);
            let mut bytes = Vec::with_capacity(BEFORE + packet.payload.len());
            bytes.extend_from_slice(&back.to_be_bytes());
            bytes.extend_from_slice(&(packet.since.as_micros() as u32).to_be_bytes());
            bytes.extend_from_slice(&packet.payload);
            packets.push(bytes);
        }
        self.flushes = false;
        if !packets.is_empty() {
            self.source.pack(&packets);
        }
    }

    /// Returns when what waits has waited long enough for more.
    fn wait_ends(&self) -> Option<Instant> {
        let since = self.queue.oldest()?;
        let waits = !self.flushes && self.source.has_room() && !self.queue.has(self.source.k());
        waits.then(|| since + self.source.wait())
    }
}

impl Form for FlowCode {
    fn submit(&mut self, packet: Packet) {
        self.queue.push(packet, 0);
    }

    fn handle_frame(&mut self, incoming: &Incoming<'_>, frame: &Frame<'_>) -> Taken {
        match frame {
            Frame::Combination(combination) => {
                let now = incoming.now;
                let age = |submitted_us| incoming.clock.age(now, submitted_us).estimate;
                self.handle_combination(now, combination, age).into()
            }
            Frame::Decoded { generation } => self.on_ack(*generation).into(),
            _ => Taken::NotMine,
        }
    }

    fn wants(&self) -> bool {
        self.source.is_asked() || self.source.has_repeats() || self.packs()
    }

    fn backlog(&self) -> usize {
        self.queue.bytes() + self.source.backlog()
    }

    fn turns(&self) -> usize {
        let repeats = self.source.is_asked() || self.source.has_repeats();
        self.queue.waiting_flows().max(usize::from(repeats))
    }

    /// One combination in a datagram, so that not two of a generation are lost at once.
    fn poll_frame(&mut self, offer: &mut Offer<'_>, datagram: &mut Builder<'_>) -> bool {
        if datagram.has_note(COMBINATION.kind) {
            return false;
        }
        let room = datagram.room().saturating_sub(self.around());
        let answer = answer(offer.snapshots, offer.turn.path.id());
        let asked = Asked { offer, own: self.backlog() };
        let Some(combination) = self.poll(offer.turn.now, room, answer, &asked) else {
            return false;
        };
        let Combination { generation, coefficients, payload } = combination;
        datagram.bulk = true;
        datagram.push(&Frame::Combination(CombinationFrame { generation, coefficients, payload }));
        datagram.note(COMBINATION);
        offer.accounts.of(Class::Bulk).copies_sent += 1;
        true
    }

    fn tells(&self, path: PathId) -> bool {
        let told = self.told.iter().find(|(id, _)| *id == path);
        told.is_some_and(|(_, count)| *count < self.destination.acks())
    }

    fn poll_along(&mut self, path: PathId, datagram: &mut Builder<'_>) {
        while datagram.room() >= DECODED_BYTES
            && let Some(generation) = self.next_ack(path)
        {
            datagram.push(&Frame::Decoded { generation });
        }
    }

    fn set_ways(&mut self, now: Instant, ways: &Ways) {
        let works = ways.slowest.is_some();
        // While none works, those that did last may carry an ACK.
        if works {
            let acks = self.destination.acks();
            self.told.retain(|(id, _)| ways.active.contains(id));
            for id in &ways.active {
                if !self.told.iter().any(|(known, _)| known == id) {
                    self.told.push((*id, acks));
                }
            }
        }
        let way = ways.slowest.map(|rtt| {
            let (rate, least_rtt) = (ways.rate, ways.fastest_rtt);
            Way { transmitters: 1, rate, rtt, least_rtt }
        });
        let longest = ways.longest.saturating_sub(self.around());
        self.source.set_way(way);
        self.source.set_longest(now, works.then_some(longest));
        self.queue.set_ways(now, ways);
        self.release.set_slowest(now, ways.awaited);
    }

    fn held(&self) -> Held {
        let ours = self.queue.bytes() + self.source.held();
        Held { ours, theirs: self.destination.held() + self.release.held() }
    }

    fn set_room(&mut self, room: &Room) {
        self.queue.set_room(room.ours.for_loss());
        self.destination.set_room(room.theirs.for_loss());
        self.release.set_room(room.theirs.for_loss());
    }

    fn timeout(&self) -> Option<Instant> {
        let ours = self.source.timeout().into_iter().chain(self.wait_ends());
        ours.chain(self.release.timeout()).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.source.handle_timeout(now);
        self.flushes |= self.wait_ends().is_some_and(|at| at <= now);
        self.release.handle_timeout(now);
    }

    fn poll_released(&mut self) -> Option<Released> {
        self.release.poll()
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.source.is_idle() && self.release.is_idle()
    }

    fn give_back(&mut self) {
        self.queue.forget_idle();
        self.source.give_back();
        self.release.give_back();
        self.destination.give_back();
    }

    fn show(&self, status: &mut TunnelStatus) {
        let (sent, received) = (self.source.counters(), self.destination.counters());
        status.flows += self.queue.flows() as u64;
        status.symbols += sent.packets;
        status.generations += sent.generations;
        status.combinations += sent.combinations;
        status.again += sent.repeats;
        status.given_up += sent.given_up;
        status.decoded += received.decoded;
        status.dropped += self.queue.dropped();
        status.expired += self.release.counters().expired;
    }

    fn duplicates(&self) -> u64 {
        self.destination.counters().redundant
    }
}

/// Returns how long the ACK of a generation takes whose last combination leaves by a path: it comes
/// back by all, so by the fastest first, and waits for nothing. Of twice the mean deviation: four
/// times it keeps TCP waiting (`lossy` of `bulk-lossy`, in the world: 24.2 Mbit/s instead of 24.7).
fn answer(paths: &[PathSnapshot], id: PathId) -> Duration {
    let active = paths.iter().filter(|path| path.state == PathState::Active);
    let fastest = active.map(PathSnapshot::srtt_or_initial).min();
    let own = paths.iter().find(|path| path.id == id);
    let srtt = own.map_or(INITIAL_RTT, PathSnapshot::srtt_or_initial);
    let deviation = own.and_then(|path| path.rttvar).unwrap_or(srtt / 2);
    (srtt + fastest.unwrap_or(srtt)) / 2 + deviation * 2
}

/// Numbers a packet by its place.
fn number(generation: u64, k: usize, place: usize) -> u64 {
    generation * k as u64 + place as u64 + 1
}
