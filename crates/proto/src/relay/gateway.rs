//! A gateway: between a session's daemon and the relays of its side [specs/relay.md §4].

use std::collections::VecDeque;

use units::{Instant, Rate};

use super::form::{Fate, Form, Published, Ranked, RelayForm, Sent};
use super::frame::{Body, Header, Ranks, Side, longest_datagram};
use super::members::Refusal;
use super::sink::{Received, Sink};
use super::sources::Sources;
use super::transmitters::Transmitters;
use super::{Queued, RelayError};
use crate::crypto::Entropy;
use crate::limits;
use crate::path::RelayRoom;

/// The state of a gateway.
#[derive(Debug)]
pub(super) struct Gateway {
    side: Side,
    k: usize,
    source: u32,
    form: Box<dyn Form>,
    transmitters: Transmitters,
    small: VecDeque<Queued>,
    /// The number of the next small datagram.
    next_small: u64,
    sink: Sink,
    /// Whose reports count, and the newest.
    destinations: Sources,
    report: u32,
}

impl Gateway {
    pub(super) fn new(side: Side, form: RelayForm, k: usize, entropy: &mut Entropy) -> Self {
        let (source, seed) = (entropy.u32(), entropy.u64());
        let k = k.clamp(1, limits::GENERATION_PACKETS);
        let form: Box<dyn Form> = match form {
            RelayForm::Ranked { f } => Box::new(Ranked::new(source, k, f, seed)),
            RelayForm::Published { f, r } => Box::new(Published::new(source, k, f, r, seed)),
        };
        Self {
            side,
            k,
            source,
            form,
            transmitters: Transmitters::default(),
            small: VecDeque::new(),
            next_small: 0,
            sink: Sink::new(entropy.u32()),
            destinations: Sources::default(),
            report: 0,
        }
    }

    /// Takes a frame that counts.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        header: &Header,
        body: Body,
    ) -> Result<(), Refusal> {
        match body {
            Body::State(state) => {
                let number = header.sender.number;
                if number != 0 {
                    let lost = self.transmitters.on_state(number, header.boot, &state);
                    self.form.on_lost(&lost);
                }
                Ok(())
            }
            // Another gateway's, of one number: what it sends is not for us.
            _ if header.sender.number == 0 => Err(Refusal::Misdirected),
            Body::Small { source, number, datagram } => {
                self.sink.handle_small(now, source, number, datagram)
            }
            Body::Coded(coded) => self.sink.handle_coded(now, &coded),
            Body::Ranks(ranks) => self.on_ranks(now, &ranks),
            Body::Challenge(_) | Body::Answer(_) => Ok(()),
        }
    }

    /// Drops relays that are not alive.
    pub(super) fn keep(&mut self, is_alive: impl Fn(u8) -> bool) {
        let lost = self.transmitters.keep(is_alive);
        self.form.on_lost(&lost);
    }

    /// Tells whether a datagram above [`limits::RELAY_SMALL`] would leave now.
    pub(super) fn wants(&self, now: Instant) -> bool {
        self.form.wants(now, &self.transmitters)
    }

    /// Tells whether small ones leave: there is a relay, and not too many wait.
    pub(super) fn wants_small(&self) -> bool {
        self.transmitters.count() > 0 && self.small.len() < limits::RELAY_QUEUE
    }

    /// Takes a datagram of the session.
    pub(super) fn push(
        &mut self,
        now: Instant,
        token: u64,
        datagram: &[u8],
    ) -> Result<(), RelayError> {
        let limit = longest_datagram(self.k);
        if datagram.is_empty() || datagram.len() > limit {
            return Err(RelayError::TooLarge { limit });
        }
        if datagram.len() <= limits::RELAY_SMALL {
            if !self.wants_small() {
                return Err(RelayError::Blocked);
            }
            let (source, number) = (self.source, self.next_small);
            self.next_small += 1;
            let body = Body::Small { source, number, datagram: datagram.to_vec() };
            self.small.push_back(Queued { direction: self.side, body });
            return Ok(());
        }
        if !self.wants(now) {
            return Err(RelayError::Blocked);
        }
        self.form.push(now, token, datagram);
        Ok(())
    }

    /// Returns the next frame for the wire: what is small first.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Queued> {
        if let Some(small) = self.small.pop_front() {
            return Some(small);
        }
        if let Some(ranks) = self.sink.take_report(now) {
            return Some(Queued { direction: self.side.other(), body: Body::Ranks(ranks) });
        }
        let coded = self.form.next(now, &mut self.transmitters)?;
        Some(Queued { direction: self.side, body: Body::Coded(coded) })
    }

    /// Returns the next datagram for the session.
    pub(super) fn poll_delivery(&mut self) -> Option<Vec<u8>> {
        self.sink.poll()
    }

    /// Returns what became of the next datagram.
    pub(super) fn poll_fate(&mut self) -> Option<Fate> {
        self.form.poll_fate()
    }

    pub(super) fn timeout(&self, now: Instant) -> Option<Instant> {
        let patience = self.form.patience();
        let order = self.transmitters.oldest().map(|at| at + patience);
        let another = self.transmitters.another_at(now);
        [order, another, self.form.timeout(), self.sink.timeout()].into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let lost = self.transmitters.expire(now, self.form.patience());
        self.form.on_lost(&lost);
        self.form.handle_timeout(now);
    }

    /// Returns what left and what came.
    pub(super) fn counters(&self) -> (Sent, Received) {
        (self.form.counters(), self.sink.counters())
    }

    /// Returns the generations that are open, of both directions.
    pub(super) fn open(&self) -> usize {
        self.form.counters().open + self.sink.open()
    }

    /// Returns what it takes of its session.
    pub(super) fn room(&self, now: Instant) -> RelayRoom {
        let carries = self.transmitters.best_rate();
        RelayRoom { open: self.wants(now), max_datagram: self.max_datagram(), carries }
    }

    /// Returns what the radio of one of its relays is held to carry, and what that relay says.
    pub(super) fn radio_of(&self, number: u8) -> Option<[Rate; 2]> {
        self.transmitters.radio_of(number)
    }

    /// Returns how long a datagram may be.
    pub(super) fn max_datagram(&self) -> usize {
        longest_datagram(self.k)
    }

    fn on_ranks(&mut self, now: Instant, ranks: &Ranks) -> Result<(), Refusal> {
        if ranks.source != self.source {
            return Err(Refusal::Stale);
        }
        // Nobody can have got what was not sent: who says so has the group's key and lies.
        if ranks.floor > self.form.next_generation() {
            return Err(Refusal::Malformed);
        }
        let had_one = self.destinations.current().is_some();
        let is_new = self.destinations.admit(now, ranks.destination)?;
        if !is_new && ranks.number.wrapping_sub(self.report) as i32 <= 0 {
            return Ok(());
        }
        self.report = ranks.number;
        let settled = self.transmitters.settle(now, &ranks.heard);
        let anew = is_new && had_one;
        if anew {
            self.transmitters.clear();
        }
        self.form.on_ranks(now, ranks, &settled, anew);
        Ok(())
    }
}
