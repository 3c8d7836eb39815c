//! From the flows of a meeting to the figures of a report.
//!
//! ```text
//! throughput_mbps      median over the repetitions of the mean over the seconds
//! throughput_std_mbps  the same of the standard deviation of single seconds
//! ratio_to_cubic       median of: throughput ÷ that of the CUBIC flow beside it
//! cubic_kept           median of the CUBIC flow beside it ÷ median of CUBIC flows beside CUBIC
//! ```

use serde_json::{Value, json};

use super::{Encounter, changed_places};
use crate::emu::FlowRun;
use crate::instability::{OFFERED_PAYLOAD, OfferedCdf};
use crate::report::{merged, rounded, rounded_option};
use crate::scheme::Scheme;
use crate::statistics::{jain_index, mean, median, standard_deviation};

/// The kernel's number of the state of fast recovery.
const RECOVERY: u8 = 3;
/// The kernel's number of the state after a timeout.
const LOSS: u8 = 4;

/// Returns a row for each scheme of a point.
pub(super) fn rows(
    schemes: &[Scheme],
    encounters: &[Encounter],
    seed: u64,
    point: &Value,
) -> Vec<Value> {
    let of = |scheme: Scheme| -> Vec<&Encounter> {
        encounters.iter().filter(|encounter| encounter.scheme == scheme).collect()
    };
    // Beside each other both are CUBIC flows, whichever of them counts as the scheme's.
    let pairs = of(Scheme::Cubic);
    let both = pairs.iter().flat_map(|pair| core::iter::once(&pair.own).chain(&pair.beside));
    let beside_cubic = median(&both.map(throughput).collect::<Vec<_>>());
    let row = |scheme: &Scheme| {
        let figures = match scheme {
            Scheme::Udp => constant_figures(&of(*scheme)),
            _ => flow_figures(&of(*scheme), seed, beside_cubic),
        };
        merged([json!({"scheme": scheme}), point.clone(), figures])
    };
    schemes.iter().map(row).collect()
}

/// Figures of the flow of constant rate: what the hop is like.
fn constant_figures(encounters: &[&Encounter]) -> Value {
    let datagrams = |mbps: &f64| (mbps * 1e6 / 8.0 / OFFERED_PAYLOAD as f64).round() as u64;
    let seconds = encounters.iter().flat_map(|encounter| &encounter.own.goodput_mbps);
    let all: Vec<f64> = seconds.copied().collect();
    let cdf = OfferedCdf::of(&all.iter().map(datagrams).collect::<Vec<_>>());
    let own = json!({
        "throughput_mbps": rounded_option(mean(&all), 4),
        "throughput_std_mbps": rounded_option(standard_deviation(&all), 4),
    });
    merged([own, cdf.figures()])
}

/// Figures of a TCP flow and of the CUBIC flow beside it.
fn flow_figures(encounters: &[&Encounter], seed: u64, beside_cubic: Option<f64>) -> Value {
    let own = |figure: &dyn Fn(&FlowRun) -> f64| -> Option<f64> {
        median(&encounters.iter().map(|one| figure(&one.own)).collect::<Vec<_>>())
    };
    let beside = |figure: &dyn Fn(&FlowRun) -> f64| -> Option<f64> {
        let flows = encounters.iter().filter_map(|one| one.beside.as_ref());
        median(&flows.map(figure).collect::<Vec<_>>())
    };
    let ratios: Vec<f64> = encounters.iter().filter_map(|one| ratio(one)).collect();
    let shares = |one: &&Encounter| {
        jain_index(&[throughput(&one.own), one.beside.as_ref().map_or(0.0, throughput)])
    };
    let jain: Vec<f64> = encounters.iter().filter_map(shares).collect();
    let cubic = beside(&throughput);
    let kept =
        cubic.zip(beside_cubic).map(|(next_to_it, next_to_cubic)| next_to_it / next_to_cubic);
    let drops: Vec<f64> = encounters.iter().map(|one| one.queue_drops as f64).collect();
    let repetitions: Vec<Value> = encounters.iter().map(|one| repetition(one, seed)).collect();
    json!({
        "throughput_mbps": rounded_option(own(&throughput), 4),
        "throughput_std_mbps": rounded_option(own(&spread), 4),
        "cubic_mbps": rounded_option(cubic, 4),
        "cubic_std_mbps": rounded_option(beside(&spread), 4),
        "ratio_to_cubic": rounded_option(median(&ratios), 4),
        "cubic_kept": rounded_option(kept, 4),
        "jain": rounded_option(median(&jain), 4),
        "zero_share": rounded_option(own(&zero_share), 4),
        "cubic_zero_share": rounded_option(beside(&zero_share), 4),
        "srtt_ms": rounded_option(own(&|flow| flow.mean_srtt_ms(0.0).unwrap_or(f64::NAN)), 2),
        "recoveries": rounded_option(own(&|flow| entered(flow, RECOVERY)), 1),
        "timeouts": rounded_option(own(&|flow| entered(flow, LOSS)), 1),
        "retransmits": rounded_option(own(&retransmits), 1),
        "queue_drops": rounded_option(median(&drops), 1),
        "by_repetition": repetitions,
    })
}

