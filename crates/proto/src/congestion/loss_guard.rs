//! Tells loss that sending less would avoid from loss that the path always has.
//!
//! ```text
//! block    = at least 100 packets and one round trip
//! loss     = lost / (lost + delivered) in the block
//! excess   ⇔ loss > usual + 5 % + 3 √(usual (1 − usual) / packets)
//! usual    ← usual + w (loss − usual),  w = 1/3 downwards, 1/12 upwards
//! ```
//! Radio loss is there at any rate, congestion loss comes with the rate and goes when the rate
//! falls: before it could become usual, if whoever asks sends less.

use units::{Duration, Instant};

/// Packets of a block; their least number makes 5 % mean something.
const BLOCK: f64 = 100.0;
/// What loss may exceed the usual by, besides chance.
const MARGIN: f64 = 0.05;
/// How fast the usual loss follows downwards …
const DOWN: f64 = 1.0 / 3.0;
/// … and upwards: a radio that has become worse is usual after a dozen blocks.
const UP: f64 = 1.0 / 12.0;

/// Judges loss block by block.
#[derive(Clone, Debug)]
pub(super) struct LossGuard {
    lost: f64,
    delivered: f64,
    block_began: Instant,
    usual: Option<f64>,
    last: f64,
}

impl LossGuard {
    pub(super) fn new() -> Self {
        let block_began = Instant::ZERO;
        Self { lost: 0.0, delivered: 0.0, block_began, usual: None, last: 0.0 }
    }

    pub(super) fn on_lost(&mut self, packets: f64) {
        self.lost += packets;
    }

    /// Notes delivered packets. Returns whether loss was in excess, once per block; the first
    /// block sets what is usual.
    pub(super) fn on_delivered(
        &mut self,
        now: Instant,
        packets: f64,
        rtt: Duration,
    ) -> Option<bool> {
        self.delivered += packets;
        let all = self.lost + self.delivered;
        if all < BLOCK || now.since(self.block_began) < rtt {
            return None;
        }
        let loss = self.lost / all;
        let usual = self.usual.unwrap_or(loss);
        let chance = 3.0 * (usual * (1.0 - usual) / all).sqrt();
        let weight = if loss < usual { DOWN } else { UP };
        self.usual = Some(usual + weight * (loss - usual));
        (self.lost, self.delivered, self.block_began, self.last) = (0.0, 0.0, now, loss);
        Some(loss > usual + MARGIN + chance)
    }

    /// Returns the loss of the last block.
    pub(super) fn last(&self) -> f64 {
        self.last
    }

    /// Forgets the block under way: the path was silent.
    pub(super) fn on_silence(&mut self, now: Instant) {
        (self.lost, self.delivered, self.block_began) = (0.0, 0.0, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    /// Feeds `seconds` of 500 packets/s with the given loss; returns the share of blocks in excess.
    fn excess(guard: &mut LossGuard, rng: &mut Rng, from_s: u64, seconds: u64, loss: f64) -> f64 {
        let (mut blocks, mut bad) = (0.0, 0.0);
        for tick in 0..seconds * 500 {
            let now = Instant::from_millis(from_s * 1_000 + tick * 2);
            if rng.chance(loss) {
                guard.on_lost(1.0);
            } else if let Some(verdict) = guard.on_delivered(now, 1.0, Duration::from_millis(50)) {
                blocks += 1.0;
                bad += f64::from(u8::from(verdict));
            }
        }
        bad / blocks
    }

    #[test]
    fn constant_loss_is_no_excess_and_a_rise_is() {
        for loss in [0.0, 0.02, 0.1, 0.284] {
            let (mut guard, mut rng) = (LossGuard::new(), Rng::new(1));
            excess(&mut guard, &mut rng, 0, 10, loss);
            let usual = excess(&mut guard, &mut rng, 10, 200, loss);
            assert!(usual < 0.01, "{loss}: {usual}");
            let risen = excess(&mut guard, &mut rng, 210, 1, loss + 0.25);
            assert!(risen > 0.5, "{loss}: {risen}");
            excess(&mut guard, &mut rng, 211, 9, loss + 0.25);
            let usual = excess(&mut guard, &mut rng, 220, 20, loss + 0.25);
            assert!(usual < 0.01, "{loss}: {usual}");
        }
    }
}
