//! Throughput that ASRAN gains over CUBIC between two losses, and over several sub-flows.
//!
//! ```text
//! W_asran(x) = (x + i)²                    x ≤ K: slow start from i        K = √last_max − i      (2)
//!            = (x − K)³ + last_max         x > K: CUBIC's growth
//! W_cubic(x) = (x − K_c)³ + last_max       W_cubic(0) = i, hence           K_c = ∛(last_max − i)
//! total      = Σ W(x),  x = step, 2 step, … T                                                     (1)
//! gain       = asran_total / cubic_total                                                          (3)
//! ```
//! x is the time since a loss in a unit of the model's own, i the window just after it, T the time
//! of the next one. Source: [ASRAN §4], eq. 1–3; the sums over a grid are its Fig. 3.
//!
//! Several sub-flows, as of MPTCP, are the future work that the paper names [ASRAN §6]. Each has i,
//! last_max and T of its own, and a round-trip time as its unit of x:
//!
//! ```text
//! rate = Σ_f  total_f / (points_f · rtt_f)        gain = rate_asran / rate_cubic
//! ```
//! Assumed: each sub-flow has a congestion control of its own (Linux does not couple them), loses
//! where itself and no other sub-flow does, sends all the time, and no two share a bottleneck. So
//! the gain is the mean of the sub-flows' gains, weighted by what each carries with CUBIC.
//!
//! *Deviations from the paper*
//! 1. The paper's sum for ASRAN is not the one of its own equation and grid ([`NOTE`]).
//! 2. The paper gives no K_c: the one above is what its CUBIC sum implies, and exact.
//! 3. Its slow start begins at i², its CUBIC at i. Both are 1 in its example, the only one it
//!    prints.

use core::fmt;

use serde::Serialize;

use super::Check;

/// Most points of a grid: a bound on the time that a command line can ask for.
const POINTS_MAX: f64 = 1e6;
/// The only parameters for which the paper prints figures [ASRAN §4], and its step.
const EXAMPLE: Stretch = Stretch { i: 1.0, last_max: 2.0, t: 2.5, rtt: 1.0 };
const EXAMPLE_STEP: f64 = 0.1;
/// Totals and gain that the paper prints for them [ASRAN eq. 3].
const PAPER: Totals = Totals { asran_total: 101.162, cubic_total: 62.375, gain: 1.622 };
/// CUBIC's mean throughput in the paper's tables, Mbit/s, and what the paper expects of ASRAN
/// there.
const EXPECTED: [(&str, f64, f64); 2] = [("Table 1", 0.634, 1.028), ("Table 2", 0.555, 0.900)];
/// Where our sum and the paper's differ.
pub const NOTE: &str = "on x = 0.1 … 2.5 the CUBIC sum is the paper's, the ASRAN sum is 100.263: the paper's is \
                               0.899 (0.9 %) more, and with x = 0 as well it would be 101.263; none of the grids that we tried gives 101.162";

/// What is known of a connection between two losses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stretch {
    /// Window just after the loss.
    pub i: f64,
    /// Window before the previous loss, which slow start returns to.
    pub last_max: f64,
    /// Time until the next loss.
    pub t: f64,
    /// Unit of time, relative to that of the other sub-flows.
    pub rtt: f64,
}

