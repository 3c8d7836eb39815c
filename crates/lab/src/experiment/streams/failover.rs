//! `failover`: the better of two links dies again and again, at instants that no timer of ours
//! knows.
//!
//! ```text
//! death n at 2.5·n s + a phase from the seed, for 1 s, without a link-down event
//! dies      nothing arrives; stalls: what it is given is held back for that long, and then comes;
//! slows     it carries SLOW_KBPS in place of its rate
//! excess    = delay of the slowest control message − the surviving link's one-way delay
//! data move = first delivery of data over the survivor − its one-way delay − the death
//! data gap  = longest time without a delivery of data from the death on, until the link is back
//! ```

use std::sync::Arc;

use clap::{Args, ValueEnum};
use netem::{Delay, LinkModel, LinkRate, Outage, OutageMode, Scenario, Series};
use serde::Serialize;
use serde_json::{Value, json};
use units::{Duration, Instant, Rate, Rng};

use super::doubt::with_errors;
use super::emu::{Links, run_streams};
use super::figures::{
    CONTROL_DUPLICATES, CONTROL_GAP, CONTROL_LOST, CONTROL_MAX, CONTROL_SENT, FIGURES,
};
use super::figures::{ControlFigures, Span};
use super::ledger::{StreamLedger, StreamRun};
use super::sim::run_stream;
use super::video::VideoShape;
use super::workload::Workload;
use crate::arguments::{RunArgs, seeds_shown};
use crate::doubt::rankings_in_doubt;
use crate::experiment::Description;
use crate::figure::Figure;
use crate::report::{Mode, Report, merged, rounded, rounded_option};
use crate::scenario_file::ScenarioArgs;
use crate::scheme::{Known, Scheme};
use crate::statistics::{longest_gap, maximum, percentile};
use crate::testbed::{Direction, Stream};
use emulator::Failure;
use sys::print::tell;

/// Describes the experiment.
pub(crate) const DESCRIPTION: Description = Description {
    experiment: "failover",
    about: "the better of two loss-free links dies silently, at any instant",
    sim: Known {
        unasked: &[Scheme::FULMAR, Scheme::MIN_RTT, Scheme::ROUND_ROBIN, Scheme::REDUNDANT],
        asked: &[Scheme::FULMAR_BACKUP, Scheme::FULMAR_TARGET, Scheme::UDP],
    },
    emu: Known {
        unasked: &[Scheme::FULMAR, Scheme::KERNEL_MPTCP],
        asked: &[
            Scheme::FULMAR_BACKUP,
            Scheme::FULMAR_TARGET,
            Scheme::MIN_RTT,
            Scheme::ROUND_ROBIN,
            Scheme::REDUNDANT,
            Scheme::UDP,
            Scheme::KERNEL_TCP_CUBIC,
            Scheme::KERNEL_TCP_BBR,
            Scheme::KERNEL_TCP_RENO,
        ],
    },
    beside: &[&FIGURES, &[Figure::sum("data_never_moved", "never moved")]],
    figures: &[
        Figure::new("fault", "fault"),
        Figure::new("scheme", "scheme"),
        Figure::new("deaths", "deaths"),
        CONTROL_SENT,
        CONTROL_LOST,
        CONTROL_DUPLICATES,
        CONTROL_MAX.titled("slowest ms"),
        Figure::new("control_excess_ms", "over the survivor ms"),
        CONTROL_GAP,
        Figure::new("data_move_p50_ms", "data moves p50 ms"),
        Figure::new("data_move_max_ms", "max ms"),
        Figure::new("data_gap_max_ms", "data gap ms"),
    ],
};

/// One-way delay of the link that dies.
const DYING: Duration = Duration::from_millis(10);
/// One-way delay of the link that survives.
const SURVIVOR: Duration = Duration::from_millis(35);
/// Rate of both links.
const LINK_MBPS: f64 = 20.0;
/// From one death to the next, without the phase.
const PERIOD_S: f64 = 2.5;
/// How long the link is dead.
const DEAD: Duration = Duration::from_secs(1);
/// What the link that becomes slow carries, kbit/s: control alone takes twice that.
const SLOW_KBPS: u64 = 50;
/// Rate of the data that is to move: a packet every 10 ms, so that its move is seen to 10 ms.
const DATA_MBPS: f64 = 0.96;
/// What an emulated run claims to tell apart.
const RESOLUTION: Duration = Duration::from_millis(10);

