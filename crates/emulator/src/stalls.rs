//! When the emulator, or programs like those under test, stood still, and what that can have done
//! to a figure.
//!
//! Not the judgement: whoever computes a figure asks for the error of each of its samples. The
//! engine and the witness note stalls while the emulation runs.
//!
//! ```text
//! reach of a stall    from its beginning to its end, and as long again: what it held up has to
//!                     drain
//! error of a sample   what a wake-up is late as a rule, and the sum over all stalls of min(length,
//!                     what of the sample is within the reach); never more than the sample
//! ```

use serde::{Serialize, Serializer};
use units::{Duration, Instant};

/// Stalls that are kept apart; one that comes later is counted, and nothing vouches for the run. A
/// machine that stalls a hundred times a second fills it in eleven minutes.
const STALLS: usize = 65_536;

/// Says what stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stalled {
    /// The emulator: frames left late.
    Emulator,
    /// Threads of ordinary priority, by the witness.
    Programs,
    /// A processor, by the witness that goes before all others there.
    Processor,
}

/// A time in which something stood still, in seconds of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stall {
    /// What did.
    pub who: Stalled,
    /// When it should have gone on.
    pub from_s: f64,
    /// When it did.
    pub to_s: f64,
}

/// The stalls of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stalls {
    noted: Vec<Stall>,
    /// The same without overlaps, in order.
    windows: Vec<Window>,
    /// What a wake-up is late as a rule, shorter than any stall that is noted.
    usual_s: f64,
}

/// A stretch in which something stood still.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window {
    from_s: f64,
    to_s: f64,
    /// The latest end of the reach of this one and all before it.
    reached_s: f64,
}

impl Stalls {
    /// Takes stalls in any order, and what wake-ups are late as a rule, in seconds: what is shorter
    /// than a stall that is noted, but met by every sample.
    pub fn new(mut noted: Vec<Stall>, usual_s: f64) -> Self {
        noted.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
        let mut windows: Vec<Window> = Vec::new();
        for stall in &noted {
            match windows.last_mut() {
                Some(last) if stall.from_s <= last.to_s => last.to_s = last.to_s.max(stall.to_s),
                _ => {
                    windows.push(Window { from_s: stall.from_s, to_s: stall.to_s, reached_s: 0.0 })
                }
            }
        }
        let mut reached_s = f64::NEG_INFINITY;
        for window in &mut windows {
            reached_s = f64::max(reached_s, window.reach_s());
            window.reached_s = reached_s;
        }
        Self { noted, windows, usual_s }
    }

    /// Returns by how much a sample that took from `from_s` to `to_s` may be wrong, in seconds.
    pub fn error_s(&self, from_s: f64, to_s: f64) -> f64 {
        let first = self.windows.partition_point(|window| window.reached_s <= from_s);
        let near = self.windows[first..].iter().take_while(|window| window.from_s < to_s);
        let of_window = |window: &Window| {
            let shared = window.reach_s().min(to_s) - window.from_s.max(from_s);
            shared.clamp(0.0, window.length_s())
        };
        (self.usual_s + near.map(of_window).sum::<f64>()).min((to_s - from_s).max(0.0))
    }

    /// Returns whether something that happened at an instant was within the reach of a stall.
    pub fn reaches(&self, at_s: f64) -> bool {
        let first = self.windows.partition_point(|window| window.reached_s <= at_s);
        let mut near = self.windows[first..].iter().take_while(|window| window.from_s <= at_s);
        near.any(|window| at_s < window.reach_s())
    }

    /// Returns what share of a stretch of time is within the reach of stalls.
    pub fn reached_share(&self, from_s: f64, to_s: f64) -> f64 {
        let (mut reached_s, mut until_s) = (0.0, from_s);
        for window in &self.windows {
            let end_s = window.reach_s().min(to_s);
            reached_s += (end_s - window.from_s.max(until_s)).max(0.0);
            until_s = until_s.max(end_s);
        }
        reached_s / (to_s - from_s).max(f64::MIN_POSITIVE)
    }

    /// Returns for what part of `seconds` something stood still.
    pub fn share(&self, seconds: f64) -> f64 {
        self.windows.iter().map(Window::length_s).sum::<f64>() / seconds
    }

    /// Returns the stretches in which something stood still: how many, and the longest in seconds.
    pub fn extent(&self) -> (usize, f64) {
        (self.windows.len(), self.windows.iter().map(Window::length_s).fold(0.0, f64::max))
    }
}

impl Serialize for Stalls {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.noted.serialize(serializer)
    }
}

impl Window {
    fn length_s(&self) -> f64 {
        self.to_s - self.from_s
    }

    fn reach_s(&self) -> f64 {
        self.to_s + self.length_s()
    }
}

/// Notes stalls as they end.
#[derive(Clone, Debug)]
pub(crate) struct StallLog {
    who: Stalled,
    /// Shorter ones do not matter to what the run claims.
    shortest: Duration,
    noted: Vec<(Instant, Instant)>,
    beyond: u64,
}

impl StallLog {
    /// Makes an empty log.
    pub(crate) fn new(who: Stalled, shortest: Duration) -> Self {
        Self { who, shortest, noted: Vec::new(), beyond: 0 }
    }

    /// Forgets what was noted.
    pub(crate) fn clear(&mut self) {
        self.noted.clear();
        self.beyond = 0;
    }

