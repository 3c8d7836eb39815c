//! What waits to be numbered: flows take turns, a packet each. A flow of which nothing else is
//! under way comes first: a request does not wait for what a transfer has waiting.
//!
//! ```text
//! a flow may hold   100 ms of what all paths carried at best in the last seconds, or a round trip
//!                   of the slowest of them if that is longer: what TCP needs to keep them busy; at
//!                   least 64 packets
//! beyond that       its oldest packet is dropped: TCP hears of the queue, and of nothing else
//! a path goes       what the others carry counts at once, for TCP's next repeat would wait behind
//!                   the rest, and half of what it carried while it may come back: TCP's window
//!                   must be worth something then
//! in an outage      nothing is dropped for that, nor for as long after; what does not fit is
//!                   refused. The same while a path runs dry: that takes from the queue what it
//!                   needs to fill it again
//! a repeat          stays: without it TCP would stand still for another round trip
//! where 64 packets  the newest is refused, not the oldest dropped; and what TCP then sends again
//! are half a second takes the place of all that waits behind it in the flow; in an outage of its
//!                   first copy as well
//! ```
//! The bound is in bytes, not in time: packets that are passed on in order are acknowledged in
//! bursts, so TCP fills the queue in bursts, and a bound in time would drop in bursts. A packet of
//! TCP that is dropped while nothing leaves costs a timeout that doubles with each try [RFC 6298
//! §5.5]: so the oldest stay, which are what ends the timeout, and the newest are refused.
//!
//! On a slow link everything that waits is seconds. A hole at the front would keep all of it from
//! being read until TCP has closed it, and TCP would do so behind all that waits. It may not
//! overtake that either: what has an older time stamp than what was read is refused at the other
//! end [RFC 7323 §5.3]. So it takes their place, and TCP sends them again as well.
//!
//! The same after an outage. First copies that arrive after it tell TCP of a round trip as long as
//! the outage, hence of a timeout that is longer still, and that its own timeout was for nothing:
//! it takes back what it held for lost, the packets among it that were refused here, and learns of
//! these by that long timeout alone. What TCP has sent since tells it none of this.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;
use units::{Duration, Instant, Rate};

use super::release::LEAST_WAIT;
use super::segment::{Flow, Part};
use super::ways::Ways;
use crate::limits;

/// How much of what the paths carry a flow may have waiting, at least.
const QUEUE: Duration = Duration::from_millis(100);
/// Packets that a flow may always have waiting: on slow links 100 ms would be less than TCP needs
/// to recover from a loss without a timeout.
const LEAST_PACKETS: usize = 64;
/// A link is slow on which so many packets take longer than this.
const SLOW: Duration = Duration::from_millis(500);
/// What waits gives its place to a copy of its own, once nothing has left for so long: an outage,
/// not a short gap.
const OUTAGE: Duration = Duration::from_secs(1);
/// In how many seconds the bound falls by half when the paths carry less.
const HALVES_IN: f64 = 3.0;
/// When nothing has left for so long, and for the time of four packets, the paths have stalled.
const STALLED: Duration = Duration::from_millis(30);
const STALLED_PACKETS: usize = 4;

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) flow: Flow,
    pub(super) part: Part,
    /// Where it lies in its flow, as TCP counts.
    pub(super) sequence: u32,
    pub(super) since: Instant,
    pub(super) payload: Vec<u8>,
}

#[derive(Debug, Default)]
struct Packets {
    waiting: VecDeque<Waiting>,
    /// Which of those TCP sends again, in the same order.
    repeats: VecDeque<bool>,
    /// Where those lie that were refused on a slow link, and not sent again since.
    refused: VecDeque<u32>,
    /// Where the packet lies that lies farthest in the flow.
    farthest: Option<u32>,
    bytes: usize,
    /// The number of the flow's newest packet that left.
    last: Option<u64>,
}

/// Keeps the packets of all flows until they can leave.
#[derive(Debug)]
pub(super) struct Queue {
    flows: BTreeMap<Flow, Packets>,
    /// Flows of which packets wait, in the order of their turns.
    turns: VecDeque<Flow>,
    /// Those of which a packet waits after all before it have arrived: they come first.
    fresh: VecDeque<Flow>,
    bytes: usize,
    /// How many bytes may wait, if the session may not hold more.
    most: usize,
    bound: Bound,
    /// How many paths work, or did before none does.
    paths: usize,
    /// Since when no path works, or one runs dry.
    lull: Option<Instant>,
    dropped: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            flows: BTreeMap::new(),
            turns: VecDeque::new(),
            fresh: VecDeque::new(),
            bytes: 0,
            most: limits::TUNNEL_QUEUE_BYTES,
            bound: Bound::default(),
            paths: 0,
            lull: Some(Instant::ZERO),
            dropped: 0,
        }
    }
}

