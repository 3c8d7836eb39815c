//! Control messages one at a time: the next one 0.5 s after the last one was delivered.
//!
//! Delivery is what the receiving application sees; the sending application learns of it from the
//! harness at that instant, so that only one direction is measured [ConClone §5.1].

use ::world::tcp::RTO_MIN;
use netem::{Scenario, StepKind, World};
use units::{Duration, Instant};

use super::plan::{IntervalPlan, IntervalRun};
use crate::scheme::Scheme;
use crate::testbed::end::End;
use crate::testbed::ideal_arq::IdealArq;
use crate::testbed::world::{Places, calm, connect, world};
use crate::testbed::{Stamp, Stream};

/// How long the two ends may take to connect.
const CONNECT: Duration = Duration::from_secs(60);
/// How long the ends idle before the first message, so that paths are known.
const SETTLE: Duration = Duration::from_secs(2);
/// How long duplicates are awaited after the last message.
const DRAIN: Duration = Duration::from_secs(5);
/// The mark that says "send the next message".
const SEND: u64 = u64::MAX;
/// The mark that says "send a packet of bulk".
const BULK: u64 = u64::MAX - 1;
/// Bytes of a packet of the bulk beside control.
const BULK_BYTES: usize = 1_200;

/// Runs the plan from station to drone.
///
/// # Errors
/// When the scheme needs a real kernel.
pub(crate) fn run_interval(
    scenario: &Scenario,
    scheme: Scheme,
    plan: &IntervalPlan,
    seed: u64,
) -> Result<IntervalRun, String> {
    if scheme == Scheme::IDEAL_ARQ {
        return Ok(run_ideal(scenario, plan, seed));
    }
    let rto_min = plan.rto_min.unwrap_or(RTO_MIN);
    let copies = |scenario: &Scenario| -> Result<_, String> {
        Ok(World::new(scenario, End::copies_pair(scenario, rto_min)?, &calm(seed)))
    };
    let mut world = match scheme {
        Scheme::CONCLONE_TCP => copies(scenario)?,
        // A copy on one link is no copy.
        Scheme::CUBIC => {
            let mut first = scenario.clone();
            first.links.truncate(1);
            copies(&first)?
        }
        _ => world(scenario, scheme, seed)?,
    };
    connect(&mut world, Instant::ZERO + CONNECT);
    let start = world.now() + SETTLE;
    world.begin(start);
    world.run_until(start);
    let mut turns = Turns::new(plan.clone(), Places::of(scenario)?, start);
    world.schedule(start + plan.interval, SEND);
    if plan.bulk_mbps > 0.0 {
        world.schedule(start, BULK);
    }
    while !turns.finished() {
        let Some(step) = world.step() else { break };
        turns.on_step(&mut world, step.kind);
    }
    let end = world.now() + DRAIN;
    while let Some(step) = world.step_until(end) {
        turns.on_step(&mut world, step.kind);
    }
    Ok(turns.run)
}

/// Runs the plan with every loss known after one round trip.
fn run_ideal(scenario: &Scenario, plan: &IntervalPlan, seed: u64) -> IntervalRun {
    let mut arq = IdealArq::new(scenario, seed);
    let mut run = IntervalRun::default();
    let mut last = Instant::ZERO;
    for number in 0..plan.messages {
        let first_try = last + plan.interval;
        let mut at = first_try;
        let delivered = loop {
            if let Some(delivered) =
                arq.send(at, plan.contents.message(number, Duration::ZERO).len())
            {
                break Some(delivered);
            }
            at = arq.knows_at(at);
            if at.since(first_try) >= plan.give_up {
                break None;
            }
        };
        match delivered {
            Some(at) => {
                run.intervals.push(at.since(last).as_secs_f64());
                last = at;
            }
            None => {
                run.lost += 1;
                last = at;
            }
        }
    }
    run.completion_s = last.as_secs_f64();
    run
}

