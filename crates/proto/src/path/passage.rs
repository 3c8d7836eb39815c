//! Tells a queue from a path that has become longer: packets that queue at a hop leave at the hop's
//! pace; packets that merely travel longer arrive spaced as they were sent.
//!
//! ```text
//! as sent    = Σ |time between receptions − time between sendings|
//! as served  = Σ |time between receptions − bytes / rate|       rate: of what came meanwhile
//! passes     ⇔ as sent ≤ as served / 2, the latter 1 ms in the mean at least,
//!              and the last reception came as it was sent within 2 ms
//! ```
//! Behind a queue the first sum is what the queue changes by. On a path whose delay has jumped it
//! is next to nothing, while the measured rate follows what we send. The sums forget within 16
//! receptions. A packet that arrives otherwise than it was sent may be the first behind a hop that
//! has slowed down, and is believed at once.

use units::Duration;

use super::bottleneck::JITTER;
use crate::recovery::GRANULARITY;

/// Receptions that the sums remember.
const MEMORY: f64 = 16.0;
/// Fewer receptions prove nothing.
const ENOUGH: f64 = 6.0;
/// Packets further apart than this say nothing about each other.
const PAUSE: Duration = Duration::from_millis(100);

/// Compares how packets came with how they were sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passage {
    count: f64,
    bytes: f64,
    seconds: f64,
    as_sent: f64,
    as_served: f64,
    /// How far the last reception was from coming as it was sent, seconds.
    last: f64,
}

impl Passage {
    /// Takes a packet that was received `received` after the one before it, and sent `sent` after
    /// that one.
    pub(super) fn on_reception(&mut self, received: Duration, sent: Duration, bytes: u64) {
        if received > PAUSE || sent > PAUSE {
            return;
        }
        let (received, sent, bytes) = (received.as_secs_f64(), sent.as_secs_f64(), bytes as f64);
        let add = |sum: f64, value: f64| sum * (1.0 - 1.0 / MEMORY) + value;
        self.count = add(self.count, 1.0);
        self.bytes = add(self.bytes, bytes);
        self.seconds = add(self.seconds, received);
        let served = bytes * self.seconds / self.bytes;
        self.last = (received - sent).abs();
        self.as_sent = add(self.as_sent, self.last);
        self.as_served = add(self.as_served, (received - served).abs());
    }

    /// Tells whether packets come as they were sent, so that what delays them is no queue of ours:
    /// that explains their times at least twice as well.
    pub(super) fn passes(&self) -> bool {
        let noise = GRANULARITY.as_secs_f64() * self.count;
        let tells = self.count >= ENOUGH && self.as_served >= noise;
        tells && self.last < JITTER.as_secs_f64() && self.as_sent * 2.0 <= self.as_served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends bursts of four datagrams every 20 ms; `receives` gives the times between receptions.
    fn bursts(passage: &mut Passage, receives: impl Fn(u64) -> Duration) {
        for n in 0..40 {
            let sent = Duration::from_millis(if n % 4 == 0 { 17 } else { 1 });
            passage.on_reception(receives(n), sent, 1_200);
        }
    }

    fn as_sent(n: u64) -> Duration {
        Duration::from_millis(if n.is_multiple_of(4) { 17 } else { 1 })
    }

    #[test]
    fn bursts_that_come_as_bursts_pass_and_those_that_a_hop_spreads_do_not() {
        let (mut free, mut queued) = (Passage::default(), Passage::default());
        bursts(&mut free, as_sent);
        bursts(&mut queued, |_| Duration::from_millis(5));
        assert!(free.passes());
        assert!(!queued.passes());
    }

    #[test]
    fn the_first_datagram_behind_a_slower_hop_is_believed_and_a_jump_is_soon_forgotten() {
        let mut passage = Passage::default();
        bursts(&mut passage, as_sent);
        passage.on_reception(Duration::from_millis(21), Duration::from_millis(1), 1_200);
        assert!(!passage.passes());
        bursts(&mut passage, as_sent);
        assert!(passage.passes(), "only the delay has grown");
    }

    #[test]
    fn what_comes_at_one_pace_tells_nothing() {
        let mut passage = Passage::default();
        let pace = Duration::from_millis(20);
        (0..40).for_each(|_| passage.on_reception(pace, pace, 1_200));
        assert!(!passage.passes());
    }
}
