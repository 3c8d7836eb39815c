//! Which packets are lost on the way: four processes side by side, each with random numbers of its
//! own.
//!
//! ```text
//! independent     lost with probability p
//! Gilbert–Elliott good ⇄ bad, lost with loss_good or loss_bad   [Gilbert]
//! slots           lost where the recording has a 0              [FlowCode §IV]
//! CSV             lost with probability p(t)
//! ```
//!
//! *Deviations:* the papers' channel changes state with each bit or packet; ours can also
//! change at times, so that bursts have the length that was measured in seconds.

use super::model::{CsvLoss, GilbertElliott, LossModel, StateChange};
use super::slots::{Recorded, Region};
use super::transmitter::NEVER;
use std::sync::Arc;
use units::{Duration, Instant, Rng};

/// All losses of one way through the air.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    independent: f64,
    independent_rng: Rng,
    burst: Option<Channel>,
    slots: Option<Recorded>,
    csv: Option<(CsvLoss, Rng)>,
    /// When the recordings begin; they lose nothing before.
    origin: Instant,
}

impl Losses {
    /// Makes the losses of `model`; small packets pass in the `region` of all clocked links, if the
    /// link is one of them.
    pub(crate) fn new(
        model: &LossModel,
        region: Option<&Arc<Region>>,
        seed: u64,
        label: &str,
    ) -> Self {
        let stream = |process: &str| Rng::stream(seed, &format!("{label}/{process}"));
        Self {
            independent: model.independent,
            independent_rng: stream("loss"),
            burst: model.burst.map(|burst| Channel::new(&burst, stream("burst"), stream("fade"))),
            slots: model.slots.as_ref().map(|slots| Recorded::new(slots, region)),
            csv: model.csv.clone().map(|csv| (csv, stream("csv"))),
            origin: NEVER,
        }
    }

    /// Sets the beginning of the recordings to `origin`.
    pub(crate) fn begin(&mut self, origin: Instant) {
        self.origin = origin;
    }

    /// Decides whether a packet of `len` bytes that is transmitted at `at` is lost; `slot` is an
    /// instant of the slot that carries it.
    pub(crate) fn loses(&mut self, at: Instant, slot: Instant, len: usize) -> bool {
        // No short cut: each process draws for each packet, so that none disturbs another.
        let mut lost = self.independent_rng.chance(self.independent);
        if let Some(burst) = &mut self.burst {
            lost |= burst.loses(at);
        }
        if let Some(slots) = &self.slots {
            let in_slots = Instant::ZERO + slot.since(self.origin);
            lost |= slot >= self.origin && slots.loses(in_slots, len as u64);
        }
        let has_begun = at >= self.origin;
        let at = Instant::ZERO + at.since(self.origin);
        if let Some((csv, rng)) = &mut self.csv {
            let luck = rng.unit();
            lost |= has_begun && luck < csv.series.at(at);
        }
        lost
    }
}

/// A Gilbert–Elliott channel with its state.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    model: GilbertElliott,
    bad: bool,
    /// When the state ends, if time ends it.
    until: Instant,
    state_rng: Rng,
    loss_rng: Rng,
}

/// The shortest time in a state, so that a channel cannot change endlessly at one instant.
const STATE_MIN: Duration = Duration::from_micros(10);

impl Channel {
    /// Starts in either state, with the probability of that state in the long run.
    ///
    /// Channels with the same `state_rng` are in the same state at every instant, if it changes
    /// over time.
    pub(crate) fn new(model: &GilbertElliott, mut state_rng: Rng, loss_rng: Rng) -> Self {
        let bad = state_rng.chance(model.bad_share());
        let mut channel = Self { model: *model, bad, until: Instant::ZERO, state_rng, loss_rng };
        channel.until = Instant::ZERO + channel.sojourn();
        channel
    }

    /// Decides whether a packet that is transmitted at `at` is lost.
    pub(crate) fn loses(&mut self, at: Instant) -> bool {
        match self.model.change {
            StateChange::PerPacket { to_bad, to_good } => {
                let leaves = self.state_rng.unit() < if self.bad { to_good } else { to_bad };
                self.bad ^= leaves;
            }
            StateChange::OverTime { .. } => {
                while self.until <= at {
                    self.bad = !self.bad;
                    let sojourn = self.sojourn();
                    self.until += sojourn;
                }
            }
        }
        self.loss_rng.unit() < if self.bad { self.model.loss_bad } else { self.model.loss_good }
    }

