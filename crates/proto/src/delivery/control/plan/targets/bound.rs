//! What samples prove of a share: the exact bounds of \[ClopperPearson\].
//!
//! ```text
//! upper: the p for which P(X ≤ k | n, p) = 5 %        lower: the p for which P(X ≥ k | n, p) = 0.1 %
//! ```
//! Both are found by halving, so nothing but the binomial distribution is needed.

/// The chance that the upper bound is wrong, and the deviations of the normal distribution that are
/// exceeded with it.
const DOUBT: (f64, f64) = (0.05, 1.645);
/// The same of the lower one, which is asked again and again: what is said by it is said for good
/// reason.
const LITTLE_DOUBT: (f64, f64) = (0.001, 3.09);
/// Events beyond which the normal approximation is exact enough: its error is below 2 % of the
/// bound.
const MANY: f64 = 200.0;

/// Returns the share that is not exceeded with 95 % confidence, after `events` in `samples`.
pub(super) fn upper(events: f64, samples: f64) -> f64 {
    if samples <= 0.0 || events >= samples {
        return 1.0;
    }
    if events > MANY {
        return ((events + DOUBT.1 * events.sqrt() + 1.0) / samples).min(1.0);
    }
    halve(|p| no_more_than(events, samples, p) > DOUBT.0)
}

/// Returns the share that is reached with 99.9 % confidence, after `events` in `samples`.
pub(super) fn lower(events: f64, samples: f64) -> f64 {
    if events < 1.0 || samples <= 0.0 {
        return 0.0;
    }
    if events > MANY {
        return ((events - LITTLE_DOUBT.1 * events.sqrt()) / samples).max(0.0);
    }
    halve(|p| 1.0 - no_more_than(events - 1.0, samples, p) < LITTLE_DOUBT.0)
}

/// Finds where a property of shares ends that holds for small ones, to 10⁻¹⁵.
fn halve(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Returns P(X ≤ k) of the binomial distribution, each term from the one before.
fn no_more_than(k: f64, n: f64, p: f64) -> f64 {
    if p >= 1.0 {
        return 0.0;
    }
    let mut term = n * (-p).ln_1p();
    let mut sum = term.exp();
    let odds = (p / (1.0 - p)).ln();
    let mut i = 0.0;
    while i < k {
        term += ((n - i) / (i + 1.0)).ln() + odds;
        sum += term.exp();
        i += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_tables() {
        // Rule of three, and the exact bounds of 1 and 10 events in 100.
        for (events, samples, low, high) in [
            (0.0, 1_000.0, 0.0, 0.002_991),
            (1.0, 100.0, 0.000_010, 0.046_56),
            (10.0, 100.0, 0.031_3, 0.163_7),
        ] {
            let bounds = (lower(events, samples), upper(events, samples));
            assert!((bounds.0 - low).abs() < 5e-3 && (bounds.1 - high).abs() < 2e-4, "{bounds:?}");
        }
        assert_eq!((lower(0.0, 0.0), upper(0.0, 0.0)), (0.0, 1.0));
    }

    #[test]
    fn the_approximation_of_many_events_joins_the_exact_bound() {
        let samples = 100_000.0;
        for (exact, rough) in [
            (upper(MANY, samples), upper(MANY + 1e-6, samples)),
            (lower(MANY, samples), lower(MANY + 1e-6, samples)),
        ] {
            assert!((exact / rough - 1.0).abs() < 0.02, "{exact}, {rough}");
        }
    }
}
