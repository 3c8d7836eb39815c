//! `conclone-interval`: how much time passes between the delivery of one control message and the
//! next.
//!
//! ```text
//! message n is sent 0.5 s after message n−1 was delivered; intervals are between deliveries
//! ```
//! Source: [ConClone §5.2, §5.3]. *Deviations from the paper*: links of known delay and
//! independent loss in both directions instead of two radios, one without its antenna; bulk beside
//! the messages only with `--bulk-mbps`.

mod emu;
pub(crate) mod lifetime;
mod picture;
mod plan;
mod sim;

use clap::Args;
use netem::{Delay, LinkModel, LinkRate, LossModel, Scenario};
use serde_json::{Value, json};
use units::{Duration, Rate};

use super::Description;
use crate::arguments::{RunArgs, loss, positive, seeds_shown};
use crate::doubt::{add_errors, rankings_in_doubt};
use crate::figure::Figure;
use crate::report::{Mode, Report, merged, rounded, rounded_option};
use crate::scenario_file::ScenarioArgs;
use crate::scheme::{Carries, Known, Scheme};
use crate::statistics::{maximum, mean, median, median_interval, standard_deviation};
use emu::run_intervals;
use emulator::Failure;
use models::conclone;
use picture::Runs;
use plan::{Contents, IntervalPlan, IntervalRun};
use sim::run_interval;
use sys::print::tell;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "conclone-interval",
    about: "time between control messages over two links with 28.4 % loss each",
    sim: Known {
        unasked: &[
            Scheme::FULMAR,
            Scheme::CONCLONE_TCP,
            Scheme::MIN_RTT,
            Scheme::ROUND_ROBIN,
            Scheme::REDUNDANT,
            Scheme::IDEAL_ARQ,
            Scheme::UDP,
        ],
        asked: &[Scheme::FULMAR_TARGET, Scheme::CUBIC],
    },
    emu: Known {
        unasked: &[
            Scheme::FULMAR,
            Scheme::CONCLONE_TCP,
            Scheme::MIN_RTT,
            Scheme::KERNEL_MPTCP,
            Scheme::UDP,
        ],
        asked: &[
            Scheme::FULMAR_TARGET,
            Scheme::FULMAR_AUTO,
            Scheme::FULMAR_TCP,
            Scheme::FULMAR_TCP_ONE,
            Scheme::REDUNDANT,
            Scheme::ROUND_ROBIN,
            Scheme::KERNEL_MPTCP_BBR,
            Scheme::KERNEL_TCP_CUBIC,
            Scheme::KERNEL_TCP_BBR,
            Scheme::KERNEL_TCP_RENO,
        ],
    },
    beside: &[&[
        Figure::new("delivered", "delivered"),
        Figure::share("over_1s_share", "over 1 s"),
        Figure::new("loss_for_tr_1_1", "loss for Tr 1.1"),
    ]],
    figures: &[
        Figure::new("scheme", "scheme"),
        Figure::new("mean_s", "mean s"),
        Figure::new("std_s", "std s"),
        Figure::new("max_s", "max s"),
        Figure::new("over_1s", "over 1 s"),
        Figure::new("completion_s", "completion s"),
        Figure::new("lost", "lost"),
        Figure::new("duplicates", "twice"),
        Figure::new("tr", "Tr"),
        Figure::new("k", "k"),
    ],
};

/// Messages of a run in the world: the paper's long run.
const MESSAGES_SIM: u32 = 2_000;
/// Messages of a run on the emulator: the paper's short run.
const MESSAGES_EMU: u32 = 120;
/// Rate of each link, Mbit/s: plenty, as the experiment is about loss.
const LINK_MBPS: f64 = 10.0;