    fn sojourn(&mut self) -> Duration {
        let StateChange::OverTime { good, bad } = self.model.change else { return Duration::ZERO };
        let mean = if self.bad { bad } else { good };
        let nanos = self.state_rng.exponential(mean.as_nanos() as f64);
        Duration::from_nanos(nanos as u64).max(STATE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::SlotLoss;
    use super::*;
    use crate::trace::SlotTrace;

    fn fates(model: LossModel, packets: u64, spacing: Duration) -> Vec<bool> {
        let mut losses = Losses::new(&model, None, 11, "l");
        losses.begin(Instant::ZERO);
        let mut at = Instant::ZERO;
        let fate = |_| {
            at += spacing;
            losses.loses(at, at, 1_000)
        };
        (0..packets).map(fate).collect()
    }

    fn bursts(fates: &[bool]) -> Vec<usize> {
        fates.split(|&lost| !lost).map(<[bool]>::len).filter(|&len| len > 0).collect()
    }

    fn mean(lengths: &[usize]) -> f64 {
        lengths.iter().sum::<usize>() as f64 / lengths.len() as f64
    }

    #[test]
    fn gilbert_per_packet_has_geometric_bursts_and_the_loss_of_its_stationary_state() {
        let change = StateChange::PerPacket { to_bad: 0.01, to_good: 0.2 };
        let channel = GilbertElliott { change, loss_good: 0.0, loss_bad: 1.0 };
        let model = LossModel { burst: Some(channel), ..LossModel::default() };
        let fates = fates(model, 1_000_000, Duration::from_millis(1));
        let loss = fates.iter().filter(|&&lost| lost).count() as f64 / 1e6;
        assert!((channel.mean_loss() - 0.01 / 0.21).abs() < 1e-12);
        assert!((loss / channel.mean_loss() - 1.0).abs() < 0.05, "{loss}");
        let lengths = bursts(&fates);
        assert!((mean(&lengths) - 5.0).abs() < 0.2, "{}", mean(&lengths));
        let long = lengths.iter().filter(|&&len| len > 10).count() as f64 / lengths.len() as f64;
        assert!((long - 0.8_f64.powi(10)).abs() < 0.02, "{long}");
    }

    #[test]
    fn elliott_loses_in_both_states() {
        let change = StateChange::PerPacket { to_bad: 0.02, to_good: 0.08 };
        let channel = GilbertElliott { change, loss_good: 0.01, loss_bad: 0.5 };
        let model = LossModel { burst: Some(channel), ..LossModel::default() };
        let fates = fates(model, 1_000_000, Duration::from_millis(1));
        let loss = fates.iter().filter(|&&lost| lost).count() as f64 / 1e6;
        assert!((loss - (0.2 * 0.5 + 0.8 * 0.01)).abs() < 0.005, "{loss}");
    }

    #[test]
    fn bursts_over_time_do_not_depend_on_the_rate() {
        let change = StateChange::OverTime {
            good: Duration::from_millis(900),
            bad: Duration::from_millis(100),
        };
        let burst = Some(GilbertElliott { change, loss_good: 0.0, loss_bad: 1.0 });
        let model = LossModel { burst, ..LossModel::default() };
        let fast = fates(model.clone(), 1_000_000, Duration::from_millis(1));
        let slow = fates(model, 100_000, Duration::from_millis(10));
        for (fast, slow) in fast.iter().skip(9).step_by(10).zip(&slow) {
            assert_eq!(fast, slow);
        }
        let loss = fast.iter().filter(|&&lost| lost).count() as f64 / 1e6;
        assert!((loss - 0.1).abs() < 0.015, "{loss}");
        assert!((mean(&bursts(&fast)) - 100.0).abs() < 10.0);
    }

    #[test]
    fn slots_lose_large_packets_and_spare_small_ones_where_connected() {
        let model = SlotLoss {
            path: String::new(),
            matrix: None,
            trace: Arc::new(SlotTrace::parse("1011000000", "s").unwrap()),
            slot: Duration::from_millis(10),
            small_bytes: 100,
            region: Duration::from_millis(10),
        };
        let slots = Some(model);
        let mut losses = Losses::new(&LossModel { slots, ..LossModel::default() }, None, 1, "l");
        losses.begin(Instant::ZERO);
        let mut passes = |slot: u64, len| {
            let at = Instant::from_millis(slot * 10 + 3);
            !losses.loses(at, at, len)
        };
        let large: Vec<_> = (0..11).map(|slot| passes(slot, 1_500)).collect();
        let small: Vec<_> = (0..11).map(|slot| passes(slot, 100)).collect();
        let yes = |text: &str| text.chars().map(|c| c == '1').collect::<Vec<_>>();
        assert_eq!(large, yes("10110000001"));
        assert_eq!(small, yes("11111000011"));
    }
}
