//! Outbox and inbox joined by simulated paths in virtual time, for the claims about them.
//!
//! No datagrams and no keys here, those are the world's tests; what a session does with packets
//! (acknowledge, detect loss, suspect a path) is imitated in its simplest form.

use std::collections::BTreeMap;

use units::{Duration, Instant, Rng};

use super::super::inbox::Inbox;
use super::super::outbox::{Outbox, Rejected};
use super::super::{ControlPath, LaneFloor, Submission};
use crate::event::{MessageId, Outcome};
use crate::ids::PathId;
use crate::path::CopyRoom;
use crate::recovery::{Age, Receipt};
use crate::select::{Class, LaneKey, Order, Policy, Reliability, Tier};
use crate::wire::{ControlFrame, DroppedFrame};

pub(super) const MS: Duration = Duration::from_millis(1);

/// One direction and its way back, equally bad.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
    pub(super) loss: f64,
    pub(super) duplicate: f64,
    /// Silent from, until.
    pub(super) outage: Option<(Instant, Instant)>,
}

#[derive(Clone, Debug)]
enum Carried {
    Control { seq: u64, class: Class, order: Order, head: ControlFrame<'static>, payload: Vec<u8> },
    Floor(LaneFloor),
}

#[derive(Clone, Debug)]
enum Event {
    Arrival {
        path: usize,
        packet: u64,
        carried: Vec<Carried>,
    },
    Acknowledgement {
        path: usize,
        packet: u64,
        /// What the receiver had dropped when it left, and how to say that the sender has it.
        dropped: Option<(DroppedFrame, u64)>,
    },
    /// An outage begins, is noticed, or ends.
    PathChange,
}

pub(super) struct Sim {
    pub(super) now: Instant,
    pub(super) rng: Rng,
    lines: Vec<Line>,
    pub(super) outbox: Outbox,
    pub(super) inbox: Inbox,
    events: BTreeMap<(Instant, u64), Event>,
    serial: u64,
    /// Packets under way by path and number: when sent, what they carry.
    flying: Vec<BTreeMap<u64, (Instant, Vec<Carried>)>>,
    /// How far the receiver's idea of an age may be off.
    pub(super) age_error: Duration,
    submitted: Vec<Instant>,
    /// What came out: which message, how long after it went in.
    pub(super) delivered: Vec<(u64, Duration)>,
    pub(super) outcomes: BTreeMap<MessageId, Outcome>,
    pub(super) copies: u64,
    /// A message of which no copy arrives.
    pub(super) doomed: Option<u64>,
}

/// After this an outage makes a path suspected.
const SUSPECT_AFTER: Duration = Duration::from_millis(100);

impl Sim {
    pub(super) fn new(seed: u64, lines: Vec<Line>) -> Self {
        let mut sim = Self {
            now: Instant::from_millis(1_000),
            rng: Rng::new(seed),
            outbox: Outbox::new(&Reliability::default(), 0),
            inbox: Inbox::new(),
            events: BTreeMap::new(),
            serial: 0,
            flying: lines.iter().map(|_| BTreeMap::new()).collect(),
            age_error: MS,
            submitted: Vec::new(),
            delivered: Vec::new(),
            outcomes: BTreeMap::new(),
            copies: 0,
            doomed: None,
            lines,
        };
        for line in sim.lines.clone() {
            if let Some((from, until)) = line.outage {
                sim.schedule(from + SUSPECT_AFTER, Event::PathChange);
                sim.schedule(until + line.delay * 2, Event::PathChange);
            }
        }
        sim.update_paths();
        sim
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.serial += 1;
        self.events.insert((at, self.serial), event);
    }

    fn update_paths(&mut self) {
        let suspected = |line: &Line| {
            line.outage.is_some_and(|(from, until)| {
                self.now >= from + SUSPECT_AFTER && self.now < until + line.delay * 2
            })
        };
        let paths: Vec<_> = self
            .lines
            .iter()
            .enumerate()
            .map(|(id, line)| {
                ControlPath::plain(PathId(id as u8), !suspected(line), Duration::ZERO)
            })
            .collect();
        let timeout = |line: &Line| (line.delay + line.jitter) * 2 + 5 * MS;
        let usable = self.lines.iter().filter(|line| !suspected(line)).map(timeout).min();
        let probe = usable.unwrap_or(100 * MS);
        self.inbox.set_wait(probe);
        self.outbox.set_paths(self.now, &paths, probe);
    }

    /// Hands a message in; its payload is its number among all submissions.
    pub(super) fn submit(
        &mut self,
        policy: Policy,
        lane: LaneKey,
    ) -> Result<Option<MessageId>, Rejected> {
        let payload = (self.submitted.len() as u64).to_le_bytes().to_vec();
        let submission = Submission { channel: lane.channel, policy, lane, payload };
        let id = self.outbox.submit(self.now, submission)?;
        self.submitted.push(self.now);
        self.transmit();
        Ok(id)
    }

    /// Lets every path take what waits for it, as packets of up to eight frames.
    fn transmit(&mut self) {
        for path in 0..self.lines.len() {
            loop {
                let mut carried = Vec::new();
                let id = PathId(path as u8);
                while carried.len() < 8
                    && let Some(floor) = self.outbox.poll_floor(self.now, id)
                {
                    carried.push(Carried::Floor(floor));
                }
                for tier in [Tier::Control, Tier::Telemetry, Tier::Message] {
                    while carried.len() < 8
                        && let Some((seq, frame)) =
                            self.outbox.poll(self.now, id, tier, CopyRoom::both(1_000))
                    {
                        self.copies += 1;
                        carried.push(Carried::Control {
                            seq,
                            class: frame.class,
                            order: frame.order,
                            head: ControlFrame { payload: &[], ..frame },
                            payload: frame.payload.to_vec(),
                        });
                    }
                }
                if carried.is_empty() {
                    break;
                }
                self.send(path, carried);
            }
        }
    }

