//! Curves over time, and a track, as inline SVG. Colours are classes of the page's style.

use std::fmt::Write;

/// The drawing's size in its own units, which are pixels of a wide window.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const FOOT: f64 = 26.0;
/// Columns that curves are reduced to: least and greatest of each.
const COLUMNS: usize = 600;
/// Colours that the style has.
const COLOURS: usize = 6;
/// A hole in the samples that is longer is not drawn over.
const GAP_S: f64 = 1.0;
/// What is greater is drawn out of the picture.
const LARGEST: f64 = 1e9;
/// The height of a row of states, with its name above them.
const ROW: f64 = 42.0;
/// The track's size.
const TRACK: f64 = 420.0;

/// Points of a curve: seconds, value.
pub(super) type Points = Vec<(f64, f64)>;

/// Stretches of one state: from, to, the state's word.
pub(super) type Stretches = Vec<(f64, f64, String)>;

/// Curves of one quantity.
pub(super) struct Plot<'a> {
    /// What it shows, for who cannot see it.
    pub(super) title: &'a str,
    /// The least that the upright axis shows at its top.
    pub(super) least_top: f64,
    pub(super) seconds: f64,
    /// Names and points; a name's place is its colour.
    pub(super) curves: Vec<(String, Points)>,
    /// Moments that are marked: misses.
    pub(super) marks: &'a [f64],
}

impl Plot<'_> {
    /// Draws it.
    pub(super) fn svg(&self) -> String {
        let values = self.curves.iter().flat_map(|(_, points)| points).map(|(_, value)| *value);
        let (step, top) = nice(values.fold(self.least_top, f64::max).min(LARGEST));
        let span = self.seconds.max(1e-3);
        let x = |second: f64| LEFT + second / span * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - FOOT - value / top * (HEIGHT - TOP - FOOT);
        let mut svg = format!(
            "<div class=\"wide\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
            escaped(self.title)
        );
        let mut value = 0.0;
        while value <= top * 1.001 {
            let at = y(value);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                number(value, step)
            );
            value += step;
        }
        let (tick, _) = nice_step(span / 10.0);
        let mut second = 0.0;
        while second <= span * 1.001 {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{} s</text>",
                x(second),
                HEIGHT - 8.0,
                number(second, tick)
            );
            second += tick;
        }
        let mut last = f64::NEG_INFINITY;
        for mark in self.marks.iter().map(|second| x(*second)) {
            // Marks that would lie on one another are one.
            if mark - last >= 1.0 {
                let _ = writeln!(
                    svg,
                    "<line class=\"miss\" x1=\"{mark:.1}\" x2=\"{mark:.1}\" y1=\"{TOP}\" y2=\"{}\"/>",
                    HEIGHT - FOOT
                );
                last = mark;
            }
        }
        for (place, (_, points)) in self.curves.iter().enumerate() {
            let mut line = String::new();
            let mut before = f64::NEG_INFINITY;
            for (second, value) in reduced(points, span) {
                let pen = if second - before > GAP_S.max(span / 200.0) { 'M' } else { 'L' };
                let _ = write!(line, "{pen}{:.1} {:.1}", x(second), y(value));
                before = second;
            }
            let _ = writeln!(svg, "<path class=\"curve c{}\" d=\"{line}\"/>", place % COLOURS);
        }
        svg + "</svg></div>\n"
    }
}

/// Draws what state each path was in: rows of stretches, each from, to and the state's word.
pub(super) fn bands(rows: &[(String, Stretches)], seconds: f64) -> String {
    let span = seconds.max(1e-3);
    let height = ROW * rows.len() as f64;
    let mut svg = format!(
        "<div class=\"wide\"><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"States\">\n"
    );
    for (place, (name, stretches)) in rows.iter().enumerate() {
        let top = ROW * place as f64;
        let mut drawn = f64::NEG_INFINITY;
        for (from, to, state) in stretches {
            let x = LEFT + from / span * (WIDTH - LEFT - RIGHT);
            // Those that would lie on one another: of those shorter than a tenth of a pixel one is
            // drawn there.
            if x - drawn < 0.1 && to - from < span * 1e-4 {
                continue;
            }
            drawn = x;
            let width = ((to - from) / span * (WIDTH - LEFT - RIGHT)).max(1.0);
            let state = escaped(state);
            let _ = writeln!(
                svg,
                "<rect class=\"{state}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"16\"><title>{state}, \
                 {from:.1} to {to:.1} s</title></rect>",
                top + 20.0
            );
        }
        let _ =
            writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\">{}</text>", top + 15.0, escaped(name));
    }
    svg + "</svg></div>\n"
}

/// Names the curves beside their colours.
pub(super) fn legend<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let item = |(place, name): (usize, &str)| {
        let colour = place % COLOURS;
        format!(
            "<li><svg class=\"key\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"curve c{colour}\" \
             d=\"M0 4L24 4\"/></svg>{}</li>",
            escaped(name)
        )
    };
    let items: Vec<String> = names.enumerate().map(item).collect();
    format!("<ul class=\"legend\">{}</ul>\n", items.concat())
}

