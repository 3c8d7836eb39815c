//! `throughput`: how fast one TCP connection goes over one link, two equal links, two unequal ones.
//!
//! Reproduces the paper's comparison of schedulers [ConClone Fig. 1]: copying everything to both
//! links costs one of them. In the world there is no TCP: datagrams at 1.5 times the links' rate
//! show what the schedulers alone can use. With `--control-hz` each point is run again with control
//! messages beside, both ways: what they cost the data.

mod emu;

use clap::Args;
use netem::{LinkModel, Rate, Scenario};
use serde_json::{Value, json};
use units::Duration;

use super::Description;
use crate::arguments::{RunArgs, seeds_shown};
use crate::doubt::{add_errors_of_time, rankings_in_doubt};
use crate::experiment::streams::doubt::with_errors;
use crate::experiment::streams::figures::{ControlFigures, FIGURES, goodput_mbps};
use crate::experiment::streams::ledger::StreamRun;
use crate::experiment::streams::sim::run_stream;
use crate::experiment::streams::video::VideoShape;
use crate::experiment::streams::workload::Workload;
use crate::figure::{Figure, pooled};
use crate::report::{Mode, Report, merged, rounded};
use crate::scenario_file::ScenarioArgs;
use crate::scheme::{Known, Scheme};
use crate::testbed::{Direction, Stream};
use emu::{BulkPlan, START_UP, run_bulk};
use emulator::Failure;
use sys::print::tell;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "throughput",
    about: "goodput over one link, two equal links, and links of 10 and 40 ms",
    sim: Known {
        unasked: &[Scheme::MIN_RTT, Scheme::ROUND_ROBIN, Scheme::REDUNDANT],
        asked: &[
            Scheme::FULMAR,
            Scheme::FULMAR_STRICT,
            Scheme::FULMAR_OFF,
            Scheme::FULMAR_TARGET,
            Scheme::UDP,
        ],
    },
    emu: Known {
        unasked: &[Scheme::MIN_RTT, Scheme::ROUND_ROBIN, Scheme::REDUNDANT, Scheme::KERNEL_MPTCP],
        asked: &[
            Scheme::FULMAR,
            Scheme::FULMAR_STRICT,
            Scheme::FULMAR_OFF,
            Scheme::FULMAR_TARGET,
            Scheme::FULMAR_AUTO,
            Scheme::FULMAR_TCP,
            Scheme::FULMAR_TCP_ONE,
            Scheme::KERNEL_TCP_CUBIC,
            Scheme::KERNEL_TCP_BBR,
            Scheme::KERNEL_TCP_RENO,
        ],
    },
    beside: &[&FIGURES],
    figures: &[
        Figure::new("scheme", "scheme"),
        Figure::new("links", "links"),
        Figure::new("control_hz", "control").exact(),
        Figure::new("data_goodput_mbps", "goodput Mbit/s"),
        Figure::new("ratio_to_single", "to one link").ratio(),
        Figure::new("ratio_to_alone", "to alone").ratio(),
        Figure::new("retransmits", "sent again").of_emu(),
        Figure::new("wire_overhead", "wire/payload").of_emu(),
    ],
};

/// Two equal links.
const EQUAL: &str = include_str!("../../../scenarios/two-10mbit.toml");
/// Links of equal rate and unequal delay.
const UNEQUAL: &str = include_str!("../../../scenarios/two-unequal.toml");
/// What a link without a limit counts as: more than is ever offered.
const UNLIMITED_MBPS: f64 = 100.0;
/// What an emulated run claims to tell apart.
const RESOLUTION: Duration = Duration::from_millis(10);

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct ThroughputArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Seconds that count, after three of start-up.
    #[arg(long, default_value_t = 15, value_name = "S",
          value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Control messages a second each way beside the data, in a second run of each point; 0 for no
    /// such run.
    #[arg(long, default_value_t = 0.0, value_name = "HZ", value_parser = none_or_more)]
    control_hz: f64,
    /// Congestion control of the TCP connection inside the tunnel (--emu).
    #[arg(long, default_value = "cubic", value_name = "NAME")]
    congestion: String,
}

/// Runs the experiment.
pub(super) fn run(args: &ThroughputArgs) -> Result<Report, Failure> {
    match args.run.mode() {
        Mode::Sim => run_sim(args),
        Mode::Emu => run_emu(args),
    }
}

