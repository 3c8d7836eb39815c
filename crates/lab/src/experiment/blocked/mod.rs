//! `blocked`: networks that let TCP alone through, from the start or all of a sudden.
//!
//! ```text
//! start_one, start_both    the scene of mixed-blackout, where UDP never passes by the Wi-Fi, or by
//!                          neither link: time until control flows both ways, and what it loses
//! flight_one, flight_both  its links without their outages; UDP does not pass from 15 to 30 s:
//!                          the longest gap, and by what the paths go at the end
//! only_tcp                 one link of 10 ms, 20 Mbit/s and 2 % loss that never lets UDP through
//! ```
//! 50 messages of control a second each way, the recorded flight and 5.8 Mbit/s of video all the
//! time.

use clap::{Args, ValueEnum};
use emulator::Failure;
use netem::{Delay, LinkModel, LinkRate, LossModel, Protocol, Scenario};
use serde::Serialize;
use serde_json::{Value, json};
use sys::print::tell;
use units::{Duration, Rate};

use super::Description;
use super::streams::blackout::Blackout;
use super::streams::emu::{Links, run_streams};
use super::streams::figures::{
    CONTROL_DUPLICATES, CONTROL_GAP, CONTROL_LATE, CONTROL_LOST, CONTROL_MISS_SHARE, CONTROL_P99,
    CONTROL_SENT, DATA_GOODPUT, FIGURES,
};
use super::streams::ledger::StreamRun;
use crate::arguments::RunArgs;
use crate::doubt::rankings_in_doubt;
use crate::figure::Figure;
use crate::report::{Mode, Report, merged, rounded};
use crate::scheme::{Known, Scheme};
use crate::testbed::Direction;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "blocked",
    about: "control over networks that let TCP alone through",
    sim: Known::all(&[]),
    emu: Known {
        unasked: &[
            Scheme::FULMAR_AUTO,
            Scheme::FULMAR_TCP,
            Scheme::CONCLONE_TCP,
            Scheme::KERNEL_TCP_CUBIC,
            Scheme::KERNEL_MPTCP,
        ],
        asked: &[Scheme::FULMAR_TCP_ONE],
    },
    beside: &[&FIGURES],
    figures: &[
        Figure::new("case", "case"),
        Figure::new("scheme", "scheme"),
        Figure::new("connected_s", "connected s"),
        CONTROL_SENT,
        CONTROL_LOST,
        CONTROL_DUPLICATES,
        CONTROL_LATE,
        CONTROL_MISS_SHARE,
        CONTROL_GAP,
        CONTROL_P99,
        DATA_GOODPUT,
        Figure::new("paths_by_udp", "by UDP"),
        Figure::new("paths_by_tcp", "by TCP"),
    ],
};

/// From when to when UDP does not pass, where it does at first.
const BLOCKED_S: [u64; 2] = [15, 30];
/// What an emulated run claims to tell apart.
const RESOLUTION: Duration = Duration::from_millis(10);

/// Where UDP does not pass, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
enum Case {
    /// By the Wi-Fi of mixed-blackout, never.
    StartOne,
    /// By neither of its links, ever.
    StartBoth,
    /// By the Wi-Fi, all of a sudden.
    FlightOne,
    /// By neither link, all of a sudden.
    FlightBoth,
    /// By the only link, never.
    OnlyTcp,
}

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct BlockedArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// What is run.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "CASE,...",
        value_enum,
        default_value = "start_one,start_both,flight_one,flight_both,only_tcp"
    )]
    cases: Vec<Case>,
}

