//! `mixed-blackout`: control, a recorded flight and video over Wi-Fi and LTE that misbehave.
//!
//! The scene is `scenarios/mixed-blackout.toml`: the Wi-Fi goes silently dead for 10 s, comes back,
//! and the LTE stalls for 2 s and releases what it held.

use clap::Args;
use emulator::Failure;

use super::blackout::Blackout;
use super::figures::{
    CONTROL_GAP, CONTROL_LATE, CONTROL_LOST, CONTROL_MISS_SHARE, CONTROL_P50, CONTROL_P99,
    CONTROL_SENT, DATA_GOODPUT, FIGURES, VIDEO_GOODPUT_WIFI_DEAD, VIDEO_SHARE_WIFI_UP, WIRE_BYTES,
    WIRE_TO_REDUNDANT,
};
use super::play::{Played, play};
use crate::arguments::{RecordArgs, RunArgs};
use crate::doubt::rankings_in_doubt;
use crate::experiment::Description;
use crate::figure::Figure;
use crate::report::{Mode, Report};
use crate::scenario_file::ScenarioArgs;
use crate::scheme::{Known, Scheme};

/// Describes the experiment.
pub(crate) const DESCRIPTION: Description = Description {
    experiment: "mixed-blackout",
    about: "control, a recorded flight and video while Wi-Fi dies and LTE stalls",
    sim: Known {
        unasked: &[
            Scheme::FULMAR,
            Scheme::MIN_RTT,
            Scheme::ROUND_ROBIN,
            Scheme::REDUNDANT,
            Scheme::UDP,
        ],
        asked: &[Scheme::FULMAR_BACKUP, Scheme::FULMAR_STRICT, Scheme::FULMAR_OFF],
    },
    emu: Known {
        unasked: &[Scheme::FULMAR, Scheme::KERNEL_MPTCP, Scheme::REDUNDANT, Scheme::UDP],
        asked: &[
            Scheme::FULMAR_BACKUP,
            Scheme::FULMAR_STRICT,
            Scheme::FULMAR_OFF,
            Scheme::FULMAR_AUTO,
            Scheme::FULMAR_TCP,
            Scheme::FULMAR_TCP_ONE,
            Scheme::CONCLONE_TCP,
            Scheme::MIN_RTT,
            Scheme::ROUND_ROBIN,
            Scheme::KERNEL_TCP_CUBIC,
            Scheme::KERNEL_TCP_BBR,
            Scheme::KERNEL_TCP_RENO,
        ],
    },
    beside: &[&FIGURES],
    figures: &[
        Figure::new("scheme", "scheme"),
        CONTROL_SENT,
        CONTROL_LOST,
        CONTROL_LATE,
        CONTROL_MISS_SHARE,
        CONTROL_GAP,
        CONTROL_P50,
        CONTROL_P99,
        DATA_GOODPUT,
        VIDEO_SHARE_WIFI_UP,
        VIDEO_GOODPUT_WIFI_DEAD,
        WIRE_BYTES,
        WIRE_TO_REDUNDANT,
    ],
};

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct MixedBlackoutArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Leave the video out.
    #[arg(long)]
    no_video: bool,
    /// Leave the recorded flight out.
    #[arg(long)]
    no_recording: bool,
    #[command(flatten)]
    links: ScenarioArgs,
    #[command(flatten)]
    records: RecordArgs,
}

/// Runs the experiment.
pub(crate) fn run(args: &MixedBlackoutArgs) -> Result<Report, Failure> {
    let mode = args.run.mode();
    let schemes = args.run.schemes(match mode {
        Mode::Sim => DESCRIPTION.sim,
        Mode::Emu => DESCRIPTION.emu,
    })?;
    let (scene, seeds, name) = (scene(args)?, args.run.seeds(), DESCRIPTION.experiment);
    let Played { results, audit } = play(
        name,
        &scene,
        &schemes,
        (mode, seeds),
        &args.run.recording()?,
        args.run.out.as_deref(),
    )?;
    let Some(audit) = audit else {
        return Ok(Report::sim(name, seeds, scene.parameters(), results));
    };
    let doubts = rankings_in_doubt(&results, &DESCRIPTION.columns(), &[]);
    let audits = [audit];
    Ok(Report::emu(name, seeds.0, scene.parameters(), &audits, doubts, results))
}

fn scene(args: &MixedBlackoutArgs) -> Result<Blackout, Failure> {
    let mut scene = args.links.read()?.map_or_else(Blackout::new, |own| Ok(Blackout::of(own)))?;
    scene.workload.recording = !args.no_recording;
    scene.records.clone_from(&args.records.record);
    if args.no_video {
        scene.workload.video_mbps = 0.0;
    }
    Ok(scene)
}
