//! What became of the copies of each message under a target, until that is certain.
//!
//! The outbox forgets a message with its first acknowledgement; what the others say, and what comes
//! late, is told here. A flight is settled a second after its deadline: acknowledgements that were
//! lost have been repeated by then, since each names what came in within a second.

use std::collections::VecDeque;

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::AFTERMATH;
use super::choice::{Launch, Second};
use super::slots::{Mask, Slots};
use crate::ids::PathId;
use crate::limits;
use crate::recovery::Receipt;
use crate::select::LaneKey;

/// A copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) path: PathId,
    /// Its round; zero is the flight itself.
    pub(super) round: u8,
    pub(super) sent_at: Instant,
    /// When it arrived, by our clock, and how far that may be off.
    pub(super) arrived: Option<(Instant, Duration)>,
}

/// A message and its copies.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) seq: u64,
    /// Messages of one stream replace each other, or keep an order.
    pub(super) stream: LaneKey,
    /// Whether it waits at the receiver for those before it.
    pub(super) in_order: bool,
    pub(super) submitted: Instant,
    pub(super) expires: Instant,
    /// The time since the message of the stream before it, as far as that is counted.
    pub(super) gap: Duration,
    /// Paths of which the newest answers were missing when it left.
    pub(super) before: Mask,
    /// Whether it went everywhere.
    pub(super) is_everywhere: bool,
    /// Whether answers to what leaves at once may wait for something to ride in.
    pub(super) waits: bool,
    /// Paths whose copies left at once.
    pub(super) paths: Mask,
    /// Share that was expected to be missed, where there was evidence.
    pub(super) predicted: Option<f64>,
    /// Where one path is all there is: what was to follow on it.
    pub(super) second: Option<Second>,
    /// How many copies a copy on every path makes.
    pub(super) everywhere: usize,
    /// Bytes of a copy.
    pub(super) bytes: usize,
    pub(super) round: u8,
    /// Copies that left, of all rounds.
    pub(super) sent_in_all: usize,
    pub(super) copies: SmallVec<[Copy; 4]>,
    /// When the first of all copies arrived, those that are not followed included.
    pub(super) first: Option<(Instant, Duration)>,
}

/// How far the estimate of the peer's clock is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// What its error leaves open counts against a copy.
    Proven,
    /// As if it had no error.
    Estimated,
}

impl Flight {
    /// Returns how it left.
    pub(super) fn launch(&self) -> Launch {
        let second = self.second.unwrap_or(Second::Never);
        Launch { paths: self.paths, second, waits: self.waits }
    }

    /// Returns how much later its answers may come than those that leave at once.
    pub(super) fn held(&self) -> Duration {
        self.launch().held()
    }

    /// Notes a copy that leaves, on a path of the flight or on one that was gained meanwhile.
    pub(super) fn on_sent(&mut self, now: Instant, path: PathId, is_planned: bool) {
        self.sent_in_all += 1;
        if self.copies.len() < limits::COPIES_FOLLOWED {
            let round = self.round.max(u8::from(!is_planned));
            self.copies.push(Copy { path, round, sent_at: now, arrived: None });
        }
    }

    /// Notes a copy that arrived.
    pub(super) fn on_acked(&mut self, receipt: &Receipt) {
        if self.first.is_none() || receipt.arrived.is_some_and(|at| Some(at) < self.first) {
            self.first = receipt.arrived.or(self.first);
        }
        let is_it = |copy: &&mut Copy| {
            (copy.path, copy.sent_at) == (receipt.path, receipt.sent_at) && copy.arrived.is_none()
        };
        if let Some(copy) = self.copies.iter_mut().find(is_it) {
            copy.arrived = receipt.arrived;
        }
    }

    /// Returns when the first copy is there.
    pub(super) fn arrival(&self, clock: Clock) -> Option<Instant> {
        self.first.map(|(at, error)| match clock {
            Clock::Proven => at + error,
            Clock::Estimated => at,
        })
    }

    /// Returns the rounds in which copies left.
    pub(super) fn rounds(&self) -> u8 {
        self.copies.iter().map(|copy| copy.round + 1).max().unwrap_or(0)
    }

    /// Tells whether the second copy on a lone path was not there by `deadline`, and which it was;
    /// none where none followed.
    pub(super) fn second_failed(&self, deadline: Instant) -> Option<(Second, bool)> {
        let copy = self.copies.iter().filter(|copy| copy.round == 0).nth(1)?;
        let second = self.second.filter(|second| *second != Second::Never)?;
        Some((second, copy.arrival().is_none_or(|at| at > deadline)))
    }

    /// Returns which paths had copies in a round, and which of those were not there by `deadline`.
    pub(super) fn fates(&self, slots: &Slots, round: u8, deadline: Instant) -> [Mask; 2] {
        let (mut sent, mut arrived) = (Mask::NONE, Mask::NONE);
        for copy in self.copies.iter().filter(|copy| copy.round == round) {
            let slot = slots.find(copy.path).filter(|slot| !sent.contains(*slot));
            // A second copy on a lone path is part of what saves the first.
            let Some(slot) = slot else { continue };
            sent = sent.with(slot);
            if copy.arrival().is_some_and(|at| at <= deadline) {
                arrived = arrived.with(slot);
            }
        }
        let failed = sent.iter().filter(|slot| !arrived.contains(*slot));
        [sent, failed.fold(Mask::NONE, Mask::with)]
    }
}

impl Copy {
    /// Returns when it arrived for certain.
    pub(super) fn arrival(&self) -> Option<Instant> {
        self.arrived.map(|(at, error)| at + error)
    }
}

/// The flights of one target, in the order in which they were handed in.
#[derive(Debug, Default)]
pub(super) struct Flights(VecDeque<Flight>);

impl Flights {
    /// Takes one in. At the bound the oldest is forgotten: that is beyond what a session carries in
    /// two seconds.
    pub(super) fn push(&mut self, flight: Flight) {
        if self.0.len() >= limits::FLIGHTS {
            self.0.pop_front();
        }
        self.0.push_back(flight);
    }

    /// Returns a message's flight.
    pub(super) fn find(&mut self, seq: u64) -> Option<&mut Flight> {
        let place = self.0.binary_search_by_key(&seq, |flight| flight.seq).ok()?;
        self.0.get_mut(place)
    }

    /// Returns a message's flight, to look at.
    pub(super) fn get(&self, seq: u64) -> Option<&Flight> {
        let place = self.0.binary_search_by_key(&seq, |flight| flight.seq).ok()?;
        self.0.get(place)
    }

    /// Takes the next one out whose fate is certain.
    pub(super) fn pop_settled(&mut self, now: Instant, deadline: Duration) -> Option<Flight> {
        let is_over = |flight: &Flight| flight.submitted + deadline + AFTERMATH <= now;
        if self.0.front().is_some_and(is_over) { self.0.pop_front() } else { None }
    }

    /// Returns when the fate of the newest is certain.
    pub(super) fn all_settled(&self, deadline: Duration) -> Option<Instant> {
        self.0.back().map(|flight| flight.submitted + deadline + AFTERMATH)
    }

    /// Returns when the first of those in a stream arrives that were handed in before `until`.
    pub(super) fn newer_arrival(
        &self,
        stream: LaneKey,
        until: Instant,
        clock: Clock,
    ) -> Option<Instant> {
        let newer = self.0.iter().take_while(|flight| flight.submitted < until);
        let of_stream = newer.filter(|flight| flight.stream == stream);
        of_stream.filter_map(|flight| flight.arrival(clock)).min()
    }
}
