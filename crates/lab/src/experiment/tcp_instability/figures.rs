//! Turns the flows of a meeting into the figures of a report.
//!
//! ```text
//! throughput_mbps      median over the repetitions of the mean over the seconds
//! throughput_std_mbps  the same of the standard deviation of single seconds
//! ratio_to_cubic       median of: throughput ÷ that of the CUBIC flow beside it
//! run_mbps, run_cubic_mbps, run_ratio, run_jain
//!                      means over all repetitions, the ratio and Jain's index of the two; their
//!                      intervals are where those of one run of 600 s lie, as the paper's are
//!                      [ASRAN §5.1]
//! cubic_kept           median of: the CUBIC flow beside it ÷ the CUBIC flow that had the same UAV
//!                      and the same outages, but CUBIC beside it
//! cubic_kept_mean      mean of the CUBIC flows beside it ÷ mean of the CUBIC flows beside CUBIC
//! ..._interval         where the figure lies with 95 % confidence
//! cubic_srtt_ms, cubic_recoveries, cubic_timeouts
//!                      what happens to the CUBIC flow beside it: how it could lose throughput
//! ```
//! `cubic_kept` compares flow with flow, so that it is 1 where nothing changes, however the
//! throughput is distributed: over the mean of the two flows beside each other it would be less.

use serde_json::{Value, json};

use super::meeting::{Encounter, changed_places};
use super::offered::{OFFERED_PAYLOAD, OfferedCdf};
use crate::report::{merged, rounded, rounded_option};
use crate::scheme::Scheme;
use crate::statistics::{
    drawn_interval, jain_index, mean, median, median_interval, ratio_of_means,
    ratio_of_means_interval, standard_deviation,
};
use crate::testbed::tcp_flow::FlowRun;

/// The kernel's number of the state of fast recovery.
pub(super) const RECOVERY: u8 = 3;
/// The kernel's number of the state after a timeout.
pub(super) const LOSS: u8 = 4;