/// Draws a track: metres to the east and to the north of where it began, and where misses were.
pub(super) fn track(points: &Points, misses: &Points) -> String {
    let all = || points.iter().chain(misses);
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        all().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(value), most.max(value))
        })
    };
    let ((west, east), (south, north)) = (bounds(|point| point.0), bounds(|point| point.1));
    let side = (east - west).max(north - south).max(1.0);
    let (step, _) = nice_step(side / 4.0);
    let scale = (TRACK - 40.0) / side;
    let x = |metres: f64| 20.0 + (metres - (west + east) / 2.0 + side / 2.0) * scale;
    let y = |metres: f64| TRACK - 20.0 - (metres - (south + north) / 2.0 + side / 2.0) * scale;
    let mut line = String::new();
    let skip = points.len() / 4_000 + 1;
    for (place, (east, north)) in points.iter().step_by(skip).enumerate() {
        let pen = if place == 0 { 'M' } else { 'L' };
        let _ = write!(line, "{pen}{:.1} {:.1}", x(*east), y(*north));
    }
    let mut svg = format!(
        "<svg class=\"track\" viewBox=\"0 0 {TRACK} {TRACK}\" role=\"img\" aria-label=\"Track\"><path class=\"curve c0\" \
         d=\"{line}\"/>\n"
    );
    for (east, north) in misses.iter().step_by(misses.len() / 2_000 + 1) {
        let _ = writeln!(
            svg,
            "<circle class=\"missed\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
            x(*east),
            y(*north)
        );
    }
    if let Some((east, north)) = points.first() {
        let _ = writeln!(
            svg,
            "<circle class=\"start\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"/>",
            x(*east),
            y(*north)
        );
    }
    let _ = writeln!(
        svg,
        "<path class=\"scale\" d=\"M20 {0}L{1:.1} {0}\"/><text x=\"24\" y=\"{2}\">{3} m, north is up</text></svg>",
        TRACK - 8.0,
        20.0 + step * scale,
        TRACK - 14.0,
        number(step, step)
    );
    svg
}

/// Makes text safe inside the page.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            letter if letter.is_control() => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

/// Reduces points to the least and the greatest of each column.
fn reduced(points: &Points, span: f64) -> Points {
    if points.len() <= 2 * COLUMNS {
        return points.clone();
    }
    let mut kept: Points = Vec::new();
    let column = |second: f64| (second / span * COLUMNS as f64) as usize;
    for part in points.chunk_by(|one, other| column(one.0) == column(other.0)) {
        let by_value = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
        let (least, most) = (part.iter().min_by(by_value), part.iter().max_by(by_value));
        let mut ends: Points = [least, most].into_iter().flatten().copied().collect();
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        kept.extend(ends);
    }
    kept
}

/// Returns the step of an axis that ends above a value, and its end.
fn nice(most: f64) -> (f64, f64) {
    let (step, _) = nice_step(most / 4.0);
    (step, (most / step).ceil().max(1.0) * step)
}

/// Returns 1, 2 or 5 times a power of ten that is no less than a value.
fn nice_step(least: f64) -> (f64, f64) {
    let least = if least.is_finite() { least.max(1e-6) } else { 1.0 };
    let power = 10_f64.powf(least.log10().floor());
    let factor =
        [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= least * 0.999_999);
    (factor.unwrap_or(10.0) * power, power)
}

fn number(value: f64, step: f64) -> String {
    let digits = if step >= 1.0 { 0 } else { (-step.log10()).ceil() as usize };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_above_what_they_show_in_round_steps() {
        for (most, step, top) in
            [(0.9, 0.5, 1.0), (1.0, 0.5, 1.0), (7.3, 2.0, 8.0), (430.0, 200.0, 600.0)]
        {
            let found = nice(most);
            assert!(
                (found.0 - step).abs() < 1e-9 && (found.1 - top).abs() < 1e-9,
                "{most}: {found:?}"
            );
        }
        assert_eq!((number(0.5, 0.5), number(200.0, 200.0)), ("0.5".into(), "200".into()));
    }

    #[test]
    fn reduction_keeps_every_peak() {
        let points: Points =
            (0..100_000).map(|at| (f64::from(at) / 100.0, f64::from(at == 31_415))).collect();
        let kept = reduced(&points, 1_000.0);
        assert!(kept.len() <= 2 * COLUMNS + 2);
        assert!(kept.contains(&(314.15, 1.0)));
    }

    #[test]
    fn odd_values_are_drawn_without_panic() {
        for value in [0.0, f64::NAN, f64::INFINITY, -1.0, 1e300] {
            let curves = vec![("<x>".to_owned(), vec![(0.0, value), (1.0, value)])];
            let plot = Plot { title: "\"t\"", least_top: 1.0, seconds: 1.0, curves, marks: &[0.5] };
            assert!(plot.svg().contains("&quot;t&quot;"));
            let _ = track(&vec![(value, 0.0)], &Vec::new());
        }
    }
}
