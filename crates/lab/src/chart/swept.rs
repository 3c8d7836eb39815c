//! Draws what a swept key does to figures: a picture for each key, a panel for each figure and each
//! combination of the other keys' values, a curve for each scheme with what its seeds span.
//!
//! Values stand at equal distances, in the order in which they are run. [`SweepChart`] draws the
//! two figures of messages that its experiment is about.
//!
//! [`SweepChart`]: super::SweepChart

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::Value;

use super::area::{Area, LEFT, WIDTH, begin, number_below};
use super::legend::{Entry, Legend};
use super::svg::{Anchor, Svg, Text, write};
use super::{PLAIN, style};
use crate::report::{field, rounded};
use crate::scheme::Scheme;
use crate::statistics::{maximum, mean, mean_interval, minimum};

/// Width of a panel's frame, from the left one to the right one, and how many are side by side.
const FRAME: f64 = 500.0;
const BETWEEN: f64 = 600.0;
const BESIDE: usize = 2;
/// Space above the first row, for titles and a legend of one line.
const HEAD: f64 = 128.0;
/// Height of a frame, and from one row to the next.
const HEIGHT: f64 = 190.0;
const STEP: f64 = 262.0;
/// Radius of a dot, and half the width of an interval's ends.
const DOT: f64 = 3.0;
/// How far curves stand apart, so that intervals do not hide each other.
const APART: f64 = 5.0;
/// A picture of more panels is nothing to look at.
const FIGURES_MAX: usize = 8;
const CASES_MAX: usize = 6;

/// What one run came to: a scheme at a point with a seed.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) scheme: String,
    /// The value of each key that varies, as it is shown, in the order of the keys.
    pub(crate) point: Vec<String>,
    /// The result, or one seed's part of it.
    pub(crate) figures: Value,
}

/// A sweep that was run.
#[derive(Clone, Debug)]
pub(crate) struct Swept<'a> {
    pub(crate) name: &'a str,
    /// How it was made.
    pub(crate) made: &'a str,
    /// What varies.
    pub(crate) keys: Vec<String>,
    /// Keys and titles of its figures.
    pub(crate) columns: &'a [(String, String)],
    pub(crate) samples: &'a [Sample],
}

/// A dot with what its seeds span.
type Dot = (f64, Option<(f64, f64)>);