impl Stretch {
    /// Reads `i,last_max,t` or `i,last_max,t,rtt`.
    ///
    /// # Errors
    /// Says what is not a stretch that the model has a meaning for.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<f64>, _> =
            text.split(',').map(|part| part.trim().parse()).collect();
        let stretch = match numbers.as_deref() {
            Ok(&[i, last_max, t]) => Self { i, last_max, t, rtt: 1.0 },
            Ok(&[i, last_max, t, rtt]) => Self { i, last_max, t, rtt },
            _ => {
                return Err(format!(
                    "`{text}` is not i,last_max,t or i,last_max,t,rtt, such as 1,2,2.5"
                ));
            }
        };
        stretch.check().map(|()| stretch)
    }

    /// Tells whether the model has a meaning for it.
    ///
    /// # Errors
    /// Says which parameter is out of its range.
    pub fn check(&self) -> Result<(), String> {
        let positive = |name, value: f64| {
            let good = value.is_finite() && value > 0.0;
            if good { Ok(()) } else { Err(format!("{name} = {value}: must be above 0")) }
        };
        positive("i", self.i)?;
        positive("last_max", self.last_max)?;
        positive("t", self.t)?;
        positive("rtt", self.rtt)?;
        let least = self.i.max(self.i * self.i);
        if self.last_max < least {
            let last_max = self.last_max;
            return Err(format!(
                "last_max = {last_max}: must be at least {least} (i and i²), or K is negative"
            ));
        }
        Ok(())
    }
}

/// Sums of windows over a grid, and their ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Totals {
    asran_total: f64,
    cubic_total: f64,
    gain: f64,
}

/// Everything that the model says about one or several stretches.
#[derive(Clone, Debug, Serialize)]
pub struct Gain {
    model: &'static str,
    #[serde(flatten)]
    totals: Totals,
    /// When slow start is back at last_max [ASRAN eq. 2].
    k: f64,
    /// When CUBIC is.
    k_cubic: f64,
    grid: String,
    points: usize,
    /// Eq. 1 and its like for CUBIC as the integrals that the grid stands for.
    integral: Totals,
    /// What the paper prints; only for its own parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    paper: Option<Totals>,
    #[serde(skip_serializing_if = "str::is_empty")]
    note: &'static str,
    expected_mbps: Vec<Expected>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subflows: Option<Subflows>,
}

/// What a gain would make of the paper's throughput with CUBIC.
#[derive(Clone, Debug, Serialize)]
struct Expected {
    source: &'static str,
    cubic: f64,
    /// By our sum.
    ours: f64,
    /// By the sum that the paper prints.
    paper: f64,
}

/// Gains of the sub-flows and of all together.
#[derive(Clone, Debug, Serialize)]
struct Subflows {
    each: Vec<Subflow>,
    gain: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Subflow {
    #[serde(flatten)]
    stretch: Stretch,
    /// Mean window over the round-trip time.
    asran_rate: f64,
    cubic_rate: f64,
    gain: f64,
}

/// Returns the sums and expectations of the paper's example beside what it prints of them.
pub fn checks() -> Vec<Check> {
    let Ok(Gain { totals, expected_mbps, .. }) = gain(EXAMPLE, EXAMPLE_STEP, &[]) else {
        return Vec::new();
    };
    let sums = [
        ("sum of CUBIC's windows", totals.cubic_total, PAPER.cubic_total),
        ("sum of ASRAN's windows", totals.asran_total, PAPER.asran_total),
        ("gain: their ratio", totals.gain, PAPER.gain),
    ];
    let explained = |check: Check| if check.agrees { check } else { check.because(NOTE) };
    let sums = sums.map(|(what, ours, paper)| {
        explained(Check::new("Fig. 3", what.to_owned(), ours, paper, 5e-4))
    });
    let expected = EXPECTED.iter().zip(expected_mbps).map(|(&(source, _, paper), expected)| {
        let what = format!("expected of ASRAN, Mbit/s, {source}");
        explained(Check::new(source, what, expected.ours, paper, 5e-4))
    });
    sums.into_iter().chain(expected).collect()
}

/// Evaluates eq. 1–3, and the rates of `subflows` where there are any.
///
/// # Errors
/// Names the parameter that is out of its range.
pub fn gain(stretch: Stretch, step: f64, subflows: &[Stretch]) -> Result<Gain, String> {
    stretch.check()?;
    for one in subflows.iter().chain([&stretch]) {
        if !(step > 0.0 && step <= one.t && one.t / step <= POINTS_MAX) {
            let t = one.t;
            return Err(format!(
                "step = {step}: must be above 0, at most t = {t}, and give at most {POINTS_MAX} points"
            ));
        }
    }
    let totals = sums(&stretch, step);
    let paper = (stretch == EXAMPLE && step == EXAMPLE_STEP).then_some(PAPER);
    let expected =
        |(source, cubic, paper)| Expected { source, cubic, ours: cubic * totals.gain, paper };
    Ok(Gain {
        model: "asran-gain",
        totals,
        k: k(&stretch),
        k_cubic: k_cubic(&stretch),
        grid: format!("x = {step}, {}, … {}", 2.0 * step, points(stretch.t, step) as f64 * step),
        points: points(stretch.t, step),
        integral: integrals(&stretch),
        note: if paper.is_some() { NOTE } else { "" },
        expected_mbps: if paper.is_some() { EXPECTED.map(expected).into() } else { Vec::new() },
        paper,
        subflows: (!subflows.is_empty()).then(|| together(subflows, step)),
    })
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24} {:>10} {:>10} {:>8}", "", "ASRAN", "CUBIC", "gain")?;
        let rows = [
            ("sum over the grid", Some(&self.totals)),
            ("the paper's", self.paper.as_ref()),
            ("integral", Some(&self.integral)),
        ];
        for (what, totals) in rows {
            let Some(Totals { asran_total, cubic_total, gain }) = totals else { continue };
            writeln!(f, "{what:<24} {asran_total:>10.3} {cubic_total:>10.3} {gain:>8.3}")?;
        }
        let Self { grid, points, k, k_cubic, .. } = self;
        writeln!(f, "grid: {grid} ({points} points); K = {k:.4}, CUBIC's {k_cubic:.4}")?;
        if !self.note.is_empty() {
            writeln!(f, "difference: {}", self.note)?;
        }
        for Expected { source, cubic, ours, paper } in &self.expected_mbps {
            writeln!(
                f,
                "{source}: CUBIC {cubic:.3} Mbit/s, expected of ASRAN {ours:.3} (the paper's gain: {paper:.3})"
            )?;
        }
        self.subflows.iter().try_for_each(|subflows| write!(f, "{subflows}"))
    }
}

