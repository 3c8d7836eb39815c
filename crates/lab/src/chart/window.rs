//! Draws a window of changing links: what they carry over time, where control was missed, what the
//! video got.
//!
//! One time axis for all panels. A rate's axis is logarithmic, since control needs a thousandth of
//! what video does; what is below its foot is drawn at it.

use std::path::{Path, PathBuf};

use super::area::{LEFT, WIDTH, number_below, seconds_marks};
use super::layout::RIGHT;
use super::legend::{Entry, Legend};
use super::svg::{Anchor, Svg, Text, write};
use super::{runs, style};
use crate::scheme::Scheme;

/// Space above the first panel, for titles.
const HEAD: f64 = 74.0;
/// Space above a panel's frame, for its title.
const TITLE: f64 = 30.0;
/// Height of the frame of a panel of rates, and of the video's.
const RATES: f64 = 130.0;
const VIDEO: f64 = 110.0;
/// Height of a lane of missed messages.
const LANE: f64 = 15.0;
/// Space left of the panels beside [`LEFT`], for the names of lanes.
const NAMES: f64 = 92.0;
/// Space below the last panel, for the time axis.
const FOOT: f64 = 46.0;

/// The foot and the head of the axis of rates, Mbit/s.
const LEAST_MBPS: f64 = 0.01;
const MOST_MBPS: f64 = 200.0;
/// Width of the curve of a rate.
const RATE: f64 = 1.6;
/// Colours of links; they stay apart for the colour-blind.
const LINKS: [&str; 4] = ["#0a4fd1", "#d97706", "#1b8a3a", "#a21d75"];
/// Shades of the seconds in which no link, and one link, is alive.
const SHADES: [&str; 2] = ["#f3c4bb", "#fbf0d3"];

/// The picture of one window.
#[derive(Clone, Debug)]
pub(crate) struct WindowChart {
    /// What it shows.
    pub(crate) title: String,
    /// How it was made.
    pub(crate) subtitle: String,
    /// Length of the time axis, seconds.
    pub(crate) seconds: f64,
    /// Each direction, from above.
    pub(crate) ways: Vec<WayChart>,
    /// The share of video in time of each scheme, with its name: time in seconds, share.
    pub(crate) video: Vec<(Scheme, Vec<(f64, f64)>)>,
}

/// One direction of the picture.
#[derive(Clone, Debug)]
pub(crate) struct WayChart {
    /// Which one.
    pub(crate) title: String,
    /// How many links are alive in each second.
    pub(crate) alive: Vec<usize>,
    /// What the links carry: time in seconds, Mbit/s.
    pub(crate) rates: Vec<(String, Vec<(f64, f64)>)>,
    /// Where control was missed.
    pub(crate) lanes: Vec<Lane>,
}

/// Where one run missed control.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// Which run.
    pub(crate) name: String,
    /// The scheme whose colour it has.
    pub(crate) scheme: Scheme,
    /// When the messages were sent that were lost or late, in order.
    pub(crate) missed: Vec<f64>,
}

