//! Draws control delay over time, one curve per scheme, as an SVG picture.
//!
//! Not the figures: a picture shows the slowest message of every fifth of a second and a tick for
//! every lost one; percentiles come from the experiment's figures. The pictures are written by
//! hand, since no plotting library draws lanes of lost messages; what all of them have in common is
//! in `area` and `legend`.

mod area;
mod distribution;
mod functions;
mod layout;
mod legend;
mod map;
mod panels;
mod svg;
mod sweep;
mod swept;
mod trade_off;
mod window;

pub(crate) use distribution::{Distribution, DistributionChart};
pub(crate) use functions::{FunctionChart, FunctionPanel, Heights};
pub(crate) use map::{Map, MapMark, MapStep};
pub(crate) use panels::{Panel, TimeChart, TimeCurve};
pub(crate) use sweep::{SweepCase, SweepChart, SweepCurve};
pub(crate) use swept::{Sample, Swept};
pub(crate) use trade_off::{Plane, TradeOff};
pub(crate) use window::{Lane, WayChart, WindowChart};

use std::path::{Path, PathBuf};

use crate::experiment::streams::figures::{LATE_S, Span};
use crate::scheme::Scheme;
use crate::statistics::maximum;

use area::{LEFT, WIDTH, begin, number_below};
use layout::{Frame, HEIGHT, Panels};
use legend::Entry;
use svg::{Anchor, Svg, Text, write};

/// Messages sent within this time make one point of a curve.
const BIN_S: f64 = 0.2;

/// Says how to read the picture.
pub(crate) const CHART_NOTE: &str = "Each point is the slowest message of 0.2 s; a tick below \
is a lost message.";

/// The picture of one run.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// What the picture shows.
    pub(crate) title: String,
    /// How it was made.
    pub(crate) subtitle: String,
    /// Length of the run, seconds.
    pub(crate) seconds: f64,
    /// Spans with a name that are shaded.
    pub(crate) spans: Vec<(Span, String)>,
    /// One panel per direction, with its title.
    pub(crate) panels: Vec<(String, Vec<Curve>)>,
}

/// One scheme's curve.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// The scheme.
    pub(crate) scheme: Scheme,
    /// Every message: when it was sent, and its delay or none where it was lost; in seconds.
    pub(crate) messages: Vec<(f64, Option<f64>)>,
}

impl Curve {
    /// Returns the share of messages that were lost or late, in percent.
    fn miss_percent(&self) -> f64 {
        let missed = self.messages.iter().filter(|(_, delay)| delay.is_none_or(|d| d > LATE_S));
        100.0 * missed.count() as f64 / self.messages.len().max(1) as f64
    }

    /// Returns the slowest delivered message of every bin, none for bins without any.
    fn bins(&self, seconds: f64) -> Vec<(f64, Option<f64>)> {
        let count = (seconds / BIN_S).ceil() as usize;
        let mut bins = vec![Vec::new(); count];
        for (sent, delay) in &self.messages {
            if let (Some(bin), Some(delay)) = (bins.get_mut((sent / BIN_S) as usize), delay) {
                bin.push(*delay);
            }
        }
        let middle = |i: usize| (i as f64 + 0.5) * BIN_S;
        bins.iter().enumerate().map(|(i, delays)| (middle(i), maximum(delays))).collect()
    }
}

impl Chart {
    /// Writes the picture into a directory, which is made, and returns its path.
    ///
    /// # Errors
    /// Says which path could not be written, and why.
    pub(crate) fn write(&self, directory: &Path) -> Result<PathBuf, String> {
        write(directory, "control-delay.svg", &self.to_svg())
    }

    /// Returns the picture.
    fn to_svg(&self) -> String {
        let mut svg = begin(LEFT, HEIGHT, &self.title, &self.subtitle);
        self.draw_legend(&mut svg);
        let panels = Panels::new(self.panels.len(), self.most_curves());
        for (i, (title, curves)) in self.panels.iter().enumerate() {
            let frame = panels.frame(i, self.seconds);
            self.draw_background(&mut svg, &frame, title, i == 0);
            draw_axes(&mut svg, &frame, i + 1 == self.panels.len());
            // The product's own curve is drawn last, so that none hides it.
            for curve in curves.iter().rev() {
                self.draw_curve(&mut svg, &frame, curve);
            }
            draw_losses(&mut svg, &frame, curves);
        }
        svg.finish()
    }

