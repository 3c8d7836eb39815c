//! A series: a value that holds from its time until that of the next one, over and over.
//!
//! Two forms of text: one value per line at a fixed interval, and a CSV table with a column of
//! times. Delay, rate and probability of loss over time are all series.

use super::table::Table;
use super::{TraceError, telling_lines};
use units::{Duration, Instant, Rate};

/// A value over time in steps, over and over.
#[derive(Clone, Debug, PartialEq)]
pub struct Series<T> {
    /// When each value begins, in nanoseconds since the start of the series; the first at zero.
    starts: Vec<u64>,
    values: Vec<T>,
    /// The length in nanoseconds; `None` when the last value holds for ever.
    period: Option<u64>,
}

impl<T: Copy> Series<T> {
    /// Returns how many values one round of the series has.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns false: a series has at least one value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the length of one round; `None` when the last value holds for ever.
    pub fn period(&self) -> Option<Duration> {
        self.period.map(Duration::from_nanos)
    }

    /// Returns the values of one round in order.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Makes a series of values that each hold from a time until that of the next, over and over
    /// with `period`; without a period the last one holds for ever.
    ///
    /// # Errors
    /// No value; a first time other than zero; times less than 0.1 ms apart; a period that does not
    /// reach 0.1 ms beyond the last time, or of more than 30 years.
    pub fn from_steps(
        steps: impl IntoIterator<Item = (Duration, T)>,
        period: Option<Duration>,
        file: &str,
    ) -> Result<Self, TraceError> {
        let (mut starts, mut values): (Vec<u64>, Vec<T>) = (Vec::new(), Vec::new());
        for (place, (start, value)) in steps.into_iter().enumerate() {
            let wrong = |what: &str| Err(TraceError::new(file, place + 1, what));
            let start = nanos(start);
            match starts.last() {
                None if start > 0 => return wrong("the first time must be 0"),
                Some(&last) if start < last + STEP_MIN => return wrong(TOO_CLOSE),
                _ => {}
            }
            starts.push(start);
            values.push(value);
        }
        let period = period.map(nanos);
        let Some(&last) = starts.last() else {
            return Err(TraceError::new(file, 1, "needs at least one value"));
        };
        let end = period.unwrap_or(last + STEP_MIN);
        if end < last + STEP_MIN || end as f64 > LENGTH_MAX_S * 1e9 {
            let what = "the period must end at least 0.1 ms after the last time, and in 30 years";
            return Err(TraceError::new(file, starts.len(), what));
        }
        Ok(Self { starts, values, period })
    }

    /// Returns the steps of one round: from when each value holds, and the value.
    pub fn steps(&self) -> impl Iterator<Item = (Duration, T)> {
        let starts = self.starts.iter().map(|&start| Duration::from_nanos(start));
        starts.zip(self.values.iter().copied())
    }

    /// Returns what the series says from `start` for `length`, beginning again after that.
    ///
    /// Steps that come within 0.1 ms of the one before them take its place. A `length` under 0.1 ms
    /// counts as 0.1 ms.
    pub fn window(&self, start: Instant, length: Duration) -> Self {
        let length = nanos(length).clamp(STEP_MIN, (LENGTH_MAX_S * 1e9) as u64);
        let end = Instant::from_nanos(start.as_nanos().saturating_add(length));
        let (mut starts, mut values): (Vec<u64>, Vec<T>) = (Vec::new(), Vec::new());
        let mut at = start;
        while at < end {
            let (value, next) = self.at_with_end(at);
            let since = at.as_nanos() - start.as_nanos();
            match (starts.last(), values.last_mut()) {
                (Some(&last), Some(value_before)) if since < last + STEP_MIN => {
                    *value_before = value;
                }
                _ if since > 0 && since + STEP_MIN > length => {}
                _ => {
                    starts.push(since);
                    values.push(value);
                }
            }
            at = next;
        }
        Self { starts, values, period: Some(length) }
    }

