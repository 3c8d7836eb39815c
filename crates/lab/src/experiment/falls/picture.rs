//! Draws what each scheme brings at each rate that links fall to, a row for each rate that they
//! fall from.

use std::path::Path;

use serde_json::{Value, json};

use crate::chart::{SweepCase, SweepChart, SweepCurve};
use crate::scheme::Scheme;
use sys::print::tell;

/// Where the axis of gaps begins.
const LEAST_MS: f64 = 10.0;

/// Draws the falls among the results; of several cells that fall from and to the same rates, the
/// worst of each figure.
pub(super) fn draw(directory: &Path, schemes: &[Scheme], results: &[Value]) -> Result<(), String> {
    let falls = |result: &&Value| result["cell"].as_str().is_some_and(|name| name.contains('_'));
    let falls: Vec<&Value> = results.iter().filter(falls).collect();
    let values = |key: &str| {
        let mut values: Vec<f64> = falls.iter().filter_map(|fall| fall[key].as_f64()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    let (from, to) = (values("from_mbps"), values("to_kbps"));
    if to.is_empty() {
        return Ok(());
    }
    let curve = |from: f64, scheme: &Scheme| {
        let own = falls.iter().filter(|fall| {
            fall["from_mbps"].as_f64() == Some(from) && fall["scheme"] == json!(scheme)
        });
        let own: Vec<&Value> = own.copied().collect();
        SweepCurve {
            scheme: *scheme,
            points: to.iter().filter_map(|to| point(&own, *to)).collect(),
        }
    };
    let case = |from: &f64| SweepCase {
        share: format!("from {from} Mbit/s: control within 100 ms"),
        delay: "the longest time without control".to_owned(),
        curves: schemes.iter().map(|scheme| curve(*from, scheme)).collect(),
    };
    let chart = SweepChart {
        title: "Links that were fast and become thin".to_owned(),
        subtitle: "The worse direction, over the whole run; in the deterministic world".to_owned(),
        parameter: "kbit/s that links fall to".to_owned(),
        cases: from.iter().map(case).collect(),
        values: to,
        least_ms: LEAST_MS,
    };
    let file = chart.write(directory, "falls.svg")?;
    tell(format_args!("picture: {}", file.display()));
    Ok(())
}

/// Returns a rate, the share of control that was in time, and the longest gap.
fn point(falls: &[&Value], to: f64) -> Option<(f64, f64, Option<f64>)> {
    let falls = falls.iter().filter(|fall| fall["to_kbps"].as_f64() == Some(to));
    let points = falls.filter_map(|fall| {
        let of = |key: &str| fall[key].as_f64();
        Some((of("control_in_time")? / of("control_sent")?, of("control_gap_s")? * 1e3))
    });
    let (share, gap) = points.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    Some((to, share, Some(gap)))
}
