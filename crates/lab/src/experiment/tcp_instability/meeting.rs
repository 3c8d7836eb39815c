//! TCP flows that meet on the unstable hop of a network of UAVs: what the experiments
//! `asran-instability` and `asran-traffic` have in common.
//!
//! ```text
//! point (lengths of outages, RTT, offered load) × repetition × scheme → one network of its own
//! ```
//! In each network a flow of the scheme and a CUBIC flow send at the same time [ASRAN §5.1]; in
//! every other repetition they have changed places, so that a figure is not due to a UAV's place.
//! All schemes of a repetition meet the same outages. `figures` computes, `picture` draws; the
//! network is `topology`, what happens to it `outages`, the running is `emu` or `sim`.

use std::path::Path;

use clap::{Args, ValueEnum};
use netem::{Outage, Scenario};
use serde_json::{Value, json};
use units::{Duration, Rate};

use super::emu::run_meetings;
use super::offered::{OfferedCdf, offered_in_the_world};
use super::outages::{Instability, Target};
use super::plan::{Meeting, MeetingRun, Sender};
use super::topology::UavNetwork;
use super::{doubt, figures, picture, sim};
use crate::arguments::{RunArgs, positive, seeds_shown};
use crate::doubt::rankings_in_doubt;
use crate::figure::Figure;
use crate::parallel;
use crate::report::{Mode, Report, merged};
use crate::scheme::{Known, Scheme};
use crate::testbed::congestion::Congestion;
use crate::testbed::tcp_flow::{FlowRun, Offer};
use emulator::Failure;
use emulator::{Audit, Claim};
use sys::print::tell;

/// Schemes of the emulator: the flow of constant rate shows what the hop is like.
pub(crate) const SCHEMES: [Scheme; 8] = [
    Scheme::UDP,
    Scheme::CUBIC,
    Scheme::RENO,
    Scheme::BBR,
    Scheme::ASRAN,
    Scheme::ASRAN_CUBIC,
    Scheme::ASRAN_JUMP,
    Scheme::ASRAN_DELAY,
];

/// Schemes of the world, whose TCP has these congestion controls.
pub(crate) const SIM: Known = Known {
    unasked: &[Scheme::UDP],
    asked: &[Scheme::CUBIC, Scheme::RENO, Scheme::ASRAN_CUBIC, Scheme::ASRAN_JUMP],
};

/// The figures of a result: key, title in tables.
pub(crate) const FIGURES: [Figure; 22] = [
    Figure::new("scheme", "scheme"),
    Figure::new("outage", "outage"),
    Figure::new("long_s", "long s").exact(),
    Figure::new("short_ms", "short ms").exact(),
    Figure::new("full", "full").exact(),
    Figure::new("rtt_ms", "RTT ms").exact(),
    Figure::new("offered_mbps", "offered").exact(),
    Figure::new("throughput_mbps", "Mbit/s"),
    Figure::new("throughput_std_mbps", "std"),
    Figure::new("cubic_mbps", "cubic"),
    Figure::new("ratio_to_cubic", "ratio").ratio(),
    Figure::new("ratio_to_cubic_interval", "95 %"),
    Figure::new("run_ratio", "of means").ratio(),
    Figure::new("run_ratio_interval", "one run"),
    Figure::new("cubic_kept", "kept").ratio(),
    Figure::new("cubic_kept_interval", "95 %"),
    Figure::new("cubic_kept_mean", "in the mean").ratio(),
    Figure::new("jain", "Jain"),
    Figure::new("zero_share", "zero"),
    Figure::new("recoveries", "recov."),
    Figure::new("timeouts", "timeouts"),
    Figure::new("retransmits", "sent again"),
];

