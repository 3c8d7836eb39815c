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
use serde_json::{Value, json};
use units::Duration;

use super::plan::{IntervalPlan, IntervalRun};
use super::sim::run_interval;
use super::{LossyArgs, links};
use crate::arguments::{RunArgs, seeds_shown};
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
    sim: Known::all(&[Scheme::FULMAR, Scheme::MIN_RTT, Scheme::IDEAL_ARQ]),
    emu: Known::all(&[]),
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

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct LifetimeArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Messages per seed.
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    messages: u32,
    #[command(flatten)]
    lossy: LossyArgs,
    #[command(flatten)]
    scenario: ScenarioArgs,
}

/// Runs the experiment.
pub(crate) fn run(args: &LifetimeArgs) -> Result<Report, Failure> {
    if args.run.mode() == Mode::Emu {
        return Err(Failure::Usage("lifetime: in the world only (--sim)".to_owned()));
    }
    let schemes = args.run.schemes(DESCRIPTION.sim)?;
    let own = || links(args.lossy.links, DELAY_MS, args.lossy.loss);
    let scenario = args.scenario.read()?.unwrap_or_else(own);
    // A message that was not sent again takes the delay of the slowest link at most.
    let models = scenario.links.iter().flat_map(|pair| [&pair.up, &pair.down]);
    let delay = models.map(|model| model.delay_at(netem::Instant::ZERO)).max().unwrap_or_default();
    let plan = IntervalPlan {
        messages: args.messages,
        interval: Duration::from_millis(500),
        bytes: 100,
        give_up: Duration::from_secs(3),
        bulk_mbps: 0.0,
    };
    let (first, last) = args.run.seeds();
    let mut results = Vec::new();
    for scheme in schemes {
        tell(format_args!("lifetime --sim: {scheme}, {}", seeds_shown((first, last))));
        let mut runs = Vec::new();
        for seed in first..=last {
            runs.extend(lifetimes(&run_interval(&scenario, scheme, &plan, seed)?, delay));
        }
        results.push(figures(scheme, &mut runs, args));
    }
    let parameters = json!({"messages_per_seed": args.messages, "loss": args.lossy.loss, "links": args.lossy.links});
    Ok(Report::sim(DESCRIPTION.experiment, (first, last), parameters, results))
}

/// Cuts a run of messages into lifetimes; the last one, which nothing ended, is left out.
fn lifetimes(run: &IntervalRun, delay: Duration) -> Vec<f64> {
    let limit = 0.5 + (delay + MARGIN).as_secs_f64();
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

fn figures(scheme: Scheme, runs: &mut [f64], args: &LifetimeArgs) -> Value {
    runs.sort_by(f64::total_cmp);
    // Schemes without copies live as long as one link lets them.
    let copies = if scheme == Scheme::FULMAR { i32::from(args.lossy.links) } else { 1 };
    let failure = args.lossy.loss.powi(copies);
    let rate = exponential_rate(runs);
    let distance = rate.map(|rate| exponential_distance(runs, rate));
    merged([
        json!({"scheme": scheme, "runs": runs.len()}),
        json!({
            "mean_run": rounded_option(mean(runs), 4),
            "expected_mean_run": rounded((1.0 - failure) / failure, 4),
            "longest_run": maximum(runs),
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
        assert_eq!(lifetimes(&run, Duration::from_millis(10)), [2.0, 1.0, 0.0]);
    }
}
