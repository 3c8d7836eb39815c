//! How far the files are, and how much is left.
//!
//! ```text
//! weight   seconds that a file took when it was recorded; where it does not say, the mean of those
//!          that do
//! speed    weights of what has ended ÷ seconds that it took: how much faster this machine is
//! left     the greater of: Σ (weight ÷ speed − seconds so far) ÷ jobs, and the longest single one
//! ```

use std::time::{Duration, Instant};

use sys::print::tell;

use crate::sweep::shown_seconds;

/// How often is told how far it is.
pub(super) const TOLD_EVERY: Duration = Duration::from_secs(20);
/// What a file weighs where none says how long it took, seconds.
const UNKNOWN: f64 = 30.0;

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waits,
    Runs(Instant),
    /// It took so many seconds.
    Ended(f64),
    /// It was there already, or cannot be run.
    Spared,
}

/// The files of a report.
pub(super) struct Progress {
    names: Vec<String>,
    weights: Vec<f64>,
    states: Vec<State>,
    jobs: usize,
}

impl Progress {
    /// Begins with names and with what each took when it was recorded.
    pub(super) fn new(names: Vec<String>, recorded: &[Option<f64>], jobs: usize) -> Self {
        let known: Vec<f64> = recorded.iter().flatten().copied().collect();
        let mean = crate::statistics::mean(&known).unwrap_or(UNKNOWN);
        let weights = recorded.iter().map(|seconds| seconds.unwrap_or(mean)).collect();
        let states = vec![State::Waits; names.len()];
        Self { names, weights, states, jobs }
    }

    /// Returns what is to be run, the longest first, so that none of them is alone at the end.
    pub(super) fn order(&self, mut files: Vec<usize>) -> Vec<usize> {
        files.sort_by(|one, other| self.weights[*other].total_cmp(&self.weights[*one]));
        files
    }

    pub(super) fn on_begin(&mut self, file: usize) {
        self.states[file] = State::Runs(Instant::now());
    }

    /// Notes that a file has ended, and tells what came.
    pub(super) fn on_end(&mut self, file: usize, seconds: f64, came: &str) {
        self.states[file] = State::Ended(seconds);
        let shown = shown_seconds(seconds);
        tell(format_args!(
            "{}: {}: {came} ({shown}); {}",
            self.count(),
            self.names[file],
            self.left_shown()
        ));
    }

    /// Notes that a file is not run, and tells why.
    pub(super) fn on_spared(&mut self, file: usize, why: &str) {
        self.states[file] = State::Spared;
        tell(format_args!("{}: {}: {why}", self.count(), self.names[file]));
    }

    /// Tells what is running.
    pub(super) fn tell(&self) {
        let running = self.states.iter().zip(&self.names).filter_map(|(state, name)| match state {
            State::Runs(since) => {
                Some(format!("{name} for {}", shown_seconds(since.elapsed().as_secs_f64())))
            }
            _ => None,
        });
        let running = running.collect::<Vec<_>>().join(", ");
        tell(format_args!("{}, running: {running}; {}", self.count(), self.left_shown()));
    }

    fn count(&self) -> String {
        let is_over = |state: &&State| matches!(state, State::Ended(_) | State::Spared);
        let over = self.states.iter().filter(is_over).count();
        format!("{over} of {} files", self.states.len())
    }

    fn left_shown(&self) -> String {
        let left = self.left_s(Instant::now());
        if left == 0.0 {
            "nothing left".to_owned()
        } else {
            format!("some {} left", shown_seconds(left))
        }
    }

    /// Returns how much is left, seconds.
    fn left_s(&self, now: Instant) -> f64 {
        let (mut weight, mut took) = (0.0, 0.0);
        for (own, state) in self.weights.iter().zip(&self.states) {
            if let State::Ended(seconds) = state {
                weight += own;
                took += seconds;
            }
        }
        let slowness = if weight > 0.0 { took / weight } else { 1.0 };
        let rest =
            self.weights.iter().zip(&self.states).filter_map(|(weight, state)| match state {
                State::Waits => Some(weight * slowness),
                State::Runs(since) => Some(
                    (weight * slowness - now.saturating_duration_since(*since).as_secs_f64())
                        .max(1.0),
                ),
                State::Ended(_) | State::Spared => None,
            });
        let (sum, longest) =
            rest.fold((0.0, 0.0_f64), |(sum, longest), one| (sum + one, longest.max(one)));
        longest.max(sum / self.jobs as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_by_what_ended() {
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let mut progress = Progress::new(names, &[Some(10.0), Some(100.0), None, Some(40.0)], 2);
        let now = Instant::now();
        // The mean of the three that say how long they take is 50.
        assert_eq!(progress.left_s(now), 100.0);
        assert_eq!(progress.order(vec![0, 1, 2, 3]), [1, 2, 3, 0]);
        progress.states = vec![State::Ended(5.0), State::Runs(now), State::Spared, State::Waits];
        assert_eq!(
            progress.left_s(now),
            50.0,
            "twice as fast, and the longest is alone in the end"
        );
        progress.states[1] = State::Ended(50.0);
        assert_eq!(progress.left_s(now), 20.0);
        assert_eq!(progress.count(), "3 of 4 files");
        progress.states[3] = State::Runs(now);
        assert_eq!(progress.left_s(now + Duration::from_secs(60)), 1.0, "longer than thought");
        progress.states[3] = State::Ended(20.0);
        assert_eq!(progress.left_shown(), "nothing left");
    }
}
