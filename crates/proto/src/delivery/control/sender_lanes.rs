//! The sender's side of lanes: wire numbers for lane names, message numbers, and floors.
//!
//! A lane's number outlives its name: when a name has nothing in flight and all numbers are taken,
//! the longest unused number gets a new name and goes on counting, so the receiver need not know.
//!
//! Messages of an in-order lane share one time to live: they expire in the order of the lane, and
//! the receiver may take the end of one for the end of all before it [specs/delivery.md §4] (rule
//! 5).

use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant};

use super::message::Place;
use crate::limits;
use crate::select::{LaneKey, Order, Policy};

/// The name of a lane: the order that it keeps, the time to live of an in-order lane (zero in
/// others), and the domain of the order.
type Domain = (Order, Duration, LaneKey);

/// How finely the ends of carried messages are remembered: a floor may lag so far behind, and a
/// lane keeps so few entries.
const CARRIED_STEP: Duration = Duration::from_millis(20);

/// All lanes of one direction of a session.
#[derive(Debug, Default)]
pub(super) struct SenderLanes {
    by_domain: BTreeMap<Domain, u16>,
    lanes: Vec<SenderLane>,
    span: u64,
}

#[derive(Debug)]
struct SenderLane {
    domain: Domain,
    next: u64,
    /// Session-wide numbers of the messages in flight, by their number in the lane.
    alive: BTreeMap<u64, u64>,
    last_expiry: Instant,
    last_used: u64,
    /// Whether message delivery carries its messages too.
    is_carried: bool,
    /// The lowest number that message delivery may carry until a time, for the ends of steps.
    carried: VecDeque<(u64, Instant)>,
}

/// What a message leaves behind in its lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// A later message of the lane was handed in.
    pub(super) later: bool,
    /// The lowest number that is still alive.
    pub(super) floor: u64,
    /// When the last message of the lane so far expires.
    pub(super) last_expiry: Instant,
}

impl SenderLanes {
    /// Gives a message its place in its lane; none without an order, an error when every lane has
    /// messages in flight. `is_spare` says whether a lane's number may be given another name.
    pub(super) fn enter(
        &mut self,
        policy: &Policy,
        key: LaneKey,
        seq: u64,
        expires: Instant,
        is_spare: impl Fn(u16) -> bool,
    ) -> Result<Option<Place>, NoLane> {
        let Some(domain) = domain(policy, key) else { return Ok(None) };
        let lane = match self.by_domain.get(&domain) {
            Some(&lane) => lane,
            None => self.open(domain, is_spare)?,
        };
        let state = &mut self.lanes[usize::from(lane)];
        let number = state.next;
        state.next += 1;
        state.alive.insert(number, seq);
        state.last_expiry = state.last_expiry.max(expires);
        state.last_used = seq;
        if state.waits() {
            self.span += 1;
        }
        Ok(Some(Place { lane, number }))
    }

    /// Notes that message delivery carries a message too, until a time that grows along the lane.
    pub(super) fn carry(&mut self, now: Instant, place: Place, until: Instant) {
        let lane = &mut self.lanes[usize::from(place.lane)];
        if !lane.is_carried {
            self.span -= if lane.waits() { lane.next - lane.floor() } else { 0 };
            lane.is_carried = true;
        }
        while lane.carried.front().is_some_and(|(_, until)| *until <= now) {
            lane.carried.pop_front();
        }
        if lane.carried.back().is_none_or(|(_, last)| *last < until) {
            lane.carried.push_back((place.number, until + CARRIED_STEP));
        }
    }

    /// Takes a message out of its lane.
    pub(super) fn leave(&mut self, place: Place) -> Left {
        let lane = &mut self.lanes[usize::from(place.lane)];
        let before = lane.floor();
        lane.alive.remove(&place.number);
        let floor = lane.floor();
        if lane.waits() {
            self.span -= floor - before;
        }
        let later = lane.next > place.number + 1;
        Left { later, floor, last_expiry: lane.last_expiry }
    }

    /// Returns the lowest number of a lane that is still alive.
    pub(super) fn floor(&self, lane: u16) -> u64 {
        let lane = &self.lanes[usize::from(lane)];
        lane.carried.front().map_or(u64::MAX, |(number, _)| *number).min(lane.floor())
    }

    /// Lists the messages of a lane that are in flight, oldest first.
    pub(super) fn alive(&self, lane: u16) -> impl DoubleEndedIterator<Item = u64> {
        self.lanes[usize::from(lane)].alive.values().copied()
    }

    /// Returns how many messages the receiver may have to hold at most: those from each lane's
    /// floor on, in the lanes whose messages wait for each other. Where message delivery carries
    /// them too a gap closes so soon that few wait.
    pub(super) fn span(&self) -> u64 {
        self.span
    }

