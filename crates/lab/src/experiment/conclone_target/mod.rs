//! `conclone-target`: what a target of reliability costs, and whether it is kept, over links of
//! every kind.
//!
//! ```text
//! 50 messages a second each way; a target is a share of them (`control`), or of the time (`live`)
//! ```
//! Each kind of links is run for each class; a scheme that knows no target once for all deadlines,
//! one that does at each target and deadline. The first minute is told apart: what is learned then
//! is paid then.

mod emu;
mod figures;
mod ledger;
mod links;
mod played;
mod said;
mod sim;
mod step;

use std::sync::Arc;

use clap::{Args, ValueEnum};
use proto::Target;
use serde::Serialize;
use serde_json::{Value, json};
use units::Duration;

use super::Description;
use super::recorded::recorded_windows;
use crate::arguments::{RunArgs, positive};
use crate::doubt::rankings_in_doubt;
use crate::figure::Figure;
use crate::parallel;
use crate::report::{Mode, Report};
use crate::scenario_file::ScenarioArgs;
use crate::scheme::{Known, Scheme, SessionScheme};
use crate::traces::Choice;
use emulator::{Audit, Failure};
use figures::{WARM_UP_S, Yardstick, figures};
use links::{Kind, Links};
use played::Played;
use sim::{Plan, Run};
use sys::print::tell;

/// Messages a second each way.
const HZ: f64 = 50.0;
/// Length of a recorded window, seconds.
const WINDOW_S: f64 = 120.0;
/// The most pairs of daemons that run at once.
const TOGETHER_MAX: usize = 12;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "conclone-target",
    about: "what a reliability target costs, and whether it is kept, over links of every kind",
    sim: Known {
        unasked: &[Scheme::FULMAR_TARGET, Scheme::FULMAR, Scheme::MIN_RTT, Scheme::REDUNDANT],
        asked: &[Scheme::ROUND_ROBIN, Scheme::UDP],
    },
    emu: Known {
        unasked: &[Scheme::FULMAR_TARGET, Scheme::FULMAR, Scheme::KERNEL_MPTCP],
        asked: &[
            Scheme::MIN_RTT,
            Scheme::ROUND_ROBIN,
            Scheme::REDUNDANT,
            Scheme::UDP,
            Scheme::KERNEL_TCP_CUBIC,
            Scheme::KERNEL_TCP_BBR,
            Scheme::KERNEL_TCP_RENO,
        ],
    },
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
const OTHERS: [Figure; 22] = [
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
    Figure::worst("plan_after_worse_s", "moved after a step for the worse s"),
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
    /// Kinds of links; unless said, and no others are, all but the recorded one.
    #[arg(long, value_delimiter = ',', value_name = "KIND,...", value_enum)]
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
    /// Recorded links besides: the worst window of a combination (lte-drives:att+verizon); once for
    /// each.
    #[arg(long, value_name = "NAME")]
    set: Vec<String>,
    /// Links of this scenario besides: hosts called drone and station.
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Targets: shares of the messages, or of the time, above 0 and below 1; default 0.99 to
    /// 0.99999 with --sim, 0.999 with --emu.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...", value_parser = share)]
    targets: Vec<f64>,
    /// Deadlines, milliseconds; default 30 to 250 with --sim, 100 with --emu.
    #[arg(long, value_delimiter = ',', value_name = "MS,...", value_parser = positive)]
    deadlines_ms: Vec<f64>,
    /// Messages of a point, both directions together; default 100,000 with --sim, 30,000 with
    /// --emu, which is five minutes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    messages: Option<u32>,
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
    const fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Live => "live",
        }
    }

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
    if args.run.seeds.is_some() {
        let what = "--seeds: a point is one long run (--messages); say --seed";
        return Err(Failure::Usage(what.to_owned()));
    }
    let mode = args.run.mode();
    let seconds = f64::from(args.messages.unwrap_or(mode_of(mode, 100_000, 30_000))) / (2.0 * HZ);
    let links = links(args, seconds)?;
    let parameters = json!({
        "seconds": seconds,
        "hz_each_way": HZ,
        "warm_up_s": WARM_UP_S,
        "links": links.iter().map(|links| json!({"links": links.name, "costs": links.costs})).collect::<Vec<_>>(),
        "figures": "both directions together, without the first minute; intervals from batch means",
    });
    let (name, seed) = (DESCRIPTION.experiment, args.run.seed());
    match mode {
        Mode::Sim => {
            let schemes = args.run.schemes(DESCRIPTION.sim)?;
            let results = run_sim(args, &plans(args, &schemes, &links, seconds)?)?;
            Ok(Report::sim(name, (seed, seed), parameters, results))
        }
        Mode::Emu => {
            let schemes = args.run.schemes(DESCRIPTION.emu)?;
            let plans = plans(args, &schemes, &links, seconds)?;
            let (results, audits) = run_emu(args, &plans)?;
            let point = ["links", "class", "target", "deadline_ms"];
            let doubts = rankings_in_doubt(&results, &DESCRIPTION.columns(), &point);
            Ok(Report::emu(name, seed, parameters, &audits, doubts, results))
        }
    }
}

