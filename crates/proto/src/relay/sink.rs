//! The destination of a relayed link: hands up packets as they are determined, and reports ranks
//! [specs/relay.md §4].

use std::collections::{BTreeMap, VecDeque};

use coding::block::Decoder;
use coding::{CoefficientKey, Outcome};
use units::{Duration, Instant};

use super::frame::{COMPLETE, Coded, NOBODY, Ranks, longest_datagram};
use super::members::Refusal;
use super::sources::Sources;
use super::{PRESENCE, REPORT};
use crate::delivery::generation::LENGTH;
use crate::limits;
use crate::window::SeenWindow;

/// Datagrams that wait to be handed up, at most: all of the generations that are remembered, which
/// is more than a few turns of a daemon's loop bring.
const READY: usize = limits::RELAY_REMEMBERED as usize * limits::GENERATION_PACKETS;

/// Counts what came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Coded frames.
    pub frames: u64,
    /// Those of them that told something new.
    pub useful: u64,
    /// Datagrams that were handed up.
    pub datagrams: u64,
    /// Packets that made no sense once they were decoded.
    pub nonsense: u64,
}

#[derive(Debug)]
struct Open {
    /// None once all of it is handed up.
    decoder: Option<Decoder>,
    k: u8,
}

/// Decodes one direction.
#[derive(Debug)]
pub(super) struct Sink {
    destination: u32,
    sources: Sources,
    floor: u64,
    open: BTreeMap<u64, Open>,
    heard: BTreeMap<u8, u32>,
    ready: VecDeque<Vec<u8>>,
    small_seen: SeenWindow,
    small_ready: VecDeque<Vec<u8>>,
    number: u32,
    reported_at: Instant,
    due_at: Option<Instant>,
    /// How long the report waits until it is repeated.
    again: Duration,
    received: Received,
}

impl Sink {
    /// Starts as a destination with this number.
    pub(super) fn new(destination: u32) -> Self {
        Self {
            destination,
            sources: Sources::default(),
            floor: 0,
            open: BTreeMap::new(),
            heard: BTreeMap::new(),
            ready: VecDeque::new(),
            small_seen: SeenWindow::new(limits::RELAY_REPLAY_WINDOW),
            small_ready: VecDeque::new(),
            number: 0,
            reported_at: Instant::ZERO,
            due_at: None,
            again: REPORT,
            received: Received::default(),
        }
    }

    /// Hears a source, if it counts; one that is new takes the place of that before.
    fn admit(&mut self, now: Instant, source: u32) -> Result<(), Refusal> {
        if self.sources.admit(now, source)? {
            (self.floor, self.due_at) = (0, None);
            self.open.clear();
            self.heard.clear();
            self.small_seen = SeenWindow::new(limits::RELAY_REPLAY_WINDOW);
        }
        Ok(())
    }

    /// Takes a small datagram.
    pub(super) fn handle_small(
        &mut self,
        now: Instant,
        source: u32,
        number: u64,
        datagram: Vec<u8>,
    ) -> Result<(), Refusal> {
        self.admit(now, source)?;
        if self.small_seen.insert(number) && self.small_ready.len() < limits::RELAY_QUEUE {
            self.small_ready.push_back(datagram);
        }
        Ok(())
    }

    /// Takes a coded frame.
    pub(super) fn handle_coded(&mut self, now: Instant, coded: &Coded) -> Result<(), Refusal> {
        self.admit(now, coded.source)?;
        // Not noted as heard, so that it is sent again.
        if self.ready.len() >= READY {
            return Err(Refusal::BeyondBound);
        }
        if coded.node != NOBODY {
            self.hear(coded.node, coded.order);
        }
        self.received.frames += 1;
        self.raise_floor(coded.oldest());
        self.report_by(now);
        if coded.generation < self.floor {
            // It was late, or the report was lost.
            return Ok(());
        }
        self.raise_floor((coded.generation + 1).saturating_sub(limits::RELAY_REMEMBERED));
        let open = self.open.entry(coded.generation).or_insert_with(|| {
            let bytes = longest_datagram(coded.k.into()) + LENGTH;
            let decoder = Decoder::new(coded.k.into(), bytes, CoefficientKey::new(0)).ok();
            Open { decoder, k: coded.k }
        });
        if open.k != coded.k {
            return Err(Refusal::Malformed);
        }
        let Some(decoder) = &mut open.decoder else { return Ok(()) };
        let outcome = match coded.unit() {
            Some(place) => decoder.push_source(place, &coded.payload),
            None => decoder.push_coded(&coded.coefficients, &coded.payload),
        };
        match outcome {
            Outcome::Malformed => return Err(Refusal::Malformed),
            Outcome::Innovative => self.received.useful += 1,
            _ => return Ok(()),
        }
        while let Some(place) = decoder.poll_decoded() {
            match decoder.get(place).map(packet) {
                Some(Some([])) => {}
                Some(Some(datagram)) => {
                    self.received.datagrams += 1;
                    self.ready.push_back(datagram.to_vec());
                }
                _ => self.received.nonsense += 1,
            }
        }
        let is_complete =
            decoder.is_complete() || (coded.closed && decoder.rank() >= coded.size.into());
        if is_complete {
            open.decoder = None;
            self.advance();
        }
        Ok(())
    }