fn run_sim(args: &ThroughputArgs) -> Result<Report, Failure> {
    let schemes = args.run.schemes(DESCRIPTION.sim)?;
    let recording = args.run.recording()?;
    let (first, last) = args.run.seeds();
    let mut points = Points::default();
    for (links, scenario) in points_of(args)? {
        let load = 1.5 * capacity_mbps(&scenario);
        let workload = |control_hz| Workload {
            seconds: args.seconds as f64,
            control_hz,
            recording: args.run.tlog.is_some(),
            video_mbps: load,
            video_shape: VideoShape::Even,
            ..Workload::default()
        };
        let known = known_at(links, &schemes);
        for (scheme, control_hz) in
            known.iter().flat_map(|scheme| cases(args).map(move |control_hz| (*scheme, control_hz)))
        {
            tell(format_args!(
                "throughput --sim: {scheme}, {links}, {}",
                seeds_shown((first, last))
            ));
            let (mut goodput, mut control, workload) = (0.0, Vec::new(), workload(control_hz));
            for seed in first..=last {
                let run = run_stream(&scenario, scheme, &workload, &recording, seed)?;
                let video = run.ledger(Direction::Down).stream(Stream::Video);
                goodput += goodput_mbps(video, (0.0, workload.seconds));
                control.push((seed, control_beside(&run, &workload)));
            }
            let more = pooled(&FIGURES, &control);
            points.add((scheme, links, control_hz), goodput / (last - first + 1) as f64, more);
        }
    }
    let parameters = json!({"seconds": args.seconds, "traffic": "datagrams at 1.5 x the rate"});
    Ok(Report::sim(DESCRIPTION.experiment, (first, last), parameters, points.results()))
}

fn run_emu(args: &ThroughputArgs) -> Result<Report, Failure> {
    let schemes = args.run.schemes(DESCRIPTION.emu)?;
    let congestion = args.congestion.clone();
    let plan = BulkPlan { seconds: args.seconds, congestion, control: None };
    let (mut points, mut audits) = (Points::default(), Vec::new());
    // A ratio is of two runs: the worst of them speaks for all.
    let mut in_doubt = 0.0_f64;
    for (links, scenario) in points_of(args)? {
        let schemes = known_at(links, &schemes);
        tell(format_args!("throughput --emu: {links}, {} s", args.seconds + 3));
        for control_hz in cases(args) {
            let control = control_hz > 0.0;
            let control = control.then(|| control_workload(args.seconds, control_hz));
            let plan = BulkPlan { control: control.clone(), ..plan.clone() };
            let (runs, audit) = run_bulk(&scenario, &schemes, &plan, args.run.seed(), RESOLUTION)?;
            in_doubt = audit.stalls.reached_share(0.0, (args.seconds + 3) as f64).max(in_doubt);
            audits.push(audit);
            for (scheme, run) in runs {
                let beside = control.as_ref().zip(run.control.as_ref());
                let more = merged([
                    json!({
                        "retransmits": run.retransmits,
                        "wire_overhead": rounded(run.wire_overhead, 4),
                    }),
                    beside.map_or(Value::Null, |(workload, run)| control_beside(run, workload)),
                ]);
                points.add((scheme, links, control_hz), run.goodput_mbps, more);
            }
        }
    }
    let parameters = json!({
        "seconds": args.seconds,
        "tcp_in_tunnel": args.congestion,
        "kernel_mptcp": "cubic, one connection written without pause; tunnels: iperf3",
    });
    let seed = args.run.seed();
    let mut results = points.results();
    for result in &mut results {
        add_errors_of_time(result, in_doubt, DESCRIPTION.figures);
    }
    let doubts = rankings_in_doubt(&results, &DESCRIPTION.columns(), &["links", "control_hz"]);
    Ok(Report::emu(DESCRIPTION.experiment, seed, parameters, &audits, doubts, results))
}

/// Returns how many control messages a second each way go beside the data, run by run.
fn cases(args: &ThroughputArgs) -> impl Iterator<Item = f64> + use<> {
    core::iter::once(0.0).chain((args.control_hz > 0.0).then_some(args.control_hz))
}

/// Returns what goes beside the data while it is measured, and while it starts up.
fn control_workload(seconds: u64, control_hz: f64) -> Workload {
    let seconds = (seconds + START_UP.as_secs()) as f64;
    Workload { seconds, control_hz, ..Workload::silent() }
}

/// Returns the figures of the control messages beside the data; nothing where there are none.
fn control_beside(run: &StreamRun, workload: &Workload) -> Value {
    if workload.control_hz == 0.0 {
        return json!({});
    }
    with_errors(run, (workload.seconds, None), |run| {
        let of = |direction| {
            let ledger = run.ledger(direction).stream(Stream::Control);
            ControlFigures::new(ledger, workload.seconds, None)
        };
        let (up, down) = (of(Direction::Up), of(Direction::Down));
        let share = json!({"control_miss_share": up.worse_miss_share(&down)});
        merged([json!(up.worse(down)), share])
    })
}