/// Returns the links that are asked for.
fn links(args: &TargetArgs, seconds: f64) -> Result<Vec<Links>, Failure> {
    if let Some(scenario) = args.scenario.read()? {
        if !args.links.is_empty() || !args.set.is_empty() {
            let what = "--scenario: beside no other links; leave --links and --set out";
            return Err(Failure::Usage(what.to_owned()));
        }
        return Ok(vec![Links::of(scenario.name.clone(), scenario)]);
    }
    let kinds = match (&args.links[..], &args.set[..]) {
        ([], []) => &Kind::MADE,
        (kinds, _) => kinds,
    };
    let kinds = kinds.iter().map(|kind| Links::new(*kind, seconds));
    let mut links = kinds.collect::<Result<Vec<Links>, String>>().map_err(Failure::Usage)?;
    for set in &args.set {
        let worst = [Choice::Worst(1)];
        let windows = recorded_windows(set, &worst, WINDOW_S).map_err(Failure::Usage)?;
        links.extend(windows.into_iter().map(|window| {
            let recorded_s = Some(window.seconds);
            Links { recorded_s, ..Links::of(window.name.clone(), window) }
        }));
    }
    Ok(links)
}

/// Runs plans in the world.
fn run_sim(args: &TargetArgs, plans: &[Plan<'_>]) -> Result<Vec<Value>, Failure> {
    let runs = run_all(plans, args.jobs)?;
    let mut results = Vec::new();
    for (plan, run) in plans.iter().zip(&runs) {
        let is_all = |other: &Plan<'_>| other.scheme == Scheme::FULMAR && other.is_beside(plan);
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
    Ok(results)
}

/// Runs plans in real time: those of the same links and class at the same time.
fn run_emu(args: &TargetArgs, plans: &[Plan<'_>]) -> Result<(Vec<Value>, Vec<Audit>), Failure> {
    if args.run.tlog.is_some() {
        let what = "--tlog: of conclone-target in the world only (--sim)";
        return Err(Failure::Usage(what.to_owned()));
    }
    let (mut results, mut audits) = (Vec::new(), Vec::new());
    for together in plans.chunk_by(|one, other| one.is_beside(other)) {
        if together.len() > TOGETHER_MAX {
            let what = format!(
                "{} schemes and targets at once are too many for a machine: name {TOGETHER_MAX} at most",
                together.len()
            );
            return Err(Failure::Usage(what));
        }
        let (of_links, audit) = emu::run(together, &args.run, DESCRIPTION.figures)?;
        results.extend(of_links);
        audits.push(audit);
    }
    Ok((results, audits))
}

/// Returns what holds in a mode.
fn mode_of<T>(mode: Mode, sim: T, emu: T) -> T {
    match mode {
        Mode::Sim => sim,
        Mode::Emu => emu,
    }
}

/// Returns what is run: a scheme that knows a target once for each, another once for all.
fn plans<'a>(
    args: &TargetArgs,
    schemes: &[Scheme],
    links: &'a [Links],
    seconds: f64,
) -> Result<Vec<Plan<'a>>, Failure> {
    let or = |given: &[f64], sim: &[f64], emu: &[f64]| match given {
        [] => mode_of(args.run.mode(), sim, emu).to_vec(),
        given => given.to_vec(),
    };
    let targets = or(&args.targets, &[0.99, 0.999, 0.9999, 0.99999], &[0.999]);
    let deadlines_ms = or(&args.deadlines_ms, &[30.0, 60.0, 100.0, 150.0, 250.0], &[100.0]);
    let deadlines_s: Vec<f64> = deadlines_ms.iter().map(|ms| ms / 1e3).collect();
    let recording = args.run.tlog.as_ref().map(|_| args.run.recording()).transpose()?;
    let mut plans = Vec::new();
    for links in links {
        for (class, scheme) in
            args.classes.iter().flat_map(|class| schemes.iter().map(move |scheme| (class, scheme)))
        {
            let played = recording.as_ref().map(|recording| Played::new(recording, *class));
            let plan = Plan {
                links,
                scheme: *scheme,
                target: None,
                class: *class,
                played: played.transpose().map_err(Failure::Usage)?.map(Arc::new),
                deadlines_s: deadlines_s.clone(),
                seconds: links.recorded_s.unwrap_or(seconds),
                seed: args.run.seed(),
            };
            if *scheme != Scheme::FULMAR_TARGET {
                plans.push(plan);
                continue;
            }
            for share in &targets {
                plans.extend(deadlines_s.iter().filter_map(|deadline_s| {
                    let target = Target::new(*share, Duration::from_secs_f64(*deadline_s))?;
                    let scheme = Scheme::Session(SessionScheme::FulmarTarget(Some(target)));
                    let (target, deadlines_s) = (Some(*share), vec![*deadline_s]);
                    Some(Plan { scheme, target, deadlines_s, ..plan.clone() })
                }));
            }
        }
    }
    Ok(plans)
}

/// Runs all plans, several at a time; runs come in the order of the plans.
fn run_all(plans: &[Plan<'_>], jobs: u8) -> Result<Vec<Run>, String> {
    let run = |number: usize, plan: &Plan<'_>| {
        let title = plan.title();
        tell(format_args!("conclone-target --sim: {} of {}, {title}", number + 1, plans.len()));
        sim::run(plan)
    };
    parallel::map(plans, jobs.into(), run).into_iter().collect()
}

impl Plan<'_> {
    /// Tells whether another is of the same links and class.
    fn is_beside(&self, other: &Self) -> bool {
        self.class == other.class && self.links.name == other.links.name
    }

    fn title(&self) -> String {
        let target = match (self.target, &self.deadlines_s[..]) {
            (Some(share), [deadline_s]) => format!(" {share} in {:.0} ms", deadline_s * 1e3),
            _ => String::new(),
        };
        format!("{} {} {}{target}", self.links.name, self.class.name(), self.scheme)
    }
}

