//! Our form [specs/relay.md §5]: packets as they are first, then what reports say is missing.
//!
//! ```text
//! lacking = size − rank            under way = ordered and not settled
//! settled = the largest order heard of its transmitter has reached it, or is late:
//!           srtt + max(4 · rttvar, 10 ms)
//! next    = the oldest generation with lacking > under way; where less than 0.14 of what is sent
//!           is heard, the oldest for which useful ≥ 0.7 or a datagram of the session, which leaves
//!           at once as it is or, without one, the generation to which one more is of use most
//!           likely:
//! useful  = P(B < lacking), B of under way heard, each with p: Σ_{i < lacking} C(n, i) pⁱ (1 −
//!           p)ⁿ⁻ⁱ
//! f       = 12 · p · rate · srtt / (k · packet)
//! ```
//! Where hardly anything is heard, a generation takes seconds, and several at once take seconds
//! each: then one after the other is what brings something that can be read every second. It costs
//! frames that are heard in vain, of the few there are.
//!
//! What k is follows from the queue: a generation takes packets until there are k, or until it
//! needs a combination.

use std::collections::{BTreeMap, VecDeque};

use coding::CoefficientKey;
use coding::block::Encoder;
use units::{Duration, Instant, Rate};

use super::super::REPORT;
use super::super::frame::{COMPLETE, Coded, Ranks, longest_datagram};
use super::super::transmitters::{LATE, Order, Settled, Transmitters};
use super::{Fate, Form, RoundTrip, Sent, symbol};
use crate::delivery::generation::LENGTH;
use crate::limits;

/// A generation is given up when the destination has gained nothing of it for so long: whoever sent
/// it has sent it again elsewhere, or waits for a route that is gone. What it has gained, where few
/// frames are heard, would be lost.
const LONGEST: Duration = Duration::from_secs(3);
/// Round trips' worth of what is heard that is open at most: one is under way, one is asked for
/// again; with the others a transmitter hardly ever has nothing useful to send, and TCP has room
/// for its bursts and for what it sends anew after a loss.
const FILL: f64 = 12.0;
/// Weight of an order in the part that is heard, and the least that is assumed.
const HEARD_WEIGHT: f64 = 1.0 / 64.0;
const LEAST_HEARD: f64 = 0.03;
/// Where less than this is heard, what was begun first comes first …
const HARDLY: f64 = 0.14;
/// … until it is less likely than this that one more frame of it is of use.
const LIKELY: f64 = 0.7;
/// What is less likely to be of use is not sent, though nothing else is.
const LEAST_USEFUL: f64 = 0.02;

#[derive(Debug)]
struct Generation {
    encoder: Encoder,
    tokens: Vec<u64>,
    /// When it began, or the destination last gained of it or of one before it.
    gained_at: Instant,
    /// Packets that have left as they are.
    left: usize,
    /// Combinations that were made.
    made: u64,
    rank: usize,
    under_way: usize,
    closed: bool,
}

impl Generation {
    fn size(&self) -> usize {
        self.encoder.rank()
    }

    fn lacking(&self) -> usize {
        self.size().saturating_sub(self.rank)
    }
}

/// Sends by ranks.
#[derive(Debug)]
pub(in crate::relay) struct Ranked {
    source: u32,
    k: usize,
    f: Option<usize>,
    key: CoefficientKey,
    next: u64,
    open: BTreeMap<u64, Generation>,
    /// What all transmitters send together, as of the last frame.
    rate: Rate,
    rtt: RoundTrip,
    /// Part of orders that are heard.
    heard: f64,
    fates: VecDeque<Fate>,
    sent: Sent,
}

