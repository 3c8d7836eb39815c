//! How much a path loses, and how many packets in a row.
//!
//! ```text
//! loss  ← loss + w·(lost − loss)      per packet, w = 1/n, where n counts packets, up to 256
//! n     ← n / (1 + time / 10 s)       and loss with it once n is 24; time since the packet before, from a quarter of a second on
//! burst ← burst + 1/16·(run − burst)  per run of lost packets
//! ```
//! So where packets are further apart than memory in packets allows for, time makes them forgotten:
//! what an idle path lost a minute ago says nothing of it, and what one probe a second says counts.
//!
//! Fed in packet-number order as far as outcomes come in that order; used on what we sent (from
//! acknowledgements) and on what we received (from gaps in packet numbers).
//!
//! Two others ask another question of other packets. `delivery/message/elastic/redundancy.rs` sets
//! the share of repair symbols by the loss of symbols alone, over eight times as many: a share that
//! follows every ripple is too small after a lucky second. `congestion/loss_guard.rs` averages only
//! packets that met a short queue, because it must tell what a radio loses from what a buffer does.

use units::{Duration, Instant};

use super::LINK_MEMORY;

/// Packets over which loss is averaged; 256 give ± 0.9 points at 2 % loss.
const MEMORY: f64 = 256.0;
/// Where packets are no further apart, those that are remembered are of the last minute anyway.
const BUSY: Duration = Duration::from_millis(250);
/// Packets below which time does not lower the evidence: one lost probe of an idle path is 4 %
/// then, which is no alarm.
const LEAST: f64 = 24.0;
/// Packets over which the share of the last ones is averaged, and runs over which their length is.
const RECENT: f64 = 16.0;

/// By so much what is measured may be too low: it is of few packets, and falls faster than it
/// rises.
pub(crate) const LOSS_DOUBT: f64 = 0.01;

/// Estimates the share of packets lost and the mean length of runs of lost packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossEstimator {
    loss: f64,
    burst: f64,
    /// Packets that the share rests on.
    packets: f64,
    /// When the last of them was.
    at: Option<Instant>,
    runs: u64,
    run: u64,
    recent: f64,
}

impl LossEstimator {
    /// Notes what became of the next packet.
    pub(crate) fn on_outcome(&mut self, now: Instant, lost: bool) {
        self.fade(now);
        self.packets = (self.packets + 1.0).min(MEMORY);
        self.recent += (f64::from(u8::from(lost)) - self.recent) / RECENT;
        let weight = 1.0 / self.packets;
        self.loss += weight * (f64::from(u8::from(lost)) - self.loss);
        if lost {
            self.run += 1;
        } else if self.run > 0 {
            self.runs += 1;
            let weight = 1.0 / (self.runs as f64).min(RECENT);
            self.burst += weight * (self.run as f64 - self.burst);
            self.run = 0;
        }
    }

    /// Takes back a loss that turned out to be late, not lost.
    pub(crate) fn on_loss_undone(&mut self) {
        let weight = 1.0 / self.packets.max(1.0);
        self.loss = (self.loss - weight).max(0.0);
        self.run = self.run.saturating_sub(1);
    }

    /// Returns the share of packets lost, 0 to 1.
    pub(crate) fn loss(&self) -> f64 {
        self.loss
    }

    /// Returns the same as of now: nothing may have been sent for long.
    pub(crate) fn loss_at(&self, now: Instant) -> f64 {
        let mut faded = self.clone();
        faded.fade(now);
        faded.loss
    }

    /// Returns the share of the last packets that were lost: it follows at once, and says little.
    pub(crate) fn recent(&self) -> f64 {
        self.recent
    }

    /// Returns the standard deviation of that share, given the number of packets that it rests on.
    pub(crate) fn deviation(&self) -> f64 {
        (self.loss * (1.0 - self.loss).max(0.0) / self.packets.max(1.0)).sqrt()
    }

    /// Returns the mean number of packets lost in a row, at least 1 once anything was lost.
    pub(crate) fn burst(&self) -> f64 {
        self.burst
    }

    /// Forgets what time has made old.
    fn fade(&mut self, now: Instant) {
        let since = self.at.map_or(Duration::ZERO, |at| now.since(at));
        self.at = self.at.max(Some(now));
        if since <= BUSY || self.packets == 0.0 {
            return;
        }
        let left = self.packets / (1.0 + since.as_secs_f64() / LINK_MEMORY.as_secs_f64());
        let kept = left.max(self.packets.min(LEAST));
        self.loss *= left / kept;
        self.packets = kept;
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
            estimator.on_outcome(Instant::ZERO, rng.chance(0.05));
            sum += estimator.loss();
        }
        assert!((sum / 20_000.0 - 0.05).abs() < 0.005, "{}", sum / 20_000.0);
        assert!((estimator.burst() - 1.05).abs() < 0.4, "{}", estimator.burst());
    }

    #[test]
    fn the_deviation_is_that_of_the_packets_seen_and_remembered() {
        let mut estimator = LossEstimator::default();
        let mut after = |packets: u64| {
            (0..packets).for_each(|n| estimator.on_outcome(Instant::ZERO, n % 5 == 4));
            estimator.deviation()
        };
        assert!((after(25) - 0.08).abs() < 1e-9);
        assert!((after(10_000) - 0.025).abs() < 0.001);
    }

    #[test]
    fn what_an_idle_path_lost_is_forgotten_and_one_lost_probe_is_no_alarm() {
        let mut estimator = LossEstimator::default();
        let at = Instant::from_millis;
        // Fifty packets a second, of which an eighth is lost, and one a second since then.
        (0..500).for_each(|n| estimator.on_outcome(at(n * 20), n % 8 == 0));
        assert!((estimator.loss() - 0.125).abs() < 0.01, "{}", estimator.loss());
        assert!(estimator.loss_at(at(310_000)) < 0.05, "nobody asked for five minutes");
        (10..50).for_each(|second| estimator.on_outcome(at(second * 1_000), false));
        assert!(estimator.loss() < 0.05, "{}", estimator.loss());
        (50..80).for_each(|second| estimator.on_outcome(at(second * 1_000), false));
        assert!(estimator.loss() < 0.005, "{}", estimator.loss());
        estimator.on_outcome(at(80_000), true);
        assert!(estimator.loss() < 0.05, "{}", estimator.loss());
        // Where a third is lost for good, that is seen.
        let mut seen: Vec<f64> = Vec::new();
        for second in 81..381 {
            estimator.on_outcome(at(second * 1_000), second % 3 == 0);
            seen.push(estimator.loss());
        }
        assert!(seen[60..].iter().all(|loss| (0.1..0.4).contains(loss)), "{seen:?}");
    }

    #[test]
    fn of_a_busy_path_time_makes_nothing_forgotten() {
        let (mut busy, mut at_once) = (LossEstimator::default(), LossEstimator::default());
        for n in 0..1_000_u64 {
            busy.on_outcome(Instant::from_millis(n * 250), n % 11 == 0);
            at_once.on_outcome(Instant::ZERO, n % 11 == 0);
        }
        assert_eq!((busy.loss(), busy.deviation()), (at_once.loss(), at_once.deviation()));
    }

    #[test]
    fn bursts_are_measured() {
        let mut estimator = LossEstimator::default();
        for packet in 0..4_000 {
            estimator.on_outcome(Instant::ZERO, packet % 100 < 5);
        }
        assert!((estimator.burst() - 5.0).abs() < 1e-9);
        assert!((estimator.loss() - 0.05).abs() < 0.02);
    }
}