/// Keeps whose turn it is.
struct Turns {
    plan: IntervalPlan,
    places: Places,
    run: IntervalRun,
    start: Instant,
    /// When the last message was delivered.
    last: Instant,
    /// Messages sent so far; the last one's number is one less.
    sent: u32,
    /// Whether the last message sent was delivered or given up.
    settled: bool,
    delivered: Vec<bool>,
}

impl Turns {
    fn new(plan: IntervalPlan, places: Places, start: Instant) -> Self {
        let delivered = vec![false; plan.messages as usize];
        let run = IntervalRun::default();
        Self { plan, places, run, start, last: start, sent: 0, settled: true, delivered }
    }

    fn finished(&self) -> bool {
        self.sent == self.plan.messages && self.settled
    }

    fn on_step(&mut self, world: &mut World<End>, kind: StepKind) {
        match kind {
            StepKind::Mark(SEND) => self.send(world),
            StepKind::Mark(BULK) => self.send_bulk(world),
            StepKind::Mark(number) => self.give_up(world, number as u32),
            StepKind::Datagram { host } | StepKind::Timeout { host }
                if host == self.places.drone =>
            {
                self.take_deliveries(world);
            }
            StepKind::Datagram { .. } | StepKind::Timeout { .. } => {}
        }
    }

    /// Hands the next message in.
    fn send(&mut self, world: &mut World<End>) {
        let number = self.sent;
        let sent = world.now().since(self.start);
        let message = self.plan.contents.message(number, sent);
        let host_now = world.host_now(self.places.station);
        // A refused message stays undelivered, and is given up as any other.
        world.host_mut(self.places.station).send(host_now, self.plan.contents.stream(), &message);
        self.sent += 1;
        self.settled = false;
        world.schedule(world.now() + self.plan.give_up, u64::from(number));
    }

    /// Hands a packet of bulk in and plans the next.
    fn send_bulk(&mut self, world: &mut World<End>) {
        if self.finished() {
            return;
        }
        let stamp = Stamp { flow: 0, stream: Stream::Video, sequence: 0, sent: Duration::ZERO };
        let host_now = world.host_now(self.places.station);
        world.host_mut(self.places.station).send(
            host_now,
            Stream::Video,
            &stamp.packet(BULK_BYTES),
        );
        let gap = BULK_BYTES as f64 * 8.0 / (self.plan.bulk_mbps * 1e6);
        world.schedule(world.now() + Duration::from_secs_f64(gap), BULK);
    }

    /// Counts a message as lost when it was not delivered in time.
    fn give_up(&mut self, world: &mut World<End>, number: u32) {
        if !self.settled && number + 1 == self.sent {
            self.settle(world);
        }
    }

    fn take_deliveries(&mut self, world: &mut World<End>) {
        if !world.host(self.places.drone).has_delivered() {
            return;
        }
        let now = world.now();
        while let Some(bytes) = world.take_from(self.places.drone).poll_delivered() {
            let turn = self.sent.saturating_sub(1);
            let Some(number) = self.plan.contents.number(&bytes, turn) else { continue };
            match self.delivered.get_mut(number as usize) {
                Some(seen @ false) => *seen = true,
                _ => {
                    self.run.duplicates += 1;
                    continue;
                }
            }
            // A message that was given up and comes after all counts as lost: its turn is over.
            if number + 1 == self.sent && !self.settled {
                self.run.intervals.push(now.since(self.last).as_secs_f64());
                self.last = now;
                self.run.completion_s = now.since(self.start).as_secs_f64();
                self.settle(world);
            }
        }
    }

    /// Ends a message's turn.
    fn settle(&mut self, world: &mut World<End>) {
        self.settled = true;
        self.run.lost = u64::from(self.sent) - self.run.intervals.len() as u64;
        if self.sent < self.plan.messages {
            world.schedule(world.now() + self.plan.interval, SEND);
        }
    }
}
