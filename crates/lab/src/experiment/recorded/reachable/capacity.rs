//! What one direction of one link can carry in each millisecond.
//!
//! ```text
//! bits     of the rate at the millisecond's beginning, or of the opportunities within it;
//!          none while the link holds
//! arrives  false in an outage that drops, and where the loss is certain
//! delay    at the millisecond's beginning, without jitter
//! ```
//! A medium that links share, bursts and recorded slots of loss are left out.

use netem::{Delay, Instant, LinkModel, LinkRate, OPPORTUNITY_BYTES, OutageMode, Scenario};

use crate::testbed::Direction;

/// What a link without a limit carries in a millisecond: more than anything is sent.
const UNLIMITED_BITS: u64 = 1 << 40;

/// A millisecond of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slot {
    /// What the transmitter sends within it.
    pub(crate) bits: u64,
    /// Whether that arrives.
    pub(crate) arrives: bool,
    /// How long it travels, in milliseconds.
    pub(crate) delay_ms: f64,
}

/// What a link carries, millisecond by millisecond.
#[derive(Clone, Debug)]
pub(crate) struct Capacity(Vec<Slot>);

impl Capacity {
    /// Computes the first `seconds` of a link.
    pub(crate) fn new(model: &LinkModel, seconds: f64) -> Self {
        let slots = (seconds * 1e3).ceil() as u64;
        Self((0..slots).map(|ms| slot(model, ms)).collect())
    }

    /// Returns the milliseconds in order.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.0
    }
}

/// Computes what all links of a scenario carry in a direction.
///
/// # Errors
/// When the scenario has no host called drone or station.
pub(crate) fn capacities(
    scenario: &Scenario,
    direction: Direction,
    seconds: f64,
) -> Result<Vec<Capacity>, String> {
    let sender = match direction {
        Direction::Up => "station",
        Direction::Down => "drone",
    };
    let missing = || format!("scenario {}: no host called {sender}", scenario.name);
    let sender = scenario.host(sender).ok_or_else(missing)?;
    let of_pair = |pair: &netem::LinkPair| {
        let mut model = if pair.a == sender { pair.up.clone() } else { pair.down.clone() };
        let shared = scenario.groups.iter().filter(|group| model.groups.contains(&group.name));
        let outages: Vec<_> = shared.flat_map(|group| group.outages.iter().copied()).collect();
        model.outages.extend(outages);
        Capacity::new(&model, seconds)
    };
    Ok(scenario.links.iter().map(of_pair).collect())
}

fn slot(model: &LinkModel, ms: u64) -> Slot {
    let at = Instant::from_millis(ms);
    let within =
        |outage: &&netem::Outage| (outage.start..outage.start + outage.duration).contains(&at);
    let mut outages = model.outages.iter().filter(within);
    let (mut held, mut dropped) = (false, false);
    for outage in &mut outages {
        match outage.mode {
            OutageMode::Hold { .. } => held = true,
            OutageMode::Drop => dropped = true,
        }
    }
    let lost = model.loss.csv.as_ref().is_some_and(|csv| csv.series.at(at) >= 1.0);
    let delay = match &model.delay {
        Delay::Fixed(delay) => *delay,
        Delay::File { series, .. } | Delay::Csv { series, .. } => series.at(at),
    };
    Slot {
        bits: if held { 0 } else { bits(&model.rate, ms) },
        arrives: !(dropped || lost || model.loss.independent >= 1.0),
        delay_ms: delay.as_secs_f64() * 1e3,
    }
}

/// Returns what a transmitter sends within a millisecond.
fn bits(rate: &LinkRate, ms: u64) -> u64 {
    let (at, end) = (Instant::from_millis(ms), Instant::from_millis(ms + 1));
    // Parts of a bit add up from millisecond to millisecond.
    let of = |bps: u64| bps * (ms + 1) / 1_000 - bps * ms / 1_000;
    match rate {
        LinkRate::Unlimited => UNLIMITED_BITS,
        LinkRate::Constant(rate) => of(rate.as_bps()),
        LinkRate::Csv { series, .. } => of(series.at(at).as_bps()),
        LinkRate::Deliveries { trace, .. } => {
            trace.opportunities_in(at, end) * OPPORTUNITY_BYTES * 8
        }
        // One packet in each slot, counted where the slot ends.
        LinkRate::Slots(clock) => {
            let slots = |at: Instant| at.as_nanos() / clock.slot.as_nanos().max(1);
            (slots(end) - slots(at)) * OPPORTUNITY_BYTES * 8
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use netem::{CsvLoss, DeliveryTrace, Duration, LossModel, Outage, Rate, Series};

    use super::*;

    fn total(model: &LinkModel, seconds: f64) -> u64 {
        Capacity::new(model, seconds).slots().iter().map(|slot| slot.bits).sum()
    }

    fn csv(rows: &str) -> LinkRate {
        let text = format!("time_s,rate_mbps\n{rows}");
        let series = Arc::new(Series::rates_csv(&text, "r").expect("sound"));
        LinkRate::Csv { path: "r".to_owned(), series }
    }

    #[test]
    fn rates_and_opportunities_add_up() {
        let with = |rate| LinkModel { rate, ..LinkModel::default() };
        assert_eq!(total(&with(LinkRate::Constant(Rate::from_bps(64_500))), 2.0), 129_000);
        assert_eq!(total(&with(csv("0,2\n1,0\n3,0.5\n4,9")), 4.0), 2_500_000);
        let trace = Arc::new(DeliveryTrace::parse("0\n3\n3\n10\n", "t").expect("sound"));
        let trace = with(LinkRate::Deliveries { path: "t".to_owned(), trace });
        let packets: Vec<u64> =
            Capacity::new(&trace, 0.012).slots().iter().map(|slot| slot.bits / 12_000).collect();
        // The trace begins again after its last line, whose millisecond is the 0 of the next round.
        assert_eq!(packets, [1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 0]);
    }

    #[test]
    fn outages_and_certain_loss_are_kept_apart() {
        let outage = |start, mode| Outage {
            start: Instant::from_millis(start),
            duration: Duration::from_millis(10),
            mode,
        };
        let text = "time_s,loss\n0,0.9\n0.05,1\n0.06,0\n0.5,0";
        let series = Arc::new(Series::losses_csv(text, "l").expect("sound"));
        let loss = CsvLoss { path: "l".to_owned(), series };
        let model = LinkModel {
            rate: LinkRate::Constant(Rate::from_mbps(1.0)),
            outages: vec![
                outage(20, OutageMode::Drop),
                outage(40, OutageMode::Hold { queue: None }),
            ],
            loss: LossModel { csv: Some(loss), ..LossModel::default() },
            ..LinkModel::default()
        };
        let capacity = Capacity::new(&model, 0.1);
        let at = |ms: usize| (capacity.slots()[ms].bits, capacity.slots()[ms].arrives);
        assert_eq!([at(0), at(20), at(29)], [(1_000, true), (1_000, false), (1_000, false)]);
        assert_eq!(
            [at(30), at(45), at(55), at(60)],
            [(1_000, true), (0, true), (1_000, false), (1_000, true)]
        );
    }

    #[test]
    fn directions_follow_the_sender() {
        let mut scenario =
            Scenario::new("s", 1.0).link("l", "drone", "station", &LinkModel::default());
        scenario.links[0].up.rate = LinkRate::Constant(Rate::from_mbps(3.0));
        let bits = |direction| {
            capacities(&scenario, direction, 0.001).expect("both hosts")[0].slots()[0].bits
        };
        assert_eq!((bits(Direction::Down), bits(Direction::Up)), (3_000, UNLIMITED_BITS));
    }
}
