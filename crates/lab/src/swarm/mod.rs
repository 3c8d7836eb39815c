//! The swarm: runs of sessions in the world over links, faults, attackers and traffic that a seed
//! draws, both ends judged all the time.
//!
//! ```text
//! seed → Plan (links, faults, flows, configurations) → Run (world, applications, attackers) → Judge
//! a finding → shrink: parts left out one at a time → `fulmar-lab swarm --seed N --without …`
//! ```
//! Figures are not its affair: what it looks for must not be at all. docs/swarm.md says how it is
//! used.

mod able;
mod attack;
mod draw;
mod fall;
mod fault;
mod flow;
mod forge;
mod judge;
mod peer;
mod plan;
mod run;
mod shrink;
mod silence;
mod uses;

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use units::Instant;

use crate::arguments::parse_seeds;
use emulator::Failure;
use judge::{Finding, Rule};
use plan::{Part, Plan};
use sys::print::{print, tell};

/// The drone's place among the hosts, and the station's.
const DRONE: usize = 0;
const STATION: usize = 1;
/// How many hosts are judged.
const HOSTS: usize = 2;
/// The place of the second daemon with the drone's key, where there is one.
const TWIN: usize = 2;
/// How many runs make a line of progress.
const PROGRESS_EVERY: u64 = 100;

/// The arguments of the swarm.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["seed", "seeds"])))]
pub(crate) struct SwarmArgs {
    /// Run every seed of a range.
    #[arg(long, value_name = "A-B", value_parser = parse_seeds)]
    seeds: Option<(u64, u64)>,
    /// Run one seed.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Leave parts of the run out, as a finding says: fault3,flow1,link0,config,siege,twin,falls.
    #[arg(long, value_delimiter = ',', value_name = "PART,...", requires = "seed")]
    without: Vec<Part>,
    /// Print what a seed draws, and do not run it.
    #[arg(long, requires = "seed")]
    show: bool,
    /// Do not look for the smallest run that still fails.
    #[arg(long)]
    no_shrink: bool,
    /// Runs at the same time.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: u64,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

/// A run that failed, as small as it was made.
struct Failed {
    seed: u64,
    without: Vec<Part>,
    found: Finding,
}

/// Runs the swarm; exit code 1 when it finds something.
pub(crate) fn run_command(args: &SwarmArgs) -> Result<ExitCode, Failure> {
    let (first, last) = args.seeds.or(args.seed.map(|seed| (seed, seed))).unwrap_or((1, 1));
    if args.show {
        let plan = Plan::draw(first).without(&args.without);
        print(format_args!("{plan}\n{}", plan.scenario().to_toml()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(missing) = unknown_part(first, &args.without) {
        return Err(Failure::Usage(format!("seed {first} has no part {missing}")));
    }
    panic::set_hook(Box::new(|info| PANIC.set(Some(info.to_string()))));
    let failed = run_all(args, first, last);
    drop(panic::take_hook());
    if args.json {
        let findings: Vec<Value> = failed.iter().map(Failed::to_json).collect();
        print(json!({"first": first, "last": last, "findings": findings}))?;
    }
    tell(format_args!("swarm: {} of {} seeds found something", failed.len(), last - first + 1));
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn unknown_part(seed: u64, parts: &[Part]) -> Option<Part> {
    let plan = Plan::draw(seed);
    let mut known = plan.parts();
    // A siege of one address has left links out, which are there without it; falls may have left
    // out flows as well.
    let added: Vec<Part> =
        parts.iter().copied().filter(|part| matches!(part, Part::Siege | Part::Falls)).collect();
    known.extend(plan.without(&added).parts());
    // The last link cannot be left out, but one may well say so of a plan of one.
    parts.iter().copied().find(|part| !known.contains(part))
}

/// Runs all seeds, several at a time; failures come in the order of their seeds.
fn run_all(args: &SwarmArgs, first: u64, last: u64) -> Vec<Failed> {
    let next = AtomicU64::new(first);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last {
                        return;
                    }
                    if seed > first && (seed - first).is_multiple_of(PROGRESS_EVERY) {
                        tell(format_args!("swarm: {} of {}", seed - first, last - first + 1));
                    }
                    if let Some(found) = run_seed(args, seed) {
                        tell(&found);
                        if let Ok(mut failed) = failed.lock() {
                            failed.push(found);
                        }
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_default();
    failed.sort_by_key(|failed: &Failed| failed.seed);
    failed
}

fn run_seed(args: &SwarmArgs, seed: u64) -> Option<Failed> {
    let plan = Plan::draw(seed);
    let found = run_caught(&plan.without(&args.without))?;
    let (without, found) = match args.no_shrink {
        true => (args.without.clone(), found),
        false => shrink::shrink(&plan, found, args.without.clone(), run_caught),
    };
    Some(Failed { seed, without, found })
}

thread_local! {
    /// What the panic hook of this thread heard last.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a plan; a panic is a finding.
fn run_caught(plan: &Plan) -> Option<Finding> {
    panic::catch_unwind(AssertUnwindSafe(|| run::run(plan))).unwrap_or_else(|_| {
        let what = PANIC.take().unwrap_or_else(|| "a panic".to_owned());
        Some(Finding { rule: Rule::Panic, at: Instant::ZERO, what })
    })
}

impl Failed {
    fn command(&self) -> String {
        let parts: Vec<String> = self.without.iter().map(ToString::to_string).collect();
        let without = if parts.is_empty() {
            String::new()
        } else {
            format!(" --without {}", parts.join(","))
        };
        format!("fulmar-lab swarm --seed {}{without}", self.seed)
    }

    fn to_json(&self) -> Value {
        json!({
            "seed": self.seed,
            "rule": format!("{:?}", self.found.rule),
            "at_s": self.found.at.as_secs_f64(),
            "what": self.found.what,
            "again": self.command(),
        })
    }
}

impl core::fmt::Display for Failed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "FOUND: seed {}: {}\n  again: {}", self.seed, self.found, self.command())
    }
}
