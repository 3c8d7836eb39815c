//! `conclone-target`: what a target of reliability costs, and whether it is kept, over links of every kind.
//!
//! ```text
//! 50 messages a second each way; a target is a share of them (`control`), or of the time (`live`)
//! ```
//! Each kind of links is run for each class; a scheme that knows no target once for all deadlines, one that
//! does at each target and deadline. The first minute is told apart: what is learned then is paid then.

mod figures;
mod ledger;
mod links;
mod said;
mod sim;
mod step;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, ValueEnum};
use proto::Target;
use serde::Serialize;
use serde_json::json;
use units::Duration;

use super::Description;
use crate::arguments::{RunArgs, positive};
use crate::figure::Figure;
use crate::report::{Mode, Report};
use crate::scheme::{Known, Scheme, SessionScheme};
use emulator::Failure;
use figures::{WARM_UP_S, Yardstick, figures};
use links::{Kind, Links};
use sim::{Plan, Run};
use sys::print::tell;

/// Messages a second each way.
const HZ: f64 = 50.0;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "conclone-target",
    about: "what a reliability target costs, and whether it is kept, over links of every kind",
    sim: Known {
        unasked: &[Scheme::FULMAR_TARGET, Scheme::FULMAR, Scheme::MIN_RTT, Scheme::REDUNDANT],
        asked: &[Scheme::ROUND_ROBIN, Scheme::UDP],
    },
    emu: Known::all(&[]),
    beside: &[&OTHERS],
    figures: &[
        Figure::new("links", "links"),
        Figure::new("class", "class"),
        Figure::new("target", "target"),
        Figure::new("deadline_ms", "ms"),
        Figure::new("scheme", "scheme"),
        Figure::new("messages", "messages"),
        Figure::sum("missed", "missed"),
        Figure::share("miss_share", "miss"),
        Figure::mean("miss_high_99", "99 % below"),
        Figure::share("stale_share", "stale"),
        Figure::mean("predicted", "predicted"),
        Figure::new("state", "state"),
        Figure::mean("copies_per_message", "copies"),
        Figure::sum("wire_bytes", "wire bytes"),
        Figure::mean("wire_to_all", "to all"),
        Figure::mean("cost_to_all", "cost to all"),
        Figure::worst("plan_after_step_s", "moved s"),
    ],
};

/// What results have beside the table's columns.
const OTHERS: [Figure; 21] = [
    Figure::new("batches_hit", "batches with misses"),
    Figure::mean("miss_low_99", "99 % above"),
    Figure::mean("stale_low_99", "stale: 99 % above"),
    Figure::mean("stale_high_99", "stale: 99 % below"),
    Figure::new("limit", "what limits"),
    Figure::mean("predicted_to_achieved", "predicted to achieved"),
    Figure::worst("bound_95", "95 % below"),
    Figure::mean("met_share", "says met"),
    Figure::share("met_miss_share", "missed then"),
    Figure::new("contradicted", "contradicted"),
    Figure::worst("not_reachable_after_s", "not reachable after s"),
    Figure::sum("cost", "cost"),
    Figure::share("stale_share_dead", "stale while dead"),
    Figure::mean("modem_share", "modem"),
    Figure::sum("commands_missed", "commands missed"),
    Figure::mean("copies_per_message_60s", "copies in 60 s"),
    Figure::mean("copies_per_message_120s", "copies in 120 s"),
    Figure::mean("copies_per_message_600s", "copies in 600 s"),
    Figure::mean("wire_to_all_60s", "60 s to all"),
    Figure::mean("wire_to_all_120s", "120 s to all"),
    Figure::mean("wire_to_all_600s", "600 s to all"),
];

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Kinds of links.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "KIND,...",
        value_enum,
        default_value = "independent,bursts,long_bursts,correlated,changing,dying,dear,thin"
    )]
    links: Vec<Kind>,
    /// What is sent: messages of which each counts, or of which the newest does.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "CLASS,...",
        value_enum,
        default_value = "control,live"
    )]
    classes: Vec<Class>,
    /// Targets: shares of the messages, or of the time, 0 to below 1.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...", value_parser = share,
          default_value = "0.99,0.999,0.9999,0.99999")]
    targets: Vec<f64>,
    /// Deadlines, milliseconds.
    #[arg(long, value_delimiter = ',', value_name = "MS,...", value_parser = positive,
          default_value = "30,60,100,150,250")]
    deadlines_ms: Vec<f64>,
    /// Messages of a point, both directions together.
    #[arg(long, default_value_t = 100_000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    messages: u32,
    /// Points that are run at the same time.
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
}

/// Names what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Class {
    /// Each message counts.
    Control,
    /// The newest counts.
    Live,
}

impl Class {
    const fn class(self) -> proto::select::Class {
        match self {
            Self::Control => proto::select::Class::Control,
            Self::Live => proto::select::Class::Live,
        }
    }
}

