//! What waits to be numbered: flows take turns, a packet each. A flow of which nothing else is under way comes
//! first: a request does not wait for what a transfer has waiting.
//!
//! ```text
//! a flow may hold   100 ms of what all paths carried at best in the last seconds, or a round trip of the slowest
//!                   of them if that is longer: what TCP needs to keep them busy; at least 64 packets
//! beyond that       its oldest packet is dropped: TCP hears of the queue, and of nothing else
//! a path goes       what the others carry counts at once, for TCP's next repeat would wait behind the rest, and half
//!                   of what it carried while it may come back: TCP's window must be worth something then
//! in an outage      nothing is dropped for that, nor for as long after; what does not fit is refused. The same
//!                   while a path runs dry: that takes from the queue what it needs to fill it again
//! a repeat          stays: without it TCP would stand still for another round trip
//! ```
//! The bound is in bytes, not in time: packets that are passed on in order are acknowledged in bursts, so TCP
//! fills the queue in bursts, and a bound in time would drop in bursts. A packet of TCP that is dropped while
//! nothing leaves costs a timeout that doubles with each try [RFC 6298 §5.5]: so the oldest stay, which are what
//! ends the timeout, and the newest are refused.

use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant, Rate};

use super::segment::{Flow, Part};
use super::ways::Ways;
use crate::limits;