    fn most_curves(&self) -> usize {
        self.panels.iter().map(|(_, curves)| curves.len()).max().unwrap_or(0)
    }

    /// Draws a line per scheme, with its meaning and the share missed in each direction.
    fn draw_legend(&self, svg: &mut Svg) {
        let Some((_, curves)) = self.panels.first() else { return };
        for (row, curve) in curves.iter().enumerate() {
            let y = 82.0 + legend::LINE * row as f64;
            Entry::scheme(curve.scheme).draw(svg, LEFT, y);
            svg.text(LEFT + 170.0, y, curve.scheme.meaning(), Text::body());
            let of_scheme = |curves: &Vec<Curve>| {
                curves.iter().find(|other| other.scheme == curve.scheme).map(Curve::miss_percent)
            };
            let misses = self.panels.iter().filter_map(|(_, curves)| of_scheme(curves));
            let text: Vec<String> = misses.map(|miss| format!("{miss:.1} %")).collect();
            let missed = format!("missed {} (up / down)", text.join(" / "));
            svg.text(WIDTH - layout::RIGHT, y, &missed, Text::body().anchored(Anchor::End));
        }
    }

    /// Draws the shaded spans, the panel's title and the limit of lateness.
    fn draw_background(&self, svg: &mut Svg, frame: &Frame, title: &str, named: bool) {
        for (i, ((from, to), name)) in self.spans.iter().enumerate() {
            let fill = if i == 0 { "#f9dcd6" } else { "#fbeecb" };
            let (left, right) = (frame.x(*from), frame.x(*to));
            svg.rectangle(
                (left, frame.area.top),
                (right - left, frame.bottom_of_lanes() - frame.area.top),
                fill,
            );
            if named {
                let middle = 0.5 * (left + right);
                let text = Text::body().anchored(Anchor::Middle);
                svg.text(middle, frame.area.top - 8.0, name, text);
            }
        }
        frame.area.title(svg, title);
        let late = frame.y(LATE_S);
        svg.dashed((frame.area.left, late), (frame.area.right, late), "#8a1c1c");
        svg.text(frame.area.right + 8.0, late + 4.0, "late", Text::small("#8a1c1c"));
    }

    /// Draws a curve with breaks where nothing sent was delivered.
    fn draw_curve(&self, svg: &mut Svg, frame: &Frame, curve: &Curve) {
        let (colour, width) = style(curve.scheme);
        let bins = curve.bins(self.seconds);
        for stretch in bins.split(|(_, delay)| delay.is_none()) {
            let points: Vec<(f64, f64)> = stretch
                .iter()
                .filter_map(|(at, delay)| Some((frame.x(*at), frame.y((*delay)?))))
                .collect();
            svg.polyline(&points, colour, width);
        }
    }
}

/// Colour and width of a curve that has none of its own.
const PLAIN: (&str, f64) = ("#777777", 1.5);

/// Returns colour and width of a scheme's curve; the colours stay apart for the colour-blind.
pub(crate) fn style(scheme: Scheme) -> (&'static str, f64) {
    match scheme {
        Scheme::FULMAR => ("#0a4fd1", 2.4),
        Scheme::FULMAR_TARGET => ("#00857c", 2.0),
        Scheme::FULMAR_BACKUP => ("#6b4fd0", 1.8),
        Scheme::FULMAR_STRICT => ("#4aa3df", 1.8),
        Scheme::FULMAR_OFF => ("#7b6fd0", 1.8),
        Scheme::KERNEL_MPTCP | Scheme::TCP_LRR => ("#d97706", 1.5),
        Scheme::FLOWCODE => ("#a21d75", 1.8),
        Scheme::REDUNDANT => ("#a21d75", 1.5),
        Scheme::UDP => ("#4b6363", 1.5),
        Scheme::MIN_RTT | Scheme::LRT => ("#1b8a3a", 1.5),
        Scheme::BLOCK_RLNC => ("#a21d75", 1.5),
        Scheme::KERNEL_TCP_CUBIC => ("#d97706", 1.5),
        Scheme::KERNEL_TCP_BBR => ("#8a1c1c", 1.5),
        Scheme::BOUND => ("#111111", 1.2),
        Scheme::Command(_) => ("#c2410c", 1.8),
        _ => PLAIN,
    }
}