    /// Returns the next datagram.
    pub(super) fn poll(&mut self) -> Option<Vec<u8>> {
        self.small_ready.pop_front().or_else(|| self.ready.pop_front())
    }

    /// Returns when a report is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.due_at
    }

    /// Makes the report that is due.
    pub(super) fn take_report(&mut self, now: Instant) -> Option<Ranks> {
        if self.due_at.is_none_or(|at| at > now) {
            return None;
        }
        // After 20 ms, 40 ms and so on.
        self.again = (self.again * 2).min(PRESENCE);
        self.due_at = (!self.open.is_empty()).then(|| now + self.again);
        self.reported_at = now;
        self.number = self.number.wrapping_add(1);
        let last = self.open.last_key_value().map_or(self.floor, |(at, _)| *at + 1);
        let upto = last.min(self.floor + limits::RELAY_GENERATIONS);
        let rank = |at: u64| match self.open.get(&at) {
            Some(Open { decoder: None, .. }) => COMPLETE,
            Some(Open { decoder: Some(decoder), .. }) => decoder.rank() as u8,
            None => 0,
        };
        Some(Ranks {
            source: self.sources.current()?,
            destination: self.destination,
            number: self.number,
            floor: self.floor,
            ranks: (self.floor..upto).map(rank).collect(),
            heard: self.heard.iter().map(|(node, order)| (*node, *order)).collect(),
        })
    }

    /// Returns what came.
    pub(super) fn counters(&self) -> Received {
        self.received
    }

    /// Returns how many generations are open.
    pub(super) fn open(&self) -> usize {
        self.open.values().filter(|open| open.decoder.is_some()).count()
    }

    fn hear(&mut self, node: u8, order: u32) {
        if !self.heard.contains_key(&node) && self.heard.len() >= limits::RELAY_HEARD {
            // Whoever was heard of the longest ago makes room.
            let newest = self.heard.values().copied().max().unwrap_or(order);
            let oldest = self.heard.iter().max_by_key(|(_, heard)| newest.wrapping_sub(**heard));
            let Some(oldest) = oldest.map(|(node, _)| *node) else { return };
            self.heard.remove(&oldest);
        }
        let heard = self.heard.entry(node).or_insert(order);
        if order.wrapping_sub(*heard) as i32 > 0 {
            *heard = order;
        }
    }

    /// Reports soon: something came.
    fn report_by(&mut self, now: Instant) {
        self.again = REPORT;
        let at = now.max(self.reported_at + REPORT);
        self.due_at = Some(self.due_at.map_or(at, |due| due.min(at)));
    }

    fn raise_floor(&mut self, floor: u64) {
        if floor > self.floor {
            self.floor = floor;
            self.open = self.open.split_off(&floor);
            self.advance();
        }
    }

    fn advance(&mut self) {
        while let Some(entry) = self.open.first_entry()
            && *entry.key() == self.floor
            && entry.get().decoder.is_none()
        {
            entry.remove();
            self.floor += 1;
        }
    }
}

/// Returns the datagram in a decoded symbol, empty in a dummy; none where it claims more than there
/// is.
fn packet(symbol: &[u8]) -> Option<&[u8]> {
    let (length, rest) = symbol.split_first_chunk::<LENGTH>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}
