//! Sends messages of a constant rate each way over links of the world, and keeps what became of
//! them.
//!
//! A plan in memory, as other experiments have it, would hold each of a million messages; here the
//! next one follows from its number.

use std::sync::Arc;

use netem::{LinkEnd, Scenario, StepKind, World};
use proto::{Cost, PathId, PathUse, ReliabilityStatus};
use units::{Duration, Instant};

use super::ledger::{Schedule, Way};
use super::links::Links;
use super::played::Played;
use super::{Class, HZ};
use crate::scheme::Scheme;
use crate::testbed::end::End;
use crate::testbed::world::{Places, calm, connect};
use crate::testbed::{Direction, Stamp, Stream};

/// How long both ends may take to find each other: the first message leaves when they have, so that
/// what they do not know yet is seen.
const CONNECT: Duration = Duration::from_secs(30);
/// How long deliveries are awaited after the last message.
const DRAIN: Duration = Duration::from_secs(3);
/// Bytes of a message, and of a command beside it.
const CONTROL_BYTES: usize = 100;
const LIVE_BYTES: usize = 50;
/// How much later the drone sends than the station, of an interval: neither rides on the other's
/// instants.
const PHASE: f64 = 0.37;
/// The flow that commands beside set-points have.
const COMMANDS: u8 = 1;
/// What happens every quarter of a second beside the messages.
const QUARTER: u64 = 4;
/// How many make a second.
pub(super) const QUARTERS: usize = 4;

/// What one run is to be.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) links: &'a Links,
    pub(super) scheme: Scheme,
    /// What the scheme is asked for, where it knows a target.
    pub(super) target: Option<f64>,
    pub(super) class: Class,
    /// Recorded messages in place of even ones.
    pub(super) played: Option<Arc<Played>>,
    pub(super) deadlines_s: Vec<f64>,
    pub(super) seconds: f64,
    pub(super) seed: u64,
}

/// The paths on which copies leave at once.
pub(super) type Flight = [Option<PathId>; 4];

/// What came of a run.
#[derive(Debug)]
pub(super) struct Run {
    /// In the order of [`Direction::BOTH`].
    pub(super) ways: [Way; 2],
    /// Bytes that entered each link so far, both directions, at the beginning of each quarter of a
    /// second and at the end.
    pub(super) bytes: Vec<Vec<u64>>,
    /// Copies and messages of the class so far, both ends, at the beginning of each second and at
    /// the end.
    pub(super) copies: Vec<(u64, u64)>,
    /// What the sender of each direction says of its target, at the same times.
    pub(super) said: Vec<[Option<ReliabilityStatus>; 2]>,
    /// Where the copies of its next message are to leave at once, each quarter of a second; where
    /// links have no steps, nobody asks.
    pub(super) flights: Vec<[Option<Flight>; 2]>,
}

impl Run {
    /// Returns the bytes that entered each link until a second.
    pub(super) fn bytes_at(&self, second: usize) -> &[u64] {
        &self.bytes[second * QUARTERS]
    }

    /// Counts the whole seconds.
    pub(super) fn seconds(&self) -> usize {
        (self.bytes.len() - 1) / QUARTERS
    }
}

/// Runs a plan.
///
/// # Errors
/// When the scheme needs a real kernel.
pub(super) fn run(plan: &Plan<'_>) -> Result<Run, String> {
    let scenario = &plan.links.scenario;
    let ends = End::pair(plan.scheme, scenario, plan.seed)?;
    let mut world = World::new(scenario, ends, &calm(plan.seed));
    let places = Places::of(scenario)?;
    let now = world.host_now(places.drone);
    for (link, cost) in (0..).zip(&plan.links.costs) {
        let cost = Cost::new(*cost).ok_or("a byte has a price")?;
        let usage = PathUse { cost, ..PathUse::default() };
        world.host_mut(places.drone).use_path(now, link, usage);
    }
    connect(&mut world, Instant::ZERO + CONNECT);
    let start = world.now();
    world.begin(start);
    let way = |direction| {
        let schedule = match &plan.played {
            Some(played) => played.schedule(direction),
            None => Schedule::Even(HZ),
        };
        Way::new(schedule, plan.seconds, &plan.deadlines_s)
    };
    let mut player = Player {
        plan,
        places,
        start,
        next: [0; 2],
        commands: [0; 2],
        run: Run {
            ways: Direction::BOTH.map(way),
            bytes: Vec::new(),
            copies: Vec::new(),
            said: Vec::new(),
            flights: Vec::new(),
        },
    };
    player.play(&mut world);
    Ok(player.run)
}

struct Player<'a> {
    plan: &'a Plan<'a>,
    places: Places,
    start: Instant,
    /// The next message of each direction, and the next command.
    next: [u32; 2],
    commands: [u32; 2],
    run: Run,
}