impl Queue {
    /// Takes a packet in, or drops one. All numbers below `arrived` have arrived.
    pub(super) fn push(&mut self, packet: Waiting, arrived: u64) {
        let (now, flow, cost) = (packet.since, packet.flow, cost(&packet));
        if self.bytes + cost > self.most || !self.knows(flow) {
            self.dropped += 1;
            return;
        }
        if self.is_empty() {
            self.bound.begin(now);
        }
        let Some(packets) = self.flows.get_mut(&flow) else { return };
        if packets.waiting.is_empty() {
            let is_fresh = packets.last.map_or(arrived > 0, |last| last < arrived);
            let turns = if is_fresh { &mut self.fresh } else { &mut self.turns };
            turns.push_back(flow);
        }
        let may_refuse = packet.part == Part::Data && self.bound.is_slow();
        let takes_place = match packets.forget_refused(packet.sequence) {
            true => packets.waits_since(now, LEAST_WAIT),
            false => self.bound.quiet(now) >= OUTAGE && packets.has(packet.sequence),
        };
        if may_refuse && takes_place {
            let (bytes, count) = packets.drop_from(packet.sequence);
            self.bytes -= bytes;
            self.dropped += count;
        }
        packets.push(packet);
        self.bytes += cost;
        if self.lull.is_some() || !self.bound.holds(now) {
            return;
        }
        let (bytes, count) = packets.trim(self.bound.bytes(), may_refuse);
        self.bytes -= bytes;
        self.dropped += count;
    }

    /// Returns the bytes of the packet whose turn it is.
    pub(super) fn next_len(&self) -> Option<usize> {
        self.len_of(self.turns.front()?)
    }

    /// Returns the bytes of the packet that comes first.
    pub(super) fn fresh_len(&self) -> Option<usize> {
        self.len_of(self.fresh.front()?)
    }

    /// Tells whether so many packets wait.
    pub(super) fn has(&self, packets: usize) -> bool {
        // Of each of these flows at least one waits.
        let flows = self.turns.iter().take(packets).filter_map(|flow| self.flows.get(flow));
        flows.map(|flow| flow.waiting.len()).sum::<usize>() >= packets
    }

    /// Returns since when the packet waits that has waited for longest, of the first few flows
    /// whose turn it is: as many as a generation has packets.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let few = self.turns.iter().take(limits::GENERATION_PACKETS);
        let flows = few.filter_map(|flow| self.flows.get(flow));
        flows.filter_map(|flow| flow.waiting.front()).map(|packet| packet.since).min()
    }

    /// Takes the packet whose turn it is, which gets this number; returns the number of its flow's
    /// packet before.
    pub(super) fn pop(&mut self, now: Instant, number: u64) -> Option<(Waiting, Option<u64>)> {
        let flow = self.turns.pop_front()?;
        self.take(now, flow, number)
    }

    /// The same of the packet that comes first.
    pub(super) fn pop_fresh(
        &mut self,
        now: Instant,
        number: u64,
    ) -> Option<(Waiting, Option<u64>)> {
        let flow = self.fresh.pop_front()?;
        self.take(now, flow, number)
    }

    /// Drops what is longer than a packet may be.
    pub(super) fn drop_longer(&mut self, most: usize) {
        let before = self.len();
        for packets in self.flows.values_mut() {
            packets.retain(|packet| packet.payload.len() <= most);
        }
        let waits = |flow: &Flow| self.flows.get(flow).is_some_and(|its| !its.waiting.is_empty());
        self.turns.retain(waits);
        self.fresh.retain(waits);
        self.bytes = self.flows.values().map(|packets| packets.bytes).sum();
        self.dropped += (before - self.len()) as u64;
    }

    /// Learns what the paths are like. What one carries that was never filled is not known.
    pub(super) fn set_ways(&mut self, now: Instant, ways: &Ways) {
        let paths = ways.active.len();
        if paths == 0 || ways.runs_dry {
            self.lull = self.lull.or(Some(now));
        } else if let Some(since) = self.lull.take() {
            self.bound.spare(now, now.since(since));
        }
        let carried = ways.rate.as_bps();
        let silent = (ways.silent.as_bps() / 2).min(carried);
        let rate = Rate::from_bps(carried.saturating_add(silent));
        let bytes = rate.bytes_in(ways.least_rtt.max(QUEUE));
        if (1..self.paths).contains(&paths) && ways.is_known {
            self.bound.lower(bytes);
        }
        self.bound.raise(bytes);
        if paths > 0 {
            self.paths = paths;
        }
    }

    /// Notes how many bytes more the session may hold.
    pub(super) fn set_room(&mut self, room: usize) {
        self.most = self.bytes.saturating_add(room).min(limits::TUNNEL_QUEUE_BYTES);
    }

    /// Tells whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.fresh.is_empty()
    }

    /// Returns the bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many flows have packets that wait.
    pub(super) fn waiting_flows(&self) -> usize {
        self.turns.len() + self.fresh.len()
    }

    /// Returns how many flows are known.
    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Returns how many packets were dropped or refused.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Forgets flows of which nothing waits.
    pub(super) fn forget_idle(&mut self) {
        self.flows.retain(|_, packets| !packets.waiting.is_empty());
    }

    fn take(&mut self, now: Instant, flow: Flow, number: u64) -> Option<(Waiting, Option<u64>)> {
        let packets = self.flows.get_mut(&flow)?;
        let packet = packets.remove(0)?;
        self.bytes -= cost(&packet);
        if !packets.waiting.is_empty() {
            self.turns.push_back(flow);
        }
        let before = packets.last.replace(number);
        self.bound.on_left(now);
        Some((packet, before))
    }

    fn len_of(&self, flow: &Flow) -> Option<usize> {
        let packets = self.flows.get(flow)?;
        packets.waiting.front().map(|packet| packet.payload.len())
    }

    fn len(&self) -> usize {
        self.flows.values().map(|packets| packets.waiting.len()).sum()
    }

    /// Makes a place for the flow; in that of one that has been quiet for longest, where there is
    /// none left.
    fn knows(&mut self, flow: Flow) -> bool {
        if !self.flows.contains_key(&flow) && self.flows.len() >= limits::TUNNEL_FLOWS {
            let idle = self.flows.iter().filter(|(_, packets)| packets.waiting.is_empty());
            let quietest = idle.min_by_key(|(_, packets)| packets.last).map(|(flow, _)| *flow);
            let Some(quietest) = quietest else { return false };
            self.flows.remove(&quietest);
        }
        self.flows.entry(flow).or_default();
        true
    }
}

