//! Plays a workload in virtual time through one scheme, and keeps its ledgers.

use netem::{Scenario, StepKind, World};
use proto::ElasticRedundancy;
use units::{Duration, Instant};

use super::ledger::{Ledger, StreamRun};
use super::workload::{PlannedPacket, Workload, packet_bytes};
use crate::scheme::Scheme;
use crate::testbed::end::End;
use crate::testbed::world::{Places, connect, wire_bytes, world_with};
use crate::testbed::{Direction, Recording, Stamp, Stream};

/// From the beginning of the run to that of the scenario and the workload: time for handshakes and
/// probes.
pub(crate) const LEAD_IN: Duration = Duration::from_secs(5);
/// How long deliveries are awaited after the last packet was handed in.
const DRAIN: Duration = Duration::from_secs(5);

/// Runs a workload over a scenario whose times count from the start of the workload.
///
/// # Errors
/// When the scheme needs a real kernel.
pub(crate) fn run_stream(
    scenario: &Scenario,
    scheme: Scheme,
    workload: &Workload,
    recording: &Recording,
    seed: u64,
) -> Result<StreamRun, String> {
    run_watched(scenario, (scheme, None), workload, recording, seed, |_| {})
}

/// The same with the constants of message delivery that are given, where there are any, of a world
/// that `prepare` has seen before it begins.
///
/// # Errors
/// As [`run_stream`].
pub(crate) fn run_watched(
    scenario: &Scenario,
    scheme: (Scheme, Option<ElasticRedundancy>),
    workload: &Workload,
    recording: &Recording,
    seed: u64,
    prepare: impl FnOnce(&mut World<End>),
) -> Result<StreamRun, String> {
    run_stepwise(scenario, scheme, workload, recording, seed, prepare, |_| {})
}

/// The same; while the workload plays, `watch` sees the world after each thing that happened in it.
///
/// # Errors
/// As [`run_stream`].
pub(crate) fn run_stepwise(
    scenario: &Scenario,
    (scheme, elastic): (Scheme, Option<ElasticRedundancy>),
    workload: &Workload,
    recording: &Recording,
    seed: u64,
    prepare: impl FnOnce(&mut World<End>),
    mut watch: impl FnMut(&World<End>),
) -> Result<StreamRun, String> {
    let mut world = world_with(scenario, scheme, elastic, seed)?;
    prepare(&mut world);
    let start = Instant::ZERO + LEAD_IN;
    world.begin(start);
    connect(&mut world, start);
    world.run_until(start);
    let places = Places::of(scenario)?;
    let before = wire_bytes(&world, scenario, places);

    let plans = Direction::BOTH.map(|direction| workload.plan(direction, recording));
    let ledgers = Direction::BOTH
        .map(|direction| Ledger::new(&plans[direction as usize], direction, recording));
    let mut player = Player { places, plans, ledgers, next: [0; 2], start };
    player.schedule(&mut world, Direction::Up);
    player.schedule(&mut world, Direction::Down);
    let end = start + Duration::from_secs_f64(workload.seconds);
    player.run(&mut world, recording, end, &mut watch);
    let after = wire_bytes(&world, scenario, places);
    player.run(&mut world, recording, end + DRAIN, &mut watch);
    let wire = core::array::from_fn(|direction| after[direction].since(before[direction]));
    let (stalls, status, connected) = (None, None, None);
    Ok(StreamRun { ledgers: player.ledgers, wire, by_link: Vec::new(), stalls, status, connected })
}

/// Hands planned packets in at their times and writes deliveries down.
struct Player {
    places: Places,
    plans: [Vec<PlannedPacket>; 2],
    ledgers: [Ledger; 2],
    /// The next packet of each plan.
    next: [usize; 2],
    start: Instant,
}

impl Player {
    /// Asks the world to stop when the next packet of a direction is due.
    fn schedule(&self, world: &mut World<End>, direction: Direction) {
        if let Some(packet) = self.plans[direction as usize].get(self.next[direction as usize]) {
            world.schedule(self.start + packet.at, direction as u64);
        }
    }

    /// Runs the world until `limit`, which `watch` sees after each step.
    fn run(
        &mut self,
        world: &mut World<End>,
        recording: &Recording,
        limit: Instant,
        watch: &mut impl FnMut(&World<End>),
    ) {
        while let Some(step) = world.step_until(limit) {
            match step.kind {
                StepKind::Mark(mark) => {
                    let direction = Direction::BOTH[mark as usize];
                    self.send_due(world, recording, direction);
                    self.schedule(world, direction);
                    self.take_deliveries(world, self.places.sender(direction));
                }
                StepKind::Datagram { host } | StepKind::Timeout { host } => {
                    self.take_deliveries(world, host);
                }
            }
            watch(world);
        }
    }

    /// Hands in every packet of a direction that is due.
    fn send_due(&mut self, world: &mut World<End>, recording: &Recording, direction: Direction) {
        let index = direction as usize;
        let host = self.places.sender(direction);
        let (now, host_now) = (world.now(), world.host_now(host));
        let at = now.since(self.start);
        while let Some(packet) = self.plans[index].get(self.next[index]) {
            if self.start + packet.at > now {
                break;
            }
            let bytes = packet_bytes(packet, direction, recording, at);
            let ledger = &mut self.ledgers[index];
            match world.host_mut(host).send(host_now, packet.stream, &bytes) {
                true => ledger.on_sent(packet, at),
                false => ledger.on_refused(packet, at),
            }
            self.next[index] += 1;
        }
    }

    /// Writes down what the applications of a host received.
    fn take_deliveries(&mut self, world: &mut World<End>, host: usize) {
        let at = world.now().since(self.start);
        let direction = self.places.received_by(host);
        if !world.host(host).has_delivered() {
            return;
        }
        let host_now = world.host_now(host);
        while let Some(bytes) = world.take_from(host).poll_delivered() {
            if let Some(answer) = Stamp::answer(&bytes) {
                // Refused, it is lost.
                world.host_mut(host).send(host_now, Stream::Ping, &answer);
                continue;
            }
            self.ledgers[Stamp::measured(&bytes, direction) as usize].on_delivered(&bytes, at);
        }
    }
}