impl Player<'_> {
    fn play(&mut self, world: &mut World<End>) {
        for direction in Direction::BOTH {
            self.schedule(world, direction);
            if self.plan.links.command_hz > 0.0 {
                self.schedule_command(world, direction);
            }
        }
        world.schedule(self.start, QUARTER);
        let end = self.start + Duration::from_secs_f64(self.plan.seconds);
        self.until(world, end);
        self.count(world);
        for way in &mut self.run.ways {
            way.age_until(self.plan.seconds, &self.plan.links.dead_s);
        }
        self.until(world, end + DRAIN);
    }

    fn until(&mut self, world: &mut World<End>, limit: Instant) {
        while let Some(step) = world.step_until(limit) {
            match step.kind {
                StepKind::Mark(QUARTER) => {
                    self.count(world);
                    let next = world.now() + Duration::from_millis(1_000 / QUARTERS as u64);
                    if next.since(self.start).as_secs_f64() < self.plan.seconds {
                        world.schedule(next, QUARTER);
                    }
                }
                StepKind::Mark(mark) => {
                    let direction = Direction::BOTH[mark as usize % 2];
                    if mark < 2 {
                        self.send(world, direction)
                    } else {
                        self.command(world, direction)
                    }
                    self.take(world, self.places.sender(direction));
                }
                StepKind::Datagram { host } | StepKind::Timeout { host } => self.take(world, host),
            }
        }
    }

    /// Asks the world to stop when the next message of a direction is due.
    fn schedule(&self, world: &mut World<End>, direction: Direction) {
        let (number, way) = (self.next[direction as usize], &self.run.ways[direction as usize]);
        if number < way.planned() {
            let at_s = way.handed_in_s(number) + self.phase_s(direction);
            world.schedule(self.start + Duration::from_secs_f64(at_s), direction as u64);
        }
    }

    fn schedule_command(&self, world: &mut World<End>, direction: Direction) {
        // Between two set-points.
        let at_s = f64::from(self.commands[direction as usize]) / self.plan.links.command_hz
            + self.phase_s(direction)
            + 0.5 / HZ;
        if at_s < self.plan.seconds {
            world.schedule(self.start + Duration::from_secs_f64(at_s), 2 + direction as u64);
        }
    }

    fn phase_s(&self, direction: Direction) -> f64 {
        if direction == Direction::Up { 0.0 } else { PHASE / HZ }
    }

    fn send(&mut self, world: &mut World<End>, direction: Direction) {
        let number = self.next[direction as usize];
        let stamped = |stream, bytes| {
            let stamp = Stamp { flow: 0, stream, sequence: number, sent: Duration::ZERO };
            (stream, stamp.packet(bytes))
        };
        let (stream, packet) = match (&self.plan.played, self.plan.class) {
            (Some(played), _) => (Stream::Mavlink, played.message(direction, number)),
            (None, Class::Control) => stamped(Stream::Control, CONTROL_BYTES),
            (None, Class::Live) => stamped(Stream::Live, LIVE_BYTES),
        };
        self.hand_in(world, direction, stream, &packet);
        self.run.ways[direction as usize].on_sent(number);
        self.next[direction as usize] += 1;
        self.schedule(world, direction);
    }

    fn command(&mut self, world: &mut World<End>, direction: Direction) {
        let sequence = self.commands[direction as usize];
        let sent = world.now().since(self.start);
        let stamp = Stamp { flow: COMMANDS, stream: Stream::Control, sequence, sent };
        self.hand_in(world, direction, stamp.stream, &stamp.packet(CONTROL_BYTES));
        self.run.ways[direction as usize].on_command(None);
        self.commands[direction as usize] += 1;
        self.schedule_command(world, direction);
    }

    /// Hands a packet in. One that is refused does not come.
    fn hand_in(&self, world: &mut World<End>, direction: Direction, stream: Stream, packet: &[u8]) {
        let host = self.places.sender(direction);
        let host_now = world.host_now(host);
        world.host_mut(host).send(host_now, stream, packet);
    }

    /// Writes down what the applications of a host received.
    fn take(&mut self, world: &mut World<End>, host: usize) {
        if !world.host(host).has_delivered() {
            return;
        }
        let now = world.now().since(self.start);
        let direction = self.places.received_by(host);
        let at_s = now.as_secs_f64() - self.phase_s(direction);
        while let Some(bytes) = world.take_from(host).poll_delivered() {
            let next = self.next[direction as usize];
            let way = &mut self.run.ways[direction as usize];
            match (Stamp::read(&bytes), &self.plan.played) {
                (Some(stamp), _) if stamp.flow == COMMANDS => {
                    way.on_command(Some(now.saturating_sub(stamp.sent).as_secs_f64()));
                }
                (Some(stamp), _) => {
                    way.on_delivered(stamp.sequence, at_s, &self.plan.links.dead_s);
                }
                (None, Some(played)) => {
                    if let Some(number) = played.number(direction, &bytes, next) {
                        way.on_delivered(number, at_s, &self.plan.links.dead_s);
                    }
                }
                (None, None) => {}
            }
        }
    }

    /// Counts bytes so far and, at whole seconds, copies, and asks what the senders say and plan.
    fn count(&mut self, world: &World<End>) {
        let quarter = self.run.bytes.len();
        self.run.bytes.push(bytes(world, &self.plan.links.scenario));
        let (is_second, has_steps) =
            (quarter.is_multiple_of(QUARTERS), !self.plan.links.steps_s.is_empty());
        if !is_second && !has_steps {
            return;
        }
        let class = self.plan.class.class();
        let (mut copies, mut said) = ((0, 0), [None; 2]);
        for direction in Direction::BOTH {
            let host = self.places.sender(direction);
            let Some(status) = world.host(host).status(world.host_now(host)) else { continue };
            if let Some(row) = status.classes.iter().find(|row| row.class == class) {
                copies = (copies.0 + row.copies_sent, copies.1 + row.submitted);
            }
            said[direction as usize] =
                status.reliability.into_iter().find(|row| row.class == class);
        }
        if has_steps {
            self.run.flights.push(said.map(|row: Option<ReliabilityStatus>| Some(row?.flight)));
        }
        if is_second {
            self.run.copies.push(copies);
            self.run.said.push(said);
        }
    }
}

/// Returns the bytes that entered each link so far, both directions.
fn bytes(world: &World<End>, scenario: &Scenario) -> Vec<u64> {
    let of = |link| {
        let entered = netem::Direction::BOTH.map(|direction| {
            let stats = world.net().stats(LinkEnd { link, direction });
            stats.bytes_in - stats.queue_dropped_bytes
        });
        entered.iter().sum()
    };
    (0..scenario.links.len()).map(of).collect()
}
