//! Slots: the clock of a transmitter that sends one large packet in each of them, and the recording
//! that says which slots let a packet through [FlowCode §IV].
//!
//! ```text
//! edges    origin + i·slot; before the scenario's time zero, i·slot
//! large    from the first edge at which the transmitter is free to the next one; with retries
//!          to the end of the first slot with a 1, at most 1 + retries slots
//!          to which back-off adds whole slots, as soon as it has added up to one
//! medium   what small packets and link-layer acknowledgements take of it, large ones wait for,
//!          in whole slots as well
//! small    at once, and past what waits: takes no slot
//! region   small packets pass where any clocked link of the hosts that links join is connected
//! ```
//!
//! *Deviations:*
//! 1. The paper's modulator forwards a frame where the trace has a 1 and leaves it to the sender
//!    when that is; here the transmitter keeps to the recording's slots, so that no frame lies in
//!    two.
//! 2. Small packets always pass there in the regions A and B of its flights, and never outside;
//!    here within a second of a packet that was heard, since a recording does not tell its regions.
//! 3. Before a repeat the paper's radios draw a back-off; here it is the mean of that draw, the
//!    same each time, and counts in whole slots: what is left of one when a packet is through, or
//!    given up, is not waited for. First tries wait as long as in the recording.
//! 4. Without a medium radios do not contend: each link has slots of its own, none waits for
//!    another, frames collide only where they did when the recording was made, and small packets,
//!    TCP's acknowledgements among them, take none of the air. On a medium they take it, and
//!    collisions are a mean, a part of its gap; small packets leave at once there too. A frame that
//!    was heard is known to be: no link-layer acknowledgement is lost.

use super::model::{LinkModel, LinkRate, SlotClock, SlotLoss};
use super::outage::Calendar;
use super::transmitter::NEVER;
use crate::trace::SlotTrace;
use std::sync::Arc;
use units::{Duration, Instant};

/// Where a large packet waits for its slots, and which of them carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// When its first slot begins.
    pub(super) start: Instant,
    /// When its last one begins: the one that decides about it.
    pub(super) slot: Instant,
    /// When that one ends.
    pub(super) end: Instant,
    /// How often it is sent.
    pub(super) tries: u64,
}

/// The slots of one transmitter.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    model: SlotClock,
    /// How often a packet is repeated, and in which slots that is not needed.
    retries: u64,
    /// A slot of its back-off before them.
    backoff: Duration,
    recorded: Option<Recorded>,
    origin: Instant,
}

impl Clock {
    /// Returns the clock of a transmitter that has one.
    pub(super) fn new(model: &LinkModel) -> Option<Self> {
        let LinkRate::Slots(clock) = model.rate else { return None };
        let recorded = model.loss.slots.as_ref().map(|slots| Recorded::new(slots, None));
        let LinkModel { retries, backoff, .. } = *model;
        Some(Self { model: clock, retries, backoff, recorded, origin: NEVER })
    }

    pub(super) fn begin(&mut self, origin: Instant) {
        self.origin = origin;
    }

    /// Returns true for a packet that takes no slot.
    pub(super) fn is_small(&self, len: usize) -> bool {
        len as u64 <= self.model.small_bytes
    }

    /// Returns how long one slot is.
    pub(super) fn slot(&self) -> Duration {
        self.model.slot
    }

    /// Finds the slots of a large packet whose transmitter is free at `from`.
    pub(super) fn turn(&self, from: Instant, holds: &Calendar) -> Turn {
        let start = self.edge(from, holds);
        let (mut slot, mut waits, mut tries) = (start, Duration::ZERO, 1);
        for repeat in 1..=self.retries {
            if slot == NEVER || self.passes(slot) {
                break;
            }
            waits += self.backs_off(repeat);
            let mut next = slot + self.model.slot;
            while waits >= self.model.slot {
                (waits, next) = (waits - self.model.slot, next + self.model.slot);
            }
            slot = self.edge(next, holds);
            tries += 1;
        }
        Turn { start, slot, end: slot + self.model.slot, tries }
    }

    /// Returns how much longer a transmitter waits before a repeat than before a first try, which
    /// the recording has in its slots: the mean of a draw from a window that doubles, 31 slots at
    /// first and 1,023 at most [IEEE 802.11 §10.3].
    fn backs_off(&self, repeat: u64) -> Duration {
        let window = |repeat: u64| (32_u64 << repeat.min(5)) - 1;
        self.backoff * ((window(repeat) - window(0)) as u32) / 2
    }

