//! `message-share`: what saturating message streams leave to each other, and to TCP, on one link.
//!
//! ```text
//! of_fair_share = goodput ÷ (sum of the goodputs ÷ number of flows)   after the start-up
//! ```
//! The competition that the LRT paper leaves open [LRT §V]. Flows alone tell what the link gives
//! each kind; two flows of TCP, what TCP leaves to TCP.

use clap::Args;
use netem::{Delay, LinkModel, LinkRate, LossModel, QueueLimit, Scenario};
use serde_json::{Value, json};
use units::{Duration, Rate};

use super::Description;
use crate::arguments::{RunArgs, loss};
use crate::emu::{Flow, ShareRun, run_share};
use crate::failure::Failure;
use crate::report::{Mode, Report, rounded};
use crate::scheme::{Known, Scheme};
use crate::statistics::mean;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "message-share",
    about: "saturating message streams beside each other and beside TCP on one link",
    sim: Known::all(&[]),
    emu: Known::all(&[Scheme::Fulmar]),
    figures: &[
        ("scheme", "scheme"),
        ("setting", "setting"),
        ("flow", "flow"),
        ("goodput_mbps", "goodput Mbit/s"),
        ("of_fair_share", "of fair share"),
    ],
};

/// Flows that share the link; the figures are per setting.
const SETTINGS: &[(&str, &[Flow])] = &[
    ("four_streams", &[Flow::Messages; 4]),
    ("beside_cubic", &[Flow::Messages, Flow::Tcp("cubic")]),
    ("beside_bbr", &[Flow::Messages, Flow::Tcp("bbr")]),
    ("two_cubic", &[Flow::Tcp("cubic"), Flow::Tcp("cubic")]),
];

/// Is what the experiment takes.
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
    /// Rate of the link, Mbit/s.
    #[arg(long, default_value_t = 10.0, value_name = "MBPS")]
    rate_mbps: f64,
    /// One-way delay, milliseconds.
    #[arg(long, default_value_t = 20.0, value_name = "MS")]
    delay_ms: f64,
    /// Length of the link's queue, milliseconds at its rate.
    #[arg(long, default_value_t = 100.0, value_name = "MS")]
    queue_ms: f64,
    /// Loss in both directions, 0 to 1.
    #[arg(long, default_value_t = 0.0, value_name = "P",
          value_parser = loss)]
    loss: f64,
    /// Settings to run, separated by commas; default: all.
    #[arg(long, value_delimiter = ',', value_name = "NAME",
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
    let (mut results, mut audits) = (Vec::new(), Vec::new());
    let asked = |name: &str| args.settings.is_empty() || args.settings.iter().any(|s| s == name);
    for (name, flows) in SETTINGS.iter().filter(|(name, _)| asked(name)) {
        eprintln!("message-share --emu: {name}, {} s", args.start_up + args.seconds);
        let (runs, audit) =
            run_share(&scenario(args), flows, args.start_up + args.seconds, args.run.seed)?;
        results.extend(figures(name, &runs, args.start_up as usize));
        audits.push(audit);
    }
    let parameters = json!({
        "seconds": args.seconds,
        "start_up": args.start_up,
        "rate_mbps": args.rate_mbps,
        "delay_ms": args.delay_ms,
        "queue_ms": args.queue_ms,
        "loss": args.loss,
    });
    Ok(Report::emu(DESCRIPTION.experiment, args.run.seed, parameters, &audits, results))
}

fn scenario(args: &MessageShareArgs) -> Scenario {
    let rate = Rate::from_mbps(args.rate_mbps);
    let queue = rate.bytes_in(Duration::from_secs_f64(args.queue_ms / 1e3));
    let model = LinkModel {
        delay: Delay::Fixed(Duration::from_secs_f64(args.delay_ms / 1e3)),
        rate: LinkRate::Constant(rate),
        loss: LossModel { independent: args.loss, ..LossModel::default() },
        queue: QueueLimit { bytes: Some(queue), packets: None },
        ..LinkModel::default()
    };
    Scenario::new(DESCRIPTION.experiment, 0.0).link("net", "drone", "station", &model)
}

fn figures(setting: &str, runs: &[ShareRun], start_up: usize) -> Vec<Value> {
    let later = |run: &ShareRun| {
        mean(run.goodput_mbps.get(start_up..).unwrap_or_default()).unwrap_or_default()
    };
    let goodputs: Vec<f64> = runs.iter().map(later).collect();
    let fair = mean(&goodputs).unwrap_or_default();
    let result = |(run, goodput): (&ShareRun, &f64)| {
        json!({
            "scheme": Scheme::Fulmar,
            "setting": setting,
            "flow": match run.flow {
                Flow::Messages => "messages",
                Flow::Tcp(congestion) => congestion,
            },
            "goodput_mbps": rounded(*goodput, 4),
            "of_fair_share": rounded(goodput / fair.max(1e-9), 4),
        })
    };
    runs.iter().zip(&goodputs).map(result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_the_flows_got_together() {
        let run = |flow, goodput_mbps: &[f64]| ShareRun { flow, goodput_mbps: goodput_mbps.into() };
        let runs =
            [run(Flow::Messages, &[0.0, 6.0, 6.0]), run(Flow::Tcp("cubic"), &[9.0, 2.0, 2.0])];
        let figures = figures("beside_cubic", &runs, 1);
        assert_eq!(figures[0]["of_fair_share"], json!(1.5));
        assert_eq!(figures[1]["of_fair_share"], json!(0.5));
        assert_eq!(figures[1]["goodput_mbps"], json!(2.0));
    }
}
