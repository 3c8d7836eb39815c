//! The relays of a gateway's own side, as transmitters: who has room, and what each was ordered to send.

use std::collections::VecDeque;

use units::{Duration, Instant, Rate};

use super::frame::State;
use crate::window;

/// An order that a relay has not taken after this was lost on the wire.
const TAKEN_WITHIN: Duration = Duration::from_millis(50);

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
    /// It is the one that was heard last: the report answers it.
    pub(super) answered: bool,
    /// It was given up before.
    pub(super) late: bool,
}

#[derive(Debug)]
struct Transmitter {
    number: u8,
    boot: u64,
    rate: Rate,
    room: u8,
    taken: u64,
    open: VecDeque<Order>,
    /// So many of them, the oldest, were given up; their reports may still come.
    expired: usize,
    /// The last order that it got, to take turns.
    last: u64,
}

impl Transmitter {
    fn has_room(&self, now: Instant) -> bool {
        let on_wire =
            |order: &&Order| order.number > self.taken && now.since(order.at) < TAKEN_WITHIN;
        self.open.iter().rev().take(usize::from(self.room) + 1).filter(on_wire).count()
            < self.room.into()
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
}

impl Transmitters {
    /// Returns how many there are (n_Tx).
    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns what all of them send together.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bps(self.list.iter().map(|one| one.rate.as_bps()).sum())
    }

    /// Tells whether one has room.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.list.iter().any(|one| one.has_room(now))
    }

    /// Takes what a relay says of itself; what was ordered of its boot before is returned: it is lost.
    pub(super) fn on_state(&mut self, number: u8, boot: u64, state: &State) -> Vec<Order> {
        // What it took of a gateway before this one says nothing.
        let taken = window::extend(state.taken, self.orders);
        let taken = if taken > self.orders { 0 } else { taken };
        let rate = Rate::from_bps(u64::from(state.rate) * 1_000);
        let Some(one) = self.list.iter_mut().find(|one| one.number == number) else {
            let (open, last) = (VecDeque::new(), self.orders);
            let room = state.room;
            let expired = 0;
            self.list.push(Transmitter { number, boot, rate, room, taken, open, expired, last });
            return Vec::new();
        };
        let lost = if one.boot == boot { Vec::new() } else { one.take_open() };
        (one.boot, one.rate, one.room, one.taken) = (boot, rate, state.room, taken);
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

    /// Orders something of a generation of the one with room whose turn it is; returns who, and the order.
    pub(super) fn order(&mut self, now: Instant, generation: u64) -> Option<(u8, u32)> {
        let with_room = self.list.iter_mut().filter(|one| one.has_room(now));
        let one = with_room.min_by_key(|one| one.last)?;
        self.orders += 1;
        one.last = self.orders;
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
    pub(super) fn settle(&mut self, heard: &[(u8, u32)]) -> Vec<Settled> {
        let mut settled = Vec::new();
        for (number, low) in heard {
            let upto = window::extend(*low, self.orders);
            let Some(one) = self.list.iter_mut().find(|one| one.number == *number) else {
                continue;
            };
            while let Some(order) = one.open.front().copied()
                && order.number <= upto
                && upto <= self.orders
            {
                one.open.pop_front();
                let late = one.expired > 0;
                one.expired -= usize::from(late);
                settled.push(Settled { order, answered: order.number == upto, late });
            }
        }
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
