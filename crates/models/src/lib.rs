//! The papers' analyses, equation by equation, beside the figures that they print.
//!
//! Pure functions of parameters; no link, no session and no measurement is involved. The lab prints
//! them; code that bases decisions on them, such as how many paths a message needs, calls the same
//! functions.

pub mod asran;
pub mod conclone;

use serde::Serialize;

/// Sets one of our figures beside the paper's.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Where in the paper.
    pub source: &'static str,
    /// What it is.
    pub what: String,
    /// What the equation gives.
    pub ours: f64,
    /// What the paper prints.
    pub paper: Option<f64>,
    /// Whether both agree within the digits that the paper prints.
    pub agrees: bool,
    /// Why they differ, in a line; empty where they agree.
    pub note: &'static str,
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

/// Returns every check of a paper, by its key in PAPERS.md; none of one without equations here.
pub fn checks(paper: &str) -> Vec<Check> {
    match paper {
        "ConClone" => conclone::checks(),
        "ASRAN" => asran::checks(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_from_the_paper_is_explained() {
        for check in ["ConClone", "ASRAN", "LRT"].into_iter().flat_map(checks) {
            assert!(check.agrees || !check.note.is_empty(), "unexplained: {check:?}");
            assert!(check.ours.is_finite(), "{check:?}");
        }
    }
}
