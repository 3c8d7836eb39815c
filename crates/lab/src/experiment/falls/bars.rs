//! What a cell must hold: that nothing which does nothing clever has the shorter silence.
//!
//! ```text
//! gap       control_gap_s ≤ max(best gap of the others + 0.5 s, what is reachable)
//! in_time   control_in_time ≥ 99 % of plain UDP's over the better link
//! stale     0
//! wire      wire_share_fall ≤ 1
//! age       live_age_fall_ms ≤ 300 ms + one datagram over the hop, or what is reachable
//! ```
//! What is reachable is `reachable`. A bar that compares with what did not run is left out.

use serde_json::{Value, json};

use super::cell::Cell;
use super::reachable::Reachable;
use crate::report::{rounded, rounded_option};
use crate::scheme::Scheme;

/// How much longer than the best of the others the product may be silent.
const GAP_MARGIN_S: f64 = 0.5;
/// The share of plain UDP's messages in time that the product must bring.
const IN_TIME_SHARE: f64 = 0.99;

/// Sets the bars of a cell beside the figures of the product, among the results of all schemes.
pub(super) fn judge(cell: &Cell, results: &mut [Value]) {
    let is_of = |result: &Value, scheme: Scheme| result["scheme"] == json!(scheme);
    let others = results.iter().filter(|result| !is_of(result, Scheme::FULMAR));
    let best = others.filter_map(|other| other["control_gap_s"].as_f64()).reduce(f64::min);
    let udp = results.iter().find(|result| is_of(result, Scheme::UDP));
    let in_time = udp.and_then(|udp| udp["control_in_time"].as_f64());
    let reachable = Reachable::of(cell);
    let gap_bar = best.map(|gap| (gap + GAP_MARGIN_S).max(reachable.gap_s));
    let in_time_bar = in_time.map(|count| count * IN_TIME_SHARE);
    let age_bar = if cell.load.is_live() { reachable.age_s.map(|age| age * 1e3) } else { None };
    let Some(own) = results.iter_mut().find(|result| is_of(result, Scheme::FULMAR)) else { return };
    let above = |key: &str, bar: Option<f64>| {
        bar.is_some_and(|bar| own[key].as_f64().is_none_or(|figure| figure > bar))
    };
    let below = |key: &str, bar: Option<f64>| {
        bar.is_some_and(|bar| own[key].as_f64().is_none_or(|figure| figure < bar))
    };
    let missed: Vec<&str> = [
        ("gap", above("control_gap_s", gap_bar)),
        ("in_time", below("control_in_time", in_time_bar)),
        ("stale", above("stale", Some(0.0))),
        ("wire", above("wire_share_fall", Some(1.0))),
        ("age", above("live_age_fall_ms", age_bar)),
    ]
    .into_iter()
    .filter_map(|(bar, is_missed)| is_missed.then_some(bar))
    .collect();
    own["gap_bar_s"] = rounded_option(gap_bar, 3);
    own["reachable_gap_s"] = json!(rounded(reachable.gap_s, 3));
    own["in_time_bar"] = rounded_option(in_time_bar, 1);
    own["age_bar_ms"] = rounded_option(age_bar, 1);
    own["bars_missed_count"] = json!(missed.len());
    own["bars_missed"] = json!(missed);
}

/// Says in a sentence how many cells hold every bar, and which is the worst.
pub(super) fn summary(results: &[Value]) -> Option<String> {
    let judged = results.iter().filter(|result| result["bars_missed"].is_array());
    let judged: Vec<&Value> = judged.collect();
    let holds = |result: &&&Value| result["bars_missed_count"] == 0;
    let count = judged.iter().filter(holds).count();
    let excess = |result: &Value| {
        let over = result["control_gap_s"].as_f64().zip(result["gap_bar_s"].as_f64());
        over.map_or(0.0, |(gap, bar)| gap - bar)
    };
    let missing = judged.iter().filter(|result| !holds(result));
    let worst = missing.max_by(|a, b| excess(a).total_cmp(&excess(b)));
    let worst = worst.map_or_else(String::new, |worst| {
        let of = |key: &str| field_text(&worst[key]);
        let gap = format!("gap {} s, bar {} s", of("control_gap_s"), of("gap_bar_s"));
        format!("; worst: {} misses {} ({gap})", of("cell"), of("bars_missed"))
    });
    (!judged.is_empty()).then(|| format!("{count} of {} cells hold every bar{worst}", judged.len()))
}

/// Writes a figure for people.
fn field_text(figure: &Value) -> String {
    match figure {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(field_text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_is_named() {
        let cell: Cell = "both_10M_50k_30s_500kB_counted".parse().expect("a cell");
        let row = |scheme: &str, gap: f64, in_time: u32, wire: f64| {
            json!({"cell": cell.to_string(), "scheme": scheme, "control_gap_s": gap,
                   "control_in_time": in_time, "stale": 0, "wire_share_fall": wire})
        };
        let mut good = [
            row("fulmar", 0.6, 990, 1.0),
            row("udp", 0.2, 1000, 9.0),
            row("redundant", 0.1, 0, 9.0),
        ];
        judge(&cell, &mut good);
        assert_eq!(good[0]["bars_missed"], json!([]), "{:?}", good[0]);
        let mut bad = [row("fulmar", 27.0, 100, 3.0), row("udp", 0.2, 1000, 0.2)];
        judge(&cell, &mut bad);
        assert_eq!(bad[0]["bars_missed"], json!(["gap", "in_time", "wire"]));
        let all = [good, [bad[0].clone(), bad[1].clone(), Value::Null]].concat();
        let said = summary(&all).expect("two cells");
        assert!(
            said.starts_with("1 of 2 cells") && said.contains("in_time, wire (gap 27.0 s"),
            "{said}"
        );
    }
}
