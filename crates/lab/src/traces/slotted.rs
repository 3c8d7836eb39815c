//! Links as slots, and slots as links: what a recording in another form lets through slot by slot,
//! and what a slot matrix says in other forms.
//!
//! ```text
//! rate        a slot is 1 where what the link has carried since the last 1 makes a packet of 1,500
//!             bytes
//! deliveries  a slot is 1 where an opportunity lies in it
//! loss        a 1 becomes 0 with the probability of its beginning, drawn from the seed
//! ```

use std::fmt::Write as _;
use std::sync::Arc;

use netem::{LinkModel, LinkRate, OPPORTUNITY_BYTES, Series, SlotTrace};
use units::{Duration, Instant, Rate, Rng};

/// Bits of the packet that a slot carries.
const PACKET_BITS: f64 = (OPPORTUNITY_BYTES * 8) as f64;

/// A link as slots.
pub(super) struct Slotted {
    pub(super) trace: SlotTrace,
    /// Which share of what the link can carry found no slot: a slot carries one packet.
    pub(super) cut: f64,
    /// How many slots had a packet and lost it, as was drawn.
    pub(super) drawn: usize,
}

/// Returns which of the first `count` slots of a link let a packet through; what is drawn is drawn
/// from `rng`.
///
/// # Panics
/// When there are no slots, or they have no length.
pub(super) fn of_link(model: &LinkModel, slot: Duration, count: usize, rng: &mut Rng) -> Slotted {
    assert!(count > 0 && !slot.is_zero(), "a trace needs slots");
    let mut carried = Carried { model, bits: 0.0, offered: 0.0 };
    let mut received = Vec::with_capacity(count);
    let (mut packets, mut drawn) = (0_usize, 0);
    for number in 0..count {
        let from = Instant::from_nanos((number as u64).saturating_mul(slot.as_nanos()));
        let loss = model.loss.csv.as_ref().map_or(0.0, |csv| csv.series.at(from));
        // Drawn for each slot, so that the rate does not disturb the losses.
        let lost = rng.unit() < loss || rng.unit() < model.loss.independent;
        let has = carried.by(from, slot);
        packets += usize::from(has);
        drawn += usize::from(has && lost);
        received.push(has && !lost);
    }
    let used = packets as f64 * PACKET_BITS + carried.bits;
    let cut = if carried.offered > 0.0 { (1.0 - used / carried.offered).max(0.0) } else { 0.0 };
    Slotted { trace: SlotTrace::new(received), cut, drawn }
}

/// Returns a delivery trace in mahimahi's format: an opportunity in the middle of each slot with a
/// 1; `None` when there is none.
pub(super) fn deliveries(trace: &SlotTrace, slot: Duration) -> Option<String> {
    let mut text = String::new();
    let ones = trace.slots().iter().enumerate().filter(|(_, received)| **received);
    for (number, _) in ones {
        let middle = (number as f64 + 0.5) * slot.as_secs_f64() * 1e3;
        // A trace of nothing but time 0 would have no length.
        let _ = writeln!(text, "{}", (middle.round() as u64).max(1));
    }
    (!text.is_empty()).then_some(text)
}

/// Returns a table of rates: what the slots of each second have let through, in packets of 1,500
/// bytes.
pub(super) fn rates_csv(trace: &SlotTrace, slot: Duration) -> String {
    let mbps = |ones: usize, slots: usize| {
        let bps = ones as f64 * PACKET_BITS / (slots as f64 * slot.as_secs_f64());
        bps.round() / 1e6
    };
    table(trace, slot, "rate_mbps", mbps)
}

/// Returns a table of losses: the share of the slots of each second that is 0.
pub(super) fn losses_csv(trace: &SlotTrace, slot: Duration) -> String {
    table(trace, slot, "loss", |ones, slots| (slots - ones) as f64 / slots as f64)
}

