//! Success probability and completion time of replicated control packets.
//!
//! ```text
//! P_success   = 1 − ∏ f_i                      f_i: failure of a copy on interface i      (1)
//!             = 1 − fⁿ                         n interfaces of equal f                    (2)
//! T_ideal     = C · Ti                         C packets, one every Ti                    (3)
//! Ti_failure  = k · Ti                         k: failure coefficient                     (4)
//! Ti_recovery = k · Ti / (1 − fⁿ)                                                         (5)
//! T_recovery  = C · fⁿ · Ti_recovery                                                      (6)
//! Tr          = 1 + k · fⁿ / (1 − fⁿ)          completion time ÷ ideal completion time    (7)
//! ```
//! Source: [ConClone §4.2.1].
//!
//! *Deviations from the paper*
//! 1. The bounds on f for Tr < 1.1 are solved from eq. 7 for any k; the paper prints those of
//!    k = 1 where its text says k = 1.5.
//! 2. The paper's ratios 1.5540 and 1.0954 are not what its eq. 7 gives; both are shown.

pub mod channel;
pub mod inertia;
pub mod lifetime;
pub mod outages;

use crate::Check;

/// Interval between control packets in the paper's experiment, seconds [ConClone §5.1].
const INTERVAL_S: f64 = 0.5;
/// Control packets of the paper's experiment [ConClone §5.1].
const PACKETS: u32 = 120;
/// Failure coefficient that the paper fitted to its experiment [ConClone §5.3].
pub const FAILURE_COEFFICIENT: f64 = 1.122;
/// Loss of the paper's experiment [ConClone §5.3].
const LOSS: f64 = 0.284;

/// Returns the probability that at least one copy arrives [ConClone eq. 1].
pub fn success_probability(failures: &[f64]) -> f64 {
    1.0 - failures.iter().product::<f64>()
}

/// Returns eq. 1 for `n` interfaces of equal failure probability [ConClone eq. 2].
pub fn success_probability_equal(f: f64, n: u32) -> f64 {
    1.0 - system_failure(f, n)
}

/// Returns the time that `c` packets take without any failure [ConClone eq. 3].
pub fn ideal_time(c: u32, interval_s: f64) -> f64 {
    f64::from(c) * interval_s
}

/// Returns the time that one failed transmission costs [ConClone eq. 4].
pub fn failure_interval(k: f64, interval_s: f64) -> f64 {
    k * interval_s
}

/// Returns the time until one failed packet is through [ConClone eq. 5].
pub fn recovery_interval(k: f64, interval_s: f64, f: f64, n: u32) -> f64 {
    failure_interval(k, interval_s) / success_probability_equal(f, n)
}

/// Returns the time that the recoveries of `c` packets take together [ConClone eq. 6].
pub fn recovery_time(c: u32, k: f64, interval_s: f64, f: f64, n: u32) -> f64 {
    f64::from(c) * system_failure(f, n) * recovery_interval(k, interval_s, f, n)
}

/// Returns completion time over ideal completion time [ConClone eq. 7].
pub fn completion_ratio(k: f64, f: f64, n: u32) -> f64 {
    1.0 + k * system_failure(f, n) / (1.0 - system_failure(f, n))
}

/// Returns the failure coefficient of a measured Tr: eq. 7 solved for k.
pub fn failure_coefficient(tr: f64, f: f64, n: u32) -> f64 {
    (tr - 1.0) * success_probability_equal(f, n) / system_failure(f, n)
}

/// Returns the greatest f for which Tr stays below `ratio`: eq. 7 solved for f.
pub fn tolerable_loss(k: f64, ratio: f64, n: u32) -> f64 {
    let allowed = ratio - 1.0;
    (allowed / (k + allowed)).powf(f64::from(n).recip())
}

/// Returns every check of the analysis, in the order of its equations.
pub fn checks() -> Vec<Check> {
    let mut checks = replication_checks();
    checks.extend(outages::checks());
    checks.extend(lifetime::checks());
    checks.extend(channel::checks());
    checks.extend(inertia::checks());
    checks
}

/// Compares eq. 1–7 with what the paper prints.
fn replication_checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (n, paper) in [(1, 0.9), (2, 0.99), (3, 0.999)] {
        let ours = success_probability(&vec![0.1; n as usize]);
        let what = format!("P_success, f = 0.1, n = {n}");
        checks.push(Check::new("eq. 1, 2", what, ours, paper, 5e-4));
    }
    for (n, paper) in [(1, 86.702), (2, 65.906)] {
        let ideal = ideal_time(PACKETS, INTERVAL_S);
        let ours = ideal + recovery_time(PACKETS, FAILURE_COEFFICIENT, INTERVAL_S, LOSS, n);
        let what = format!("completion of 120 × 0.5 s, s; f = 0.284, k = 1.122, n = {n}");
        checks.push(Check::new("eq. 3-6", what, ours, paper, 5e-4));
    }
    for (n, paper) in [(1, 1.554), (2, 1.0954)] {
        let ours = completion_ratio(FAILURE_COEFFICIENT, LOSS, n);
        let what = format!("Tr at f = 0.284, k = 1.122, n = {n}");
        let note = "the paper's ratio is not its eq. 7 at its own f and k; its times (above) are";
        checks.push(Check::new("eq. 7", what, ours, paper, 5e-5).because(note));
    }
    checks.extend(bounds(1.5, "the paper states k = 1.5 but prints the bounds of k = 1 (below)"));
    checks.extend(bounds(
        1.0,
        "k = 1 fits best, but not exactly: the paper seems to have read its bounds off the plot",
    ));
    checks
}

/// Returns fⁿ, the probability that all copies fail.
fn system_failure(f: f64, n: u32) -> f64 {
    f.powi(n as i32)
}

/// Compares the bounds on f for Tr < 1.1 under `k` with the ones that the paper prints.
fn bounds(k: f64, note: &'static str) -> Vec<Check> {
    let printed = [(1, 9.0), (2, 29.0), (3, 44.0)];
    let check = |(n, paper)| {
        let what = format!("greatest f for Tr < 1.1, %; k = {k}, n = {n}");
        let check = Check::new("Fig. 4", what, 100.0 * tolerable_loss(k, 1.1, n), paper, 0.5);
        if check.agrees { check } else { check.because(note) }
    };
    printed.map(check).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_time_is_the_ratio_times_the_ideal_time() {
        for n in 1..4 {
            let ideal = ideal_time(PACKETS, INTERVAL_S);
            let sum = ideal + recovery_time(PACKETS, 1.122, INTERVAL_S, LOSS, n);
            assert!((sum / ideal - completion_ratio(1.122, LOSS, n)).abs() < 1e-12);
        }
    }

    #[test]
    fn tolerable_loss_inverts_the_completion_ratio() {
        for (k, n) in [(1.0, 1), (1.5, 2), (2.0, 3)] {
            let f = tolerable_loss(k, 1.1, n);
            assert!((completion_ratio(k, f, n) - 1.1).abs() < 1e-12);
        }
    }

    #[test]
    fn failure_coefficient_inverts_the_completion_ratio() {
        for (k, f, n) in [(1.122, 0.284, 1), (0.04, 0.284, 2), (2.0, 0.1, 3)] {
            assert!((failure_coefficient(completion_ratio(k, f, n), f, n) - k).abs() < 1e-9);
        }
    }

    #[test]
    fn unequal_paths_multiply() {
        assert!((success_probability(&[0.1, 0.2, 0.5]) - 0.99).abs() < 1e-12);
        assert_eq!(success_probability(&[]), 0.0);
    }
}
