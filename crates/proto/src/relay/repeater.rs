//! A relay: from its side's wire to the radio, from the radio to the wire [specs/relay.md §4].
//!
//! ```text
//! wire ─► small, reports ────────────────► radio, at once
//!      ─► coded, ordered of it ─► waiting ► radio, when the frame before has left
//!      ─► coded, for all ─► recoder ─ full rank ─► waiting
//! radio ─► small, reports ─► first of its number? ─► wire
//!       ─► coded ─► recoder ─ innovative? ─► wire, as it is or combined anew
//! ```

use std::collections::{BTreeMap, VecDeque};

use coding::block::Recoder;
use coding::{CoefficientKey, Outcome};
use units::{Duration, Instant, Rate};

use super::frame::{Body, COMPLETE, Coded, Header, Hop, Ranks, Side, State, longest_datagram};
use super::members::Refusal;
use super::sources::Sources;
use super::{ALIVE, Queued, REPORT};
use crate::delivery::generation::LENGTH;
use crate::limits;
use crate::window::SeenWindow;

/// So long before the frame in the air has left there is room for the next: what it is, is decided
/// no sooner.
const AHEAD: Duration = Duration::from_millis(4);
/// Frames that may wait, at most.
const MOST: u32 = 16;
/// A report has been missed when its gateway goes on for so long after it: longer than they are
/// apart while any is due.
const MISSED: Duration = Duration::from_millis(300);

/// Counts what a relay passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// Coded frames that left by the radio.
    pub radio: u64,
    /// Coded frames that left by the wire.
    pub wire: u64,
    /// Those of both that it combined anew.
    pub recoded: u64,
    /// Coded frames that came by the radio.
    pub heard: u64,
    /// Those of them that told it something new.
    pub useful: u64,
    /// Small datagrams and reports that it passed on.
    pub small: u64,
    /// What found no room.
    pub dropped: u64,
}

#[derive(Debug)]
struct Held {
    recoder: Recoder,
    k: u8,
    triggered: bool,
}

/// What a relay knows of one direction.
#[derive(Debug)]
struct Flow {
    sources: Sources,
    generations: BTreeMap<u64, Held>,
    /// What is below, its source has ended.
    floor: u64,
    small: SeenWindow,
    /// The newest report that was passed on, and its destination.
    destinations: Sources,
    report: u32,
    reported_at: Instant,
    /// When the destination was last shown a frame of what is over.
    asked_at: Option<Instant>,
}

impl Flow {
    fn new() -> Self {
        Self {
            sources: Sources::default(),
            generations: BTreeMap::new(),
            floor: 0,
            small: SeenWindow::new(limits::RELAY_REPLAY_WINDOW),
            destinations: Sources::default(),
            report: 0,
            reported_at: Instant::ZERO,
            asked_at: None,
        }
    }

    /// Tells whether the destination is to be shown a frame of what is over, and notes it.
    fn may_ask(&mut self, now: Instant) -> bool {
        let may = self.asked_at.is_none_or(|at| now.since(at) >= REPORT * 2);
        if may {
            self.asked_at = Some(now);
        }
        may
    }

    /// Tells whether a report is the newest, and notes it.
    fn is_newest(&mut self, now: Instant, ranks: &Ranks) -> bool {
        let Ok(is_new) = self.destinations.admit(now, ranks.destination) else { return false };
        let is_newer = is_new || ranks.number.wrapping_sub(self.report) as i32 > 0;
        if is_newer {
            (self.report, self.reported_at) = (ranks.number, now);
        }
        is_newer
    }

    fn raise_floor(&mut self, floor: u64) {
        if floor > self.floor {
            self.floor = floor;
            self.generations = self.generations.split_off(&floor);
        }
    }

