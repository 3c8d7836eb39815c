//! Turns flights into rows: one for each region, scheme, congestion control and seed.

use serde_json::{Value, json};

use super::emu::Outcome;
use super::field::{Field, Links, Share};
use super::{Cc, Flow, Point, is_relayed, paper};
use crate::doubt::add_errors_of_time;
use crate::figure::Figure;
use crate::report::{rounded, rounded_option};
use crate::scheme::Scheme;
use crate::statistics::{mean, median, standard_deviation};
use crate::traces::synth::Pass;
use emulator::Stalls;

/// The columns of the table.
pub(super) const FIGURES: [Figure; 27] = [
    Figure::new("scheme", "scheme"),
    Figure::new("cc", "cc"),
    Figure::new("region", "region"),
    Figure::new("k", "k").exact(),
    Figure::new("f", "f").exact(),
    Figure::new("passes", "passes").exact(),
    Figure::new("goodput_mbps", "Mbit/s"),
    Figure::new("goodput_sd_mbps", "sd"),
    Figure::new("range_m", "range m"),
    Figure::new("range_sd_m", "sd"),
    Figure::new("efficiency", "efficiency"),
    Figure::new("efficiency_tcp", "of TCP's share"),
    Figure::new("range_share", "of range"),
    Figure::new("achievable_mbps", "achievable").exact(),
    Figure::new("achievable_sd_mbps", "sd").exact(),
    Figure::new("achievable_range_m", "range m").exact(),
    Figure::new("achievable_range_sd_m", "sd").exact(),
    Figure::new("efficiency_all", "all passes"),
    Figure::new("predicted_mbps", "predicted").exact(),
    Figure::new("goodput_over_lrr", "over tcp_lrr").ratio(),
    Figure::new("range_over_lrr", "range over").ratio(),
    Figure::new("paper_mbps", "paper Mbit/s").exact(),
    Figure::new("paper_range_m", "range m").exact(),
    Figure::new("paper_achievable_mbps", "achievable").exact(),
    Figure::new("paper_achievable_range_m", "range m").exact(),
    Figure::new("paper_efficiency", "efficiency").exact(),
    Figure::new("skipped", "skipped"),
];

/// What results have beside these.
pub(super) const MORE: [Figure; 13] = [
    Figure::new("goodput_read_mbps", "while reading"),
    Figure::new("direction", "direction"),
    Figure::new("links", "links"),
    Figure::new("seed", "seed").exact(),
    Figure::new("efficiencies", "efficiencies"),
    Figure::new("goodputs_mbps", "of each pass"),
    Figure::new("predicted_each_mbps", "predicted").exact(),
    Figure::new("tcp_retransmits", "sent again"),
    Figure::new("tcp_timeouts", "timeouts"),
    Figure::new("shim_repeats", "repeats"),
    Figure::new("relay_frames", "frames"),
    Figure::new("relay_repeats", "combinations"),
    Figure::new("relay_given_up", "given up"),
];

/// What could have been carried in a pass, what was, and what the trace alone foretells.
struct Passed<'a> {
    region: &'a str,
    achievable: Share,
    delivered: Share,
    predicted: Option<Share>,
}

impl<'a> Passed<'a> {
    fn of(
        field: &Field,
        flow: &Flow,
        predicted: &Option<Vec<u64>>,
        links: &Links,
        pass: &'a Pass,
    ) -> Self {
        Self {
            region: &pass.region,
            achievable: field.achievable(links, pass),
            delivered: field.delivered(&flow.delivered, pass),
            predicted: predicted.as_ref().map(|slots| field.share(slots, pass)),
        }
    }

    /// Returns what was read of all that was achievable, headers among it [FlowCode §V]; none where
    /// nothing was.
    fn efficiency(&self) -> Option<f64> {
        let most = self.achievable.bytes;
        (most > 0.0).then(|| self.delivered.bytes / most)
    }

    /// Returns what was read in the seconds in which anything was achievable.
    fn goodput_mbps(&self) -> f64 {
        mbps(&Share { bytes: self.delivered.bytes, ..self.achievable })
    }
}

/// What a flight that was not flown has not.
const MEASURED: [&str; 15] = [
    "goodput_read_mbps",
    "efficiency_tcp",
    "goodput_mbps",
    "goodput_sd_mbps",
    "range_m",
    "range_sd_m",
    "efficiency",
    "range_share",
    "efficiency_all",
    "efficiencies",
    "goodputs_mbps",
    "tcp_retransmits",
    "tcp_timeouts",
    "shim_repeats",
    "relay_frames",
];