impl Swept<'_> {
    /// Draws each key that takes several values; returns the pictures' paths.
    ///
    /// # Errors
    /// Says which picture could not be written, and why.
    pub(crate) fn draw(&self, directory: &Path) -> Result<Vec<PathBuf>, String> {
        let mut drawn = Vec::new();
        for place in 0..self.keys.len() {
            let figures = self.figures();
            if self.values(place).len() > 1 && !figures.is_empty() {
                let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
                let file: String = self.keys[place].chars().map(plain).collect();
                let svg = self.to_svg(place, &figures);
                drawn.push(write(directory, &format!("sweep-{file}.svg"), &svg)?);
            }
        }
        Ok(drawn)
    }

    /// Returns the figures that are numbers and not the same in every run.
    fn figures(&self) -> Vec<&(String, String)> {
        let differs = |(key, _): &&(String, String)| {
            let mut numbers =
                self.samples.iter().filter_map(|sample| field(&sample.figures, key).as_f64());
            let first = numbers.next();
            !self.keys.contains(key) && numbers.any(|number| Some(number) != first)
        };
        self.columns.iter().filter(differs).take(FIGURES_MAX).collect()
    }

    /// Returns the values of a key in the order in which they were run.
    fn values(&self, place: usize) -> Vec<&str> {
        let mut values: Vec<&str> = Vec::new();
        for sample in self.samples {
            if !values.contains(&&sample.point[place][..]) {
                values.push(&sample.point[place]);
            }
        }
        values
    }

    /// Returns the combinations of the other keys' values.
    fn cases(&self, place: usize) -> Vec<Vec<&str>> {
        let mut cases = Vec::new();
        for sample in self.samples {
            let case = others(sample, place);
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        cases
    }

    fn schemes(&self) -> Vec<&str> {
        let mut schemes: Vec<&str> = Vec::new();
        for sample in self.samples {
            if !schemes.contains(&&sample.scheme[..]) {
                schemes.push(&sample.scheme);
            }
        }
        schemes
    }

    fn to_svg(&self, place: usize, figures: &[&(String, String)]) -> String {
        let (values, cases, schemes) = (self.values(place), self.cases(place), self.schemes());
        let shown = &cases[..cases.len().min(CASES_MAX)];
        let legend = Legend::new(schemes.iter().map(|name| entry(name)), WIDTH - 2.0 * LEFT);
        let head = HEAD + legend.extra_height();
        let rows = (shown.len() * figures.len()).div_ceil(BESIDE);
        let left_out = match cases.len() - shown.len() {
            0 => String::new(),
            more => format!("; {more} more combinations of the other keys are not drawn"),
        };
        let title = format!("{}: over {}", self.name, self.keys[place]);
        let subtitle = format!("{}. {}{left_out}", self.made, self.spans());
        let mut svg = begin(LEFT, head + STEP * rows as f64, &title, &subtitle);
        legend.draw(&mut svg, LEFT, 82.0);
        let panels = shown.iter().flat_map(|case| figures.iter().map(move |one| (case, *one)));
        for (index, (case, (key, title))) in panels.enumerate() {
            let left = LEFT + BETWEEN * (index % BESIDE) as f64;
            let top = head + STEP * (index / BESIDE) as f64;
            let area = Area { left, right: left + FRAME, top, bottom: top + HEIGHT };
            area.title(&mut svg, &self.panel_title(place, title, case));
            let curve = |scheme: &&str| self.curve(place, &values, scheme, case, key);
            let curves: Vec<Vec<Option<Dot>>> = schemes.iter().map(curve).collect();
            let most = draw_axes(&mut svg, &area, &values, &self.keys[place], &curves);
            // The first scheme is drawn last, so that none hides it.
            for (number, (scheme, dots)) in schemes.iter().zip(&curves).enumerate().rev() {
                let aside = APART * (number as f64 - 0.5 * (schemes.len() - 1) as f64);
                draw(&mut svg, &area, look(scheme), dots, aside, most);
            }
        }
        svg.finish()
    }

    /// Says what bars are.
    fn spans(&self) -> &'static str {
        match self.most_seeds() {
            0 | 1 => "One seed, so no intervals",
            2..6 => "Dots: mean of the seeds; bars: from the least of them to the most",
            _ => "Dots: mean of the seeds; bars: its 95 % interval",
        }
    }

    fn most_seeds(&self) -> usize {
        let mut seeds: BTreeMap<(&str, &[String]), usize> = BTreeMap::new();
        for sample in self.samples {
            *seeds.entry((&sample.scheme, &sample.point)).or_default() += 1;
        }
        seeds.into_values().max().unwrap_or(0)
    }

    fn panel_title(&self, place: usize, title: &str, case: &[&str]) -> String {
        let others = self.keys.iter().enumerate().filter(|(other, _)| *other != place);
        let said = others.zip(case).map(|((_, key), value)| format!("{key} = {value}"));
        let said: Vec<String> = said.collect();
        if said.is_empty() { title.to_owned() } else { format!("{title}, {}", said.join(", ")) }
    }

    /// Returns a scheme's dots, one for each value; none where no seed has the figure.
    fn curve(
        &self,
        place: usize,
        values: &[&str],
        scheme: &str,
        case: &[&str],
        key: &str,
    ) -> Vec<Option<Dot>> {
        let dot = |value: &&str| {
            let own = self.samples.iter().filter(|sample| {
                sample.scheme == scheme
                    && sample.point[place] == **value
                    && others(sample, place) == case
            });
            let numbers: Vec<f64> =
                own.filter_map(|sample| field(&sample.figures, key).as_f64()).collect();
            let spread = minimum(&numbers).zip(maximum(&numbers)).filter(|_| numbers.len() > 1);
            Some((mean(&numbers)?, mean_interval(&numbers).or(spread)))
        };
        values.iter().map(dot).collect()
    }
}

/// Returns the values of the other keys.
fn others(sample: &Sample, place: usize) -> Vec<&str> {
    let others = sample.point.iter().enumerate().filter(|(other, _)| *other != place);
    others.map(|(_, value)| &value[..]).collect()
}

fn look(scheme: &str) -> (&'static str, f64) {
    Scheme::from_str(scheme, false).map_or(PLAIN, style)
}

fn entry(scheme: &str) -> Entry<'_> {
    let (colour, width) = look(scheme);
    Entry::curve(scheme, colour, width)
}

/// Draws the frame of a panel and returns the upper end of its upright axis, which begins at zero.
fn draw_axes(
    svg: &mut Svg,
    area: &Area,
    values: &[&str],
    key: &str,
    curves: &[Vec<Option<Dot>>],
) -> f64 {
    let tops = curves.iter().flatten().flatten();
    let top = tops.map(|(dot, bar)| bar.map_or(*dot, |(_, high)| dot.max(high)));
    let most = round_above(top.fold(0.0, f64::max));
    for quarter in 0..=4 {
        let height = f64::from(quarter) / 4.0;
        area.level(svg, area.y(height), &rounded(height * most, 6).to_string());
    }
    for (index, value) in values.iter().enumerate() {
        let x = area.x(across(index, values.len()));
        area.upright(svg, x);
        number_below(svg, x, area.bottom + 16.0, value);
    }
    area.axes(svg);
    svg.text(area.x(0.5), area.bottom + 34.0, key, Text::body().anchored(Anchor::Middle));
    most
}