    fn open(&mut self, domain: Domain, is_spare: impl Fn(u16) -> bool) -> Result<u16, NoLane> {
        if self.lanes.len() < limits::LANES {
            let lane = self.lanes.len() as u16;
            self.lanes.push(SenderLane::new(domain));
            self.by_domain.insert(domain, lane);
            return Ok(lane);
        }
        let idle =
            |(index, lane): &(usize, &SenderLane)| lane.alive.is_empty() && is_spare(*index as u16);
        let lanes = self.lanes.iter().enumerate();
        let (index, _) = lanes.filter(idle).min_by_key(|(_, lane)| lane.last_used).ok_or(NoLane)?;
        let next = self.lanes[index].next;
        self.by_domain.remove(&self.lanes[index].domain);
        self.lanes[index] = SenderLane { next, ..SenderLane::new(domain) };
        self.by_domain.insert(domain, index as u16);
        Ok(index as u16)
    }
}

/// Says that every lane has messages in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoLane;

impl SenderLane {
    fn new(domain: Domain) -> Self {
        Self {
            domain,
            next: 0,
            alive: BTreeMap::new(),
            last_expiry: Instant::ZERO,
            last_used: 0,
            is_carried: false,
            carried: VecDeque::new(),
        }
    }

    fn floor(&self) -> u64 {
        self.alive.first_key_value().map_or(self.next, |(&number, _)| number)
    }

    fn waits(&self) -> bool {
        matches!(self.domain.0, Order::InOrder | Order::Sequenced) && !self.is_carried
    }
}

fn domain(policy: &Policy, key: LaneKey) -> Option<Domain> {
    let source = LaneKey { stream: None, ..key };
    match policy.order {
        Order::None => None,
        Order::Latest => Some((Order::Latest, Duration::ZERO, key)),
        Order::Sequenced => Some((Order::Sequenced, Duration::ZERO, source)),
        Order::InOrder => Some((Order::InOrder, policy.ttl, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::StreamKey;

    fn key(channel: u8, flow: u32) -> LaneKey {
        LaneKey { channel, flow, source: (1, 1), stream: None }
    }

    fn enter(lanes: &mut SenderLanes, order: Order, key: LaneKey, seq: u64) -> Option<Place> {
        let policy = Policy { order, ..Policy::TRANSACTIONAL };
        lanes.enter(&policy, key, seq, Instant::ZERO, |_| true).expect("a lane")
    }

    #[test]
    fn floor_follows_the_oldest_alive_and_span_counts_from_it() {
        let mut lanes = SenderLanes::default();
        let places: Vec<_> = (0..3)
            .map(|seq| enter(&mut lanes, Order::InOrder, key(1, 0), seq).expect("ordered"))
            .collect();
        assert_eq!((lanes.floor(0), lanes.span()), (0, 3));
        assert!(lanes.leave(places[1]).later);
        assert_eq!((lanes.floor(0), lanes.span()), (0, 3));
        let left = lanes.leave(places[0]);
        assert_eq!((left.floor, lanes.span()), (2, 1));
        assert!(!lanes.leave(places[2]).later);
        assert_eq!((lanes.floor(0), lanes.span()), (3, 0));
    }

    #[test]
    fn streams_share_the_lane_of_their_source_unless_the_newest_wins() {
        let mut lanes = SenderLanes::default();
        let stream =
            |message| LaneKey { stream: Some(StreamKey { message, target: (1, 1) }), ..key(1, 0) };
        let lane = |place: Option<Place>| place.map(|place| place.lane);
        let a = lane(enter(&mut lanes, Order::InOrder, stream(69), 0));
        let b = lane(enter(&mut lanes, Order::InOrder, stream(70), 1));
        let c = lane(enter(&mut lanes, Order::Latest, stream(69), 2));
        let d = lane(enter(&mut lanes, Order::Latest, stream(70), 3));
        assert_eq!(a, b);
        assert!(c != d && c != a && d != a);
        assert_eq!(enter(&mut lanes, Order::None, stream(69), 4), None);
    }

    #[test]
    fn full_table_renames_the_longest_unused_lane_and_goes_on_counting() {
        let mut lanes = SenderLanes::default();
        for flow in 0..limits::LANES as u32 {
            let place = enter(&mut lanes, Order::Latest, key(0, flow), u64::from(flow));
            if flow != 0 {
                lanes.leave(place.expect("ordered"));
            }
        }
        let place = enter(&mut lanes, Order::Latest, key(9, 0), 9_999).expect("ordered");
        assert_eq!(place, Place { lane: 1, number: 1 });
        let refused = lanes.enter(&Policy::LIVE, key(9, 1), 0, Instant::ZERO, |_| false);
        assert_eq!(refused, Err(NoLane));
    }
}