/// What the emulated run claims to tell apart: means that differ by a round trip's half.
const RESOLUTION: Duration = Duration::from_millis(10);

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConcloneIntervalArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Messages per seed; default 2,000 with --sim, 120 with --emu.
    #[arg(long, value_name = "N")]
    messages: Option<u32>,
    #[command(flatten)]
    scenario: ScenarioArgs,
    #[command(flatten)]
    lossy: LossyArgs,
    /// Loss of the way back, on which answers go, where it is another.
    #[arg(long, value_name = "P", value_parser = loss, conflicts_with = "scenario")]
    loss_back: Option<f64>,
    /// One-way delay of each link, milliseconds.
    #[arg(long, default_value_t = 10.0, value_name = "MS", value_parser = positive,
          conflicts_with = "scenario")]
    delay_ms: f64,
    /// From a delivery to the next message, seconds.
    #[arg(long, default_value_t = 0.5, value_name = "S", value_parser = positive)]
    interval_s: f64,
    /// Bytes of a message.
    #[arg(long, default_value_t = 100, value_name = "BYTES",
          value_parser = clap::value_parser!(u16).range(20..=1000))]
    bytes: u16,
    /// The least that a TCP's timeout is above its round trip, milliseconds; default that of the
    /// kernel, 200.
    #[arg(long, value_name = "MS", value_parser = positive)]
    rto_min_ms: Option<f64>,
    /// Bulk that flows beside the messages, Mbit/s.
    #[arg(long, default_value_t = 0.0, value_name = "MBPS")]
    bulk_mbps: f64,
    /// Runs on the emulator, with seeds that follow each other; in virtual time --seeds.
    #[arg(long, default_value_t = 1, value_name = "N", conflicts_with = "sim",
          value_parser = clap::value_parser!(u64).range(1..=100))]
    repetitions: u64,
}

/// How many links there are, and what they lose, where no scenario says so.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct LossyArgs {
    /// Loss of each link and direction, 0 to below 1.
    #[arg(long, default_value_t = 0.284, value_name = "P", value_parser = loss,
          conflicts_with = "scenario")]
    pub(super) loss: f64,
    /// Number of links.
    #[arg(long, default_value_t = 2, value_name = "N", conflicts_with = "scenario",
          value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(super) links: u8,
}

/// The runs of a scheme on the emulator, each with its seed.
#[derive(Default)]
struct EmuRuns {
    seen: Vec<(u64, IntervalRun)>,
    /// What they were had the machine never stalled.
    best: Vec<(u64, IntervalRun)>,
}

/// Runs the experiment.
pub(super) fn run(args: &ConcloneIntervalArgs) -> Result<Report, Failure> {
    match args.run.mode() {
        Mode::Sim => run_sim(args),
        Mode::Emu => run_emu(args),
    }
}

/// Returns equal lossy links between drone and station.
pub(super) fn links(count: u8, delay_ms: f64, loss: f64) -> Scenario {
    let model = LinkModel {
        delay: Delay::Fixed(Duration::from_secs_f64(delay_ms / 1e3)),
        rate: LinkRate::Constant(Rate::from_mbps(LINK_MBPS)),
        loss: LossModel { independent: loss, ..LossModel::default() },
        ..LinkModel::default()
    };
    let none = Scenario::new(DESCRIPTION.experiment, 0.0);
    let mut scenario = (1..=count)
        .fold(none, |scenario, n| scenario.link(&format!("net{n}"), "drone", "station", &model));
    // Two clocks are two clocks: neither host may rely on the other's.
    scenario.hosts[0].clock.offset_ns = 17_000_000_000;
    scenario.hosts[0].clock.skew_ppb = 20_000;
    scenario
}

/// Returns how many copies of a message leave at once.
pub(super) fn copies(scheme: Scheme, links: u8) -> u32 {
    let all = [
        Scheme::FULMAR,
        Scheme::FULMAR_AUTO,
        Scheme::FULMAR_TCP_ONE,
        Scheme::REDUNDANT,
        Scheme::CONCLONE_TCP,
    ];
    match scheme {
        // Two connections for each link.
        Scheme::FULMAR_TCP => 2 * u32::from(links),
        scheme if all.contains(&scheme) => u32::from(links),
        _ => 1,
    }
}