    /// Returns what it holds of a generation; none where that is over, or was another one.
    fn held(&mut self, coded: &Coded, key: CoefficientKey) -> Option<&mut Held> {
        self.raise_floor(coded.oldest());
        self.raise_floor((coded.generation + 1).saturating_sub(limits::RELAY_REMEMBERED));
        if coded.generation < self.floor {
            return None;
        }
        let held = match self.generations.entry(coded.generation) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let bytes = longest_datagram(coded.k.into()) + LENGTH;
                let key = key.for_block(coded.generation);
                let recoder = Recoder::new(coded.k.into(), bytes, key).ok()?;
                entry.insert(Held { recoder, k: coded.k, triggered: false })
            }
        };
        (held.k == coded.k).then_some(held)
    }
}

#[derive(Debug)]
enum Waiting {
    /// As it is.
    Given(Coded),
    /// A fresh combination, like this one otherwise.
    Fresh(Coded),
}

/// The state of a relay.
#[derive(Debug)]
pub(super) struct Repeater {
    side: Side,
    number: u8,
    rate: Rate,
    key: CoefficientKey,
    /// By direction.
    flows: [Flow; 2],
    at_once: [VecDeque<Queued>; 2],
    waiting: VecDeque<Waiting>,
    /// When the frame in the air has left.
    free_at: Instant,
    taken: u32,
    coded_at: Option<Instant>,
    tell_at: Instant,
    relayed: Relayed,
}

impl Repeater {
    pub(super) fn new(side: Side, number: u8, rate: Rate, seed: u64) -> Self {
        Self {
            side,
            number,
            rate,
            key: CoefficientKey::new(seed),
            flows: [Flow::new(), Flow::new()],
            at_once: [VecDeque::new(), VecDeque::new()],
            waiting: VecDeque::new(),
            free_at: Instant::ZERO,
            taken: 0,
            coded_at: None,
            tell_at: Instant::ZERO,
            relayed: Relayed::default(),
        }
    }