/// Returns the rows of a flight, one for each region.
pub(super) fn rows(field: &Field, point: &Point, cc: Cc, flow: &Flow, seed: u64) -> Vec<Value> {
    let links = field.links(point.scheme);
    let payload = flow.payload_share * field.flown.flight.air.packet_bytes as f64;
    let predicted = field.predicted(point, cc, payload.round() as u64);
    let passes: Vec<_> =
        links.passes.iter().map(|pass| Passed::of(field, flow, &predicted, links, pass)).collect();
    let all = efficiencies(field, point, flow);
    let mut regions: Vec<&str> = passes.iter().map(|pass| pass.region).collect();
    regions.sort_unstable();
    regions.dedup();
    let row = |region: &str| {
        let own: Vec<_> = passes.iter().filter(|pass| pass.region == region).collect();
        let of = |value: &dyn Fn(&Passed<'_>) -> f64| -> Vec<f64> {
            own.iter().map(|pass| value(pass)).collect()
        };
        let goodput = of(&|pass| pass.goodput_mbps());
        let reading = of(&|pass| mbps(&pass.delivered));
        let range = of(&|pass| pass.delivered.way_m);
        let most = of(&|pass| mbps(&pass.achievable));
        let most_range = of(&|pass| pass.achievable.way_m);
        let foretold: Vec<f64> =
            own.iter().filter_map(|pass| pass.predicted.as_ref().map(mbps)).collect();
        let efficiencies: Vec<f64> = own.iter().filter_map(|pass| pass.efficiency()).collect();
        let each = |values: &[f64]| values.iter().map(|one| rounded(*one, 4)).collect::<Vec<_>>();
        let has_shim = matches!(point.scheme, Scheme::TCP_LRR | Scheme::TCP_LRR_IDEAL);
        let printed = paper::row(point.scheme, region);
        let share = mean(&range).zip(mean(&most_range)).map(|(range, most)| range / most);
        json!({
            "scheme": point.scheme,
            "cc": cc.name(),
            "region": region,
            "links": links.name,
            "direction": point.direction.name(),
            "seed": seed,
            "k": is_relayed(point.scheme).then_some(point.k),
            "f": (point.scheme == Scheme::FLOWCODE).then_some(point.f),
            "passes": own.len(),
            "goodput_mbps": rounded_option(mean(&goodput), 4),
            "goodput_sd_mbps": rounded_option(standard_deviation(&goodput), 4),
            "range_m": rounded_option(mean(&range), 1),
            "range_sd_m": rounded_option(standard_deviation(&range), 1),
            "efficiency": rounded_option(median(&efficiencies), 4),
            "efficiency_tcp": rounded_option(of_tcp(median(&efficiencies), flow), 4),
            "goodput_read_mbps": rounded_option(mean(&reading), 4),
            "range_share": rounded_option(share, 4),
            "achievable_mbps": rounded_option(mean(&most), 4),
            "achievable_sd_mbps": rounded_option(standard_deviation(&most), 4),
            "achievable_range_m": rounded_option(mean(&most_range), 1),
            "achievable_range_sd_m": rounded_option(standard_deviation(&most_range), 1),
            "efficiency_all": rounded_option(median(&all), 4),
            "predicted_mbps": rounded_option(mean(&foretold), 4),
            "efficiencies": each(&efficiencies),
            "goodputs_mbps": each(&reading),
            "predicted_each_mbps": each(&foretold),
            "goodput_over_lrr": null,
            "range_over_lrr": null,
            "paper_mbps": printed.map(|row| row.goodput_mbps.0),
            "paper_range_m": printed.map(|row| row.range_m.0),
            "paper_achievable_mbps": printed.map(|row| row.achievable_mbps.0),
            "paper_achievable_range_m": printed.map(|row| row.achievable_range_m.0),
            "paper_efficiency": paper::efficiency(point.scheme),
            "tcp_retransmits": flow.retransmits,
            "tcp_timeouts": flow.timeouts,
            "shim_repeats": has_shim.then_some(flow.repeats),
            "relay_frames": flow.sent.map(|sent| sent.frames),
            "relay_repeats": flow.sent.map(|sent| sent.repeats),
            "relay_given_up": flow.sent.map(|sent| sent.given_up),
            "skipped": null,
        })
    };
    regions.into_iter().map(row).collect()
}

