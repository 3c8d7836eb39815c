//! Draws functions of one variable, several curves in a panel, one panel under the other: what a
//! model says.
//!
//! Not measurements: curves are named here, not by schemes.

use std::path::{Path, PathBuf};

use super::area::{Area, LEFT, WIDTH, begin, number_below};
use super::legend::{Entry, Legend};
use super::svg::{Anchor, Svg, Text, write};

/// Height of a panel with its title, legend and numbers.
const PANEL: f64 = 380.0;
/// Space above the first panel for title and subtitle.
const HEAD: f64 = 72.0;
/// Space above a panel's frame for its title and legend, and below for numbers and the axis' name.
const TITLE: f64 = 52.0;
const FOOT: f64 = 54.0;
/// Space right of panels.
const RIGHT: f64 = 40.0;
/// Colours of curves, which stay apart for the colour-blind.
const COLOURS: [&str; 7] =
    ["#0a4fd1", "#d97706", "#1b8a3a", "#a21d75", "#4b6363", "#8a1c1c", "#7b6fd0"];
const WIDTH_OF_CURVE: f64 = 2.0;
/// The least that a logarithmic axis shows.
const DECADES_MAX: i32 = 12;

/// The picture of one model.
#[derive(Clone, Debug)]
pub(crate) struct FunctionChart {
    /// What the picture shows.
    pub(crate) title: String,
    /// How it was made.
    pub(crate) subtitle: String,
    /// One under the other.
    pub(crate) panels: Vec<FunctionPanel>,
}

/// Some functions over the same axes.
#[derive(Clone, Debug)]
pub(crate) struct FunctionPanel {
    /// What is drawn.
    pub(crate) title: String,
    /// The variable, with its unit.
    pub(crate) variable: String,
    /// The ends of its axis.
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// The ends of the upright axis.
    pub(crate) heights: Heights,
    /// Curves, with their names.
    pub(crate) curves: Vec<(String, Vec<(f64, f64)>)>,
    /// Values that the paper prints, as dots with what they are.
    pub(crate) printed: Vec<(f64, f64, String)>,
}

/// Says how the upright axis goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heights {
    /// Evenly from one value to the other.
    Linear(f64, f64),
    /// By powers of ten, from the first to the second.
    Decades(i32, i32),
}

impl FunctionChart {
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
        for (index, panel) in self.panels.iter().enumerate() {
            let top = HEAD + PANEL * index as f64;
            let area = Area {
                left: LEFT,
                right: WIDTH - RIGHT,
                top: top + TITLE,
                bottom: top + PANEL - FOOT,
            };
            panel.draw(&mut svg, area);
        }
        svg.finish()
    }
}

impl FunctionPanel {
    fn draw(&self, svg: &mut Svg, area: Area) {
        svg.text(area.left, area.top - 30.0, &self.title, Text::strong());
        let entries = self
            .curves
            .iter()
            .zip(COLOURS.iter().cycle())
            .map(|((name, _), colour)| Entry::curve(name, colour, WIDTH_OF_CURVE));
        Legend::new(entries, area.right - area.left).draw(svg, area.left, area.top - 8.0);
        for (height, number) in self.heights.marks() {
            area.level(svg, area.y(height), &number);
        }
        for at in marks(self.from, self.to) {
            let x = area.x((at - self.from) / (self.to - self.from));
            area.upright(svg, x);
            area.tick(svg, x);
            number_below(svg, x, area.bottom + 18.0, &shown(at));
        }
        area.axes(svg);
        let middle = Text::body().anchored(Anchor::Middle);
        svg.text(area.x(0.5), area.bottom + 38.0, &self.variable, middle);
        for ((_, points), colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            // A curve ends where it leaves the frame.
            for stretch in points.split(|(_, y)| self.heights.share(*y).is_none()) {
                let points: Vec<(f64, f64)> =
                    stretch.iter().filter_map(|point| self.place(&area, *point)).collect();
                svg.polyline(&points, colour, WIDTH_OF_CURVE);
            }
        }
        for (x, y, what) in &self.printed {
            let Some((x, y)) = self.place(&area, (*x, *y)) else { continue };
            svg.polyline(&[(x, y)], "#111", 4.0);
            svg.text(x + 8.0, y - 6.0, what, Text::small("#111"));
        }
    }

    fn place(&self, area: &Area, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let share = (x - self.from) / (self.to - self.from);
        Some((area.x(share), area.y(self.heights.share(y)?)))
    }
}

impl Heights {
    /// Returns how high a value is; none where it is outside the frame.
    fn share(self, value: f64) -> Option<f64> {
        let share = match self {
            Self::Linear(from, to) => (value - from) / (to - from),
            Self::Decades(from, to) => (value.log10() - f64::from(from)) / f64::from(to - from),
        };
        (-1e-9..=1.0 + 1e-9).contains(&share).then_some(share)
    }

    /// Returns the lines across: how high, and their numbers.
    fn marks(self) -> Vec<(f64, String)> {
        match self {
            Self::Linear(from, to) => {
                marks(from, to).map(|value| ((value - from) / (to - from), shown(value))).collect()
            }
            Self::Decades(from, to) => (from.max(to - DECADES_MAX)..=to)
                .map(|power| (f64::from(power - from) / f64::from(to - from), decade(power)))
                .collect(),
        }
    }
}

/// Returns the marks of an axis: ten or so, at round numbers.
fn marks(from: f64, to: f64) -> impl Iterator<Item = f64> {
    let rough = (to - from) / 10.0;
    let decade = 10.0_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade);
    let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough);
    let first = (from / step - 1e-9).ceil();
    (0..32)
        .map(move |n| (first + f64::from(n)) * step)
        .take_while(move |at| *at <= to + 1e-9 * step)
}

/// Writes a number of an axis without digits that say nothing.
fn shown(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn decade(power: i32) -> String {
    match power {
        -3..=3 => shown(10.0_f64.powi(power)),
        _ => format!("1e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_end_where_they_leave_the_frame_and_axes_have_round_numbers() {
        let of = |from, to| marks(from, to).map(shown).collect::<Vec<_>>();
        assert_eq!(of(0.0, 1.0)[..3], ["0", "0.1", "0.2"]);
        assert_eq!(of(1.0, 100.0)[..2], ["10", "20"]);
        assert_eq!((decade(-2), decade(-6)), ("0.01".to_owned(), "1e-6".to_owned()));
        assert_eq!(Heights::Decades(-4, 0).share(0.01), Some(0.5));
        assert_eq!(Heights::Linear(1.0, 2.0).share(3.0), None);
        let panel = FunctionPanel {
            title: "a < b".to_owned(),
            variable: "x".to_owned(),
            from: 0.0,
            to: 1.0,
            heights: Heights::Linear(0.0, 1.0),
            curves: vec![("one".to_owned(), vec![(0.0, 0.0), (0.5, 0.5), (0.9, 2.0)])],
            printed: vec![(0.5, 0.5, "printed".to_owned())],
        };
        let chart =
            FunctionChart { title: "t".to_owned(), subtitle: "s".to_owned(), panels: vec![panel] };
        let svg = chart.to_svg();
        assert!(svg.contains("a &lt; b") && svg.contains("printed") && !svg.contains("NaN"));
        assert_eq!(svg.matches("<polyline").count(), 1);
    }
}
