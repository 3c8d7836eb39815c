//! `message-share`: what saturating message streams leave to each other, and to TCP, on one link.
//!
//! ```text
//! of_fair_share = goodput ÷ (sum of the goodputs ÷ number of flows)   after the start-up
//! ```
//! The competition that the LRT paper leaves open [LRT §V]. Two flows of TCP show what TCP leaves
//! to TCP. All settings run at the same time, each over a link of its own; a figure is the median
//! over the repetitions, beside the least and the most. A repetition with a fault that no error of
//! a figure accounts for is run again: that depends on the machine, not on the figures.

mod emu;

use clap::Args;
use netem::{Delay, LinkModel, LinkRate, LossModel, QueueLimit, Scenario};
use serde_json::{Value, json};
use units::Duration;

use super::Description;
use crate::arguments::{LinkArgs, RepetitionArgs, RunArgs, loss};
use crate::doubt::{add_errors_of_time, rankings_of};
use crate::figure::Figure;
use crate::report::{Mode, Report, rounded_option};
use crate::scenario_file::ScenarioArgs;
use crate::scheme::{Known, Scheme};
use crate::statistics::{mean, median};
use emu::{Flow, Goodput, ShareCell, run_share};
use emulator::Failure;
use sys::print::tell;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "message-share",
    about: "saturating message streams beside each other and beside TCP on one link",
    sim: Known::all(&[]),
    emu: Known::all(&[Scheme::FULMAR]),
    beside: &[],
    figures: &[
        Figure::new("scheme", "scheme"),
        Figure::new("queue_ms", "queue ms").exact(),
        Figure::new("setting", "setting"),
        Figure::new("flow", "flow"),
        Figure::new("goodput_mbps", "goodput Mbit/s"),
        Figure::new("of_fair_share", "of fair share").ratio(),
        Figure::new("least_share", "least").ratio(),
        Figure::new("most_share", "most").ratio(),
    ],
};

/// Flows that share the link; the figures are per setting.
const SETTINGS: &[(&str, &[Flow])] = &[
    ("four_streams", &[Flow::Messages; 4]),
    ("beside_cubic", &[Flow::Messages, Flow::Tcp("cubic")]),
    ("beside_bbr", &[Flow::Messages, Flow::Tcp("bbr")]),
    ("two_cubic", &[Flow::Tcp("cubic"), Flow::Tcp("cubic")]),
];

/// Times that a repetition is attempted, on average.
const ATTEMPTS: u64 = 2;

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct MessageShareArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 30, value_name = "S",
          value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Seconds before that, in which flows find their rates.
    #[arg(long, default_value_t = 10, value_name = "S",
          value_parser = clap::value_parser!(u64).range(0..=600))]
    start_up: u64,
    #[command(flatten)]
    link: LinkArgs,
    /// Lengths of the link's queue, milliseconds at its rate.
    #[arg(
        long,
        default_value = "25,100,400",
        value_delimiter = ',',
        value_name = "MS,...",
        conflicts_with = "scenario"
    )]
    queue_ms: Vec<f64>,
    /// Loss in both directions, 0 to below 1.
    #[arg(long, default_value_t = 0.0, value_name = "P", value_parser = loss,
          conflicts_with = "scenario")]
    loss: f64,
    #[command(flatten)]
    scenario: ScenarioArgs,
    #[command(flatten)]
    again: RepetitionArgs,
    /// Settings to run, separated by commas; default: all.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...",
          value_parser = ["four_streams", "beside_cubic", "beside_bbr", "two_cubic"])]
    settings: Vec<String>,
}

/// Runs the experiment.
pub(super) fn run(args: &MessageShareArgs) -> Result<Report, Failure> {
    if args.run.mode() == Mode::Sim {
        let what = "message-share: with real kernels alone (--emu)";
        return Err(Failure::Usage(what.to_owned()));
    }
    args.run.schemes(DESCRIPTION.emu)?;
    let (mut results, mut audits, mut refused) = (Vec::new(), Vec::new(), 0);
    let own = args.scenario.read()?;
    // Another scenario has queues of its own: it is run once.
    let queues = if own.is_some() { &args.queue_ms[..1] } else { &args.queue_ms[..] };
    for queue_ms in queues {
        let cells = cells(args, own.as_ref(), *queue_ms);
        let (mut repetitions, mut in_doubt) = (Vec::new(), 0.0_f64);
        for attempt in 0..args.again.repetitions * ATTEMPTS {
            if repetitions.len() as u64 == args.again.repetitions {
                break;
            }
            let seconds = args.start_up + args.seconds;
            let (number, of) = (repetitions.len() + 1, args.again.repetitions);
            tell(format_args!(
                "message-share --emu: queue {queue_ms} ms, {number} of {of}, {seconds} s"
            ));
            let (runs, audit) = run_share(&cells, seconds, args.run.seed() + attempt)?;
            if !audit.faults.is_empty()
                && attempt + args.again.repetitions < args.again.repetitions * ATTEMPTS
            {
                tell(format_args!("{}; once more", audit.faults.join("; ")));
                refused += 1;
                continue;
            }
            let shares = |flows: &Vec<Goodput>| shares(flows, args.start_up as usize);
            repetitions.push(runs.iter().map(shares).collect());
            let (from_s, to_s) = (args.start_up as f64, seconds as f64);
            in_doubt = audit.stalls.reached_share(from_s, to_s).max(in_doubt);
            audits.push(audit);
        }
        let mut of_queue = summarize(&asked(args), *queue_ms, &repetitions);
        for result in &mut of_queue {
            add_errors_of_time(result, in_doubt, DESCRIPTION.figures);
        }
        results.extend(of_queue);
    }
    let parameters = json!({
        "scenario": own.map(|own| own.name),
        "seconds": args.seconds,
        "start_up": args.start_up,
        "rate_mbps": args.link.rate_mbps,
        "delay_ms": args.link.delay_ms,
        "queue_ms": args.queue_ms,
        "loss": args.loss,
        "repetitions": args.again.repetitions,
        "repetitions_refused": refused,
    });
    // Who gets more is what is asked; goodput says the same of the same flows.
    let ranked = [("of_fair_share", "")];
    let doubts = rankings_of("flow", &results, &ranked, &["queue_ms", "setting"]);
    Ok(Report::emu(DESCRIPTION.experiment, args.run.seed(), parameters, &audits, doubts, results))
}

