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
