//! `mavlink-bulk`: parameters and a file over MAVLink, and the commands beside them.
//!
//! ```text
//! form: messages  through daemons, coded (specs/message.md)
//!       resent    through daemons, sent again when lost (specs/delivery.md §3)
//!       plain     without daemons: the applications' own retries alone
//! ```
//! Everything runs at the same time, each over a link of its own; times are medians over the
//! repetitions, while delays of commands are pooled. What the transfers cost the commands is seen
//! beside a link on which nothing is moved. The applications are in `transfer`.

mod emu;
mod transfer;

use clap::Args;
use netem::{Delay, LinkModel, LinkRate, LossModel, QueueLimit, Scenario};
use serde_json::{Value, json};
use units::Duration;

use super::Description;
use crate::arguments::{LinkArgs, RepetitionArgs, RunArgs, loss};
use crate::doubt::{add_errors, rankings_of};
use crate::figure::Figure;
use crate::report::{Mode, Report, rounded_option};
use crate::scenario_file::ScenarioArgs;
use crate::scheme::{Known, Scheme};
use crate::statistics::{maximum, median, percentile};
use emu::{BulkForm, MavlinkCell, MavlinkRun, run_mavlink};
use emulator::Failure;
use sys::print::tell;
use transfer::{CHUNK, Taken, TransferPlan};

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "mavlink-bulk",
    about: "parameters and a file over MAVLink at 0, 5 and 17 % loss, and commands beside them",
    sim: Known::all(&[]),
    emu: Known::all(&[Scheme::FULMAR, Scheme::UDP]),
    beside: &[],
    figures: &[
        Figure::new("scheme", "scheme"),
        Figure::new("form", "form"),
        Figure::new("moves", "moves"),
        Figure::new("loss", "loss").exact(),
        Figure::new("parameters_s", "parameters s"),
        Figure::new("burst_s", "burst s"),
        Figure::new("reads_s", "reads s"),
        Figure::new("requests", "requests"),
        Figure::new("command_down_p50_ms", "down p50 ms"),
        Figure::new("command_down_p99_ms", "down p99 ms"),
        Figure::new("command_up_p99_ms", "up p99 ms"),
        Figure::new("command_max_ms", "max ms"),
        Figure::new("commands_lost", "lost"),
    ],
};

/// What runs at every loss.
const CELLS: &[(Scheme, BulkForm, bool)] = &[
    (Scheme::FULMAR, BulkForm::Messages, true),
    (Scheme::FULMAR, BulkForm::Resent, true),
    (Scheme::FULMAR, BulkForm::Messages, false),
    (Scheme::UDP, BulkForm::Plain, true),
];

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("rate_mbps", |arg| arg.default_value("4")))]
#[command(mut_arg("delay_ms", |arg| arg.default_value("30")))]
pub(crate) struct MavlinkBulkArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Losses of each link in both directions, 0 to below 1.
    #[arg(long, default_value = "0,0.05,0.17", value_delimiter = ',', value_name = "P,...",
          value_parser = loss, conflicts_with = "scenario")]
    loss: Vec<f64>,
    /// Parameters in the list.
    #[arg(long, default_value_t = 1_000, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..))]
    parameters: u16,
    /// Chunks of the file, of 239 bytes each.
    #[arg(long, default_value_t = 1_000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    chunks: u32,
    /// Chunks that are read one after another.
    #[arg(long, default_value_t = 100, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    reads: u32,
    /// Messages that the vehicle sends a second, at most.
    #[arg(long, default_value_t = 400, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pace: u32,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Seconds after which a step is given up.
    #[arg(long, default_value_t = 60, value_name = "S",
          value_parser = clap::value_parser!(u64).range(1..=3_600))]
    limit: u64,
    #[command(flatten)]
    again: RepetitionArgs,
}

