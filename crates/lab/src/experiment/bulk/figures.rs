//! Turns a run into the figures of a report.
//!
//! ```text
//! goodput_mbps        payload that the receiving application got, over the whole flow
//! first_3s_mbps       the same of its first three seconds; steady_mbps from 10 s on; from_20s_mbps
//! of_ceiling          steady_mbps ÷ the ceiling of the same time
//! achievable_mbps     what the scheme's own links carry of TCP's payload in its own packets;
//!                     efficiency_tcp: goodput ÷ that
//! of_all              goodput ÷ the ceiling, which is of all links
//! seconds_with_data   of the flow, in which anything arrived
//! tcp_retransmits, tcp_timeouts    what the sender's kernel counted, of all sub-flows
//! srtt_ms             median of what the sender had, ten times a second; of multipath TCP the
//!                     first sub-flow's; of kcptun that to its own end
//! wire_overhead       bytes that entered the links both ways ÷ payload
//! outside_mbps        payload of the flow of somebody else's that shares the first link
//! repair_share        repair symbols that a session sent ÷ packets of TCP
//! jain                of several flows, how evenly they share; everything else is of all of them
//!                     together
//! request_…           requests of 1 kB, one each 200 ms: beside the flow, alone, and what it adds
//! cpu_s               processor time of both ends' programs while the flow lasted
//! of_one, of_plain, cpu_of_plain   beside other rows: comparison.rs
//! first_data_s        from the return of the links to the first payload
//! second_2_of_before  goodput of the second second after the return ÷ that of the 5 s before the
//!                     silence
//! meanwhile_of_ceiling   goodput while links were silent ÷ the ceiling of those that were not
//! ```

use emulator::Stalls;
use serde_json::{Map, Value, json};

use super::beside::PING;
use super::flow::BulkRun;
use super::point::{STEADY_S, Scene};
use crate::doubt::add_errors_of_time;
use crate::experiment::streams::figures::{CONTROL_MISSED, ControlFigures};
use crate::experiment::streams::ledger::StreamRun;
use crate::figure::Figure;
use crate::report::{field, merged, rounded, rounded_option};
use crate::scheme::Scheme;
use crate::statistics::{jain_index, mean, median, percentile};
use crate::testbed::{Direction, Stream};

/// The columns of the table.
pub(super) const FIGURES: [Figure; 30] = [
    Figure::new("scheme", "scheme"),
    Figure::new("cc", "cc"),
    Figure::new("point", "point"),
    Figure::new("window", "window"),
    Figure::new("goodput_mbps", "Mbit/s"),
    Figure::new("first_3s_mbps", "first 3 s"),
    Figure::new("steady_mbps", "from 10 s"),
    Figure::new("of_ceiling", "of ceiling"),
    Figure::new("tcp_retransmits", "sent again"),
    Figure::new("tcp_timeouts", "timeouts"),
    Figure::new("srtt_ms", "srtt ms"),
    Figure::new("wire_overhead", "wire/payload"),
    Figure::new("repair_share", "repair"),
    Figure::new("ping_p50_ms", "ping p50 ms"),
    Figure::new("ping_p99_ms", "p99 ms"),
    Figure::new("longest_gap_ms", "gap ms"),
    Figure::new("first_data_s", "back after s"),
    Figure::new("second_2_of_before", "2nd s of before").ratio(),
    Figure::new("meanwhile_of_ceiling", "meanwhile"),
    CONTROL_MISSED.within("down", "control missed"),
    Figure::new("jain", "Jain"),
    Figure::new("of_one", "of one flow's").ratio(),
    Figure::new("request_p50_ms", "request p50 ms"),
    Figure::new("request_p95_ms", "p95 ms"),
    Figure::new("request_more_p50_ms", "longer by p50 ms"),
    Figure::new("request_more_p95_ms", "p95 ms"),
    Figure::new("cpu_s", "processor s"),
    Figure::new("cpu_of_plain", "of plain's").ratio(),
    Figure::new("of_plain", "Mbit/s of plain's").ratio(),
    Figure::new("skipped", "skipped"),
];