/// What results have beside the table: what a flow of constant rate sees, more of the two flows,
/// and the outages.
pub(crate) const BESIDE: [Figure; 22] = [
    Figure::new("run_mbps", "of a run"),
    Figure::new("run_mbps_interval", "95 %"),
    Figure::new("run_cubic_mbps", "cubic of a run"),
    Figure::new("run_cubic_mbps_interval", "95 %"),
    Figure::new("run_jain", "Jain of a run"),
    Figure::new("run_jain_interval", "95 %"),
    Figure::new("full_share", "full"),
    Figure::new("deciles_kbps", "deciles kbit/s"),
    Figure::new("cubic_std_mbps", "cubic std"),
    Figure::new("cubic_kept_mean_interval", "95 %"),
    Figure::new("cubic_zero_share", "cubic zero"),
    Figure::new("srtt_ms", "RTT ms"),
    Figure::new("cubic_srtt_ms", "cubic RTT ms"),
    Figure::new("cubic_recoveries", "cubic recov."),
    Figure::new("cubic_timeouts", "cubic timeouts"),
    Figure::new("queue_drops", "queue full"),
    Figure::new("by_repetition", "repetitions"),
    Figure::new("mode", "mode").within("outages", "outage"),
    Figure::new("long_mean_s", "long s").within("outages", "long s"),
    Figure::new("long_every_s", "every s").within("outages", "every s"),
    Figure::new("short_mean_ms", "short ms").within("outages", "short ms"),
    Figure::new("short_per_s", "a second").within("outages", "a second"),
];

/// What results have in common that are of one point.
const POINT: [&str; 6] = ["outage", "long_s", "short_ms", "full", "rtt_ms", "offered_mbps"];

/// What the emulated runs claim to tell apart: less than a round-trip time. No figure of theirs is
/// an extreme: a stall of a second moves the mean of 100 s by one part in a hundred at most.
const CLAIM: Claim =
    Claim { extremes: Duration::from_secs(10), ..Claim::to(Duration::from_millis(100)) };
/// How long the hop works at the beginning, seconds: the flows find their rate.
const CALM_S: f64 = 2.0;

/// Says what an outage does to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutageKind {
    /// They are lost.
    Drop,
    /// They wait, and leave when it is over.
    Hold,
}

/// The arguments of both experiments. Lists give a result for each combination.
#[derive(Clone, Debug, Args)]
pub(crate) struct MeetingArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Seconds of a repetition that count.
    #[arg(long, default_value_t = 100, value_name = "S",
          value_parser = clap::value_parser!(u64).range(5..=3_600))]
    seconds: u64,
    /// Seconds before them, in which the flows forget how they began; outages begin with the third.
    #[arg(long, default_value_t = 20, value_name = "S",
          value_parser = clap::value_parser!(u64).range(2..=600))]
    settle_s: u64,
    /// Repetitions, each with other outages; the flows change places from one to the next.
    #[arg(long, default_value_t = 6, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1_000))]
    repetitions: u64,
    /// Networks that are emulated at the same time; in virtual time no more than there are
    /// processors.
    #[arg(long, default_value_t = 8, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=40))]
    parallel: u8,
    /// Mean length of the long outages, seconds.
    #[arg(long, value_delimiter = ',', default_value = "4", value_name = "S,...",
          value_parser = positive)]
    long_s: Vec<f64>,
    /// Mean length of the short outages, milliseconds.
    #[arg(long, value_delimiter = ',', default_value = "40", value_name = "MS,...",
          value_parser = positive)]
    short_ms: Vec<f64>,
    /// Share of the seconds in which a flow of 1,000 kbit/s gets nothing through.
    #[arg(long, default_value_t = 0.19, value_name = "P", value_parser = share)]
    zero: f64,
    /// Share of the seconds in which all of it gets through.
    #[arg(long, value_delimiter = ',', default_value = "0.3", value_name = "P,...",
          value_parser = share)]
    full: Vec<f64>,
    /// What an outage does to packets.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "drop",
        value_name = "KIND,..."
    )]
    outage: Vec<OutageKind>,
    /// Round-trip time without queues, milliseconds.
    #[arg(long, value_delimiter = ',', default_value = "200", value_name = "MS,...",
          value_parser = positive)]
    rtt_ms: Vec<f64>,
    /// What each of the two flows offers, Mbit/s.
    #[arg(long, value_delimiter = ',', default_value = "2.5", value_name = "MBPS,...",
          value_parser = positive)]
    offered_mbps: Vec<f64>,
    /// How old data may become that a connection does not take, milliseconds: a live source gives
    /// it up then.
    #[arg(long, default_value_t = 100.0, value_name = "MS", value_parser = positive)]
    patience_ms: f64,
    /// Offer later whatever a connection did not take in time, as a file transfer does.
    #[arg(long)]
    backlog: bool,
    /// Rate of the unstable hop, Mbit/s; default 12, and 6 with a heavy sender.
    #[arg(long, value_name = "MBPS", value_parser = positive)]
    hop_mbps: Option<f64>,
    /// Packets that may wait for the hop; default 100, and 50 with a heavy sender.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    queue_packets: Option<u64>,
    /// How often a network is run again after a failure that no figure's error accounts for.
    #[arg(long, default_value_t = 2, value_name = "N")]
    again: u8,
}

