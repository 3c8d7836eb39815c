//! How much a path loses, and how many packets in a row.
//!
//! ```text
//! loss  ← loss + w·(lost − loss)      per packet, w = 1/256 once warm
//! burst ← burst + 1/16·(run − burst)  per run of lost packets
//! ```
//! Fed in packet-number order as far as outcomes come in that order; used on what we sent (from
//! acknowledgements) and on what we received (from gaps in packet numbers).
//!
//! Two others ask another question of other packets. `delivery/message/elastic/redundancy.rs` sets
//! the share of repair symbols by the loss of symbols alone, over eight times as many: a share that
//! follows every ripple is too small after a lucky second. `congestion/loss_guard.rs` averages only
//! packets that met a short queue, because it must tell what a radio loses from what a buffer does.

/// Packets over which loss is averaged; 256 give ± 0.9 points at 2 % loss.
const MEMORY: f64 = 256.0;
/// Packets over which the share of the last ones is averaged.
const RECENT: f64 = 16.0;
/// Runs over which the burst length is averaged.
const BURST_MEMORY: f64 = 16.0;

/// Estimates the share of packets lost and the mean length of runs of lost packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossEstimator {
    loss: f64,
    burst: f64,
    packets: u64,
    runs: u64,
    run: u64,
    recent: f64,
}

impl LossEstimator {
    /// Notes what became of the next packet.
    pub(crate) fn on_outcome(&mut self, lost: bool) {
        self.packets += 1;
        self.recent += (f64::from(u8::from(lost)) - self.recent) / RECENT;
        let weight = 1.0 / (self.packets as f64).min(MEMORY);
        self.loss += weight * (f64::from(u8::from(lost)) - self.loss);
        if lost {
            self.run += 1;
        } else if self.run > 0 {
            self.runs += 1;
            let weight = 1.0 / (self.runs as f64).min(BURST_MEMORY);
            self.burst += weight * (self.run as f64 - self.burst);
            self.run = 0;
        }
    }

    /// Takes back a loss that turned out to be late, not lost.
    pub(crate) fn on_loss_undone(&mut self) {
        let weight = 1.0 / (self.packets.max(1) as f64).min(MEMORY);
        self.loss = (self.loss - weight).max(0.0);
        self.run = self.run.saturating_sub(1);
    }

    /// Returns the share of packets lost, 0 to 1.
    pub(crate) fn loss(&self) -> f64 {
        self.loss
    }

    /// Returns the share of the last packets that were lost: it follows at once, and says little.
    pub(crate) fn recent(&self) -> f64 {
        self.recent
    }

    /// Returns the standard deviation of that share, given the number of packets that it rests on.
    pub(crate) fn deviation(&self) -> f64 {
        let packets = (self.packets.max(1) as f64).min(MEMORY);
        (self.loss * (1.0 - self.loss).max(0.0) / packets).sqrt()
    }

    /// Returns the mean number of packets lost in a row, at least 1 once anything was lost.
    pub(crate) fn burst(&self) -> f64 {
        self.burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    #[test]
    fn independent_loss_is_found() {
        let (mut estimator, mut rng) = (LossEstimator::default(), Rng::new(1));
        let mut sum = 0.0;
        for _ in 0..20_000 {
            estimator.on_outcome(rng.chance(0.05));
            sum += estimator.loss();
        }
        assert!((sum / 20_000.0 - 0.05).abs() < 0.005, "{}", sum / 20_000.0);
        assert!((estimator.burst() - 1.05).abs() < 0.4, "{}", estimator.burst());
    }

    #[test]
    fn the_deviation_is_that_of_the_packets_seen_and_remembered() {
        let mut estimator = LossEstimator::default();
        let mut after = |packets: u64| {
            (0..packets).for_each(|n| estimator.on_outcome(n % 5 == 4));
            estimator.deviation()
        };
        assert!((after(25) - 0.08).abs() < 1e-9);
        assert!((after(10_000) - 0.025).abs() < 0.001);
    }

    #[test]
    fn bursts_are_measured() {
        let mut estimator = LossEstimator::default();
        for packet in 0..4_000 {
            estimator.on_outcome(packet % 100 < 5);
        }
        assert!((estimator.burst() - 5.0).abs() < 1e-9);
        assert!((estimator.loss() - 0.05).abs() < 0.02);
    }
}