impl fmt::Display for Subflows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Subflow { stretch: Stretch { i, last_max, t, rtt }, gain, .. } in &self.each {
            writeln!(
                f,
                "sub-flow i = {i}, last_max = {last_max}, t = {t}, rtt = {rtt}: gain {gain:.3}"
            )?;
        }
        writeln!(f, "all sub-flows together: gain {:.3}", self.gain)
    }
}

/// Returns when slow start reaches last_max [ASRAN eq. 2].
fn k(stretch: &Stretch) -> f64 {
    stretch.last_max.sqrt() - stretch.i
}

/// Returns when CUBIC reaches last_max.
fn k_cubic(stretch: &Stretch) -> f64 {
    (stretch.last_max - stretch.i).cbrt()
}

/// Returns the window of ASRAN at `x`: the integrand of eq. 1.
fn asran_window(stretch: &Stretch, x: f64) -> f64 {
    let k = k(stretch);
    if x <= k { (x + stretch.i).powi(2) } else { (x - k).powi(3) + stretch.last_max }
}

/// Returns the window of CUBIC at `x`.
fn cubic_window(stretch: &Stretch, x: f64) -> f64 {
    (x - k_cubic(stretch)).powi(3) + stretch.last_max
}

/// Returns the points x = step, 2 step, … T.
fn points(t: f64, step: f64) -> usize {
    (t / step + 1e-9) as usize
}

/// Sums the windows over the grid [ASRAN eq. 1, 3].
fn sums(stretch: &Stretch, step: f64) -> Totals {
    let grid = || (1..=points(stretch.t, step)).map(|n| n as f64 * step);
    let asran_total: f64 = grid().map(|x| asran_window(stretch, x)).sum();
    let cubic_total: f64 = grid().map(|x| cubic_window(stretch, x)).sum();
    Totals { asran_total, cubic_total, gain: asran_total / cubic_total }
}

