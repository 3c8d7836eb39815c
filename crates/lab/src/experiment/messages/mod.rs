//! `lrt-tcp` and `lrt-block`: how long messages take that must all arrive, in order.
//!
//! ```text
//! in-order delay = fetched − submitted, of messages at a constant interval
//! ```
//! Source: [LRT §IV]: `lrt-tcp` is Fig. 5, `lrt-block` Fig. 6. The paper gives neither the interval
//! nor the rate of the link; ours are the defaults below, and both can be swept. *Deviations from
//! the paper*: the way back loses as much as the way there; bursts and a second path on request.

mod bound;
pub(crate) mod carrier;
mod emu;
mod ideal_arq;
mod picture;
pub(crate) mod point;
mod sim;

use clap::Args;
use netem::{Instant, LinkModel, Scenario};
use serde_json::{Value, json};
use units::Duration;

use super::Description;
use crate::arguments::{LinkArgs, RunArgs, loss, positive, seeds_shown};
use crate::doubt::rankings_in_doubt;
use crate::figure::Figure;
use crate::report::{Mode, Report};
use crate::scenario_file::ScenarioArgs;
use crate::scheme::{Known, Scheme};
use emulator::Failure;
use picture::draw;
use point::{LrtParameters, LrtRow};
use sim::run_messages;
use sys::print::tell;

/// The schemes of the world.
const SIM: Known = Known::all(&[
    Scheme::FULMAR,
    Scheme::BOUND,
    Scheme::LRT,
    Scheme::BLOCK_RLNC,
    Scheme::IDEAL_ARQ,
    Scheme::UDP,
]);
/// The schemes of the emulator.
const EMU: Known = Known::all(&[
    Scheme::FULMAR,
    Scheme::LRT,
    Scheme::KERNEL_TCP_CUBIC,
    Scheme::KERNEL_TCP_BBR,
    Scheme::UDP,
]);
/// The figures of both experiments.
const FIGURES: &[Figure] = &[
    Figure::new("scheme", "scheme"),
    Figure::new("loss", "loss").exact(),
    Figure::new("interval_ms", "every ms").exact(),
    Figure::new("redundancy", "r").exact(),
    Figure::new("burst", "burst").exact(),
    Figure::new("burst_ms", "burst ms").exact(),
    Figure::new("paths", "paths").exact(),
    Figure::new("k", "K").exact(),
    Figure::new("delivered", "delivered"),
    Figure::share("exact_share", "exact"),
    Figure::new("p50_ms", "p50 ms"),
    Figure::new("p99_ms", "p99 ms"),
    Figure::new("p999_ms", "p99.9 ms"),
    Figure::new("max_ms", "max ms"),
    Figure::new("sent_per_message", "sent"),
];

/// What results have beside the table.
const BESIDE: [Figure; 10] = [
    Figure::new("loss_back", "loss back").exact(),
    Figure::new("messages", "messages").exact(),
    Figure::new("duplicates", "twice"),
    Figure::new("out_of_order", "out of order"),
    Figure::new("strict_share", "strictly exact"),
    Figure::new("within_10ms_share", "within 10 ms"),
    Figure::new("within_70ms_share", "within 70 ms"),
    Figure::new("within_100ms_share", "within 100 ms"),
    Figure::new("sent_bytes_per_byte", "bytes sent"),
    Figure::new("returned_per_message", "returned"),
];

/// What results have in common that are of one point.
const POINT: [&str; 7] = ["loss", "interval_ms", "redundancy", "burst", "burst_ms", "paths", "k"];

/// Describes the comparison with TCP.
pub(super) const TCP: Description = Description {
    experiment: "lrt-tcp",
    about: "in-order delay of messages, coded against retransmitted, at 2, 5 and 10 % loss",
    sim: SIM,
    emu: EMU,
    beside: &[&BESIDE],
    figures: FIGURES,
};
/// Describes the comparison with block codes.
pub(super) const BLOCK: Description = Description {
    experiment: "lrt-block",
    about: "in-order delay of messages, online code against block code, at 5 % loss",
    ..TCP
};

/// Losses of [LRT Fig. 5].
const LOSSES_TCP: &[f64] = &[0.02, 0.05, 0.1];
/// The loss of [LRT Fig. 6].
const LOSSES_BLOCK: &[f64] = &[0.05];
/// Messages of a run in the world [LRT §IV-B].
const MESSAGES_SIM: u32 = 50_000;
/// Messages of a run on the emulator: 50 s at the usual interval.
const MESSAGES_EMU: u32 = 10_000;
/// How much more than an undisturbed message still is exactly that, in the world: a repair symbol
/// right behind its source symbol, at 100 Mbit/s, and nothing else takes time there.
const TOLERANCE_SIM: Duration = Duration::from_micros(100);
/// The same on the emulator, where processes must be woken and packets copied.
const TOLERANCE_EMU: Duration = Duration::from_millis(1);