/// Says what happens to the link again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
enum Fault {
    /// Nothing arrives.
    Dies,
    /// What it is given is held back, and then comes.
    Stalls,
    /// It carries next to nothing.
    Slows,
}

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct FailoverArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// What happens to the better link.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "FAULT,...",
        value_enum,
        default_value = "dies",
        conflicts_with = "scenario"
    )]
    faults: Vec<Fault>,
    /// Deaths per seed; default 200 with --sim, 20 with --emu.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=2000),
          conflicts_with = "scenario")]
    deaths: Option<u16>,
    #[command(flatten)]
    links: ScenarioArgs,
}

/// Runs the experiment.
pub(crate) fn run(args: &FailoverArgs) -> Result<Report, Failure> {
    let mode = args.run.mode();
    let other = args.links.read()?;
    if other.as_ref().is_some_and(|other| other.links.len() < 2) {
        return Err(Failure::Usage("failover needs two links, one of which survives".to_owned()));
    }
    let count = args.deaths.unwrap_or(if mode == Mode::Sim { 200 } else { 20 });
    let own_seconds = PERIOD_S * (f64::from(count) + 1.0);
    let workload = Workload {
        seconds: other.as_ref().map_or(own_seconds, |other| other.seconds),
        recording: args.run.tlog.is_some(),
        video_mbps: DATA_MBPS,
        video_shape: VideoShape::Even,
        ..Workload::default()
    };
    let recording = args.run.recording()?;
    let scene =
        |fault, seed| other.clone().map_or_else(|| Scene::own(fault, count, seed), Scene::of);
    let parameters = match &other {
        Some(other) => json!({"scenario": other.name, "workload": workload}),
        None => json!({
            "deaths_per_seed": count,
            "dying_ms": DYING.as_millis(),
            "survivor_ms": SURVIVOR.as_millis(),
            "link_mbps": LINK_MBPS,
            "workload": workload,
        }),
    };
    match mode {
        Mode::Sim => {
            let schemes = args.run.schemes(DESCRIPTION.sim)?;
            let (first, last) = args.run.seeds();
            let mut results = Vec::new();
            for fault in &args.faults {
                for scheme in &schemes {
                    tell(format_args!("failover --sim: {scheme}, {}", seeds_shown((first, last))));
                    let mut all = Figures::default();
                    for seed in first..=last {
                        let scene = scene(*fault, seed);
                        let run = run_stream(&scene.links, *scheme, &workload, &recording, seed)?;
                        all.add(&run, &scene, workload.seconds);
                    }
                    results.push(all.result(*fault, *scheme));
                }
            }
            Ok(Report::sim(DESCRIPTION.experiment, (first, last), parameters, results))
        }
        Mode::Emu => {
            let schemes = args.run.schemes(DESCRIPTION.emu)?;
            let seed = args.run.seed();
            let (mut results, mut audits) = (Vec::new(), Vec::new());
            for fault in &args.faults {
                let scene = scene(*fault, seed);
                tell(format_args!("failover --emu: {} s", workload.seconds));
                let (links, played) = (Links::of(&scene.links), (&workload, &recording));
                let (runs, audit) =
                    run_streams(links, &schemes, played, seed, RESOLUTION, &mut |_, _| {})?;
                audits.push(audit);
                let result = |(scheme, run): &(Scheme, StreamRun)| {
                    with_errors(run, (workload.seconds, None), |run| {
                        let mut figures = Figures::default();
                        figures.add(run, &scene, workload.seconds);
                        figures.result(*fault, *scheme)
                    })
                };
                results.extend(runs.iter().map(result));
            }
            let doubts = rankings_in_doubt(&results, &DESCRIPTION.columns(), &["fault"]);
            Ok(Report::emu(DESCRIPTION.experiment, seed, parameters, &audits, doubts, results))
        }
    }
}

/// The links of a run: the first of them dies, the second survives.
struct Scene {
    links: Scenario,
    /// When the first link is silently dead.
    deaths: Vec<Span>,
    /// One-way delays when nothing is wrong.
    dying: Duration,
    survivor: Duration,
}