/// What a third UAV sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heavy {
    pub(super) scheme: Scheme,
    /// Its connections.
    pub(super) flows: u8,
}

/// One network to be run: point, repetition, scheme.
type Job = (Point, u64, Scheme);

/// One combination of what is varied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    outage: OutageKind,
    long_s: f64,
    short_ms: f64,
    full: f64,
    rtt_ms: f64,
    offered_mbps: f64,
    hop: Instability,
}

/// What came of one network: a flow of the scheme and the CUBIC flow beside it, which the flow
/// of constant rate does not have.
#[derive(Clone, Debug)]
pub(crate) struct Encounter {
    pub(super) scheme: Scheme,
    pub(super) repetition: u64,
    pub(super) own: FlowRun,
    pub(super) beside: Option<FlowRun>,
    pub(super) queue_drops: u64,
    /// The share of its time that is within the reach of the machine's stalls.
    pub(super) doubt: f64,
}

/// Runs an experiment; `heavy` is what a third UAV sends as fast as it can.
pub(crate) fn run(
    experiment: &'static str,
    args: &MeetingArgs,
    known: (Known, Known),
    heavy: Option<Heavy>,
) -> Result<Report, Failure> {
    let points = points(args).map_err(Failure::Usage)?;
    let (sim, emu) = known;
    match args.run.mode() {
        Mode::Sim => {
            let schemes = args.run.schemes(sim)?;
            match schemes[..] {
                [Scheme::UDP] => Ok(run_offered(experiment, args, &points)?),
                _ => run_sim(experiment, args, &points, &schemes, heavy),
            }
        }
        Mode::Emu => {
            let schemes = args.run.schemes(emu)?;
            run_emu(experiment, args, &points, &schemes, heavy)
        }
    }
}

/// Says whether the scheme's flow is the second UAV's.
pub(super) fn changed_places(repetition: u64) -> bool {
    repetition % 2 == 1
}

/// Sends the flow of constant rate through every point's network in virtual time.
fn run_offered(
    experiment: &'static str,
    args: &MeetingArgs,
    points: &[Point],
) -> Result<Report, String> {
    let (first, last) = args.run.seeds();
    let (mut results, mut curves) = (Vec::new(), Vec::new());
    for point in points {
        let network = args.network(point, 2);
        let mut datagrams = Vec::new();
        for seed in first..=last {
            let scenario = Scenario::new(experiment, args.length() as f64);
            let scenario = network.add_to(scenario, 0, &args.outages(point, seed));
            let all = offered_in_the_world(&scenario, &network.way(), seed, args.length() as usize);
            datagrams.extend(&all[args.settle_s as usize..]);
        }
        let head = merged([json!({"scheme": Scheme::UDP}), point.parameters()]);
        let cdf = OfferedCdf::of(&datagrams);
        curves.push((point.named(), cdf.curve()));
        results.push(merged([head, cdf.figures()]));
    }
    if let Some(directory) = &args.run.out {
        let seeds = seeds_shown((first, last));
        picture::write_offered(directory, curves, &format!("virtual time, {seeds}"))?;
    }
    Ok(Report::sim(experiment, (first, last), args.parameters(None), results))
}

