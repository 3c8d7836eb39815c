//! `mixed-blackout`: control, a recorded flight and video over Wi-Fi and LTE that misbehave.
//!
//! The scene is `scenarios/mixed-blackout.toml`: the Wi-Fi goes silently dead for 10 s, comes back,
//! and the LTE stalls for 2 s and releases what it held.

use clap::Args;
use serde_json::Value;

use super::Description;
use crate::arguments::RunArgs;
use crate::blackout::{Blackout, relate_wire_bytes};
use crate::chart::CHART_NOTE;
use crate::doubt::rankings_in_doubt;
use crate::ledger::StreamRun;
use crate::pool::pooled;
use crate::report::{Mode, Report};
use crate::scenario_file::ScenarioArgs;
use crate::scheme::{Known, Scheme};
use crate::sim::run_stream;
use crate::workload::Recording;
use emulator::Failure;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "mixed-blackout",
    about: "control, a recorded flight and video while Wi-Fi dies and LTE stalls",
    sim: Known {
        unasked: &[
            Scheme::Fulmar,
            Scheme::MinRtt,
            Scheme::RoundRobin,
            Scheme::Redundant,
            Scheme::Udp,
        ],
        asked: &[Scheme::FulmarStrict, Scheme::FulmarOff],
    },
    emu: Known {
        unasked: &[Scheme::Fulmar, Scheme::KernelMptcp, Scheme::Redundant, Scheme::Udp],
        asked: &[
            Scheme::FulmarStrict,
            Scheme::FulmarOff,
            Scheme::MinRtt,
            Scheme::RoundRobin,
            Scheme::KernelTcpCubic,
            Scheme::KernelTcpBbr,
            Scheme::KernelTcpReno,
        ],
    },
    figures: &[
        ("scheme", "scheme"),
        ("control_sent", "sent"),
        ("control_lost", "lost"),
        ("control_late_100ms", ">100 ms"),
        ("control_miss_share", "miss"),
        ("control_gap_s", "gap s"),
        ("control_p50_ms", "p50 ms"),
        ("control_p99_ms", "p99 ms"),
        ("data_goodput_mbps", "video Mbit/s"),
        ("video_share_250ms_wifi_up", "in 250 ms"),
        ("video_goodput_wifi_dead_mbps", "Wi-Fi dead"),
        ("wire_bytes", "wire bytes"),
        ("wire_to_redundant", "to redundant"),
    ],
};

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct MixedBlackoutArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Leave the video out.
    #[arg(long)]
    no_video: bool,
    /// Leave the recorded flight out.
    #[arg(long)]
    no_recording: bool,
    #[command(flatten)]
    links: ScenarioArgs,
}

/// Runs the experiment.
pub(super) fn run(args: &MixedBlackoutArgs) -> Result<Report, Failure> {
    match args.run.mode() {
        Mode::Sim => run_sim(args),
        Mode::Emu => run_emu(args),
    }
}

fn run_emu(args: &MixedBlackoutArgs) -> Result<Report, Failure> {
    let schemes = args.run.schemes(DESCRIPTION.emu)?;
    let scene = scene(args)?;
    let seed = args.run.seed;
    let mut shown = 0;
    let (runs, audit) = scene.run_emu(&schemes, seed, &mut |seconds, _| {
        if seconds as u32 / 10 > shown {
            shown = seconds as u32 / 10;
            eprintln!("mixed-blackout --emu: {seconds:.0} of {} s", scene.workload.seconds);
        }
    })?;
    if let Some(directory) = &args.run.out {
        let subtitle =
            format!("Real daemons and kernel, emulated links, seed {seed}. {CHART_NOTE}");
        scene.chart(&runs, subtitle).write(directory)?;
    }
    let figures = |(scheme, run): &(Scheme, StreamRun)| scene.figures(*scheme, run);
    let mut results: Vec<Value> = runs.iter().map(figures).collect();
    relate_wire_bytes(&mut results);
    let doubts = rankings_in_doubt(&results, DESCRIPTION.figures, &[]);
    let audits = [audit];
    Ok(Report::emu(DESCRIPTION.experiment, seed, scene.parameters(), &audits, results)
        .judged_by_figures(&audits, doubts))
}

fn run_sim(args: &MixedBlackoutArgs) -> Result<Report, Failure> {
    let schemes = args.run.schemes(DESCRIPTION.sim)?;
    let scene = scene(args)?;
    let recording = Recording::load()?;
    let (first, last) = args.run.seeds();
    let (mut results, mut of_first_seed) = (Vec::new(), Vec::new());
    for scheme in schemes {
        eprintln!("mixed-blackout --sim: {scheme}, seeds {first}-{last}");
        let mut by_seed = Vec::new();
        for seed in first..=last {
            let run = run_stream(&scene.scenario, scheme, &scene.workload, &recording, seed)?;
            by_seed.push((seed, scene.figures(scheme, &run)));
            if seed == first {
                of_first_seed.push((scheme, run));
            }
        }
        results.push(pooled(&by_seed));
    }
    if let Some(directory) = &args.run.out {
        let subtitle = format!("In the deterministic world, seed {first}. {CHART_NOTE}");
        scene.chart(&of_first_seed, subtitle).write(directory)?;
    }
    relate_wire_bytes(&mut results);
    Ok(Report::sim(DESCRIPTION.experiment, (first, last), scene.parameters(), results))
}

fn scene(args: &MixedBlackoutArgs) -> Result<Blackout, Failure> {
    let mut scene = args.links.read()?.map_or_else(Blackout::new, |own| Ok(Blackout::of(own)))?;
    scene.workload.recording = !args.no_recording;
    if args.no_video {
        scene.workload.video_mbps = 0.0;
    }
    Ok(scene)
}
