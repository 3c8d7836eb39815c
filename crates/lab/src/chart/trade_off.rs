//! Draws throughput against queueing delay, a dot for each scheme, a panel for each kind of link.
//!
//! Not curves over time: what a congestion control is worth is where its dot lies, and the upper
//! left corner is the best that a link can give.

use std::path::{Path, PathBuf};

use super::area::{Area, WIDTH, begin, number_below};
use super::legend::{Entry, Legend};
use super::svg::{Anchor, Svg, Text, write};
use crate::scheme::Scheme;

/// Space left of a row of panels and right of it.
const MARGIN: f64 = 62.0;
/// Space above the first row, for titles and a legend of one line.
const HEAD: f64 = 120.0;
/// Height of a panel's frame, and from one to the next.
const FRAME: f64 = 176.0;
const STEP: f64 = 246.0;
/// Space between panels of a row.
const BETWEEN: f64 = 44.0;
/// Panels of a row.
const COLUMNS: usize = 4;
/// Radius of a dot.
const DOT: f64 = 5.5;

/// A picture of where schemes lie.
#[derive(Clone, Debug)]
pub(crate) struct TradeOff {
    /// What it shows.
    pub(crate) title: String,
    /// How it was made.
    pub(crate) subtitle: String,
    /// The upper end of the throughput axis, Mbit/s.
    pub(crate) rate_mbps: f64,
    /// The panels, row by row.
    pub(crate) panels: Vec<Plane>,
}

/// One panel.
#[derive(Clone, Debug)]
pub(crate) struct Plane {
    /// Which links it is about.
    pub(crate) title: String,
    /// The right end of the delay axis, milliseconds: what a full queue takes.
    pub(crate) full_ms: f64,
    /// The schemes: queueing delay in milliseconds, throughput in Mbit/s.
    pub(crate) dots: Vec<(Scheme, f64, f64)>,
}

impl TradeOff {
    /// Writes the picture into a directory, which is made, and returns its path.
    ///
    /// # Errors
    /// Says which path could not be written, and why.
    pub(crate) fn write(&self, directory: &Path) -> Result<PathBuf, String> {
        write(directory, "trade-off.svg", &self.to_svg())
    }

    fn to_svg(&self) -> String {
        let rows = self.panels.len().div_ceil(COLUMNS);
        let legend = self.legend();
        let head = HEAD + legend.extra_height();
        let mut svg = begin(MARGIN, head + STEP * rows as f64, &self.title, &self.subtitle);
        legend.draw(&mut svg, MARGIN, 84.0);
        for (number, plane) in self.panels.iter().enumerate() {
            self.draw(&mut svg, plane, number, head);
        }
        svg.finish()
    }

    /// Names each scheme that occurs.
    fn legend(&self) -> Legend<'_> {
        let mut named: Vec<Scheme> = Vec::new();
        for (scheme, _, _) in self.panels.iter().flat_map(|plane| &plane.dots) {
            if !named.contains(scheme) {
                named.push(*scheme);
            }
        }
        let entries = named.into_iter().map(|one| Entry::dot(one.name(), colour(one), DOT));
        Legend::new(entries, WIDTH - 2.0 * MARGIN)
    }

    fn draw(&self, svg: &mut Svg, plane: &Plane, number: usize, head: f64) {
        let columns = COLUMNS as f64;
        let width = (WIDTH - 2.0 * MARGIN - BETWEEN * (columns - 1.0)) / columns;
        let left = MARGIN + (width + BETWEEN) * (number % COLUMNS) as f64;
        let top = head + STEP * (number / COLUMNS) as f64;
        let area = Area { left, right: left + width, top, bottom: top + FRAME };
        let x = |ms: f64| area.x(ms / plane.full_ms);
        let y = |mbps: f64| area.y(mbps / self.rate_mbps);
        area.title(svg, &plane.title);
        for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let (ms, mbps) = (part * plane.full_ms, part * self.rate_mbps);
            area.level(svg, y(mbps), &format!("{mbps:.1}"));
            area.upright(svg, x(ms));
            let digits = usize::from((ms - ms.round()).abs() > 0.04);
            number_below(svg, x(ms), area.bottom + 16.0, &format!("{ms:.digits$}"));
        }
        area.axes(svg);
        let text = Text::small("#444").anchored(Anchor::Middle);
        svg.text(area.x(0.5), area.bottom + 34.0, "mean queueing delay, ms; up: Mbit/s", text);
        for (scheme, ms, mbps) in &plane.dots {
            svg.polyline(&[(x(*ms), y(*mbps))], colour(*scheme), DOT);
        }
    }
}

/// Returns the colour of a congestion control; they stay apart for the colour-blind.
fn colour(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::ASRAN_DELAY => "#0a4fd1",
        Scheme::ASRAN => "#d97706",
        Scheme::ASRAN_CUBIC => "#a21d75",
        Scheme::ASRAN_JUMP => "#c9a400",
        Scheme::BBR => "#1b8a3a",
        Scheme::CUBIC => "#4b6363",
        _ => "#9aa0a6",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_has_a_dot_for_each_scheme_and_its_name() {
        let dots = vec![(Scheme::ASRAN, 50.0, 5.7), (Scheme::ASRAN_DELAY, 14.0, 900.0)];
        let plane =
            |title: &str| Plane { title: title.to_owned(), full_ms: 100.0, dots: dots.clone() };
        let chart = TradeOff {
            title: "a < b".to_owned(),
            subtitle: String::new(),
            rate_mbps: 6.0,
            panels: vec![plane("one"), plane("two")],
        };
        let svg = chart.to_svg();
        // Two in the legend, two in each panel; what lies outside is drawn at the edge.
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains("a &lt; b") && svg.contains("asran_delay") && !svg.contains("NaN"));
    }
}
