//! `bulk-lossy`: TCP over parallel links that lose packets, through each scheme at once.
//!
//! ```text
//! drone's application ─ TCP ─► tunnel or kernel ═ links ═► … ─► station's application
//!                     ─ ping, 20 a second, through the same tunnel ─►
//! ceiling   Σ rate · (1 − loss) of the links · TCP payload ÷ bytes of an IP packet on the link
//! ```
//! The flow begins 3 s after the sessions are there. Points: the links as they are, with more loss,
//! with long delays, without loss; all links silent for a while, one of them; windows of recorded
//! links, with control beside the flow; two flows; requests beside the flow; cables in place of
//! links. A scheme that cannot be had here is a row that says why.

mod beside;
mod bound;
mod comparison;
mod connection;
mod course;
mod emu;
mod figures;
mod flow;
pub(super) mod flowcode_recorded;
mod picture;
mod point;
mod repair;
mod requests;
mod running;
mod sim;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Description;
use crate::arguments::{RepetitionArgs, RunArgs};
use crate::report::{Mode, Report};
use crate::scheme::{Known, Scheme};
use course::Course;
use emulator::Failure;
use figures::{FIGURES, MORE};
use point::{Point, Scene};

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "bulk-lossy",
    about: "TCP over unequal links that lose packets, fall silent, or were recorded",
    sim: Known { unasked: &[Scheme::FULMAR, Scheme::MIN_RTT], asked: &ASKED },
    emu: Known {
        unasked: &[
            Scheme::FULMAR,
            Scheme::MIN_RTT,
            Scheme::KERNEL_MPTCP,
            Scheme::KERNEL_TCP,
            Scheme::WIREGUARD_GO,
            Scheme::KCPTUN,
        ],
        asked: &ASKED,
    },
    beside: &[&MORE],
    figures: &FIGURES,
};

/// The tunnel as published, by the number of packets in a generation, and how far control is
/// protected.
const ASKED: [Scheme; 6] = [
    Scheme::FLOWCODE,
    Scheme::FLOWCODE_K2,
    Scheme::FLOWCODE_K8,
    Scheme::FLOWCODE_K16,
    Scheme::FULMAR_OFF,
    Scheme::FULMAR_STRICT,
];

/// The congestion controls of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cc {
    Cubic,
    Reno,
    Bbr,
}

impl Cc {
    /// Returns the kernel's name.
    const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("repetitions", |arg| arg.default_value("1")))]
pub(crate) struct BulkLossyArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Congestion controls of the flow.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_value = "cubic,reno,bbr")]
    cc: Vec<Cc>,
    /// What the links are like; `outage` and `one-dies` last until ten seconds after the return,
    /// `requests` and `connections` (`--sim`) twice as long as the flow, `outside` and
    /// `outside-far` (`--sim`) share the first link with somebody else's flow, and `veth` (`--emu`)
    /// lets schemes run in turn.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,...",
        default_value = "lossy,loss5,loss10,long,clean,outage,recorded,one-dies,two,requests,veth"
    )]
    points: Vec<Point>,
    /// Length of the flow, after three seconds in which the sessions settle.
    #[arg(long, default_value_t = 30, value_name = "S",
          value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// The recorded links of `recorded`: a combination, as `run recorded --set` names them.
    #[arg(long, value_name = "NAME", default_value = "lte-drives:att+verizon")]
    set: String,
    #[command(flatten)]
    again: RepetitionArgs,
}

/// Runs the experiment.
pub(super) fn run(args: &BulkLossyArgs) -> Result<Report, Failure> {
    let known = match args.run.mode() {
        Mode::Sim => DESCRIPTION.sim,
        Mode::Emu => DESCRIPTION.emu,
    };
    let schemes = args.run.schemes(known)?;
    let of_world = args.points.iter().find(|point| point.is_of_world());
    if let Some(point) = of_world.filter(|_| args.run.mode() == Mode::Emu) {
        let what = format!("--points {}: in the world only (--sim)", point.name());
        return Err(Failure::Usage(what));
    }
    let scenes = scenes(args)?;
    let course = Course {
        experiment: DESCRIPTION.experiment,
        run: &args.run,
        schemes: &schemes,
        scenes: &scenes,
        cc: &args.cc,
        repetitions: args.again.repetitions,
        in_turn: false,
    };
    let ran = course.run()?;
    let results = ran.pooled(&course);
    Ok(course.report(ran, parameters(args, &scenes), results))
}

/// Returns the scenes of all points.
fn scenes(args: &BulkLossyArgs) -> Result<Vec<Scene>, String> {
    let (mut scenes, seed) = (Vec::new(), args.run.seeds().0);
    for point in &args.points {
        scenes.extend(point.scenes(args.seconds, &args.set, seed)?);
    }
    Ok(scenes)
}

/// Says what was asked for.
fn parameters(args: &BulkLossyArgs, scenes: &[Scene]) -> Value {
    json!({
        "seconds": args.seconds,
        "start_up_s": emu::START_UP.as_secs(),
        "repetitions": args.again.repetitions,
        "tunnel_mtu": point::TUNNEL_MTU,
        "set": args.set,
        "scenes": scenes.iter().map(Scene::description).collect::<Vec<_>>(),
    })
}
