//! Draws what a swept parameter does to schemes: on the left the share of the messages that arrived
//! as they should, on the right a high percentile of their delay; a row of two for each case.
//!
//! The values stand at equal distances, as they were asked for: a sweep over 1, 2, 5, 20 is not
//! crowded at its beginning. The distributions themselves are [`DistributionChart`]'s.
//!
//! [`DistributionChart`]: super::DistributionChart

use std::path::{Path, PathBuf};

use super::area::{Area, LEFT, WIDTH, begin, number_below};
use super::legend::{Entry, Legend};
use super::style;
use super::svg::{Anchor, Svg, Text, write};
use crate::scheme::Scheme;

/// Width of a panel's frame, and from the left one to the right one.
const FRAME: f64 = 500.0;
const BETWEEN: f64 = 600.0;
/// Space above the first row, for titles and a legend of one line.
const HEAD: f64 = 128.0;
/// Height of a frame, and from one row to the next.
const HEIGHT: f64 = 190.0;
const STEP: f64 = 262.0;
/// Radius of a dot.
const DOT: f64 = 3.0;
/// Numbers of a logarithmic axis within a factor of ten, and where that would crowd it.
const MARKS: [f64; 6] = [1.0, 1.5, 2.0, 3.0, 5.0, 7.0];
const FEW_MARKS: [f64; 3] = [1.0, 2.0, 5.0];
/// An axis that spans more than this factor has few marks.
const LONG_AXIS: f64 = 50.0;

/// The picture of one sweep.
#[derive(Clone, Debug)]
pub(crate) struct SweepChart {
    /// What the picture shows.
    pub(crate) title: String,
    /// How it was made.
    pub(crate) subtitle: String,
    /// What is swept, with its unit.
    pub(crate) parameter: String,
    /// Its values, in the order of the axis.
    pub(crate) values: Vec<f64>,
    /// The least delay that is possible: the delay axis begins there. Milliseconds.
    pub(crate) least_ms: f64,
    /// One row of panels per case.
    pub(crate) cases: Vec<SweepCase>,
}

/// One row of panels.
#[derive(Clone, Debug)]
pub(crate) struct SweepCase {
    /// Which share the left panel shows, and of what.
    pub(crate) share: String,
    /// Which delay the right one shows.
    pub(crate) delay: String,
    /// One curve per scheme.
    pub(crate) curves: Vec<SweepCurve>,
}

/// One scheme in one case.
#[derive(Clone, Debug)]
pub(crate) struct SweepCurve {
    /// The scheme.
    pub(crate) scheme: Scheme,
    /// Value of the parameter, share, and delay in milliseconds, if there is one.
    pub(crate) points: Vec<(f64, f64, Option<f64>)>,
}

