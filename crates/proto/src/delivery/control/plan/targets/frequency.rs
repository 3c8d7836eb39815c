//! A frequency that ages: how often something failed, of late.
//!
//! ```text
//! mean   = (weight · prior + failures) / (weight + samples)             samples fade with a time constant of ten minutes
//! worse  : what failed in the last seconds is four deviations off → they are all that counts from
//!          now on, and what counted before is kept, with what was under way by then
//! better : score > 10 → what was kept counts again, for 2,000 samples at most; where nothing
//!          better was, the samples since the score was zero are all that counts
//! score  = max(0, score + ln(q'/q)) where failures begin, max(0, score + ln((1 - q') / (1 - q)))
//!          where a success follows
//!          another one   \[Page\]
//!          q  = share of the samples that follow a success where failures begin, before the score
//!               rose from zero
//!          q' = the same before it became worse; where nothing better was, q is a deviation less,
//!               and q' a quarter of that
//! ```
//! So what is rare is remembered long enough to be told from what is impossible, and a link that
//! has changed is followed within seconds. That it is again what it was is seen long before that
//! could be measured anew: at 20 % of failures fifty successes in a row are no luck, and none at
//! all among them says little of 0.5 %.
//!
//! *Deviation from \[Page\]*: failures that follow each other count once, so that the good seconds
//! between two bursts are not taken for a change, and how long an outage was does not matter to
//! when it is over.

use units::{Duration, Instant};

use super::{AFTERMATH, WINDOW};

/// Time constant after which the samples are forgotten that a change for the worse is seen in: a
/// change is to be followed within 5 s, and a second of that passes before the last failure is
/// known for certain.
const LATELY: Duration = Duration::from_secs(2);
/// Samples of late below which nothing is called a change.
const ENOUGH: f64 = 20.0;
/// Deviations that make a change for the worse: by chance that happens once in some hours of 50
/// messages a second.
const WORSE: f64 = 4.0;
/// The score that makes a change for the better: by chance that happens as seldom, and is put right
/// as a change for the worse. From 20 % of failures to 0.5 % it takes 46 successes, from 5 % to 0.5
/// % 216.
const BETTER: f64 = 10.0;
/// What was kept counts again for so many samples at most: a link may become better without being
/// all that it was, and half a minute is to show that. With fewer a link with an outage now and
/// then seems clean between them.
const AGAIN: f64 = 2_000.0;

/// How a frequency has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// For the worse.
    Worse,
    /// It is what it was before it became worse.
    Back,
}

/// Counts samples and failures among them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frequency {
    all: Count,
    late: Count,
    /// What counted before a change for the worse.
    kept: Count,
    /// When that change was seen.
    worse_at: Instant,
    /// Whether it was the change of a path that this frequency depends on. Then what was kept
    /// counts again when the path's change is over.
    waits: bool,
    /// Samples since the score was zero.
    since: Count,
    score: f64,
    /// Whether the newest sample failed.
    fails: bool,
    at: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    samples: f64,
    failures: f64,
    /// Samples that did not follow a failure.
    tries: f64,
    /// Those of them that failed.
    bursts: f64,
}

impl Count {
    fn fade(&mut self, factor: f64) {
        self.samples *= factor;
        self.failures *= factor;
        self.tries *= factor;
        self.bursts *= factor;
    }

    /// Leaves no more than so many samples.
    fn limit(&mut self, samples: f64) {
        if self.samples > samples {
            self.fade(samples / self.samples);
        }
    }

    /// Takes a sample: how much of it failed, and whether the one before it did.
    fn add(&mut self, failed: f64, follows_failure: bool) {
        self.samples += 1.0;
        self.failures += failed;
        if !follows_failure {
            self.tries += 1.0;
            self.bursts += f64::from(u8::from(failed > 0.0));
        }
    }

    /// Returns how often failures began; with a half of a burst before there are any.
    fn burst_share(&self) -> f64 {
        (self.bursts + 0.5) / (self.tries + 1.0)
    }

    /// Returns the same, a deviation less: with few samples failures that stay away are no
    /// surprise.
    fn least_burst_share(&self) -> f64 {
        let bursts = (self.bursts - self.bursts.sqrt()).max(0.0);
        Self { bursts, ..*self }.burst_share()
    }

    /// Returns how many deviations more failed in it than so many of `all` would lead to expect.
    fn excess(&self, all: &Self) -> f64 {
        let expected = self.samples * (all.failures + 0.5) / (all.samples + 1.0);
        (self.failures - expected) / (expected + 1.0).sqrt()
    }
}