/// Draws a lane per scheme below the curves, with a tick for every lost message.
fn draw_losses(svg: &mut Svg, frame: &Frame, curves: &[Curve]) {
    for (lane, curve) in curves.iter().enumerate() {
        let (colour, _) = style(curve.scheme);
        let y = frame.lane(lane);
        let lost = curve.messages.iter().filter(|(_, delay)| delay.is_none());
        let runs = runs(lost.map(|(sent, _)| frame.x(*sent)));
        for (from, to) in runs {
            svg.rectangle((from, y), (to - from, layout::LANE - 2.0), colour);
        }
    }
    let middle = 0.5 * (frame.lane(0) + frame.bottom_of_lanes());
    let text = Text::small("#444").anchored(Anchor::End);
    svg.text(frame.area.left - 8.0, middle + 3.0, "lost", text);
}

/// Joins ticks that touch into runs, so that ten seconds of loss are one rectangle.
fn runs(ticks: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    const TICK: f64 = 1.2;
    let mut runs: Vec<(f64, f64)> = Vec::new();
    for x in ticks {
        match runs.last_mut() {
            Some((_, end)) if x <= *end => *end = x + TICK,
            _ => runs.push((x, x + TICK)),
        }
    }
    runs
}

/// Draws the frame, the grid and the numbers of a panel.
fn draw_axes(svg: &mut Svg, frame: &Frame, last: bool) {
    for (seconds, label) in layout::DELAYS {
        frame.area.level(svg, frame.y(seconds), label);
    }
    for at in frame.seconds_marks() {
        let x = frame.x(at);
        frame.area.tick(svg, x);
        frame.area.upright(svg, x);
        if last {
            number_below(svg, x, frame.bottom_of_lanes() + 18.0, &format!("{at:.0}"));
        }
    }
    frame.area.axes(svg);
    if last {
        let middle = frame.area.x(0.5);
        let y = frame.bottom_of_lanes() + 38.0;
        let text = Text::body().anchored(Anchor::Middle);
        svg.text(middle, y, "seconds since the start; a message counts when it was sent", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let messages = |base: f64| {
            let message = |i: u32| {
                let sent = f64::from(i) / 50.0;
                let dead = (20.0..30.0).contains(&sent);
                (sent, (!dead || base > 0.02).then_some(base * (1.0 + f64::from(i % 7))))
            };
            (0..3_000).map(message).collect()
        };
        let curves = vec![
            Curve { scheme: Scheme::FULMAR, messages: messages(0.03) },
            Curve { scheme: Scheme::UDP, messages: messages(0.01) },
        ];
        Chart {
            title: "a < b".to_owned(),
            subtitle: "made up".to_owned(),
            seconds: 60.0,
            spans: vec![((20.0, 30.0), "Wi-Fi dead".to_owned())],
            panels: vec![("up".to_owned(), curves.clone()), ("down".to_owned(), curves)],
        }
    }

    #[test]
    fn picture_is_sound_and_shows_gaps() {
        let svg = chart().to_svg();
        assert!(svg.contains("a &lt; b") && svg.contains("Wi-Fi dead") && !svg.contains("NaN"));
        // A lossless curve is one stretch, a curve with one gap is two; twice, for two panels.
        assert_eq!(svg.matches("<polyline").count(), 6);
        assert_eq!(svg.matches('<').count(), svg.matches('>').count());
    }

    #[test]
    fn bins_keep_the_slowest_and_runs_join() {
        let messages = vec![(0.0, Some(0.1)), (0.1, Some(0.3)), (0.3, None)];
        let curve = Curve { scheme: Scheme::UDP, messages };
        assert_eq!(curve.bins(0.4), vec![(0.1, Some(0.3)), (0.5 * 0.2 + 0.2, None)]);
        assert_eq!(runs([1.0, 2.0, 9.0].into_iter()), vec![(1.0, 3.2), (9.0, 10.2)]);
    }
}