    /// Returns the first edge, `from` or later, that lies in no hold.
    fn edge(&self, from: Instant, holds: &Calendar) -> Instant {
        let mut from = from;
        loop {
            let edge = self.next_edge(from);
            let awake = holds.first_free(edge);
            if awake == edge {
                return edge;
            }
            from = awake;
        }
    }

    fn next_edge(&self, from: Instant) -> Instant {
        let slot = self.model.slot.as_nanos().max(1);
        let edge = |base: Instant| {
            let slots = from.since(base).as_nanos().div_ceil(slot);
            base + Duration::from_nanos(slots.saturating_mul(slot))
        };
        if from >= self.origin { edge(self.origin) } else { edge(Instant::ZERO).min(self.origin) }
    }

    fn passes(&self, slot: Instant) -> bool {
        // A recording loses nothing before it begins.
        let recorded = self.recorded.as_ref().filter(|_| slot >= self.origin);
        let at = Instant::ZERO + slot.since(self.origin);
        recorded.is_none_or(|recorded| recorded.large_passes(at))
    }
}

/// Where small packets pass: one region for all clocked links of hosts that links join.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    parts: Vec<(Duration, SlotTrace)>,
}

impl Region {
    /// Joins the regions of recordings, of matrices those of all pairs; the same recording twice is
    /// one.
    pub(crate) fn of<'m>(all: impl IntoIterator<Item = &'m SlotLoss>) -> Self {
        let mut joined: Vec<(&Arc<SlotTrace>, Duration, usize)> = Vec::new();
        for loss in all {
            let matrix = loss.matrix.iter().flat_map(|row| row.matrix.rows());
            let own = loss.matrix.is_none().then_some(&loss.trace);
            for trace in matrix.map(|row| &row.trace).chain(own) {
                let same = |other: &&(&Arc<SlotTrace>, Duration, usize)| {
                    Arc::ptr_eq(other.0, trace) && (other.1, other.2) == (loss.slot, reach(loss))
                };
                if !joined.iter().any(|other| same(&other)) {
                    joined.push((trace, loss.slot, reach(loss)));
                }
            }
        }
        let mut region = Self::default();
        for (trace, slot, reach) in joined {
            region.join(slot, trace.regions(reach));
        }
        region
    }

    fn join(&mut self, slot: Duration, trace: SlotTrace) {
        let alike = |(other, part): &&mut (Duration, SlotTrace)| {
            *other == slot && part.slots().len() == trace.slots().len()
        };
        match self.parts.iter_mut().find(alike) {
            Some((_, part)) => *part = part.or(&trace),
            None => self.parts.push((slot, trace)),
        }
    }

    fn passes(&self, at: Instant) -> bool {
        self.parts.iter().any(|(slot, trace)| trace.passes(index(at, *slot)))
    }
}

/// A recorded string of slots.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    slot: Duration,
    small_bytes: u64,
    trace: Arc<SlotTrace>,
    region: Arc<Region>,
}

impl Recorded {
    /// Takes a recording, with the region of small packets where it shares one with others.
    pub(super) fn new(model: &SlotLoss, region: Option<&Arc<Region>>) -> Self {
        let own = || Arc::new(Region::of([model]));
        Self {
            slot: model.slot,
            small_bytes: model.small_bytes,
            trace: Arc::clone(&model.trace),
            region: region.map_or_else(own, Arc::clone),
        }
    }

    /// Decides whether a packet of `len` bytes is lost in the slot at `at`, counted from the
    /// beginning of the recording.
    pub(super) fn loses(&self, at: Instant, len: u64) -> bool {
        let small = len <= self.small_bytes;
        !if small { self.region.passes(at) } else { self.large_passes(at) }
    }

    fn large_passes(&self, at: Instant) -> bool {
        self.trace.passes(index(at, self.slot))
    }
}

fn index(at: Instant, slot: Duration) -> u64 {
    at.as_nanos() / slot.as_nanos().max(1)
}

