//! The relays of a gateway's own side, as transmitters: who has room, and what each was ordered to
//! send.

use std::collections::VecDeque;

use units::{Duration, Instant, Rate};

use super::ANSWERED;
use super::frame::State;
use super::radio::Radio;
use crate::window;

/// A report that comes later than this says nothing of the round trip.
pub(super) const LATE: Duration = Duration::from_secs(4);

/// An order whose fate is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) generation: u64,
    pub(super) at: Instant,
}

/// An order of which a report has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) order: Order,
    /// How long it took, where it is the one that was heard last, so that the report answers it,
    /// and its radio is not one that others are ahead of: what stands in such a radio says nothing
    /// of the way.
    pub(super) round_trip: Option<Duration>,
    /// It was given up before.
    pub(super) late: bool,
}

#[derive(Debug)]
struct Transmitter {
    number: u8,
    boot: u64,
    radio: Radio,
    room: u8,
    taken: u64,
    open: VecDeque<Order>,
    /// So many of them, the oldest, were given up; their reports may still come.
    expired: usize,
    /// The last order that it got, to take turns.
    last: u64,
}

impl Transmitter {
    fn has_room(&self, now: Instant, heard: Option<f64>) -> bool {
        if self.is_full(heard) && self.another_at().is_some_and(|at| now < at) {
            return false;
        }
        // What the relay has not said to have taken by then was lost on the wire.
        let on_wire = |order: &&Order| order.number > self.taken && now.since(order.at) < ANSWERED;
        self.open.iter().rev().take(usize::from(self.room) + 1).filter(on_wire).count()
            < self.room.into()
    }

    /// Tells whether its radio has all that it may hold.
    fn is_full(&self, heard: Option<f64>) -> bool {
        heard.is_some_and(|heard| self.open.len() >= self.radio.window(heard))
    }

    /// Returns when it gets another frame all the same.
    fn another_at(&self) -> Option<Instant> {
        self.open.back().map(|order| order.at + self.radio.pause(self.open.len()))
    }

    /// Forgets all orders, and returns those that are under way.
    fn take_open(&mut self) -> Vec<Order> {
        let expired = std::mem::take(&mut self.expired);
        self.open.drain(..).skip(expired).collect()
    }
}

/// The transmitters that are alive.
#[derive(Debug, Default)]
pub(super) struct Transmitters {
    list: Vec<Transmitter>,
    /// Orders so far.
    orders: u64,
    /// Part of them that is heard, where their form goes by that.
    heard: Option<f64>,
}