fn run_emu(
    experiment: &'static str,
    args: &MeetingArgs,
    points: &[Point],
    schemes: &[Scheme],
    heavy: Option<Heavy>,
) -> Result<Report, Failure> {
    let tcp = schemes.iter().copied().filter(|scheme| *scheme != Scheme::UDP);
    let used =
        tcp.chain([Scheme::CUBIC]).chain(heavy.map(|heavy| heavy.scheme)).map(Scheme::control);
    let congestion = Congestion::of(&used.collect::<Result<Vec<_>, _>>()?)?;
    let jobs = jobs(args, points, schemes);
    let (mut encounters, mut audits): (Vec<Encounter>, Vec<Audit>) = (Vec::new(), Vec::new());
    for batch in jobs.chunks(usize::from(args.parallel)) {
        let (done, all) = (encounters.len(), jobs.len());
        tell(format_args!(
            "{experiment} --emu: networks {}-{} of {all}",
            done + 1,
            done + batch.len()
        ));
        let meetings: Vec<Meeting> = batch.iter().map(|job| args.meeting(job, heavy)).collect();
        let run = || run_meetings(&meetings, &congestion, args.length(), args.run.seed(), CLAIM);
        let (mut runs, mut audit) = run()?;
        for _ in 0..args.again {
            if audit.faults.is_empty() {
                break;
            }
            tell(format_args!("{experiment} --emu: once more, {}", audit.faults.join("; ")));
            (runs, audit) = run()?;
        }
        let (from_s, to_s) = (args.settle_s as f64, args.length() as f64);
        let doubt = audit.stalls.reached_share(from_s, to_s);
        audits.push(audit);
        let encounter = |(job, run)| Encounter { doubt, ..args.encounter(job, run) };
        encounters.extend(batch.iter().zip(runs).map(encounter));
    }
    let how = "the kernel's TCP over the emulator";
    let mut results = results(experiment, args, points, schemes, &encounters, how)?;
    let again = |encounters: &[Encounter]| rows(args, points, schemes, encounters);
    doubt::add_errors(&mut results, &encounters, again);
    // The flow of constant rate shows the hop and competes with nobody.
    let tcp = |result: &&Value| result["scheme"] != Scheme::UDP.name();
    let ranked: Vec<Value> = results.iter().filter(tcp).cloned().collect();
    let columns = FIGURES.map(|figure| figure.column());
    let doubts = rankings_in_doubt(&ranked, &columns, &POINT);
    Ok(Report::emu(experiment, args.run.seed(), args.parameters(heavy), &audits, doubts, results))
}

/// Lets the flows meet in virtual time, in several networks at the same time.
fn run_sim(
    experiment: &'static str,
    args: &MeetingArgs,
    points: &[Point],
    schemes: &[Scheme],
    heavy: Option<Heavy>,
) -> Result<Report, Failure> {
    if args.run.seeds.is_some() {
        let why = "--seeds: repetitions of TCP have seeds that follow each other: --seed, \
                   --repetitions";
        return Err(Failure::Usage(why.to_owned()));
    }
    if let Some(heavy) = heavy {
        let described = |error| Failure::Usage(format!("--heavy: {error}"));
        sim::congestion(heavy.scheme).map_err(described)?;
    }
    let jobs = jobs(args, points, schemes);
    let threads = parallel::processors().min(args.parallel.into());
    let runs = parallel::map(&jobs, threads, |_, job| {
        let seed = args.run.seed() + job.1;
        let run = sim::run_meeting(&args.meeting(job, heavy), args.length(), seed)?;
        Ok(args.encounter(job, run))
    });
    let encounters = runs.into_iter().collect::<Result<Vec<Encounter>, String>>()?;
    let how = "the world's TCP in virtual time";
    let results = results(experiment, args, points, schemes, &encounters, how)?;
    let seed = args.run.seed();
    Ok(Report::sim(experiment, (seed, seed), args.parameters(heavy), results))
}

/// Returns every network, point by point, and repetition by repetition.
fn jobs(args: &MeetingArgs, points: &[Point], schemes: &[Scheme]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for point in points {
        for repetition in 0..args.repetitions {
            jobs.extend(schemes.iter().map(|scheme| (*point, repetition, *scheme)));
        }
    }
    jobs
}

