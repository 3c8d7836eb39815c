//! The legend of every picture: a sample of each curve, dot or shade, and its name beside it.
//!
//! What a picture says of a curve beyond its name is the picture's own text, placed by it.

use super::style;
use super::svg::{Svg, Text};
use crate::scheme::Scheme;

/// From one line of entries to the next.
pub(super) const LINE: f64 = 20.0;
/// Length of a curve's sample, and side of a shade's.
const CURVE: f64 = 28.0;
const SHADE: f64 = 12.0;
/// From a sample to its name, and from there to the next sample.
const GAP: f64 = 8.0;
const BETWEEN: f64 = 30.0;
/// About the width of a letter of a name, and of a shade's smaller one: nothing here measures text.
const LETTER: f64 = 8.6;
const SMALL_LETTER: f64 = 7.0;
/// How far the middle of a sample is above the foot of its name.
const RAISED: f64 = 4.0;

/// How what is named looks in the picture.
#[derive(Clone, Copy, Debug)]
enum Sample {
    /// A curve, of this width.
    Curve(f64),
    /// A dot, of this radius.
    Dot(f64),
    /// A shaded span.
    Shade,
}

/// One line or part of a line: what something is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    name: &'a str,
    colour: &'static str,
    sample: Sample,
}

impl<'a> Entry<'a> {
    /// Names a scheme's curve.
    pub(super) fn scheme(scheme: Scheme) -> Self {
        let (colour, width) = style(scheme);
        Self::curve(scheme.name(), colour, width)
    }

    /// Names a curve.
    pub(super) fn curve(name: &'a str, colour: &'static str, width: f64) -> Self {
        Self { name, colour, sample: Sample::Curve(width) }
    }

    /// Names a dot.
    pub(super) fn dot(name: &'a str, colour: &'static str, radius: f64) -> Self {
        Self { name, colour, sample: Sample::Dot(radius) }
    }

    /// Names a shaded span.
    pub(super) fn shade(name: &'a str, colour: &'static str) -> Self {
        Self { name, colour, sample: Sample::Shade }
    }

    /// Draws the sample from `x` on and the name, whose foot is at `y`; returns where the name
    /// begins.
    pub(super) fn draw(&self, svg: &mut Svg, x: f64, y: f64) -> f64 {
        let (middle, name) = (y - RAISED, x + self.name_at());
        match self.sample {
            Sample::Curve(width) => svg.line((x, middle), (x + CURVE, middle), self.colour, width),
            Sample::Dot(radius) => svg.polyline(&[(x + radius, middle)], self.colour, radius),
            Sample::Shade => {
                svg.rectangle((x, middle - 0.5 * SHADE), (SHADE, SHADE), self.colour);
                svg.text(name, y, self.name, Text::small("#444"));
                return name;
            }
        }
        svg.text(name, y, self.name, Text::label(self.colour));
        name
    }

    /// Returns how far the name is from the front of the sample.
    fn name_at(&self) -> f64 {
        GAP + match self.sample {
            Sample::Curve(_) => CURVE,
            Sample::Dot(radius) => 2.0 * radius,
            Sample::Shade => SHADE,
        }
    }

    fn width(&self) -> f64 {
        let letter = match self.sample {
            Sample::Curve(_) | Sample::Dot(_) => LETTER,
            Sample::Shade => SMALL_LETTER,
        };
        self.name_at() + letter * self.name.chars().count() as f64
    }
}

/// Entries beside each other, in as many lines as they need.
pub(super) struct Legend<'a> {
    lines: Vec<Vec<Entry<'a>>>,
}

impl<'a> Legend<'a> {
    /// Puts entries into lines of at most this width; one that is wider has a line to itself.
    pub(super) fn new(entries: impl IntoIterator<Item = Entry<'a>>, width: f64) -> Self {
        let mut lines: Vec<Vec<Entry<'a>>> = Vec::new();
        for entry in entries {
            match lines.last_mut() {
                Some(line) if length(line) + BETWEEN + entry.width() <= width => line.push(entry),
                _ => lines.push(vec![entry]),
            }
        }
        Self { lines }
    }

    /// Returns how much higher it is than one line.
    pub(super) fn extra_height(&self) -> f64 {
        LINE * self.lines.len().saturating_sub(1) as f64
    }

    /// Draws it from `left` on, the foot of its first line at `y`.
    pub(super) fn draw(&self, svg: &mut Svg, left: f64, y: f64) {
        for (number, line) in self.lines.iter().enumerate() {
            let mut x = left;
            for entry in line {
                entry.draw(svg, x, y + LINE * number as f64);
                x += entry.width() + BETWEEN;
            }
        }
    }

    /// Draws it so that its longest line ends at `right`, the foot of its last line at `y`.
    pub(super) fn draw_until(&self, svg: &mut Svg, right: f64, y: f64) {
        let longest = self.lines.iter().map(|line| length(line)).fold(0.0, f64::max);
        self.draw(svg, right - longest, y - self.extra_height());
    }
}

/// Returns the length of a line.
fn length(line: &[Entry<'_>]) -> f64 {
    let names: f64 = line.iter().map(Entry::width).sum();
    names + BETWEEN * line.len().saturating_sub(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_goes_into_the_next_line() {
        let names = ["fulmar", "kernel_tcp_cubic", "udp"];
        let legend = |width| Legend::new(names.map(|name| Entry::curve(name, "#111", 1.5)), width);
        let lines = |width| legend(width).lines.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lines(1_000.0), [3]);
        assert_eq!(lines(320.0), [2, 1]);
        assert_eq!(lines(10.0), [1, 1, 1]);
        assert_eq!((legend(1_000.0).extra_height(), legend(10.0).extra_height()), (0.0, 40.0));
        let mut svg = Svg::new(400.0, 100.0);
        legend(320.0).draw_until(&mut svg, 400.0, 80.0);
        let svg = svg.finish();
        assert_eq!((svg.matches("<line").count(), svg.matches("<text").count()), (3, 3));
        assert!(svg.contains(r#"y="60.0""#) && svg.contains(r#"y="80.0""#), "{svg}");
    }
}