impl Transmitters {
    /// Returns how many there are (n_Tx).
    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns what all of them send together.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bps(self.rates().map(Rate::as_bps).sum())
    }

    /// Returns what the best of them sends.
    pub(super) fn best_rate(&self) -> Rate {
        self.rates().max().unwrap_or_default()
    }

    fn rates(&self) -> impl Iterator<Item = Rate> {
        self.list.iter().map(|one| match self.heard {
            Some(_) => one.radio.limit(),
            None => one.radio.rate(),
        })
    }

    /// Returns what the radio of one relay is held to carry, and what the relay says; none where
    /// nothing was reported of it.
    pub(super) fn radio_of(&self, number: u8) -> Option<[Rate; 2]> {
        let one = self.list.iter().find(|one| one.number == number && one.radio.is_known())?;
        self.heard.map(|_| [one.radio.limit(), one.radio.rate()])
    }

    /// Notes which part of orders is heard.
    pub(super) fn set_heard(&mut self, heard: f64) {
        self.heard = Some(heard);
    }

    /// Tells whether one has room.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        let kept_free = self.kept_free(now);
        let mut list = self.list.iter().filter(|one| Some(one.number) != kept_free);
        list.any(|one| one.has_room(now, self.heard))
    }

    /// Returns when the next one has room that has none now, if nothing is reported until then.
    pub(super) fn another_at(&self, now: Instant) -> Option<Instant> {
        let full = self.list.iter().filter(|one| one.is_full(self.heard));
        full.filter_map(Transmitter::another_at).filter(|at| *at > now).min()
    }

    /// Returns the relay that is ordered nothing, so that control finds one radio free: the first
    /// of those that are heard, where these are several and all thin. When it has not been heard
    /// for so long, for want of orders, it gets one.
    fn kept_free(&self, now: Instant) -> Option<u8> {
        let is_heard = |one: &&Transmitter| one.radio.reported_within(now, LATE);
        let heard = || self.list.iter().filter(is_heard);
        let needs =
            self.heard.is_some() && heard().count() > 1 && heard().all(|one| one.radio.is_thin());
        if needs { heard().map(|one| one.number).min() } else { None }
    }

    /// Takes what a relay says of itself; what was ordered of its boot before is returned: it is
    /// lost.
    pub(super) fn on_state(&mut self, number: u8, boot: u64, state: &State) -> Vec<Order> {
        // What it took of a gateway before this one says nothing.
        let taken = window::extend(state.taken, self.orders);
        let taken = if taken > self.orders { 0 } else { taken };
        let rate = Rate::from_bps(u64::from(state.rate) * 1_000);
        let Some(one) = self.list.iter_mut().find(|one| one.number == number) else {
            let (open, last) = (VecDeque::new(), self.orders);
            let (room, radio, expired) = (state.room, Radio::new(rate), 0);
            self.list.push(Transmitter { number, boot, radio, room, taken, open, expired, last });
            return Vec::new();
        };
        let mut lost = Vec::new();
        if one.boot != boot {
            (lost, one.radio) = (one.take_open(), Radio::new(rate));
        }
        one.radio.set_rate(rate);
        (one.boot, one.room, one.taken) = (boot, state.room, taken);
        lost
    }

    /// Drops those that are not alive, and returns what was ordered of them: it is lost.
    pub(super) fn keep(&mut self, is_alive: impl Fn(u8) -> bool) -> Vec<Order> {
        let mut lost = Vec::new();
        self.list.retain_mut(|one| {
            let keeps = is_alive(one.number);
            if !keeps {
                lost.extend(one.take_open());
            }
            keeps
        });
        lost
    }

    /// Orders something of a generation of the one with room whose turn it is; returns who, and the
    /// order.
    pub(super) fn order(&mut self, now: Instant, generation: u64) -> Option<(u8, u32)> {
        let (heard, kept_free) = (self.heard, self.kept_free(now));
        let list = self.list.iter_mut().filter(|one| Some(one.number) != kept_free);
        let with_room = list.filter(|one| one.has_room(now, heard));
        let one = with_room.min_by_key(|one| one.last)?;
        self.orders += 1;
        one.last = self.orders;
        if one.open.is_empty() {
            one.radio.begin(now);
        }
        one.open.push_back(Order { number: self.orders, generation, at: now });
        Some((one.number, self.orders as u32))
    }

    /// Returns whose turn it is, room or not.
    pub(super) fn turn(&mut self) -> Option<u8> {
        let one = self.list.iter_mut().min_by_key(|one| one.last)?;
        self.orders += 1;
        one.last = self.orders;
        Some(one.number)
    }

    /// Settles what a report tells of.
    pub(super) fn settle(&mut self, now: Instant, heard: &[(u8, u32)]) -> Vec<Settled> {
        let mut settled = Vec::new();
        for (number, low) in heard {
            let upto = window::extend(*low, self.orders);
            let Some(one) = self.list.iter_mut().find(|one| one.number == *number) else {
                continue;
            };
            let before = settled.len();
            while let Some(order) = one.open.front().copied()
                && order.number <= upto
                && upto <= self.orders
            {
                one.open.pop_front();
                let late = one.expired > 0;
                one.expired -= usize::from(late);
                let round_trip = (order.number == upto).then(|| now.since(order.at));
                settled.push(Settled { order, round_trip, late });
            }
            if let Some(after) = settled[before..].last().and_then(|last| last.round_trip) {
                one.radio.on_report(now, settled.len() - before, after);
                let is_behind = one.radio.is_behind();
                let is_ahead = |one: &Transmitter| {
                    !one.radio.is_behind() && one.radio.reported_within(now, LATE)
                };
                if is_behind && self.list.iter().any(is_ahead) {
                    settled[before..].iter_mut().for_each(|one| one.round_trip = None);
                }
            }
        }
        let is_fast = |one: &Transmitter| one.radio.is_known() && !one.radio.is_thin();
        let has_fast = self.list.iter().any(is_fast);
        self.list.iter_mut().for_each(|one| one.radio.set_fast_kin(has_fast));
        settled
    }

    /// Gives up what was ordered `patience` ago.
    pub(super) fn expire(&mut self, now: Instant, patience: Duration) -> Vec<Order> {
        let mut lost = Vec::new();
        for one in &mut self.list {
            while let Some(order) = one.open.get(one.expired).copied()
                && now.since(order.at) >= patience
            {
                one.expired += 1;
                lost.push(order);
            }
            while let Some(order) = one.open.front()
                && one.expired > 0
                && now.since(order.at) >= LATE
            {
                one.open.pop_front();
                one.expired -= 1;
            }
        }
        lost
    }

    /// Forgets what is under way.
    pub(super) fn clear(&mut self) {
        self.list.iter_mut().for_each(|one| drop(one.take_open()));
    }

    /// Returns when the oldest order was made.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.list.iter().filter_map(|one| one.open.get(one.expired)).map(|order| order.at).min()
    }
}
