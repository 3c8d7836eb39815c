//! The receiver's half of control delivery: the first copy wins, order is restored, stale is
//! dropped.
//!
//! Nothing here answers the peer: acknowledgements are of packets (`recovery/`). The session
//! fetches what is ready after every call; a frame makes at most [`limits::HELD_MESSAGES`] + 1
//! ready.
//!
//! ```text
//! number seen before, or older than the window  → duplicate    [ConClone §3.3.2]
//! age estimate + error > time to live           → late
//! lane: number < next                           → late         (a newer one was passed on)
//!       number = next, or the newest wins       → ready, and what waited for it
//!       number > next                           → held until the gap closes, the sender's floor
//!                                                 passes it, or its wait ends
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use units::{Duration, Instant};

use super::dropped::Dropped;
use super::receiver_lane::{Held, ReceiverLane};
use super::{CARRIED_LIFE, ControlDelivery, LATE, LaneFloor};
use crate::delivery::RELEASE_AHEAD;
use crate::limits;
use crate::path::PATIENCE_WITHOUT_PATH;
use crate::recovery::Age;
use crate::select::{Class, Order, Tier};
use crate::window::SeenWindow;
use crate::wire::{ControlFrame, DroppedFrame};

/// Says what became of a copy, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    /// It can be fetched now.
    Ready,
    /// It waits for an earlier one.
    Held,
    /// It came before, or it is older than the window.
    Duplicate,
    /// It is beyond its time to live, or came after a newer one.
    Late,
    /// Its lane is out of bounds.
    Refused,
}

/// Counts the copies of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InboxCounters {
    /// Removed because they came before.
    pub(crate) duplicates: u64,
    /// Dropped because they were stale or came after a newer one.
    pub(crate) late: u64,
    /// Had to wait for an earlier one.
    pub(crate) held: u64,
}

/// Removes duplicates and restores order.
#[derive(Debug)]
pub(crate) struct Inbox {
    seen: SeenWindow,
    lanes: BTreeMap<u16, ReceiverLane>,
    /// When held messages stop waiting: time, lane, number in the lane.
    releases: BTreeSet<(Instant, u16, u64)>,
    ready: VecDeque<ControlDelivery>,
    /// Bytes that are held, and how many more the session may hold.
    bytes: usize,
    room: usize,
    dropped: Dropped,
    wait: Duration,
    counters: [InboxCounters; Class::ALL.len()],
}

impl Inbox {
    /// Starts with nothing seen.
    pub(crate) fn new() -> Self {
        Self {
            seen: SeenWindow::new(limits::CONTROL_WINDOW),
            lanes: BTreeMap::new(),
            releases: BTreeSet::new(),
            ready: VecDeque::new(),
            bytes: 0,
            room: usize::MAX,
            dropped: Dropped::default(),
            wait: PATIENCE_WITHOUT_PATH,
            counters: Default::default(),
        }
    }

    /// Sets how long a message of a sequenced lane waits for an earlier one: one probe timeout.
    pub(crate) fn set_wait(&mut self, wait: Duration) {
        self.wait = wait;
    }

    /// Takes a copy in; `age` is its message's age now.
    pub(crate) fn handle_control(
        &mut self,
        now: Instant,
        frame: &ControlFrame<'_>,
        age: Age,
    ) -> Reception {
        self.handle_timeout(now);
        let ordered = frame.order != Order::None;
        let number = self.seen.extend(frame.seq);
        if number > limits::LAST_CONTROL_NUMBER {
            return Reception::Refused;
        }
        let reception = if ordered && usize::from(frame.lane) >= limits::LANES {
            Reception::Refused
        } else if !self.seen.insert(number) {
            Reception::Duplicate
        } else if ordered {
            let lane = self.lanes.entry(frame.lane).or_default();
            lane.is_plain |= frame.class.tier() != Tier::Control;
            self.handle_ordered(now, frame, age, None)
        } else if is_stale(age, ttl(frame)) {
            Reception::Late
        } else {
            self.pass_on((frame.channel, frame.class), age, ttl(frame), frame.payload.to_vec());
            Reception::Ready
        };
        if matches!(reception, Reception::Late | Reception::Refused) {
            self.dropped.note(number);
        }
        self.count(frame.class, reception)
    }