/// Runs the experiment.
pub(super) fn run(args: &MavlinkBulkArgs) -> Result<Report, Failure> {
    if args.run.mode() == Mode::Sim {
        let what = "mavlink-bulk: with real daemons alone (--emu)";
        return Err(Failure::Usage(what.to_owned()));
    }
    let schemes = args.run.schemes(DESCRIPTION.emu)?;
    let mut cells = Vec::new();
    let own = args.scenario.read()?;
    // Another scenario has losses of its own: it is run once.
    for loss in if own.is_some() { &[0.0][..] } else { &args.loss[..] } {
        for (scheme, form, moves) in CELLS.iter().filter(|(scheme, ..)| schemes.contains(scheme)) {
            let scenario = own.clone().unwrap_or_else(|| scenario(args, *loss));
            let cell = MavlinkCell { scenario, form: *form, moves: *moves };
            cells.push((*scheme, *loss, cell));
        }
    }
    let plan = TransferPlan {
        parameters: args.parameters,
        chunks: args.chunks,
        reads: args.reads,
        pace: Duration::from_secs(1) / args.pace,
    };
    let (mut repetitions, mut audits) = (Vec::new(), Vec::new());
    for repetition in 0..args.again.repetitions {
        tell(format_args!("mavlink-bulk --emu: {} of {}", repetition + 1, args.again.repetitions));
        let links: Vec<MavlinkCell> = cells.iter().map(|(_, _, cell)| cell.clone()).collect();
        let limit = Duration::from_secs(args.limit);
        let (runs, audit) = run_mavlink(&links, plan, limit, args.run.seed() + repetition)?;
        repetitions.push(runs);
        audits.push(audit);
    }
    let results = (0..).zip(&cells).map(|(number, (scheme, loss, cell))| {
        let of_cell = || repetitions.iter().map(|runs: &Vec<_>| &runs[number]);
        let (seen, best): (Vec<&MavlinkRun>, Vec<&MavlinkRun>) =
            of_cell().map(|(seen, best)| (seen, best)).unzip();
        let mut result = summarize(*scheme, *loss, cell, &seen);
        add_errors(&mut result, &summarize(*scheme, *loss, cell, &best), DESCRIPTION.figures);
        result
    });
    let results: Vec<Value> = results.collect();
    let doubts = rankings_of("form", &results, &DESCRIPTION.columns(), &["loss", "moves"]);
    let parameters = json!({
        "scenario": own.map(|own| own.name),
        "parameters": args.parameters,
        "file_bytes": args.chunks as usize * CHUNK,
        "reads": args.reads,
        "pace": args.pace,
        "rate_mbps": args.link.rate_mbps,
        "delay_ms": args.link.delay_ms,
        "limit_s": args.limit,
        "repetitions": args.again.repetitions,
    });
    Ok(Report::emu(DESCRIPTION.experiment, args.run.seed(), parameters, &audits, doubts, results))
}

fn scenario(args: &MavlinkBulkArgs, loss: f64) -> Scenario {
    let rate = args.link.rate();
    let queue = rate.bytes_in(Duration::from_millis(200));
    let model = LinkModel {
        delay: Delay::Fixed(args.link.delay()),
        rate: LinkRate::Constant(rate),
        loss: LossModel { independent: loss, ..LossModel::default() },
        queue: QueueLimit { bytes: Some(queue), packets: None },
        ..LinkModel::default()
    };
    Scenario::new(DESCRIPTION.experiment, 0.0).link("net", "drone", "station", &model)
}

/// Makes a result of a cell: medians of times, percentiles over all commands.
fn summarize(scheme: Scheme, loss: f64, cell: &MavlinkCell, runs: &[&MavlinkRun]) -> Value {
    let step = |step: usize| {
        let taken = || runs.iter().filter_map(|run| run.taken.map(|taken| taken[step]));
        // A step that was given up took longer than any that was not.
        let seconds: Vec<f64> =
            taken().map(|taken: Taken| taken.seconds.unwrap_or(f64::INFINITY)).collect();
        rounded_option(median(&seconds).filter(|seconds| seconds.is_finite()), 3)
    };
    let requests: Vec<f64> = runs
        .iter()
        .filter_map(|run| Some(run.taken?.iter().map(|taken| f64::from(taken.requests)).sum()))
        .collect();
    let unfinished = runs.iter().filter_map(|run| run.taken).flatten();
    let unfinished = unfinished.filter(|taken| taken.seconds.is_none()).count();
    let delays = |direction: usize| {
        let mut all: Vec<f64> =
            runs.iter().flat_map(|run| run.delays_ms[direction].iter().copied()).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let (up, down) = (delays(0), delays(1));
    let at = |delays: &[f64], p| rounded_option(percentile(delays, p), 2);
    let lost: usize = runs.iter().map(|run| run.lost).sum();
    json!({
        "scheme": scheme,
        "form": match cell.form {
            BulkForm::Messages => "messages",
            BulkForm::Resent => "resent",
            BulkForm::Plain => "plain",
        },
        "moves": cell.moves,
        "loss": loss,
        "parameters_s": step(0),
        "burst_s": step(1),
        "reads_s": step(2),
        "requests": rounded_option(median(&requests), 1),
        "unfinished": unfinished,
        "commands": runs.iter().map(|run| run.commands).sum::<usize>(),
        "commands_lost": lost,
        "command_up_p50_ms": at(&up, 0.5),
        "command_up_p99_ms": at(&up, 0.99),
        "command_down_p50_ms": at(&down, 0.5),
        "command_down_p99_ms": at(&down, 0.99),
        "command_max_ms": rounded_option(maximum(&[up, down].concat()), 2),
    })
}
