//! `throughput`: how fast one TCP connection goes over one link, two equal links, two unequal ones.
//!
//! Reproduces the paper's comparison of schedulers [ConClone Fig. 1]: copying everything to both
//! links costs one of them. In the world there is no TCP: datagrams at 1.5 times the links' rate
//! show what the schedulers alone can use.

mod emu;

use clap::Args;
use netem::{LinkModel, Rate, Scenario};
use serde_json::{Value, json};
use units::Duration;

use super::Description;
use crate::arguments::{RunArgs, seeds_shown};
use crate::doubt::{add_errors_of_time, rankings_in_doubt};
use crate::experiment::streams::figures::goodput_mbps;
use crate::experiment::streams::sim::run_stream;
use crate::experiment::streams::video::VideoShape;
use crate::experiment::streams::workload::Workload;
use crate::figure::Figure;
use crate::report::{Mode, Report, rounded};
use crate::scenario_file::ScenarioArgs;
use crate::scheme::{Known, Scheme};
use crate::testbed::{Direction, Stream};
use emu::{BulkPlan, run_bulk};
use emulator::Failure;
use sys::print::tell;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "throughput",
    about: "goodput over one link, two equal links, and links of 10 and 40 ms",
    sim: Known {
        unasked: &[Scheme::MIN_RTT, Scheme::ROUND_ROBIN, Scheme::REDUNDANT],
        asked: &FULMAR,
    },
    emu: Known {
        unasked: &[Scheme::MIN_RTT, Scheme::ROUND_ROBIN, Scheme::REDUNDANT, Scheme::KERNEL_MPTCP],
        asked: &FULMAR,
    },
    beside: &[],
    figures: &[
        Figure::new("scheme", "scheme"),
        Figure::new("links", "links"),
        Figure::new("data_goodput_mbps", "goodput Mbit/s"),
        Figure::new("ratio_to_single", "to one link").ratio(),
        Figure::new("retransmits", "sent again").of_emu(),
        Figure::new("wire_overhead", "wire/payload").of_emu(),
    ],
};

/// The product at each degree of protecting control: what that costs a stream without control.
const FULMAR: [Scheme; 3] = [Scheme::FULMAR, Scheme::FULMAR_STRICT, Scheme::FULMAR_OFF];
/// Two equal links.
const EQUAL: &str = include_str!("../../../../../scenarios/two-10mbit.toml");
/// Links of equal rate and unequal delay.
const UNEQUAL: &str = include_str!("../../../../../scenarios/two-unequal.toml");
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
        let workload = Workload {
            seconds: args.seconds as f64,
            control_hz: 0.0,
            recording: args.run.tlog.is_some(),
            video_mbps: load,
            video_shape: VideoShape::Even,
            ..Workload::default()
        };
        for scheme in known_at(links, &schemes) {
            tell(format_args!(
                "throughput --sim: {scheme}, {links}, {}",
                seeds_shown((first, last))
            ));
            let mut goodput = 0.0;
            for seed in first..=last {
                let run = run_stream(&scenario, scheme, &workload, &recording, seed)?;
                let video = run.ledger(Direction::Down).stream(Stream::Video);
                goodput += goodput_mbps(video, (0.0, workload.seconds));
            }
            points.add(scheme, links, goodput / (last - first + 1) as f64, json!({}));
        }
    }
    let parameters = json!({"seconds": args.seconds, "traffic": "datagrams at 1.5 x the rate"});
    Ok(Report::sim(DESCRIPTION.experiment, (first, last), parameters, points.results()))
}

fn run_emu(args: &ThroughputArgs) -> Result<Report, Failure> {
    let schemes = args.run.schemes(DESCRIPTION.emu)?;
    let plan = BulkPlan { seconds: args.seconds, congestion: args.congestion.clone() };
    let (mut points, mut audits) = (Points::default(), Vec::new());
    // A ratio is of two runs: the worst of them speaks for all.
    let mut in_doubt = 0.0_f64;
    for (links, scenario) in points_of(args)? {
        let schemes = known_at(links, &schemes);
        tell(format_args!("throughput --emu: {links}, {} s", args.seconds + 3));
        let (runs, audit) = run_bulk(&scenario, &schemes, &plan, args.run.seed(), RESOLUTION)?;
        in_doubt = audit.stalls.reached_share(0.0, (args.seconds + 3) as f64).max(in_doubt);
        audits.push(audit);
        for (scheme, run) in runs {
            let more = json!({
                "retransmits": run.retransmits,
                "wire_overhead": rounded(run.wire_overhead, 4),
            });
            points.add(scheme, links, run.goodput_mbps, more);
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
    let doubts = rankings_in_doubt(&results, &DESCRIPTION.columns(), &["links"]);
    Ok(Report::emu(DESCRIPTION.experiment, seed, parameters, &audits, doubts, results))
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

/// Collects results and relates each to the scheme's, or else `min_rtt`'s, single link.
#[derive(Default)]
struct Points(Vec<(Scheme, &'static str, f64, Value)>);

impl Points {
    fn add(&mut self, scheme: Scheme, links: &'static str, goodput_mbps: f64, more: Value) {
        self.0.push((scheme, links, goodput_mbps, more));
    }

    fn results(&self) -> Vec<Value> {
        let single = |scheme: Scheme| {
            let found = self.0.iter().find(|point| (point.0, point.1) == (scheme, "single"));
            found.map(|point| point.2)
        };
        let result = |(scheme, links, goodput, more): &(Scheme, &str, f64, Value)| {
            let base = single(*scheme).or_else(|| single(Scheme::MIN_RTT));
            let ratio = base.filter(|base| *base > 0.0).map(|base| rounded(goodput / base, 3));
            let figures = json!({
                "scheme": scheme,
                "links": links,
                "data_goodput_mbps": rounded(*goodput, 4),
                "ratio_to_single": ratio,
            });
            crate::report::merged([figures, more.clone()])
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
        points.add(Scheme::MIN_RTT, "single", 9.0, json!({}));
        points.add(Scheme::KERNEL_MPTCP, "single", 8.0, json!({}));
        points.add(Scheme::MIN_RTT, "equal", 18.0, json!({}));
        points.add(Scheme::REDUNDANT, "equal", 9.0, json!({}));
        points.add(Scheme::KERNEL_MPTCP, "equal", 12.0, json!({}));
        let ratios: Vec<Value> =
            points.results().iter().map(|result| result["ratio_to_single"].clone()).collect();
        assert_eq!(ratios, [json!(1.0), json!(1.0), json!(2.0), json!(1.0), json!(1.5)]);
    }

    #[test]
    fn scenarios_are_as_the_figures_say() {
        let capacities = scenarios().expect("sound scenarios").map(|(_, s)| capacity_mbps(&s));
        assert_eq!(capacities, [10.0, 20.0, 20.0]);
    }
}
