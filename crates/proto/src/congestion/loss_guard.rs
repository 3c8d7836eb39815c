//! Tells loss that sending less would avoid from loss that the path always has.
//!
//! ```text
//! block    = one round trip and at least 100 packets, more where much is lost
//! loss     = lost / (lost + delivered) in the block
//! excess   ⇔ loss > usual + 5 % + 2 √(u (1 − u) / packets),  u = usual + 1 %
//! usual    ← usual + (loss − usual)/3   where loss is less
//! usual    ← usual + (loss − usual)/2   where sending less after an excess did not help: nine tenths
//!            of the loss stay, as far as bursts do not explain less
//! v        ← v + (100 · (loss − always)² − v)/8      per 100 packets that met a short queue; it takes
//!            the place of u (1 − u) where it is more than twice as much
//!
//! also, where the queue varies:
//! always   = loss of the last 1,000 packets that met a queue of no more than half the longest
//! excess   ⇔ loss of 400 packets > always + 0.5 % + 2.5 √(u (1 − u) (1/400 + 1/packets)),
//!            u = always + 0.3 %
//! ```
//! Radio loss is there at any rate; congestion loss goes when the rate falls. So the usual loss may
//! only rise after that was tried: upon an excess the caller sends less, and the next whole block
//! shows whether it helped. A block that straddles the cut shows nothing.
//!
//! A radio loses in bursts, so that its blocks differ by more than independent losses would make
//! them: v says how much, blocks grow longer with it, and one lucky block after a cut does not
//! prove that the cut helped.
//!
//! Where other flows fill what one flow leaves, that trial shows nothing either, and 5 % is more
//! than they bear. But a buffer loses packets only when it is full, a radio at any time: so the
//! loss of packets that met a short queue is what the path always has, and even a small excess over
//! it can be told from chance.

use units::{Duration, Instant};

use super::standing_queue::TELLING;
use crate::recovery::LOSS_DOUBT;

/// The least number of packets whose share of loss means something, 5 % for one, and more than a
/// burst has: of a block, of those that give one deviation, of those that met a short queue.
const BLOCK: f64 = 100.0;
/// Packets of a block per variance of the usual loss: two deviations are then 3.3 %.
const CERTAIN: f64 = 3_600.0;
/// Packets over which loss is averaged at most, in a block or at short queues: two seconds of
/// video.
const MEMORY: f64 = 1_000.0;
/// What loss may exceed the usual by, besides chance.
const MARGIN: f64 = 0.05;
/// This many lost packets, at this share of all, are heavy loss even before the block is complete.
const HEAVY: (f64, f64) = (10.0, 0.3);

/// How far the loss of a fine block may lie above that at short queues before it is more than
/// chance.
const FINE_MARGIN: f64 = 0.005;
/// The loss at short queues may be underestimated by this much.
const FINE_DOUBT: f64 = 0.003;
/// Standard deviations of a fine block that are still chance.
const FINE_CHANCE: f64 = 2.5;
/// How long the longest queue is remembered, at least.
const LONGEST_MEMORY: Duration = Duration::from_secs(5);

/// The loss of packets that met a short queue.
#[derive(Clone, Debug, Default)]
struct ShortQueue {
    /// The longest queue since `since`, and in the period before.
    since: Instant,
    longest: [Duration; 2],
    /// Whether the queue is short at the moment.
    is_short: bool,
    lost: f64,
    all: f64,
    /// Lost packets, and all packets, of the chunk under way.
    chunk: (f64, f64),
    /// v.
    spread: f64,
}

impl ShortQueue {
    fn on_queue(&mut self, now: Instant, queue: Duration) {
        if now.since(self.since) > LONGEST_MEMORY {
            (self.since, self.longest) = (now, [Duration::ZERO, self.longest[0]]);
        }
        self.longest[0] = self.longest[0].max(queue);
        let longest = self.longest[0].max(self.longest[1]);
        self.is_short = longest >= TELLING && queue <= longest / 2;
    }

    /// Tells whether there was no queue for seconds: what is lost then is not lost to a full
    /// buffer.
    fn is_calm(&self) -> bool {
        self.longest[0].max(self.longest[1]) < TELLING
    }

    fn count(&mut self, lost: f64, delivered: f64) {
        if !self.is_short && !self.is_calm() {
            return;
        }
        let kept = (1.0 - (lost + delivered) / MEMORY).max(0.0);
        self.lost = self.lost * kept + lost;
        self.all = self.all * kept + lost + delivered;
        self.chunk = (self.chunk.0 + lost, self.chunk.1 + lost + delivered);
        let (lost, all) = self.chunk;
        if all >= BLOCK {
            let deviation = lost / all - self.lost / self.all;
            self.spread += (all * deviation * deviation - self.spread) / 8.0;
            self.chunk = (0.0, 0.0);
        }
    }

