//! The unstable hop of a network of UAVs: outages whose lengths are chosen and whose frequency is
//! fitted to what was measured in flight.
//!
//! Not TCP and not the links' emulation: an [`Instability`] gives the outages of one run, as plain
//! data for a scenario. `offered` measures what a flow of constant rate sees of them, `topology`
//! builds the network around the hop.
//!
//! Two kinds of outages, both of exponentially distributed length:
//! ```text
//! long:  mean D, alternating with stretches of mean U, exponential too
//!        dead seconds       D·e^(−1/D) / (U + D)        those wholly inside one = zero
//!        untouched seconds  U·e^(−1/U) / (U + D)
//! short: mean d, alternating with stretches of mean b, λ = 1/(b + d), independent of the long ones
//!        untouched seconds  (b·e^(−1/b) / (b + d))^h    h = P(one loses a packet at all)
//! ```
//! U follows from the share of seconds at zero, λ from the share at the full rate [ASRAN §3.1].
//! What the paper does not print is how long the outages are: D and d are free, and swept.

use netem::{Outage, OutageMode};
use serde_json::{Value, json};
use units::{Duration, Instant, Rng};

use crate::report::rounded;

/// Names what a flow of constant rate is to see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target {
    /// Share of the seconds in which nothing arrives.
    pub(crate) zero: f64,
    /// Share of the seconds in which everything arrives.
    pub(crate) full: f64,
}

/// Describes the outages of a hop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Instability {
    /// Mean length of the long outages, seconds: D.
    long_s: f64,
    /// Mean length of what is between them, seconds: U.
    between_s: f64,
    /// Mean length of the short outages, seconds: d.
    short_s: f64,
    /// Short outages per second: λ.
    short_per_s: f64,
    /// True when the hop holds what comes and lets it go afterwards, rather than lose it.
    holds: bool,
}

impl Instability {
    /// Fits the frequency of outages of these mean lengths to a target.
    ///
    /// # Errors
    /// Says why outages of these lengths cannot give it.
    pub(crate) fn fit(
        target: Target,
        long_s: f64,
        short_s: f64,
        holds: bool,
    ) -> Result<Self, String> {
        let dead = long_s * (-1.0 / long_s).exp();
        let between_s = dead / target.zero - long_s;
        if between_s <= 0.0 {
            return Err(format!(
                "outages of {long_s} s on average cannot make {} of the seconds dead: they would \
                 never end",
                target.zero
            ));
        }
        let untouched = between_s * (-1.0 / between_s).exp() / (between_s + long_s);
        if untouched < target.full {
            return Err(format!(
                "long outages of {long_s} s on average that make {} of the seconds dead leave only \
                 {untouched:.3} of them at the full rate, not {}",
                target.zero, target.full
            ));
        }
        let short_per_s = short_per_s(short_s, target.full / untouched);
        Ok(Self { long_s, between_s, short_s, short_per_s, holds })
    }

    /// Returns the outages from `from_s` to `to_s`.
    ///
    /// Lengths and distances are the distributions' quantiles in an order that the seed draws, not
    /// independent draws: a run of a minute has few outages, and its figures are to differ by what
    /// TCP makes of them, not by how many there happened to be.
    pub(crate) fn outages(&self, seed: u64, from_s: f64, to_s: f64) -> Vec<Outage> {
        let seconds = to_s - from_s;
        let rng = |name: &str| Rng::stream(seed, &format!("instability/{name}"));
        let long = Kind { mean_s: self.long_s, cycle_s: self.long_s + self.between_s };
        let mut outages = self.of_kind(long, seconds, &mut rng("long"));
        if self.short_per_s > 0.0 {
            let short = Kind { mean_s: self.short_s, cycle_s: 1.0 / self.short_per_s };
            outages.extend(self.of_kind(short, seconds, &mut rng("short")));
        }
        outages.sort_by_key(|outage| outage.start);
        for outage in &mut outages {
            outage.start += Duration::from_secs_f64(from_s);
        }
        outages
    }

    /// Returns the parameters, as published with every figure.
    pub(crate) fn parameters(&self) -> Value {
        json!({
            "long_mean_s": self.long_s,
            "long_every_s": rounded(self.long_s + self.between_s, 3),
            "short_mean_ms": rounded(self.short_s * 1e3, 3),
            "short_per_s": rounded(self.short_per_s, 4),
            "mode": if self.holds { "hold" } else { "drop" },
        })
    }