/// Returns the settings that were asked for.
fn asked(args: &MessageShareArgs) -> Vec<(&'static str, &'static [Flow])> {
    let asked = |name: &str| args.settings.is_empty() || args.settings.iter().any(|s| s == name);
    SETTINGS.iter().filter(|(name, _)| asked(name)).copied().collect()
}

/// Returns a link for each of them.
fn cells(args: &MessageShareArgs, own: Option<&Scenario>, queue_ms: f64) -> Vec<ShareCell> {
    let cell = |(_, flows): (_, &[Flow])| ShareCell {
        scenario: own.cloned().unwrap_or_else(|| scenario(args, queue_ms)),
        flows: flows.to_vec(),
    };
    asked(args).into_iter().map(cell).collect()
}

fn scenario(args: &MessageShareArgs, queue_ms: f64) -> Scenario {
    let rate = args.link.rate();
    let queue = rate.bytes_in(Duration::from_secs_f64(queue_ms / 1e3));
    let model = LinkModel {
        delay: Delay::Fixed(args.link.delay()),
        rate: LinkRate::Constant(rate),
        loss: LossModel { independent: args.loss, ..LossModel::default() },
        queue: QueueLimit { bytes: Some(queue), packets: None },
        ..LinkModel::default()
    };
    Scenario::new(DESCRIPTION.experiment, 0.0).link("net", "drone", "station", &model)
}

/// What one flow got in one repetition.
#[derive(Clone, Copy, Debug)]
struct Share {
    goodput_mbps: f64,
    of_fair_share: f64,
}

/// Returns what each flow of a link got after the start-up.
fn shares(flows: &[Goodput], start_up: usize) -> Vec<Share> {
    let later = |flow: &Goodput| mean(flow.get(start_up..).unwrap_or_default()).unwrap_or_default();
    let goodputs: Vec<f64> = flows.iter().map(later).collect();
    let fair = mean(&goodputs).unwrap_or_default().max(1e-9);
    let share = |goodput| Share { goodput_mbps: goodput, of_fair_share: goodput / fair };
    goodputs.into_iter().map(share).collect()
}

/// Makes a result of each flow of each link.
fn summarize(
    settings: &[(&str, &[Flow])],
    queue_ms: f64,
    repetitions: &[Vec<Vec<Share>>],
) -> Vec<Value> {
    let mut results = Vec::new();
    for (number, (setting, flows)) in settings.iter().enumerate() {
        for (place, flow) in flows.iter().enumerate() {
            let got = || repetitions.iter().map(|cells| cells[number][place]);
            let goodputs: Vec<f64> = got().map(|share| share.goodput_mbps).collect();
            let shares: Vec<f64> = got().map(|share| share.of_fair_share).collect();
            results.push(json!({
                "scheme": Scheme::FULMAR,
                "queue_ms": queue_ms,
                "setting": setting,
                "flow": match flow {
                    Flow::Messages => "messages",
                    Flow::Tcp(congestion) => congestion,
                },
                "goodput_mbps": rounded_option(median(&goodputs), 4),
                "of_fair_share": rounded_option(median(&shares), 4),
                "least_share": rounded_option(shares.iter().copied().reduce(f64::min), 4),
                "most_share": rounded_option(shares.iter().copied().reduce(f64::max), 4),
            }));
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_the_flows_got_together() {
        let once = shares(&[vec![0.0, 6.0, 6.0], vec![9.0, 2.0, 2.0]], 1);
        let again = shares(&[vec![4.0, 5.0], vec![4.0, 5.0]], 1);
        let flows: &[Flow] = &[Flow::Messages, Flow::Tcp("cubic")];
        let results = summarize(&[("beside_cubic", flows)], 100.0, &[vec![once], vec![again]]);
        assert_eq!(results[0]["of_fair_share"], json!(1.25));
        assert_eq!(results[0]["most_share"], json!(1.5));
        assert_eq!(results[1]["least_share"], json!(0.5));
        assert_eq!(results[1]["goodput_mbps"], json!(3.5));
    }
}