/// The arguments of the experiments. Lists, separated by commas, run every combination.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("rate_mbps", |arg| arg.default_value("100")))]
#[command(mut_arg("delay_ms", |arg| arg.default_value("50")))]
pub(crate) struct LrtArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    #[command(flatten)]
    links: ScenarioArgs,
    /// Losses of each link in both directions, 0 to below 1; default 0.02,0.05,0.1 (lrt-tcp) or
    /// 0.05.
    #[arg(long, value_delimiter = ',', value_name = "P,...",
          value_parser = loss, conflicts_with = "scenario")]
    loss: Vec<f64>,
    /// Loss of each link from drone to station, which carries answers; default: the same.
    #[arg(long, value_name = "P", value_parser = loss, conflicts_with = "scenario")]
    loss_back: Option<f64>,
    /// Messages per seed; default 50,000 with --sim, 10,000 with --emu.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    messages: Option<u32>,
    /// From one message to the next, milliseconds.
    #[arg(long, default_value = "5", value_delimiter = ',', value_name = "MS,...",
          value_parser = positive)]
    interval_ms: Vec<f64>,
    /// Bytes of a message; one symbol each.
    #[arg(long, default_value_t = 1_000, value_name = "BYTES",
          value_parser = clap::value_parser!(u16).range(20..=1_100))]
    bytes: u16,
    #[command(flatten)]
    link: LinkArgs,
    /// Repair per source symbol that `lrt`, `block_rlnc` and `bound` may spend; that of `fulmar`
    /// follows the loss. Default: 0.5; `bound` over several links sends one packet on each.
    #[arg(long, value_delimiter = ',', value_name = "R,...", value_parser = positive)]
    redundancy: Vec<f64>,
    /// Mean length of a burst of losses in packets; 1 is independent loss.
    #[arg(long, default_value = "1", value_delimiter = ',', value_name = "N,...",
          value_parser = parse_burst, conflicts_with = "scenario")]
    burst: Vec<f64>,
    /// Mean length of a burst in time, milliseconds, whatever is sent meanwhile; in place of
    /// --burst.
    #[arg(long, value_delimiter = ',', value_name = "MS,...", conflicts_with_all = ["burst", "scenario"],
          value_parser = positive)]
    burst_ms: Vec<f64>,
    /// Number of links.
    #[arg(long = "links", alias = "paths", default_value = "1", value_delimiter = ',',
          value_name = "N,...", value_parser = clap::value_parser!(u8).range(1..=8), conflicts_with = "scenario")]
    paths: Vec<u8>,
    /// Symbols that a coder of the faithful form (`lrt`) holds at most.
    #[arg(long, default_value = "64", value_delimiter = ',', value_name = "K,...",
          value_parser = clap::value_parser!(u16).range(1..=1_024))]
    k: Vec<u16>,
    /// How much more than an undisturbed message takes still is exact; default 0.1, with --emu 1.
    #[arg(long, value_name = "MS", value_parser = positive)]
    tolerance_ms: Option<f64>,
}

/// Runs the comparison with TCP [LRT Fig. 5].
pub(super) fn run_tcp(args: &LrtArgs) -> Result<Report, Failure> {
    run(&TCP, LOSSES_TCP, args)
}

/// Runs the comparison with block codes [LRT Fig. 6].
pub(super) fn run_block(args: &LrtArgs) -> Result<Report, Failure> {
    run(&BLOCK, LOSSES_BLOCK, args)
}

fn run(description: &Description, losses: &[f64], args: &LrtArgs) -> Result<Report, Failure> {
    let name = description.experiment;
    let known = if args.run.mode() == Mode::Sim { description.sim } else { description.emu };
    let schemes = args.run.schemes(known)?;
    let points = args.points(&schemes, losses)?;
    let parameters = points.first().map_or(Value::Null, LrtParameters::to_json);
    let mut rows = Vec::new();
    let seeds = args.run.seeds();
    let report = match args.run.mode() {
        Mode::Sim => {
            for point in &points {
                rows.extend(run_sim(name, point)?);
            }
            Report::sim(name, seeds, parameters, values(&rows))
        }
        Mode::Emu => {
            let (mut results, mut audits) = (Vec::new(), Vec::new());
            for point in &points {
                let (more, audit) = emu::run(point)?;
                let (seen, figures): (Vec<LrtRow>, Vec<Value>) = more.into_iter().unzip();
                rows.extend(seen);
                results.extend(figures);
                audits.extend(audit);
            }
            let doubts = rankings_in_doubt(&results, &description.columns(), &POINT);
            Report::emu(name, seeds.0, parameters, &audits, doubts, results)
        }
    };
    if let Some(directory) = &args.run.out {
        draw(name, args.run.mode(), &points, &rows, directory)?;
    }
    Ok(report)
}

