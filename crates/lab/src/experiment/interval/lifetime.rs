//! `lifetime`: how many control messages in a row need no retransmission.
//!
//! ```text
//! run = messages delivered in a row by the copies of their first sending
//! λ   = 1 / mean run, the rate of the exponential distribution that fits best
//! independent losses f on n links: P(run = r) = (1 − fⁿ)^r · fⁿ, mean (1 − fⁿ) / fⁿ
//! ```
//! Source: [ConClone §4.2.2, Fig. 5]. The paper fits its measured lifetimes by an exponential
//! distribution; for independent losses that is the geometric distribution's twin.

use clap::Args;
use netem::Scenario;
use serde_json::{Value, json};
use units::Duration;

use super::emu::run_intervals;
use super::plan::{Contents, IntervalPlan, IntervalRun};
use super::sim::run_interval;
use super::{LossyArgs, RESOLUTION, copies, give_up, links};
use crate::arguments::{RunArgs, seeds_shown};
use crate::doubt::{add_errors, rankings_in_doubt};
use crate::experiment::Description;
use crate::figure::Figure;
use crate::report::{Mode, Report, merged, rounded, rounded_option};
use crate::scenario_file::ScenarioArgs;
use crate::scheme::{Known, Scheme};
use crate::statistics::{exponential_distance, exponential_rate, maximum, mean};
use emulator::Failure;
use sys::print::tell;

/// Describes the experiment.
pub(crate) const DESCRIPTION: Description = Description {
    experiment: "lifetime",
    about: "runs of control messages that need no retransmission, and their exponential fit",
    sim: Known {
        unasked: &[Scheme::FULMAR, Scheme::MIN_RTT, Scheme::IDEAL_ARQ],
        asked: &[Scheme::ROUND_ROBIN, Scheme::REDUNDANT, Scheme::UDP, Scheme::FULMAR_TARGET],
    },
    emu: Known {
        unasked: &[Scheme::FULMAR, Scheme::MIN_RTT, Scheme::KERNEL_MPTCP],
        asked: &[
            Scheme::ROUND_ROBIN,
            Scheme::REDUNDANT,
            Scheme::UDP,
            Scheme::FULMAR_TARGET,
            Scheme::KERNEL_TCP_CUBIC,
            Scheme::KERNEL_TCP_BBR,
            Scheme::KERNEL_TCP_RENO,
        ],
    },
    beside: &[],
    figures: &[
        Figure::new("scheme", "scheme"),
        Figure::new("runs", "runs"),
        Figure::new("mean_run", "mean run"),
        Figure::new("expected_mean_run", "expected"),
        Figure::new("longest_run", "longest"),
        Figure::new("lambda", "lambda"),
        Figure::new("fit_distance", "distance to fit"),
    ],
};

/// One-way delay of the links.
const DELAY_MS: f64 = 10.0;
/// A message that takes this much longer than the link's delay was sent again: transmission and
/// encryption take less, a probe timeout more.
const MARGIN: Duration = Duration::from_millis(3);
/// The same through real daemons and kernels, whose own time is in it; a probe timeout on links of
/// 10 ms takes more than 20 ms beyond the delay.
const MARGIN_EMU: Duration = Duration::from_millis(12);
/// Messages of a run in the world, and on the emulator, where each takes half a second.
const MESSAGES: [u32; 2] = [2_000, 400];

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct LifetimeArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Messages per seed; default 2,000 with --sim, 400 with --emu.
    #[arg(long, value_name = "N")]
    messages: Option<u32>,
    #[command(flatten)]
    lossy: LossyArgs,
    #[command(flatten)]
    scenario: ScenarioArgs,
}

