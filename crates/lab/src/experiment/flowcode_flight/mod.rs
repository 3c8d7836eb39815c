//! `flowcode-flight`: TCP between the ground and a drone that flies past radios [FlowCode §V, Table
//! I, Fig. 6, 7].
//!
//! ```text
//! achievable   payload of the distinct (transmitter, slot) pairs that any receiver heard ÷ seconds
//!              in which any was
//! goodput      TCP's payload that the application read ÷ the seconds of `achievable`
//! range        way over ground in the seconds in which it read any
//! efficiency   TCP's payload ÷ achievable bytes, median over the passes
//! ```
//! These are the paper's. Ours beside them: goodput ÷ the seconds in which it read any
//! (`goodput_read_mbps`), and efficiency ÷ TCP's share of a packet (`efficiency_tcp`).
//!
//! A figure of a region is the mean over its passes; a row of the seed `all` has the medians of
//! several flights. One flow of unlimited data; the flight is a model (`trace synth`), as the
//! paper's traces were never published. Each scheme has the links that it can use (`field.rs`):
//! relays all of them, TCP with low-rate retry the best one, its transmitter sending alone, a
//! session without relays one for each transmitter.
//!
//! In real time the TCP is the kernel's, and all schemes fly at once, each over networks of its
//! own; one that this machine cannot have is a row that says why.

mod connection;
mod emu;
mod field;
mod figures;
mod paper;
mod picture;
mod scenario;
mod sim;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Description;
use crate::arguments::{RunArgs, positive};
use crate::doubt::rankings_in_doubt;
use crate::report::{Mode, Report};
use crate::scheme::{Known, Scheme};
use crate::traces::synth::Way;
use emulator::Failure;
use field::Field;
use figures::{FIGURES, MORE};
use sys::print::tell;
use world::tcp::Congestion;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "flowcode-flight",
    about: "TCP to a drone past four masts, over relays and without: goodput, range, efficiency",
    sim: Known::all(&SCHEMES),
    emu: Known { unasked: &REAL, asked: &[Scheme::TCP_LRR_IDEAL] },
    beside: &[&MORE],
    figures: &FIGURES,
};

const SCHEMES: [Scheme; 5] =
    [Scheme::FULMAR, Scheme::FLOWCODE, Scheme::TCP_LRR, Scheme::TCP_LRR_IDEAL, Scheme::MIN_RTT];

/// The kernel's multipath TCP has no model in the world.
const REAL: [Scheme; 5] =
    [Scheme::FULMAR, Scheme::FLOWCODE, Scheme::TCP_LRR, Scheme::MIN_RTT, Scheme::KERNEL_MPTCP];

/// Schemes that fly at once in real time.
const TOGETHER: usize = 5;

/// The figures by which schemes are ranked.
const RANKED: [(&str, &str); 3] = [("goodput_mbps", ""), ("range_m", ""), ("efficiency", "")];

/// The congestion controls of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cc {
    Cubic,
    Reno,
}

impl Cc {
    /// Returns the kernel's name.
    const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
        }
    }

    fn of_world(self) -> Result<Congestion, String> {
        Ok(match self {
            Self::Cubic => Congestion::Cubic,
            Self::Reno => Congestion::Reno,
        })
    }
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Direction {
    /// From the ground to the drone.
    Up,
    /// From the drone to the ground.
    Down,
}

impl Direction {
    const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    const fn way(self) -> Way {
        match self {
            Self::Up => Way::Up,
            Self::Down => Way::Down,
        }
    }
}

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct FlightArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Fly this flight file in place of the paper's circuit.
    #[arg(long, value_name = "FILE.toml")]
    flight: Option<PathBuf>,
    /// Fly so many laps in place of the file's.
    #[arg(long, value_name = "N", value_parser = positive)]
    laps: Option<f64>,
    /// Which way the data goes.
    #[arg(long, value_enum, default_value_t = Direction::Up)]
    direction: Direction,
    /// Congestion controls of the flow.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_value = "cubic,reno")]
    cc: Vec<Cc>,
    /// Packets of a generation (fulmar, flowcode).
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "4",
          value_parser = clap::value_parser!(u8).range(1..=16))]
    k: Vec<u8>,
    /// Generations in flight (flowcode); fulmar has as many as the way holds.
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "2",
          value_parser = clap::value_parser!(u8).range(1..=64))]
    f: Vec<u8>,
    /// Combinations of a generation, for each of its packets, at most (flowcode).
    #[arg(long, default_value_t = 10, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=100))]
    r: u8,
    /// How far from a packet that is heard small ones pass, milliseconds.
    #[arg(long, default_value_t = 1_000, value_name = "MS",
          value_parser = clap::value_parser!(u32).range(0..=60_000))]
    region_ms: u32,
}

/// A scheme and its parameters.
#[derive(Clone, Copy, Debug)]
struct Point {
    scheme: Scheme,
    direction: Direction,
    k: usize,
    f: usize,
    r: usize,
    region_ms: u32,
}