/// What the scheme's own links could carry, what it had of that, and in how many seconds anything.
pub(super) const ACHIEVABLE: Figure = Figure::new("achievable_mbps", "achievable").exact();
pub(super) const EFFICIENCY: Figure = Figure::new("efficiency_tcp", "of TCP's share");
pub(super) const OF_ALL: Figure = Figure::new("of_all", "of all links");
pub(super) const SECONDS_WITH_DATA: Figure = Figure::new("seconds_with_data", "s with data");

/// What results have beside these.
pub(super) const MORE: [Figure; 12] = [
    Figure::new("outside_mbps", "somebody else's"),
    Figure::new("ceiling_mbps", "ceiling").exact(),
    ACHIEVABLE,
    EFFICIENCY,
    OF_ALL,
    SECONDS_WITH_DATA,
    Figure::new("from_20s_mbps", "from 20 s"),
    Figure::new("least_mbps", "least"),
    Figure::new("ping_lost_share", "pings lost"),
    Figure::new("control_missed", "control missed"),
    Figure::new("request_alone_p50_ms", "request alone p50 ms"),
    Figure::new("request_alone_p95_ms", "p95 ms"),
];

/// Returns the row of a flow, with errors where it was a real one.
pub(super) fn row(
    scheme: Scheme,
    cc: &str,
    scene: &Scene,
    run: &BulkRun,
    stalls: Option<&Stalls>,
) -> Value {
    let flow = &run.flow;
    let goodput = flow.mbps(0.0, scene.seconds);
    let steady = flow.mbps(STEADY_S, scene.seconds);
    let ceiling = scene.ceiling_between(STEADY_S, scene.seconds);
    let achievable = scene.achievable_mbps(scheme).filter(|most| *most > 0.0);
    let most = scene.ceiling_mbps().filter(|most| *most > 0.0);
    let gap = flow.longest_gap();
    let payload = flow.bytes().max(1) as f64;
    let overhead = run.wire_bytes.map(|bytes| bytes as f64 / payload);
    let shares: Vec<f64> = run.each.iter().map(|bytes| *bytes as f64).collect();
    let jain = jain_index(&shares).filter(|_| shares.len() > 1);
    let figures = json!({
        "goodput_mbps": rounded_option(goodput, 4),
        "least_mbps": rounded_option(goodput, 4),
        "first_3s_mbps": rounded_option(flow.mbps(0.0, 3.0), 4),
        "steady_mbps": rounded_option(steady, 4),
        "from_20s_mbps": rounded_option(flow.mbps(20.0, scene.seconds), 4),
        "of_ceiling": rounded_option(steady.filter(|_| ceiling > 0.0).map(|s| s / ceiling), 4),
        "achievable_mbps": rounded_option(achievable, 4),
        "efficiency_tcp": rounded_option(goodput.zip(achievable).map(|(own, most)| own / most), 4),
        "of_all": rounded_option(goodput.zip(most).map(|(own, most)| own / most), 4),
        "seconds_with_data": flow.seconds_with_data(),
        "tcp_retransmits": flow.retransmits,
        "tcp_timeouts": flow.timeouts,
        "srtt_ms": rounded_option(median(&flow.srtt_ms), 2),
        "wire_overhead": rounded_option(overhead, 4),
        "repair_share": rounded_option(run.repair_share, 4),
        "outside_mbps": rounded_option(run.outside_mbps, 4),
        "jain": rounded_option(jain, 4),
        "cpu_s": rounded_option(run.cpu_s, 2),
        "longest_gap_ms": rounded((gap.1 - gap.0) * 1e3, 0),
    });
    let mut row = merged([
        empty(scheme, cc, Some(scene)),
        figures,
        after_silence(scene, run),
        of_beside(scene, run, None),
    ]);
    let Some(stalls) = stalls else { return row };
    let declared: Vec<Figure> = FIGURES.into_iter().chain(MORE).collect();
    add_errors_of_time(&mut row, stalls.reached_share(0.0, scene.seconds), &declared);
    let best = of_beside(scene, run, Some(stalls));
    let single = |figure: &&Figure| !best[figure.key].is_null();
    for Figure { key, .. } in declared.iter().filter(single) {
        if let (Some(seen), Some(best)) = (row[*key].as_f64(), best[*key].as_f64()) {
            row["error"][*key] = json!(rounded((seen - best).abs(), 4));
        }
    }
    for way in Direction::BOTH.map(Direction::name) {
        let counts = (&row[way]["control_missed"], &best[way]["control_missed"]);
        if let (Some(seen), Some(best)) = (counts.0.as_u64(), counts.1.as_u64()) {
            row[way]["error"] = json!({"control_missed": seen.abs_diff(best)});
        }
    }
    row["error"]["longest_gap_ms"] = json!(rounded(stalls.error_s(gap.0, gap.1) * 1e3, 3));
    if let (Some((_, back)), Some(after)) = (scene.silence, row["first_data_s"].as_f64()) {
        row["error"]["first_data_s"] = json!(rounded(stalls.error_s(back, back + after), 4));
    }
    row
}

