//! The pictures of a meeting and their data: throughput second by second [ASRAN fig. 5, 6], the
//! congestion windows [ASRAN fig. 2], and the figures of single repetitions.

use std::fmt::Write as _;
use std::path::Path;

use netem::Scenario;
use serde_json::Value;

use super::meeting::Encounter;
use crate::chart::{FunctionChart, FunctionPanel, Heights, Panel, TimeChart, TimeCurve};
use crate::scheme::Scheme;
use crate::testbed::tcp_flow::FlowRun;

/// Colour of the scheme's curve, and of the CUBIC flow's beside it.
const COLOURS: [&str; 2] = ["#0a4fd1", "#d97706"];

/// Figures of a repetition, as `figures` names them.
const COLUMNS: [&str; 10] = [
    "seed",
    "uav",
    "throughput_mbps",
    "cubic_mbps",
    "ratio_to_cubic",
    "cubic_kept",
    "cwnd_max",
    "timeouts",
    "cubic_timeouts",
    "queue_drops",
];

/// Writes the series of all repetitions, and pictures and scenario of the first, into a directory;
/// times count from the moment at which measuring begins, `ahead` into the scenario.
pub(super) fn write(
    directory: &Path,
    experiment: &str,
    encounters: &[Encounter],
    scenario: &Scenario,
    how: &str,
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
        subtitle: format!("One repetition, {how}; shaded: the hop is out"),
        seconds,
        spans: spans.clone(),
        panels: first().filter_map(|one| panel(one, unit, points)).collect(),
    };
    let throughput = picture("throughput of single seconds", "Mbit/s", per_second);
    throughput.write(directory, "throughput.svg")?;
    picture("congestion windows", "packets", windows).write(directory, "cwnd.svg")?;
    Ok(())
}

/// Writes the distribution of what a flow of constant rate gets [ASRAN Fig. 1], beside what the
/// paper says of it.
pub(super) fn write_offered(
    directory: &Path,
    curves: Vec<(String, Vec<(f64, f64)>)>,
    how: &str,
) -> Result<(), String> {
    let panel = FunctionPanel {
        title: "Share of the seconds that get no more".to_owned(),
        variable: "kbit/s of 1,000 that are offered".to_owned(),
        from: 0.0,
        to: 1_300.0,
        heights: Heights::Linear(0.0, 1.0),
        curves,
        printed: vec![
            (0.0, 0.19, "paper: 19 % get nothing".to_owned()),
            (980.0, 0.5, "paper: under 50 % get all".to_owned()),
        ],
    };
    let chart = FunctionChart {
        title: "What a hop that comes and goes lets through".to_owned(),
        subtitle: format!(
            "A flow of 1,000 kbit/s, second by second; {how}; outages fitted to the 19 %"
        ),
        panels: vec![panel],
    };
    chart.write(directory, "offered.svg").map(|_| ())
}

/// Writes the figures of single repetitions, a line each, into a directory.
pub(super) fn write_repetitions(directory: &Path, results: &[Value]) -> Result<(), String> {
    let path = directory.join("repetitions.csv");
    std::fs::write(&path, repetitions_csv(results))
        .map_err(|error| format!("write {}: {error}", path.display()))
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
    let all: Vec<(f64, f64)> =
        flow.samples.iter().map(|sample| (sample.at_s, f64::from(sample.info.cwnd))).collect();
    // Between two samples of the same height the line is there already.
    let is_needed = |i: usize| {
        i == 0 || i + 1 == all.len() || all[i].1 != all[i - 1].1 || all[i].1 != all[i + 1].1
    };
    (0..all.len()).filter(|i| is_needed(*i)).map(|i| all[i]).collect()
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
    let beside = encounter.beside.iter().map(|flow| (Scheme::CUBIC.name(), flow));
    core::iter::once((encounter.scheme.name(), &encounter.own)).chain(beside)
}

fn repetitions_csv(results: &[Value]) -> String {
    let mut text = format!("scheme,{}\n", COLUMNS.join(","));
    for result in results {
        let scheme = result["scheme"].as_str().unwrap_or_default();
        for repetition in result["by_repetition"].as_array().into_iter().flatten() {
            let figure = |column: &str| match &repetition[column] {
                Value::Null => String::new(),
                value => value.to_string(),
            };
            let figures: Vec<String> = COLUMNS.iter().map(|column| figure(column)).collect();
            let _ = writeln!(text, "{scheme},{}", figures.join(","));
        }
    }
    text
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sys::tcp_info::TcpInfo;

    use super::*;
    use crate::testbed::tcp_flow::FlowSample;

    #[test]
    fn curves_keep_their_corners() {
        let sample = |at_s: f64, cwnd: u32| FlowSample {
            at_s,
            info: TcpInfo { cwnd, ..TcpInfo::default() },
        };
        let heights = [9, 9, 9, 4, 4, 5, 5, 5];
        let samples = (0_u32..).zip(heights).map(|(at, cwnd)| sample(f64::from(at), cwnd));
        let flow = FlowRun { samples: samples.collect(), ..FlowRun::default() };
        let expected = [(0.0, 9.0), (2.0, 9.0), (3.0, 4.0), (4.0, 4.0), (5.0, 5.0), (7.0, 5.0)];
        assert_eq!(windows(&flow), expected);
    }

    #[test]
    fn repetitions_are_lines_and_what_is_not_known_is_empty() {
        let repetition = json!({"seed": 7, "uav": 2, "throughput_mbps": 1.5, "cubic_mbps": null});
        let results = [
            json!({"scheme": "udp", "zero_share": 0.2}),
            json!({"scheme": "asran", "by_repetition": [repetition]}),
        ];
        let text = repetitions_csv(&results);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("scheme,seed,uav,throughput_mbps,cubic_mbps,ratio_to_cubic"));
        assert_eq!(lines[1..], ["asran,7,2,1.5,,,,,,,"]);
    }
}
