//! The pictures of a meeting and their data: throughput second by second [ASRAN fig. 5, 6], and the
//! congestion windows [ASRAN fig. 2].

use std::fmt::Write as _;
use std::path::Path;

use netem::Scenario;

use super::Encounter;
use crate::chart::{Panel, TimeChart, TimeCurve};
use crate::emu::FlowRun;
use crate::scheme::Scheme;

/// Colour of the scheme's curve, and of the CUBIC flow's beside it.
const COLOURS: [&str; 2] = ["#0a4fd1", "#d97706"];

/// Writes the series of all repetitions, and pictures and scenario of the first, into a directory;
/// times count from the
/// moment that counts, which the scenario has reached `ahead`.
pub(super) fn write(
    directory: &Path,
    experiment: &str,
    encounters: &[Encounter],
    scenario: &Scenario,
    (ahead, seconds): (f64, f64),
) -> Result<(), String> {
    std::fs::create_dir_all(directory)
        .map_err(|error| format!("make {}: {error}", directory.display()))?;
    let put = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| format!("write {}: {error}", path.display()))
    };
    put("scenario.toml", scenario.to_toml())?;
    put("throughput.csv", throughput_csv(encounters))?;
    put("cwnd.csv", cwnd_csv(encounters))?;
    let mut spans = outages(scenario);
    spans.retain(|(_, end)| *end > ahead);
    spans
        .iter_mut()
        .for_each(|(start, end)| (*start, *end) = ((*start - ahead).max(0.0), *end - ahead));
    let first = || encounters.iter().filter(|one| one.repetition == 0);
    let picture = |title: &str, unit: &str, points: fn(&FlowRun) -> Vec<(f64, f64)>| TimeChart {
        title: format!("{experiment}: {title}"),
        subtitle: "One repetition, the kernel's TCP over the emulator; shaded: the hop is out"
            .to_owned(),
        seconds,
        spans: spans.clone(),
        panels: first().filter_map(|one| panel(one, unit, points)).collect(),
    };
    let throughput = picture("throughput of single seconds", "Mbit/s", per_second);
    throughput.write(directory, "throughput.svg")?;
    picture("congestion windows", "packets", windows).write(directory, "cwnd.svg")?;
    Ok(())
}

/// Returns the panel of a scheme; none of a flow that has no curve of the kind.
fn panel(
    encounter: &Encounter,
    unit: &str,
    points: fn(&FlowRun) -> Vec<(f64, f64)>,
) -> Option<Panel> {
    let names = [encounter.scheme.name(), "cubic beside it"];
    let flows = core::iter::once(&encounter.own).chain(&encounter.beside);
    let curves: Vec<TimeCurve> = flows
        .zip(names.into_iter().zip(COLOURS))
        .map(|(flow, (name, colour))| TimeCurve {
            name: name.to_owned(),
            colour,
            points: points(flow),
        })
        .collect();
    let title = format!("{}, {unit}", encounter.scheme);
    curves.iter().any(|curve| !curve.points.is_empty()).then_some(Panel { title, curves })
}

fn per_second(flow: &FlowRun) -> Vec<(f64, f64)> {
    let middle = |(i, mbps): (usize, &f64)| (i as f64 + 0.5, *mbps);
    flow.goodput_mbps.iter().enumerate().map(middle).collect()
}

fn windows(flow: &FlowRun) -> Vec<(f64, f64)> {
    flow.samples.iter().map(|sample| (sample.at_s, f64::from(sample.info.cwnd))).collect()
}

/// Returns when the hop is out, in seconds.
fn outages(scenario: &Scenario) -> Vec<(f64, f64)> {
    let links = scenario.links.iter().filter(|pair| pair.name.starts_with("hop"));
    let span = |outage: &netem::Outage| {
        let start = outage.start.as_nanos() as f64 / 1e9;
        (start, start + outage.duration.as_secs_f64())
    };
    links.flat_map(|pair| pair.up.outages.iter().map(span)).collect()
}

/// Names the flows of an encounter for the tables: the scheme's, and the one beside it.
fn flows(encounter: &Encounter) -> impl Iterator<Item = (&'static str, &FlowRun)> {
    let beside = encounter.beside.iter().map(|flow| (Scheme::Cubic.name(), flow));
    core::iter::once((encounter.scheme.name(), &encounter.own)).chain(beside)
}

fn throughput_csv(encounters: &[Encounter]) -> String {
    let mut text = String::from("network,repetition,flow,second,mbps\n");
    for encounter in encounters {
        for (role, (name, flow)) in flows(encounter).enumerate() {
            let beside = if role == 1 { "beside:" } else { "" };
            for (second, mbps) in flow.goodput_mbps.iter().enumerate() {
                // Writing into a String cannot fail.
                let _ = writeln!(
                    text,
                    "{},{},{beside}{name},{second},{mbps:.4}",
                    encounter.scheme, encounter.repetition
                );
            }
        }
    }
    text
}

fn cwnd_csv(encounters: &[Encounter]) -> String {
    let mut text =
        String::from("network,repetition,flow,time_s,cwnd,ssthresh,srtt_ms,state,retransmits\n");
    for encounter in encounters {
        for (role, (name, flow)) in flows(encounter).enumerate() {
            let beside = if role == 1 { "beside:" } else { "" };
            for sample in &flow.samples {
                let info = &sample.info;
                let ssthresh = info.ssthresh.map_or(String::new(), |packets| packets.to_string());
                let srtt = info.srtt.as_secs_f64() * 1e3;
                let _ = writeln!(
                    text,
                    "{},{},{beside}{name},{:.3},{},{ssthresh},{srtt:.1},{},{}",
                    encounter.scheme,
                    encounter.repetition,
                    sample.at_s,
                    info.cwnd,
                    info.state,
                    info.retransmits
                );
            }
        }
    }
    text
}
