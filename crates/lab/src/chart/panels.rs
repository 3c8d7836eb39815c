//! Draws curves over time in panels below each other: throughput, windows.
//!
//! Not the control delay of [`Chart`](super::Chart), which has an axis and marks of its own.

use std::path::{Path, PathBuf};

use super::area::{Area, LEFT, WIDTH, begin, number_below};
use super::legend::{Entry, Legend};
use super::svg::{Svg, write};

const RIGHT: f64 = 36.0;
/// Space above the first panel, for titles.
const HEAD: f64 = 108.0;
/// Height of a panel's frame, and from one to the next.
const FRAME: f64 = 132.0;
const STEP: f64 = 188.0;
/// Space below the last panel, for numbers.
const FOOT: f64 = 26.0;

/// A picture of curves over time.
#[derive(Clone, Debug)]
pub(crate) struct TimeChart {
    /// What it shows.
    pub(crate) title: String,
    /// How it was made.
    pub(crate) subtitle: String,
    /// Length of the time axis, seconds.
    pub(crate) seconds: f64,
    /// Spans that are shaded in every panel, and what they are.
    pub(crate) spans: Vec<(f64, f64)>,
    /// The panels, from above.
    pub(crate) panels: Vec<Panel>,
}

/// One panel.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// What it shows.
    pub(crate) title: String,
    /// The curves; the first is drawn last, over the others.
    pub(crate) curves: Vec<TimeCurve>,
}

/// One curve.
#[derive(Clone, Debug)]
pub(crate) struct TimeCurve {
    /// Its name for the legend.
    pub(crate) name: String,
    /// Its colour.
    pub(crate) colour: &'static str,
    /// Time in seconds, and value.
    pub(crate) points: Vec<(f64, f64)>,
}

impl TimeChart {
    /// Writes the picture as `name` into a directory, which is made, and returns its path.
    ///
    /// # Errors
    /// Says which path could not be written, and why.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> Result<PathBuf, String> {
        write(directory, name, &self.to_svg())
    }

    fn to_svg(&self) -> String {
        let height = HEAD + STEP * self.panels.len() as f64 + FOOT;
        let mut svg = begin(LEFT, height, &self.title, &self.subtitle);
        for (i, panel) in self.panels.iter().enumerate() {
            let top = HEAD + STEP * i as f64;
            self.draw(&mut svg, panel, top);
        }
        svg.finish()
    }

    fn draw(&self, svg: &mut Svg, panel: &Panel, top: f64) {
        let area = Area { left: LEFT, right: WIDTH - RIGHT, top, bottom: top + FRAME };
        let x = |at: f64| area.x(at / self.seconds);
        for (from, to) in &self.spans {
            let width = (x(*to) - x(*from)).max(0.6);
            svg.rectangle((x(*from), top), (width, FRAME), "#f6e3df");
        }
        let step = round_step(panel.greatest());
        let y = |value: f64| area.y(value / (4.0 * step));
        for line in 0..=4 {
            let value = step * f64::from(line);
            area.level(svg, y(value), &short(value));
        }
        let marks = round_step(self.seconds * 0.4);
        let mut at = 0.0;
        while at <= self.seconds {
            area.tick(svg, x(at));
            number_below(svg, x(at), area.bottom + 16.0, &format!("{} s", short(at)));
            at += marks;
        }
        area.title(svg, &panel.title);
        for (i, curve) in panel.curves.iter().enumerate().rev() {
            let points: Vec<(f64, f64)> =
                curve.points.iter().map(|(at, value)| (x(*at), y(*value))).collect();
            svg.polyline(&points, curve.colour, width(i));
        }
        let entries = panel.curves.iter().enumerate();
        let entries = entries.map(|(i, curve)| Entry::curve(&curve.name, curve.colour, width(i)));
        Legend::new(entries, f64::INFINITY).draw_until(svg, area.right, top - 8.0);
        area.axes(svg);
    }
}

/// Returns the width of a curve.
fn width(number: usize) -> f64 {
    if number == 0 { 2.0 } else { 1.5 }
}

impl Panel {
    fn greatest(&self) -> f64 {
        let values = self.curves.iter().flat_map(|curve| &curve.points).map(|(_, value)| *value);
        values.fold(0.0, f64::max)
    }
}

/// Returns a round number, four times which reaches `greatest`.
fn round_step(greatest: f64) -> f64 {
    let least = (greatest / 4.0).max(1e-3);
    let power = 10.0_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
    factors.into_iter().find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

/// Writes a number of an axis without needless digits.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_reach() {
        let steps = [0.9, 4.0, 4.1, 100.0, 0.0].map(round_step);
        assert_eq!(steps, [0.25, 1.0, 2.0, 25.0, 0.001]);
        assert_eq!((short(2.5), short(40.0), short(0.0)), ("2.5".into(), "40".into(), "0".into()));
    }

    #[test]
    fn picture_is_sound() {
        let curve = |name: &str, height: f64| TimeCurve {
            name: name.to_owned(),
            colour: "#0a4fd1",
            points: (0..60).map(|i| (f64::from(i), height * f64::from(i % 7))).collect(),
        };
        let panel =
            Panel { title: "a < b".to_owned(), curves: vec![curve("x", 1.0), curve("y", 0.4)] };
        let chart = TimeChart {
            title: "made up".to_owned(),
            subtitle: String::new(),
            seconds: 60.0,
            spans: vec![(4.0, 5.0)],
            panels: vec![panel.clone(), panel],
        };
        let svg = chart.to_svg();
        assert!(svg.contains("a &lt; b") && !svg.contains("NaN"));
        assert_eq!(svg.matches("<polyline").count(), 4);
    }
}