/// Returns the row of a scheme that could not run; without a scene, where there are no links.
pub(super) fn skipped(scheme: Scheme, cc: &str, scene: Option<&Scene>, why: &str) -> Value {
    merged([empty(scheme, cc, scene), json!({"skipped": why})])
}

/// Pools the rows of one scheme over seeds: medians, or means; of the least, the least. A figure
/// that no row has has none.
pub(super) fn pooled(rows: &[Value], first_seed: u64, medians: bool) -> Value {
    let Some(Value::Object(first)) = rows.first() else { return Value::Null };
    let mut all: Map<String, Value> =
        first.keys().map(|key| (key.clone(), together(key, rows, medians))).collect();
    if rows.len() > 1 {
        let single = |(seed, row): (u64, &Value)| merged([json!({"seed": seed}), row.clone()]);
        all.insert("by_seed".to_owned(), (first_seed..).zip(rows).map(single).collect());
    }
    all.into()
}

/// Pools one figure, or an object of them. Of errors the greatest speaks for all.
fn together(key: &str, rows: &[Value], medians: bool) -> Value {
    let fields: Vec<&Value> = rows.iter().map(|row| &row[key]).collect();
    if let Some(Value::Object(first)) = fields.iter().find(|field| field.is_object()) {
        let objects: Vec<Value> = fields.iter().map(|field| (*field).clone()).collect();
        let pool = |inner: &String| {
            let pooled = match key {
                "error" => greatest(inner, &objects),
                _ => together(inner, &objects, medians),
            };
            (inner.clone(), pooled)
        };
        return Value::Object(first.keys().map(pool).collect());
    }
    let numbers: Vec<f64> = fields.iter().filter_map(|field| field.as_f64()).collect();
    match key {
        _ if numbers.is_empty() => {
            let same = fields.windows(2).all(|pair| pair[0] == pair[1]);
            let word = fields.iter().find(|field| !field.is_null());
            if same { fields[0].clone() } else { word.map_or(Value::Null, |word| (*word).clone()) }
        }
        _ if rows.len() == 1 => fields[0].clone(),
        "least_mbps" => rounded_option(numbers.into_iter().reduce(f64::min), 6),
        _ if medians => rounded_option(median(&numbers), 6),
        _ => rounded_option(mean(&numbers), 6),
    }
}

fn greatest(key: &str, objects: &[Value]) -> Value {
    let numbers = objects.iter().filter_map(|object| field(object, key).as_f64());
    rounded_option(numbers.reduce(f64::max), 6)
}

/// Returns a row with every figure, and no value but what was asked for.
fn empty(scheme: Scheme, cc: &str, scene: Option<&Scene>) -> Value {
    let key = |figure: Figure| (figure.key.to_owned(), Value::Null);
    let of_directions = |figure: &Figure| figure.key != "control_missed";
    let keys: Map<String, Value> =
        FIGURES.into_iter().chain(MORE).filter(of_directions).map(key).collect();
    let said = json!({
        "scheme": scheme,
        "cc": cc,
        "point": scene.map(|scene| scene.point.name()),
        "window": scene.and_then(|scene| scene.window.as_deref()),
        "ceiling_mbps": rounded_option(scene.and_then(Scene::ceiling_mbps), 2),
        "up": {"control_missed": null},
        "down": {"control_missed": null},
    });
    merged([keys.into(), said])
}

