//! The figures of one run: what became of control and set-points, and what was handed to the links
//! meanwhile.
//!
//! ```text
//! wire_share_fall     what was handed to the link ÷ (what it carries + its queue)
//! wire_to_rate_fall   what was handed to the link ÷ what it carries
//! ```
//! Both of the fullest direction of a link, from a round trip after the fall has begun, before
//! which nobody can know of it, to the fall's end. Above 1, the one says that the queue has
//! overflown, the other that it has grown.

use netem::{LinkEnd, World};
use proto::select::Policy;
use serde_json::{Value, json};
use units::Instant;

use super::cell::Cell;
use super::links::{DELAYS_MS, Hop, Times};
use crate::experiment::streams::figures::{ControlFigures, LiveFigures, Span, oldest_ms};
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

/// Reads what was handed to each link when a sender can know of the fall, and when it ends.
pub(super) struct Readings {
    /// The links that the scheme has, by their place in the cell.
    links: Vec<usize>,
    span: Span,
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
        Self { links, span: known(times), read: Vec::new() }
    }

    /// Reads what is due.
    pub(super) fn watch(&mut self, world: &World<End>) {
        let at = seconds_of(world);
        let due = [self.span.0, self.span.1];
        while due.get(self.read.len()).is_some_and(|due| at >= *due) {
            let handed = |link| {
                netem::Direction::BOTH
                    .map(|direction| world.net().stats(LinkEnd { link, direction }).bytes_in)
            };
            self.read.push((0..self.links.len()).map(handed).collect());
        }
    }

    /// Returns the greatest share of `room(link)` bytes that was handed over.
    fn fullest(&self, room: impl Fn(usize) -> f64) -> Option<f64> {
        let [first, last] = &self.read[..] else { return None };
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
    let carries = |link: usize| hops[link].carries(known(times)) + DATAGRAM_BYTES;
    let share = readings.fullest(|link| carries(link) + cell.queue_kb * 1e3);
    let to_rate = readings.fullest(carries);
    let [up, down] = control;
    merged([
        cell.point(),
        json!({"scheme": scheme}),
        json!(up.worse(down)),
        json!({
            "control_in_time": in_time.into_iter().min(),
            "control_miss_share": up.worse_miss_share(&down),
        }),
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

/// Returns the part of the fall in which a sender can know of it.
fn known(times: Times) -> Span {
    ((times.fall.0 + ROUND_TRIP_S).min(times.fall.1), times.fall.1)
}

/// Counts what was delivered beyond its time to live, by the world's own clock.
fn stale(ledger: &StreamLedger, policy: Policy) -> usize {
    ledger.delays().filter(|delay| *delay > policy.ttl.as_secs_f64()).count()
}
