//! How long the answers of a path take at least, and so how late control may be there.
//!
//! ```text
//! least = the least that an answer took in the last ten minutes                   the way itself
//! bound = least + max(150 ms, least)                       what takes longer calls for a backup
//! slow  = srtt > bound, now or within the last second
//! ```
//! A path is *slow* by what it has taken itself, not by a fixed bound: a satellite's half a second
//! is no trouble, that of a Wi-Fi with a queue is. Ten minutes later its slowness is taken for its
//! nature. This file only remembers; `service.rs` decides what follows.

use units::{Duration, Instant};

/// Minutes of which the least is remembered.
const MINUTES: usize = 10;
/// How much longer than the way itself takes answers may take before control is late: 75 ms each
/// way, which with the usual links makes the 100 ms after which a set-point is a miss.
const SLOW: Duration = Duration::from_millis(150);

/// What calls for a backup is over when it has not come back for so long: one good answer between
/// bad ones is no recovery, and calls that follow each other sooner are one use of the backup.
pub(super) const CALL_OVER: Duration = Duration::from_secs(1);

/// Remembers the least of each of the last minutes in which there were answers.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    minutes: [Duration; MINUTES],
    current: usize,
    /// When the present minute began.
    began: Option<Instant>,
    /// When it was slow last.
    slow_at: Option<Instant>,
}

impl Answers {
    pub(super) fn new() -> Self {
        Self { minutes: [Duration::MAX; MINUTES], current: 0, began: None, slow_at: None }
    }

    /// Notes what an answer took.
    pub(super) fn on_answer(&mut self, now: Instant, took: Duration, srtt: Duration) {
        let began = *self.began.get_or_insert(now);
        if now.since(began) >= Duration::from_secs(60) {
            self.began = Some(now);
            self.current = (self.current + 1) % MINUTES;
            self.minutes[self.current] = Duration::MAX;
        }
        let least = &mut self.minutes[self.current];
        *least = (*least).min(took);
        if srtt > self.bound() {
            self.slow_at = Some(now);
        }
    }

    /// Tells whether control is late on the path, or was within the last second.
    pub(super) fn is_slow(&self, now: Instant) -> bool {
        self.slow_at.is_some_and(|at| now.since(at) < CALL_OVER)
    }

    /// Returns how long an answer may take before control is late.
    pub(super) fn bound(&self) -> Duration {
        let least = self.minutes.into_iter().min().unwrap_or(Duration::MAX);
        least.saturating_add(least.max(SLOW))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(minute: u64) -> Instant {
        Instant::from_millis(minute * 60_000)
    }

    #[test]
    fn a_path_is_slow_by_its_own_measure_until_it_was_fast_for_a_second() {
        for (usual, later, is_slow) in
            [(20, 165, false), (20, 175, true), (600, 1_100, false), (600, 1_300, true)]
        {
            let mut answers = Answers::new();
            answers.on_answer(at(0), MS * usual, MS * usual);
            let mut slow = |minute, ms: u32| {
                answers.on_answer(at(minute), MS * ms, MS * ms);
                answers.is_slow(at(minute) + MS * 999)
            };
            assert_eq!((slow(1, later), slow(2, usual)), (is_slow, false), "{usual} {later}");
        }
    }

    #[test]
    fn how_late_an_answer_may_be_is_by_the_way_itself_for_ten_minutes() {
        let mut answers = Answers::new();
        assert_eq!(answers.bound(), Duration::MAX, "nothing is known");
        for (minute, took, bound) in [(0, 20, 170), (1, 600, 170), (6, 600, 170), (9, 600, 1_200)] {
            for n in 0..minute + 1 {
                // Minutes in which nothing came do not pass.
                answers.on_answer(at(minute * 20 + n), MS * took, MS * took);
            }
            assert_eq!(answers.bound(), MS * bound, "{minute}");
        }
    }
}