/// Returns how the flow came back after links were silent.
fn after_silence(scene: &Scene, run: &BulkRun) -> Value {
    let Some((from, to)) = scene.silence else { return json!({}) };
    let flow = &run.flow;
    let before = flow.mbps(from - 5.0, from).filter(|before| *before > 0.0);
    let second = flow.mbps(to + 1.0, to + 2.0);
    let ceiling = scene.ceiling_between(from, to);
    let meanwhile = flow.mbps(from, to).filter(|_| ceiling > 0.0);
    json!({
        "first_data_s": rounded_option(flow.first_after(to), 3),
        "second_2_of_before": rounded_option(second.zip(before).map(|(s, b)| s / b), 4),
        "meanwhile_of_ceiling": rounded_option(meanwhile.map(|mbps| mbps / ceiling), 4),
    })
}

/// Returns the figures of what was sent beside the flow; with `stalls` as they would have been at
/// best had nothing stood still.
fn of_beside(scene: &Scene, run: &BulkRun, stalls: Option<&Stalls>) -> Value {
    let best = stalls.map(|stalls| run.beside.at_best(stalls));
    let beside = best.as_ref().unwrap_or(&run.beside);
    let requests = run.requests.as_ref();
    let requests = requests.map_or_else(|| json!({}), |all| all.figures(scene, stalls));
    merged([ping(beside, scene.seconds), control(scene, beside), requests])
}

/// Returns the round trips of the pings beside the flow; those that came back.
fn ping(beside: &StreamRun, seconds: f64) -> Value {
    let Some(pings) = beside.ledger(Direction::Down).flow(Stream::Ping, PING) else {
        return json!({});
    };
    let sent: Vec<_> = pings.messages().filter(|(sent, _)| *sent < seconds).collect();
    let mut delays: Vec<f64> = sent.iter().filter_map(|(_, delay)| *delay).collect();
    delays.sort_by(f64::total_cmp);
    let milliseconds = |p| rounded_option(percentile(&delays, p).map(|s| s * 1e3), 3);
    let lost = (sent.len() - delays.len()) as f64 / sent.len().max(1) as f64;
    json!({
        "ping_p50_ms": milliseconds(0.5),
        "ping_p99_ms": milliseconds(0.99),
        "ping_lost_share": rounded(lost, 4),
    })
}

/// Returns how much control was lost or late beside the flow, each way.
fn control(scene: &Scene, beside: &StreamRun) -> Value {
    if scene.control_hz == 0.0 {
        return json!({});
    }
    let [up, down] = Direction::BOTH.map(|direction| {
        let ledger = beside.ledger(direction).stream(Stream::Control);
        let control = ControlFigures::new(ledger, scene.seconds, None);
        let missed = control.control_lost + control.control_late_100ms;
        json!({"control_sent": control.control_sent, "control_missed": missed})
    });
    json!({"up": up, "down": down})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_pooled_by_their_median_and_the_least_is_kept() {
        let row = |goodput: f64, timeouts: Option<u64>, error: f64| {
            json!({
                "scheme": "fulmar", "skipped": null, "goodput_mbps": goodput, "least_mbps": goodput,
                "tcp_timeouts": timeouts, "down": {"control_missed": 4},
                "error": {"goodput_mbps": error},
            })
        };
        let rows = [row(25.0, Some(1), 0.1), row(23.0, None, 0.4), row(26.0, Some(2), 0.2)];
        let all = pooled(&rows, 7, true);
        assert_eq!((&all["goodput_mbps"], &all["least_mbps"]), (&json!(25.0), &json!(23.0)));
        assert_eq!((&all["scheme"], &all["tcp_timeouts"]), (&json!("fulmar"), &json!(1.5)));
        assert_eq!(all["down"]["control_missed"], json!(4.0));
        assert_eq!((&all["error"]["goodput_mbps"], &all["skipped"]), (&json!(0.4), &Value::Null));
        assert_eq!(all["by_seed"][2]["seed"], json!(9));
        assert_eq!(pooled(&rows, 7, false)["goodput_mbps"], json!(24.666667));
        assert_eq!(pooled(&rows[..1], 7, true)["tcp_timeouts"], json!(1));
    }
}