/// Computes the figures of every point, and writes the files of the first.
fn results(
    experiment: &str,
    args: &MeetingArgs,
    points: &[Point],
    schemes: &[Scheme],
    encounters: &[Encounter],
    how: &str,
) -> Result<Vec<Value>, String> {
    let of_point = args.repetitions as usize * schemes.len();
    let results = rows(args, points, schemes, encounters);
    if let Some(directory) = &args.run.out {
        write_files(directory, experiment, args, &encounters[..of_point], &points[0], how)?;
        picture::write_repetitions(directory, &results[..schemes.len()])?;
    }
    Ok(results)
}

/// Computes the figures of every point.
fn rows(
    args: &MeetingArgs,
    points: &[Point],
    schemes: &[Scheme],
    encounters: &[Encounter],
) -> Vec<Value> {
    let of_point = args.repetitions as usize * schemes.len();
    let of = |(point, encounters): (&Point, &[Encounter])| {
        figures::rows(schemes, encounters, args.run.seed(), &point.parameters())
    };
    points.iter().zip(encounters.chunks(of_point)).flat_map(of).collect()
}

impl Encounter {
    /// Puts the flows of a network back into the order of their roles.
    pub(super) fn of(
        scheme: Scheme,
        repetition: u64,
        flows: Vec<FlowRun>,
        queue_drops: u64,
    ) -> Self {
        let mut flows = flows.into_iter();
        let (first, second) = (flows.next().unwrap_or_default(), flows.next());
        let (own, beside) = match second {
            Some(second) if changed_places(repetition) => (second, Some(first)),
            second => (first, second),
        };
        Self { scheme, repetition, own, beside, queue_drops, doubt: 0.0 }
    }
}

/// Leaves out the beginning of a flow, and counts time from there.
fn settled(mut flow: FlowRun, seconds: u64) -> FlowRun {
    flow.goodput_mbps.drain(..flow.goodput_mbps.len().min(seconds as usize));
    flow.samples.retain(|sample| sample.at_s >= seconds as f64);
    flow.samples.iter_mut().for_each(|sample| sample.at_s -= seconds as f64);
    flow
}

/// Returns every combination of the lists, in the order in which they were given.
fn points(args: &MeetingArgs) -> Result<Vec<Point>, String> {
    let mut points = Vec::new();
    for &outage in &args.outage {
        for (&long_s, &short_ms) in product(&args.long_s, &args.short_ms) {
            for &full in &args.full {
                let target = Target { zero: args.zero, full };
                let holds = outage == OutageKind::Hold;
                let hop = Instability::fit(target, long_s, short_ms / 1e3, holds)?;
                for (&rtt_ms, &offered_mbps) in product(&args.rtt_ms, &args.offered_mbps) {
                    let point = Point { outage, long_s, short_ms, full, rtt_ms, offered_mbps, hop };
                    points.push(point);
                }
            }
        }
    }
    Ok(points)
}

/// Pairs every item of one list with every item of another.
fn product<'a>(one: &'a [f64], other: &'a [f64]) -> impl Iterator<Item = (&'a f64, &'a f64)> {
    one.iter().flat_map(move |first| other.iter().map(move |second| (first, second)))
}

impl Point {
    /// Names the point among others.
    fn named(&self) -> String {
        let Self { long_s, short_ms, full, .. } = self;
        format!("outages of {long_s} s and {short_ms} ms, {full} of the seconds full")
    }

    fn parameters(&self) -> Value {
        let outage = match self.outage {
            OutageKind::Drop => "drop",
            OutageKind::Hold => "hold",
        };
        json!({
            "outage": outage,
            "long_s": self.long_s,
            "short_ms": self.short_ms,
            "full": self.full,
            "rtt_ms": self.rtt_ms,
            "offered_mbps": self.offered_mbps,
            "outages": self.hop.parameters(),
        })
    }
}

impl MeetingArgs {
    /// Returns how long a repetition is, in seconds.
    fn length(&self) -> u64 {
        self.settle_s + self.seconds
    }