fn repetition(encounter: &Encounter, seed: u64) -> Value {
    json!({
        "seed": seed + encounter.repetition,
        "uav": if changed_places(encounter.repetition) { 2 } else { 1 },
        "throughput_mbps": rounded(throughput(&encounter.own), 4),
        "cubic_mbps": rounded_option(encounter.beside.as_ref().map(throughput), 4),
        "ratio_to_cubic": rounded_option(ratio(encounter), 4),
        "cwnd_max": cwnd_max(&encounter.own),
        "timeouts": entered(&encounter.own, LOSS),
        "cubic_timeouts": encounter.beside.as_ref().map(|flow| entered(flow, LOSS)),
        "queue_drops": encounter.queue_drops,
    })
}

/// Returns the flow's throughput over that of the CUBIC flow beside it.
fn ratio(encounter: &Encounter) -> Option<f64> {
    let beside = throughput(encounter.beside.as_ref()?);
    (beside > 0.0).then(|| throughput(&encounter.own) / beside)
}

fn throughput(flow: &FlowRun) -> f64 {
    flow.mean_goodput_mbps(0)
}

fn spread(flow: &FlowRun) -> f64 {
    standard_deviation(&flow.goodput_mbps).unwrap_or(0.0)
}

fn cwnd_max(flow: &FlowRun) -> u32 {
    flow.samples.iter().map(|sample| sample.info.cwnd).max().unwrap_or(0)
}

/// Counts what was sent again since the first sample.
fn retransmits(flow: &FlowRun) -> f64 {
    let before = flow.samples.first().map_or(0, |sample| sample.info.retransmits);
    f64::from(flow.retransmits() - before)
}

fn zero_share(flow: &FlowRun) -> f64 {
    let zero = flow.goodput_mbps.iter().filter(|mbps| **mbps == 0.0).count();
    zero as f64 / flow.goodput_mbps.len().max(1) as f64
}

/// Counts how often the samples show that the connection has entered a state.
fn entered(flow: &FlowRun, state: u8) -> f64 {
    let states = flow.samples.windows(2).map(|pair| (pair[0].info.state, pair[1].info.state));
    states.filter(|(before, after)| *before != state && *after == state).count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(goodput_mbps: &[f64]) -> FlowRun {
        FlowRun { goodput_mbps: goodput_mbps.to_vec(), ..FlowRun::default() }
    }

    fn encounter(scheme: Scheme, repetition: u64, own: f64, beside: f64) -> Encounter {
        let flows = match changed_places(repetition) {
            true => vec![flow(&[beside, beside]), flow(&[0.0, 2.0 * own])],
            false => vec![flow(&[0.0, 2.0 * own]), flow(&[beside, beside])],
        };
        Encounter::of(scheme, repetition, flows, 0)
    }

    #[test]
    fn flows_are_told_apart_wherever_they_were() {
        let encounters = [
            encounter(Scheme::Cubic, 0, 1.0, 1.2),
            encounter(Scheme::AsranCubic, 0, 2.0, 1.0),
            encounter(Scheme::Cubic, 1, 0.8, 1.0),
            encounter(Scheme::AsranCubic, 1, 1.8, 0.9),
        ];
        let schemes = [Scheme::Cubic, Scheme::AsranCubic];
        let rows = rows(&schemes, &encounters, 7, &json!({"rtt_ms": 200.0}));
        let asran = &rows[1];
        assert_eq!((&asran["scheme"], &asran["rtt_ms"]), (&json!("asran_cubic"), &json!(200.0)));
        assert_eq!((&asran["throughput_mbps"], &asran["cubic_mbps"]), (&json!(1.9), &json!(0.95)));
        assert_eq!(asran["ratio_to_cubic"], 2.0);
        // The four CUBIC flows beside CUBIC had 0.8, 1.0, 1.0 and 1.2.
        assert_eq!(asran["cubic_kept"], 0.95);
        assert_eq!((&asran["zero_share"], &asran["cubic_zero_share"]), (&json!(0.5), &json!(0.0)));
        assert_eq!(
            asran["by_repetition"][1],
            json!({
                "seed": 8, "uav": 2, "throughput_mbps": 1.8, "cubic_mbps": 0.9, "ratio_to_cubic": 2.0,
                "cwnd_max": 0, "timeouts": 0.0, "cubic_timeouts": 0.0, "queue_drops": 0,
            })
        );
    }
}
