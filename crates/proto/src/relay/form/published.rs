//! The published form over relays [specs/relay.md §6]: the tunnel's source, with relays for
//! transmitters.
//!
//! *Deviations from the paper* are those of `delivery/generation`, and:
//! 1. Without an ACK one combination more is asked of each relay: what triggers them is broadcast
//!    in the paper. Each counts towards k · r.
//! 2. No generation is begun 64 after the oldest that is not complete: relays and destination keep
//!    128.

use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant};

use super::super::frame::{COMPLETE, Coded, NOBODY, Ranks};
use super::super::transmitters::{LATE, Order, Settled, Transmitters};
use super::{Fate, Form, RoundTrip, Sent};
use crate::delivery::generation::{Published as Pace, Source, Way};
use crate::limits;

#[derive(Debug)]
struct Generation {
    tokens: Vec<u64>,
    began: Instant,
    /// Combinations that all relays get, and the share that each sends then.
    first: usize,
    share: u8,
    made: usize,
}

/// Sends as published.
#[derive(Debug)]
pub(in crate::relay) struct Published {
    source: u32,
    generations: Source,
    open: BTreeMap<u64, Generation>,
    waiting: Vec<(u64, Vec<u8>)>,
    waits_since: Instant,
    works: bool,
    rtt: RoundTrip,
    fates: VecDeque<Fate>,
    sent: Sent,
}

impl Published {
    /// Starts with nothing sent.
    pub(in crate::relay) fn new(
        source: u32,
        k: usize,
        f: Option<usize>,
        r: usize,
        seed: u64,
    ) -> Self {
        Self {
            source,
            generations: Source::new(k, Pace { f, r, of_each: true }, seed),
            open: BTreeMap::new(),
            waiting: Vec::new(),
            waits_since: Instant::ZERO,
            works: false,
            rtt: RoundTrip::new(),
            fates: VecDeque::new(),
            sent: Sent::default(),
        }
    }

    fn has_place(&self) -> bool {
        let next = self.generations.next();
        let oldest = self.open.first_key_value().map_or(next, |(at, _)| *at);
        self.generations.has_room() && next - oldest < limits::RELAY_GENERATIONS
    }

    /// Packs what waits, when there is enough of it or it has waited.
    fn pack(&mut self, now: Instant, transmitters: &Transmitters) {
        let k = self.generations.k();
        let has_waited = || now.since(self.waits_since) >= self.generations.wait();
        let is_enough = self.waiting.len() >= k || (!self.waiting.is_empty() && has_waited());
        if !is_enough || !self.has_place() || transmitters.count() == 0 {
            return;
        }
        let (tokens, datagrams): (Vec<_>, Vec<_>) = self.waiting.drain(..).unzip();
        let share = k.div_ceil(transmitters.count());
        let first = share * transmitters.count();
        self.sent.datagrams += tokens.len() as u64;
        self.sent.generations += 1;
        let generation = Generation { tokens, began: now, first, share: share as u8, made: 0 };
        self.open.insert(self.generations.next(), generation);
        self.generations.pack(&datagrams);
    }

    fn end(&mut self, now: Instant, number: u64) {
        self.generations.on_decoded(number);
        let Some(generation) = self.open.remove(&number) else { return };
        // What was repeated says nothing of the round trip.
        if generation.made <= generation.first {
            self.rtt.on_sample(now.since(generation.began));
        }
        let fates = generation.tokens.into_iter().map(|token| Fate { token, arrived: true });
        self.fates.extend(fates);
    }
}

impl Form for Published {
    fn wants(&self, _now: Instant, transmitters: &Transmitters) -> bool {
        transmitters.count() > 0 && self.waiting.len() < self.generations.k() && self.has_place()
    }

    fn push(&mut self, now: Instant, token: u64, datagram: &[u8]) {
        if self.waiting.is_empty() {
            self.waits_since = now;
        }
        self.waiting.push((token, datagram.to_vec()));
    }

    fn next(&mut self, now: Instant, transmitters: &mut Transmitters) -> Option<Coded> {
        let (rtt, least_rtt) = (self.rtt.srtt, self.rtt.least);
        let (count, rate) = (transmitters.count(), transmitters.rate());
        let way = Way { transmitters: count, rate, rtt, least_rtt };
        self.works = count > 0;
        self.generations.set_way(self.works.then_some(way));
        self.pack(now, transmitters);
        let asked = self.generations.peek();
        let is_repeat = asked.is_none();
        let (number, _) = asked.or_else(|| {
            let may = self.generations.has_repeats() && transmitters.has_room(now);
            self.generations.peek_repeat().filter(|_| may)
        })?;
        let back = number - *self.open.first_key_value()?.0;
        let generation = self.open.get_mut(&number)?;
        let (node, order, share) = match generation.made < generation.first {
            true => (NOBODY, 0, generation.share),
            false if is_repeat => {
                let (node, order) = transmitters.order(now, number)?;
                (node, order, 1)
            }
            false => (transmitters.turn()?, 0, 1),
        };
        generation.made += 1;
        let k = self.generations.k() as u8;
        self.sent.frames += 1;
        self.sent.repeats += u64::from(generation.made > usize::from(k));
        let made = self.generations.take(now, number, rtt)?;
        Some(Coded {
            source: self.source,
            generation: number,
            back: u8::try_from(back).ok()?,
            k,
            size: k,
            closed: true,
            share,
            node,
            order,
            coefficients: made.coefficients.to_vec(),
            payload: made.payload.to_vec(),
        })
    }

    fn on_ranks(&mut self, now: Instant, ranks: &Ranks, _settled: &[Settled], _anew: bool) {
        let listed = (ranks.floor..).zip(&ranks.ranks).filter(|(_, rank)| **rank == COMPLETE);
        let below = self.open.range(..ranks.floor).map(|(at, _)| *at);
        let complete: Vec<u64> = below.chain(listed.map(|(at, _)| at)).collect();
        complete.into_iter().for_each(|at| self.end(now, at));
    }

    fn on_lost(&mut self, _lost: &[Order]) {}

    fn next_generation(&self) -> u64 {
        self.generations.next()
    }

    fn patience(&self) -> Duration {
        (self.rtt.srtt + self.rtt.rttvar * 4).min(LATE)
    }

    fn timeout(&self) -> Option<Instant> {
        let waits = (self.works && !self.waiting.is_empty() && self.has_place())
            .then(|| self.waits_since + self.generations.wait());
        waits.into_iter().chain(self.generations.timeout()).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.generations.handle_timeout(now);
    }

    fn poll_fate(&mut self) -> Option<Fate> {
        self.fates.pop_front()
    }

    fn counters(&self) -> Sent {
        Sent { open: self.open.len(), ..self.sent }
    }
}