/// Runs the experiment.
pub(crate) fn run(args: &LifetimeArgs) -> Result<Report, Failure> {
    let own = || links(args.lossy.links, DELAY_MS, args.lossy.loss);
    let scenario = args.scenario.read()?.unwrap_or_else(own);
    // A message that was not sent again takes the delay of the slowest link at most.
    let models = scenario.links.iter().flat_map(|pair| [&pair.up, &pair.down]);
    let delay = models.map(|model| model.delay_at(netem::Instant::ZERO)).max().unwrap_or_default();
    let mode = args.run.mode();
    let messages = args.messages.unwrap_or(MESSAGES[usize::from(mode == Mode::Emu)]);
    let contents = Contents::of(&args.run)?;
    let plan = |scheme| IntervalPlan {
        messages,
        interval: Duration::from_millis(500),
        give_up: give_up(scheme),
        bulk_mbps: 0.0,
        rto_min: None,
        contents: contents.clone(),
    };
    let parameters =
        json!({"messages_per_seed": messages, "loss": args.lossy.loss, "links": args.lossy.links});
    if mode == Mode::Emu {
        return run_emu(args, &scenario, &plan, delay + MARGIN_EMU, parameters);
    }
    let schemes = args.run.schemes(DESCRIPTION.sim)?;
    let (first, last) = args.run.seeds();
    let mut results = Vec::new();
    for scheme in schemes {
        tell(format_args!("lifetime --sim: {scheme}, {}", seeds_shown((first, last))));
        let mut runs = Vec::new();
        for seed in first..=last {
            let run = run_interval(&scenario, scheme, &plan(scheme), seed)?;
            runs.extend(lifetimes(&run, delay + MARGIN));
        }
        results.push(figures(scheme, runs, args));
    }
    Ok(Report::sim(DESCRIPTION.experiment, (first, last), parameters, results))
}

fn run_emu(
    args: &LifetimeArgs,
    scenario: &Scenario,
    plan: &dyn Fn(Scheme) -> IntervalPlan,
    limit: Duration,
    parameters: Value,
) -> Result<Report, Failure> {
    let schemes = args.run.schemes(DESCRIPTION.emu)?;
    let plans: Vec<_> = schemes.into_iter().map(|scheme| (scheme, plan(scheme))).collect();
    let seed = args.run.seed();
    let (runs, audit) = run_intervals(scenario, &plans, seed, RESOLUTION)?;
    let result = |(scheme, run): &(Scheme, IntervalRun)| {
        let mut seen = figures(*scheme, lifetimes(run, limit), args);
        let best = figures(*scheme, lifetimes(&run.at_best(&audit.stalls), limit), args);
        add_errors(&mut seen, &best, DESCRIPTION.figures);
        seen
    };
    let results: Vec<Value> = runs.iter().map(result).collect();
    let doubts = rankings_in_doubt(&results, &DESCRIPTION.columns(), &[]);
    Ok(Report::emu(DESCRIPTION.experiment, seed, parameters, &[audit], doubts, results))
}

/// Cuts a run of messages into lifetimes; the last one, which nothing ended, is left out.
fn lifetimes(run: &IntervalRun, longest: Duration) -> Vec<f64> {
    let limit = 0.5 + longest.as_secs_f64();
    let mut lifetimes = Vec::new();
    let mut current = 0.0;
    for interval in &run.intervals {
        if *interval > limit {
            lifetimes.push(current);
            current = 0.0;
        } else {
            current += 1.0;
        }
    }
    lifetimes
}

fn figures(scheme: Scheme, mut runs: Vec<f64>, args: &LifetimeArgs) -> Value {
    runs.sort_by(f64::total_cmp);
    let failure = args.lossy.loss.powi(copies(scheme, args.lossy.links) as i32);
    let rate = exponential_rate(&runs);
    let distance = rate.map(|rate| exponential_distance(&runs, rate));
    merged([
        json!({"scheme": scheme, "runs": runs.len()}),
        json!({
            "mean_run": rounded_option(mean(&runs), 4),
            "expected_mean_run": rounded((1.0 - failure) / failure, 4),
            "longest_run": maximum(&runs),
            "lambda": rounded_option(rate, 5),
            "fit_distance": rounded_option(distance, 4),
        }),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_end_at_retransmissions() {
        let intervals = vec![0.51, 0.51, 0.55, 0.51, 0.60, 0.58, 0.51];
        let run = IntervalRun { intervals, ..IntervalRun::default() };
        assert_eq!(lifetimes(&run, Duration::from_millis(13)), [2.0, 1.0, 0.0]);
    }
}