/// Integrates the windows from 0 to T [ASRAN eq. 1].
fn integrals(stretch: &Stretch) -> Totals {
    let Stretch { i, last_max, t, .. } = *stretch;
    let k = k(stretch).min(t);
    let slow_start = ((k + i).powi(3) - i.powi(3)) / 3.0;
    let asran_total = slow_start + (t - k).powi(4) / 4.0 + last_max * (t - k);
    let k_cubic = k_cubic(stretch);
    let cubic_total = ((t - k_cubic).powi(4) - k_cubic.powi(4)) / 4.0 + last_max * t;
    Totals { asran_total, cubic_total, gain: asran_total / cubic_total }
}

/// Adds up the rates of the sub-flows.
fn together(subflows: &[Stretch], step: f64) -> Subflows {
    let each: Vec<Subflow> = subflows
        .iter()
        .map(|stretch| {
            let Totals { asran_total, cubic_total, gain } = sums(stretch, step);
            let time = points(stretch.t, step) as f64 * stretch.rtt;
            let (asran_rate, cubic_rate) = (asran_total / time, cubic_total / time);
            Subflow { stretch: *stretch, asran_rate, cubic_rate, gain }
        })
        .collect();
    let rate = |of: fn(&Subflow) -> f64| each.iter().map(of).sum::<f64>();
    let gain = rate(|one| one.asran_rate) / rate(|one| one.cubic_rate);
    Subflows { each, gain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_the_paper() {
        let gain = gain(EXAMPLE, 0.1, &[]).expect("the paper's parameters");
        assert!((gain.totals.asran_total - 100.263).abs() < 5e-4, "{gain:?}");
        assert!((gain.totals.cubic_total - PAPER.cubic_total).abs() < 5e-4, "{gain:?}");
        assert!((gain.totals.gain - 1.607).abs() < 5e-4, "{gain:?}");
        for Expected { cubic, paper, .. } in gain.expected_mbps {
            assert!((cubic * PAPER.gain - paper).abs() < 5e-4);
        }
    }

    #[test]
    fn sums_over_a_fine_grid_are_the_integrals() {
        for stretch in [
            EXAMPLE,
            Stretch { last_max: 30.0, ..EXAMPLE },
            Stretch { i: 2.0, last_max: 9.0, t: 0.5, rtt: 1.0 },
        ] {
            let (sums, integrals) = (sums(&stretch, 1e-5), integrals(&stretch));
            for (sum, integral) in [
                (sums.asran_total, integrals.asran_total),
                (sums.cubic_total, integrals.cubic_total),
            ] {
                assert!(
                    (sum * 1e-5 / integral - 1.0).abs() < 1e-4,
                    "{stretch:?}: {sum} {integral}"
                );
            }
        }
    }

    #[test]
    fn equal_subflows_gain_what_one_gains_and_unequal_ones_between() {
        let other = Stretch { last_max: 6.0, t: 4.0, rtt: 2.0, ..EXAMPLE };
        let alone = |stretch| sums(&stretch, 0.1).gain;
        let all = |subflows: &[Stretch]| together(subflows, 0.1).gain;
        assert!((all(&[EXAMPLE; 3]) - alone(EXAMPLE)).abs() < 1e-12);
        let (low, high) = (alone(EXAMPLE).min(alone(other)), alone(EXAMPLE).max(alone(other)));
        assert!((low..high).contains(&all(&[EXAMPLE, other])));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (text, name) in [
            ("0,2,1", "i ="),
            ("1,0.5,1", "last_max"),
            ("3,5,1", "last_max"),
            ("1,2,nan", "t ="),
            ("1,2", "rtt"),
            ("1,2,3,-1", "rtt"),
        ] {
            let error = Stretch::parse(text).expect_err(text);
            assert!(error.contains(name), "{text}: {error}");
        }
        for step in [0.0, -0.1, 3.0, 1e-9, f64::NAN] {
            assert!(gain(EXAMPLE, step, &[]).is_err(), "{step}");
        }
    }
}