/// Draws a curve with its dots and bars, moved aside by some pixels.
fn draw(
    svg: &mut Svg,
    area: &Area,
    (colour, width): (&'static str, f64),
    dots: &[Option<Dot>],
    aside: f64,
    most: f64,
) {
    let x = |index| area.x(across(index, dots.len())) + aside;
    let y = |figure: f64| area.y(figure / most);
    let placed: Vec<Option<(f64, f64)>> = dots
        .iter()
        .enumerate()
        .map(|(index, dot)| dot.map(|(figure, _)| (x(index), y(figure))))
        .collect();
    // A curve is broken where nobody has the figure.
    for stretch in placed.split(Option::is_none) {
        let points: Vec<(f64, f64)> = stretch.iter().flatten().copied().collect();
        svg.polyline(&points, colour, width);
    }
    for (index, dot) in dots.iter().enumerate() {
        let Some((figure, bar)) = dot else { continue };
        if let Some((low, high)) = bar {
            svg.line((x(index), y(*low)), (x(index), y(*high)), colour, 1.0);
            for end in [low, high] {
                svg.line((x(index) - DOT, y(*end)), (x(index) + DOT, y(*end)), colour, 1.0);
            }
        }
        let corner = (x(index) - DOT, y(*figure) - DOT);
        svg.rectangle(corner, (2.0 * DOT, 2.0 * DOT), colour);
    }
}

/// Returns at which share of a frame's width a value stands.
fn across(index: usize, values: usize) -> f64 {
    (index as f64 + 0.5) / values.max(1) as f64
}

/// Returns the least round number that is not exceeded; 1 of what is nothing.
fn round_above(most: f64) -> f64 {
    if most.is_nan() || most <= 0.0 {
        return 1.0;
    }
    let decade = 10_f64.powf(most.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0].map(|step| step * decade);
    steps.into_iter().find(|step| *step >= most).unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample(scheme: &str, loss: &str, rate: &str, p99: Option<f64>) -> Sample {
        let figures = json!({"p99_ms": p99, "same": 3, "up": {"lost": p99.map(|ms| ms * 2.0)}});
        Sample { scheme: scheme.to_owned(), point: vec![loss.to_owned(), rate.to_owned()], figures }
    }

    fn columns() -> Vec<(String, String)> {
        let column = |key: &str| (key.to_owned(), format!("{key} <shown>"));
        ["scheme", "p99_ms", "same", "up.lost"].map(column).to_vec()
    }

    #[test]
    fn a_swept_key_has_a_picture_with_a_curve_for_each_scheme_and_a_bar_for_its_seeds() {
        let mut samples = Vec::new();
        for (loss, seeds) in [("0", [10.0, 12.0]), ("0.1", [20.0, 30.0]), ("0.2", [40.0, 44.0])] {
            for ms in seeds {
                samples.push(sample("fulmar", loss, "4", Some(ms)));
                // One that nothing arrives of has no figure there.
                samples.push(sample("own", loss, "4", (loss != "0.1").then_some(3.0 * ms)));
            }
        }
        let columns = columns();
        let keys = ["link.wifi.loss", "link.wifi.rate_mbps"].map(str::to_owned).to_vec();
        let swept =
            Swept { name: "a < b", made: "made up", keys, columns: &columns, samples: &samples };
        let folder = tempfile::tempdir().expect("a folder");
        let drawn = swept.draw(folder.path()).expect("it is written");
        assert_eq!(
            drawn,
            [folder.path().join("sweep-link-wifi-loss.svg")],
            "the other key is fixed"
        );
        let svg = std::fs::read_to_string(&drawn[0]).expect("it is there");
        assert!(svg.contains("a &lt; b: over link.wifi.loss"), "{svg}");
        assert!(svg.contains("p99_ms &lt;shown&gt;, link.wifi.rate_mbps = 4"));
        assert!(svg.contains("from the least of them to the most"));
        assert!(!svg.contains("same &lt;shown"), "a figure that never differs shows nothing");
        assert!(!svg.contains("NaN"));
        // Two figures; three dots of fulmar and two of the other, whose curve is broken between.
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (2, 2 * 2));
        assert_eq!(svg.matches("<rect").count(), 1 + 2 * (3 + 2));
    }

    #[test]
    fn many_seeds_have_an_interval_and_one_has_none() {
        let of = |seeds: usize| {
            let samples: Vec<Sample> = (0..2 * seeds)
                .map(|n| sample("udp", &(n % 2).to_string(), "4", Some(1.0 + n as f64)))
                .collect();
            let columns = columns();
            let keys = vec!["a".to_owned(), "b".to_owned()];
            let swept = Swept { name: "n", made: "m", keys, columns: &columns, samples: &samples };
            swept.to_svg(0, &swept.figures())
        };
        assert!(of(6).contains("95 % interval") && of(1).contains("no intervals"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([0.0, 0.93, 41.0, 100.0].map(round_above), [1.0, 1.0, 60.0, 100.0]);
    }
}