impl Frequency {
    /// Takes a sample: how much of it failed, from 0 to 1. Tells whether what is known has changed
    /// by that.
    pub(super) fn learn(&mut self, now: Instant, failed: f64) -> Option<Change> {
        let passed = now.since(self.at);
        let left = fading(passed, WINDOW);
        for count in [&mut self.all, &mut self.kept, &mut self.since] {
            count.fade(left);
        }
        self.late.fade(fading(passed, LATELY));
        self.at = self.at.max(now);
        let follows_failure = core::mem::replace(&mut self.fails, failed > 0.0);
        if !follows_failure {
            self.score();
        }
        for count in [&mut self.all, &mut self.late, &mut self.since] {
            count.add(failed, follows_failure);
        }
        // Until their deadline and what follows it have passed, samples tell of messages that were
        // handed in before the change was seen. No plan could heed it, so they count with what was
        // known then. A deadline is a tenth of what follows, as a rule.
        if self.is_worse() && now.since(self.worse_at) < AFTERMATH + AFTERMATH / 10 {
            self.kept.add(failed, follows_failure);
        }
        if self.score <= 0.0 {
            self.since = Count::default();
        }
        if self.late.samples >= ENOUGH && self.late.excess(&self.all) > WORSE {
            self.begin_anew();
            // Most of what is late was before the change as well: it counts for little beside what
            // comes.
            self.all = self.late;
            self.all.limit(ENOUGH);
            return Some(Change::Worse);
        }
        if self.score > BETTER { self.on_better() } else { None }
    }

    /// Begins anew with little weight, as a path that it rests on has become worse, until
    /// [`Frequency::go_back`].
    pub(super) fn worsen(&mut self) {
        self.begin_anew();
        self.waits = self.is_worse();
    }

    /// Lets what was kept count again, where there is any.
    pub(super) fn go_back(&mut self) {
        self.waits = false;
        if self.is_worse() {
            let mut kept = core::mem::take(&mut self.kept);
            kept.limit(AGAIN);
            self.begin_with(kept);
        }
    }

    /// Tells whether it has become worse than it was, of late.
    pub(super) fn is_worse(&self) -> bool {
        self.kept.samples >= 1.0
    }

    /// Returns the share of failures, where `weight` samples of the share `prior` were seen before
    /// all others.
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

    /// Lets what counted before count for little. It is kept, that of the first of several changes
    /// for the worse.
    fn begin_anew(&mut self) {
        // What has failed until the change was seen is in it: it will again.
        if !self.is_worse() {
            (self.kept, self.worse_at) = (self.all, self.at);
        }
        self.all.limit(ENOUGH);
        (self.score, self.since) = (0.0, Count::default());
    }

    /// Takes into the score whether failures begin with the newest sample.
    fn score(&mut self) {
        let before = self.before();
        let (now, then) = match self.was_better() {
            true => (before.burst_share(), self.kept.burst_share()),
            // A change for the better is then one to a quarter as many bursts.
            false => (before.least_burst_share(), before.least_burst_share() / 4.0),
        };
        let ratio = if self.fails { then / now } else { (1.0 - then) / (1.0 - now) };
        self.score = (self.score + ratio.ln()).max(0.0);
    }

    /// Returns what tells how often failures began before the score rose from zero.
    fn before(&self) -> Count {
        let tries = (self.all.tries - self.since.tries).max(0.0);
        let bursts = (self.all.bursts - self.since.bursts).max(0.0);
        Count { tries, bursts, ..Count::default() }
    }

    /// Tells whether what was kept is better than what counted before the score rose from zero.
    fn was_better(&self) -> bool {
        self.is_worse() && self.kept.burst_share() < self.before().burst_share()
    }

    /// Follows a change for the better; tells whether the frequency is what it was before it became
    /// worse.
    fn on_better(&mut self) -> Option<Change> {
        if self.was_better() && !self.waits {
            self.go_back();
            return Some(Change::Back);
        }
        // What was kept stays so: it may count again when what this depends on is no longer worse.
        self.begin_with(self.since);
        None
    }