    fn send(&mut self, path: usize, carried: Vec<Carried>) {
        self.serial += 1;
        let packet = self.serial;
        self.flying[path].insert(packet, (self.now, carried.clone()));
        let is_doomed = |carried: &Carried| match carried {
            Carried::Control { payload, .. } => {
                self.doomed.is_some_and(|doomed| payload[..] == doomed.to_le_bytes())
            }
            Carried::Floor(_) => false,
        };
        if carried.iter().any(is_doomed) {
            return;
        }
        let copies = 1 + u64::from(self.rng.chance(self.lines[path].duplicate));
        for _ in 0..copies {
            if let Some(at) = self.crossing(path) {
                let carried = carried.clone();
                self.schedule(at, Event::Arrival { path, packet, carried });
            }
        }
    }

    /// Returns when a packet comes out of a path, if it does.
    fn crossing(&mut self, path: usize) -> Option<Instant> {
        let line = &self.lines[path];
        let silent = line.outage.is_some_and(|(from, until)| self.now >= from && self.now < until);
        if silent || self.rng.chance(line.loss) {
            return None;
        }
        Some(self.now + line.delay + line.jitter.mul_f64(self.rng.unit()))
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::PathChange => self.update_paths(),
            Event::Arrival { path, packet, carried } => {
                for carried in &carried {
                    self.receive(carried);
                }
                if let Some(at) = self.crossing(path) {
                    let dropped = self.inbox.dropped(1_000);
                    self.schedule(at, Event::Acknowledgement { path, packet, dropped });
                }
            }
            Event::Acknowledgement { path, packet, dropped } => {
                if let Some((frame, changes)) = dropped {
                    self.outbox.on_dropped(&frame);
                    self.inbox.on_dropped_told(changes);
                }
                if let Some((sent_at, carried)) = self.flying[path].remove(&packet) {
                    let (now, path) = (self.now, PathId(path as u8));
                    let receipt = Receipt { now, path, sent_at, arrived: None };
                    for carried in &carried {
                        match carried {
                            Carried::Control { seq, .. } => self.outbox.on_acked(*seq, &receipt),
                            Carried::Floor(floor) => self.outbox.floors.on_acked(*floor),
                        }
                    }
                }
                self.detect_losses(path, packet);
            }
        }
    }

    /// Packets that were sent three before an acknowledged one are lost, or wildly reordered.
    fn detect_losses(&mut self, path: usize, acknowledged: u64) {
        let earlier: Vec<u64> = self.flying[path]
            .range(..acknowledged)
            .rev()
            .skip(2)
            .map(|(packet, _)| *packet)
            .collect();
        for packet in earlier {
            let Some((_, carried)) = self.flying[path].remove(&packet) else { continue };
            for carried in carried {
                let id = PathId(path as u8);
                match carried {
                    Carried::Control { seq, .. } => self.outbox.on_lost(self.now, seq, id),
                    Carried::Floor(floor) => self.outbox.floors.on_lost(floor, id),
                }
            }
        }
    }

    fn receive(&mut self, carried: &Carried) {
        match carried {
            Carried::Floor(floor) => self.inbox.handle_floor(self.now, *floor),
            Carried::Control { class, order, head, payload, .. } => {
                let number = u64::from_le_bytes(payload[..].try_into().expect("eight bytes"));
                let age = self.now.since(self.submitted[number as usize]);
                let off = (self.age_error * 2).mul_f64(self.rng.unit());
                let estimate = (age + off).saturating_sub(self.age_error);
                let age = Age { estimate, error: self.age_error };
                let frame = ControlFrame { class: *class, order: *order, payload, ..*head };
                self.inbox.handle_control(self.now, &frame, age);
            }
        }
    }

    fn collect(&mut self) {
        while let Some(delivery) = self.inbox.poll_delivery() {
            let number = u64::from_le_bytes(delivery.payload[..].try_into().expect("eight bytes"));
            self.delivered.push((number, self.now.since(self.submitted[number as usize])));
        }
        while let Some(ended) = self.outbox.poll_outcome() {
            let (id, outcome) = (ended.message, ended.outcome);
            assert_eq!(self.outcomes.insert(id, outcome), None, "{id:?} ended twice");
        }
    }

    pub(super) fn run_until(&mut self, end: Instant) {
        loop {
            self.collect();
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let next = [event, self.outbox.timeout(), self.inbox.timeout()];
            let Some(next) = next.into_iter().flatten().min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if event.is_some_and(|at| at <= self.now)
                && let Some((_, event)) = self.events.pop_first()
            {
                self.handle(event);
            }
            self.outbox.handle_timeout(self.now);
            self.inbox.handle_timeout(self.now);
            self.transmit();
        }
        self.now = end;
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.delivered.iter().map(|(number, _)| *number).collect()
    }

    /// Nothing twice, nothing beyond its time to live, an outcome for every reliable message, and
    /// "delivered" only for what came out.
    pub(super) fn assert_kept_promises(&self, ids: &BTreeMap<u64, MessageId>, ttl: Duration) {
        let mut numbers = self.numbers();
        assert!(self.delivered.iter().all(|(_, age)| *age <= ttl), "delivered beyond its life");
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]), "delivered twice");
        for (number, id) in ids {
            let outcome = self.outcomes.get(id);
            assert!(outcome.is_some(), "no outcome for {number}");
            if outcome == Some(&Outcome::Delivered) {
                assert!(numbers.binary_search(number).is_ok(), "{number} did not come out");
            }
        }
        assert_eq!(ids.len(), self.outcomes.len());
    }
}