/// Returns how long an application waits for a message before it counts it as lost.
///
/// Transports that do not retransmit are given a second, which is what an application's own
/// retry would wait; the session 3 s, which is beyond its time to live, as others' programs that
/// take datagrams; the kernel as long as it may need, for it delivers in the end (the longest wait
/// seen was 59 s).
pub(super) fn give_up(scheme: Scheme) -> Duration {
    match scheme {
        Scheme::UDP | Scheme::REDUNDANT => Duration::from_secs(1),
        Scheme::FULMAR
        | Scheme::FULMAR_TARGET
        | Scheme::FULMAR_AUTO
        | Scheme::FULMAR_TCP
        | Scheme::FULMAR_TCP_ONE
        | Scheme::MIN_RTT
        | Scheme::ROUND_ROBIN => Duration::from_secs(3),
        Scheme::Command(own) if own.carries() != Carries::Connections => Duration::from_secs(3),
        _ => Duration::from_secs(180),
    }
}

fn run_emu(args: &ConcloneIntervalArgs) -> Result<Report, Failure> {
    let schemes = args.run.schemes(DESCRIPTION.emu)?;
    let (scenario, contents) = (scenario(args)?, contents(args)?);
    let plans: Vec<_> =
        schemes.into_iter().map(|scheme| (scheme, plan(args, scheme, &contents))).collect();
    let first = args.run.seed();
    let mut audits = Vec::new();
    let mut all: Vec<EmuRuns> = plans.iter().map(|_| EmuRuns::default()).collect();
    for seed in first..first + args.repetitions {
        let (runs, audit) = run_intervals(&scenario, &plans, seed, RESOLUTION)?;
        for (of_scheme, (_, run)) in all.iter_mut().zip(runs) {
            of_scheme.best.push((seed, run.at_best(&audit.stalls)));
            of_scheme.seen.push((seed, run));
        }
        audits.push(audit);
    }
    let all = || plans.iter().map(|(scheme, _)| *scheme).zip(&all);
    draw(args, all().map(|(scheme, runs)| (scheme, &runs.seen[..])))?;
    let result = |(scheme, runs): (Scheme, &EmuRuns)| {
        let mut figures = pooled(args, scheme, &runs.seen);
        add_errors(&mut figures, &pooled(args, scheme, &runs.best), DESCRIPTION.figures);
        figures
    };
    let results: Vec<Value> = all().map(result).collect();
    let doubts = rankings_in_doubt(&results, &DESCRIPTION.columns(), &[]);
    let parameters = parameters(args, &scenario);
    Ok(Report::emu(DESCRIPTION.experiment, first, parameters, &audits, doubts, results))
}

fn run_sim(args: &ConcloneIntervalArgs) -> Result<Report, Failure> {
    let schemes = args.run.schemes(DESCRIPTION.sim)?;
    let (first, last) = args.run.seeds();
    let (scenario, contents) = (scenario(args)?, contents(args)?);
    let mut all = Vec::new();
    for scheme in schemes {
        tell(format_args!("conclone-interval --sim: {scheme}, {}", seeds_shown((first, last))));
        let plan = plan(args, scheme, &contents);
        let run = |seed| Ok((seed, run_interval(&scenario, scheme, &plan, seed)?));
        let runs = (first..=last).map(run).collect::<Result<Vec<_>, String>>()?;
        all.push((scheme, runs));
    }
    draw(args, all.iter().map(|(scheme, runs)| (*scheme, &runs[..])))?;
    let results = all.iter().map(|(scheme, runs)| pooled(args, *scheme, runs)).collect();
    Ok(Report::sim(DESCRIPTION.experiment, (first, last), parameters(args, &scenario), results))
}

/// Draws the paper's pictures, where a directory is named.
fn draw<'a>(
    args: &ConcloneIntervalArgs,
    runs: impl Iterator<Item = Runs<'a>>,
) -> Result<(), String> {
    let Some(directory) = &args.run.out else { return Ok(()) };
    picture::write(args, &runs.collect::<Vec<_>>(), directory)
}

/// Returns the links: those of the experiment, or of another scenario.
fn scenario(args: &ConcloneIntervalArgs) -> Result<Scenario, Failure> {
    let own = || {
        let mut own = links(args.lossy.links, args.delay_ms, args.lossy.loss);
        for link in &mut own.links {
            link.up.loss.independent = args.loss_back.unwrap_or(args.lossy.loss);
        }
        own
    };
    Ok(args.scenario.read()?.unwrap_or_else(own))
}

