//! A frequency that ages: how often something failed, of late.
//!
//! ```text
//! mean   = (weight · prior + failures) / (weight + samples)             samples fade with a time constant of ten minutes
//! change : what the last seconds say is three or four deviations off → they are all that counts from now on
//! ```
//! So what is rare is remembered long enough to be told from what is impossible, and a link that has changed is
//! followed within seconds.

use units::{Duration, Instant};

/// Time constant after which samples are forgotten: the span over which a target is judged.
const MEMORY: Duration = Duration::from_secs(600);
/// The same of the samples that a change is seen in: a change is to be followed within 5 s, and a second of that passes
/// before the last failure is known for certain.
const LATELY: Duration = Duration::from_secs(2);
/// Samples of late below which nothing is called a change.
const ENOUGH: f64 = 20.0;
/// Deviations that make a change for the worse: by chance that happens once in some hours of 50 messages a second …
const WORSE: f64 = 4.0;
/// … and for the better: a mistake is put right as a change for the worse.
const BETTER: f64 = 3.0;

/// Counts samples and failures among them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frequency {
    all: Count,
    late: Count,
    at: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    samples: f64,
    failures: f64,
}

impl Count {
    fn fade(&mut self, factor: f64) {
        self.samples *= factor;
        self.failures *= factor;
    }

    fn add(&mut self, failed: f64) {
        self.samples += 1.0;
        self.failures += failed;
    }
}

impl Frequency {
    /// Takes a sample: how much of it failed, from 0 to 1.
    pub(super) fn learn(&mut self, now: Instant, failed: f64) {
        let passed = now.since(self.at);
        self.all.fade(fading(passed, MEMORY));
        self.late.fade(fading(passed, LATELY));
        self.at = self.at.max(now);
        self.all.add(failed);
        self.late.add(failed);
        if self.has_changed() {
            // Most of what is late was before the change as well: it counts for little beside what comes.
            self.all = self.late;
            self.all.fade(ENOUGH / self.late.samples);
        }
    }

    /// Returns the share of failures, where `weight` samples of the share `prior` were seen before all others.
    pub(super) fn mean(&self, prior: f64, weight: f64) -> f64 {
        (weight * prior + self.all.failures) / (weight + self.all.samples)
    }

    /// Returns a share that the samples alone make likely to be exceeded; zero where they are few.
    pub(super) fn at_least(&self) -> f64 {
        let surely = self.all.failures - self.all.failures.sqrt();
        if surely > 0.0 { surely / self.all.samples } else { 0.0 }
    }

    /// Returns how many samples count.
    pub(super) fn samples(&self) -> f64 {
        self.all.samples
    }

    fn has_changed(&self) -> bool {
        let expected = self.late.samples * (self.all.failures + 0.5) / (self.all.samples + 1.0);
        let (more, deviation) = (self.late.failures - expected, (expected + 1.0).sqrt());
        let is_change = more > WORSE * deviation || -more > BETTER * deviation;
        self.late.samples >= ENOUGH && is_change
    }
}

/// Returns what is left of a sample after a time.
fn fading(passed: Duration, constant: Duration) -> f64 {
    (-passed.as_secs_f64() / constant.as_secs_f64()).exp()
}

#[cfg(test)]
mod tests {
    use units::Rng;

    use super::*;

    /// Feeds 50 samples a second for some seconds.
    fn feed(frequency: &mut Frequency, rng: &mut Rng, from_s: u64, seconds: u64, share: f64) {
        for sample in 0..seconds * 50 {
            let at = Instant::from_millis(from_s * 1_000 + sample * 20);
            frequency.learn(at, f64::from(u8::from(rng.chance(share))));
        }
    }

    #[test]
    fn a_step_is_followed_within_four_seconds_and_noise_is_not() {
        for seed in 0..20 {
            let (mut frequency, mut rng) = (Frequency::default(), Rng::new(seed));
            feed(&mut frequency, &mut rng, 1, 300, 0.005);
            let quiet = frequency.mean(0.1, 10.0);
            assert!((0.002..0.01).contains(&quiet), "seed {seed}: {quiet}");
            assert!(frequency.samples() > 1_000.0, "seed {seed}: noise was taken for a change");
            feed(&mut frequency, &mut rng, 301, 4, 0.2);
            let worse = frequency.mean(0.1, 10.0);
            assert!(worse > 0.1, "seed {seed}: {worse}");
            feed(&mut frequency, &mut rng, 305, 60, 0.2);
            feed(&mut frequency, &mut rng, 365, 4, 0.005);
            let better = frequency.mean(0.1, 10.0);
            assert!(better < 0.1, "seed {seed}: {better}");
        }
    }

    #[test]
    fn without_samples_the_prior_counts_and_nothing_is_sure() {
        let frequency = Frequency::default();
        assert_eq!((frequency.mean(0.1, 10.0), frequency.at_least()), (0.1, 0.0));
        let mut frequency = Frequency::default();
        frequency.learn(Instant::from_millis(1), 1.0);
        assert_eq!(frequency.at_least(), 0.0, "one failure is no proof");
    }
}
