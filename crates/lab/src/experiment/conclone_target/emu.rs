//! The same in real time: every scheme at once, a target at a time, each over links of its own.
//!
//! Real daemons say at the end what they think of the last ten minutes; nobody asks them meanwhile.

use emulator::Audit;
use serde_json::{Value, json};
use units::Duration;

use super::figures::{Stretch, Tally, WARM_UP_S, cost, ratio};
use super::ledger::{Lateness, Way};
use super::{Class, Plan};
use crate::arguments::RunArgs;
use crate::doubt::add_errors;
use crate::experiment::streams::emu::{Links, run_streams};
use crate::experiment::streams::ledger::StreamRun;
use crate::experiment::streams::workload::Workload;
use crate::figure::Figure;
use crate::report::{merged, rounded, rounded_option};
use crate::scheme::Scheme;
use crate::statistics::maximum;
use crate::testbed::{Direction, Stream};
use sys::print::tell;

/// What a run claims to tell apart: a message that is late from one that is not.
const RESOLUTION: Duration = Duration::from_millis(10);

/// Runs plans of the same links and class at the same time; results come in their order, a deadline
/// each.
///
/// # Errors
/// Says which part of the set-up failed.
pub(super) fn run(
    plans: &[Plan<'_>],
    args: &RunArgs,
    figures: &[Figure],
) -> Result<(Vec<Value>, Audit), String> {
    let Some(first) = plans.first() else { return Err("nothing is to be run".to_owned()) };
    let schemes: Vec<Scheme> = plans.iter().map(|plan| plan.scheme).collect();
    let (control_hz, live_hz) = match first.class {
        Class::Control => (super::HZ, 0.0),
        Class::Live => (first.links.command_hz, super::HZ),
    };
    let workload = Workload { seconds: first.seconds, control_hz, live_hz, ..Workload::silent() };
    let recording = args.recording().map_err(|error| error.to_string())?;
    let mut shown = 0;
    let mut progress = |seconds: f64, _: &[_]| {
        if seconds as u32 / 30 > shown {
            shown = seconds as u32 / 30;
            let (name, all) = (&first.links.name, first.seconds);
            tell(format_args!("conclone-target --emu: {name}: {seconds:.0} of {all} s"));
        }
    };
    let links = Links { costs: &first.links.costs, ..Links::of(&first.links.scenario) };
    let played = (&workload, &recording);
    let (runs, audit) =
        run_streams(links, &schemes, played, first.seed, RESOLUTION, &mut progress)?;
    let all = runs.iter().find(|(scheme, _)| *scheme == Scheme::FULMAR);
    let all = all.map(|(_, run)| All {
        wire_bytes: run.wire_bytes() as f64,
        cost: cost(&run.by_link, &first.links.costs),
    });
    let mut results = Vec::new();
    for (plan, (_, run)) in plans.iter().zip(&runs) {
        for deadline_s in &plan.deadlines_s {
            let mut seen = result(plan, run, *deadline_s, all);
            if let Some(stalls) = &run.stalls {
                let best = result(plan, &run.at_best(stalls), *deadline_s, all);
                add_errors(&mut seen, &best, figures);
            }
            results.push(seen);
        }
    }
    Ok((results, audit))
}

/// What a copy on every path came to.
#[derive(Clone, Copy)]
struct All {
    wire_bytes: f64,
    cost: f64,
}

/// Computes the figures of a run at a deadline.
fn result(plan: &Plan<'_>, run: &StreamRun, deadline_s: f64, all: Option<All>) -> Value {
    let stream = match plan.class {
        Class::Control => Stream::Control,
        Class::Live => Stream::Live,
    };
    let ways = Direction::BOTH.map(|direction| {
        let ledger = run.ledger(direction).stream(stream);
        Way::of_ledger(ledger, super::HZ, plan.seconds, &[deadline_s])
    });
    let ways: Vec<(&Way, &Lateness)> =
        ways.iter().filter_map(|way| Some((way, way.late.first()?))).collect();
    let to = plan.seconds as usize;
    let counted = Stretch { from: WARM_UP_S.min(to / 2), to };
    let both = Tally::of(&ways, counted);
    let wire_bytes = run.wire_bytes();
    let to_all = ratio(wire_bytes as f64, all.map(|all| all.wire_bytes));
    let own_cost = cost(&run.by_link, &plan.links.costs);
    let of = |place: usize| Tally::of(&ways[place..=place], counted).result();
    merged([
        json!({
            "links": plan.links.name,
            "class": plan.class,
            "target": plan.target,
            "deadline_ms": rounded(deadline_s * 1e3, 3),
            "scheme": plan.scheme,
            "messages": both.sent(),
        }),
        both.result(),
        said(plan, run, &both),
        json!({
            "wire_bytes": wire_bytes,
            "wire_to_all": rounded_option(to_all, 4),
            "cost": rounded(own_cost, 1),
            "cost_to_all": rounded_option(ratio(own_cost, all.map(|all| all.cost)), 4),
            "up": of(0),
            "down": of(1),
        }),
    ])
}

/// Returns what both daemons say of the target at the end; nulls under a scheme that says nothing.
fn said(plan: &Plan<'_>, run: &StreamRun, both: &Tally) -> Value {
    let name = match plan.class {
        Class::Control => "declared",
        Class::Live => "live",
    };
    let row = |status: &Value| {
        let rows = status["peers"][0]["reliability"].as_array()?;
        // A class may be called as the endpoint is.
        rows.iter().find(|row| row["name"] == name && !row["channel"].is_null()).cloned()
    };
    let rows: Vec<Value> = run.status.iter().flatten().filter_map(row).collect();
    let misses = |key: &str| -> Vec<f64> {
        rows.iter().filter_map(|row| row[key].as_f64()).map(|share| 1.0 - share).collect()
    };
    let mut states: Vec<String> =
        rows.iter().filter_map(|row| Some(row["state"].as_str()?.replace(' ', "_"))).collect();
    states.dedup();
    let predicted = crate::statistics::mean(&misses("predicted"));
    let achieved = match plan.class {
        Class::Control => both.miss_share(),
        Class::Live => both.stale_share(),
    };
    let copies: Vec<f64> =
        rows.iter().filter_map(|row| row["copies_per_message"].as_f64()).collect();
    let low = both.low(plan.class);
    let contradicted = plan.target.zip(low).filter(|_| states == ["met"]);
    json!({
        "state": (!states.is_empty()).then(|| states.join("/")),
        "limit": rows.first().map(|row| row["limit"].clone()),
        "predicted": rounded_option(predicted, 8),
        "predicted_to_achieved": rounded_option(
            predicted.filter(|_| achieved > 0.0).map(|predicted| predicted / achieved), 3),
        "bound_95": rounded_option(maximum(&misses("proven")), 8),
        "contradicted": contradicted.map(|(target, low)| low > 1.0 - target + 1e-12),
        "copies_per_message": rounded_option(crate::statistics::mean(&copies), 4),
    })
}