/// What a flow did on a flight.
#[derive(Default)]
struct Flow {
    /// When, in seconds of the flight, its receiver read how many bytes.
    delivered: Vec<(f64, u64)>,
    /// How much of a packet of the trace is TCP's payload.
    payload_share: f64,
    retransmits: u64,
    timeouts: u64,
    /// Packets that a shim repeated.
    repeats: u64,
    /// What the sending gateway counted.
    sent: Option<proto::RelaySent>,
}

/// Runs the experiment.
pub(super) fn run(args: &FlightArgs) -> Result<Report, Failure> {
    match args.run.mode() {
        Mode::Sim => run_sim(args),
        Mode::Emu => run_emu(args),
    }
}

fn run_sim(args: &FlightArgs) -> Result<Report, Failure> {
    let schemes = args.run.schemes(DESCRIPTION.sim)?;
    let (first, last) = args.run.seeds();
    let mut results = Vec::new();
    for seed in first..=last {
        let field = Field::fly(args, seed)?;
        let mut drawn = Vec::new();
        for cc in &args.cc {
            for point in points(args, &schemes) {
                tell(format_args!("flowcode-flight --sim: {}, seed {seed}", point.named(*cc)));
                let flow = sim::fly(&field, &point, *cc, seed)?;
                results.extend(figures::rows(&field, &point, *cc, &flow, seed));
                drawn.push((point, *cc, flow));
            }
        }
        if let Some(directory) = args.run.out.as_ref().filter(|_| seed == first) {
            picture::write(directory, &field, &drawn)?;
        }
    }
    figures::compare(&mut results);
    if let Some(directory) = &args.run.out {
        picture::write_parameters(directory, &results)?;
    }
    let medians = figures::medians(&results);
    results.extend(medians);
    let parameters = parameters(args);
    Ok(Report::sim(DESCRIPTION.experiment, (first, last), parameters, results))
}

fn run_emu(args: &FlightArgs) -> Result<Report, Failure> {
    let points = points(args, &args.run.schemes(DESCRIPTION.emu)?);
    let seed = args.run.seed();
    let field = Field::fly(args, seed)?;
    let (mut results, mut audits, mut drawn) = (Vec::new(), Vec::new(), Vec::new());
    for cc in &args.cc {
        for together in points.chunks(TOGETHER) {
            let seconds = field.seconds();
            tell(format_args!("flowcode-flight --emu: {}, seed {seed}, {seconds:.0} s", cc.name()));
            let (outcomes, account) = emu::fly(&field, together, *cc, seed)?;
            for (point, outcome) in together.iter().zip(outcomes) {
                let real = (&outcome, &account.stalls);
                results.extend(figures::rows_in_real_time(&field, point, *cc, real, seed));
                drawn.extend(outcome.ok().map(|flow| (*point, *cc, flow)));
            }
            audits.extend(account.ran);
        }
    }
    if let Some(directory) = args.run.out.as_ref().filter(|_| !drawn.is_empty()) {
        picture::write(directory, &field, &drawn)?;
    }
    figures::compare(&mut results);
    if let Some(directory) = &args.run.out {
        picture::write_parameters(directory, &results)?;
    }
    let doubts = rankings_in_doubt(&results, &RANKED, &["region", "cc"]);
    let parameters = parameters(args);
    Ok(Report::emu(DESCRIPTION.experiment, seed, parameters, &audits, doubts, results))
}

/// Returns each scheme with each of its parameters.
fn points(args: &FlightArgs, schemes: &[Scheme]) -> Vec<Point> {
    let mut points = Vec::new();
    for &scheme in schemes {
        let ks = if is_relayed(scheme) { &args.k[..] } else { &args.k[..1] };
        let fs = if scheme == Scheme::FLOWCODE { &args.f[..] } else { &args.f[..1] };
        for &k in ks {
            points.extend(fs.iter().map(|&f| Point {
                scheme,
                direction: args.direction,
                k: k.into(),
                f: f.into(),
                r: args.r.into(),
                region_ms: args.region_ms,
            }));
        }
    }
    points
}

fn is_relayed(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::FULMAR | Scheme::FLOWCODE)
}

impl Point {
    fn named(&self, cc: Cc) -> String {
        let Self { scheme, k, f, .. } = self;
        match *scheme {
            Scheme::FULMAR => format!("{scheme} k = {k}, {}", cc.name()),
            Scheme::FLOWCODE => format!("{scheme} k = {k} f = {f}, {}", cc.name()),
            _ => format!("{scheme}, {}", cc.name()),
        }
    }
}

/// Says what was asked for.
fn parameters(args: &FlightArgs) -> Value {
    json!({
        "flight": args.flight.as_ref().map_or("flights/circuit.toml".to_owned(), |path| path.display().to_string()),
        "laps": args.laps,
        "direction": args.direction.name(),
        "r": args.r,
        "region_ms": args.region_ms,
    })
}
