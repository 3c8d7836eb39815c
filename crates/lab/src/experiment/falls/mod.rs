//! `falls`: links that were fast and become thin, and fast again.
//!
//! ```text
//! cell, grid   which links fall from what to what, for how long, beside which load; scenes that
//!              are no such fall
//! links        the emulated links of a cell
//! figures      what became of control, and what was handed to the links meanwhile
//! bars         what must hold: no program that does nothing clever has the shorter silence
//! reachable    what an ideal sender could reach, where that is less than the bar asks for
//! course       one fall over time: what stands in the hop's queue, and what is believed to
//! ```
//! Every scheme plays every cell; plain UDP has the better link alone.

mod bars;
mod cell;
mod course;
mod figures;
mod grid;
mod links;
mod picture;
mod reachable;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::Description;
use crate::arguments::{RunArgs, positive, seeds_shown};
use crate::experiment::streams::figures::{
    CONTROL_GAP, CONTROL_LATE, CONTROL_LOST, CONTROL_P99, CONTROL_SENT, FIGURES, LIVE_AGE_MAX,
    LIVE_AGE_P99, WIRE_BYTES,
};
use crate::experiment::streams::sim::run_stepwise;
use crate::figure::{Figure, pooled};
use crate::parallel;
use crate::report::{Mode, Report};
use crate::scheme::{Known, Scheme};
use crate::testbed::Recording;
use cell::Cell;
use emulator::Failure;
use figures::Readings;
use grid::GridArgs;
use links::{DELAYS_MS, Hop, Times};
use sys::print::tell;

// What nothing but this experiment has.
const IN_TIME: Figure = Figure::sum("control_in_time", "in time");
const LIVE_AGE_FALL: Figure = Figure::worst("live_age_fall_ms", "live max ms");
const STALE: Figure = Figure::sum("stale", "stale");
const WIRE_SHARE: Figure = Figure::worst("wire_share_fall", "of the fall");
const WIRE_TO_RATE: Figure = Figure::worst("wire_to_rate_fall", "to its rate");
const GAP_BAR: Figure = Figure::new("gap_bar_s", "bar s");
const BARS_MISSED: Figure = Figure::new("bars_missed", "misses");

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "falls",
    about: "links that were fast and become thin: how long control is silent",
    sim: Known::all(&[Scheme::FULMAR, Scheme::REDUNDANT, Scheme::MIN_RTT, Scheme::UDP]),
    emu: Known::all(&[]),
    beside: &[&FIGURES, &OTHERS],
    figures: &[
        Figure::new("cell", "cell"),
        Figure::new("scheme", "scheme"),
        CONTROL_SENT,
        CONTROL_LOST,
        CONTROL_LATE,
        IN_TIME,
        CONTROL_GAP,
        GAP_BAR,
        CONTROL_P99,
        LIVE_AGE_P99,
        LIVE_AGE_FALL,
        STALE,
        WIRE_BYTES,
        WIRE_SHARE,
        BARS_MISSED,
    ],
};

/// What results have beside the table.
const OTHERS: [Figure; 13] = [
    Figure::new("links", "links"),
    Figure::new("from_mbps", "from Mbit/s"),
    Figure::new("to_kbps", "to kbit/s"),
    Figure::new("fall_s", "fall s"),
    Figure::new("queue_kb", "queue kB"),
    Figure::new("load", "load"),
    Figure::new("loss", "loss"),
    LIVE_AGE_MAX,
    WIRE_TO_RATE,
    Figure::new("reachable_gap_s", "reachable s"),
    Figure::new("in_time_bar", "in time, bar"),
    Figure::new("age_bar_ms", "age, bar ms"),
    Figure::new("bars_missed_count", "missed"),
];

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct FallsArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    #[command(flatten)]
    grid: GridArgs,
    /// When the fall begins, seconds from the first message.
    #[arg(long, default_value_t = 10.0, value_name = "S", value_parser = positive)]
    start_s: f64,
    /// Also write the course of the one cell that is run with fulmar into this file, as CSV; with
    /// --out it is drawn.
    #[arg(long, value_name = "FILE")]
    course: Option<PathBuf>,
    /// Cells that are run at the same time; as many as there are processors unless said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: Option<u8>,
}