    fn begin_with(&mut self, count: Count) {
        self.all = count;
        self.late = Count::default();
        (self.score, self.since) = (0.0, Count::default());
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

    fn mean(frequency: &Frequency) -> f64 {
        frequency.mean(0.1, 10.0)
    }

    /// Seen to fail for the better with a change seen in the samples of the last two seconds, as
    /// one for the worse is: it is 0.06 after 3 s.
    #[test]
    fn a_step_is_followed_within_four_seconds_there_and_three_back_and_noise_is_not() {
        for seed in 0..20 {
            let (mut frequency, mut rng) = (Frequency::default(), Rng::new(seed));
            feed(&mut frequency, &mut rng, 1, 300, 0.005);
            let quiet = mean(&frequency);
            assert!((0.002..0.01).contains(&quiet), "seed {seed}: {quiet}");
            assert!(frequency.samples() > 1_000.0, "seed {seed}: noise was taken for a change");
            feed(&mut frequency, &mut rng, 301, 4, 0.2);
            let worse = mean(&frequency);
            assert!(worse > 0.1, "seed {seed}: {worse}");
            feed(&mut frequency, &mut rng, 305, 60, 0.2);
            feed(&mut frequency, &mut rng, 365, 3, 0.005);
            let better = mean(&frequency);
            assert!(better < 0.012, "seed {seed}: {better}");
            assert!(frequency.samples() > 900.0, "seed {seed}: what it was is known again");
        }
    }

    /// Outages of a second, one in 100 s on average. Seen to fail where samples of messages that
    /// were under way count with the change, with 0.89: of each outage all but its first tenth was
    /// forgotten when it was over.
    #[test]
    fn a_link_with_an_outage_now_and_then_is_not_taken_for_clean() {
        let (mut frequency, mut rng) = (Frequency::default(), Rng::new(3));
        let (mut is_out, mut outages, mut taken_for_clean) = (false, 0.0, 0.0);
        const SAMPLES: u64 = 1_000_000;
        for sample in 0..SAMPLES {
            is_out ^= rng.chance(if is_out { 0.02 } else { 0.000_2 });
            frequency.learn(Instant::from_millis(1_000 + sample * 20), f64::from(u8::from(is_out)));
            outages += f64::from(u8::from(is_out));
            taken_for_clean += f64::from(u8::from(mean(&frequency) < 0.002_5));
        }
        let share = |count: f64| count / SAMPLES as f64;
        assert!((0.008..0.012).contains(&share(outages)), "{}", share(outages));
        assert!(share(taken_for_clean) < 0.45, "{}", share(taken_for_clean));
    }

    /// Seen to fail without the deviation in [`Count::least_burst_share`], with 51 of 200.
    #[test]
    fn a_link_of_which_little_is_known_yet_is_not_taken_for_a_better_one() {
        let forgets = |seed: &u64| {
            let (mut frequency, mut rng) = (Frequency::default(), Rng::new(*seed));
            (0..60).any(|second| {
                feed(&mut frequency, &mut rng, 1 + second, 1, 0.1);
                frequency.samples() < 45.0 * (second + 1) as f64
            })
        };
        let forget = (0..200).filter(forgets).count();
        assert!(forget < 15, "{forget} of 200 links");
    }

    /// Seen to fail with each failure counted in the score, with 6,065.
    #[test]
    fn good_moments_of_a_bad_link_are_no_change() {
        let (mut frequency, mut rng) = (Frequency::default(), Rng::new(3));
        feed(&mut frequency, &mut rng, 1, 300, 0.005);
        let (mut is_bad, mut taken_for_good) = (false, 0);
        for sample in 0..100_000 {
            is_bad ^= rng.chance(20.0 / if is_bad { 100.0 } else { 400.0 });
            let at = Instant::from_millis(301_000 + sample * 20);
            frequency.learn(at, f64::from(u8::from(is_bad)));
            taken_for_good += u64::from(mean(&frequency) < 0.05);
        }
        assert!(taken_for_good < 2_000, "{taken_for_good} of 100,000 samples");
    }

    /// Seen to fail with nothing kept: then 0.12 is left of an outage of a second.
    #[test]
    fn how_long_an_outage_was_does_not_matter_to_when_it_is_over() {
        for seconds in [1, 10, 30] {
            let (mut frequency, mut rng) = (Frequency::default(), Rng::new(1));
            feed(&mut frequency, &mut rng, 1, 300, 0.0);
            feed(&mut frequency, &mut rng, 301, seconds, 1.0);
            feed(&mut frequency, &mut rng, 301 + seconds, 6, 0.0);
            let after = mean(&frequency);
            assert!(after < 0.01, "{seconds} s: {after}");
        }
    }

    /// Seen to fail with [`AGAIN`] at 5,000, with 28 of 50.
    #[test]
    fn a_link_that_becomes_better_but_not_what_it_was_is_known_within_half_a_minute() {
        let is_mistaken = |seed: &u64| {
            let (mut frequency, mut rng) = (Frequency::default(), Rng::new(*seed));
            feed(&mut frequency, &mut rng, 1, 300, 0.005);
            feed(&mut frequency, &mut rng, 301, 60, 0.2);
            feed(&mut frequency, &mut rng, 361, 30, 0.03);
            !(0.012..0.06).contains(&mean(&frequency))
        };
        let mistaken = (0..50).filter(is_mistaken).count();
        assert!(mistaken <= 3, "{mistaken} of 50 links");
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
