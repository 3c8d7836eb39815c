//! Round-trip time of one path: smoothed, its variation, and the least of the last seconds.
//!
//! ```text
//! rttvar ← 3/4 rttvar + 1/4 |srtt − rtt|        srtt ← 7/8 srtt + 1/8 rtt      [RFC 9002 §5.3]
//! min_rtt ← least rtt of the last 10 s                                          [RFC 9002 §5.2]
//! ```
//!
//! *Deviations*: min_rtt forgets after ten seconds, because a drone's route changes in flight; the
//! acknowledgement delay is taken off min_rtt too, because our peer reports it exactly. The caller
//! decides which samples are fit for use: see [`crate::path`] on stalls.

use units::{Duration, Instant};

use super::least_of::LeastOf;
use crate::limits;

/// Assumed until the first sample, as RFC 9002 §6.2.2 advises, but shorter: a drone's link is not
/// the whole Internet. It is the one first guess of a round-trip time; the pauses before something
/// is repeated to an address that never answered are shorter, because a repetition costs little.
pub(crate) const INITIAL_RTT: Duration = Duration::from_millis(200);
/// The precision of the operating system's timers, and of the times at which receptions are noted:
/// smaller differences of time say nothing [RFC 9002 §6.1.2].
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);
/// The standing round-trip time is the least of this many samples: jitter alone seldom delays them
/// all.
const STANDING: usize = 8;
/// The longest that an acknowledgement waits anywhere, which is on a slow path, for a datagram to
/// ride in. A peer that claims more is not believed. Elsewhere it waits `MAX_ACK_DELAY` at most.
pub(crate) const SLOW_ACK_DELAY: Duration = Duration::from_millis(150);

/// Estimates the round-trip time of one path [RFC 9002 §5].
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    /// What counts until there is a sample.
    initial: Duration,
    latest: Duration,
    smoothed: Option<(Duration, Duration)>,
    minimum: LeastOf<Duration>,
    recent: [Duration; STANDING],
    samples: usize,
}

impl RttEstimator {
    pub(crate) fn new() -> Self {
        Self {
            initial: INITIAL_RTT,
            latest: INITIAL_RTT,
            smoothed: None,
            minimum: LeastOf::default(),
            recent: [Duration::MAX; STANDING],
            samples: 0,
        }
    }

    /// Learns how long the handshake's answer took at most. Until there is a sample, the path may
    /// be as slow as that: 1.2 s over a link of 10 kbit/s. What took longer than a session waits in
    /// silence was an outage.
    pub(crate) fn suppose(&mut self, at_most: Duration) {
        self.initial = at_most.clamp(INITIAL_RTT, limits::SILENCE);
    }

    /// Takes a sample: the time from sending a packet to its acknowledgement, and how long the
    /// peer says it held the acknowledgement back. Returns the sample without that delay.
    pub(crate) fn on_sample(
        &mut self,
        now: Instant,
        rtt: Duration,
        ack_delay: Duration,
    ) -> Duration {
        let delay = if ack_delay > SLOW_ACK_DELAY { Duration::ZERO } else { ack_delay };
        let rtt = rtt.saturating_sub(delay).max(Duration::from_micros(1));
        self.latest = rtt;
        self.recent[self.samples % STANDING] = rtt;
        self.samples = self.samples.wrapping_add(1);
        self.minimum.on_sample(now, rtt, true);
        self.smoothed = Some(self.smoothed.map_or((rtt, rtt / 2), |known| smoothed(known, rtt)));
        rtt
    }

    /// Forgets everything and starts again from one sample: the route has changed.
    pub(crate) fn reset(&mut self, now: Instant, rtt: Duration) {
        *self = Self::new();
        self.on_sample(now, rtt, Duration::ZERO);
    }

    /// Returns the smoothed round-trip time, once there was a sample.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|(srtt, _)| srtt)
    }

    /// Returns the smoothed round-trip time or, before any sample, the initial guess.
    pub(crate) fn srtt_or_initial(&self) -> Duration {
        self.srtt().unwrap_or(self.initial)
    }

    /// Returns the mean deviation of the round-trip time, once there was a sample.
    pub(crate) fn rttvar(&self) -> Option<Duration> {
        self.smoothed.map(|(_, rttvar)| rttvar)
    }

    /// Returns the latest sample.
    pub(crate) fn latest(&self) -> Duration {
        self.latest
    }

    /// Returns how long packets queue on the way, judging by the latest samples: by how much the
    /// least of them exceeds that of the last ten seconds.
    ///
    /// A plain answer for every path, whatever controls it. The estimator of the delay-bounded
    /// controller (`congestion/standing_queue.rs`) is another one, because that controller keeps a
    /// queue on purpose and so must know noise, its own dry spells and routes that become longer.
    pub(crate) fn standing_queue(&self) -> Duration {
        let standing = self.recent.iter().copied().min().unwrap_or_default();
        self.minimum.least().map_or(Duration::ZERO, |least| standing - least)
    }

    /// Returns the least sample of the last ten seconds in which there were samples: an idle path
    /// keeps what it knew.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.minimum.least()
    }

    /// Returns the age at which an unanswered packet is overdue: srtt + 4·rttvar [RFC 9002 §6.2.1].
    pub(crate) fn probe_timeout(&self) -> Duration {
        match self.smoothed {
            None => self.initial * 2,
            Some((srtt, rttvar)) => srtt + (rttvar * 4).max(GRANULARITY),
        }
    }
}

/// Returns a smoothed round-trip time and its variation after one more sample [RFC 9002 §5.3].
pub(crate) fn smoothed(
    (srtt, rttvar): (Duration, Duration),
    rtt: Duration,
) -> (Duration, Duration) {
    ((srtt * 7 + rtt) / 8, (rttvar * 3 + srtt.abs_diff(rtt)) / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn first_sample_sets_srtt_and_half_of_it_as_variation() {
        let mut rtt = RttEstimator::new();
        assert_eq!((rtt.srtt(), rtt.probe_timeout()), (None, INITIAL_RTT * 2));
        rtt.on_sample(Instant::ZERO, 30 * MS, 10 * MS);
        assert_eq!(
            (rtt.srtt(), rtt.rttvar(), rtt.min_rtt()),
            (Some(20 * MS), Some(10 * MS), Some(20 * MS))
        );
        assert_eq!(rtt.probe_timeout(), 60 * MS);
    }

    #[test]
    fn an_absurd_ack_delay_is_not_believed() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(Instant::ZERO, 30 * MS, Duration::from_secs(3_000));
        assert_eq!(rtt.srtt(), Some(30 * MS));
    }

    #[test]
    fn min_rtt_forgets_after_ten_seconds_with_samples() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(Instant::ZERO, 20 * MS, Duration::ZERO);
        for tenth in 1..95 {
            rtt.on_sample(Instant::from_millis(tenth * 100), 50 * MS, Duration::ZERO);
        }
        assert_eq!(rtt.min_rtt(), Some(20 * MS));
        for tenth in 95..115 {
            rtt.on_sample(Instant::from_millis(tenth * 100), 50 * MS, Duration::ZERO);
        }
        assert_eq!(rtt.min_rtt(), Some(50 * MS));
    }

    #[test]
    fn min_rtt_survives_idle_time() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(Instant::ZERO, 20 * MS, Duration::ZERO);
        rtt.on_sample(Instant::from_millis(3_600_000), 21 * MS, Duration::ZERO);
        assert_eq!(rtt.min_rtt(), Some(20 * MS));
    }
}
