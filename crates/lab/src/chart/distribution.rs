//! Draws which share of the messages had been delivered after how long, one curve per scheme, one
//! panel per loss: cumulative distributions as in [LRT Fig. 5] and [LRT Fig. 6].

use std::path::{Path, PathBuf};

use super::area::{Area, LEFT, WIDTH, begin, number_below};
use super::legend::Entry;
use super::style;
use super::svg::{Anchor, Svg, Text, write};
use crate::scheme::Scheme;

/// Height of a panel with its title and numbers.
const PANEL: f64 = 300.0;
/// Space above the first panel for title and subtitle.
const HEAD: f64 = 84.0;
/// Space right of the panels, for the legend.
const RIGHT: f64 = 330.0;
/// Space above a panel for its title.
const TITLE: f64 = 24.0;
/// Space below a panel, for numbers.
const FOOT: f64 = 52.0;
/// From one line of the legend to the next.
const LEGEND_LINE: f64 = 38.0;

/// The picture of one run.
#[derive(Clone, Debug)]
pub(crate) struct DistributionChart<'a> {
    /// What the picture shows.
    pub(crate) title: String,
    /// How it was made.
    pub(crate) subtitle: String,
    /// The ends of the delay axis, milliseconds.
    pub(crate) axis_ms: (f64, f64),
    /// One panel per loss, with its title.
    pub(crate) panels: Vec<(String, Vec<Distribution<'a>>)>,
}

/// One scheme's curve.
#[derive(Clone, Debug)]
pub(crate) struct Distribution<'a> {
    /// The scheme.
    pub(crate) scheme: Scheme,
    /// What the legend says of it.
    pub(crate) note: String,
    /// Delays in milliseconds, ascending.
    pub(crate) delays_ms: &'a [f64],
    /// Messages submitted: those that were lost keep the curve below one.
    pub(crate) messages: u64,
}

impl DistributionChart<'_> {
    /// Writes the picture into a directory, which is made, and returns its path.
    ///
    /// # Errors
    /// Says which path could not be written, and why.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> Result<PathBuf, String> {
        write(directory, name, &self.to_svg())
    }

    /// Returns the picture.
    fn to_svg(&self) -> String {
        let height = HEAD + PANEL * self.panels.len() as f64;
        let mut svg = begin(LEFT, height, &self.title, &self.subtitle);
        for (index, (title, curves)) in self.panels.iter().enumerate() {
            let top = HEAD + PANEL * index as f64 + TITLE;
            let bottom = top + PANEL - TITLE - FOOT;
            let area = Area { left: LEFT, right: WIDTH - RIGHT, top, bottom };
            let frame = Frame { area, axis_ms: self.axis_ms };
            area.title(&mut svg, title);
            frame.draw_axes(&mut svg);
            // The product's own curve is drawn last, so that none hides it.
            for curve in curves.iter().rev() {
                let (colour, width) = style(curve.scheme);
                svg.polyline(&frame.points(curve), colour, width);
            }
            draw_legend(&mut svg, top, curves);
        }
        svg.finish()
    }
}

/// The place of one panel and the scale of its axes.
struct Frame {
    area: Area,
    axis_ms: (f64, f64),
}

impl Frame {
    fn x(&self, delay_ms: f64) -> f64 {
        let (from, to) = self.axis_ms;
        self.area.x((delay_ms - from) / (to - from))
    }

    /// Returns a curve's points, one for each pixel of the axis where it rises.
    fn points(&self, curve: &Distribution<'_>) -> Vec<(f64, f64)> {
        let (from, to) = self.axis_ms;
        let pixels = WIDTH - RIGHT - LEFT;
        let mut points: Vec<(f64, f64)> = Vec::new();
        for pixel in 0..=pixels as u32 {
            let delay = from + (to - from) * f64::from(pixel) / pixels;
            let within = curve.delays_ms.partition_point(|other| *other <= delay);
            let point = (self.x(delay), self.area.y(within as f64 / curve.messages.max(1) as f64));
            // Where it is level, the two ends are enough.
            match points.as_slice() {
                [.., before, last] if before.1 == last.1 && last.1 == point.1 => {
                    points.pop();
                }
                _ => {}
            }
            points.push(point);
        }
        points
    }

    /// Draws the grid and the numbers.
    fn draw_axes(&self, svg: &mut Svg) {
        let area = self.area;
        for tenth in [0.0, 0.25, 0.5, 0.7, 0.9] {
            area.level(svg, area.y(tenth), &tenth.to_string());
        }
        // A line without a number, which would lie on that of 1.
        svg.line((area.left, area.y(0.99)), (area.right, area.y(0.99)), "#d9dde2", 0.8);
        area.number(svg, area.top, "1");
        let (from, to) = self.axis_ms;
        let steps = [5.0, 10.0, 20.0, 50.0, 100.0, 200.0];
        let step = steps.into_iter().find(|step| (to - from) / step <= 12.0).unwrap_or(500.0);
        let mut at = (from / step).ceil() * step;
        while at <= to {
            let x = self.x(at);
            area.upright(svg, x);
            number_below(svg, x, area.bottom + 16.0, &format!("{at:.0}"));
            at += step;
        }
        area.axes(svg);
        let text = Text::body().anchored(Anchor::Middle);
        svg.text(area.x(0.5), area.bottom + 34.0, "ms from submitting to fetching, in order", text);
    }
}

/// Draws name and figures of every curve beside the panel.
fn draw_legend(svg: &mut Svg, top: f64, curves: &[Distribution<'_>]) {
    let left = WIDTH - RIGHT + 24.0;
    for (row, curve) in curves.iter().enumerate() {
        let y = top + 14.0 + LEGEND_LINE * row as f64;
        let name = Entry::scheme(curve.scheme).draw(svg, left, y);
        svg.text(name, y + 16.0, &curve.note, Text::small("#444"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_rise_to_what_was_delivered() {
        let delays = [50.0, 50.0, 60.0, 100.0];
        let curve = Distribution {
            scheme: Scheme::LRT,
            note: "a < b".to_owned(),
            delays_ms: &delays,
            messages: 5,
        };
        let area = Area { left: LEFT, right: WIDTH - RIGHT, top: 0.0, bottom: 100.0 };
        let frame = Frame { area, axis_ms: (40.0, 140.0) };
        let points = frame.points(&curve);
        assert_eq!(points.first().map(|point| point.1), Some(100.0));
        assert!((points.last().expect("points").1 - 20.0).abs() < 1e-9, "one of five was lost");
        assert!(points.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        let chart = DistributionChart {
            title: "delays".to_owned(),
            subtitle: "made up".to_owned(),
            axis_ms: (40.0, 140.0),
            panels: vec![("5 %".to_owned(), vec![curve])],
        };
        let svg = chart.to_svg();
        assert!(svg.contains("a &lt; b") && svg.contains("<polyline") && !svg.contains("NaN"));
    }
}
