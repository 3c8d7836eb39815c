//! Plays a scene under several schemes in either life: what `mixed-blackout` and files share.

use std::path::Path;

use emulator::{Audit, Failure};
use serde_json::Value;

use super::blackout::{Blackout, relate_wire_bytes};
use super::figures::FIGURES;
use super::ledger::StreamRun;
use super::sim::run_watched;
use crate::arguments::seeds_shown;
use crate::chart::CHART_NOTE;
use crate::figure::pooled;
use crate::report::Mode;
use crate::scheme::Scheme;
use crate::testbed::Recording;
use sys::print::tell;

/// The runs that a picture is drawn of.
type Runs = Vec<(Scheme, StreamRun)>;

/// What came of it.
pub(crate) struct Played {
    /// One object per scheme.
    pub(crate) results: Vec<Value>,
    /// What the emulator says about itself.
    pub(crate) audit: Option<Audit>,
}

/// Plays the scene, in the world once for each seed; draws a picture where `out` says.
pub(crate) fn play(
    name: &str,
    scene: &Blackout,
    schemes: &[Scheme],
    (mode, seeds): (Mode, (u64, u64)),
    recording: &Recording,
    out: Option<&Path>,
) -> Result<Played, Failure> {
    let (mut results, runs, audit) = match mode {
        Mode::Sim => {
            let told = seeds_shown(seeds);
            let begins = |scheme| tell(format_args!("{name} --sim: {scheme}, {told}"));
            let (results, runs) = in_world(scene, schemes, recording, seeds, begins)?;
            (results, runs, None)
        }
        Mode::Emu => {
            let (runs, audit) = emulated(name, scene, schemes, recording, seeds.0)?;
            let figures = |(scheme, run): &(Scheme, StreamRun)| scene.figures(*scheme, run);
            (runs.iter().map(figures).collect(), runs, Some(audit))
        }
    };
    // The picture is one of control.
    if let Some(directory) = out.filter(|_| scene.workload.control_hz > 0.0) {
        let life = match mode {
            Mode::Sim => "In the deterministic world",
            Mode::Emu => "Real daemons and kernel, emulated links",
        };
        let subtitle = format!("{name}. {life}, seed {}. {CHART_NOTE}", seeds.0);
        scene.chart(&runs, subtitle).write(directory)?;
    }
    relate_wire_bytes(&mut results);
    Ok(Played { results, audit })
}

/// Returns the figures of each scheme in the world with one seed, and says nothing of it.
///
/// # Errors
/// When a scheme needs a real kernel.
pub(crate) fn play_quietly(
    scene: &Blackout,
    schemes: &[Scheme],
    recording: &Recording,
    seeds: (u64, u64),
) -> Result<Vec<Value>, String> {
    let (mut results, _) = in_world(scene, schemes, recording, seeds, |_| {})?;
    relate_wire_bytes(&mut results);
    Ok(results)
}

/// Returns the figures of each scheme, pooled over the seeds, and the runs of the first seed.
fn in_world(
    scene: &Blackout,
    schemes: &[Scheme],
    recording: &Recording,
    (first, last): (u64, u64),
    begins: impl Fn(Scheme),
) -> Result<(Vec<Value>, Runs), String> {
    let (mut results, mut of_first_seed) = (Vec::new(), Vec::new());
    for &scheme in schemes {
        begins(scheme);
        let mut by_seed = Vec::new();
        for seed in first..=last {
            let run = run_watched(
                &scene.scenario,
                (scheme, scene.elastic),
                &scene.workload,
                recording,
                seed,
                |_| {},
            )?;
            by_seed.push((seed, scene.figures(scheme, &run)));
            if seed == first {
                of_first_seed.push((scheme, run));
            }
        }
        results.push(pooled(&FIGURES, &by_seed));
    }
    Ok((results, of_first_seed))
}

fn emulated(
    name: &str,
    scene: &Blackout,
    schemes: &[Scheme],
    recording: &Recording,
    seed: u64,
) -> Result<(Runs, Audit), Failure> {
    tell(format_args!("{name} --emu, {} s", scene.workload.seconds));
    let mut shown = 0;
    let played = scene.run_emu(schemes, recording, seed, &mut |seconds, _| {
        if seconds as u32 / 10 > shown {
            shown = seconds as u32 / 10;
            tell(format_args!("{name} --emu: {seconds:.0} of {} s", scene.workload.seconds));
        }
    })?;
    Ok(played)
}