impl Packets {
    fn push(&mut self, packet: Waiting) {
        let beyond = |farthest: u32| packet.sequence.wrapping_sub(farthest) as i32 > 0;
        // A SYN, which may begin another connection of the same name, counts anew.
        let is_new = packet.part == Part::Edge || self.farthest.is_none_or(beyond);
        if is_new {
            self.farthest = Some(packet.sequence);
        }
        self.repeats.push_back(!is_new);
        self.bytes += cost(&packet);
        self.waiting.push_back(packet);
    }

    fn remove(&mut self, place: usize) -> Option<Waiting> {
        let packet = self.waiting.remove(place)?;
        self.repeats.remove(place);
        self.bytes -= cost(&packet);
        Some(packet)
    }

    /// Drops what is beyond a bound of bytes, repeats last: the oldest, or the newest where they
    /// are refused; returns what that cost, and of how many packets.
    fn trim(&mut self, bound: usize, refuses: bool) -> (usize, u64) {
        let all = self.waiting.len();
        let (mut left, mut bytes) = (all, self.bytes);
        let place = |at: usize| if refuses { all - 1 - at } else { at };
        let kinds = [false, true].into_iter();
        let mut candidates =
            kinds.flat_map(|is_repeat| (0..all).map(move |at| (is_repeat, place(at))));
        let mut chosen = SmallVec::<[usize; 4]>::new();
        while left > LEAST_PACKETS
            && bytes > bound
            && let Some((is_repeat, place)) = candidates.next()
        {
            if self.repeats[place] == is_repeat {
                chosen.push(place);
                (left, bytes) = (left - 1, bytes - cost(&self.waiting[place]));
            }
        }
        // One as a rule: the others need not be looked at for it.
        if let [place] = *chosen
            && let Some(packet) = self.remove(place)
        {
            if refuses {
                self.note_refused(packet.sequence);
            }
            return (cost(&packet), 1);
        }
        let mut goes = vec![false; if chosen.is_empty() { 0 } else { self.waiting.len() }];
        chosen.iter().for_each(|place| goes[*place] = true);
        self.drop_those(&goes, refuses)
    }

    /// Remembers that what lies there was refused: four times as many as may always wait.
    fn note_refused(&mut self, sequence: u32) {
        if self.refused.len() == 4 * LEAST_PACKETS {
            self.refused.pop_front();
        }
        self.refused.push_back(sequence);
    }

    /// Forgets that what lies there was refused, for TCP sends it again; tells whether it was.
    fn forget_refused(&mut self, sequence: u32) -> bool {
        let before = self.refused.len();
        self.refused.retain(|refused| *refused != sequence);
        self.refused.len() < before
    }