/// Returns the share of each second's slots that is 1, with the second's beginning; a rest of less
/// than half a second says too little and is left out.
pub(super) fn shares(trace: &SlotTrace, slot: Duration) -> Vec<(f64, f64)> {
    let mut all = seconds(trace, slot);
    let whole = all.first().map_or(0, |(_, _, slots)| *slots);
    if all.len() > 1 && all.last().is_some_and(|(_, _, slots)| 2 * slots < whole) {
        all.pop();
    }
    let share = |(at, ones, slots): (f64, usize, usize)| (at, ones as f64 / slots as f64);
    all.into_iter().map(share).collect()
}

/// What a link has carried and no slot has had yet.
struct Carried<'a> {
    model: &'a LinkModel,
    bits: f64,
    /// All that it can carry.
    offered: f64,
}

impl Carried<'_> {
    /// Says whether a slot has a packet.
    fn by(&mut self, from: Instant, slot: Duration) -> bool {
        let bits = match &self.model.rate {
            LinkRate::Deliveries { trace, .. } => {
                let opportunities = trace.opportunities_in(from, from + slot);
                self.offered += opportunities as f64 * PACKET_BITS;
                return opportunities > 0;
            }
            LinkRate::Unlimited => PACKET_BITS,
            LinkRate::Constant(rate) => rate.as_bps() as f64 * slot.as_secs_f64(),
            LinkRate::Csv { series, .. } => bits(series, from, slot),
            LinkRate::Slots(clock) => PACKET_BITS * slot.div_duration_f64(clock.slot),
        };
        self.bits += bits;
        self.offered += bits;
        // As much as makes no difference: sums of shares of a packet are not exact.
        let has = self.bits >= PACKET_BITS - 1e-6;
        if has {
            // A slot carries one packet; what is more than that is not saved.
            self.bits = (self.bits - PACKET_BITS).clamp(0.0, PACKET_BITS);
        }
        has
    }
}

/// Integrates a rate over a slot.
fn bits(series: &Arc<Series<Rate>>, from: Instant, slot: Duration) -> f64 {
    // Slots are shorter than what rates are measured over: the rates at some points of it are
    // enough.
    const POINTS: u32 = 8;
    let part = slot / POINTS;
    let at = |point: u32| series.at(from + part * point + part / 2).as_bps() as f64;
    (0..POINTS).map(at).sum::<f64>() / f64::from(POINTS) * slot.as_secs_f64()
}

fn table(
    trace: &SlotTrace,
    slot: Duration,
    column: &str,
    value: impl Fn(usize, usize) -> f64,
) -> String {
    let mut text = format!("time_s,{column}\n");
    for (at, ones, slots) in seconds(trace, slot) {
        let _ = writeln!(text, "{at},{}", value(ones, slots));
    }
    text
}