impl SweepChart {
    /// Writes the picture into a directory, which is made, and returns its path.
    ///
    /// # Errors
    /// Says which path could not be written, and why.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> Result<PathBuf, String> {
        write(directory, name, &self.to_svg())
    }

    /// Returns the picture.
    fn to_svg(&self) -> String {
        let legend = self.legend();
        let head = HEAD + legend.extra_height();
        let height = head + STEP * self.cases.len() as f64;
        let mut svg = begin(LEFT, height, &self.title, &self.subtitle);
        legend.draw(&mut svg, LEFT, 82.0);
        let most_ms = self.most_ms();
        for (row, case) in self.cases.iter().enumerate() {
            let top = head + STEP * row as f64;
            let panel = |left| Area { left, right: left + FRAME, top, bottom: top + HEIGHT };
            let shares = panel(LEFT);
            shares.title(&mut svg, &case.share);
            let lines = (0..=5).map(|fifth| f64::from(fifth) / 5.0);
            let lines = lines.map(|share| (share, format!("{:.0} %", 100.0 * share)));
            self.draw_axes(&mut svg, &shares, &lines.collect::<Vec<_>>());
            let delays = panel(LEFT + BETWEEN);
            delays.title(&mut svg, &case.delay);
            let height = |ms: f64| (ms / self.least_ms).ln() / (most_ms / self.least_ms).ln();
            let lines = marks(self.least_ms, most_ms).into_iter();
            let lines = lines.map(|ms| (height(ms), format!("{ms} ms")));
            self.draw_axes(&mut svg, &delays, &lines.collect::<Vec<_>>());
            // The product's own curve is drawn last, so that none hides it.
            for curve in case.curves.iter().rev() {
                let points = curve.points.iter();
                self.draw(
                    &mut svg,
                    &shares,
                    curve.scheme,
                    points.map(|(at, share, _)| (*at, *share)),
                );
                let points = curve.points.iter().filter_map(|(at, _, ms)| Some((*at, (*ms)?)));
                self.draw(&mut svg, &delays, curve.scheme, points.map(|(at, ms)| (at, height(ms))));
            }
        }
        svg.finish()
    }

    fn legend(&self) -> Legend<'_> {
        let curves = self.cases.first().map_or(&[][..], |case| &case.curves);
        Legend::new(curves.iter().map(|curve| Entry::scheme(curve.scheme)), WIDTH - 2.0 * LEFT)
    }

    /// Draws the frame, a line for each of `lines` (height from 0 to 1, and what it is), and the
    /// values below.
    fn draw_axes(&self, svg: &mut Svg, area: &Area, lines: &[(f64, String)]) {
        for (height, label) in lines {
            area.level(svg, area.y(*height), label);
        }
        for value in &self.values {
            let x = area.x(self.across(*value));
            area.upright(svg, x);
            number_below(svg, x, area.bottom + 16.0, &value.to_string());
        }
        area.axes(svg);
        svg.text(
            area.x(0.5),
            area.bottom + 34.0,
            &self.parameter,
            Text::body().anchored(Anchor::Middle),
        );
    }

    /// Draws a curve with a dot at each value, heights from 0 to 1.
    fn draw(
        &self,
        svg: &mut Svg,
        area: &Area,
        scheme: Scheme,
        points: impl Iterator<Item = (f64, f64)>,
    ) {
        let (colour, width) = style(scheme);
        let place = |(at, height)| (area.x(self.across(at)), area.y(height));
        let points: Vec<(f64, f64)> = points.map(place).collect();
        svg.polyline(&points, colour, width);
        for (x, y) in points {
            svg.rectangle((x - DOT, y - DOT), (2.0 * DOT, 2.0 * DOT), colour);
        }
    }

    /// Returns at which share of a frame's width a value stands.
    fn across(&self, value: f64) -> f64 {
        let place = self.values.iter().position(|other| *other == value).unwrap_or(0);
        (place as f64 + 0.5) / self.values.len().max(1) as f64
    }

    /// Returns the upper end of the delay axis: the first mark that nothing exceeds.
    fn most_ms(&self) -> f64 {
        let points =
            self.cases.iter().flat_map(|case| &case.curves).flat_map(|curve| &curve.points);
        let most = points.filter_map(|(_, _, ms)| *ms).fold(2.0 * self.least_ms, f64::max);
        let decade = 10_f64.powf(most.log10().floor());
        MARKS
            .map(|mark| mark * decade)
            .into_iter()
            .find(|mark| *mark >= most)
            .unwrap_or(10.0 * decade)
    }
}

/// Returns the round numbers from `least` to `most`, both included where they are round.
fn marks(least: f64, most: f64) -> Vec<f64> {
    let marks: &[f64] = if most > LONG_AXIS * least { &FEW_MARKS } else { &MARKS };
    let decades = (0..).map(|power| 10_f64.powi(power)).take_while(|decade| *decade <= most);
    let marks = decades.flat_map(|decade| marks.iter().map(move |mark| mark * decade));
    marks.filter(|mark| (least..=most).contains(mark)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_has_a_curve_and_a_dot_for_every_value_that_was_reached() {
        let points = vec![(1.0, 0.9, Some(70.0)), (5.0, 0.95, None), (20.0, 1.0, Some(230.0))];
        let curve = |scheme| SweepCurve { scheme, points: points.clone() };
        let curves = vec![curve(Scheme::FULMAR), curve(Scheme::UDP)];
        let cases = vec![SweepCase { share: "a < b".to_owned(), delay: "c".to_owned(), curves }];
        let chart = SweepChart {
            title: "made up".to_owned(),
            subtitle: String::new(),
            parameter: "ms".to_owned(),
            values: vec![1.0, 5.0, 20.0],
            least_ms: 50.0,
            cases,
        };
        assert_eq!(chart.most_ms(), 300.0);
        let svg = chart.to_svg();
        assert!(svg.contains("a &lt; b") && svg.contains("300 ms") && !svg.contains("NaN"));
        assert_eq!(svg.matches("<polyline").count(), 4);
        // The background, three dots of each share and two of each delay.
        assert_eq!(svg.matches("<rect").count(), 1 + 2 * (3 + 2));
        assert_eq!(svg.matches('<').count(), svg.matches('>').count());
    }

    #[test]
    fn marks_are_round_and_within() {
        assert_eq!(marks(50.0, 200.0), [50.0, 70.0, 100.0, 150.0, 200.0]);
        assert_eq!(marks(50.0, 5_000.0), [50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3]);
    }
}
