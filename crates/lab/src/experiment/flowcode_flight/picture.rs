//! The pictures: goodput over the flight [FlowCode Fig. 6], efficiencies of its passes [FlowCode
//! Fig. 7], the way over ground with where data arrived [FlowCode Fig. 5], and what k and f do
//! where there are several.

use std::path::Path;

use serde_json::Value;

use super::field::Field;
use super::figures::efficiencies;
use super::{Cc, Flow, Point, paper};
use crate::chart::{FunctionChart, FunctionPanel, Heights, Panel, TimeChart, TimeCurve, style};
use crate::statistics::mean;
use crate::traces::synth::map;
use sys::print::tell;

/// A flight that was flown.
pub(super) type Drawn = (Point, Cc, Flow);

/// Writes the pictures of the first seed into a directory, which is made.
///
/// # Errors
/// Says which path could not be written, and why.
pub(super) fn write(directory: &Path, field: &Field, drawn: &[Drawn]) -> Result<(), String> {
    let name = toml_keys::one_line(&field.flown.flight.name);
    let seed = field.flown.seed;
    let chart = TimeChart {
        title: format!("{name}: TCP's goodput of each second, and what was achievable"),
        subtitle: format!("payload of TCP and of all that was heard, Mbit/s; seed {seed}"),
        seconds: field.seconds(),
        spans: Vec::new(),
        panels: drawn.iter().map(|one| over_time(field, one)).collect(),
    };
    let mut files = vec![chart.write(directory, "goodput.svg")?];
    let chart = FunctionChart {
        title: format!("{name}: efficiency of TCP, pass by pass"),
        subtitle: format!(
            "delivered ÷ achievable payload; dots: the paper's medians, flowcode 0.724 and tcp_lrr 0.764; seed {seed}"
        ),
        panels: of_efficiency(field, drawn),
    };
    files.push(chart.write(directory, "efficiency.svg")?);
    for (point, cc, flow) in drawn.iter().filter(|(_, cc, _)| *cc == drawn[0].1) {
        let bits: Vec<f64> =
            field.slots(&flow.delivered).iter().map(|bytes| *bytes as f64 * 8.0).collect();
        let named = point.named(*cc);
        let title = format!("Where data arrived: {named}");
        let map = map(&field.flown, &bits, title, "payload that TCP delivered in each second");
        let path = directory.join(format!("way-{}.svg", named.replace([' ', ','], "")));
        std::fs::write(&path, map.to_svg())
            .map_err(|error| format!("write {}: {error}", path.display()))?;
        files.push(path);
    }
    for file in files {
        tell(format_args!("picture: {}", file.display()));
    }
    Ok(())
}

