//! How long after a link has changed copies go another way: seen on the links, whatever a scheme says of itself.
//!
//! ```text
//! x(t)   share of all bytes that enter the first link in the quarter of a second t after a step, mean of all
//!        steps of a kind (for the worse, for the better)
//! moved  the first t after which x, over a second, has come four fifths of the way from where it was to
//!        where it settles
//! ```

use super::links::Links;
use super::sim::{QUARTERS, Run};

/// How long before a step the share is what it was, seconds.
const BEFORE_S: f64 = 10.0;
/// The longest stretch after a step that is looked at, seconds.
const AFTER_S: f64 = 30.0;
/// How much of the way counts as moved.
const MOVED: f64 = 0.8;
/// A share that settles closer than this to where it was has not moved.
const APART: f64 = 0.05;

/// Returns how long after a step the bytes have gone elsewhere, the worse of steps for the worse and for the
/// better, in seconds; none where they go as before.
pub(super) fn after_step_s(links: &Links, run: &Run) -> Option<f64> {
    // Steps come in pairs: there, and back.
    let [there, back] = [0, 1].map(|place| {
        let steps = links.steps_s.iter().skip(place).step_by(2).copied();
        moved_after_s(&links.steps_s, steps, run)
    });
    there.into_iter().chain(back).reduce(f64::max)
}

fn moved_after_s(all: &[f64], steps: impl Iterator<Item = f64>, run: &Run) -> Option<f64> {
    let quarter = |seconds: f64| (seconds * QUARTERS as f64).round() as usize;
    let gap = all.windows(2).map(|pair| pair[1] - pair[0]).fold(AFTER_S, f64::min);
    let (before, after) = (quarter(BEFORE_S), quarter(gap));
    let mut sums = vec![(0_u64, 0_u64); before + after];
    let mut counted = 0;
    for step in steps {
        let (Some(first), last) = (quarter(step).checked_sub(before), quarter(step) + after) else {
            continue;
        };
        if last >= run.bytes.len() {
            continue;
        }
        counted += 1;
        for (sum, at) in sums.iter_mut().zip(first..last) {
            let [from, to] = [at, at + 1].map(|at| &run.bytes[at]);
            sum.0 += to[0] - from[0];
            sum.1 += to.iter().sum::<u64>() - from.iter().sum::<u64>();
        }
    }
    let shares: Vec<f64> =
        sums.iter().map(|(first, all)| *first as f64 / (*all).max(1) as f64).collect();
    let mean = |shares: &[f64]| shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let (was, settled) = (mean(&shares[..before]), mean(&shares[before + after / 2..]));
    if counted == 0 || (settled - was).abs() < APART {
        return None;
    }
    let moved = |second: &[f64]| (mean(second) - was) / (settled - was) >= MOVED;
    let first = shares[before..].windows(QUARTERS).position(moved)?;
    Some(first as f64 / QUARTERS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::conclone_target::links::Kind;

    #[test]
    fn bytes_that_move_two_seconds_after_a_step_are_seen_to() {
        let links = Links::new(Kind::Changing, 600.0).expect("no recording");
        let mut run = Run {
            ways: Default::default(),
            bytes: vec![vec![0, 0]],
            copies: Vec::new(),
            said: Vec::new(),
        };
        for quarter in 0..2_400 {
            let at_s = f64::from(quarter) / 4.0 % 300.0;
            let moved = (137.0..166.0).contains(&at_s);
            let last = run.bytes.last().expect("one").clone();
            let (first, second) = if moved { (10, 90) } else { (90, 10) };
            run.bytes.push(vec![last[0] + first, last[1] + second]);
        }
        assert_eq!(after_step_s(&links, &run), Some(2.0));
        let still = Run { bytes: (0..2_400).map(|n| vec![n * 9, n]).collect(), ..run };
        assert_eq!(after_step_s(&links, &still), None);
    }
}
