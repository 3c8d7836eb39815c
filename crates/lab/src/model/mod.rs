//! The papers' analyses, equation by equation, printed next to the figures that they print.
//!
//! Pure functions of parameters; no link, no session and no measurement is involved.

pub(crate) mod asran;
mod conclone;
mod conclone_channel;
mod conclone_inertia;
mod conclone_lifetime;

use serde::Serialize;

/// Sets one of our figures beside the paper's.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Check {
    /// Where in the paper.
    pub(crate) source: &'static str,
    /// What it is.
    pub(crate) what: String,
    /// What the equation gives.
    pub(crate) ours: f64,
    /// What the paper prints.
    pub(crate) paper: Option<f64>,
    /// Whether both agree within the digits that the paper prints.
    pub(crate) agrees: bool,
    /// Why they differ, in a line; empty where they agree.
    pub(crate) note: &'static str,
}

impl Check {
    /// Compares `ours` with `paper` within half a unit of the paper's last digit.
    fn new(source: &'static str, what: String, ours: f64, paper: f64, half_unit: f64) -> Self {
        let agrees = (ours - paper).abs() <= half_unit * (1.0 + 1e-9);
        Self { source, what, ours, paper: Some(paper), agrees, note: "" }
    }

    /// States a figure for which the paper prints none.
    fn ours_only(source: &'static str, what: String, ours: f64, note: &'static str) -> Self {
        Self { source, what, ours, paper: None, agrees: true, note }
    }

    /// Adds the line that explains a difference.
    fn because(mut self, note: &'static str) -> Self {
        self.note = note;
        self
    }
}

/// Returns every check of the ConClone analysis, in the order of its equations.
pub(crate) fn conclone_checks() -> Vec<Check> {
    let mut checks = conclone::checks();
    checks.extend(conclone_lifetime::checks());
    checks.extend(conclone_channel::checks());
    checks.extend(conclone_inertia::checks());
    checks
}

/// Prints the checks as a table for people.
pub(crate) fn print_table(checks: &[Check]) {
    println!("{:<10} {:<58} {:>10} {:>10}", "source", "figure", "ours", "paper");
    for check in checks {
        let paper = check.paper.map_or_else(|| "-".to_owned(), number);
        let ours = number(check.ours);
        println!("{:<10} {:<58} {ours:>10} {paper:>10}", check.source, check.what);
        if !check.note.is_empty() {
            println!("{:<10}   {}", "", check.note);
        }
    }
    let differing = checks.iter().filter(|check| !check.agrees).count();
    println!(
        "\n{} figures, {differing} differ from the paper (each explained above).",
        checks.len()
    );
}

/// Writes a figure with as many digits as it deserves.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e4 || (size > 0.0 && size < 1e-3) => format!("{value:.2e}"),
        size if size >= 10.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_from_the_paper_is_explained() {
        for check in conclone_checks() {
            assert!(check.agrees || !check.note.is_empty(), "unexplained: {check:?}");
            assert!(check.ours.is_finite(), "{check:?}");
        }
    }
}
