//! What the machine's stalls can have done to figures of flows that meet.
//!
//! A stall of a share s of its time makes a flow's throughput wrong by that share at most. So every
//! figure is computed again with each throughput as large or as small as it may have been: those of
//! schemes, of the CUBIC flows beside them, and of the two CUBIC flows beside each other, each
//! group up or down as a whole. Medians, means and ratios lie between what comes of that.

use serde_json::{Value, json};

use super::meeting::{Encounter, FIGURES};
use crate::doubt::add_errors_of_time;
use crate::figure::Figure;
use crate::report::rounded;
use crate::scheme::Scheme;

/// Figures that do not follow from throughputs: the worst repetition speaks for all.
const OTHERS: [&str; 4] = ["zero_share", "recoveries", "timeouts", "retransmits"];
/// Combinations of four groups of flows, each up or down.
const CORNERS: u8 = 16;

/// Adds an object `error` to each result; `rows` computes the results of encounters.
pub(super) fn add_errors(
    results: &mut [Value],
    encounters: &[Encounter],
    rows: impl Fn(&[Encounter]) -> Vec<Value>,
) {
    let at = |corner: u8| {
        let moved: Vec<Encounter> = encounters.iter().map(|one| moved(one, corner)).collect();
        rows(&moved)
    };
    let corners: Vec<Vec<Value>> = (0..CORNERS).map(at).collect();
    let worst = encounters.iter().map(|one| one.doubt).fold(0.0, f64::max);
    for (place, result) in results.iter_mut().enumerate() {
        add_errors_of_time(result, worst, &FIGURES);
        let follows = |figure: &&Figure| !figure.is_exact && !OTHERS.contains(&figure.key);
        for Figure { key, .. } in FIGURES.iter().filter(follows) {
            let Some(seen) = result[*key].as_f64() else { continue };
            let others = corners.iter().filter_map(|rows| rows[place][*key].as_f64());
            let error = others.map(|other| (other - seen).abs()).fold(0.0, f64::max);
            result["error"][*key] = json!(rounded(error, 6));
        }
    }
}

/// Returns an encounter whose flows got as much more or less as stalls can have made of it.
fn moved(encounter: &Encounter, corner: u8) -> Encounter {
    let mut moved = encounter.clone();
    let first = if encounter.scheme == Scheme::CUBIC { 2 } else { 0 };
    let flows = [Some(&mut moved.own), moved.beside.as_mut()];
    for (group, flow) in flows.into_iter().enumerate() {
        let sign = if corner >> (first + group) & 1 == 1 { 1.0 } else { -1.0 };
        let goodput = flow.into_iter().flat_map(|flow| &mut flow.goodput_mbps);
        goodput.for_each(|mbps| *mbps *= 1.0 + sign * encounter.doubt);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::super::figures;
    use super::*;
    use crate::testbed::tcp_flow::FlowRun;

    /// Three repetitions of Reno at 2 Mbit/s, and of CUBIC at 1 and 1; the last stood still.
    fn encounters(shares: [f64; 3]) -> Vec<Encounter> {
        let flow = |mbps| FlowRun { goodput_mbps: vec![mbps; 10], ..FlowRun::default() };
        let of = |(repetition, doubt): (u64, f64)| {
            [(Scheme::RENO, 2.0), (Scheme::CUBIC, 1.0)].map(|(scheme, mbps)| {
                let flows = vec![flow(mbps), flow(1.0)];
                Encounter { doubt, ..Encounter::of(scheme, repetition, flows, 0) }
            })
        };
        // The same place in each, so that the flow of the scheme is the first.
        [0, 2, 4].into_iter().zip(shares).flat_map(of).collect()
    }

    fn error(shares: [f64; 3], key: &str) -> f64 {
        let encounters = encounters(shares);
        let schemes = [Scheme::RENO, Scheme::CUBIC];
        let rows = |encounters: &[Encounter]| figures::rows(&schemes, encounters, 1, &json!({}));
        let mut results = rows(&encounters);
        add_errors(&mut results, &encounters, rows);
        results[0]["error"][key].as_f64().expect("an error")
    }

    #[test]
    fn a_median_is_wrong_by_what_stalls_can_do_to_it_and_not_by_the_worst_repetition() {
        let all = [0.1; 3];
        assert!((error(all, "throughput_mbps") - 0.2).abs() < 1e-9, "a tenth of 2 Mbit/s");
        assert!((error(all, "ratio_to_cubic") - 2.0 * (1.1 / 0.9 - 1.0)).abs() < 1e-4);
        assert!((error(all, "cubic_kept") - (1.1 / 0.9 - 1.0)).abs() < 1e-4);
        let one = [0.0, 0.0, 0.1];
        assert!(error(one, "throughput_mbps") < 1e-9, "the median is another repetition's");
        assert!(error(one, "run_ratio") > 0.0, "a mean is of all of them");
    }
}