impl WindowChart {
    /// Writes the picture as `name` into a directory, which is made, and returns its path.
    ///
    /// # Errors
    /// Says which path could not be written, and why.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> Result<PathBuf, String> {
        write(directory, name, &self.to_svg())
    }

    fn to_svg(&self) -> String {
        let way = |way: &WayChart| 2.0 * TITLE + RATES + LANE * way.lanes.len() as f64 + 8.0;
        let video = if self.video.is_empty() { 0.0 } else { TITLE + VIDEO };
        let height = HEAD + self.ways.iter().map(way).sum::<f64>() + video + FOOT;
        let mut svg = Svg::new(WIDTH, height);
        svg.text(LEFT, 30.0, &self.title, Text::heading());
        svg.text(LEFT, 52.0, &self.subtitle, Text::body());
        let shades = ["no link alive", "one link alive"].into_iter().zip(SHADES);
        let shades = shades.map(|(name, colour)| Entry::shade(name, colour));
        Legend::new(shades, WIDTH).draw(&mut svg, LEFT, 71.0);
        let mut top = HEAD;
        for direction in &self.ways {
            self.draw_rates(&mut svg, direction, top + TITLE);
            self.draw_lanes(&mut svg, direction, top + 2.0 * TITLE + RATES);
            top += way(direction);
        }
        if !self.video.is_empty() {
            self.draw_video(&mut svg, top + TITLE);
            top += video;
        }
        self.draw_time(&mut svg, top);
        svg.finish()
    }

    fn x(&self, at: f64) -> f64 {
        let left = LEFT + NAMES;
        left + (WIDTH - RIGHT - left) * (at / self.seconds).clamp(0.0, 1.0)
    }

    fn draw_rates(&self, svg: &mut Svg, way: &WayChart, top: f64) {
        let bottom = top + RATES;
        self.shade(svg, &way.alive, top, RATES);
        let y = |mbps: f64| {
            let share = (mbps.clamp(LEAST_MBPS, MOST_MBPS) / LEAST_MBPS).ln();
            bottom - RATES * share / (MOST_MBPS / LEAST_MBPS).ln()
        };
        for mbps in [0.01, 0.1, 1.0, 10.0, 100.0] {
            self.mark(svg, y(mbps), &mbps.to_string());
        }
        let title = format!("{}: what the links carry, Mbit/s", way.title);
        svg.text(LEFT + NAMES, top - 8.0, &title, Text::strong());
        let mut named = Vec::new();
        for (number, (name, points)) in way.rates.iter().enumerate() {
            let colour = LINKS[number % LINKS.len()];
            let mut steps = Vec::with_capacity(2 * points.len());
            for (at, mbps) in points {
                // A step: the rate before holds until here.
                steps.extend(steps.last().map(|(_, before)| (self.x(*at), *before)));
                steps.push((self.x(*at), y(*mbps)));
            }
            svg.polyline(&steps, colour, RATE);
            named.push(Entry::curve(name, colour, RATE));
        }
        Legend::new(named, f64::INFINITY).draw_until(svg, WIDTH - RIGHT, top - 8.0);
        svg.line((self.x(0.0), bottom), (WIDTH - RIGHT, bottom), "#444", 1.0);
    }

    fn draw_lanes(&self, svg: &mut Svg, way: &WayChart, top: f64) {
        let height = LANE * way.lanes.len() as f64;
        self.shade(svg, &way.alive, top, height);
        let title = format!("{}: control lost or late", way.title);
        svg.text(LEFT + NAMES, top - 8.0, &title, Text::strong());
        for (number, lane) in way.lanes.iter().enumerate() {
            let y = top + LANE * number as f64;
            let (colour, _) = style(lane.scheme);
            let label = Text::small(colour).anchored(Anchor::End);
            svg.text(LEFT + NAMES - 8.0, y + LANE - 4.0, &lane.name, label);
            svg.line((self.x(0.0), y + LANE), (WIDTH - RIGHT, y + LANE), "#d9dde2", 0.6);
            for (from, to) in runs(lane.missed.iter().map(|sent| self.x(*sent))) {
                svg.rectangle((from, y + 2.0), (to - from, LANE - 3.0), colour);
            }
            let count = lane.missed.len().to_string();
            svg.text(WIDTH - RIGHT + 6.0, y + LANE - 4.0, &count, Text::small(colour));
        }
    }

    fn draw_video(&self, svg: &mut Svg, top: f64) {
        let bottom = top + VIDEO;
        let y = |share: f64| bottom - VIDEO * share.clamp(0.0, 1.0);
        for (share, label) in [(0.0, "0"), (0.5, "50 %"), (1.0, "100 %")] {
            self.mark(svg, y(share), label);
        }
        let title = "drone to station: video within 250 ms, by second";
        svg.text(LEFT + NAMES, top - 8.0, title, Text::strong());
        for (scheme, points) in self.video.iter().rev() {
            let (colour, width) = style(*scheme);
            let points: Vec<(f64, f64)> =
                points.iter().map(|(at, share)| (self.x(*at), y(*share))).collect();
            svg.polyline(&points, colour, 0.7 * width);
        }
        let named = self.video.iter().map(|(scheme, _)| Entry::scheme(*scheme));
        Legend::new(named, f64::INFINITY).draw_until(svg, WIDTH - RIGHT, top - 8.0);
    }

    /// Draws a line across a panel, with its value.
    fn mark(&self, svg: &mut Svg, y: f64, label: &str) {
        svg.line((self.x(0.0), y), (WIDTH - RIGHT, y), "#d9dde2", 0.8);
        let text = Text::small("#444").anchored(Anchor::End);
        svg.text(LEFT + NAMES - 8.0, y + 4.0, label, text);
    }

    /// Shades the seconds in which fewer than two links are alive.
    fn shade(&self, svg: &mut Svg, alive: &[usize], top: f64, height: f64) {
        let mut from = 0;
        for stretch in alive.chunk_by(|a, b| a == b) {
            let to = from + stretch.len();
            if let Some(shade) = stretch.first().and_then(|links| SHADES.get(*links)) {
                let (left, right) = (self.x(from as f64), self.x(to as f64));
                svg.rectangle((left, top), (right - left, height), shade);
            }
            from = to;
        }
    }

    fn draw_time(&self, svg: &mut Svg, top: f64) {
        for at in seconds_marks(self.seconds) {
            number_below(svg, self.x(at), top + 18.0, &format!("{at:.0}"));
        }
        let middle = 0.5 * (self.x(0.0) + WIDTH - RIGHT);
        let text = Text::body().anchored(Anchor::Middle);
        svg.text(middle, top + 36.0, "seconds; a message counts when it was sent", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_is_sound_and_shades_poor_seconds() {
        let way = WayChart {
            title: "a < b".to_owned(),
            alive: vec![2, 2, 1, 0, 0, 2],
            rates: vec![("x".to_owned(), vec![(0.0, 1.0), (3.0, 0.0), (6.0, 900.0)])],
            lanes: vec![Lane {
                name: "fulmar alone".to_owned(),
                scheme: Scheme::FULMAR,
                missed: vec![2.0, 2.02, 5.0],
            }],
        };
        let chart = WindowChart {
            title: "made up".to_owned(),
            subtitle: String::new(),
            seconds: 6.0,
            ways: vec![way.clone(), way],
            video: vec![(Scheme::FULMAR, vec![(0.5, 1.0), (1.5, 0.25)])],
        };
        let svg = chart.to_svg();
        assert!(svg.contains("a &lt; b") && !svg.contains("NaN"));
        // In the legend once, then for each direction over its rates and its lanes.
        assert!(SHADES.iter().all(|shade| svg.matches(shade).count() == 1 + 2 * 2));
        assert_eq!(svg.matches("<polyline").count(), 3);
    }
}
