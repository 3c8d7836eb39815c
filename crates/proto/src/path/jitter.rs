//! How much the delay of a path varies from one packet to the next, whatever is sent.
//!
//! ```text
//! change = delay of the newest packet acknowledged − that of the one before
//!          − what a queue of our own packets grew by meanwhile, at the rate of the hop
//! back   = 2 · the smaller of this change and the one before, where one goes up and one down,
//!          less what two full datagrams take at the hop
//! jitter ← jitter + (back − jitter)/16                                        [RFC 3550 §6.4.1]
//! noise  = 4 · jitter                     as many deviations as a timeout allows for [RFC 6298 §2]
//! ```
//! A queue that fills or drains goes one way for many packets: what goes up and comes straight back
//! is none. Of delays that do not depend on each other `back` has the mean that RFC 3550 takes, the
//! difference of neighbours. What one datagram waits for another comes straight back too, and
//! is a queue all the same: on a thin hop that is most of it, so it is taken off.

use units::{Duration, Instant, Rate};

use super::bottleneck::Sent;
use crate::limits::{IP_AND_UDP, MAX_DATAGRAM};

/// Follows how much the delay varies.
#[derive(Clone, Debug, Default)]
pub(super) struct Jitter {
    mean: Duration,
    /// The delay of the newest packet, and its last change, microseconds.
    delay: Option<i64>,
    change: i64,
    /// How long what was sent until then had to wait for the hop, by its rate.
    queue: Duration,
    queue_at: Instant,
}

impl Jitter {
    /// Takes the delay of the newest packet acknowledged, microseconds, the rate of the hop, and
    /// the acknowledged packets, in the order of sending.
    pub(super) fn on_ack(&mut self, delay: i64, rate: Option<Rate>, packets: &[Sent]) {
        let takes =
            |bytes: u64| rate.map_or(Duration::ZERO, |rate| rate.transmission_time(bytes as usize));
        let before = self.queue;
        for (sent_at, bytes) in packets {
            let elapsed = sent_at.since(self.queue_at);
            self.queue_at = self.queue_at.max(*sent_at);
            self.queue = self.queue.saturating_sub(elapsed).saturating_add(takes(*bytes));
        }
        let Some(last) = self.delay.replace(delay) else { return };
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let own = micros(self.queue).saturating_sub(micros(before));
        let change = delay.saturating_sub(last).saturating_sub(own);
        let before = std::mem::replace(&mut self.change, change);
        let smaller = change.unsigned_abs().min(before.unsigned_abs());
        let comes_back = change.signum() * before.signum() < 0;
        let back = if comes_back { smaller.saturating_mul(2) } else { 0 };
        let two = takes(2 * (MAX_DATAGRAM as u64 + IP_AND_UDP));
        let back = Duration::from_micros(back).saturating_sub(two);
        self.mean = (self.mean * 15).saturating_add(back) / 16;
    }

    /// Returns by how much a delay may exceed the least where there is no queue.
    pub(super) fn noise(&self) -> Duration {
        self.mean * 4
    }
}

#[cfg(test)]
mod tests {
    use units::Rng;

    use super::*;

    const RATE: Rate = Rate::from_bps(100_000_000);

    /// Sends 1,200 bytes every 20 ms, with these delays, ms; returns the noise, ms.
    fn noise(rate: Rate, delays: impl Iterator<Item = f64>) -> f64 {
        let mut jitter = Jitter::default();
        for (n, delay) in (0..).zip(delays) {
            let sent = [(Instant::from_millis(1_000 + 20 * n), 1_200)];
            jitter.on_ack((delay * 1e3) as i64, Some(rate), &sent);
        }
        jitter.noise().as_secs_f64() * 1e3
    }

    #[test]
    fn of_independent_delays_it_is_four_times_the_difference_of_neighbours() {
        let (mut rng, mut sum) = (Rng::new(1), 0.0);
        let delay = |rng: &mut Rng| 30.0 + 8.0 * rng.normal();
        for _ in 0..200 {
            sum += noise(RATE, std::iter::repeat_with(|| delay(&mut rng)).take(200));
        }
        // 1.128 deviations, less 0.24 ms for two datagrams.
        let mean = sum / 200.0;
        assert!((30.0..39.0).contains(&mean), "{mean}");
    }

    #[test]
    fn a_queue_that_fills_and_drains_has_none() {
        let ramp = |n: i32| f64::from((n % 40 - 20).abs()) * 10.0;
        let noise = noise(RATE, (0..400).map(ramp));
        assert!(noise < 6.0, "{noise}: its turns alone");
    }

    /// A peer says when it received a packet, and may say anything.
    #[test]
    fn absurd_delays_are_forgotten_within_seconds() {
        let absurd = |n: i32| if n < 100 && n % 2 == 0 { 9e12 } else { 30.0 };
        assert!(noise(RATE, (0..1_000).map(absurd)) < 1.0);
    }

    #[test]
    fn nor_has_what_one_datagram_waits_for_another_at_a_thin_hop() {
        let kbps = |kbps: u64| Rate::from_bps(kbps * 1_000);
        let one_in_two = |n: i32| if n % 2 == 0 { 30.0 } else { 54.0 };
        assert!(noise(kbps(500), (0..400).map(one_in_two)) < 0.1);
        assert!(noise(kbps(50_000), (0..400).map(one_in_two)) > 80.0);
    }
}