/// Returns what one seed of a scheme runs.
fn plan(args: &ConcloneIntervalArgs, scheme: Scheme, contents: &Contents) -> IntervalPlan {
    IntervalPlan {
        messages: args.messages.unwrap_or(messages(args.run.mode())),
        interval: Duration::from_secs_f64(args.interval_s),
        give_up: give_up(scheme),
        bulk_mbps: args.bulk_mbps,
        rto_min: args.rto_min_ms.map(|ms| Duration::from_secs_f64(ms / 1e3)),
        contents: contents.clone(),
    }
}

/// Returns what the messages are.
fn contents(args: &ConcloneIntervalArgs) -> Result<Contents, Failure> {
    Ok(match Contents::of(&args.run)? {
        Contents::Stamped(_) => Contents::Stamped(usize::from(args.bytes)),
        recorded => recorded,
    })
}

/// Returns how many messages a run has unless it is said.
fn messages(mode: Mode) -> u32 {
    match mode {
        Mode::Sim => MESSAGES_SIM,
        Mode::Emu => MESSAGES_EMU,
    }
}

fn parameters(args: &ConcloneIntervalArgs, scenario: &Scenario) -> Value {
    let messages = args.messages.unwrap_or(messages(args.run.mode()));
    if args.scenario.scenario.is_some() {
        return json!({
            "messages_per_seed": messages,
            "scenario": scenario.name,
            "interval_s": args.interval_s,
            "bytes": args.bytes,
            "bulk_mbps": args.bulk_mbps,
        });
    }
    let mut own = json!({
        "messages_per_seed": messages,
        "loss": args.lossy.loss,
        "delay_ms": args.delay_ms,
        "links": args.lossy.links,
        "link_mbps": LINK_MBPS,
        "interval_s": args.interval_s,
        "bytes": args.bytes,
        "bulk_mbps": args.bulk_mbps,
    });
    let unusual = [("loss_back", args.loss_back), ("rto_min_ms", args.rto_min_ms)];
    for (name, value) in unusual {
        if let Some(value) = value {
            own[name] = value.into();
        }
    }
    own
}

/// Pools the runs of several seeds into one result.
fn pooled(args: &ConcloneIntervalArgs, scheme: Scheme, runs: &[(u64, IntervalRun)]) -> Value {
    let intervals: Vec<f64> = runs.iter().flat_map(|(_, run)| run.intervals.clone()).collect();
    let completion: f64 = runs.iter().map(|(_, run)| run.completion_s).sum();
    let all = IntervalRun {
        intervals,
        completion_s: completion / runs.len() as f64,
        lost: runs.iter().map(|(_, run)| run.lost).sum(),
        duplicates: runs.iter().map(|(_, run)| run.duplicates).sum(),
        turns: Vec::new(),
    };
    let mut result =
        merged([json!({"scheme": scheme}), figures(&all), in_the_model(args, scheme, &all)]);
    if runs.len() > 1 {
        let single =
            |(seed, run): &(u64, IntervalRun)| merged([json!({"seed": seed}), figures(run)]);
        result["by_seed"] = runs.iter().map(single).collect();
        let completions: Vec<f64> = runs.iter().map(|(_, run)| run.completion_s).collect();
        result["completion_median_s"] = json!(rounded_option(median(&completions), 6));
        result["completion_median_s_interval"] = json!(median_interval(&completions));
    }
    result
}

/// Puts a run into eq. 7: Tr over the ideal with the link's delay in it, the failure coefficient k
/// that follows from it and the loss, and the greatest loss for which that k leaves Tr below 1.1.
/// None of links of which a scenario says what they lose, and where a message was lost, which eq. 7
/// does not know.
fn in_the_model(args: &ConcloneIntervalArgs, scheme: Scheme, run: &IntervalRun) -> Value {
    let n = copies(scheme, args.lossy.links);
    let interval =
        mean(&run.intervals).filter(|_| args.scenario.scenario.is_none() && run.lost == 0);
    let tr = interval.map(|interval| (interval - args.delay_ms / 1e3) / args.interval_s);
    let k = tr.filter(|_| args.lossy.loss > 0.0);
    let k = k.map(|tr| conclone::failure_coefficient(tr.max(1.0), args.lossy.loss, n));
    let tolerable = k.filter(|k| *k > 0.0).map(|k| conclone::tolerable_loss(k, 1.1, n));
    json!({
        "tr": rounded_option(tr, 5),
        "k": rounded_option(k, 4),
        "loss_for_tr_1_1": rounded_option(tolerable, 4),
    })
}