/// What one result is of.
struct Point<'a> {
    links: &'a Links,
    class: Class,
    scheme: Scheme,
    /// None under a scheme that knows none.
    target: Option<f64>,
    deadline_s: f64,
}

/// Runs the experiment.
pub(super) fn run(args: &TargetArgs) -> Result<Report, Failure> {
    if args.run.mode() == Mode::Emu {
        return Err(Failure::Usage("conclone-target: in the world only (--sim)".to_owned()));
    }
    if args.run.seeds.is_some() {
        let what = "--seeds: a point is one long run (--messages); say --seed";
        return Err(Failure::Usage(what.to_owned()));
    }
    let schemes = args.run.schemes(DESCRIPTION.sim)?;
    let seconds = f64::from(args.messages) / (2.0 * HZ);
    let links = args.links.iter().map(|kind| Links::new(*kind, seconds));
    let links = links.collect::<Result<Vec<Links>, String>>().map_err(Failure::Usage)?;
    let plans = plans(args, &schemes, &links, seconds);
    let runs = run_all(&plans, args.jobs)?;
    let mut results = Vec::new();
    for (plan, run) in plans.iter().zip(&runs) {
        let is_all = |other: &Plan<'_>| {
            other.scheme == Scheme::FULMAR
                && other.class == plan.class
                && other.links.name == plan.links.name
        };
        let all = plans.iter().zip(&runs).find(|(other, _)| is_all(other));
        let all = all.map(|(_, run)| Yardstick::of(run));
        results.extend(plan.deadlines_s.iter().map(|deadline_s| {
            let point = Point {
                links: plan.links,
                class: plan.class,
                scheme: plan.scheme,
                target: plan.target,
                deadline_s: *deadline_s,
            };
            figures(&point, run, all.as_ref())
        }));
    }
    let parameters = json!({
        "messages_per_point": args.messages,
        "hz_each_way": HZ,
        "warm_up_s": WARM_UP_S,
        "links": links.iter().map(|links| json!({"links": links.name, "costs": links.costs})).collect::<Vec<_>>(),
        "figures": "both directions together, without the first minute; intervals from batch means",
    });
    let seed = args.run.seed();
    Ok(Report::sim(DESCRIPTION.experiment, (seed, seed), parameters, results))
}

/// Returns what is run: a scheme that knows a target once for each, another once for all.
fn plans<'a>(
    args: &TargetArgs,
    schemes: &[Scheme],
    links: &'a [Links],
    seconds: f64,
) -> Vec<Plan<'a>> {
    let deadlines_s: Vec<f64> = args.deadlines_ms.iter().map(|ms| ms / 1e3).collect();
    let mut plans = Vec::new();
    for links in links {
        for (class, scheme) in
            args.classes.iter().flat_map(|class| schemes.iter().map(move |scheme| (class, scheme)))
        {
            let plan = Plan {
                links,
                scheme: *scheme,
                target: None,
                class: *class,
                deadlines_s: deadlines_s.clone(),
                seconds: links.recorded_s.unwrap_or(seconds),
                seed: args.run.seed(),
            };
            if *scheme != Scheme::FULMAR_TARGET {
                plans.push(plan);
                continue;
            }
            for share in &args.targets {
                plans.extend(deadlines_s.iter().filter_map(|deadline_s| {
                    let target = Target::new(*share, Duration::from_secs_f64(*deadline_s))?;
                    let scheme = Scheme::Session(SessionScheme::FulmarTarget(Some(target)));
                    let (target, deadlines_s) = (Some(*share), vec![*deadline_s]);
                    Some(Plan { scheme, target, deadlines_s, ..plan.clone() })
                }));
            }
        }
    }
    plans
}

/// Runs all plans, several at a time; runs come in the order of the plans.
fn run_all(plans: &[Plan<'_>], jobs: u8) -> Result<Vec<Run>, String> {
    let next = AtomicUsize::new(0);
    let runs: Vec<Mutex<Option<Result<Run, String>>>> =
        plans.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.get(number) else { return };
                    tell(format_args!(
                        "conclone-target --sim: {} of {}, {}",
                        number + 1,
                        plans.len(),
                        plan.title()
                    ));
                    if let Ok(mut run) = runs[number].lock() {
                        *run = Some(sim::run(plan));
                    }
                }
            });
        }
    });
    let taken = runs.into_iter().map(|run| run.into_inner().ok().flatten());
    taken.map(|run| run.unwrap_or_else(|| Err("a run ended early".to_owned()))).collect()
}

impl Plan<'_> {
    fn title(&self) -> String {
        let class = match self.class {
            Class::Control => "control",
            Class::Live => "live",
        };
        let target = match (self.target, &self.deadlines_s[..]) {
            (Some(share), [deadline_s]) => format!(" {share} in {:.0} ms", deadline_s * 1e3),
            _ => String::new(),
        };
        format!("{} {class} {}{target}", self.links.name, self.scheme)
    }
}

/// Reads a target.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| format!("`{text}` is not a share above 0 and below 1"))
}
