//! What a sender could have that knows the links exactly, but a round trip late: a bound beside the
//! figures of recorded links.
//!
//! ```text
//! known at t   what stood before the link at t − round trip, and its mean rate in the 200 ms
//!              before that, whether anything used it or not
//! expects      what stood there + sent since − rate · round trip, and never less than nothing
//! sends        what is missing to a queue of `queue_ms` at that rate
//! control      missed where a message that is handed in at t comes later than 100 ms on every link
//! ```
//! No real sender has that: it learns a rate from what it sends itself, and knows nothing of what
//! it does not use. The first round trip and 200 ms are left out. That is a mark to measure by, not
//! a proof: who guessed better what a link does next would have more.

use serde_json::{Value, json};

use crate::experiment::recorded::Capacity;
use crate::report::rounded;

/// The queues that the sender aims at, in ms.
const QUEUES_MS: [f64; 3] = [0.0, 10.0, 20.0];
/// Over how long the rate is known, in ms: over shorter times more control is missed for the same
/// share.
const RATE_MS: usize = 200;
/// A control message that takes longer is missed.
const IN_TIME_MS: f64 = 100.0;

/// What a sender has that aims at one queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    queue_ms: f64,
    /// Of what the links carry from `from_s` on.
    pub(super) of_ceiling: f64,
    pub(super) control_missed: f64,
}

impl Bound {
    /// Returns it for the report.
    pub(super) fn description(&self) -> Value {
        json!({
            "queue_ms": self.queue_ms,
            "of_ceiling": rounded(self.of_ceiling, 3),
            "control_missed_share": rounded(self.control_missed, 3),
        })
    }
}

/// Returns the bound for each queue; shares of the ceiling count from `from_s` on, `control_ms`
/// lies between control messages of so many bits.
pub(super) fn bounds(
    links: &[Capacity],
    from_s: f64,
    control_ms: usize,
    control_bits: f64,
) -> Vec<Bound> {
    let of_queue = |queue_ms| {
        let runs: Vec<Run> = links
            .iter()
            .map(|link| run(link, queue_ms, from_s, control_ms, control_bits))
            .collect();
        let (carried, used) = runs
            .iter()
            .fold((0.0, 0.0), |(carried, used), run| (carried + run.carried, used + run.used));
        let messages = runs.iter().map(|run| run.missed.len()).min().unwrap_or(0);
        let missed = |number: &usize| runs.iter().all(|run| run.missed[*number]);
        let missed = (0..messages).filter(missed).count();
        Bound {
            queue_ms,
            of_ceiling: used / f64::max(carried, 1.0),
            control_missed: missed as f64 / messages.max(1) as f64,
        }
    };
    QUEUES_MS.map(of_queue).to_vec()
}

/// What became of one link.
struct Run {
    /// Bits that it could carry, and what was used of them.
    carried: f64,
    used: f64,
    /// Whether each control message is missed on it.
    missed: Vec<bool>,
}

fn run(link: &Capacity, queue_ms: f64, from_s: f64, control_ms: usize, control_bits: f64) -> Run {
    let slots = link.slots();
    let bits: Vec<f64> =
        slots.iter().map(|slot| if slot.arrives { slot.bits as f64 } else { 0.0 }).collect();
    // What the link could have carried up to each millisecond, and what the sender has sent.
    let sums = |each: &mut dyn Iterator<Item = f64>| -> Vec<f64> {
        let add = |sum: &mut f64, bits: f64| {
            *sum += bits;
            Some(*sum)
        };
        core::iter::once(0.0).chain(each.scan(0.0, add)).collect()
    };
    let could = sums(&mut bits.iter().copied());
    let mut sent = vec![0.0];
    let (mut queue, mut queues) = (0.0, Vec::with_capacity(bits.len()));
    let (mut carried, mut used) = (0.0, 0.0);
    for (ms, slot) in slots.iter().enumerate() {
        let round_trip = (2.0 * slot.delay_ms).ceil() as usize;
        let known = ms.checked_sub(round_trip).filter(|known| *known >= RATE_MS);
        let more = known.map_or(bits[ms], |known| {
            let rate = (could[known] - could[known - RATE_MS]) / RATE_MS as f64;
            let stood: f64 = queues[known];
            let expected = stood + sent[ms] - sent[known] - rate * round_trip as f64;
            (rate * (queue_ms + 1.0) - expected.max(0.0)).max(0.0)
        });
        sent.push(sent[ms] + more);
        queue += more;
        let served = f64::min(queue, bits[ms]);
        queue -= served;
        queues.push(queue);
        if ms as f64 >= from_s * 1e3 {
            carried += bits[ms];
            used += served;
        }
    }
    let first = slots.first().map_or(0, |slot| (2.0 * slot.delay_ms).ceil() as usize + RATE_MS);
    let is_missed = |ms: usize| {
        let before = could[ms] + queues[ms] + control_bits;
        let leaves = could.partition_point(|could| *could < before).saturating_sub(ms);
        leaves as f64 + slots[ms].delay_ms > IN_TIME_MS
    };
    // What is handed in at the end has no time left to arrive.
    let last = slots.len().saturating_sub(IN_TIME_MS as usize);
    let missed = (first..last).step_by(control_ms).map(is_missed).collect();
    Run { carried, used, missed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netem::{Delay, LinkModel, LinkRate};
    use units::{Duration, Rate};

    fn link(rate: LinkRate) -> Capacity {
        let delay = Delay::Fixed(Duration::from_millis(30));
        Capacity::new(&LinkModel { delay, rate, ..LinkModel::default() }, 30.0)
    }

    #[test]
    fn a_link_that_does_not_change_is_filled_whatever_the_queue_and_misses_no_control() {
        let steady = link(LinkRate::Constant(Rate::from_mbps(4.0)));
        for bound in bounds(&[steady], 1.0, 20, 800.0) {
            assert!(bound.of_ceiling > 0.99 && bound.control_missed == 0.0, "{bound:?}");
        }
    }

    #[test]
    fn where_a_rate_changes_a_longer_queue_uses_more_and_costs_control() {
        let scenario = netem::Scenario::from_toml(
            "[[host]]\nname = \"drone\"\n[[host]]\nname = \"station\"\n[[link]]\nname = \"a\"\n\
             between = [\"drone\", \"station\"]\ndelay_ms = 30\nrate_steps = [[0, 8], [1, 0.3]]\n\
             rate_every_s = 1.5\n",
            "steps.toml",
        );
        let scenario = scenario.expect("a sound scenario");
        let links = vec![Capacity::new(&scenario.links[0].up, 30.0)];
        let all = bounds(&links, 1.0, 20, 800.0);
        assert!(all.windows(2).all(|two| two[0].of_ceiling < two[1].of_ceiling), "{all:?}");
        assert!(all.windows(2).all(|two| two[0].control_missed <= two[1].control_missed));
        assert!(all[0].control_missed > 0.0 && all[2].of_ceiling < 1.0, "{all:?}");
    }
}