impl Scene {
    /// Makes the links of the experiment.
    fn own(fault: Fault, deaths: u16, seed: u64) -> Self {
        let model = |delay| LinkModel {
            delay: Delay::Fixed(delay),
            rate: LinkRate::Constant(Rate::from_mbps(LINK_MBPS)),
            ..LinkModel::default()
        };
        let (mut dying, mut phases) = (model(DYING), Rng::stream(seed, "failover phases"));
        let starts: Vec<Duration> = (1..=deaths)
            .map(|death| Duration::from_secs_f64(PERIOD_S * f64::from(death) + phases.unit()))
            .collect();
        let outage = |mode| {
            move |start: &Duration| Outage { start: Instant::ZERO + *start, duration: DEAD, mode }
        };
        match fault {
            Fault::Dies => dying.outages.extend(starts.iter().map(outage(OutageMode::Drop))),
            Fault::Stalls => {
                dying.outages.extend(starts.iter().map(outage(OutageMode::Hold { queue: None })));
            }
            Fault::Slows => dying.rate = slowing(&starts).unwrap_or(dying.rate),
        }
        let mut scenario = Scenario::new(DESCRIPTION.experiment, 0.0)
            .link("dying", "drone", "station", &dying)
            .link("survivor", "drone", "station", &model(SURVIVOR));
        scenario.hosts[0].clock.offset_ns = 3_000_000_000;
        let (from, to) = (Duration::as_secs_f64, DEAD.as_secs_f64());
        let deaths = starts.iter().map(|start| (from(*start), from(*start) + to)).collect();
        Self { deaths, ..Self::of(scenario) }
    }

    /// Takes the links of another scenario; the silent outages of its first link are the deaths.
    fn of(links: Scenario) -> Self {
        let drone = links.host("drone").unwrap_or_default();
        let sent = |link: usize| links.links[link].sent_by(drone).1;
        let delay = |link: usize| sent(link).delay_at(Instant::ZERO);
        let span = |outage: &Outage| {
            let start = outage.start.as_secs_f64();
            (start, start + outage.duration.as_secs_f64())
        };
        let silent = sent(0).outages.iter().filter(|outage| outage.mode == OutageMode::Drop);
        let deaths = silent.map(span).collect();
        let (dying, survivor) = (delay(0), delay(1));
        Self { links, deaths, dying, survivor }
    }
}

/// Collects the figures of one scheme over several seeds.
#[derive(Default)]
struct Figures {
    deaths: usize,
    up: Option<ControlFigures>,
    down: Option<ControlFigures>,
    survivor: Duration,
    moves_ms: Vec<f64>,
    gaps_ms: Vec<f64>,
    never_moved: usize,
    wire_bytes: u64,
}

impl Figures {
    fn add(&mut self, run: &StreamRun, scene: &Scene, seconds: f64) {
        let control = |direction| {
            let ledger = run.ledger(direction).stream(Stream::Control);
            ControlFigures::new(ledger, seconds, None)
        };
        let pooled = |so_far: Option<ControlFigures>, new: ControlFigures| match so_far {
            Some(so_far) => so_far.pooled(new),
            None => new,
        };
        self.up = Some(pooled(self.up, control(Direction::Up)));
        self.down = Some(pooled(self.down, control(Direction::Down)));
        let data = run.ledger(Direction::Down).stream(Stream::Video);
        self.survivor = scene.survivor;
        for death in &scene.deaths {
            match data_move_ms(data, *death, scene) {
                Some(ms) => self.moves_ms.push(ms),
                None => self.never_moved += 1,
            }
        }
        self.gaps_ms.extend(data_gaps_ms(data, &scene.deaths));
        self.deaths += scene.deaths.len();
        self.wire_bytes += run.wire_bytes();
    }