    /// Notes that what was due at `due` happened at `done`.
    pub(crate) fn note(&mut self, due: Instant, done: Instant) {
        if done.since(due) < self.shortest {
            return;
        }
        let room = self.noted.len() < STALLS;
        match self.noted.last_mut() {
            // All that was due while it lasted is one stall.
            Some((from, to)) if due <= *to => (*from, *to) = (due.min(*from), done.max(*to)),
            _ if room => self.noted.push((due, done)),
            _ => self.beyond += 1,
        }
    }

    /// Counts the stalls for which there was no room.
    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Returns the stalls that lasted beyond `zero`, in seconds from there.
    pub(crate) fn stalls(&self, zero: Instant) -> impl Iterator<Item = Stall> {
        let seconds =
            move |at: Instant| at.since(zero).as_secs_f64() - zero.since(at).as_secs_f64();
        let stall = move |(from, to): &(Instant, Instant)| Stall {
            who: self.who,
            from_s: seconds(*from),
            to_s: seconds(*to),
        };
        self.noted.iter().map(stall).filter(|stall| stall.to_s > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalls(windows_ms: &[(u32, u32)]) -> Stalls {
        let stall = |(from, to): &(u32, u32)| Stall {
            who: Stalled::Programs,
            from_s: f64::from(*from) / 1e3,
            to_s: f64::from(*to) / 1e3,
        };
        Stalls::new(windows_ms.iter().map(stall).collect(), 0.0)
    }

    #[test]
    fn a_sample_may_be_wrong_by_the_stalls_that_it_met() {
        let stalls = stalls(&[(100, 110), (105, 111), (300, 304)]);
        let error_ms =
            |from: u32, to: u32| 1e3 * stalls.error_s(f64::from(from) / 1e3, f64::from(to) / 1e3);
        let cases = [
            ((0, 100), 0.0, "before"),
            ((0, 105), 5.0, "its end within"),
            ((90, 200), 11.0, "the two overlap and are one of 11 ms"),
            ((111, 200), 11.0, "what was held up drains as long again"),
            ((118, 200), 4.0, "the rest of that"),
            ((122, 299), 0.0, "between"),
            ((90, 400), 15.0, "both"),
            ((102, 104), 2.0, "never more than the sample"),
            ((304, 999), 4.0, "the second's reach"),
        ];
        for ((from, to), error, why) in cases {
            assert!((error_ms(from, to) - error).abs() < 1e-6, "{why}: {}", error_ms(from, to));
        }
        assert!(stalls.reaches(0.121) && stalls.reaches(0.1));
        assert!(!stalls.reaches(0.099) && !stalls.reaches(0.1221) && !stalls.reaches(9.0));
        assert_eq!(stalls.extent().0, 2);
        assert!((stalls.extent().1 - 0.011).abs() < 1e-9);
        assert!((stalls.share(0.5) - 0.03).abs() < 1e-9, "15 ms of 500");
        assert_eq!(Stalls::default().error_s(0.0, 9.0), 0.0);
        let usual = Stalls::new(Vec::new(), 0.0005);
        assert_eq!((usual.error_s(0.0, 9.0), usual.error_s(0.0, 0.0001)), (0.0005, 0.0001));
    }

    #[test]
    fn reaches_that_overlap_count_once_in_a_share_of_the_time() {
        let stalls = stalls(&[(100, 200), (250, 260), (400, 410), (990, 1_000)]);
        // 100 to 300 ms, of which the second has a part, 400 to 420, and 990 to the end.
        let close = |share: f64, expected: f64| assert!((share - expected).abs() < 1e-9, "{share}");
        close(stalls.reached_share(0.0, 1.0), 0.23);
        close(stalls.reached_share(0.2, 0.3), 1.0);
        close(stalls.reached_share(0.41, 0.51), 0.1);
        close(Stalls::default().reached_share(0.0, 1.0), 0.0);
    }

    #[test]
    fn a_long_reach_is_found_behind_short_ones() {
        let stalls = stalls(&[(100, 200), (250, 251), (260, 261)]);
        assert!((stalls.error_s(0.290, 0.299) - 0.009).abs() < 1e-9);
        assert!((stalls.error_s(0.290, 0.400) - 0.010).abs() < 1e-9, "the first reaches 300 ms");
    }

    #[test]
    fn what_was_due_while_a_stall_lasted_is_one_stall_and_short_ones_are_none() {
        let at = Instant::from_micros;
        let mut log = StallLog::new(Stalled::Emulator, Duration::from_millis(1));
        for (due, done) in [(500, 1_700), (1_000, 8_000), (9_000, 9_900), (20_000, 31_000)] {
            log.note(at(due), at(done));
        }
        // Frames that were due during the stall leave one after the other at its end.
        log.note(at(25_000), at(31_010));
        let stalls: Vec<(f64, f64)> =
            log.stalls(at(2_000)).map(|stall| (stall.from_s, stall.to_s)).collect();
        assert_eq!(stalls.len(), 2, "{stalls:?}");
        assert!((stalls[0].0 + 0.0015).abs() < 1e-9 && (stalls[1].1 - 0.029_01).abs() < 1e-9);
        assert_eq!(log.stalls(at(10_000)).count(), 1, "what ended before the scenario began");
        (0..=STALLS as u64).for_each(|n| log.note(at(n * 10_000_000), at(n * 10_000_000 + 2_000)));
        assert!(log.beyond() >= 2);
    }
}