    /// Returns the series with each value changed.
    pub fn map<U>(&self, change: impl Fn(T) -> U) -> Series<U> {
        let values = self.values.iter().map(|&value| change(value)).collect();
        Series { starts: self.starts.clone(), values, period: self.period }
    }

    /// Returns the value at `at`.
    pub fn at(&self, at: Instant) -> T {
        self.at_with_end(at).0
    }

    /// Returns the value at `at`, and when the next one begins.
    pub(crate) fn at_with_end(&self, at: Instant) -> (T, Instant) {
        let period = self.period.unwrap_or(u64::MAX);
        let round_start = at.as_nanos() / period * period;
        let within = at.as_nanos() - round_start;
        // The first value starts at zero, so at least one start is not after `within`.
        let place = self.starts.partition_point(|&start| start <= within) - 1;
        let end = self.starts.get(place + 1).copied().unwrap_or(period);
        (self.values[place], Instant::from_nanos(round_start.saturating_add(end)))
    }

    /// Joins times in seconds with values. The first value counts from zero, whatever its time; the
    /// last one lasts as long as the one before it.
    fn from_times(times: &[(usize, f64)], values: Vec<T>, file: &str) -> Result<Self, TraceError> {
        let origin = times.first().map_or(0.0, |&(_, time)| time);
        let mut starts: Vec<u64> = Vec::with_capacity(times.len());
        for &(line, time) in times {
            let since = time - origin;
            if !(0.0..LENGTH_MAX_S).contains(&since) {
                return Err(TraceError::new(file, line, "time is before the first or too far on"));
            }
            let start = (since * 1e9).round() as u64;
            if starts.last().is_some_and(|&last| start < last + STEP_MIN) {
                return Err(TraceError::new(file, line, TOO_CLOSE));
            }
            starts.push(start);
        }
        let period = match starts[..] {
            [] => return Err(TraceError::new(file, 1, "needs at least one value")),
            [_] => None,
            [.., before, last] => Some(last + (last - before)),
        };
        Ok(Self { starts, values, period })
    }
}

impl Series<Duration> {
    /// Reads a delay file: one one-way delay in milliseconds per line, each for `interval`.
    ///
    /// # Errors
    /// A line that is no number of milliseconds from 0; no line at all; an interval of zero.
    pub fn delays(text: &str, file: &str, interval: Duration) -> Result<Self, TraceError> {
        if interval.is_zero() {
            return Err(TraceError::new(file, 1, "the interval of a delay file must not be zero"));
        }
        let mut values = Vec::new();
        for (line, entry) in telling_lines(text) {
            let ms: Option<f64> = entry.parse().ok();
            let delay = ms.and_then(|ms| duration(ms / 1e3)).ok_or_else(|| {
                TraceError::new(file, line, format!("must be milliseconds, is {entry:?}"))
            })?;
            values.push(delay);
        }
        if values.is_empty() {
            return Err(TraceError::new(file, 1, "needs at least one value"));
        }
        let interval = interval.as_nanos();
        let starts: Vec<u64> =
            (0..values.len() as u64).map(|index| index.saturating_mul(interval)).collect();
        let period = (values.len() as u64).saturating_mul(interval);
        Ok(Self { starts, values, period: Some(period) })
    }

    /// Reads the columns `time_s` and `delay_ms` of a CSV table.
    ///
    /// # Errors
    /// A missing column; a field that is no time; times out of order.
    pub fn delays_csv(text: &str, file: &str) -> Result<Self, TraceError> {
        columns(text, file, "delay_ms", "milliseconds from 0", |ms| duration(ms / 1e3))
    }
}