    /// Takes in a message of a lane that message delivery has carried: the only one, or of control
    /// one more copy. What has no copies waits as long as message delivery may bring an earlier one
    /// [specs/delivery.md §4] (rule 6).
    pub(crate) fn handle_carried(
        &mut self,
        now: Instant,
        frame: &ControlFrame<'_>,
        age: Age,
    ) -> Reception {
        if usize::from(frame.lane) >= limits::LANES {
            return Reception::Refused;
        }
        if frame.class.tier() == Tier::Control {
            return self.handle_control(now, frame, age);
        }
        self.handle_timeout(now);
        let wait = Some(left(CARRIED_LIFE, age));
        let reception = self.handle_ordered(now, frame, age, wait);
        self.count(frame.class, reception)
    }

    /// Hears that messages of a lane below a number will not come any more.
    pub(crate) fn handle_floor(&mut self, now: Instant, floor: LaneFloor) {
        if usize::from(floor.lane) < limits::LANES {
            let lane = self.lanes.entry(floor.lane).or_default();
            let number = lane.extend(floor.floor);
            self.raise(now, floor.lane, number);
        }
    }

    /// Returns the list of what was not passed on, in at most `room` bytes, and what to tell
    /// [`Inbox::on_dropped_told`] when the sender has it; none where there is nothing to tell.
    pub(crate) fn dropped(&self, room: usize) -> Option<(DroppedFrame, u64)> {
        self.dropped.frame(room)
    }

    /// Notes that the sender has the list as it was after so many changes.
    pub(crate) fn on_dropped_told(&mut self, changes: u64) {
        self.dropped.on_told(changes);
    }

    /// Returns the next message for the application.
    pub(crate) fn poll_delivery(&mut self) -> Option<ControlDelivery> {
        self.ready.pop_front()
    }

