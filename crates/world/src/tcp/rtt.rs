//! Round-trip times and the retransmission timeout, as Linux keeps them.
//!
//! ```text
//! srtt ← srtt + (rtt − srtt)/8        mdev ← mdev + (|rtt − srtt| − mdev)/4, or /32 when rtt fell
//! rttvar = the largest 4·mdev of the last round trip, at least 200 ms
//! RTO = (srtt + rttvar) · 2^backoff ≤ 120 s                                         [RFC 6298 §2]
//! ```
//! *Deviations from the RFC*, all of them Linux's: (1) the least value, 200 ms, is that of the
//! variation, not of the timeout, which is srtt + 200 ms where round trips vary little; (2) the
//! variation falls once a round trip, and hardly where a round trip was short; (3) the first is 1
//! s. *Deviation from Linux*: the least round-trip time is that of the connection, not of five
//! minutes.

use units::Duration;

/// Least variation that the timeout has above the smoothed round-trip time, unless it is said.
pub const RTO_MIN: Duration = Duration::from_millis(200);
/// The longest timeout.
const RTO_MAX: Duration = Duration::from_secs(120);
/// The timeout before a round trip is known [RFC 6298 §2.1].
const RTO_INITIAL: Duration = Duration::from_secs(1);

/// What is known of a connection's round trips.
#[derive(Debug)]
pub(super) struct RoundTrips {
    /// The least variation, in µs.
    least: i64,
    /// Eight times the smoothed time, in µs.
    srtt8: i64,
    /// Four times the mean deviation, in µs.
    mdev4: i64,
    mdev4_max: i64,
    rttvar: i64,
    /// The segment with which the present round trip ends.
    round_ends: u64,
    min: Option<Duration>,
    backoff: u32,
}

impl RoundTrips {
    /// Knows nothing yet but the least variation.
    pub(super) const fn new(least: Duration) -> Self {
        Self {
            least: least.as_micros() as i64,
            srtt8: 0,
            mdev4: 0,
            mdev4_max: 0,
            rttvar: 0,
            round_ends: 0,
            min: None,
            backoff: 0,
        }
    }

    /// Takes a sample; `una` and `next` are the oldest segment that is not acknowledged and the
    /// next new one. What was backed off is forgotten [RFC 6298 §5.7].
    pub(super) fn on_sample(&mut self, rtt: Duration, una: u64, next: u64) {
        let sample = (rtt.as_micros() as i64).max(1);
        self.backoff = 0;
        if self.srtt8 == 0 {
            (self.srtt8, self.mdev4, self.round_ends) = (sample * 8, sample * 2, next);
            self.rttvar = self.mdev4.max(self.least);
            self.mdev4_max = self.rttvar;
            return;
        }
        let error = sample - self.srtt8 / 8;
        self.srtt8 = (self.srtt8 + error).max(1);
        let mut change = error.abs() - self.mdev4 / 4;
        if error < 0 && change > 0 {
            // A round trip that became shorter does not make the timeout longer.
            change /= 8;
        }
        self.mdev4 += change;
        if self.mdev4 > self.mdev4_max {
            self.mdev4_max = self.mdev4;
            self.rttvar = self.rttvar.max(self.mdev4);
        }
        if una > self.round_ends {
            self.rttvar -= (self.rttvar - self.mdev4_max).max(0) / 4;
            (self.round_ends, self.mdev4_max) = (next, self.least);
        }
    }

    /// Takes a sample of what was sent once: the least counts.
    pub(super) fn on_least(&mut self, rtt: Duration) {
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
    }

    /// Returns the smoothed time; none before the first sample.
    pub(super) fn srtt(&self) -> Option<Duration> {
        (self.srtt8 > 0).then(|| Duration::from_micros(self.srtt8 as u64 / 8))
    }

    /// Returns the least time; the smoothed one where nothing else is known.
    pub(super) fn min(&self) -> Duration {
        self.min.or(self.srtt()).unwrap_or_default()
    }

    /// Returns the retransmission timeout.
    pub(super) fn rto(&self) -> Duration {
        let once = self
            .srtt()
            .map_or(RTO_INITIAL, |srtt| srtt + Duration::from_micros(self.rttvar as u64));
        once.saturating_mul(1 << self.backoff.min(20)).min(RTO_MAX)
    }

    /// Doubles the timeout, which has run out.
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_is_srtt_and_200_ms_and_doubles_up_to_120_s() {
        let mut times = RoundTrips::new(RTO_MIN);
        assert_eq!(times.rto(), Duration::from_secs(1));
        for segment in 0..200 {
            times.on_sample(Duration::from_millis(40), segment, segment + 1);
        }
        assert_eq!(times.rto(), Duration::from_millis(240));
        for doubled in 1..20 {
            times.back_off();
            let expected = Duration::from_millis(240) * (1 << doubled);
            assert_eq!(times.rto(), expected.min(RTO_MAX));
        }
        times.on_sample(Duration::from_millis(40), 200, 201);
        assert_eq!(times.rto(), Duration::from_millis(240));
        let mut short = RoundTrips::new(Duration::from_millis(40));
        short.on_sample(Duration::from_millis(20), 0, 1);
        assert_eq!(short.rto(), Duration::from_millis(60));
    }

    #[test]
    fn timeout_covers_round_trips_that_vary() {
        let mut times = RoundTrips::new(RTO_MIN);
        for segment in 0..1_000 {
            let rtt = Duration::from_millis(if segment % 2 == 0 { 50 } else { 500 });
            times.on_sample(rtt, segment, segment + 1);
        }
        assert!(times.rto() > Duration::from_millis(600), "{:?}", times.rto());
    }
}