impl Series<Rate> {
    /// Returns the mean rate over one round. For a series that does not repeat it is the mean
    /// before the last value, or that value where all before it are zero. It is zero only if every
    /// rate is zero.
    pub fn mean_rate(&self) -> Rate {
        let (last, last_start) = (self.values[self.len() - 1], self.starts[self.len() - 1]);
        let has_any = self.values[..self.len() - 1].iter().any(|&rate| rate > Rate::ZERO);
        let period = match self.period {
            Some(period) => period,
            None if has_any => last_start,
            None => return last,
        };
        let ends = self.starts.iter().skip(1).chain([&period]);
        let lasting = self.starts.iter().zip(ends);
        let lasting = lasting.map(|(start, end)| u128::from(end.saturating_sub(*start)));
        let bits = self.values.iter().zip(lasting);
        let sum: u128 = bits.map(|(rate, nanos)| u128::from(rate.as_bps()) * nanos).sum();
        // Rounded up: a series with any rate has a mean above zero.
        Rate::from_bps(u64::try_from(sum.div_ceil(u128::from(period))).unwrap_or(u64::MAX))
    }

    /// Reads the columns `time_s` and `rate_mbps` of a CSV table; 0 is a stretch without bandwidth.
    ///
    /// # Errors
    /// A missing column; a field that is no rate; times out of order.
    pub fn rates_csv(text: &str, file: &str) -> Result<Self, TraceError> {
        let rate = |mbps: f64| {
            let served = (RATE_MIN_MBPS..1e6).contains(&mbps) || mbps == 0.0;
            served.then(|| Rate::from_bps((mbps * 1e6).round() as u64))
        };
        columns(text, file, "rate_mbps", "0 or at least 0.001 Mbit/s", rate)
    }
}

impl Series<f64> {
    /// Reads the columns `time_s` and `loss` of a CSV table.
    ///
    /// # Errors
    /// A missing column; a field that is no probability; times out of order.
    pub fn losses_csv(text: &str, file: &str) -> Result<Self, TraceError> {
        let probability = |p: f64| (0.0..=1.0).contains(&p).then_some(p);
        columns(text, file, "loss", "a probability from 0 to 1", probability)
    }
}

fn columns<T: Copy>(
    text: &str,
    file: &str,
    column: &str,
    wanted: &str,
    convert: impl Fn(f64) -> Option<T>,
) -> Result<Series<T>, TraceError> {
    let table = Table::from_csv(text, file)?;
    let times = table.numbers("time_s")?;
    let mut values = Vec::with_capacity(times.len());
    for (line, number) in table.numbers(column)? {
        let value = convert(number).ok_or_else(|| {
            TraceError::new(file, line, format!("{column} must be {wanted}, is {number}"))
        })?;
        values.push(value);
    }
    Series::from_times(&times, values, file)
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().min(u64::MAX / 2)
}

fn duration(seconds: f64) -> Option<Duration> {
    let nanos = (0.0..LENGTH_MAX_S).contains(&seconds).then(|| (seconds * 1e9).round() as u64)?;
    Some(Duration::from_nanos(nanos))
}

/// The shortest step: a packet's transmission is followed step by step.
const STEP_MIN: u64 = 100_000;

/// The error for times that are closer.
const TOO_CLOSE: &str = "time is not at least 0.1 ms after the one before it";

/// The lowest rate that is not zero, for the same reason.
const RATE_MIN_MBPS: f64 = 0.001;