    /// Returns when [`Inbox::handle_timeout`] wants to be called.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.releases.first().map(|(at, _, _)| *at)
    }

    /// Passes on what has waited long enough.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, lane, number)) = self.releases.first() {
            if at > now {
                break;
            }
            self.releases.pop_first();
            self.raise(now, lane, number);
        }
    }

    /// Passes on what waits: the session is over, and nothing will come that it waits for.
    pub(crate) fn end(&mut self, now: Instant) {
        while let Some(&(_, lane, number)) = self.releases.first() {
            self.releases.pop_first();
            self.raise(now, lane, number);
        }
    }

    /// Returns counters by [`Class::index`].
    pub(crate) fn counters(&self) -> &[InboxCounters; Class::ALL.len()] {
        &self.counters
    }

    /// Returns the bytes that are held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Notes how many bytes more the session may hold.
    pub(crate) fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// Returns how many messages wait for earlier ones.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.releases.len()
    }

    /// Returns how many lanes the peer has used.
    #[cfg(test)]
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn count(&mut self, class: Class, reception: Reception) -> Reception {
        let counters = &mut self.counters[class.index()];
        match reception {
            Reception::Ready | Reception::Refused => {}
            Reception::Held => counters.held += 1,
            Reception::Duplicate => counters.duplicates += 1,
            Reception::Late => counters.late += 1,
        }
        reception
    }

    /// Takes in a message of an ordered lane; `wait` is how long it waits for an earlier one if
    /// message delivery has carried it.
    fn handle_ordered(
        &mut self,
        now: Instant,
        frame: &ControlFrame<'_>,
        age: Age,
        wait: Option<Duration>,
    ) -> Reception {
        self.make_room(now, frame.payload.len());
        let lane = self.lanes.entry(frame.lane).or_default();
        let number = lane.extend(frame.lane_seq);
        let floor = lane.extend(frame.floor).min(number);
        self.raise(now, frame.lane, floor);
        if !self.lanes.entry(frame.lane).or_default().accepts(number) {
            return Reception::Late;
        }
        let stale = is_stale(age, ttl(frame));
        match frame.order {
            Order::Latest if stale => Reception::Late,
            // Everything before it in the lane has the same time to live: it is stale as well.
            Order::InOrder if stale => {
                self.raise(now, frame.lane, number + 1);
                Reception::Late
            }
            Order::Latest => {
                self.raise(now, frame.lane, number);
                self.enter(now, frame, number, age, wait)
            }
            Order::None | Order::InOrder | Order::Sequenced => {
                self.enter(now, frame, number, age, wait)
            }
        }
    }

    /// Returns how long a copy waits for earlier messages of its sequenced lane. Where message
    /// delivery may bring those, it is given time for more than one attempt, until a command is
    /// late, and all the time there is before what nobody acts upon. A probe timeout may be longer:
    /// where a queue makes it so, what is behind it is given up. A copy may come before the first
    /// message of its lane that is so brought.
    fn patience(&self, frame: &ControlFrame<'_>) -> Duration {
        let is_plain = self.lanes.get(&frame.lane).is_some_and(|lane| lane.is_plain);
        match (is_plain, frame.class) {
            (true, _) => self.wait,
            (false, Class::Liveness) => ttl(frame),
            (false, _) => self.wait.max(LATE),
        }
    }

    /// Puts a message into its lane and passes on what is due there.
    fn enter(
        &mut self,
        now: Instant,
        frame: &ControlFrame<'_>,
        number: u64,
        age: Age,
        wait: Option<Duration>,
    ) -> Reception {
        let stale = is_stale(age, ttl(frame));
        let wait = match (wait, frame.order) {
            (Some(wait), _) => wait,
            (None, _) if stale => self.wait,
            (None, Order::Sequenced) => left(ttl(frame), age).min(self.patience(frame)),
            (None, _) => left(ttl(frame), age),
        };
        let held = Held {
            channel: frame.channel,
            class: frame.class,
            ttl: ttl(frame),
            age,
            arrived: now,
            release: now + wait,
            payload: (!stale).then(|| frame.payload.to_vec()),
        };
        self.releases.insert((held.release, frame.lane, number));
        self.bytes += cost(&held);
        let lane = self.lanes.entry(frame.lane).or_default();
        lane.hold(number, held);
        let is_due = number <= lane.next();
        self.pass_on_due(now, frame.lane);
        match (stale, is_due) {
            (true, _) => Reception::Late,
            (false, true) => Reception::Ready,
            (false, false) => Reception::Held,
        }
    }

    /// When no more can be held, ends the wait that would be over first. The sender sees to it that
    /// this does not happen [specs/delivery.md §3] (rule 11).
    fn make_room(&mut self, now: Instant, bytes: usize) {
        if (self.releases.len() >= limits::HELD_MESSAGES || bytes + limits::BESIDE > self.room)
            && let Some((_, lane, number)) = self.releases.pop_first()
        {
            self.raise(now, lane, number);
        }
    }

    /// Stops waiting in a lane for numbers below `next`.
    fn raise(&mut self, now: Instant, lane: u16, next: u64) {
        if let Some(state) = self.lanes.get_mut(&lane) {
            // What is held below passes on first, in order.
            state.raise(next);
            self.pass_on_due(now, lane);
        }
    }

    fn pass_on_due(&mut self, now: Instant, lane: u16) {
        while let Some((number, held)) = self.lanes.get_mut(&lane).and_then(ReceiverLane::take_due)
        {
            self.releases.remove(&(held.release, lane, number));
            self.bytes -= cost(&held);
            let Some(payload) = held.payload else { continue };
            let estimate = held.age.estimate + now.since(held.arrived);
            let age = Age { estimate, ..held.age };
            if is_stale(age, held.ttl) {
                self.counters[held.class.index()].late += 1;
            } else {
                self.pass_on((held.channel, held.class), age, held.ttl, payload);
            }
        }
    }

    fn pass_on(
        &mut self,
        (channel, class): (u8, Class),
        age: Age,
        ttl: Duration,
        payload: Vec<u8>,
    ) {
        let life = ttl.saturating_sub(age.estimate.saturating_add(age.error));
        let age = age.estimate;
        self.ready.push_back(ControlDelivery { channel, class, age, life, payload });
    }
}

/// Returns the bytes that a message takes while it is held.
fn cost(held: &Held) -> usize {
    held.payload.as_ref().map_or(0, Vec::len) + limits::BESIDE
}

fn ttl(frame: &ControlFrame<'_>) -> Duration {
    Duration::from_millis(u64::from(frame.ttl_ms))
}

/// Returns how long a message may be held that is of use for `life`.
fn left(life: Duration, age: Age) -> Duration {
    life.saturating_sub(age.estimate.saturating_add(age.error)).saturating_sub(RELEASE_AHEAD)
}

/// Nothing is delivered beyond its time to live, so the benefit of the doubt goes to dropping.
fn is_stale(age: Age, ttl: Duration) -> bool {
    age.estimate.saturating_add(age.error) > ttl
}