    /// Returns the loss, where it is known and short queues can be told from long ones.
    fn loss(&self) -> Option<f64> {
        (self.all >= BLOCK && !self.is_calm()).then(|| self.lost / self.all)
    }

    /// Tells whether losses come in bursts: v is more than twice the variance of independent ones.
    fn is_bursty(&self, independent: f64) -> bool {
        self.spread > 2.0 * independent
    }

    /// Returns v where losses come in bursts, else nothing.
    fn bursts(&self) -> f64 {
        let loss = self.lost / self.all.max(1.0);
        if self.is_bursty(loss * (1.0 - loss)) { self.spread } else { 0.0 }
    }

    /// Returns the variance of a packet's fate where `loss` is the share that is lost.
    fn variance(&self, loss: f64) -> f64 {
        let independent = loss * (1.0 - loss).max(0.0);
        if self.is_bursty(independent) { self.spread } else { independent }
    }
}

/// An excess of loss that may go when less is sent.
#[derive(Clone, Copy, Debug)]
struct Excess {
    loss: f64,
    /// The block under way straddles the cut.
    straddles: bool,
}

/// Judges loss block by block.
#[derive(Clone, Debug, Default)]
pub(super) struct LossGuard {
    short: ShortQueue,
    /// The fine block: lost and delivered packets since `fine_from`.
    fine: (f64, f64),
    fine_from: Instant,
    lost: f64,
    delivered: f64,
    block_began: Instant,
    usual: Option<f64>,
    last: f64,
    excess: Option<Excess>,
}

impl LossGuard {
    /// Notes the queue met by the packets that were just acknowledged or lost.
    pub(super) fn on_queue(&mut self, now: Instant, queue: Duration) {
        self.short.on_queue(now, queue);
    }

    pub(super) fn on_lost(&mut self, packets: f64) {
        self.lost += packets;
        self.fine.0 += packets;
        self.short.count(packets, 0.0);
    }

    /// Takes back packets that were late, not lost.
    pub(super) fn on_late(&mut self, packets: f64) {
        self.lost = (self.lost - packets).max(0.0);
        self.fine.0 = (self.fine.0 - packets).max(0.0);
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
        self.fine.1 += packets;
        self.short.count(0.0, packets);
        if self.is_fine_excess(now, rtt) {
            (self.lost, self.delivered, self.block_began, self.excess) = (0.0, 0.0, now, None);
            return Some(true);
        }
        let all = self.lost + self.delivered;
        let variance = self.short.variance(self.usual());
        if all < (CERTAIN * variance).clamp(BLOCK, MEMORY) || now.since(self.block_began) < rtt {
            return None;
        }
        let loss = self.lost / all;
        let usual = self.usual.unwrap_or(loss);
        (self.lost, self.delivered, self.block_began, self.last) = (0.0, 0.0, now, loss);
        if let Some(Excess { straddles: straddles @ true, .. }) = &mut self.excess {
            *straddles = false;
            return Some(false);
        }
        let before = self.excess.take();
        let calm = self.short.is_calm();
        let luck = if calm { 2.0 * (self.short.bursts() / all).sqrt() } else { 0.0 };
        let in_vain = before.is_some_and(|before| {
            // Sending less helps where it leaves less than nine tenths.
            let stays = loss >= 0.9 * before.loss - luck;
            stays && (!calm || loss > self.bound(usual, all))
        });
        // A third of the way down; up half of it, or all where there is no queue.
        let weight = if loss < usual {
            1.0 / 3.0
        } else if in_vain && calm {
            1.0
        } else if in_vain {
            0.5
        } else {
            0.0
        };
        let learned = usual + weight * (loss - usual);
        self.usual = Some(learned);
        let excess = loss > self.bound(learned, all);
        self.excess = excess.then_some(Excess { loss, straddles: true });
        Some(excess)
    }

    /// Returns the loss of a block of `packets` beyond which it is an excess.
    fn bound(&self, usual: f64, packets: f64) -> f64 {
        let variance = self.short.variance(usual + LOSS_DOUBT);
        usual + MARGIN + 2.0 * (variance / packets).sqrt()
    }

