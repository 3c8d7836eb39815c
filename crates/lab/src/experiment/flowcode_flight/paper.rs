//! What the paper prints [FlowCode Table I, Fig. 7].

use crate::scheme::Scheme;

/// A row of Table I: means and standard deviations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) scheme: Scheme,
    pub(super) region: &'static str,
    pub(super) achievable_mbps: (f64, f64),
    pub(super) achievable_range_m: (f64, f64),
    pub(super) goodput_mbps: (f64, f64),
    pub(super) range_m: (f64, f64),
}

/// Table I.
const TABLE: [Row; 4] = [
    Row {
        scheme: Scheme::FLOWCODE,
        region: "A",
        achievable_mbps: (0.74, 0.04),
        achievable_range_m: (748.99, 49.80),
        goodput_mbps: (0.55, 0.04),
        range_m: (639.12, 59.97),
    },
    Row {
        scheme: Scheme::TCP_LRR,
        region: "A",
        achievable_mbps: (0.49, 0.07),
        achievable_range_m: (673.30, 81.99),
        goodput_mbps: (0.42, 0.12),
        range_m: (497.54, 119.39),
    },
    Row {
        scheme: Scheme::FLOWCODE,
        region: "B",
        achievable_mbps: (0.77, 0.07),
        achievable_range_m: (697.17, 31.35),
        goodput_mbps: (0.57, 0.04),
        range_m: (544.71, 28.38),
    },
    Row {
        scheme: Scheme::TCP_LRR,
        region: "B",
        achievable_mbps: (0.62, 0.02),
        achievable_range_m: (674.87, 12.63),
        goodput_mbps: (0.56, 0.01),
        range_m: (530.10, 30.61),
    },
];

/// Returns the paper's row of a scheme and a region.
pub(super) fn row(scheme: Scheme, region: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.scheme == scheme && row.region == region)
}

/// Returns the paper's median efficiency of a scheme [FlowCode Fig. 7].
pub(super) fn efficiency(scheme: Scheme) -> Option<f64> {
    match scheme {
        Scheme::FLOWCODE => Some(0.724),
        Scheme::TCP_LRR => Some(0.7635),
        _ => None,
    }
}