    fn outages(&self, point: &Point, seed: u64) -> Vec<Outage> {
        point.hop.outages(seed, CALM_S, self.length() as f64)
    }

    fn network(&self, point: &Point, senders: usize) -> UavNetwork {
        UavNetwork {
            senders,
            rtt: Duration::from_secs_f64(point.rtt_ms / 1e3),
            hop_rate: Rate::from_mbps(self.hop_mbps(senders > 2)),
            queue_packets: self.queue_packets(senders > 2),
        }
    }

    /// Returns the hop's rate: more than two flows offer, and less than three take.
    fn hop_mbps(&self, heavy: bool) -> f64 {
        self.hop_mbps.unwrap_or(if heavy { 6.0 } else { 12.0 })
    }

    fn queue_packets(&self, heavy: bool) -> u64 {
        self.queue_packets.unwrap_or(if heavy { 50 } else { 100 })
    }

    fn meeting(&self, (point, repetition, scheme): &Job, heavy: Option<Heavy>) -> Meeting {
        let (repetition, scheme) = (*repetition, *scheme);
        let rate = Rate::from_mbps(point.offered_mbps);
        let patience = (!self.backlog).then(|| Duration::from_secs_f64(self.patience_ms / 1e3));
        let offered = Some(Offer { rate, patience });
        let pair = match (scheme, changed_places(repetition)) {
            (Scheme::UDP, _) => vec![scheme],
            (_, false) => vec![scheme, Scheme::CUBIC],
            (_, true) => vec![Scheme::CUBIC, scheme],
        };
        let mut uavs = pair.len();
        let of_pair = |(uav, scheme)| Sender { uav, scheme, offered };
        let mut senders: Vec<Sender> = pair.into_iter().enumerate().map(of_pair).collect();
        // The flow of constant rate is to show the hop, not what others do to its queue.
        if let Some(heavy) = heavy.filter(|_| scheme != Scheme::UDP) {
            let sender = Sender { uav: uavs, scheme: heavy.scheme, offered: None };
            senders.extend(std::iter::repeat_n(sender, heavy.flows.into()));
            uavs += 1;
        }
        let outages = self.outages(point, self.run.seed() + repetition);
        Meeting { network: self.network(point, uavs), outages, senders }
    }

    /// Puts down what came of a network, without the beginning.
    fn encounter(&self, (_, repetition, scheme): &Job, run: MeetingRun) -> Encounter {
        let flows = run.flows.into_iter().map(|flow| settled(flow, self.settle_s)).collect();
        Encounter::of(*scheme, *repetition, flows, run.queue_drops)
    }

    fn parameters(&self, heavy: Option<Heavy>) -> Value {
        json!({
            "seconds": self.seconds,
            "settle_s": self.settle_s,
            "repetitions": self.repetitions,
            "parallel": self.parallel,
            "zero": self.zero,
            "patience_ms": (!self.backlog).then_some(self.patience_ms),
            "hop_mbps": self.hop_mbps(heavy.is_some()),
            "queue_packets": self.queue_packets(heavy.is_some()),
            "calm_s": CALM_S,
            "heavy": heavy.map(|heavy| heavy.scheme),
            "heavy_flows": heavy.map(|heavy| heavy.flows),
        })
    }
}

/// Writes the pictures, the series that they show, and the scenario of the first repetition.
fn write_files(
    directory: &Path,
    experiment: &str,
    args: &MeetingArgs,
    encounters: &[Encounter],
    point: &Point,
    how: &str,
) -> Result<(), String> {
    let outages = args.outages(point, args.run.seed());
    let scenario = Scenario::new(experiment, args.length() as f64);
    let scenario = args.network(point, 2).add_to(scenario, 0, &outages);
    let counted = (args.settle_s as f64, args.seconds as f64);
    picture::write(directory, experiment, encounters, &scenario, how, counted)
}

/// Reads a share.
fn share(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| *value > 0.0 && *value < 1.0);
    value.ok_or_else(|| format!("`{text}` is not a share between 0 and 1"))
}