    /// Judges a fine block, of four times as many packets, when it is complete.
    fn is_fine_excess(&mut self, now: Instant, rtt: Duration) -> bool {
        if now < self.fine_from {
            self.fine = (0.0, 0.0);
        }
        let all = self.fine.0 + self.fine.1;
        if all < 4.0 * BLOCK || now.since(self.fine_from) < rtt {
            return false;
        }
        let loss = self.fine.0 / all;
        (self.fine, self.fine_from) = ((0.0, 0.0), now);
        let Some(always) = self.short.loss() else { return false };
        let variance =
            self.short.variance(always + FINE_DOUBT) * (1.0 / all + 1.0 / self.short.all);
        let excess = loss > always + FINE_MARGIN + FINE_CHANCE * variance.sqrt();
        if excess {
            // Until then the news is of packets sent before the cut.
            self.fine_from = now + rtt;
        }
        excess
    }

    /// Tells whether the block under way already shows heavy loss.
    pub(super) fn is_heavy(&self) -> bool {
        let all = self.lost + self.delivered;
        self.lost >= HEAVY.0 && self.lost - self.usual() * all > HEAVY.1 * all
    }

    /// Returns what the path loses at any rate, as far as is known.
    pub(super) fn usual(&self) -> f64 {
        self.usual.unwrap_or_default()
    }

    /// Returns the loss of the last block.
    pub(super) fn last(&self) -> f64 {
        self.last
    }

    /// Tells whether there was no queue for seconds.
    pub(super) fn is_calm(&self) -> bool {
        self.short.is_calm()
    }

    /// Forgets the block under way: the path was silent.
    pub(super) fn on_silence(&mut self, now: Instant) {
        (self.lost, self.delivered, self.block_began, self.excess) = (0.0, 0.0, now, None);
        (self.fine, self.fine_from) = ((0.0, 0.0), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    /// Feeds `seconds` of 500 packets/s; returns the share of blocks in excess.
    fn excess(
        guard: &mut LossGuard,
        rng: &mut Rng,
        from_s: u64,
        seconds: u64,
        mut loss: impl FnMut(bool) -> f64,
    ) -> f64 {
        let (mut blocks, mut bad, mut cut) = (0.0, 0.0, false);
        for tick in 0..seconds * 500 {
            let now = Instant::from_millis(from_s * 1_000 + tick * 2);
            if rng.chance(loss(cut)) {
                guard.on_lost(1.0);
            } else if let Some(verdict) = guard.on_delivered(now, 1.0, Duration::from_millis(50)) {
                blocks += 1.0;
                bad += f64::from(u8::from(verdict));
                cut = verdict || (cut && guard.excess.is_some());
            }
        }
        bad / blocks
    }

    #[test]
    fn radio_loss_becomes_usual_at_any_height() {
        for loss in [0.0, 0.02, 0.1, 0.284] {
            let (mut guard, mut rng) = (LossGuard::default(), Rng::new(1));
            excess(&mut guard, &mut rng, 0, 10, |_| loss);
            let usual = excess(&mut guard, &mut rng, 10, 200, |_| loss);
            assert!(usual < 0.05, "{loss}: {usual}");
            excess(&mut guard, &mut rng, 210, 3, |_| loss + 0.25);
            let usual = excess(&mut guard, &mut rng, 213, 100, |_| loss + 0.25);
            assert!(usual < 0.06, "{loss}: {usual}");
        }
    }

    #[test]
    fn loss_that_goes_when_less_is_sent_never_becomes_usual() {
        for loss in [0.0, 0.02, 0.1] {
            let (mut guard, mut rng) = (LossGuard::default(), Rng::new(1));
            excess(&mut guard, &mut rng, 0, 10, |_| loss);
            let overload = |cut| if cut { loss + 0.05 } else { loss + 0.25 };
            let bad = excess(&mut guard, &mut rng, 10, 200, overload);
            assert!(bad > 0.25, "{loss}: {bad}");
            assert!(guard.usual() < loss + 0.06, "{loss}: {}", guard.usual());
        }
    }

    #[test]
    fn loss_at_a_full_buffer_alone_is_in_excess_at_two_per_cent() {
        for (at_short, excessive) in [(0.0, true), (0.02, false)] {
            let (mut guard, mut rng) = (LossGuard::default(), Rng::new(1));
            let (mut blocks, mut bad) = (0.0, 0.0);
            for tick in 0..100_000 {
                let now = Instant::from_millis(tick * 2);
                // A quarter of the time the queue is short.
                let short = tick % 400 < 100;
                guard.on_queue(now, Duration::from_millis(if short { 2 } else { 20 }));
                if rng.chance(if short { at_short } else { 0.027 - at_short / 3.0 }) {
                    guard.on_lost(1.0);
                } else if let Some(v) = guard.on_delivered(now, 1.0, Duration::from_millis(50)) {
                    blocks += 1.0;
                    bad += f64::from(u8::from(v));
                }
            }
            assert_eq!(bad / blocks > 0.05, excessive, "{at_short}: {bad} of {blocks}");
        }
    }
}