    fn result(mut self, fault: Fault, scheme: Scheme) -> Value {
        let (Some(up), Some(down)) = (self.up, self.down) else { return Value::Null };
        let excess = |control: &ControlFigures| {
            let survivor = self.survivor.as_secs_f64() * 1e3;
            control.control_max_ms.map(|slowest| rounded((slowest - survivor).max(0.0), 3))
        };
        let worse = up.worse(down);
        self.moves_ms.sort_by(f64::total_cmp);
        merged([
            json!({"fault": fault, "scheme": scheme, "deaths": self.deaths}),
            json!(worse),
            json!({
                "control_miss_share": up.worse_miss_share(&down),
                "control_excess_ms": excess(&worse),
                "data_move_p50_ms": rounded_option(percentile(&self.moves_ms, 0.5), 3),
                "data_move_max_ms": rounded_option(maximum(&self.moves_ms), 3),
                "data_gap_max_ms": rounded_option(maximum(&self.gaps_ms), 3),
                "data_never_moved": self.never_moved,
                "wire_bytes": self.wire_bytes,
                "up": up,
                "down": down,
            }),
        ])
    }
}

/// Returns how long after a death data went the other way, milliseconds; none when it did not
/// while the link was dead.
fn data_move_ms(data: &StreamLedger, (died, back): Span, scene: &Scene) -> Option<f64> {
    let last_of_dying = died + scene.dying.as_secs_f64();
    let survivor = scene.survivor.as_secs_f64();
    // What travelled on the dying link arrives in its delay; over the survivor it takes longer.
    let over_survivor = data.messages().filter_map(|(sent, delay)| {
        let arrived = sent + delay?;
        (arrived > last_of_dying && arrived < back && sent < back).then_some(arrived)
    });
    let first = over_survivor.reduce(f64::min)?;
    Some(((first - survivor - died) * 1e3).max(0.0))
}

/// Returns the longest time without a delivery of data from each death on until the link is back,
/// milliseconds.
fn data_gaps_ms(data: &StreamLedger, deaths: &[Span]) -> Vec<f64> {
    let times = data.delivery_times();
    let gap = |(died, back): &Span| {
        // What came last before the death began the gap.
        let before = times.partition_point(|at| at <= died);
        let from = before.checked_sub(1).map_or(*died, |last| times[last]);
        longest_gap(&times, from, *back, None) * 1e3
    };
    deaths.iter().map(gap).collect()
}

/// Returns a rate that falls at each start and is back when a death would be over.
fn slowing(starts: &[Duration]) -> Option<LinkRate> {
    let whole = Rate::from_mbps(LINK_MBPS);
    let slow = Rate::from_bps(SLOW_KBPS * 1_000);
    let steps = starts.iter().flat_map(|start| [(*start, slow), (*start + DEAD, whole)]);
    let all = core::iter::once((Duration::ZERO, whole)).chain(steps);
    let series = Series::from_steps(all, None, "failover").ok()?;
    Some(LinkRate::Csv { path: String::new(), series: Arc::new(series) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn move_is_seen_at_the_receiver_and_related_to_the_death() {
        let mut data = StreamLedger::new(vec![1_200; 4]);
        let ms = |ms| Some(Duration::from_millis(ms));
        data.sent = vec![ms(995), ms(1_005), ms(1_050), ms(1_060)];
        data.delivered = vec![ms(1_005), None, ms(1_085), ms(1_095)];
        let scene = Scene::own(Fault::Dies, 1, 1);
        let moved = data_move_ms(&data, (1.0, 2.0), &scene).expect("it moved");
        assert!((moved - 50.0).abs() < 1e-6, "{moved}");
        assert_eq!(data_move_ms(&data, (3.0, 4.0), &scene), None);
    }

    #[test]
    fn deaths_do_not_overlap_and_fit_the_run() {
        let Scene { links, deaths: spans, .. } = Scene::own(Fault::Dies, 50, 7);
        assert_eq!(links.links[0].up.outages.len(), 50);
        assert!(spans.windows(2).all(|pair| pair[0].1 + 0.4 < pair[1].0));
        assert!(spans[49].1 < PERIOD_S * 51.0);
        let slow = Scene::own(Fault::Slows, 50, 7);
        assert_eq!(slow.deaths, spans);
        let LinkRate::Csv { series, .. } = &slow.links.links[0].up.rate else { panic!("steps") };
        let at = Instant::ZERO + Duration::from_secs_f64(spans[7].0 + 0.5);
        assert_eq!(series.at(at), Rate::from_bps(SLOW_KBPS * 1_000));
        assert_eq!(series.at(at + Duration::from_secs(1)), Rate::from_mbps(LINK_MBPS));
    }
}