/// How much of what the paths carry a flow may have waiting, at least.
const QUEUE: Duration = Duration::from_millis(100);
/// Packets that a flow may always have waiting: on slow links 100 ms would be less than TCP needs to recover
/// from a loss without a timeout.
const LEAST_PACKETS: usize = 64;
/// Flows that are looked at for the packet that has waited for longest: as many as a generation has packets.
const FEW: usize = limits::GENERATION_PACKETS;
/// In how many seconds the bound falls by half when the paths carry less.
const HALVES_IN: f64 = 3.0;
/// When nothing has left for so long, and for the time of four packets, the paths have stalled …
const STALLED: Duration = Duration::from_millis(30);
const STALLED_PACKETS: usize = 4;
/// … and for as long after that as they have, but no longer than this, nothing is dropped: TCP's timeout has
/// grown with it.
const SPARED: Duration = Duration::from_secs(3);

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
        packets.push(packet);
        self.bytes += cost;
        if self.lull.is_some() || !self.bound.holds(now) {
            return;
        }
        while packets.waiting.len() > LEAST_PACKETS
            && packets.bytes > self.bound.bytes()
            && let Some(cost) = packets.drop_one()
        {
            self.bytes -= cost;
            self.dropped += 1;
        }
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

    /// Returns since when the packet waits that has waited for longest, of the first few flows whose turn it is.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let flows = self.turns.iter().take(FEW).filter_map(|flow| self.flows.get(flow));
        flows.filter_map(|flow| flow.waiting.front()).map(|packet| packet.since).min()
    }

    /// Takes the packet whose turn it is, which gets this number; returns the number of its flow's packet before.
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

    /// Makes a place for the flow; in that of one that has been quiet for longest, where there is none left.
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

    /// Drops the oldest that is no repeat, or the oldest of all; returns what it cost.
    fn drop_one(&mut self) -> Option<usize> {
        let place = self.repeats.iter().position(|is_repeat| !is_repeat).unwrap_or(0);
        self.remove(place).map(|packet| cost(&packet))
    }

    fn retain(&mut self, keep: impl Fn(&Waiting) -> bool) {
        let kept: Vec<bool> = self.waiting.iter().map(&keep).collect();
        let mut places = kept.iter();
        self.repeats.retain(|_| places.next().is_some_and(|keep| *keep));
        self.waiting.retain(keep);
        self.bytes = self.waiting.iter().map(cost).sum();
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
        let stall = self.stall();
        let quiet = now.since(self.waits_from);
        if quiet > stall {
            self.spare(now, quiet);
        }
        let elapsed = now.since(self.left_at);
        if elapsed <= stall {
            self.bytes *= 0.5_f64.powf(elapsed.as_secs_f64() / HALVES_IN);
        }
        (self.left_at, self.waits_from) = (now, now);
    }

    fn spare(&mut self, now: Instant, after: Duration) {
        self.spared_until = self.spared_until.max(now + after.min(SPARED));
    }

    /// Tells whether it holds now: packets leave, and have done so for a while.
    fn holds(&self, now: Instant) -> bool {
        now >= self.spared_until && now.since(self.waits_from) <= self.stall()
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
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn push(queue: &mut Queue, ms: u64, flow: u64, tag: u8) {
        let far = queue.flows.get(&Flow::test(flow)).and_then(|packets| packets.farthest);
        push_at(queue, ms, flow, tag, far.map_or(u32::MAX - 2, |far| far.wrapping_add(1)));
    }

    fn push_at(queue: &mut Queue, ms: u64, flow: u64, tag: u8, sequence: u32) {
        let (flow, part, since) = (Flow::test(flow), Part::Data, at(ms));
        queue.push(Waiting { flow, part, sequence, since, payload: vec![tag; 1_000] }, 0);
    }

    fn pop(queue: &mut Queue, ms: u64, number: u64) -> Option<(u8, Option<u64>)> {
        queue.pop(at(ms), number).map(|(packet, before)| (packet.payload[0], before))
    }

    /// A queue after the time in which nothing is dropped.
    fn queue(mbps: f64) -> Queue {
        let mut queue = Queue::default();
        queue.set_ways(at(0), &Ways::test(1, mbps));
        queue
    }

    #[test]
    fn flows_take_turns_and_each_knows_its_packet_before() {
        let mut queue = queue(10.0);
        for (flow, tag) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (3, 31)] {
            push(&mut queue, 5_000, flow, tag);
        }
        let order: Vec<_> = (1..=6).filter_map(|number| pop(&mut queue, 5_000, number)).collect();
        let expected =
            [(10, None), (20, None), (30, None), (11, Some(1)), (31, Some(3)), (12, Some(4))];
        assert_eq!(order, expected);
        assert!(queue.is_empty() && queue.bytes() == 0);
    }

    #[test]
    fn a_flow_holds_a_tenth_of_a_second_and_drops_its_oldest() {
        let mut queue = queue(20.0);
        (0..400).for_each(|number| push(&mut queue, 5_000, 1, number as u8));
        assert!(queue.bytes() <= 250_000 && queue.bytes() > 248_000, "{}", queue.bytes());
        let kept = queue.len() as u64;
        assert_eq!(queue.dropped(), 400 - kept);
        assert_eq!(pop(&mut queue, 5_001, 1), Some(((400 - kept) as u8, None)));
        let mut far = self::queue(20.0);
        let rtt = Duration::from_millis(300);
        far.set_ways(at(0), &Ways { least_rtt: rtt, ..Ways::test(1, 20.0) });
        (0..800).for_each(|number| push(&mut far, 5_000, 1, number as u8));
        assert!((740_000..=750_000).contains(&far.bytes()), "{}", far.bytes());
        let mut slow = self::queue(0.5);
        (0..100).for_each(|number| push(&mut slow, 5_000, 1, number));
        assert_eq!(slow.len(), LEAST_PACKETS);
    }

    #[test]
    fn the_bound_falls_slowly_and_not_while_nothing_leaves() {
        let mut queue = queue(20.0);
        queue.set_ways(at(5_000), &Ways::test(1, 1.0));
        for ms in 0..300_u64 {
            push(&mut queue, 5_000 + 10 * ms, 1, 0);
            pop(&mut queue, 5_000 + 10 * ms, ms);
        }
        let bound = queue.bound.bytes();
        assert!((124_000..127_000).contains(&bound), "half after three seconds: {bound}");
        push(&mut queue, 60_000, 1, 0);
        pop(&mut queue, 70_000, 400);
        assert_eq!(queue.bound.bytes(), bound, "nothing left meanwhile");
    }

    #[test]
    fn where_a_path_goes_the_bound_is_what_the_others_carry() {
        let mut queue = Queue::default();
        let set = |queue: &mut Queue, paths, mbps| {
            queue.set_ways(at(0), &Ways::test(paths, mbps));
            queue.bound.bytes()
        };
        assert_eq!(set(&mut queue, 2, 28.0), 350_000);
        assert_eq!(set(&mut queue, 2, 10.0), 350_000, "a lower rate alone takes its time");
        queue.set_ways(at(0), &Ways { is_known: false, ..Ways::test(1, 8.0) });
        assert_eq!(set(&mut queue, 2, 10.0), 350_000, "who knows what the other carries");
        assert_eq!(set(&mut queue, 1, 8.0), 100_000);
        assert_eq!(set(&mut queue, 0, 0.0), 100_000);
        assert_eq!(set(&mut queue, 1, 6.0), 100_000);
        assert_eq!(set(&mut queue, 2, 20.0), 250_000);
    }

    #[test]
    fn half_of_what_is_silent_counts_but_no_more_than_what_works() {
        for (silent, bytes) in [(0.0, 100_000), (6.0, 137_500), (16.0, 200_000), (90.0, 200_000)] {
            let mut queue = queue(28.0);
            queue.set_ways(at(0), &Ways::test(2, 28.0));
            let silent = Rate::from_mbps(silent);
            queue.set_ways(at(0), &Ways { silent, ..Ways::test(1, 8.0) });
            assert_eq!(queue.bound.bytes(), bytes, "{silent:?}");
        }
    }

    #[test]
    fn what_tcp_sends_again_stays_where_something_else_can_go() {
        let mut queue = queue(20.0);
        (0..50).for_each(|number| push(&mut queue, 5_000, 1, number));
        (0..50).for_each(|number| assert!(pop(&mut queue, 5_000, number).is_some()));
        (10..13).for_each(|sequence| push_at(&mut queue, 5_000, 1, 99, sequence));
        (0..400).for_each(|_| push(&mut queue, 5_000, 1, 1));
        assert!(queue.dropped() > 100);
        let next: Vec<_> = (60..64).filter_map(|number| pop(&mut queue, 5_000, number)).collect();
        assert_eq!(next.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [99, 99, 99, 1]);
        // Nothing but repeats: the oldest of them goes.
        (0..400).for_each(|_| push_at(&mut queue, 5_001, 2, 7, 5));
        assert!(queue.flows[&Flow::test(2)].bytes <= queue.bound.bytes());
    }

    #[test]
    fn while_a_path_runs_dry_nothing_is_dropped_for_its_sake() {
        let mut queue = queue(20.0);
        queue.set_ways(at(5_000), &Ways { runs_dry: true, ..Ways::test(1, 5.0) });
        (0..400).for_each(|_| push(&mut queue, 5_000, 1, 0));
        (0..9).for_each(|number| assert!(pop(&mut queue, 5_020 + 20 * number, number).is_some()));
        queue.set_ways(at(5_200), &Ways::test(1, 20.0));
        (9..20).for_each(|number| assert!(pop(&mut queue, 5_020 + 20 * number, number).is_some()));
        push(&mut queue, 5_399, 1, 0);
        assert_eq!(queue.dropped(), 0);
        push(&mut queue, 5_401, 1, 0);
        assert!(queue.dropped() > 100, "for as long after as it lasted, and no longer");
    }

    #[test]
    fn an_outage_drops_nothing_that_fits_and_spares_what_comes_after() {
        let mut queue = queue(5.0);
        queue.set_ways(at(5_000), &Ways::test(0, 0.0));
        (0..1_000).for_each(|number| push(&mut queue, 6_000, 1, number as u8));
        assert_eq!((queue.len(), queue.dropped()), (1_000, 0));
        (0..4_000).for_each(|_| push(&mut queue, 7_000, 1, 99));
        assert!(queue.bytes() <= limits::TUNNEL_QUEUE_BYTES);
        queue.set_ways(at(25_000), &Ways::test(1, 5.0));
        assert_eq!(pop(&mut queue, 25_000, 1), Some((0, None)), "the oldest is still there");
        let before = queue.len();
        push(&mut queue, 26_000, 1, 0);
        assert_eq!(queue.len(), before + 1);
    }

    #[test]
    fn a_stall_that_nobody_has_noticed_yet_drops_nothing() {
        let mut queue = queue(5.0);
        push(&mut queue, 5_000, 1, 0);
        (0..200).for_each(|number| push(&mut queue, 5_200, 1, number));
        assert_eq!(queue.dropped(), 0);
    }

    #[test]
    fn flows_are_bounded_and_quiet_ones_give_way() {
        let mut queue = queue(5.0);
        for flow in 0..2 * limits::TUNNEL_FLOWS as u64 {
            push(&mut queue, 5_000, flow, 0);
            pop(&mut queue, 5_000, flow);
        }
        assert_eq!(queue.flows(), limits::TUNNEL_FLOWS);
        assert_eq!(queue.dropped(), 0);
        (0..limits::TUNNEL_FLOWS as u64).for_each(|flow| push(&mut queue, 5_000, flow, 0));
        push(&mut queue, 5_000, 1 << 40, 0);
        assert_eq!(queue.dropped(), 1, "each of them has something waiting");
    }

    #[test]
    fn what_no_path_carries_any_more_is_dropped() {
        let mut queue = queue(5.0);
        push(&mut queue, 5_000, 1, 1);
        push(&mut queue, 5_000, 2, 2);
        let (flow, part, since) = (Flow::test(1), Part::Data, at(5_000));
        queue.push(Waiting { flow, part, sequence: 9, since, payload: vec![3; 500] }, 0);
        queue.drop_longer(600);
        assert_eq!((queue.len(), queue.dropped(), queue.waiting_flows()), (1, 2, 1));
        assert_eq!(pop(&mut queue, 5_001, 1), Some((3, None)));
    }
}
