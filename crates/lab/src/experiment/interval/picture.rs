//! The paper's pictures of its measurement: [ConClone Fig. 9] and [ConClone Fig. 10] are
//! `intervals.svg`, [ConClone Fig. 11] is `distribution.svg`, [ConClone Fig. 12] `completion.svg`.
//! Of several seeds the series are those of the one whose completion is the median; distributions
//! are of all.

use std::path::Path;

use models::conclone::{self, FAILURE_COEFFICIENT};

use super::plan::IntervalRun;
use super::{ConcloneIntervalArgs, copies};
use crate::arguments::seeds_shown;
use crate::chart::{FunctionChart, FunctionPanel, Heights};
use crate::report::Mode;
use crate::scheme::Scheme;

/// Messages of the paper's series.
const SERIES: usize = 120;
/// What the paper printed for that many [ConClone Table 3], seconds, and what it is.
const PRINTED: [(f64, &str); 4] = [
    (110.44, "paper: default MPTCP"),
    (86.70, "paper: theory of one connection"),
    (68.17, "paper: ConClone"),
    (65.91, ""),
];
/// The interval for which the paper's rows were printed, seconds.
const INTERVAL_S: f64 = 0.5;
/// Points of a distribution.
const POINTS: u32 = 400;
/// Up to how many intervals of the plan a distribution is drawn: what is beyond is its tail, and
/// the paper has none.
const DRAWN: f64 = 6.0;

/// A scheme with its runs, each with its seed.
pub(super) type Runs<'a> = (Scheme, &'a [(u64, IntervalRun)]);

/// Writes the pictures into a directory, which is made.
///
/// # Errors
/// Says which path could not be written, and why.
pub(super) fn write(
    args: &ConcloneIntervalArgs,
    schemes: &[Runs<'_>],
    directory: &Path,
) -> Result<(), String> {
    let seeds = schemes.first().and_then(|(_, runs)| Some((runs.first()?.0, runs.last()?.0)));
    let life = if args.run.mode() == Mode::Sim { "virtual time" } else { "real time" };
    let how = |what: &str| {
        let seeds = seeds_shown(seeds.unwrap_or_default());
        format!("conclone-interval, {life}, {seeds}; {what}")
    };
    let chart = |title: &str, what: &str, panels| FunctionChart {
        title: title.to_owned(),
        subtitle: how(what),
        panels,
    };
    let series: Vec<FunctionPanel> =
        schemes.iter().filter_map(|runs| intervals(args, runs)).collect();
    let what = "the seed of median completion; expected: eq. 7 with the paper's k = 1.122";
    chart("Time between control messages", what, series).write(directory, "intervals.svg")?;
    let pooled = vec![distribution(args, schemes)];
    chart("Time between control messages", "all messages", pooled)
        .write(directory, "distribution.svg")?;
    let ends = vec![completion(args, schemes)];
    chart("Until all control messages are delivered", "the seed of median completion", ends)
        .write(directory, "completion.svg")?;
    Ok(())
}

/// Returns the run whose completion is in the middle.
fn middle<'a>((_, runs): &Runs<'a>) -> Option<&'a IntervalRun> {
    let mut order: Vec<&IntervalRun> = runs.iter().map(|(_, run)| run).collect();
    order.sort_by(|one, other| one.completion_s.total_cmp(&other.completion_s));
    order.get(order.len().checked_sub(1)? / 2).copied()
}

