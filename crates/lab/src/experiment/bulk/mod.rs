//! `bulk-lossy`: TCP over parallel links that lose packets, through each scheme at once.
//!
//! ```text
//! drone's application ─ TCP ─► tunnel or kernel ═ links ═► … ─► station's application
//!                     ─ ping, 20 a second, through the same tunnel ─►
//! ceiling   Σ rate · (1 − loss) of the links · TCP payload ÷ bytes of an IP packet on the link
//! ```
//! The flow begins 3 s after the sessions are there. Points: the links as they are, with more loss, with
//! long delays, without loss; all links silent for a while, one of them; windows of recorded links, with
//! control beside the flow; two flows; requests beside the flow; cables in place of links. A scheme that
//! cannot be had here is a row that says why.

mod beside;
mod bound;
mod comparison;
mod connection;
mod emu;
mod figures;
mod flow;
mod picture;
mod point;
mod repair;
mod requests;
mod running;
mod sim;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Description;
use crate::arguments::{RepetitionArgs, RunArgs, seeds_shown};
use crate::doubt::rankings_in_doubt;
use crate::report::{Mode, Report};
use crate::scheme::{Known, Scheme};
use comparison::compare;
use emu::{Asked, run_scene};
use emulator::Failure;
use figures::{FIGURES, MORE, pooled, row, skipped};
use point::{Point, Scene};
use sim::run_flow;
use sys::print::tell;

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

/// The tunnel as published, by the number of packets in a generation, and how far control is protected.
const ASKED: [Scheme; 6] = [
    Scheme::FLOWCODE,
    Scheme::FLOWCODE_K2,
    Scheme::FLOWCODE_K8,
    Scheme::FLOWCODE_K16,
    Scheme::FULMAR_OFF,
    Scheme::FULMAR_STRICT,
];

/// The figures by which schemes are ranked.
const RANKED: [(&str, &str); 2] = [("goodput_mbps", ""), ("steady_mbps", "")];

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
    /// What the links are like; `outage` and `one-dies` last until ten seconds after the return, `requests`
    /// twice as long as the flow, and `veth` (`--emu`) lets schemes run in turn.
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
    match args.run.mode() {
        Mode::Sim => run_sim(args),
        Mode::Emu => run_emu(args),
    }
}

fn run_sim(args: &BulkLossyArgs) -> Result<Report, Failure> {
    let schemes = args.run.schemes(DESCRIPTION.sim)?;
    let (scenes, (first, last)) = (scenes(args)?, args.run.seeds());
    let (mut all, mut drawn) = (Vec::new(), Vec::new());
    for scene in &scenes {
        tell(format_args!("bulk-lossy --sim: {}: {}", scene.name(), scene.ceiling_text()));
        for cc in &args.cc {
            let mut of_first = Vec::new();
            for scheme in &schemes {
                let (name, seeds) = (scene.name(), seeds_shown((first, last)));
                tell(format_args!("bulk-lossy --sim: {name}, {}, {scheme}, {seeds}", cc.name()));
                let mut rows = Vec::new();
                for seed in first..=last {
                    let run = run_flow(scene, *scheme, *cc, seed)?;
                    rows.push(match &run {
                        Ok(run) => row(*scheme, cc.name(), scene, run, None),
                        Err(why) => skipped(*scheme, cc.name(), scene, why),
                    });
                    if seed == first {
                        of_first.push((*scheme, run));
                    }
                }
                all.push(rows);
            }
            drawn.push((scene, cc.name(), of_first));
        }
    }
    compare(&mut all);
    let results = all.iter().map(|rows| pooled(rows, first, false)).collect();
    if let Some(directory) = &args.run.out {
        picture::write(directory, &drawn)?;
    }
    let parameters = parameters(args, &scenes);
    Ok(Report::sim(DESCRIPTION.experiment, (first, last), parameters, results))
}

fn run_emu(args: &BulkLossyArgs) -> Result<Report, Failure> {
    let schemes = args.run.schemes(DESCRIPTION.emu)?;
    let scenes = scenes(args)?;
    let (mut all, mut audits, mut drawn) = (Vec::new(), Vec::new(), Vec::new());
    for scene in &scenes {
        tell(format_args!("bulk-lossy --emu: {}: {}", scene.name(), scene.ceiling_text()));
        for cc in &args.cc {
            let asked: Vec<Asked> =
                schemes.iter().map(|scheme| Asked::new(*scheme, cc.name())).collect();
            let mut repetitions: Vec<Vec<Value>> = vec![Vec::new(); asked.len()];
            for repetition in 0..args.again.repetitions {
                let seed = args.run.seed() + repetition;
                let (name, seconds) = (scene.name(), scene.end());
                tell(format_args!(
                    "bulk-lossy --emu: {name}, {}, seed {seed}, {seconds} s",
                    cc.name()
                ));
                let mut ran = Vec::new();
                // Over cables, where the processors are the limit, one scheme at a time.
                for together in asked.chunks(if scene.is_of_cables() { 1 } else { asked.len() }) {
                    let (runs, account) = run_scene(scene, together, cc.name(), seed)?;
                    for (asked, run) in together.iter().zip(runs) {
                        repetitions[ran.len()].push(match &run {
                            Ok(run) => {
                                row(asked.scheme, cc.name(), scene, run, Some(&account.stalls))
                            }
                            Err(why) => skipped(asked.scheme, cc.name(), scene, why),
                        });
                        ran.push((asked.scheme, run));
                    }
                    audits.extend(account.ran);
                }
                if repetition == 0 {
                    drawn.push((scene, cc.name(), ran));
                }
            }
            all.extend(repetitions);
        }
    }
    compare(&mut all);
    let results: Vec<Value> = all.iter().map(|rows| pooled(rows, args.run.seed(), true)).collect();
    if let Some(directory) = &args.run.out {
        picture::write(directory, &drawn)?;
    }
    let parameters = parameters(args, &scenes);
    let doubts = rankings_in_doubt(&results, &RANKED, &["point", "window", "cc"]);
    Ok(Report::emu(DESCRIPTION.experiment, args.run.seed(), parameters, &audits, doubts, results))
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