/// Reads a rate; 0 is none.
fn none_or_more(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1_000.0).contains(rate));
    rate.ok_or_else(|| format!("`{text}` is not a rate from 0 to 1,000"))
}

/// Returns the parameter points: one link, two equal links, two unequal ones.
fn scenarios() -> Result<[(&'static str, Scenario); 3], String> {
    let read = |text, name| Scenario::from_toml(text, name).map_err(|error| error.to_string());
    let equal = read(EQUAL, "two-10mbit.toml")?;
    let unequal = read(UNEQUAL, "two-unequal.toml")?;
    let mut single = equal.clone();
    single.links.truncate(1);
    Ok([("single", single), ("equal", equal), ("unequal", unequal)])
}

/// Returns the experiment's points, or those of another scenario: its first link, and all.
fn points_of(args: &ThroughputArgs) -> Result<Vec<(&'static str, Scenario)>, Failure> {
    let Some(all) = args.scenario.read()? else { return Ok(scenarios()?.to_vec()) };
    let mut single = all.clone();
    single.links.truncate(1);
    Ok(vec![("single", single), ("scenario", all)])
}

/// Leaves out the schedulers where there is one link, and nothing to choose.
fn known_at(links: &str, schemes: &[Scheme]) -> Vec<Scheme> {
    let meaningful = |scheme: &&Scheme| {
        links != "single" || !matches!(**scheme, Scheme::ROUND_ROBIN | Scheme::REDUNDANT)
    };
    schemes.iter().filter(meaningful).copied().collect()
}

/// Returns the sum of the links' rates from drone to station.
fn capacity_mbps(scenario: &Scenario) -> f64 {
    let drone = scenario.host("drone");
    let models = scenario.links.iter().map(|pair| match drone {
        Some(drone) if drone == pair.a => &pair.up,
        _ => &pair.down,
    });
    let rate = |model: &LinkModel| model.mean_rate().map_or(UNLIMITED_MBPS, Rate::as_mbps);
    models.map(rate).sum()
}

/// What a result is of: scheme, links, control messages a second.
type Key = (Scheme, &'static str, f64);

/// Collects results and relates each to the scheme's, or else `min_rtt`'s, single link, and to what
/// it was without control beside it.
#[derive(Default)]
struct Points(Vec<(Key, f64, Value)>);

impl Points {
    fn add(&mut self, key: Key, goodput_mbps: f64, more: Value) {
        self.0.push((key, goodput_mbps, more));
    }

    fn results(&self) -> Vec<Value> {
        let of = |key: Key| self.0.iter().find(|point| point.0 == key).map(|point| point.1);
        let result = |((scheme, links, control_hz), goodput, more): &(Key, f64, Value)| {
            let single = |scheme| of((scheme, "single", *control_hz));
            let ratio = |base: Option<f64>| {
                base.filter(|base| *base > 0.0).map(|base| rounded(goodput / base, 3))
            };
            let alone = of((*scheme, links, 0.0)).filter(|_| *control_hz > 0.0);
            let figures = json!({
                "scheme": scheme,
                "links": links,
                "control_hz": control_hz,
                "data_goodput_mbps": rounded(*goodput, 4),
                "ratio_to_single": ratio(single(*scheme).or_else(|| single(Scheme::MIN_RTT))),
                "ratio_to_alone": ratio(alone),
            });
            merged([figures, more.clone()])
        };
        self.0.iter().map(result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_one_link_of_the_same_kind() {
        let mut points = Points::default();
        points.add((Scheme::MIN_RTT, "single", 0.0), 9.0, json!({}));
        points.add((Scheme::KERNEL_MPTCP, "single", 0.0), 8.0, json!({}));
        points.add((Scheme::MIN_RTT, "equal", 0.0), 18.0, json!({}));
        points.add((Scheme::REDUNDANT, "equal", 0.0), 9.0, json!({}));
        points.add((Scheme::KERNEL_MPTCP, "equal", 0.0), 12.0, json!({}));
        let ratios: Vec<Value> =
            points.results().iter().map(|result| result["ratio_to_single"].clone()).collect();
        assert_eq!(ratios, [json!(1.0), json!(1.0), json!(2.0), json!(1.0), json!(1.5)]);
        points.add((Scheme::MIN_RTT, "equal", 50.0), 17.1, json!({}));
        let beside = points.results().pop().expect("the last");
        assert_eq!(beside["ratio_to_alone"], 0.95);
        assert_eq!(beside["ratio_to_single"], Value::Null, "one link had no control beside");
    }

    #[test]
    fn scenarios_are_as_the_figures_say() {
        let capacities = scenarios().expect("sound scenarios").map(|(_, s)| capacity_mbps(&s));
        assert_eq!(capacities, [10.0, 20.0, 20.0]);
    }
}