impl Ranked {
    /// Starts with nothing sent, in generations of k packets at most: 1 to 16.
    pub(in crate::relay) fn new(source: u32, k: usize, f: Option<usize>, seed: u64) -> Self {
        Self {
            source,
            k,
            f,
            key: CoefficientKey::new(seed),
            next: 0,
            open: BTreeMap::new(),
            rate: Rate::ZERO,
            rtt: RoundTrip::new(),
            heard: 1.0,
            fates: VecDeque::new(),
            sent: Sent::default(),
        }
    }

    /// Returns how many generations may be open (f).
    fn may_be_open(&self) -> usize {
        let bytes = (self.k * longest_datagram(self.k)) as u64;
        let way = FILL * self.heard * self.rate.bytes_in(self.rtt.srtt) as f64;
        // Two at least: one grows while another is under way.
        let held = (way as u64).div_ceil(bytes).clamp(2, limits::RELAY_GENERATIONS) as usize;
        self.f.map_or(held, |f| f.min(limits::RELAY_GENERATIONS as usize))
    }

    /// Returns the oldest generation of which a frame is due.
    fn due(&self) -> Option<u64> {
        let is_due = |generation: &Generation| {
            let (lacking, under_way) = (generation.lacking(), generation.under_way);
            lacking > under_way
                || (self.heard < HARDLY && useful(lacking, under_way, self.heard) >= LIKELY)
        };
        self.open.iter().find(|(_, generation)| is_due(generation)).map(|(at, _)| *at)
    }

    /// Returns the one in the greatest need, where nothing is due.
    fn neediest(&self) -> Option<u64> {
        let useful = |generation: &Generation| {
            useful(generation.lacking(), generation.under_way, self.heard)
        };
        let all = self.open.iter().map(|(at, generation)| (useful(generation), *at));
        // Of equals the oldest.
        let most = all.rev().max_by(|(one, _), (other, _)| one.total_cmp(other));
        most.filter(|(useful, _)| *useful >= LEAST_USEFUL).map(|(_, at)| at)
    }

    /// Tells whether the newest generation takes another packet, or another may begin.
    fn has_place(&self) -> bool {
        let newest = self.open.last_key_value();
        let takes = |generation: &Generation| !generation.closed && generation.size() < self.k;
        if newest.is_some_and(|(at, generation)| *at + 1 == self.next && takes(generation)) {
            return true;
        }
        let oldest = self.open.first_key_value().map_or(self.next, |(at, _)| *at);
        self.open.len() < self.may_be_open()
            && self.next - oldest < limits::RELAY_GENERATIONS
            && self.next < limits::LAST_GENERATION
    }

    /// Ends a generation.
    fn end(&mut self, number: u64, arrived: bool) {
        let Some(generation) = self.open.remove(&number) else { return };
        if !arrived {
            self.sent.given_up += generation.tokens.len() as u64;
        }
        let fates = generation.tokens.into_iter().map(|token| Fate { token, arrived });
        self.fates.extend(fates);
    }

    /// Learns how many of some orders were heard.
    fn learn(&mut self, orders: usize, heard: usize) {
        let (orders, heard) = (orders as f64, heard.min(orders) as f64);
        let weight = (orders * HEARD_WEIGHT).min(1.0);
        if orders > 0.0 {
            self.heard += (heard / orders - self.heard) * weight;
            self.heard = self.heard.max(LEAST_HEARD);
        }
    }

    /// Makes a frame of a generation.
    fn make(&mut self, number: u64, node: u8, order: u32) -> Option<Coded> {
        let back = number - *self.open.first_key_value()?.0;
        let generation = self.open.get_mut(&number)?;
        let size = generation.size();
        let (mut coefficients, mut payload) = (Vec::new(), Vec::new());
        if generation.left < size {
            coefficients.resize(size, 0);
            coefficients[generation.left] = 1;
            payload.extend_from_slice(generation.encoder.symbol(generation.left)?);
            generation.left += 1;
        } else {
            generation.closed = true;
            generation.encoder.coefficients(generation.made, &mut coefficients);
            generation.encoder.combine(&coefficients, &mut payload).ok()?;
            generation.made += 1;
            self.sent.repeats += 1;
        }
        generation.under_way += 1;
        self.sent.frames += 1;
        Some(Coded {
            source: self.source,
            generation: number,
            back: u8::try_from(back).ok()?,
            k: self.k as u8,
            size: size as u8,
            closed: generation.closed,
            share: 0,
            node,
            order,
            coefficients,
            payload,
        })
    }
}