/// Runs every scheme and loss of a point in the world.
fn run_sim(name: &str, point: &LrtParameters) -> Result<Vec<LrtRow>, Failure> {
    let (first, last) = point.seeds;
    let mut rows = Vec::new();
    for loss in &point.losses {
        for scheme in &point.schemes {
            tell(format_args!(
                "{name} --sim: {scheme}, loss {loss}, {}",
                seeds_shown((first, last))
            ));
            let run = |seed| run_messages(point, *scheme, *loss, seed);
            let logs = (first..=last).map(run).collect::<Result<Vec<_>, String>>()?;
            rows.push(LrtRow::of_seeds(point, *scheme, *loss, &logs, first));
        }
    }
    Ok(rows)
}

impl LrtArgs {
    /// Returns every combination of what was asked for.
    fn points(&self, schemes: &[Scheme], losses: &[f64]) -> Result<Vec<LrtParameters>, Failure> {
        let links = self.links.read()?;
        let (messages, tolerance) = match self.run.mode() {
            Mode::Sim => (MESSAGES_SIM, TOLERANCE_SIM),
            Mode::Emu => (MESSAGES_EMU, TOLERANCE_EMU),
        };
        let first = LrtParameters {
            schemes: schemes.to_vec(),
            losses: if self.loss.is_empty() { losses.to_vec() } else { self.loss.clone() },
            loss_back: self.loss_back,
            interval: Duration::ZERO,
            bytes: usize::from(self.bytes),
            messages: self.messages.unwrap_or(messages),
            delay: self.link.delay(),
            rate: self.link.rate(),
            redundancy: None,
            burst: 1.0,
            burst_time: None,
            paths: 1,
            k: 1,
            seeds: self.run.seeds(),
            tolerance: self.tolerance_ms.map_or(tolerance, duration),
            links: None,
        };
        let mut points = match links {
            Some(links) => vec![self.over(first, links)],
            None => vary(vec![first], &self.paths, |point, paths| point.paths = paths),
        };
        points = vary(points, &self.burst, |point, burst| point.burst = burst);
        let burst_times = options(&self.burst_ms);
        points = vary(points, &burst_times, |point, ms| point.burst_time = ms.map(duration));
        points = vary(points, &self.interval_ms, |point, ms| point.interval = duration(ms));
        points = vary(points, &options(&self.redundancy), |point, r| point.redundancy = r);
        Ok(vary(points, &self.k, |point, k| point.k = k))
    }

    /// Puts a point onto the links of a scenario, for as long as that lasts unless asked otherwise.
    ///
    /// Nothing is undisturbed that takes longer than the least delay at time zero and a
    /// transmission at the highest mean rate.
    fn over(&self, first: LrtParameters, links: Scenario) -> LrtParameters {
        let station = links.host("station").unwrap_or_default();
        let models = || links.links.iter().map(|pair| pair.sent_by(station).1);
        let delay = models().map(|model| model.delay_at(Instant::ZERO)).min();
        let rate = models().filter_map(LinkModel::mean_rate).max();
        let interval_s = self.interval_ms.first().map_or(0.005, |ms| ms / 1e3);
        let whole = (links.seconds / interval_s).clamp(1.0, f64::from(u32::MAX)) as u32;
        LrtParameters {
            losses: vec![0.0],
            delay: delay.unwrap_or_default(),
            rate: rate.unwrap_or(first.rate),
            paths: u8::try_from(links.links.len()).unwrap_or(u8::MAX),
            messages: self.messages.unwrap_or(whole),
            links: Some(links),
            ..first
        }
    }
}

/// Returns each value, or that there is none.
fn options(values: &[f64]) -> Vec<Option<f64>> {
    match values {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    }
}

/// Returns every point with every value.
fn vary<T: Copy>(
    points: Vec<LrtParameters>,
    values: &[T],
    set: impl Fn(&mut LrtParameters, T),
) -> Vec<LrtParameters> {
    let with = |point: &LrtParameters, value: &T| {
        let mut point = point.clone();
        set(&mut point, *value);
        point
    };
    points.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect()
}

fn values(rows: &[LrtRow]) -> Vec<Value> {
    rows.iter().map(|row| json!(row)).collect()
}

fn duration(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

/// Reads the mean length of a burst.
fn parse_burst(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (1.0..=1e6).contains(value));
    value.ok_or_else(|| format!("`{text}` is not a mean length of 1 or more packets"))
}
