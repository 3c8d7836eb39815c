//! The figures of one run: what became of control and set-points, and what was handed to the links meanwhile.
//!
//! `wire_share_fall` is, of the fullest direction of a link, what was handed to it during the fall over all that it
//! could ever carry of that: what it carries in the fall, and its queue. More than 1 has overflown. Of
//! `wire_to_rate_fall` the queue is no part, nor what was handed over in the first round trip, before anybody knew:
//! more than 1 makes the queue grow.

use netem::{LinkEnd, World};
use proto::select::Policy;
use serde_json::{Value, json};
use units::Instant;

use super::cell::Cell;
use super::links::{DELAYS_MS, Hop, Times};
use crate::experiment::streams::figures::{ControlFigures, LiveFigures, oldest_ms};
use crate::experiment::streams::ledger::{StreamLedger, StreamRun};
use crate::experiment::streams::sim::LEAD_IN;
use crate::report::{merged, rounded_option};
use crate::scheme::Scheme;
use crate::testbed::end::End;
use crate::testbed::{Direction, Stream};

/// The longest datagram, all headers included: that much more than a link carries is no fault.
const DATAGRAM_BYTES: f64 = 1_500.0;
/// Until an answer can tell of the fall over the slower link, seconds.
const ROUND_TRIP_S: f64 = 2.0 * DELAYS_MS[1] as f64 / 1e3;

/// Reads what was handed to each link at three instants: as the fall begins, a round trip later, and as it ends.
pub(super) struct Readings {
    /// The links that the scheme has, by their place in the cell.
    links: Vec<usize>,
    instants: [f64; 3],
    /// At each instant that has come, the bytes handed to each link so far, in each direction.
    read: Vec<Vec<[u64; 2]>>,
}

impl Readings {
    /// Makes readings to be taken.
    pub(super) fn new(cell: &Cell, times: Times, scheme: Scheme) -> Self {
        let links = match scheme {
            Scheme::UDP => vec![cell.links.better()],
            _ => (0..cell.links.count()).collect(),
        };
        let (start, end) = times.fall;
        Self { links, instants: [start, start + ROUND_TRIP_S, end], read: Vec::new() }
    }

    /// Reads what is due.
    pub(super) fn watch(&mut self, world: &World<End>) {
        let at = seconds_of(world);
        while self.instants.get(self.read.len()).is_some_and(|due| at >= *due) {
            let handed = |link| {
                netem::Direction::BOTH
                    .map(|direction| world.net().stats(LinkEnd { link, direction }).bytes_in)
            };
            self.read.push((0..self.links.len()).map(handed).collect());
        }
    }

    /// Returns the greatest share of `room(link)` bytes that was handed over from the reading `from` to the last.
    fn fullest(&self, from: usize, room: impl Fn(usize) -> f64) -> Option<f64> {
        let (first, last) = (self.read.get(from)?, self.read.get(2)?);
        let links = self.links.iter().zip(first.iter().zip(last));
        let shares = links.flat_map(|(link, (first, last))| {
            let room = room(*link);
            [0, 1].map(|way| (last[way] - first[way]) as f64 / room)
        });
        shares.reduce(f64::max)
    }
}

/// Returns the time since the workload began.
pub(super) fn seconds_of(world: &World<End>) -> f64 {
    world.now().since(Instant::ZERO + LEAD_IN).as_secs_f64()
}

/// Computes the figures of a run.
pub(super) fn figures(
    cell: &Cell,
    scheme: Scheme,
    times: Times,
    run: &StreamRun,
    readings: &Readings,
) -> Value {
    let of = |direction, stream| run.ledger(direction).stream(stream);
    let control = Direction::BOTH
        .map(|direction| ControlFigures::new(of(direction, Stream::Control), times.seconds, None));
    let in_time = control.map(|one| one.control_sent - one.control_lost - one.control_late_100ms);
    let stale = Direction::BOTH.map(|direction| {
        stale(of(direction, Stream::Control), Policy::DECLARED)
            + stale(of(direction, Stream::Live), Policy::LIVE)
    });
    let live = Direction::BOTH
        .map(|direction| LiveFigures::new(of(direction, Stream::Live), times.seconds));
    // What a fall has done is also seen after it.
    let since = (times.fall.0, times.seconds);
    let oldest = Direction::BOTH.map(|direction| oldest_ms(of(direction, Stream::Live), since));
    let hops = Hop::all(cell, times);
    let carries = |link: usize, span| hops[link].carries(span) + DATAGRAM_BYTES;
    let (start, end) = times.fall;
    let share = readings.fullest(0, |link| carries(link, (start, end)) + cell.queue_kb * 1e3);
    let to_rate = readings.fullest(1, |link| carries(link, (start + ROUND_TRIP_S, end)));
    let [up, down] = control;
    merged([
        cell.point(),
        json!({"scheme": scheme}),
        json!(up.worse(down)),
        json!({"control_in_time": in_time.into_iter().min()}),
        json!(live[0].worse(live[1])),
        json!({
            "live_age_fall_ms": rounded_option(oldest[0].zip(oldest[1]).map(|(a, b)| a.max(b)), 3),
            "stale": stale.into_iter().max(),
            "wire_bytes": run.wire_bytes(),
            "wire_share_fall": rounded_option(share, 4),
            "wire_to_rate_fall": rounded_option(to_rate, 4),
        }),
    ])
}

/// Counts what was delivered beyond its time to live, by the world's own clock.
fn stale(ledger: &StreamLedger, policy: Policy) -> usize {
    ledger.delays().filter(|delay| *delay > policy.ttl.as_secs_f64()).count()
}