    fn of_kind(&self, kind: Kind, seconds: f64, rng: &mut Rng) -> Vec<Outage> {
        let mode = if self.holds { OutageMode::Hold { queue: None } } else { OutageMode::Drop };
        let count = (seconds / kind.cycle_s).round() as usize;
        let lengths = exponential_quantiles(count, kind.mean_s, rng);
        let between = (seconds - lengths.iter().sum::<f64>()) / count.max(1) as f64;
        let gaps = exponential_quantiles(count, between.max(0.0), rng);
        // The run begins somewhere in the first gap.
        let mut at = -rng.unit() * gaps.first().copied().unwrap_or(0.0);
        let mut outages = Vec::with_capacity(count);
        for (length, gap) in lengths.into_iter().zip(gaps) {
            at += gap;
            outages.push(Outage {
                start: Instant::from_nanos((at * 1e9) as u64),
                duration: Duration::from_secs_f64(length),
                mode,
            });
            at += length;
        }
        outages
    }
}

/// Returns λ: how often short outages of a mean length must come to leave a share of the seconds
/// untouched; found by halving, as their distance b cannot be written down.
fn short_per_s(short_s: f64, untouched: f64) -> f64 {
    let gap = super::offered::GAP_S;
    let lossy = short_s / gap * (1.0 - (-gap / short_s).exp());
    let touching = |b: f64| lossy * ((1.0 + short_s / b).ln() + 1.0 / b);
    // From one each millisecond to one in ten years.
    let (mut low, mut high) = (1e-3_f64, 3e8_f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if touching(middle) > -untouched.ln() { low = middle } else { high = middle }
    }
    1.0 / (high + short_s)
}

/// One kind of outages: how long, and from one to the next, on average.
#[derive(Clone, Copy, Debug)]
struct Kind {
    mean_s: f64,
    cycle_s: f64,
}

/// Returns `count` evenly spaced quantiles of the exponential distribution, in random order, scaled
/// so that their mean is exact.
fn exponential_quantiles(count: usize, mean: f64, rng: &mut Rng) -> Vec<f64> {
    let quantile = |i: usize| -(1.0 - (i as f64 + 0.5) / count as f64).ln();
    let mut values: Vec<f64> = (0..count).map(quantile).collect();
    let scale = mean * count as f64 / values.iter().sum::<f64>();
    values.iter_mut().for_each(|value| *value *= scale);
    for i in (1..count).rev() {
        values.swap(i, rng.below(i as u64 + 1) as usize);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::super::offered::{OfferedCdf, second_by_second};
    use super::*;

    const FIG_1: Target = Target { zero: 0.19, full: 0.45 };

    #[test]
    fn outages_of_any_length_give_what_was_measured_in_flight() {
        for (long_s, short_s) in [(1.6, 0.02), (2.0, 0.04), (4.0, 0.01), (4.0, 0.1), (8.0, 0.3)] {
            let hop = Instability::fit(FIG_1, long_s, short_s, false).expect("possible");
            let outages = hop.outages(5, 0.0, 2_000.0);
            let cdf = OfferedCdf::of(&second_by_second(&outages, 2_000));
            let (zero, full) = (cdf.zero_share, cdf.full_share);
            println!("{long_s} s, {short_s} s: zero {zero:.3}, full {full:.3}, {hop:?}");
            assert!((zero - 0.19).abs() < 0.012, "{zero} of {hop:?}");
            assert!((full - 0.45).abs() < 0.02, "{full} of {hop:?}");
        }
    }

    #[test]
    fn a_minute_has_the_shares_of_an_hour() {
        let hop = Instability::fit(FIG_1, 2.0, 0.04, false).expect("possible");
        for seed in 1..=10 {
            let outages = hop.outages(seed, 0.0, 60.0);
            let cdf = OfferedCdf::of(&second_by_second(&outages, 60));
            assert!((0.12..0.26).contains(&cdf.zero_share), "seed {seed}: {cdf:?}");
            assert!((0.35..0.56).contains(&cdf.full_share), "seed {seed}: {cdf:?}");
            assert_eq!(outages, hop.outages(seed, 0.0, 60.0), "the same seed, the same outages");
        }
    }

    #[test]
    fn what_cannot_be_is_said() {
        let never = Instability::fit(Target { zero: 0.9, full: 0.05 }, 1.0, 0.1, false);
        assert!(never.expect_err("no room between outages").contains("never end"));
        let touched = Instability::fit(FIG_1, 0.8, 0.1, false);
        assert!(touched.expect_err("too many short ones").contains("full rate"));
    }
}