/// Runs the experiment.
pub(super) fn run(args: &FallsArgs) -> Result<Report, Failure> {
    if args.run.mode() == Mode::Emu {
        return Err(Failure::Usage("falls: in the world only (--sim)".to_owned()));
    }
    let schemes = args.run.schemes(DESCRIPTION.sim)?;
    let recording = args.run.recording()?;
    let seeds = args.run.seeds();
    let cells = args.grid.chosen(seeds.0);
    if let Some(csv) = &args.course {
        let [cell] = &cells[..] else {
            let count = cells.len();
            return Err(Failure::Usage(format!("--course: of one cell, and there are {count}")));
        };
        let (times, directory) = (Times::of(cell, args.start_s), args.run.out.as_deref());
        course::write(cell, times, &recording, seeds.0, csv, directory)?;
    }
    let jobs = args.jobs.map_or_else(parallel::processors, usize::from);
    let played = parallel::map(&cells, jobs, |number, cell| {
        let (place, count) = (number + 1, cells.len());
        tell(format_args!("falls --sim: {place} of {count}, {cell}, {}", seeds_shown(seeds)));
        play(cell, Times::of(cell, args.start_s), &schemes, seeds, &recording)
    });
    let results: Vec<Vec<Value>> = played.into_iter().collect::<Result<_, String>>()?;
    let results = results.concat();
    if let Some(directory) = &args.run.out {
        picture::draw(directory, &schemes, &results)?;
    }
    if let Some(summary) = bars::summary(&results) {
        tell(format_args!("falls: {summary}"));
    }
    let parameters = json!({
        "delays_ms": DELAYS_MS,
        "start_s": args.start_s,
        "figures": "the worse of both directions; wire shares of the fullest direction of a link",
    });
    Ok(Report::sim(DESCRIPTION.experiment, seeds, parameters, results))
}

/// Plays a cell through every scheme, and judges it.
fn play(
    cell: &Cell,
    times: Times,
    schemes: &[Scheme],
    (first, last): (u64, u64),
    recording: &Recording,
) -> Result<Vec<Value>, String> {
    let hops = Hop::all(cell, times);
    let workload = cell.load.workload(times.seconds);
    let mut results = Vec::new();
    for &scheme in schemes {
        let scenario = links::scenario(cell, &hops, times, scheme);
        let mut by_seed = Vec::new();
        for seed in first..=last {
            let mut readings = Readings::new(cell, times, scheme);
            let watch = |world: &_| readings.watch(world);
            let run =
                run_stepwise(&scenario, (scheme, None), &workload, recording, seed, |_| {}, watch)?;
            by_seed.push((seed, figures::figures(cell, scheme, times, &run, &readings)));
        }
        results.push(pooled(&[&FIGURES[..], &FALLS].concat(), &by_seed));
    }
    bars::judge(cell, &mut results);
    Ok(results)
}

/// How what only this experiment has is pooled.
const FALLS: [Figure; 5] = [IN_TIME, LIVE_AGE_FALL, STALE, WIRE_SHARE, WIRE_TO_RATE];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn report(words: &str) -> Report {
        let words = ["fulmar-lab", "run", "falls", "--sim"].into_iter().chain(words.split(' '));
        let cli = Cli::try_parse_from(words).expect("a sound command line");
        let Command::Run { experiment } = cli.command else { panic!("not a run") };
        experiment.run().expect("it runs")
    }

    #[test]
    fn a_fall_that_leaves_room_costs_nothing_and_has_a_picture() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().display();
        let report = report(&format!(
            "--only both_1M_500k_1s_64kB_counted --schemes fulmar,udp --out {out} --course {out}/c.csv"
        ));
        let [own, udp] = &report.results[..] else { panic!("{:?}", report.results) };
        assert_eq!(own["bars_missed"], json!([]), "{own}");
        assert_eq!((&own["control_sent"], &own["control_in_time"]), (&json!(1050), &json!(1050)));
        assert!(udp["wire_to_rate_fall"].as_f64().expect("a share") < 0.2, "{udp}");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("written");
        assert!(read("falls.svg").contains("from 1 Mbit/s"));
        assert!(read("fall-course.svg").contains("stands there"));
        let course = read("c.csv");
        assert!(course.starts_with("time_s,queue_bytes,sent_bytes,in_flight_bytes"));
        assert!(course.lines().count() > 21 * 20, "a row each 50 ms");
    }
}