impl Form for Ranked {
    fn wants(&self, now: Instant, transmitters: &Transmitters) -> bool {
        self.due().is_none() && self.has_place() && transmitters.has_room(now)
    }

    fn push(&mut self, now: Instant, token: u64, datagram: &[u8]) {
        let newest = self.next.checked_sub(1).and_then(|at| self.open.get(&at));
        if newest.is_none_or(|newest| newest.closed || newest.size() == self.k) {
            let bytes = longest_datagram(self.k) + LENGTH;
            let key = self.key.for_block(self.next);
            let encoder = Encoder::new(self.k, bytes, key).expect("k and length are bounded");
            let generation = Generation {
                encoder,
                tokens: Vec::with_capacity(self.k),
                gained_at: now,
                left: 0,
                made: 0,
                rank: 0,
                under_way: 0,
                closed: false,
            };
            self.open.insert(self.next, generation);
            self.next += 1;
            self.sent.generations += 1;
        }
        let Some(generation) = self.open.get_mut(&(self.next - 1)) else { return };
        let pushed = generation.encoder.push(&symbol(datagram));
        pushed.expect("the gateway has checked the length, and the generation has room");
        generation.tokens.push(token);
        generation.closed = generation.size() == self.k;
        self.sent.datagrams += 1;
    }

    fn next(&mut self, now: Instant, transmitters: &mut Transmitters) -> Option<Coded> {
        self.rate = transmitters.rate();
        transmitters.set_heard(self.heard);
        if !transmitters.has_room(now) {
            return None;
        }
        let number = self.due().or_else(|| self.neediest())?;
        let (node, order) = transmitters.order(now, number)?;
        self.make(number, node, order)
    }

    fn on_ranks(&mut self, now: Instant, ranks: &Ranks, settled: &[Settled], anew: bool) {
        let (mut gained, mut gains_from) = (0, None);
        if anew {
            let forget = |generation: &mut Generation| {
                (generation.rank, generation.under_way) = (0, 0);
            };
            self.open.values_mut().for_each(forget);
        }
        for Settled { order, round_trip, late } in settled {
            if let Some(generation) = self.open.get_mut(&order.generation).filter(|_| !late) {
                generation.under_way = generation.under_way.saturating_sub(1);
            }
            if let Some(round_trip) = round_trip {
                self.rtt.on_sample(*round_trip);
            }
        }
        let listed = (ranks.floor..).zip(&ranks.ranks).map(|(at, rank)| (at, *rank));
        let listed: BTreeMap<u64, u8> = listed.collect();
        let mut complete = Vec::new();
        for (at, generation) in &mut self.open {
            let size = generation.size();
            let rank = match listed.get(at) {
                _ if *at < ranks.floor => size,
                Some(&COMPLETE) => size,
                Some(rank) => usize::from(*rank).min(size),
                None => continue,
            };
            gained += rank.saturating_sub(generation.rank);
            if rank > generation.rank {
                gains_from = gains_from.or(Some(*at));
            }
            generation.rank = generation.rank.max(rank);
            // A packet that has not left cannot have come: a report that says so is nonsense.
            if generation.lacking() == 0 && generation.left == size {
                complete.push(*at);
            }
        }
        self.learn(settled.iter().filter(|settled| !settled.late).count(), gained);
        // Those behind one that gains wait for it.
        if let Some(at) = gains_from {
            self.open.range_mut(at..).for_each(|(_, generation)| generation.gained_at = now);
        }
        complete.into_iter().for_each(|at| self.end(at, true));
    }

