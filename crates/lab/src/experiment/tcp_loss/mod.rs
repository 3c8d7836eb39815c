//! `asran-loss`: congestion controls of TCP over one lossy link, alone and beside a CUBIC flow.
//!
//! ```text
//! throughput   payload that the receiver got, mean of the seconds after the start-up
//! queue        time that data waited for the transmitter, mean, by the emulator's own record
//! ratio_to_X   throughput ÷ that of X, queue_ratio_to_X the same for the queue: flows of one run
//! beside_kept  throughput of a CUBIC flow beside the scheme ÷ beside another CUBIC flow, one run
//! ```
//! Each figure is the median over the repetitions. One repetition runs all schemes of a point at
//! the same time, each over a link of its own with losses of its own; flows beside each other share
//! a link. The grid goes past the paper [ASRAN §5], which has no sweep.

mod emu;

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use units::{Duration, Rate};

use super::Description;
use crate::arguments::{RepetitionArgs, RunArgs, loss};
use crate::chart::{Plane, TradeOff};
use crate::doubt::{add_errors_of_time, rankings_in_doubt};
use crate::figure::Figure;
use crate::report::{Mode, Report, rounded_option};
use crate::scheme::{CongestionControl, Known, Scheme};
use crate::statistics::{jain_index, mean, median, standard_deviation};
use crate::testbed::congestion::Congestion;
use crate::testbed::tcp_flow::{FlowRun, FlowSample};
use emu::{Cell, CellRun, run_cells};
use emulator::Failure;
use emulator::{Audit, Claim};
use sys::print::tell;
use tcp_asran::Flavour;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "asran-loss",
    about: "TCP under random loss: throughput, queue, and what a CUBIC flow beside it keeps",
    sim: Known::all(&[]),
    emu: Known::all(&SCHEMES),
    beside: &[&[
        Figure::new("queue_p95_ms", "queue p95 ms"),
        Figure::new("overflows", "overflows"),
        Figure::new("delivered_mb", "delivered MB"),
    ]],
    figures: &[
        Figure::new("scheme", "scheme"),
        Figure::new("flows", "flows"),
        Figure::new("loss", "loss").exact(),
        Figure::new("rtt_ms", "RTT ms").exact(),
        Figure::new("queue_packets", "queue").exact(),
        Figure::new("throughput_mbps", "Mbit/s"),
        Figure::new("throughput_std_mbps", "std"),
        Figure::new("ratio_to_asran", "to asran").ratio(),
        Figure::new("ratio_to_bbr", "to bbr").ratio(),
        Figure::new("queue_ms", "queue ms"),
        Figure::new("queue_ratio_to_asran", "to asran").ratio(),
        Figure::new("srtt_ms", "srtt ms"),
        Figure::new("retransmits", "sent again"),
        Figure::new("beside_mbps", "beside it"),
        Figure::new("beside_kept", "kept").ratio(),
        Figure::new("jain", "Jain"),
    ],
};

const SCHEMES: [Scheme; 7] = [
    Scheme::RENO,
    Scheme::CUBIC,
    Scheme::BBR,
    Scheme::ASRAN,
    Scheme::ASRAN_CUBIC,
    Scheme::ASRAN_JUMP,
    Scheme::ASRAN_DELAY,
];

/// Time at the beginning that does not count: slow start and its overshoot.
const START_UP: Duration = Duration::from_secs(5);
/// What a run claims: means over tens of seconds, and queueing delays of tens of milliseconds. The
/// windows move in the kernel, whose buffers hold seconds: an ordinary thread that stalls for less
/// than one shifts payload from one second to the next.
const CLAIM: Claim =
    Claim { extremes: Duration::from_secs(10), ..Claim::to(Duration::from_millis(50)) };

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("repetitions", |arg| arg.default_value("3")))]
pub(crate) struct AsranLossArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Losses of the link in both directions, 0 to below 1.
    #[arg(long, value_delimiter = ',', value_name = "P,...", default_value = "0,0.005,0.02",
          value_parser = loss)]
    loss: Vec<f64>,
    /// Round-trip times without queues, milliseconds.
    #[arg(long = "rtt-ms", alias = "rtt", value_delimiter = ',', value_name = "MS,...", default_value = "40,120",
          value_parser = clap::value_parser!(u32).range(1..=2_000))]
    rtt: Vec<u32>,
    /// Lengths of the queue at the bottleneck, in packets.
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "15,50",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    queue_packets: Vec<u32>,
    /// Rate of the bottleneck, Mbit/s.
    #[arg(long = "rate-mbps", alias = "rate", default_value_t = 6, value_name = "MBPS",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rate: u32,
    /// Seconds that count, after five of start-up.
    #[arg(long, default_value_t = 30, value_name = "S",
          value_parser = clap::value_parser!(u64).range(2..=3_600))]
    seconds: u64,
    #[command(flatten)]
    again: RepetitionArgs,
    /// The congestion control of the flow that each scheme has beside it in a second run.
    #[arg(long, value_name = "NAME", default_value = "cubic", value_parser = parse_beside)]
    beside: Scheme,
    /// Leave those runs out.
    #[arg(long)]
    alone: bool,
    /// Also write the windows of all flows over time, windows.csv, fifty lines a second each.
    #[arg(long, requires = "out")]
    windows: bool,
}

