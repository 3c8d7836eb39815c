//! A delivery trace in the format of mahimahi: when a link could have delivered 1,500 bytes.
//!
//! One line is one opportunity: whole milliseconds since the start of the trace, in order. A
//! repeated line is one more opportunity in that millisecond; no line for a while is a stretch
//! without bandwidth. The last line is also the length of the trace, after which it begins again.
//!
//! ```text
//! t₁ ≤ t₂ ≤ … ≤ tₙ = period; opportunity i of round k comes at k·period + tᵢ   [mahimahi]
//! ```
//!
//! *Deviations:* an opportunity carries 1,500 bytes of IP packet; mahimahi counts 1,504 because it
//! sees four bytes of header of its TUN device.

use super::{TraceError, telling_lines};
use units::Instant;

/// The bytes of IP packet that one opportunity carries.
pub const OPPORTUNITY_BYTES: u64 = 1_500;

/// When a link can deliver, over and over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTrace {
    /// Nanoseconds since the start of the trace, in order.
    times: Vec<u64>,
    /// The length of the trace in nanoseconds, not zero.
    period: u64,
}

impl DeliveryTrace {
    /// Reads a trace; `file` is its name for error messages.
    ///
    /// # Errors
    /// A line that is no whole number or less than the one before it; a trace without length.
    pub fn parse(text: &str, file: &str) -> Result<Self, TraceError> {
        let mut times = Vec::new();
        let mut last_line = 1;
        for (line, entry) in telling_lines(text) {
            let ms: u64 = entry.parse().map_err(|_| {
                TraceError::new(file, line, format!("must be whole milliseconds, is {entry:?}"))
            })?;
            let nanos = ms.checked_mul(1_000_000).filter(|&nanos| nanos < LENGTH_MAX);
            let nanos = nanos.ok_or_else(|| TraceError::new(file, line, "is over 30 years"))?;
            if times.last().is_some_and(|&last| nanos < last) {
                return Err(TraceError::new(file, line, "is earlier than the line before it"));
            }
            times.push(nanos);
            last_line = line;
        }
        match times.last() {
            Some(&period) if period > 0 => Ok(Self { times, period }),
            Some(_) => Err(TraceError::new(file, last_line, "a trace must be longer than 0 ms")),
            None => Err(TraceError::new(file, 1, "a trace needs at least one line")),
        }
    }

    /// Makes a trace of the times of its opportunities, which are put in order; it begins again
    /// after `period`. Times beyond the period are left out.
    ///
    /// # Errors
    /// No opportunity; a period of nothing or of more than 30 years.
    pub fn from_times(
        times: impl IntoIterator<Item = units::Duration>,
        period: units::Duration,
        file: &str,
    ) -> Result<Self, TraceError> {
        let period = period.as_nanos();
        if period == 0 || period > LENGTH_MAX {
            return Err(TraceError::new(file, 1, "a trace must be longer than 0 ms and end"));
        }
        let mut times: Vec<u64> = times.into_iter().map(units::Duration::as_nanos).collect();
        times.retain(|&time| time <= period);
        times.sort_unstable();
        if times.is_empty() {
            return Err(TraceError::new(file, 1, "a trace needs at least one opportunity"));
        }
        Ok(Self { times, period })
    }

    /// Returns what the trace says from `start` for `length`, beginning again after that.
    ///
    /// As in a file, an opportunity at the very end marks the length; where the trace has none
    /// there, it is added.
    pub fn window(&self, start: Instant, length: units::Duration) -> Self {
        let period = length.as_nanos().clamp(1, LENGTH_MAX);
        let mut times = Vec::new();
        for index in self.first_from(start).. {
            let since = self.time(index).as_nanos() - start.as_nanos();
            if since > period {
                break;
            }
            times.push(since);
        }
        if times.last() != Some(&period) {
            times.push(period);
        }
        Self { times, period }
    }

    /// Returns the trace with `share` (0 to 1) of its opportunities, spread evenly. The last one
    /// always stays, for it marks the length.
    pub fn thinned(&self, share: f64) -> Self {
        let mut credit = 0.0;
        let mut times = Vec::new();
        for (place, &time) in self.times.iter().enumerate() {
            credit += share.clamp(0.0, 1.0);
            if credit >= 1.0 || place + 1 == self.times.len() {
                credit = (credit - 1.0).max(0.0);
                times.push(time);
            }
        }
        Self { times, period: self.period }
    }

    /// Returns when the opportunities of one round come.
    pub fn times(&self) -> impl Iterator<Item = units::Duration> {
        self.times.iter().map(|&time| units::Duration::from_nanos(time))
    }

    /// Returns how many opportunities one round of the trace has.
    pub fn opportunities(&self) -> usize {
        self.times.len()
    }

    /// Returns the length of one round of the trace.
    pub fn period(&self) -> units::Duration {
        units::Duration::from_nanos(self.period)
    }