    /// Tells whether what lies there waits.
    fn has(&self, sequence: u32) -> bool {
        self.waiting.iter().any(|packet| packet.part == Part::Data && packet.sequence == sequence)
    }

    /// Tells whether the oldest has waited for so long.
    fn waits_since(&self, now: Instant, long: Duration) -> bool {
        self.waiting.front().is_some_and(|oldest| now.since(oldest.since) >= long)
    }

    /// Drops the data that lies there and behind; returns what it cost, and of how many packets.
    fn drop_from(&mut self, sequence: u32) -> (usize, u64) {
        let goes = |packet: &Waiting| {
            packet.part == Part::Data && packet.sequence.wrapping_sub(sequence) as i32 >= 0
        };
        let goes: Vec<bool> = self.waiting.iter().map(goes).collect();
        let dropped = self.drop_those(&goes, true);
        // Its new copy comes at once.
        self.forget_refused(sequence);
        dropped
    }

    /// Drops packets by their places, all at once; returns what they cost, and how many they were.
    fn drop_those(&mut self, goes: &[bool], refuses: bool) -> (usize, u64) {
        let gone = self.waiting.iter().zip(goes).filter(|(_, goes)| **goes);
        let gone: Vec<(u32, usize)> =
            gone.map(|(packet, _)| (packet.sequence, cost(packet))).collect();
        let bytes = gone.iter().map(|(_, cost)| cost).sum();
        // Where there are too many, the foremost are remembered: TCP sends these again first.
        gone.iter()
            .rev()
            .filter(|_| refuses)
            .for_each(|(sequence, _)| self.note_refused(*sequence));
        let mut places = goes.iter();
        self.repeats.retain(|_| places.next().is_none_or(|goes| !goes));
        let mut places = goes.iter();
        self.waiting.retain(|_| places.next().is_none_or(|goes| !goes));
        self.bytes -= bytes;
        (bytes, gone.len() as u64)
    }

    fn retain(&mut self, keep: impl Fn(&Waiting) -> bool) {
        let goes: Vec<bool> = self.waiting.iter().map(|packet| !keep(packet)).collect();
        self.drop_those(&goes, false);
    }
}

/// How many bytes a flow may have waiting.
#[derive(Debug, Default)]
struct Bound {
    bytes: f64,
    /// When a packet left last.
    left_at: Instant,
    /// Since when one waits of which none has left.
    waits_from: Instant,
    spared_until: Instant,
}

impl Bound {
    fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Tells whether the packets that may always wait take long.
    fn is_slow(&self) -> bool {
        let most = SLOW.as_secs_f64() / QUEUE.as_secs_f64() * self.bytes;
        most < (LEAST_PACKETS * limits::MAX_DATAGRAM) as f64
    }

    fn raise(&mut self, bytes: u64) {
        self.bytes = self.bytes.max(bytes as f64);
    }

    fn lower(&mut self, bytes: u64) {
        self.bytes = self.bytes.min(bytes as f64);
    }

    fn begin(&mut self, now: Instant) {
        self.waits_from = now;
    }

    fn on_left(&mut self, now: Instant) {
        let (stall, quiet) = (self.stall(), self.quiet(now));
        if quiet > stall {
            self.spare(now, quiet);
        }
        let elapsed = now.since(self.left_at);
        if elapsed <= stall {
            self.bytes *= 0.5_f64.powf(elapsed.as_secs_f64() / HALVES_IN);
        }
        (self.left_at, self.waits_from) = (now, now);
    }

    /// After the paths have stalled nothing is dropped for as long as they have, but no longer than
    /// after a burst: TCP's timeout has grown with it.
    fn spare(&mut self, now: Instant, after: Duration) {
        self.spared_until = self.spared_until.max(now + after.min(limits::LONGEST_BURST));
    }

    /// Tells whether it holds now: packets leave, and have done so for a while.
    fn holds(&self, now: Instant) -> bool {
        now >= self.spared_until && self.quiet(now) <= self.stall()
    }

    /// Returns for how long something waits and nothing has left.
    fn quiet(&self, now: Instant) -> Duration {
        now.since(self.waits_from)
    }

    fn stall(&self) -> Duration {
        let packets = (STALLED_PACKETS * limits::MAX_DATAGRAM) as f64 / self.bytes.max(1.0);
        STALLED + Duration::from_secs_f64((QUEUE.as_secs_f64() * packets).min(1.0))
    }
}

/// What a packet costs, bytes: bounds the number of tiny ones as well.
fn cost(packet: &Waiting) -> usize {
    packet.payload.len() + limits::BESIDE
}

#[cfg(test)]
mod tests;
