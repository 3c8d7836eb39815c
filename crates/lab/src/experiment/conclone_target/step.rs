//! How long after a link has changed the plan of the copies has: by what the senders say of it.
//!
//! ```text
//! usual  a sender's flight before a step: that of most quarters of the ten seconds before it
//! x(t)   share of the senders and of the steps of a kind (for the worse, for the better) whose
//!        flight t after the step is another
//! moved  the first t after which x, over a second, has come four fifths of the way to where it
//!        settles
//! ```

use super::links::Links;
use super::sim::{Flight, QUARTERS, Run};

/// How far before a step is looked for what is usual, seconds.
const BEFORE_S: f64 = 10.0;
/// The longest stretch after a step that is looked at, seconds.
const AFTER_S: f64 = 30.0;
/// How much of the way counts as moved.
const MOVED: f64 = 0.8;
/// A share that settles below this has not moved.
const APART: f64 = 0.05;

/// Returns how long after a step for the worse plans have changed, and after one for the better, in
/// seconds; none where they stay as they were, and under a scheme that plans nothing.
pub(super) fn after_steps_s(links: &Links, run: &Run) -> [Option<f64>; 2] {
    // Steps come in pairs: there, and back.
    [0, 1].map(|place| {
        let steps = links.steps_s.iter().skip(place).step_by(2).copied();
        moved_after_s(&links.steps_s, steps, run)
    })
}

fn moved_after_s(all: &[f64], steps: impl Iterator<Item = f64>, run: &Run) -> Option<f64> {
    let quarter = |seconds: f64| (seconds * QUARTERS as f64).round() as usize;
    let gap = all.windows(2).map(|pair| pair[1] - pair[0]).fold(AFTER_S, f64::min);
    let (before, after) = (quarter(BEFORE_S), quarter(gap));
    let (mut moved, mut counted) = (vec![0.0; after], 0.0);
    for step in steps.map(quarter) {
        let Some(earlier) = step.checked_sub(before) else { continue };
        let (Some(earlier), Some(later)) =
            (run.flights.get(earlier..step), run.flights.get(step..step + after))
        else {
            continue;
        };
        for way in 0..2 {
            let Some(usual) = most_frequent(earlier.iter().filter_map(|both| both[way])) else {
                continue;
            };
            counted += 1.0;
            for (moved, both) in moved.iter_mut().zip(later) {
                *moved += f64::from(u8::from(both[way].is_some_and(|flight| flight != usual)));
            }
        }
    }
    let mean = |shares: &[f64]| shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let settled = mean(&moved[after / 2..]);
    if counted == 0.0 || settled / counted < APART {
        return None;
    }

    let first = moved.windows(QUARTERS).position(|second| mean(second) >= MOVED * settled)?;
    Some(first as f64 / QUARTERS as f64)
}

fn most_frequent(flights: impl Iterator<Item = Flight>) -> Option<Flight> {
    let mut counts: Vec<(Flight, usize)> = Vec::new();
    for flight in flights {
        match counts.iter_mut().find(|(known, _)| *known == flight) {
            Some((_, count)) => *count += 1,
            None => counts.push((flight, 1)),
        }
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(flight, _)| flight)
}

#[cfg(test)]
mod tests {
    use proto::PathId;

    use super::*;
    use crate::experiment::conclone_target::links::Kind;

    #[test]
    fn a_plan_that_changes_two_seconds_after_a_step_is_seen_to() {
        let links = Links::new(Kind::Changing, 600.0).expect("no recording");
        let [wifi, both] = [[Some(PathId(0)), None], [Some(PathId(0)), Some(PathId(1))]]
            .map(|[one, other]| [one, other, None, None]);
        let run = |flight: &dyn Fn(u32) -> Option<Flight>| Run {
            ways: Default::default(),
            bytes: Vec::new(),
            copies: Vec::new(),
            said: Vec::new(),
            flights: (0..2_400).map(|quarter| [flight(quarter); 2]).collect(),
        };
        let changes = run(&|quarter| {
            let at_s = f64::from(quarter) / 4.0 % 300.0;
            // Now and then something fails: that is no change of plan.
            let is_other = (137.0..167.0).contains(&at_s) != quarter.is_multiple_of(90);
            Some(if is_other { both } else { wifi })
        });
        assert_eq!(after_steps_s(&links, &changes), [Some(2.0); 2]);
        assert_eq!(after_steps_s(&links, &run(&|_| Some(wifi))), [None; 2], "it stays");
        assert_eq!(after_steps_s(&links, &run(&|_| None)), [None; 2], "nothing is planned");
    }
}
