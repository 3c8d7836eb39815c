//! How late an operating system wakes a process: a seeded distribution, drawn once per time-out.

use units::{Duration, Rng};

/// Describes how much later than asked a host is woken. By default it is woken on time.
///
/// ```text
/// lateness = Exp(mean) + spike with probability spike_probability
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimerJitter {
    /// The mean of the exponentially distributed part. A quiet Linux machine: about 60 µs.
    pub mean: Duration,
    /// The probability that something else has the processor.
    pub spike_probability: f64,
    /// How long it keeps the processor then.
    pub spike: Duration,
}

/// Draws the lateness of one host's timer.
#[derive(Clone, Debug)]
pub(super) struct Lateness {
    jitter: TimerJitter,
    rng: Rng,
}

impl Lateness {
    pub(super) fn new(jitter: &TimerJitter, seed: u64, host: &str) -> Self {
        Self { jitter: *jitter, rng: Rng::stream(seed, &format!("{host}/timer")) }
    }

    pub(super) fn draw(&mut self) -> Duration {
        if self.jitter == TimerJitter::default() {
            return Duration::ZERO;
        }
        let usual = self.rng.exponential(self.jitter.mean.as_secs_f64());
        let spike = if self.rng.chance(self.jitter.spike_probability) {
            self.jitter.spike
        } else {
            Duration::ZERO
        };
        Duration::from_nanos((usual * 1e9) as u64) + spike
    }
}
