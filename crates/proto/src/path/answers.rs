//! How long the answers of a path take: what is usual for it, and whether that is too long for
//! control.
//!
//! ```text
//! usual = the second largest of what the longest answer took in each of the last 16 s     its jitter
//! least = the least that an answer took in the last ten minutes                           the way itself
//! bound = least + max(150 ms, least)
//! slow  = srtt > bound, now or within the last second            what it took meanwhile is not what is usual
//! ```
//! RFC 9002's variation is that of the last few answers: it says little about the one in a thousand
//! which comes latest, and jitter has a long tail. Where a backup is paid for each answer that
//! seems to be missing, that tail decides. One hiccup is an event, not a habit, so the second
//! largest counts. Time without answers does not pass.
//!
//! A path is *slow* by what it has taken itself, not by a fixed bound: a satellite's half a second
//! is no trouble, that of a Wi-Fi with a queue is. Ten minutes later its slowness is taken for its
//! nature. This file only remembers; `health.rs` and `service.rs` decide what follows.

use units::{Duration, Instant};

/// Seconds that are remembered one by one: some 800 messages at 50 a second.
const SECONDS: usize = 16;
/// Minutes of which the least is remembered.
const MINUTES: usize = 10;
/// How much longer than the way itself takes answers may take before control is late: 75 ms each
/// way, which with the usual links makes the 100 ms after which a set-point is a miss.
const SLOW: Duration = Duration::from_millis(150);
/// What calls for a backup is over when it has not come back for so long: one good answer between
/// bad ones is no recovery, and calls that follow each other sooner are one use of the backup.
pub(super) const CALL_OVER: Duration = Duration::from_secs(1);

/// Remembers how long answers took.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    seconds: Ring<SECONDS>,
    minutes: Ring<MINUTES>,
    usual: Duration,
    least: Duration,
    /// When it was slow last.
    slow_at: Option<Instant>,
}

impl Answers {
    pub(super) fn new() -> Self {
        Self {
            seconds: Ring::new(Duration::from_secs(1), Duration::ZERO),
            minutes: Ring::new(Duration::from_secs(60), Duration::MAX),
            usual: Duration::ZERO,
            least: Duration::MAX,
            slow_at: None,
        }
    }

    /// Notes what an answer took, and the smoothed round-trip time with it.
    pub(super) fn on_answer(&mut self, now: Instant, took: Duration, srtt: Duration) {
        let least = self.minutes.bucket(now);
        *least = (*least).min(took);
        self.least = self.minutes.all.into_iter().min().unwrap_or(took);
        if srtt > self.bound() {
            self.slow_at = Some(now);
        }
        if took <= self.bound() && !self.is_slow(now) {
            let longest = self.seconds.bucket(now);
            *longest = (*longest).max(took);
            let mut top = [Duration::ZERO; 2];
            for longest in self.seconds.all {
                top[1] = top[1].max(longest.min(top[0]));
                top[0] = top[0].max(longest);
            }
            self.usual = top[1];
        }
    }

    /// Returns how long an answer may take by what is usual, and a quarter more: where the tail is
    /// that of a normal distribution, one in 30,000 takes longer. Zero while nothing is known.
    pub(super) fn patience(&self, srtt: Duration) -> Duration {
        let jitter = self.usual.saturating_sub(srtt);
        if jitter.is_zero() { Duration::ZERO } else { srtt + jitter + jitter / 4 }
    }

    /// Returns how long an answer may take before control is late.
    pub(super) fn bound(&self) -> Duration {
        self.least.saturating_add(self.least.max(SLOW))
    }

    /// Tells whether control is late on the path.
    pub(super) fn is_slow(&self, now: Instant) -> bool {
        self.slow_at.is_some_and(|at| now.since(at) < CALL_OVER)
    }
}

/// One value for each of the last stretches of time in which there was any.
#[derive(Clone, Debug)]
struct Ring<const N: usize> {
    width: Duration,
    none: Duration,
    all: [Duration; N],
    current: usize,
    began: Option<Instant>,
}

impl<const N: usize> Ring<N> {
    fn new(width: Duration, none: Duration) -> Self {
        Self { width, none, all: [none; N], current: 0, began: None }
    }

    /// Returns the value of the present stretch.
    fn bucket(&mut self, now: Instant) -> &mut Duration {
        let began = *self.began.get_or_insert(now);
        if now.since(began) >= self.width {
            self.began = Some(now);
            self.current = (self.current + 1) % N;
            self.all[self.current] = self.none;
        }
        &mut self.all[self.current]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Answers that took so long, one every 20 ms from `from_ms` on.
    fn answer(answers: &mut Answers, from_ms: u64, took_ms: impl IntoIterator<Item = u64>) -> u64 {
        let mut at = from_ms;
        for took in took_ms {
            answers.on_answer(Instant::from_millis(at), MS * took as u32, MS * took as u32);
            at += 20;
        }
        at
    }

    #[test]
    fn what_happens_once_is_not_usual_and_what_happens_again_is() {
        let mut answers = Answers::new();
        let at = answer(&mut answers, 0, [vec![20; 99], vec![60]].concat());
        assert_eq!(answers.patience(MS * 20), Duration::ZERO);
        let at = answer(&mut answers, at, [vec![20; 99], vec![60]].concat());
        assert_eq!(answers.patience(MS * 20), MS * 70, "a quarter more than 40 ms beyond 20");
        answer(&mut answers, at, vec![20; 16 * 50]);
        assert_eq!(answers.patience(MS * 20), Duration::ZERO, "it is forgotten");
    }

    #[test]
    fn a_path_is_slow_by_its_own_measure_until_it_was_fast_for_a_second() {
        for [usual, later, is_slow] in
            [[20, 165, 0], [20, 175, 1], [600, 1_100, 0], [600, 1_300, 1]]
        {
            let mut answers = Answers::new();
            let at = answer(&mut answers, 0, vec![usual; 50]);
            let at = answer(&mut answers, at, vec![later; 5]);
            assert_eq!(answers.is_slow(Instant::from_millis(at)), is_slow == 1, "{usual} {later}");
            let at = answer(&mut answers, at, vec![usual; 51]);
            assert!(!answers.is_slow(Instant::from_millis(at)));
        }
    }
}