    /// Takes a frame that counts.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        hop: Hop,
        header: &Header,
        body: Body,
    ) -> Result<(), Refusal> {
        let from_gateway = header.sender.number == 0;
        // To where it goes on; none: another relay has passed it on.
        let onward = match (hop, from_gateway) {
            (Hop::Wire, true) => Some(Hop::Radio),
            (Hop::Wire, false) => None,
            (Hop::Radio, _) => Some(Hop::Wire),
        };
        match body {
            Body::Small { source, number, .. } => {
                self.admit(now, header.direction, source)?;
                if self.flows[header.direction as usize].small.insert(number) {
                    self.pass_on(onward, header.direction, body);
                }
            }
            Body::Coded(coded) => {
                self.admit(now, header.direction, coded.source)?;
                self.coded_at = Some(now);
                match onward {
                    Some(Hop::Radio) => self.transmit(now, coded),
                    onward => self.hear(now, header, onward, coded),
                }
            }
            Body::Ranks(ranks) => {
                // Reports of a source that has ended go on for a while: they make no source.
                let flow = &mut self.flows[header.direction as usize];
                if flow.sources.current().is_some_and(|current| current != ranks.source) {
                    return Err(Refusal::Stale);
                }
                if flow.is_newest(now, &ranks) {
                    self.end_complete(header.direction, &ranks);
                    self.pass_on(onward, header.direction, Body::Ranks(ranks));
                }
            }
            Body::State(_) | Body::Challenge(_) | Body::Answer(_) => {}
        }
        Ok(())
    }

    /// Returns the next frame for a hop.
    pub(super) fn poll(&mut self, now: Instant, hop: Hop) -> Option<Queued> {
        if let Some(queued) = self.at_once[hop as usize].pop_front() {
            return Some(queued);
        }
        if hop == Hop::Wire || now < self.free_at {
            return None;
        }
        loop {
            let coded = match self.waiting.pop_front()? {
                Waiting::Given(coded) => Some(coded),
                Waiting::Fresh(like) => self.recode(self.side, &like),
            };
            if let Some(coded) = coded {
                self.relayed.radio += 1;
                return Some(Queued { direction: self.side, body: Body::Coded(coded) });
            }
        }
    }

    /// Notes that a frame leaves by the radio.
    pub(super) fn on_radio(&mut self, now: Instant, bytes: usize) {
        let frame = self.rate.transmission_time(limits::MAX_DATAGRAM);
        // What was not its to order (small datagrams, replies) takes air as well, but makes no debt
        // that outlasts it.
        let most = now + AHEAD + frame.saturating_mul(MOST);
        self.free_at = (self.free_at.max(now) + self.rate.transmission_time(bytes)).min(most);
        self.tell_at = self.room_at(now);
    }

    /// Tells whether the gateway is to hear of room, now or again.
    pub(super) fn tells_room(&mut self, now: Instant) -> bool {
        let tells = self.tell_at <= now && self.is_busy(now);
        if tells {
            self.tell_at = self.room_at(now).max(now + REPORT * 2);
        }
        tells
    }

    /// Returns what it says of itself.
    pub(super) fn state(&self, now: Instant) -> State {
        let (ends_at, frame) =
            (self.ends_at(now), self.rate.transmission_time(limits::MAX_DATAGRAM));
        let room =
            (0..MOST).take_while(|count| ends_at + frame * *count <= now + AHEAD).count() as u8;
        let rate = u32::try_from(self.rate.as_bps() / 1_000).unwrap_or(u32::MAX);
        State { rate, room, taken: self.taken }
    }

    /// Returns when there is something to send.
    pub(super) fn timeout(&self, now: Instant) -> Option<Instant> {
        let radio = (!self.waiting.is_empty()).then_some(self.free_at);
        let tells = self.is_busy(now).then_some(self.tell_at);
        radio.into_iter().chain(tells).min()
    }

    /// Returns what was passed on.
    pub(super) fn counters(&self) -> Relayed {
        self.relayed
    }

    /// Returns when all that waits will have left.
    fn ends_at(&self, now: Instant) -> Instant {
        let frame = self.rate.transmission_time(limits::MAX_DATAGRAM);
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        self.free_at.max(now) + frame.saturating_mul(waiting)
    }

    /// Returns when there is room for another frame.
    fn room_at(&self, now: Instant) -> Instant {
        now + self.ends_at(now).since(now).saturating_sub(AHEAD)
    }

    /// Hears a source, if it counts; another gateway of this side counts its orders anew.
    fn admit(&mut self, now: Instant, direction: Side, source: u32) -> Result<(), Refusal> {
        let flow = &mut self.flows[direction as usize];
        if flow.sources.admit(now, source)? {
            *flow = Flow { sources: std::mem::take(&mut flow.sources), ..Flow::new() };
            // What waits of the one before would be taken for it across the radio.
            self.at_once
                .iter_mut()
                .for_each(|queue| queue.retain(|one| one.direction != direction));
            if direction == self.side {
                self.taken = 0;
                self.waiting.clear();
            }
        }
        Ok(())
    }

    /// Tells whether coded frames come.
    fn is_busy(&self, now: Instant) -> bool {
        self.coded_at.is_some_and(|at| now.since(at) < ALIVE)
    }

    fn pass_on(&mut self, onward: Option<Hop>, direction: Side, body: Body) {
        let Some(hop) = onward else { return };
        let queue = &mut self.at_once[hop as usize];
        if queue.len() >= limits::RELAY_QUEUE {
            queue.pop_front();
            self.relayed.dropped += 1;
        }
        self.relayed.small += 1;
        queue.push_back(Queued { direction, body });
    }

    /// Takes a coded frame of the gateway.
    fn transmit(&mut self, now: Instant, coded: Coded) {
        let is_ordered = coded.node == self.number;
        if is_ordered && coded.order.wrapping_sub(self.taken) as i32 > 0 {
            self.taken = coded.order;
        }
        if coded.share == 0 {
            if is_ordered {
                self.wait(Waiting::Given(coded));
            }
            return;
        }
        let key = self.key;
        let flow = &mut self.flows[self.side as usize];
        let Some(held) = flow.held(&coded, key) else {
            // The gateway has missed the report that it is over, and no other comes: the
            // destination is to say so again.
            if now.since(flow.reported_at) >= MISSED && flow.may_ask(now) {
                self.wait(Waiting::Given(coded));
            }
            return;
        };
        held.recoder.push_coded(&coded.coefficients, &coded.payload);
        let is_full = held.recoder.rank() == usize::from(coded.k) && !held.triggered;
        held.triggered |= is_full;
        let count = if is_ordered { 1 } else { usize::from(is_full) * usize::from(coded.share) };
        let node = self.number;
        let like = Coded { node, coefficients: Vec::new(), payload: Vec::new(), ..coded };
        (0..count).for_each(|_| self.wait(Waiting::Fresh(like.clone())));
    }

    fn wait(&mut self, frame: Waiting) {
        if self.waiting.len() < limits::RELAY_QUEUE {
            self.waiting.push_back(frame);
        } else {
            self.relayed.dropped += 1;
        }
    }

    /// Takes a coded frame from across the radio, or what another relay made of one.
    fn hear(&mut self, now: Instant, header: &Header, onward: Option<Hop>, coded: Coded) {
        let key = self.key;
        self.relayed.heard += u64::from(onward.is_some());
        let flow = &mut self.flows[header.direction as usize];
        let Some(held) = flow.held(&coded, key) else {
            // The report that it is over was lost: the destination says so again when the frame
            // comes there.
            if let Some(hop) = onward.filter(|_| flow.may_ask(now)) {
                self.pass_on(Some(hop), header.direction, Body::Coded(coded));
            }
            return;
        };
        let outcome = held.recoder.push_coded(&coded.coefficients, &coded.payload);
        let is_useful = outcome == Outcome::Innovative;
        // As published one leaves for each that comes.
        let is_asked = is_useful || (coded.share > 0 && outcome == Outcome::Redundant);
        let Some(hop) = onward.filter(|_| is_asked) else { return };
        self.relayed.useful += u64::from(is_useful);
        let is_unit = coded.share == 0 && coded.unit().is_some();
        let frame = if is_unit { Some(coded) } else { self.recode(header.direction, &coded) };
        let Some(frame) = frame else { return };
        self.relayed.wire += 1;
        let queue = &mut self.at_once[hop as usize];
        if queue.len() < 4 * limits::RELAY_QUEUE {
            queue.push_back(Queued { direction: header.direction, body: Body::Coded(frame) });
        } else {
            self.relayed.dropped += 1;
        }
    }

    /// Combines anew all that it holds of a generation.
    fn recode(&mut self, direction: Side, like: &Coded) -> Option<Coded> {
        let held = self.flows[direction as usize].generations.get_mut(&like.generation)?;
        let (mut coefficients, mut payload) = (Vec::new(), Vec::new());
        held.recoder.recode(&mut coefficients, &mut payload).then_some(())?;
        // It may hold packets that came after this frame was made.
        let last = coefficients.iter().rposition(|value| *value != 0)?;
        let size = (last + 1).max(like.size.into());
        coefficients.truncate(size);
        self.relayed.recoded += 1;
        Some(Coded { size: size as u8, coefficients, payload, ..like.clone() })
    }

    /// Forgets what is complete: nothing of it need be sent.
    fn end_complete(&mut self, direction: Side, ranks: &Ranks) {
        let flow = &mut self.flows[direction as usize];
        flow.raise_floor(ranks.floor);
        let complete = |at: u64| {
            let place = at.checked_sub(ranks.floor).and_then(|at| usize::try_from(at).ok());
            place.is_none_or(|place| ranks.ranks.get(place) == Some(&COMPLETE))
        };
        flow.generations.retain(|at, _| !complete(*at));
        if direction == self.side {
            self.waiting.retain(|waiting| {
                let (Waiting::Given(coded) | Waiting::Fresh(coded)) = waiting;
                !complete(coded.generation)
            });
        }
    }
}