/// Returns how many slots away from a received one a link is connected.
fn reach(model: &SlotLoss) -> usize {
    let slot = model.slot.as_nanos().max(1);
    usize::try_from(model.region.as_nanos() / slot).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::model::{Outage, OutageMode};
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn recording(digits: &str) -> SlotLoss {
        SlotLoss {
            path: String::new(),
            matrix: None,
            trace: Arc::new(SlotTrace::parse(digits, "s").unwrap()),
            slot: Duration::from_millis(10),
            small_bytes: 200,
            region: Duration::ZERO,
        }
    }

    fn clock(digits: &str, retries: u64) -> Clock {
        let clock = SlotClock { slot: Duration::from_millis(10), small_bytes: 200 };
        let mut model = LinkModel { rate: LinkRate::Slots(clock), retries, ..LinkModel::default() };
        model.loss.slots = Some(recording(digits));
        Clock::new(&model).expect("it has a clock")
    }

    fn turn(clock: &Clock, from: u64, holds: &Calendar) -> [u64; 3] {
        let turn = clock.turn(ms(from), holds);
        [turn.start, turn.slot, turn.end].map(|at| at.as_nanos() / 1_000_000)
    }

    #[test]
    fn slots_have_their_edges_where_the_recording_has_them() {
        let mut clock = clock("10", 0);
        let none = Calendar::default();
        assert_eq!(turn(&clock, 41, &none), [50, 50, 60], "before anything begins");
        clock.begin(ms(107));
        assert_eq!(turn(&clock, 41, &none), [50, 50, 60]);
        assert_eq!(turn(&clock, 101, &none), [107, 107, 117], "time zero is an edge");
        assert_eq!(turn(&clock, 117, &none), [117, 117, 127]);
        assert_eq!(turn(&clock, 118, &none), [127, 127, 137]);
    }

    #[test]
    fn a_packet_is_repeated_until_a_slot_lets_it_through_and_not_beyond() {
        let none = Calendar::default();
        let mut patient = clock("1000010000", 15);
        assert_eq!(turn(&patient, 13, &none), [20, 20, 30], "calm: the first slot does");
        patient.begin(ms(0));
        assert_eq!(turn(&patient, 0, &none), [0, 0, 10]);
        assert_eq!(turn(&patient, 3, &none), [10, 50, 60]);
        let mut dead = clock("0", 15);
        dead.begin(ms(0));
        assert_eq!(turn(&dead, 0, &none), [0, 150, 160], "16 slots at most");
        // 0.32, 0.96, 2.24, 4.8 and 9.92 ms before repeats 1 to 5 and each one after: a slot passes
        // before the fifth.
        let mut polite = clock("0000001", 15);
        polite.backoff = Duration::from_micros(20);
        polite.begin(ms(0));
        assert_eq!(turn(&polite, 0, &none), [0, 60, 70]);
        let mut polite = clock("0000010", 15);
        polite.backoff = Duration::from_micros(20);
        polite.begin(ms(0));
        assert_eq!(turn(&polite, 0, &none)[1], 120, "slot 5 is waited through");
    }

    #[test]
    fn slots_whose_edge_lies_in_a_hold_are_not_used() {
        let hold = |start, millis| {
            let mode = OutageMode::Hold { queue: None };
            let duration = Duration::from_millis(millis);
            Calendar::of_holds(&[Outage { start: ms(start), duration, mode }])
        };
        let mut clock = clock("0000000001", 15);
        clock.begin(ms(0));
        assert_eq!(turn(&clock, 5, &hold(8, 20)), [30, 90, 100]);
        assert_eq!(turn(&clock, 80, &hold(85, 10)), [80, 190, 200], "the slot of the 1 is held");
        let forever = hold(1, 1 << 60);
        assert_eq!(clock.turn(ms(2), &forever).end, NEVER);
    }

    #[test]
    fn a_region_is_the_union_of_all_recordings_each_with_its_own_reach() {
        let mut wide = recording("0000000100");
        wide.region = Duration::from_millis(10);
        let short = recording("100");
        let region = Region::of([&recording("0100000000"), &wide, &short, &short]);
        assert_eq!(region.parts.len(), 2, "two lengths");
        for slot in 0..20 {
            let of_any = slot % 3 == 0 || slot % 10 == 1 || (6..=8).contains(&(slot % 10));
            assert_eq!(region.passes(ms(slot * 10)), of_any, "slot {slot}");
        }
    }
}
