//! The paper's pictures of its models, drawn from the equations: [ConClone Fig. 3], [ConClone Fig.
//! 4], [ConClone Fig. 7] and [ConClone Fig. 8]. Dots are values that its text prints.

use models::conclone::{self, channel, lifetime};

use super::arguments::Output;
use super::told;
use crate::chart::{FunctionChart, FunctionPanel, Heights};

/// Points of a curve.
const POINTS: u32 = 400;

/// Fig. 3: eq. 2 over f.
pub(super) fn success(output: &Output) -> Result<(), String> {
    let panel = FunctionPanel {
        title: "P_success = 1 − fⁿ".to_owned(),
        variable: "f, probability that a copy fails".to_owned(),
        from: 0.0,
        to: 1.0,
        heights: Heights::Linear(0.0, 1.0),
        curves: (1..=4)
            .map(|n| curve(name(n), (0.0, 1.0), |f| conclone::success_probability_equal(f, n)))
            .collect(),
        printed: vec![(0.1, 0.9, "0.900".to_owned())],
    };
    let few = FunctionPanel {
        title: "The same where failures are few: 1 − P_success".to_owned(),
        variable: "f, probability that a copy fails".to_owned(),
        from: 0.0,
        to: 0.3,
        heights: Heights::Decades(-6, 0),
        curves: (1..=4).map(|n| curve(name(n), (0.0, 0.3), |f| f.powi(n as i32))).collect(),
        printed: [0.1, 0.01, 0.001].map(|miss| (0.1, miss, (1.0 - miss).to_string())).into(),
    };
    draw(
        output,
        "fig3-success.svg",
        "How likely one copy at least arrives",
        "Fig. 3, eq. 2",
        vec![panel, few],
    )
}

/// Fig. 4: eq. 7 over f.
pub(super) fn completion(output: &Output) -> Result<(), String> {
    let panel = |k: f64, printed| FunctionPanel {
        title: format!("Tr = 1 + k·fⁿ/(1 − fⁿ), k = {k}"),
        variable: "f, probability that a copy fails".to_owned(),
        from: 0.0,
        to: 0.6,
        heights: Heights::Linear(1.0, 2.0),
        curves: (1..=3)
            .map(|n| curve(name(n), (0.0, 0.6), |f| conclone::completion_ratio(k, f, n)))
            .collect(),
        printed,
    };
    let bound = |(n, f): (u32, f64)| (f, 1.1, format!("n = {n}: {:.0} %", 100.0 * f));
    let printed: Vec<_> = [(1, 0.09), (2, 0.29), (3, 0.44)].map(bound).into();
    let panels = vec![panel(1.0, printed), panel(1.5, Vec::new()), panel(2.0, Vec::new())];
    let note = "Fig. 4, eq. 7. Dots: the bounds for Tr < 1.1 that the paper prints for k = 1.5 and that are those of k = 1";
    draw(output, "fig4-completion.svg", "Completion time over the ideal", note, panels)
}

/// Fig. 7: eq. 10 over α.
pub(super) fn interfaces(output: &Output) -> Result<(), String> {
    let lambdas = [0.5, 1.0, 1.5, 2.0];
    let panel = |title: &str, of: fn(f64, f64) -> u32, printed| FunctionPanel {
        title: title.to_owned(),
        variable: "α, mean lifetime that is required".to_owned(),
        from: 0.0,
        to: 1.0,
        heights: Heights::Linear(0.0, 8.0),
        curves: lambdas
            .map(|lambda| {
                let whole = |alpha: f64| f64::from(of(lambda, alpha.max(1e-6)));
                curve(format!("λ = {lambda}"), (0.0, 1.0), whole)
            })
            .into(),
        printed,
    };
    let printed = [(0.6, 4.0), (0.8, 5.0), (0.8, 3.0)];
    let printed = printed.map(|(alpha, n)| (alpha, n, format!("{n}"))).into();
    let panels = vec![
        panel("n = ⌈e^λα⌉, as published", lifetime::interfaces_by_logarithm, printed),
        panel("least n with H_n/λ ≥ α, exactly", lifetime::interfaces_exactly, Vec::new()),
    ];
    let title = "Interfaces that a mean lifetime needs";
    draw(
        output,
        "fig7-interfaces.svg",
        title,
        "Fig. 7, eq. 9 and 10. Dots: what the paper prints",
        panels,
    )
}

/// Fig. 8: eq. 11 to 14 over distance.
pub(super) fn channel(output: &Output) -> Result<(), String> {
    let radio = channel::Radio::default();
    let signal = radio.anchored_signal();
    let ways = [("air to ground, α = 2.03", 2.03), ("air to air, α = 2.01", 2.01)];
    let bit_error = |alpha: f64, distance: f64| {
        let loss_db = channel::excess_path_loss_db(alpha, distance);
        radio.bit_error_rate(signal * 10.0_f64.powf(-loss_db / 10.0))
    };
    let panel = |title: &str, heights, of: &dyn Fn(f64, f64) -> f64, printed| FunctionPanel {
        title: title.to_owned(),
        variable: "distance, m".to_owned(),
        from: 0.0,
        to: 100.0,
        heights,
        curves: ways
            .map(|(name, alpha)| curve(name.to_owned(), (1.0, 100.0), |metres| of(alpha, metres)))
            .into(),
        printed,
    };
    let packet_error = |alpha: f64, metres: f64| radio.packet_error_at(signal, alpha, metres);
    let printed = vec![(80.0, 0.29, "29 %".to_owned())];
    let panels = vec![
        panel("Bit error rate", Heights::Decades(-10, 0), &bit_error, Vec::new()),
        panel("Packet error", Heights::Linear(0.0, 1.0), &packet_error, printed),
    ];
    let note = "Fig. 8, eq. 11 to 14. The signal is set by the one value that the paper prints, 29 % at 80 m";
    draw(output, "fig8-channel.svg", "Errors over distance", note, panels)
}

fn draw(
    output: &Output,
    file: &str,
    title: &str,
    source: &str,
    panels: Vec<FunctionPanel>,
) -> Result<(), String> {
    let Some(directory) = &output.out else { return Ok(()) };
    let subtitle = format!("ConClone {source}");
    let chart = FunctionChart { title: title.to_owned(), subtitle, panels };
    told(&chart.write(directory, file)?);
    Ok(())
}

fn name(n: u32) -> String {
    format!("n = {n}")
}

fn curve(
    name: String,
    (from, to): (f64, f64),
    of: impl Fn(f64) -> f64,
) -> (String, Vec<(f64, f64)>) {
    let at = |n: u32| from + (to - from) * f64::from(n) / f64::from(POINTS);
    (name, (0..=POINTS).map(|n| (at(n), of(at(n)))).collect())
}