/// Thirty years in seconds.
const LENGTH_MAX_S: f64 = 30.0 * 365.0 * 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_delay_file_holds_each_value_for_its_interval_and_loops() {
        let delays = Series::delays("10\n20.5\n\n# more\n30\n", "d", ms(100)).unwrap();
        let at = |t| delays.at(Instant::from_millis(t)).as_micros();
        assert_eq!(
            [at(0), at(99), at(100), at(299), at(300)],
            [10_000, 10_000, 20_500, 30_000, 10_000]
        );
        assert_eq!(delays.period(), Some(ms(300)));
    }

    #[test]
    fn a_csv_series_starts_at_its_first_time_and_its_last_value_lasts_as_long_as_the_one_before() {
        let text = "time_s,rate_mbps,note\n100,8,start\n101,0,gap\n103,4,end\n";
        let rates = Series::rates_csv(text, "r.csv").unwrap();
        let at = |t| rates.at_with_end(Instant::from_millis(t));
        assert_eq!(at(999), (Rate::from_mbps(8.0), Instant::from_millis(1_000)));
        assert_eq!(at(1_000), (Rate::ZERO, Instant::from_millis(3_000)));
        assert_eq!(at(4_999), (Rate::from_mbps(4.0), Instant::from_millis(5_000)));
        assert_eq!(at(5_000), (Rate::from_mbps(8.0), Instant::from_millis(6_000)));
    }

    #[test]
    fn a_window_says_what_the_series_says_there() {
        let text = "time_s,rate_mbps\n0,8\n1,0\n3,4\n";
        let rates = Series::rates_csv(text, "r.csv").unwrap();
        let window = rates.window(Instant::from_millis(2_500), ms(4_000));
        assert_eq!(window.period(), Some(ms(4_000)));
        for at in (0..4_000).step_by(50) {
            let there = Instant::from_millis(2_500 + at);
            assert_eq!(window.at(Instant::from_millis(at)), rates.at(there), "{at} ms");
        }
        let steps = window.steps();
        assert_eq!(Series::from_steps(steps, window.period(), "w"), Ok(window.clone()));
        assert_eq!(rates.map(|rate| rate == Rate::ZERO).values(), [false, true, false]);
    }

    #[test]
    fn steps_that_make_no_series_are_refused() {
        let of = |starts: &[u64], period: Option<u64>| {
            let steps = starts.iter().map(|&start| (ms(start), ()));
            Series::from_steps(steps, period.map(ms), "s").is_ok()
        };
        assert!(of(&[0], None) && of(&[0, 5], Some(6)));
        assert!(!of(&[], None) && !of(&[1], None) && !of(&[0, 0], None) && !of(&[0, 5], Some(5)));
    }

    #[test]
    fn a_single_value_holds_for_ever() {
        let losses = Series::losses_csv("time_s,loss\n0,0.25\n", "l.csv").unwrap();
        assert_eq!(losses.at(Instant::from_millis(1 << 40)), 0.25);
        assert_eq!(losses.period(), None);
    }

    #[test]
    fn the_last_value_of_a_series_without_a_period_holds_for_ever() {
        let of = |rates: [f64; 2]| {
            let steps = rates.into_iter().zip([0, 6_000]);
            let steps = steps.map(|(mbps, at)| (ms(at), Rate::from_mbps(mbps)));
            Series::from_steps(steps, None, "s").unwrap()
        };
        let rising = of([0.0, 5.0]);
        let at = |t| rising.at_with_end(Instant::from_millis(t));
        assert_eq!(at(5_999), (Rate::ZERO, Instant::from_millis(6_000)));
        assert_eq!(at(1 << 40), (Rate::from_mbps(5.0), Instant::from_nanos(u64::MAX)));
        let means = [rising, of([12.0, 0.0]), of([0.0, 0.0])].map(|one| one.mean_rate().as_mbps());
        assert_eq!(means, [5.0, 12.0, 0.0]);
    }

    #[test]
    fn errors_name_line_and_column() {
        let text = |error: TraceError| error.to_string();
        let delays = |input| text(Series::delays(input, "d", ms(1)).unwrap_err());
        assert_eq!(delays("1\n-2"), "d:2: must be milliseconds, is \"-2\"");
        assert_eq!(delays(""), "d:1: needs at least one value");
        let losses = |input| text(Series::losses_csv(input, "l").unwrap_err());
        assert_eq!(losses("time_s,loss\n0,2"), "l:2: loss must be a probability from 0 to 1, is 2");
        assert_eq!(
            losses("time_s,loss\n0,1\n0,1"),
            "l:3: time is not at least 0.1 ms after the one before it"
        );
        assert_eq!(losses("time_s,los\n0,1"), "l:1: no column loss; there are time_s, los");
        let rates = |input| text(Series::rates_csv(input, "r").unwrap_err());
        assert_eq!(
            rates("time_s,rate_mbps\n0,0\n1,-1"),
            "r:3: rate_mbps must be 0 or at least 0.001 Mbit/s, is -1"
        );
    }
}