/// How long the paper's one run of each table is, seconds [ASRAN §5.1.2].
const PAPERS_RUN_S: usize = 600;

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
    let cubic_pairs = of(Scheme::CUBIC);
    let row = |scheme: &Scheme| {
        let figures = match *scheme {
            Scheme::UDP => constant_figures(&of(*scheme)),
            _ => {
                let own = of(*scheme);
                let [flow, run] = [flow_figures(&own, seed, &cubic_pairs), run_figures(&own)];
                merged([flow, run, kept_figures(&own, &cubic_pairs)])
            }
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
fn flow_figures(encounters: &[&Encounter], seed: u64, cubic_pairs: &[&Encounter]) -> Value {
    let own = |figure: &dyn Fn(&FlowRun) -> f64| -> Option<f64> {
        median(&encounters.iter().map(|one| figure(&one.own)).collect::<Vec<_>>())
    };
    let beside = |figure: &dyn Fn(&FlowRun) -> f64| -> Option<f64> {
        let flows = encounters.iter().filter_map(|one| one.beside.as_ref());
        median(&flows.map(figure).collect::<Vec<_>>())
    };
    let ratios: Vec<f64> = encounters.iter().filter_map(|one| ratio(one)).collect();
    let jain: Vec<f64> = encounters.iter().filter_map(|one| jain(one)).collect();
    let drops: Vec<f64> = encounters.iter().map(|one| one.queue_drops as f64).collect();
    let repetitions: Vec<Value> =
        encounters.iter().map(|one| repetition(one, seed, cubic_pairs)).collect();
    json!({
        "throughput_mbps": rounded_option(own(&throughput), 4),
        "throughput_std_mbps": rounded_option(own(&spread), 4),
        "cubic_mbps": rounded_option(beside(&throughput), 4),
        "cubic_std_mbps": rounded_option(beside(&spread), 4),
        "ratio_to_cubic": rounded_option(median(&ratios), 4),
        "ratio_to_cubic_interval": interval(median_interval(&ratios)),
        "jain": rounded_option(median(&jain), 4),
        "zero_share": rounded_option(own(&zero_share), 4),
        "cubic_zero_share": rounded_option(beside(&zero_share), 4),
        "srtt_ms": rounded_option(own(&mean_srtt_ms), 2),
        "cubic_srtt_ms": rounded_option(beside(&mean_srtt_ms), 2),
        "recoveries": rounded_option(own(&|flow| entered(flow, RECOVERY)), 1),
        "cubic_recoveries": rounded_option(beside(&|flow| entered(flow, RECOVERY)), 1),
        "timeouts": rounded_option(own(&|flow| entered(flow, LOSS)), 1),
        "cubic_timeouts": rounded_option(beside(&|flow| entered(flow, LOSS)), 1),
        "retransmits": rounded_option(own(&retransmits), 1),
        "queue_drops": rounded_option(median(&drops), 1),
        "by_repetition": repetitions,
    })
}

/// Figures of a run as the paper has one, drawn from the repetitions.
fn run_figures(encounters: &[&Encounter]) -> Value {
    let both = |one: &&Encounter| Some((throughput(&one.own), throughput(one.beside.as_ref()?)));
    let pairs: Vec<(f64, f64)> = encounters.iter().filter_map(both).collect();
    let seconds = encounters.first().map_or(1, |one| one.own.goodput_mbps.len().max(1));
    let count = (PAPERS_RUN_S / seconds).max(1);
    let means = |drawn: &[(f64, f64)]| {
        let (own, cubic): (Vec<f64>, Vec<f64>) = drawn.iter().copied().unzip();
        Some([mean(&own)?, mean(&cubic)?])
    };
    let own = |drawn: &[(f64, f64)]| means(drawn).map(|[own, _]| own);
    let cubic = |drawn: &[(f64, f64)]| means(drawn).map(|[_, cubic]| cubic);
    let jain = |drawn: &[(f64, f64)]| jain_index(&means(drawn)?);
    json!({
        "run_mbps": rounded_option(own(&pairs), 4),
        "run_mbps_interval": interval(drawn_interval(&pairs, count, own)),
        "run_cubic_mbps": rounded_option(cubic(&pairs), 4),
        "run_cubic_mbps_interval": interval(drawn_interval(&pairs, count, cubic)),
        "run_ratio": rounded_option(ratio_of_means(&pairs), 4),
        "run_ratio_interval": interval(drawn_interval(&pairs, count, ratio_of_means)),
        "run_jain": rounded_option(jain(&pairs), 4),
        "run_jain_interval": interval(drawn_interval(&pairs, count, jain)),
    })
}

/// Figures of what the CUBIC flow beside a flow gets, over what it gets beside CUBIC.
fn kept_figures(encounters: &[&Encounter], cubic_pairs: &[&Encounter]) -> Value {
    let flows: Vec<f64> = encounters.iter().filter_map(|one| kept(one, cubic_pairs)).collect();
    // Beside each other both are CUBIC flows, whichever of them counts as the scheme's.
    let of_repetition = |one: &&Encounter| {
        let pair = pair_of(one, cubic_pairs)?;
        let both = mean(&[throughput(&pair.own), throughput(pair.beside.as_ref()?)])?;
        Some((throughput(one.beside.as_ref()?), both))
    };
    let means: Vec<(f64, f64)> = encounters.iter().filter_map(of_repetition).collect();
    json!({
        "cubic_kept": rounded_option(median(&flows), 4),
        "cubic_kept_interval": interval(median_interval(&flows)),
        "cubic_kept_mean": rounded_option(ratio_of_means(&means), 4),
        "cubic_kept_mean_interval": interval(ratio_of_means_interval(&means)),
    })
}

/// Returns what the CUBIC flow beside gets, over what the CUBIC flow of the same UAV gets beside
/// CUBIC under the same outages.
fn kept(encounter: &Encounter, cubic_pairs: &[&Encounter]) -> Option<f64> {
    let beside_cubic = throughput(pair_of(encounter, cubic_pairs)?.beside.as_ref()?);
    let beside = throughput(encounter.beside.as_ref()?);
    (beside_cubic > 0.0).then(|| beside / beside_cubic)
}

/// Finds the two CUBIC flows that met the same outages.
fn pair_of<'a>(encounter: &Encounter, cubic_pairs: &[&'a Encounter]) -> Option<&'a Encounter> {
    cubic_pairs.iter().find(|pair| pair.repetition == encounter.repetition).copied()
}

