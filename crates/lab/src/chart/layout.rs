//! Divides the picture of control delay: panels, axes, lanes. Pixels; y grows downwards.

use super::area::{Area, LEFT, WIDTH, seconds_marks};
use super::legend;

/// Height of the picture.
pub(super) const HEIGHT: f64 = 920.0;
/// Space right of the panels, for the name of the limit of lateness.
pub(super) const RIGHT: f64 = 48.0;
/// Height of a lane of lost messages.
pub(super) const LANE: f64 = 9.0;
/// Space above the first panel for its title, and above the legend.
const HEAD: f64 = 110.0;
/// Space below the last panel, for numbers.
const FOOT: f64 = 48.0;
/// Space between panels.
const BETWEEN: f64 = 36.0;

/// Least delay shown, seconds; shorter ones are drawn at the edge.
const DELAY_MIN: f64 = 0.007;
/// Greatest delay shown, seconds; longer ones are drawn at the edge.
const DELAY_MAX: f64 = 15.0;

/// Lines of the delay axis, in seconds, with their labels.
pub(super) const DELAYS: [(f64, &str); 7] = [
    (0.01, "10 ms"),
    (0.03, "30 ms"),
    (0.1, "100 ms"),
    (0.3, "300 ms"),
    (1.0, "1 s"),
    (3.0, "3 s"),
    (10.0, "10 s"),
];

/// Divides the picture among panels.
pub(super) struct Panels {
    count: usize,
    lanes: usize,
}

impl Panels {
    /// Divides for so many panels with so many curves each.
    pub(super) fn new(count: usize, lanes: usize) -> Self {
        Self { count: count.max(1), lanes }
    }

    /// Returns the place of a panel whose time axis ends at `seconds`.
    pub(super) fn frame(&self, index: usize, seconds: f64) -> Frame {
        let head = HEAD + legend::LINE * self.lanes as f64;
        let each = (HEIGHT - head - FOOT) / self.count as f64;
        let top = head + each * index as f64;
        let lanes = LANE * self.lanes as f64 + 6.0;
        let bottom = top + each - BETWEEN - lanes;
        let area = Area { left: LEFT, right: WIDTH - RIGHT, top, bottom };
        Frame { area, lanes: self.lanes, seconds }
    }
}

/// The place of one panel and the scale of its axes.
pub(super) struct Frame {
    pub(super) area: Area,
    lanes: usize,
    seconds: f64,
}

impl Frame {
    /// Returns where a time is.
    pub(super) fn x(&self, seconds: f64) -> f64 {
        self.area.x(seconds / self.seconds)
    }

    /// Returns where a delay is, on a logarithmic axis.
    pub(super) fn y(&self, delay_s: f64) -> f64 {
        let clamped = delay_s.clamp(DELAY_MIN, DELAY_MAX);
        self.area.y((clamped / DELAY_MIN).ln() / (DELAY_MAX / DELAY_MIN).ln())
    }

    /// Returns the upper edge of a lane below the panel.
    pub(super) fn lane(&self, index: usize) -> f64 {
        self.area.bottom + 6.0 + LANE * index as f64
    }

    /// Returns where the lanes end.
    pub(super) fn bottom_of_lanes(&self) -> f64 {
        self.lane(self.lanes)
    }

    /// Returns the marks of the time axis.
    pub(super) fn seconds_marks(&self) -> impl Iterator<Item = f64> + use<> {
        seconds_marks(self.seconds)
    }
}