/// Computes the figures of a run.
fn figures(run: &IntervalRun) -> Value {
    let intervals = &run.intervals;
    let over_1s = intervals.iter().filter(|interval| **interval > 1.0).count();
    json!({
        "delivered": intervals.len(),
        "mean_s": rounded_option(mean(intervals), 6),
        "std_s": rounded_option(standard_deviation(intervals), 6),
        "max_s": rounded_option(maximum(intervals), 6),
        "over_1s": over_1s,
        "over_1s_share": rounded(over_1s as f64 / intervals.len().max(1) as f64, 6),
        "completion_s": rounded(run.completion_s, 6),
        "lost": run.lost,
        "duplicates": run.duplicates,
    })
}

#[cfg(test)]
mod tests {
    use models::conclone::outages::{Messages, Outages};
    use netem::{GilbertElliott, GroupModel, StateChange};

    use super::*;

    /// Two links that are out together.
    fn with_outages(rate_hz: f64, length_s: f64) -> Scenario {
        let mut scenario = links(2, 10.0, 0.284);
        let change = StateChange::OverTime {
            good: Duration::from_secs_f64(1.0 / rate_hz),
            bad: Duration::from_secs_f64(length_s),
        };
        let burst = Some(GilbertElliott { change, loss_good: 0.0, loss_bad: 1.0 });
        let (name, outages) = ("both".to_owned(), Vec::new());
        scenario.groups.push(GroupModel { name: name.clone(), burst, outages });
        for pair in &mut scenario.links {
            pair.up.groups.push(name.clone());
            pair.down.groups.push(name.clone());
        }
        scenario
    }

    #[test]
    fn completion_with_outages_is_that_of_the_model() {
        /// From one try to the next: silent paths are probed every 50 to 100 ms [specs/paths.md §3]
        /// (rule 6).
        const RETRY_S: f64 = 0.075;
        let plan = IntervalPlan {
            messages: 2_000,
            interval: Duration::from_millis(500),
            give_up: Duration::from_secs(3),
            bulk_mbps: 0.0,
            rto_min: None,
            contents: Contents::Stamped(100),
        };
        let run = |scenario: &Scenario| {
            run_interval(scenario, Scheme::FULMAR, &plan, 5).expect("it runs").completion_s
        };
        let tr = run(&links(2, 10.0, 0.284)) / 1_000.0;
        let messages = Messages { count: plan.messages, interval_s: 0.5, tr };
        for (rate_hz, length_s) in [
            (0.02, 1.0),
            (0.05, 1.0),
            (0.1, 1.0),
            (0.2, 1.0),
            (0.1, 0.5),
            (0.2, 0.5),
            (0.5, 0.5),
            (0.2, 0.2),
            (0.5, 0.2),
            (1.0, 0.2),
        ] {
            let world_s = run(&with_outages(rate_hz, length_s));
            let model_s = Outages { rate_hz, length_s, retry_s: RETRY_S }.completion_s(&messages);
            println!("{rate_hz} Hz, {length_s} s: {world_s:.1} s, model {model_s:.1} s");
            let ratio = world_s / model_s;
            assert!(
                (ratio - 1.0).abs() < 0.05,
                "{rate_hz} Hz, {length_s} s: {world_s} s, {model_s} s"
            );
        }
    }

    #[test]
    fn recorded_messages_are_told_apart_and_those_of_the_lab_are_stamped() {
        let stamped = Contents::Stamped(40);
        let bytes = stamped.message(7, Duration::ZERO);
        assert_eq!((bytes.len(), stamped.number(&bytes, 9)), (40, Some(7)));
        let recording = crate::testbed::Recording::load().expect("sound");
        let frames = recording.frames(crate::testbed::Direction::Up)[..5].into();
        let recorded = Contents::Recorded(frames);
        let bytes = recorded.message(7, Duration::ZERO);
        assert_eq!(recorded.number(&bytes, 8), Some(7), "the newest, not that of one round before");
        assert_eq!(recorded.number(b"another", 8), None);
    }
}