/// Writes an interval down: two digits, more than which no run tells.
fn interval(interval: Option<(f64, f64)>) -> Value {
    interval.map_or(Value::Null, |(low, high)| json!([rounded(low, 2), rounded(high, 2)]))
}

fn repetition(encounter: &Encounter, seed: u64, cubic_pairs: &[&Encounter]) -> Value {
    json!({
        "seed": seed + encounter.repetition,
        "uav": if changed_places(encounter.repetition) { 2 } else { 1 },
        "throughput_mbps": rounded(throughput(&encounter.own), 4),
        "cubic_mbps": rounded_option(encounter.beside.as_ref().map(throughput), 4),
        "throughput_std_mbps": rounded(spread(&encounter.own), 4),
        "cubic_std_mbps": rounded_option(encounter.beside.as_ref().map(spread), 4),
        "ratio_to_cubic": rounded_option(ratio(encounter), 4),
        "jain": rounded_option(jain(encounter), 4),
        "cubic_kept": rounded_option(kept(encounter, cubic_pairs), 4),
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

/// Returns Jain's index of the two flows of a network.
fn jain(encounter: &Encounter) -> Option<f64> {
    let beside = encounter.beside.as_ref().map_or(0.0, throughput);
    jain_index(&[throughput(&encounter.own), beside])
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

fn mean_srtt_ms(flow: &FlowRun) -> f64 {
    flow.mean_srtt_ms(0.0).unwrap_or(f64::NAN)
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
            encounter(Scheme::CUBIC, 0, 1.0, 1.2),
            encounter(Scheme::ASRAN_CUBIC, 0, 2.0, 1.0),
            encounter(Scheme::CUBIC, 1, 0.8, 1.0),
            encounter(Scheme::ASRAN_CUBIC, 1, 1.8, 0.9),
        ];
        let schemes = [Scheme::CUBIC, Scheme::ASRAN_CUBIC];
        let rows = rows(&schemes, &encounters, 7, &json!({"rtt_ms": 200.0}));
        let asran = &rows[1];
        assert_eq!((&asran["scheme"], &asran["rtt_ms"]), (&json!("asran_cubic"), &json!(200.0)));
        assert_eq!((&asran["throughput_mbps"], &asran["cubic_mbps"]), (&json!(1.9), &json!(0.95)));
        assert_eq!(asran["ratio_to_cubic"], 2.0);
        // The CUBIC flows that had the same UAV, beside CUBIC, had 1.2 and 1.0; all four 1.0 in the
        // mean.
        let kept = asran["cubic_kept"].as_f64().expect("a number");
        assert!((kept - (1.0 / 1.2 + 0.9) / 2.0).abs() < 1e-4, "{kept}");
        assert_eq!(
            (&asran["cubic_kept_mean"], &rows[0]["cubic_kept"]),
            (&json!(0.95), &json!(1.0))
        );
        assert_eq!(asran["cubic_kept_interval"], Value::Null, "two repetitions tell nothing");
        assert_eq!((&asran["zero_share"], &asran["cubic_zero_share"]), (&json!(0.5), &json!(0.0)));
        assert_eq!(
            asran["by_repetition"][1],
            json!({
                "seed": 8, "uav": 2, "throughput_mbps": 1.8, "cubic_mbps": 0.9,
                "throughput_std_mbps": 2.5456, "cubic_std_mbps": 0.0, "ratio_to_cubic": 2.0, "jain": 0.9,
                "cubic_kept": 0.9, "cwnd_max": 0, "timeouts": 0.0, "cubic_timeouts": 0.0, "queue_drops": 0,
            })
        );
    }
}