    /// Returns the mean rate over one round of the trace.
    pub fn mean_rate(&self) -> units::Rate {
        units::Rate::from_bytes_in(self.times.len() as u64 * OPPORTUNITY_BYTES, self.period())
    }

    /// Returns the longest stretch without an opportunity, the seam between rounds included.
    pub fn longest_gap(&self) -> units::Duration {
        let inner = self.times.windows(2).map(|pair| pair[1] - pair[0]);
        let seam = self.times.first().copied().unwrap_or(0);
        units::Duration::from_nanos(inner.chain([seam]).max().unwrap_or(0))
    }

    /// Returns how many opportunities come at `from` or later and before `to`, over all rounds.
    pub fn opportunities_in(&self, from: Instant, to: Instant) -> u64 {
        self.first_from(to).saturating_sub(self.first_from(from))
    }

    /// Returns when opportunity number `index` comes, counted over all rounds.
    pub(crate) fn time(&self, index: u64) -> Instant {
        let (round, place) = (index / self.len(), index % self.len());
        // `place` is below the length of `times`.
        let nanos = self.times[place as usize];
        Instant::from_nanos(round.saturating_mul(self.period).saturating_add(nanos))
    }

    /// Returns the number of the first opportunity at `at` or later.
    pub(crate) fn first_from(&self, at: Instant) -> u64 {
        // A round is (0, period]: what comes at its very end belongs to it.
        let round = at.as_nanos().saturating_sub(1) / self.period;
        let within = at.as_nanos() - round * self.period;
        let place = self.times.partition_point(|&time| time < within);
        round * self.len() + place as u64
    }

    fn len(&self) -> u64 {
        self.times.len() as u64
    }
}

/// Thirty years in nanoseconds: sums of a few of them stay within 64 bits.
const LENGTH_MAX: u64 = 30 * 365 * 86_400 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_trace_starts_again_after_its_last_line() {
        let trace = DeliveryTrace::parse("0\n3\n3\n10\n", "t").unwrap();
        let times: Vec<_> = (0..9).map(|index| trace.time(index).as_micros() / 1_000).collect();
        assert_eq!(times, [0, 3, 3, 10, 10, 13, 13, 20, 20]);
        assert_eq!(trace.mean_rate().as_bps(), 4 * 1_500 * 8 * 100);
        assert_eq!(trace.longest_gap(), Duration::from_millis(7));
    }

    #[test]
    fn the_first_opportunity_from_an_instant_is_never_before_it() {
        let trace = DeliveryTrace::parse("2\n3\n3\n10\n", "t").unwrap();
        for at in (0..45_000_000).step_by(250_000) {
            let at = Instant::from_nanos(at);
            let first = trace.first_from(at);
            assert!(trace.time(first) >= at);
            assert!(first == 0 || trace.time(first - 1) < at);
        }
        assert_eq!(trace.first_from(ms(10)), 3);
    }

    #[test]
    fn a_window_has_the_opportunities_of_its_time_and_keeps_its_length() {
        let trace = DeliveryTrace::parse("2\n3\n3\n10\n", "t").unwrap();
        let window = trace.window(ms(3), Duration::from_millis(12));
        let times: Vec<_> = window.times().map(|time| time.as_millis()).collect();
        assert_eq!(times, [0, 0, 7, 9, 10, 10, 12]);
        assert_eq!(window.period(), Duration::from_millis(12));
        let again = DeliveryTrace::from_times(window.times(), window.period(), "t");
        assert_eq!(again, Ok(window));
        assert!(DeliveryTrace::from_times([], Duration::from_millis(1), "t").is_err());
        let dead = trace.window(ms(4), Duration::from_millis(5));
        assert_eq!(dead.opportunities(), 1);
    }

    #[test]
    fn a_thinned_trace_has_its_share() {
        let text: String = (1..=1_000).map(|ms| format!("{ms}\n")).collect();
        let trace = DeliveryTrace::parse(&text, "t").unwrap();
        assert_eq!(trace.thinned(0.1).opportunities(), 100);
        assert_eq!((trace.thinned(0.0).opportunities(), trace.thinned(1.0)), (1, trace));
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text| DeliveryTrace::parse(text, "x.up").unwrap_err().to_string();
        assert_eq!(error("1\n\nabc"), "x.up:3: must be whole milliseconds, is \"abc\"");
        assert_eq!(error("5\n4"), "x.up:2: is earlier than the line before it");
        assert_eq!(error("0\n0\n"), "x.up:2: a trace must be longer than 0 ms");
        assert_eq!(error("# only this\n"), "x.up:1: a trace needs at least one line");
        assert_eq!(
            error("99999999999999999999"),
            "x.up:1: must be whole milliseconds, is \"99999999999999999999\""
        );
    }
}