/// Returns for each second when it begins and its slots with a 1, out of how many. Seconds begin
/// with a slot; slots longer than a second have one each.
fn seconds(trace: &SlotTrace, slot: Duration) -> Vec<(f64, usize, usize)> {
    let mut seconds: Vec<(u64, f64, usize, usize)> = Vec::new();
    for (number, &received) in trace.slots().iter().enumerate() {
        let at = number as f64 * slot.as_secs_f64();
        match seconds.last_mut() {
            Some((second, _, ones, slots)) if *second == at as u64 => {
                *ones += usize::from(received);
                *slots += 1;
            }
            _ => seconds.push((at as u64, at, usize::from(received), 1)),
        }
    }
    seconds.into_iter().map(|(_, at, ones, slots)| (at, ones, slots)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netem::{CsvLoss, DeliveryTrace};

    const SLOT: Duration = Duration::from_micros(11_776);

    fn text(trace: &SlotTrace) -> String {
        trace.slots().iter().map(|&slot| if slot { '1' } else { '0' }).collect()
    }

    fn slots(model: &LinkModel, slot: Duration, count: usize) -> String {
        text(&of_link(model, slot, count, &mut Rng::stream(1, "slots")).trace)
    }

    #[test]
    fn deliveries_and_slots_are_made_of_each_other_without_loss() {
        let mut rng = Rng::stream(7, "made up");
        let mut received: Vec<bool> = (0..4_000).map(|_| rng.chance(0.3)).collect();
        received.push(true);
        let trace = SlotTrace::new(received);
        let written = deliveries(&trace, SLOT).expect("it has ones");
        let read = Arc::new(DeliveryTrace::parse(&written, "d").expect("it reads"));
        let rate = LinkRate::Deliveries { path: String::new(), trace: read };
        let model = LinkModel { rate, ..LinkModel::default() };
        assert_eq!(slots(&model, SLOT, 4_001), text(&trace));
        assert_eq!(deliveries(&SlotTrace::new(vec![false]), SLOT), None);
    }

    #[test]
    fn a_rate_fills_slots_one_packet_after_the_other() {
        let constant = |mbps: f64| LinkModel {
            rate: LinkRate::Constant(Rate::from_mbps(mbps)),
            ..LinkModel::default()
        };
        let slot = Duration::from_millis(12);
        assert_eq!(slots(&constant(1.0), slot, 6), "111111");
        assert_eq!(slots(&constant(50.0), slot, 6), "111111", "a slot has one packet");
        assert_eq!(slots(&constant(0.5), slot, 6), "010101");
        assert_eq!(slots(&constant(0.25), slot, 8), "00010001");
        let steps = "time_s,rate_mbps\n0,1\n0.036,0\n0.072,1\n0.108,1\n";
        let series = Arc::new(Series::rates_csv(steps, "r").expect("it reads"));
        let model = LinkModel {
            rate: LinkRate::Csv { path: String::new(), series },
            ..LinkModel::default()
        };
        assert_eq!(slots(&model, slot, 9), "111000111");
    }

    #[test]
    fn what_finds_no_slot_is_counted() {
        let slotted = |model: &LinkModel, slot| of_link(model, slot, 100, &mut Rng::stream(1, "s"));
        let mut model =
            LinkModel { rate: LinkRate::Constant(Rate::from_mbps(4.0)), ..LinkModel::default() };
        let slot = Duration::from_millis(12);
        assert!((slotted(&model, slot).cut - 0.75).abs() < 0.01, "a quarter of 4 Mbit/s");
        model.rate = LinkRate::Constant(Rate::from_mbps(1.0));
        assert_eq!(slotted(&model, slot).cut, 0.0);
        let three = Arc::new(DeliveryTrace::parse("1\n2\n3\n12\n", "d").expect("it reads"));
        model.rate = LinkRate::Deliveries { path: String::new(), trace: three };
        assert!((slotted(&model, slot).cut - 0.75).abs() < 0.01, "one of four");
    }

    #[test]
    fn losses_are_as_frequent_as_the_table_says_and_the_same_for_a_seed() {
        let series = Series::losses_csv("time_s,loss\n0,0.25\n100,0.25\n", "l").expect("it reads");
        let csv = Some(CsvLoss { path: String::new(), series: Arc::new(series) });
        let mut model = LinkModel::default();
        model.loss.csv = csv;
        let drawn = slots(&model, SLOT, 100_000);
        let lost = drawn.matches('0').count() as f64 / 1e5;
        assert!((lost - 0.25).abs() < 0.005, "{lost}");
        assert_eq!(slots(&model, SLOT, 100_000), drawn);
    }

    #[test]
    fn tables_say_what_the_slots_of_each_second_let_through() {
        let slot = Duration::from_millis(500);
        let trace = SlotTrace::parse("1100101", "s").expect("it reads");
        let rates = "time_s,rate_mbps\n0,0.024\n1,0\n2,0.012\n3,0.024\n";
        assert_eq!(rates_csv(&trace, slot), rates);
        assert_eq!(losses_csv(&trace, slot), "time_s,loss\n0,0\n1,1\n2,0.5\n3,0\n");
        assert_eq!(shares(&trace, slot), [(0.0, 1.0), (1.0, 0.0), (2.0, 0.5), (3.0, 1.0)]);
        let rest = SlotTrace::parse("11110000", "s").expect("it reads");
        assert_eq!(shares(&rest, Duration::from_millis(300)), [(0.0, 1.0), (1.2, 0.0)]);
    }
}