/// A combination of the link's parameters.
#[derive(Clone, Copy, Debug)]
struct Point {
    loss: f64,
    rtt_ms: u32,
    queue_packets: u32,
}

/// What one cell showed in one repetition: figures by key.
type Figures = Vec<(&'static str, f64)>;

/// Runs the experiment.
pub(super) fn run(args: &AsranLossArgs) -> Result<Report, Failure> {
    if args.run.mode() == Mode::Sim {
        let why = "asran-loss: the kernel's TCP runs in real time only: use --emu";
        return Err(Failure::Usage(why.to_owned()));
    }
    let schemes = args.run.schemes(DESCRIPTION.emu)?;
    let controls = schemes.into_iter().map(Scheme::control).collect::<Result<Vec<_>, _>>()?;
    let beside = args.beside.control()?;
    let congestion = Congestion::of(&[&controls[..], &[beside]].concat())?;
    let points = points(args);
    let (mut results, mut audits, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for (number, point) in points.iter().enumerate() {
        let Point { loss, rtt_ms, queue_packets } = point;
        let cells = cells(args, *point, &controls, beside);
        let (mut repetitions, mut in_doubt) = (Vec::new(), 0.0_f64);
        for repetition in 0..args.again.repetitions {
            tell(format_args!(
                "asran-loss --emu: loss {loss}, RTT {rtt_ms} ms, queue {queue_packets}: point {} \
                 of {}, repetition {} of {}, {} s",
                number + 1,
                points.len(),
                repetition + 1,
                args.again.repetitions,
                START_UP.as_secs() + args.seconds,
            ));
            let seed = args.run.seed() + repetition;
            let (runs, audit) = run_point(&cells, &congestion, args, seed)?;
            let start_up_s = START_UP.as_secs_f64();
            let share = audit.stalls.reached_share(start_up_s, start_up_s + args.seconds as f64);
            in_doubt = in_doubt.max(share);
            audits.push(audit);
            repetitions.push(figures(beside, &cells, &runs));
            if args.windows {
                lines.extend(windows(*point, repetition, &cells, &runs));
            }
        }
        let mut of_point = summarize(*point, &cells, &repetitions);
        for result in &mut of_point {
            add_errors_of_time(result, in_doubt, DESCRIPTION.figures);
        }
        results.extend(of_point);
    }
    if let Some(directory) = &args.run.out {
        tell(format_args!(
            "picture: {}",
            picture(args, &points, &results).write(directory)?.display()
        ));
        if args.windows {
            write_windows(directory, &lines)?;
        }
    }
    let parameters = json!({
        "rate_mbps": args.rate,
        "seconds": args.seconds,
        "start_up_s": START_UP.as_secs(),
        "repetitions": args.again.repetitions,
        "loss": args.loss,
        "rtt_ms": args.rtt,
        "queue_packets": args.queue_packets,
    });
    let doubts = rankings_in_doubt(
        &results,
        &DESCRIPTION.columns(),
        &["flows", "loss", "rtt_ms", "queue_packets"],
    );
    Ok(Report::emu(DESCRIPTION.experiment, args.run.seed(), parameters, &audits, doubts, results))
}

fn points(args: &AsranLossArgs) -> Vec<Point> {
    let mut points = Vec::new();
    for &loss in &args.loss {
        for &rtt_ms in &args.rtt {
            for &queue_packets in &args.queue_packets {
                points.push(Point { loss, rtt_ms, queue_packets });
            }
        }
    }
    points
}

/// Returns the cells of a point: each scheme alone, then each beside CUBIC.
fn cells(
    args: &AsranLossArgs,
    point: Point,
    controls: &[CongestionControl],
    other: CongestionControl,
) -> Vec<Cell> {
    let cell = |flows: Vec<CongestionControl>| Cell {
        loss: point.loss,
        rtt_ms: f64::from(point.rtt_ms),
        queue_packets: point.queue_packets,
        rate: Rate::from_mbps(f64::from(args.rate)),
        flows,
    };
    let alone = controls.iter().map(|control| cell(vec![*control]));
    let beside = controls.iter().map(|control| cell(vec![*control, other]));
    alone.chain(beside.filter(|_| !args.alone)).collect()
}

fn run_point(
    cells: &[Cell],
    congestion: &Congestion,
    args: &AsranLossArgs,
    seed: u64,
) -> Result<(Vec<CellRun>, Audit), String> {
    let times = (START_UP, Duration::from_secs(args.seconds));
    run_cells(cells, congestion, times, seed, CLAIM)
}

/// Returns the figures of one repetition, in the order of the cells.
fn figures(beside: CongestionControl, cells: &[Cell], runs: &[CellRun]) -> Vec<Figures> {
    let find =
        |flows: &[CongestionControl]| cells.iter().zip(runs).find(|(cell, _)| cell.flows == flows);
    let run_of = |control| find(&[control]).map(|(_, run)| run);
    let asran = run_of(CongestionControl::Asran(Flavour::Asran));
    let bbr = run_of(CongestionControl::Bbr);
    let beside_itself = find(&[beside, beside]).map(|(cell, run)| what_is_left(cell, run));
    let of_cell = |(cell, run): (&Cell, &CellRun)| {
        let mut figures = flow_figures(run);
        match &run.flows[..] {
            [own, other] => {
                let left = what_is_left(cell, run);
                figures.push(("beside_mbps", left));
                add_ratio(&mut figures, "beside_kept", left, beside_itself);
                let shares = [throughput(own), throughput(other)];
                figures.extend(jain_index(&shares).map(|index| ("jain", index)));
            }
            flows => {
                let (own, rate) =
                    (throughput(&flows[0]), |run: &CellRun| throughput(&run.flows[0]));
                add_ratio(&mut figures, "ratio_to_asran", own, asran.map(rate));
                add_ratio(&mut figures, "ratio_to_bbr", own, bbr.map(rate));
                let (own, queue) = (run.queue.mean_ms, |run: &CellRun| run.queue.mean_ms);
                let own = own.unwrap_or(0.0);
                add_ratio(&mut figures, "queue_ratio_to_asran", own, asran.and_then(queue));
            }
        }
        figures
    };
    cells.iter().zip(runs).map(of_cell).collect()
}

/// Returns what the flow beside the first one gets; of two alike, half of what both get.
fn what_is_left(cell: &Cell, run: &CellRun) -> f64 {
    let both: Vec<f64> = run.flows.iter().map(throughput).collect();
    let alike = cell.flows.first() == cell.flows.get(1);
    mean(if alike { &both } else { both.get(1..).unwrap_or_default() }).unwrap_or(0.0)
}

/// Returns what a cell's first flow did.
fn flow_figures(run: &CellRun) -> Figures {
    let flow = &run.flows[0];
    let seconds = flow.goodput_mbps.get(START_UP.as_secs() as usize..).unwrap_or_default();
    let figures = [
        ("throughput_mbps", Some(throughput(flow))),
        ("throughput_std_mbps", standard_deviation(seconds)),
        ("queue_ms", run.queue.mean_ms),
        ("queue_p95_ms", run.queue.p95_ms),
        ("srtt_ms", flow.mean_srtt_ms(START_UP.as_secs_f64())),
        ("retransmits", Some(f64::from(flow.retransmits()))),
        ("overflows", Some(run.overflows as f64)),
        ("delivered_mb", Some(flow.bytes as f64 / 1e6)),
    ];
    figures.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn throughput(flow: &FlowRun) -> f64 {
    flow.mean_goodput_mbps(START_UP.as_secs() as usize)
}

fn add_ratio(figures: &mut Figures, key: &'static str, value: f64, to: Option<f64>) {
    figures.extend(to.filter(|to| *to > 0.0).map(|to| (key, value / to)));
}

/// Makes a result of each cell: the medians of its figures over the repetitions.
fn summarize(point: Point, cells: &[Cell], repetitions: &[Vec<Figures>]) -> Vec<Value> {
    let result = |(number, cell): (usize, &Cell)| {
        let mut result = json!({
            "scheme": cell.flows[0].about().name,
            "flows": describe(&cell.flows),
            "loss": point.loss,
            "rtt_ms": point.rtt_ms,
            "queue_packets": point.queue_packets,
        });
        let keys = repetitions.first().map_or(&[][..], |repetition| &repetition[number][..]);
        for (key, _) in keys {
            let value = |repetition: &Vec<Figures>| {
                repetition[number].iter().find(|(other, _)| other == key).map(|(_, value)| *value)
            };
            let values: Vec<f64> = repetitions.iter().filter_map(value).collect();
            result[*key] = rounded_option(median(&values), 4);
        }
        result
    };
    cells.iter().enumerate().map(result).collect()
}

/// Draws the schemes alone: a panel for each point of the grid.
fn picture(args: &AsranLossArgs, points: &[Point], results: &[Value]) -> TradeOff {
    let plane = |point: &Point| {
        let of_point = |result: &&Value| {
            result["flows"] == "alone"
                && result["loss"] == point.loss
                && result["rtt_ms"] == point.rtt_ms
                && result["queue_packets"] == point.queue_packets
        };
        let dot = |result: &Value| {
            let scheme = SCHEMES.into_iter().find(|scheme| result["scheme"] == scheme.name())?;
            Some((scheme, result["queue_ms"].as_f64()?, result["throughput_mbps"].as_f64()?))
        };
        let packet_ms = 1_500.0 * 8.0 / (f64::from(args.rate) * 1e3);
        let percent = point.loss * 100.0;
        let Point { rtt_ms, queue_packets, .. } = point;
        Plane {
            title: format!("{percent} % loss, {rtt_ms} ms, {queue_packets} packets"),
            full_ms: f64::from(point.queue_packets) * packet_ms,
            dots: results.iter().filter(of_point).filter_map(dot).collect(),
        }
    };
    let runs = match args.again.repetitions {
        1 => "one run".to_owned(),
        several => format!("medians of {several} runs"),
    };
    TradeOff {
        title: "One TCP flow over a lossy link: throughput against queueing delay".to_owned(),
        subtitle: format!(
            "{} Mbit/s; {runs} of {} s on the emulator, real kernel; up and left is better, the \
             right edge is a full queue",
            args.rate, args.seconds
        ),
        rate_mbps: f64::from(args.rate),
        panels: points.iter().map(plane).collect(),
    }
}

/// Names the flows of a cell: `alone`, or `beside_` and the second one's scheme.
fn describe(flows: &[CongestionControl]) -> String {
    let other = flows.get(1).map(|other| other.about().name);
    other.map_or_else(|| "alone".to_owned(), |other| format!("beside_{other}"))
}

fn parse_beside(text: &str) -> Result<Scheme, String> {
    let found = SCHEMES.into_iter().find(|scheme| scheme.name() == text);
    let known = SCHEMES.map(Scheme::name).join(", ");
    found.ok_or_else(|| format!("`{text}` is none of {known}"))
}

/// Writes the windows of all flows over time, a line for each sample.
fn write_windows(directory: &Path, lines: &[String]) -> Result<(), String> {
    let path = directory.join("windows.csv");
    let head = "loss,rtt_ms,queue_packets,repetition,flows,flow,scheme,at_s,cwnd,ssthresh,srtt_ms,\
                min_rtt_ms,retransmits,delivery_mbps\n";
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, format!("{head}{}", lines.concat())))
        .map_err(|error| format!("write {}: {error}", path.display()))
}

fn windows(point: Point, repetition: u64, cells: &[Cell], runs: &[CellRun]) -> Vec<String> {
    let mut lines = Vec::new();
    for (cell, run) in cells.iter().zip(runs) {
        let flows = describe(&cell.flows);
        for (flow, (control, run)) in cell.flows.iter().zip(&run.flows).enumerate() {
            let scheme = control.about().name;
            for FlowSample { at_s, info } in &run.samples {
                let ssthresh = info.ssthresh.map_or(String::new(), |value| value.to_string());
                lines.push(format!(
                    "{},{},{},{repetition},{flows},{flow},{scheme},{at_s:.3},{},{ssthresh},{:.3},\
                     {:.3},{},{:.3}\n",
                    point.loss,
                    point.rtt_ms,
                    point.queue_packets,
                    info.cwnd,
                    info.srtt.as_secs_f64() * 1e3,
                    info.min_rtt.as_secs_f64() * 1e3,
                    info.retransmits,
                    info.delivery_rate.as_mbps(),
                ));
            }
        }
    }
    lines
}