    fn on_lost(&mut self, lost: &[Order]) {
        self.learn(lost.len(), 0);
        for order in lost {
            if let Some(generation) = self.open.get_mut(&order.generation) {
                generation.under_way = generation.under_way.saturating_sub(1);
            }
        }
    }

    fn next_generation(&self) -> u64 {
        self.next
    }

    fn patience(&self) -> Duration {
        // Reports are so far apart, however even round trips are.
        (self.rtt.srtt + (self.rtt.rttvar * 4).max(REPORT)).min(LATE)
    }

    fn timeout(&self) -> Option<Instant> {
        self.open.values().map(|generation| generation.gained_at + LONGEST).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        let is_over = |generation: &Generation| now.since(generation.gained_at) >= LONGEST;
        let over =
            self.open.iter().filter(|(_, generation)| is_over(generation)).map(|(at, _)| *at);
        over.collect::<Vec<_>>().into_iter().for_each(|at| self.end(at, false));
    }

    fn poll_fate(&mut self) -> Option<Fate> {
        self.fates.pop_front()
    }

    fn counters(&self) -> Sent {
        Sent { open: self.open.len(), ..self.sent }
    }
}

/// Returns how likely it is that fewer than `lacking` of `under_way` are heard, each with
/// probability `heard`: that one more is of use.
fn useful(lacking: usize, under_way: usize, heard: f64) -> f64 {
    if lacking > under_way {
        return 1.0;
    }
    // C(n, i) pⁱ (1 − p)ⁿ⁻ⁱ from i = 0 on; with p = 1 none is of use.
    let missed = 1.0 - heard;
    if missed <= 0.0 {
        return 0.0;
    }
    let n = under_way as f64;
    let terms = (0..lacking).scan(missed.powf(n), |term, i| {
        let this = *term;
        *term *= (n - i as f64) / (i as f64 + 1.0) * heard / missed;
        Some(this)
    });
    terms.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_hardly_anything_is_heard_what_was_begun_first_is_sent_while_more_of_it_is_of_use() {
        let mut ranked = Ranked::new(1, 4, None, 1);
        (0..8).for_each(|token| ranked.push(Instant::ZERO, token, &[0; 300]));
        let set = |ranked: &mut Ranked, heard, under_way| {
            ranked.heard = heard;
            for (generation, under_way) in ranked.open.values_mut().zip(under_way) {
                generation.under_way = under_way;
            }
            ranked.due()
        };
        assert_eq!(set(&mut ranked, 0.05, [4, 4]), Some(0));
        // P(fewer than 4 of 55 are heard, each with 0.05) = 0.70; of 56 it is 0.69.
        assert_eq!(set(&mut ranked, 0.05, [55, 4]), Some(0));
        assert_eq!(set(&mut ranked, 0.05, [56, 4]), Some(1));
        assert_eq!(set(&mut ranked, 0.05, [56, 56]), None);
        // Where more is heard, what is under way counts as if it came.
        assert_eq!(set(&mut ranked, 0.3, [4, 3]), Some(1));
        assert_eq!(set(&mut ranked, 0.3, [4, 4]), None);
    }

    #[test]
    fn usefulness_is_the_binomial_distribution() {
        for (lacking, under_way, heard, expected) in [
            (1, 0, 0.5, 1.0),
            (4, 3, 0.9, 1.0),
            (0, 3, 0.5, 0.0),
            (1, 2, 0.5, 0.25),
            (2, 2, 0.5, 0.75),
            (4, 8, 0.5, 93.0 / 256.0),
            (3, 3, 1.0, 0.0),
            (1, 3, 0.2, 0.512),
        ] {
            let useful = useful(lacking, under_way, heard);
            assert!((useful - expected).abs() < 1e-9, "{lacking} of {under_way}: {useful}");
        }
    }
}
