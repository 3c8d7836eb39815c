//! The frame that every panel of every picture has: its place, lines with their numbers, axes, a
//! title.

use super::svg::{Anchor, Svg, Text};

/// Width of every picture, pixels.
pub(super) const WIDTH: f64 = 1_240.0;
/// Space left of panels, for numbers.
pub(super) const LEFT: f64 = 78.0;

/// Begins a picture with its titles.
pub(super) fn begin(left: f64, height: f64, title: &str, subtitle: &str) -> Svg {
    let mut svg = Svg::new(WIDTH, height);
    svg.text(left, 34.0, title, Text::heading());
    svg.text(left, 56.0, subtitle, Text::body());
    svg
}

/// The place of a panel's frame. Pixels; y grows downwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Area {
    /// Returns where a share of the width is.
    pub(super) fn x(&self, share: f64) -> f64 {
        self.left + (self.right - self.left) * share.clamp(0.0, 1.0)
    }

    /// Returns where a share of the height is, from below.
    pub(super) fn y(&self, share: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * share.clamp(0.0, 1.0)
    }

    /// Writes the title above the frame.
    pub(super) fn title(&self, svg: &mut Svg, title: &str) {
        svg.text(self.left, self.top - 8.0, title, Text::strong());
    }

    /// Draws a line across, with its number on the left.
    pub(super) fn level(&self, svg: &mut Svg, y: f64, number: &str) {
        svg.line((self.left, y), (self.right, y), "#d9dde2", 0.8);
        self.number(svg, y, number);
    }

    /// Writes a number of the upright axis.
    pub(super) fn number(&self, svg: &mut Svg, y: f64, number: &str) {
        let text = Text::small("#444").anchored(Anchor::End);
        svg.text(self.left - 8.0, y + 4.0, number, text);
    }

    /// Draws an upright line.
    pub(super) fn upright(&self, svg: &mut Svg, x: f64) {
        svg.line((x, self.top), (x, self.bottom), "#eceff2", 0.8);
    }

    /// Draws a tick below the frame.
    pub(super) fn tick(&self, svg: &mut Svg, x: f64) {
        svg.line((x, self.bottom), (x, self.bottom + 4.0), "#444", 0.8);
    }

    /// Draws both axes.
    pub(super) fn axes(&self, svg: &mut Svg) {
        svg.line((self.left, self.bottom), (self.right, self.bottom), "#444", 1.0);
        svg.line((self.left, self.top), (self.left, self.bottom), "#444", 1.0);
    }
}

/// Writes a number of an axis of which `y` is the line of the numbers.
pub(super) fn number_below(svg: &mut Svg, x: f64, y: f64, number: &str) {
    svg.text(x, y, number, Text::small("#444").anchored(Anchor::Middle));
}

/// Returns the marks of a time axis, at most a dozen or so.
pub(super) fn seconds_marks(seconds: f64) -> impl Iterator<Item = f64> {
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 300.0];
    let step = steps.into_iter().find(|step| seconds / step <= 13.0).unwrap_or(600.0);
    (0..=(seconds / step) as u32).map(move |number| f64::from(number) * step)
}