/// Returns the rows of a flight in real time: with errors, or with why there was none.
pub(super) fn rows_in_real_time(
    field: &Field,
    point: &Point,
    cc: Cc,
    (outcome, stalls): (&Outcome, &Stalls),
    seed: u64,
) -> Vec<Value> {
    let nothing = Flow::default();
    let mut rows = rows(field, point, cc, outcome.as_ref().unwrap_or(&nothing), seed);
    let declared: Vec<Figure> = FIGURES.into_iter().chain(MORE).collect();
    for row in &mut rows {
        match outcome {
            Ok(_) => {
                let share = stalls.reached_share(0.0, field.seconds());
                add_errors_of_time(row, share, &declared);
            }
            Err(why) => {
                MEASURED.iter().for_each(|key| row[*key] = Value::Null);
                row["skipped"] = json!(why);
            }
        }
    }
    rows
}

/// Returns the efficiency of each pass in which anything was achievable, by the paper's definition.
pub(super) fn efficiencies(field: &Field, point: &Point, flow: &Flow) -> Vec<f64> {
    let links = field.links(point.scheme);
    let of_pass = |pass| {
        let most = field.achievable(links, pass).bytes;
        (most > 0.0).then(|| field.delivered(&flow.delivered, pass).bytes / most)
    };
    links.passes.iter().filter_map(of_pass).collect()
}

/// Adds to each row how it stands to TCP with low-rate retry in the same region, of the same seed
/// and congestion control.
pub(super) fn compare(rows: &mut [Value]) {
    let others: Vec<Value> =
        rows.iter().filter(|row| row["scheme"] == Scheme::TCP_LRR.name()).cloned().collect();
    for row in rows.iter_mut() {
        let is_same =
            |other: &&Value| ["region", "cc", "seed"].iter().all(|key| other[*key] == row[*key]);
        let Some(other) = others.iter().find(is_same) else { continue };
        for (key, of) in [("goodput_over_lrr", "goodput_mbps"), ("range_over_lrr", "range_m")] {
            let pair = row[of].as_f64().zip(other[of].as_f64());
            row[key] =
                rounded_option(pair.filter(|(_, to)| *to > 0.0).map(|(own, to)| own / to - 1.0), 4);
        }
    }
}

/// Returns a row of medians over the flights for each scheme, congestion control and region, where
/// there are several.
pub(super) fn medians(rows: &[Value]) -> Vec<Value> {
    let mut groups: Vec<Vec<&Value>> = Vec::new();
    for row in rows {
        let is_alike = |group: &&mut Vec<&Value>| {
            ["scheme", "cc", "region", "k", "f"].iter().all(|key| group[0][*key] == row[*key])
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    let of = |group: &Vec<&Value>| {
        let mut row = group[0].clone();
        for (key, value) in row.as_object_mut()?.iter_mut() {
            let all: Vec<f64> = group.iter().filter_map(|row| row[key].as_f64()).collect();
            if group.iter().all(|row| row[key] == group[0][key]) {
                continue;
            }
            if value.is_array() {
                *value = Value::Null;
            } else if value.is_number() || !all.is_empty() {
                let whole = all.len() == group.len();
                *value = json!(rounded_option(median(&all).filter(|_| whole), 4));
            }
        }
        row["seed"] = json!("all");
        row["by_seed"] = json!(group);
        Some(row)
    };
    groups.iter().filter(|group| group.len() > 1).filter_map(of).collect()
}

/// Returns an efficiency of what TCP can have beside its headers; none where nothing was flown.
fn of_tcp(efficiency: Option<f64>, flow: &Flow) -> Option<f64> {
    efficiency.filter(|_| flow.payload_share > 0.0).map(|it| it / flow.payload_share)
}

fn mbps(share: &Share) -> f64 {
    if share.seconds > 0.0 { share.bytes * 8.0 / share.seconds / 1e6 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_flights_have_a_row_of_medians_and_one_has_none() {
        let row = |seed: u64, cc: &str, mbps: Option<f64>| {
            json!({"scheme": "fulmar", "cc": cc, "region": "A", "k": 4, "f": null, "seed": seed,
                   "goodput_mbps": mbps, "efficiencies": [seed], "skipped": null})
        };
        let cubic = [1, 2, 3].map(|seed| row(seed, "cubic", Some(seed as f64)));
        let reno = [1, 2].map(|seed| row(seed, "reno", (seed == 1).then_some(0.5)));
        assert!(medians(&cubic[..1]).is_empty());
        let rows = [&cubic[..], &reno[..]].concat();
        let expected = json!({"scheme": "fulmar", "cc": "cubic", "region": "A", "k": 4, "f": null, "seed": "all",
                              "goodput_mbps": 2.0, "efficiencies": null, "skipped": null, "by_seed": cubic});
        let all = medians(&rows);
        assert_eq!((all.len(), &all[0]), (2, &expected));
        assert_eq!(all[1]["goodput_mbps"], json!(null), "where one of them has none");
    }
}