/// Fig. 9 and 10: one scheme's intervals, message by message.
fn intervals(args: &ConcloneIntervalArgs, runs: &Runs<'_>) -> Option<FunctionPanel> {
    let run = middle(runs)?;
    let number = |(i, interval): (usize, &f64)| (i as f64 + 1.0, *interval);
    let measured: Vec<(f64, f64)> =
        run.intervals.iter().take(SERIES).enumerate().map(number).collect();
    let end = measured.len().max(2) as f64;
    let n = copies(runs.0, args.lossy.links);
    let tr = conclone::completion_ratio(FAILURE_COEFFICIENT, args.lossy.loss, n);
    let expected = args.interval_s * tr;
    let greatest = measured.iter().map(|point| point.1).fold(expected, f64::max);
    let mut curves = vec![(runs.0.name().to_owned(), measured)];
    if args.scenario.scenario.is_none() {
        let name = format!("expected of {n} links: {expected:.3} s");
        curves.push((name, vec![(1.0, expected), (end, expected)]));
    }
    Some(FunctionPanel {
        title: format!("{}, seconds from one delivery to the next", runs.0),
        variable: "message".to_owned(),
        from: 0.0,
        to: end,
        heights: Heights::Linear(0.0, (greatest * 2.0).ceil() / 2.0),
        curves,
        printed: Vec::new(),
    })
}

/// Fig. 11: the distribution of all intervals of each scheme.
fn distribution(args: &ConcloneIntervalArgs, schemes: &[Runs<'_>]) -> FunctionPanel {
    let sorted = |(_, runs): &Runs<'_>| {
        let mut all: Vec<f64> =
            runs.iter().flat_map(|(_, run)| run.intervals.iter().copied()).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let all: Vec<Vec<f64>> = schemes.iter().map(sorted).collect();
    let from = args.interval_s;
    let to = from * DRAWN;
    let curve = |(runs, sorted): (&Runs<'_>, &Vec<f64>)| {
        let at = |point: u32| {
            let x = from + (to - from) * f64::from(point) / f64::from(POINTS);
            let below = sorted.partition_point(|interval| *interval <= x);
            (x, below as f64 / sorted.len().max(1) as f64)
        };
        (runs.0.name().to_owned(), (0..=POINTS).map(at).collect())
    };
    FunctionPanel {
        title: "Share of the intervals that are no longer".to_owned(),
        variable: "seconds from one delivery to the next".to_owned(),
        from,
        to,
        heights: Heights::Linear(0.0, 1.0),
        curves: schemes.iter().zip(&all).map(curve).collect(),
        // What the paper says of the long run, as the share within a second.
        printed: [
            (0.136, "paper, default MPTCP: 13.6 % are longer"),
            (0.028, "paper, ConClone: 2.8 % are longer"),
        ]
        .map(|(longer, what)| (1.0, 1.0 - longer, what.to_owned()))
        .into(),
    }
}

/// Fig. 12: how many messages are delivered after how long.
fn completion(args: &ConcloneIntervalArgs, schemes: &[Runs<'_>]) -> FunctionPanel {
    let curve = |runs: &Runs<'_>| {
        let mut sum = 0.0;
        let mut at = |(i, interval): (usize, &f64)| {
            sum += interval;
            (i as f64 + 1.0, sum)
        };
        let intervals = middle(runs).map(|run| &run.intervals[..run.intervals.len().min(SERIES)]);
        let points: Vec<(f64, f64)> =
            intervals.unwrap_or_default().iter().enumerate().map(&mut at).collect();
        (runs.0.name().to_owned(), points)
    };
    let mut curves: Vec<(String, Vec<(f64, f64)>)> = schemes.iter().map(curve).collect();
    let end = curves.iter().map(|(_, points)| points.len()).max().unwrap_or(0).max(2) as f64;
    curves.push(("ideal".to_owned(), vec![(0.0, 0.0), (end, end * args.interval_s)]));
    let is_paper = end == SERIES as f64 && args.interval_s == INTERVAL_S;
    let printed = PRINTED.iter().filter(|_| is_paper);
    let highest = curves.iter().flat_map(|(_, points)| points).map(|point| point.1);
    let highest = highest.chain(printed.clone().map(|(s, _)| *s)).fold(1.0, f64::max);
    FunctionPanel {
        title: "Seconds until so many messages were delivered".to_owned(),
        variable: "messages".to_owned(),
        from: 0.0,
        // Room for what stands beside the dots.
        to: end * 1.25,
        heights: Heights::Linear(0.0, (highest / 10.0).ceil() * 10.0),
        curves,
        printed: printed.map(|(s, what)| (end, *s, (*what).to_owned())).collect(),
    }
}