/// Reads a target.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| format!("`{text}` is not a share above 0 and below 1"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn report(words: &str) -> Result<Report, Failure> {
        let words = ["fulmar-lab", "run", "conclone-target"].into_iter().chain(words.split(' '));
        let Command::Run { experiment } = Cli::try_parse_from(words).expect("sound").command else {
            panic!("not a run")
        };
        experiment.run()
    }

    fn result<'a>(report: &'a Report, scheme: &str, deadline_ms: f64) -> &'a Value {
        let is = |result: &&Value| {
            result["scheme"] == scheme && result["deadline_ms"].as_f64() == Some(deadline_ms)
        };
        report.results.iter().find(is).expect("a result")
    }

    #[test]
    fn a_copy_everywhere_misses_what_both_links_lose_and_one_copy_costs_two_thirds() {
        let words =
            "--sim --links independent --classes control --messages 30000 --deadlines-ms 30,100";
        let report =
            report(&format!("{words} --schemes fulmar,min_rtt,redundant")).expect("it runs");
        let share =
            |scheme, ms| result(&report, scheme, ms)["miss_share"].as_f64().expect("a share");
        // Within 30 ms there is the faster link's first try alone, which loses 2 %.
        assert!((share("fulmar", 30.0) - 0.02).abs() < 0.004, "{}", share("fulmar", 30.0));
        assert!(share("fulmar", 100.0) < 1e-4, "sent again in time");
        assert!((share("redundant", 100.0) - 2e-4).abs() < 4e-4, "lost on both");
        // Half as many datagrams, each of which is acknowledged in one of its own: 127 + 73 bytes
        // with IP and UDP, for twice 127 + 18 where the acknowledgement rides.
        let ratio = result(&report, "min_rtt", 100.0)["wire_to_all"].as_f64().expect("a ratio");
        assert!((0.6..0.75).contains(&ratio), "{ratio}");
        let up = &result(&report, "fulmar", 30.0)["up"];
        assert!(up["missed"].as_u64() > Some(100), "{up}");
    }

    #[test]
    fn while_the_wifi_is_dead_the_modem_carries_what_it_can() {
        let words = "--sim --links thin --classes live --messages 18000 --deadlines-ms 250";
        let report = report(&format!("{words} --schemes fulmar,udp")).expect("it runs");
        let (fulmar, udp) = (result(&report, "fulmar", 250.0), result(&report, "udp", 250.0));
        assert_eq!(fulmar["commands_missed"], 0, "{fulmar}");
        assert!(
            udp["stale_share_dead"].as_f64() > Some(0.9),
            "plain UDP has the Wi-Fi alone: {udp}"
        );
        let share = fulmar["modem_share"].as_f64().expect("a share");
        assert!(share > 0.05 && share < 0.25, "{share}");
    }

    #[test]
    fn recorded_messages_of_a_class_are_played_again_and_again() {
        let tlog = concat!(env!("CARGO_MANIFEST_DIR"), "/data/arducopter_flight.tlog");
        let words =
            format!("--sim --links independent --messages 20000 --deadlines-ms 100 --tlog {tlog}");
        let report = report(&format!("{words} --schemes fulmar --classes live")).expect("it runs");
        let result = result(&report, "fulmar", 100.0);
        let (messages, missed) = (&result["messages"], &result["missed"]);
        assert!(messages.as_u64() > Some(1_000) && missed.as_u64() < Some(5), "{result}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for words in [
            "--sim --seeds 1-2",
            "--emu --links independent --targets 0.9,0.99,0.999,0.9999 --deadlines-ms 30,60,100,150",
        ] {
            assert!(matches!(report(words), Err(Failure::Usage(_))), "{words}");
        }
    }
}
