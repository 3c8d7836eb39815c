//! Lifetime of a connection with several interfaces.
//!
//! ```text
//! Y    = Σ_{i=1..n} X_i,  X_i ~ Exp(i·λ)     all n interfaces fail one after another   (8)
//! E[Y] = H_n / λ ≈ ln(n) / λ                 H_n: n-th harmonic number                 (9)
//! n    = ⌈e^{λα}⌉                            least n with E[Y] ≥ α by the ln form      (10)
//! ```
//! Source: [ConClone §4.2.2]. This is a lifetime, counted in control packets in a row that need
//! no retransmission; sizing for a success probability is n = ⌈ln(1 − target) / ln f⌉ (eq. 2).
//!
//! *Deviations from the paper*
//! 1. H_n is also evaluated exactly: ln(n) falls short by γ ≈ 0.577, which makes the paper's n
//!    one or two too large.

use crate::Check;

/// Returns the n-th harmonic number.
pub fn harmonic(n: u32) -> f64 {
    (1..=n).map(|i| f64::from(i).recip()).sum()
}

/// Returns the mean lifetime with `n` interfaces, exactly [ConClone eq. 9].
pub fn mean_lifetime(n: u32, lambda: f64) -> f64 {
    harmonic(n) / lambda
}

/// Returns the number of interfaces for a mean lifetime `alpha` [ConClone eq. 10].
pub fn interfaces_by_logarithm(lambda: f64, alpha: f64) -> u32 {
    (lambda * alpha).exp().ceil() as u32
}

/// Returns the least number of interfaces whose exact mean lifetime reaches `alpha`.
pub fn interfaces_exactly(lambda: f64, alpha: f64) -> u32 {
    let mut n = 1;
    while mean_lifetime(n, lambda) < alpha {
        n += 1;
    }
    n
}

/// Returns the number of interfaces for a success probability: eq. 2 solved for n.
pub fn interfaces_for_success(f: f64, target: f64) -> u32 {
    ((1.0 - target).ln() / f.ln() - 1e-9).ceil().max(1.0) as u32
}

/// Compares eq. 8–10 with what the paper prints.
pub(super) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    let exact_note = "exact H_n; the paper approximates H_n by ln(n), which asks for more";
    for (lambda, alpha, paper) in [(2.0, 0.6, 4.0), (2.0, 0.8, 5.0), (1.0, 0.8, 3.0)] {
        let by_logarithm = f64::from(interfaces_by_logarithm(lambda, alpha));
        let exactly = f64::from(interfaces_exactly(lambda, alpha));
        let what = format!("interfaces for E[Y] ≥ {alpha}, λ = {lambda}: ln form");
        checks.push(Check::new("eq. 10", what, by_logarithm, paper, 0.0));
        let what = format!("interfaces for E[Y] ≥ {alpha}, λ = {lambda}: exact form");
        checks.push(Check::new("eq. 9", what, exactly, paper, 0.0).because(exact_note));
    }
    let note = "sizing for a success probability instead of a lifetime";
    let what = "interfaces for P_success ≥ 99.999 %, f = 0.284".to_owned();
    let n = f64::from(interfaces_for_success(0.284, 0.99999));
    checks.push(Check::ours_only("eq. 2", what, n, note));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_lifetime_is_that_of_the_serial_stages() {
        // Draws Y as eq. 8 writes it; 40,000 draws put the mean within 1 % at three sigma.
        let (n, lambda) = (4, 2.0);
        let mut rng = units::Rng::new(11);
        let stage = |rng: &mut units::Rng, i: u32| rng.exponential(1.0 / (f64::from(i) * lambda));
        let total: f64 =
            (0..40_000).map(|_| (1..=n).map(|i| stage(&mut rng, i)).sum::<f64>()).sum();
        let mean = total / 40_000.0;
        assert!((mean / mean_lifetime(n, lambda) - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn sizing_for_success_meets_its_target_and_no_less() {
        for (f, target) in [(0.1_f64, 0.999), (0.284, 0.99999), (0.5, 0.9)] {
            let n = interfaces_for_success(f, target) as i32;
            assert!(1.0 - f.powi(n) >= target - 1e-12);
            assert!(n == 1 || 1.0 - f.powi(n - 1) < target);
        }
    }
}