/// Runs the experiment.
pub(super) fn run(args: &BlockedArgs) -> Result<Report, Failure> {
    if args.run.mode() == Mode::Sim {
        return Err(Failure::Usage("blocked: on the emulator only (--emu)".to_owned()));
    }
    let schemes = args.run.schemes(DESCRIPTION.emu)?;
    let (seed, recording) = (args.run.seed(), args.run.recording()?);
    let (mut results, mut audits) = (Vec::new(), Vec::new());
    let mut workload = None;
    for case in &args.cases {
        let scene = case.scene()?;
        tell(format_args!("blocked --emu: {}, {} s", json!(case), scene.workload.seconds));
        let played = (&scene.workload, &recording);
        let links = Links::of(&scene.scenario);
        let (runs, audit) = run_streams(links, &schemes, played, seed, RESOLUTION, &mut |_, _| {})?;
        audits.push(audit);
        results.extend(runs.iter().map(|(scheme, run)| figures(*case, &scene, *scheme, run)));
        workload = Some(scene.workload);
    }
    let doubts = rankings_in_doubt(&results, &DESCRIPTION.columns(), &["case"]);
    let parameters = json!({"workload": workload, "flight_blocked_s": BLOCKED_S});
    Ok(Report::emu(DESCRIPTION.experiment, seed, parameters, &audits, doubts, results))
}

impl Case {
    /// Returns links and traffic.
    fn scene(self) -> Result<Blackout, String> {
        if self == Self::OnlyTcp {
            return Ok(Blackout::of(only_tcp()));
        }
        let mut scenario = Blackout::new()?.scenario;
        let sudden = matches!(self, Self::FlightOne | Self::FlightBoth);
        let blocked = if matches!(self, Self::StartOne | Self::FlightOne) { 1 } else { 2 };
        let [from, until] = BLOCKED_S.map(Duration::from_secs);
        for (number, pair) in scenario.links.iter_mut().enumerate() {
            for model in [&mut pair.up, &mut pair.down] {
                if sudden {
                    model.outages.clear();
                    model.blocks_during = Some(from..until);
                }
                if number < blocked {
                    model.blocks = vec![Protocol::Udp];
                }
            }
        }
        Ok(Blackout::of(scenario))
    }
}

/// Returns the link that lets TCP alone through.
fn only_tcp() -> Scenario {
    let model = LinkModel {
        delay: Delay::Fixed(Duration::from_millis(10)),
        rate: LinkRate::Constant(Rate::from_mbps(20.0)),
        loss: LossModel { independent: 0.02, ..LossModel::default() },
        blocks: vec![Protocol::Udp],
        ..LinkModel::default()
    };
    Scenario::new("only-tcp", 60.0).link("guest", "drone", "station", &model)
}

fn figures(case: Case, scene: &Blackout, scheme: Scheme, run: &StreamRun) -> Value {
    let by = |carrier: &str| {
        let status = &run.status.as_ref()?[Direction::Down as usize];
        let paths = status["peers"][0]["paths"].as_array()?;
        let is_there = |path: &&Value| path["carrier"] == carrier && path["state"] == "active";
        Some(paths.iter().filter(is_there).count())
    };
    let connected_s = run.connected.map(|took| rounded(took.as_secs_f64(), 3));
    merged([
        json!({"case": case, "connected_s": connected_s}),
        scene.figures(scheme, run),
        json!({"paths_by_udp": by("udp"), "paths_by_tcp": by("tcp")}),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn udp_is_blocked_by_the_links_that_a_case_names() {
        for (case, links) in [
            (Case::StartOne, [true, false]),
            (Case::StartBoth, [true, true]),
            (Case::FlightOne, [true, false]),
            (Case::FlightBoth, [true, true]),
        ] {
            let Scenario { links: pairs, .. } = case.scene().expect("the scene is sound").scenario;
            for (pair, is_blocked) in pairs.iter().zip(links) {
                let blocks =
                    [&pair.up, &pair.down].map(|model| model.blocks.contains(&Protocol::Udp));
                assert_eq!(blocks, [is_blocked; 2], "{case:?}: {}", pair.name);
            }
            let is_sudden = pairs.iter().all(|pair| pair.up.outages.is_empty());
            assert_eq!(is_sudden, matches!(case, Case::FlightOne | Case::FlightBoth));
        }
        let link = &Case::OnlyTcp.scene().expect("the scene is sound").scenario.links[0];
        assert_eq!(link.up.blocks, [Protocol::Udp]);
    }
}
