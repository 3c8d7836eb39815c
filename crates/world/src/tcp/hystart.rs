//! HyStart as Linux's CUBIC has it: slow start ends before the queue overflows.
//!
//! ```text
//! train of ACKs: ACKs at most 2 ms apart that go on for (min_rtt + 1 ms)/2 from the round's beginning
//! delay:         least RTT of the round > min_rtt + clamp(min_rtt/8, 4 ms, 16 ms), after 8 samples
//! either → ssthresh = cwnd
//! ```
//! Source: S. Ha, I. Rhee: *Taming the elephants: New TCP slow start* (2011), and `tcp_cubic.c` of
//! Linux for the constants. *Deviation from Linux*: the 1 ms for bursts is less there at rates
//! beyond 1 Gbit/s.

use units::{Duration, Instant};

use super::congestion::Moment;

/// Windows below this many segments are left alone.
pub(super) const LOW_WINDOW: u32 = 16;
/// Samples of a round before its delay says something.
const MIN_SAMPLES: u32 = 8;
/// How far apart the ACKs of a train may be.
const ACK_DELTA: Duration = Duration::from_millis(2);
/// What bursts of one sender add to a train.
const BURST: Duration = Duration::from_millis(1);
const DELAY_MIN: Duration = Duration::from_millis(4);
const DELAY_MAX: Duration = Duration::from_millis(16);

/// Watches the rounds of one slow start.
#[derive(Debug)]
pub(super) struct HyStart {
    found: bool,
    round_start: Instant,
    last_ack: Instant,
    round_ends: u64,
    least: Duration,
    samples: u32,
}

impl HyStart {
    /// Begins to watch, with a round that ends at once.
    pub(super) fn new(moment: Moment) -> Self {
        Self {
            found: false,
            round_start: moment.now,
            last_ack: moment.now,
            round_ends: moment.next,
            least: Duration::MAX,
            samples: 0,
        }
    }

    /// Takes a round-trip time; true when slow start is to end, which it says once.
    pub(super) fn on_round_trip(&mut self, moment: Moment, rtt: Duration, min: Duration) -> bool {
        if self.found {
            return false;
        }
        if moment.una > self.round_ends {
            *self = Self::new(moment);
        }
        if moment.now.since(self.last_ack) <= ACK_DELTA {
            self.last_ack = moment.now;
            self.found = moment.now.since(self.round_start) > (min + BURST) / 2;
        }
        self.least = self.least.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else {
            self.found |= self.least > min + (min / 8).clamp(DELAY_MIN, DELAY_MAX);
        }
        self.found
    }
}