/// Draws what becomes of efficiency and range as generations grow, over all seeds; nothing where
/// all are alike.
///
/// # Errors
/// Says which path could not be written, and why.
pub(super) fn write_parameters(directory: &Path, rows: &[Value]) -> Result<(), String> {
    let relayed = || rows.iter().filter(|row| row["k"].is_u64() && row["skipped"].is_null());
    let mut ks: Vec<u64> = relayed().filter_map(|row| row["k"].as_u64()).collect();
    ks.sort_unstable();
    ks.dedup();
    let (Some(least), Some(most)) = (ks.first(), ks.last()) else { return Ok(()) };
    if least == most {
        return Ok(());
    }
    let mut ccs: Vec<&str> = relayed().filter_map(|row| row["cc"].as_str()).collect();
    ccs.sort_unstable();
    ccs.dedup();
    let figures =
        [("efficiency_all", "Median efficiency"), ("range_share", "Share of the achievable range")];
    let panels = ccs.iter().flat_map(|cc| figures.map(|figure| (cc, figure)));
    let panels = panels.map(|(cc, (key, what))| {
        let mut names: Vec<String> = Vec::new();
        let of_cc = || relayed().filter(|row| row["cc"] == **cc);
        for name in of_cc().map(curve_name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let curve = |name: String| {
            let at = |k: &u64| {
                let own = of_cc().filter(|row| curve_name(row) == name && row["k"] == *k);
                let values: Vec<f64> = own.filter_map(|row| row[key].as_f64()).collect();
                Some((*k as f64, mean(&values)?))
            };
            let points = ks.iter().filter_map(at).collect();
            (name, points)
        };
        FunctionPanel {
            title: format!("{what}, {cc}"),
            variable: "k, packets of a generation".to_owned(),
            from: *least as f64,
            to: *most as f64,
            heights: Heights::Linear(0.0, 1.0),
            curves: names.into_iter().map(curve).collect(),
            printed: Vec::new(),
        }
    });
    let mut seeds: Vec<u64> = relayed().filter_map(|row| row["seed"].as_u64()).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let chart = FunctionChart {
        title: "What the size of generations, and how many are in flight, do to TCP".to_owned(),
        subtitle: format!("means of both regions and {} flights", seeds.len()),
        panels: panels.collect(),
    };
    let file = chart.write(directory, "parameters.svg")?;
    tell(format_args!("picture: {}", file.display()));
    Ok(())
}

/// Names the curve of a row: the scheme, and f where it has one.
fn curve_name(row: &Value) -> String {
    let scheme = row["scheme"].as_str().unwrap_or_default();
    match row["f"].as_u64() {
        Some(f) => format!("{scheme}, f = {f}"),
        None => scheme.to_owned(),
    }
}

/// Returns the panel of a flight: delivered over achievable.
fn over_time(field: &Field, (point, cc, flow): &Drawn) -> Panel {
    let links = field.links(point.scheme);
    let packet = field.flown.flight.air.packet_bytes as f64;
    let heard: Vec<f64> = links.heard().iter().map(|count| *count as f64 * packet).collect();
    let read: Vec<f64> = field.slots(&flow.delivered).iter().map(|bytes| *bytes as f64).collect();
    let curve = |name: &str, colour, bytes: &[f64]| TimeCurve {
        name: name.to_owned(),
        colour,
        points: by_second(bytes, field.slot_s()),
    };
    let scheme = point.scheme;
    Panel {
        title: format!("{}; links: {}", point.named(*cc), links.name),
        curves: vec![
            curve(scheme.name(), style(scheme).0, &read),
            curve("achievable", "#b9b9b9", &heard),
        ],
    }
}

/// Returns Mbit/s second by second.
fn by_second(bytes: &[f64], slot_s: f64) -> Vec<(f64, f64)> {
    let mut seconds = vec![0.0; (bytes.len() as f64 * slot_s).ceil() as usize];
    for (slot, bytes) in bytes.iter().enumerate() {
        if let Some(second) = seconds.get_mut((slot as f64 * slot_s) as usize) {
            *second += bytes * 8.0 / 1e6;
        }
    }
    (0..).zip(seconds).map(|(second, mbps)| (f64::from(second) + 0.5, mbps)).collect()
}

/// Returns a panel for each congestion control: which share of the passes is below an efficiency.
fn of_efficiency(field: &Field, drawn: &[Drawn]) -> Vec<FunctionPanel> {
    let mut ccs: Vec<Cc> = Vec::new();
    for (_, cc, _) in drawn {
        if !ccs.contains(cc) {
            ccs.push(*cc);
        }
    }
    let panel = |cc: Cc| {
        let of_cc = || drawn.iter().filter(move |one| one.1 == cc);
        let curve = |(point, _, flow): &Drawn| {
            let mut all = efficiencies(field, point, flow);
            all.sort_by(f64::total_cmp);
            let count = all.len().max(1) as f64;
            let steps = (0..).zip(&all).flat_map(|(below, efficiency)| {
                [below, below + 1].map(|below| (*efficiency, f64::from(below) / count))
            });
            (point.named(cc), steps.collect())
        };
        let printed = of_cc().filter_map(|(point, ..)| {
            let efficiency = paper::efficiency(point.scheme)?;
            Some((efficiency, 0.5, String::new()))
        });
        FunctionPanel {
            title: format!("Share of the passes with at most this efficiency, {}", cc.name()),
            variable: "efficiency".to_owned(),
            from: 0.0,
            to: 1.0,
            heights: Heights::Linear(0.0, 1.0),
            curves: of_cc().map(curve).collect(),
            printed: printed.collect(),
        }
    };
    ccs.into_iter().map(panel).collect()
}
