//! Draws a course over ground, coloured by a value along it, and what stands beside it. North is
//! up.
//!
//! Laps that lie on one another are drawn beside each other: each a little further in.

use super::legend::{Entry, Legend};
use super::svg::{Anchor, Svg, Text};

/// Width of the picture, and the space around the course.
const WIDTH: f64 = 1_200.0;
const SIDE: f64 = 60.0;
const HEAD: f64 = 110.0;
const FOOT: f64 = 60.0;
/// Least and greatest height of the course's field.
const HEIGHT_MIN: f64 = 160.0;
const HEIGHT_MAX: f64 = 900.0;
/// Width of the course's line, and how far a lap is from the one before it.
const LINE: f64 = 4.0;
const BESIDE: f64 = 6.0;
/// Laps that are drawn beside each other; further ones lie on these.
const LAPS: usize = 8;
/// What the colours stand for: below the first value, below the second, …
const COLOURS: [(f64, &str); 6] = [
    (1e-9, "#d9d9d9"),
    (0.2, "#fdbb84"),
    (0.5, "#ef6548"),
    (0.8, "#b30000"),
    (1.05, "#6a51a3"),
    (f64::INFINITY, "#08306b"),
];

/// The picture of one flight.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    /// What it shows, and how it was made.
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Unit of the values.
    pub(crate) unit: String,
    /// The course, piece by piece.
    pub(crate) steps: Vec<MapStep>,
    /// What stands beside it.
    pub(crate) marks: Vec<MapMark>,
}

/// A piece of the course.
#[derive(Clone, Debug)]
pub(crate) struct MapStep {
    /// Metres east and north, in the order of the flight.
    pub(crate) points: Vec<(f64, f64)>,
    /// The lap, from 0.
    pub(crate) lap: usize,
    /// What its colour says.
    pub(crate) value: f64,
}

/// A place with a name.
#[derive(Clone, Debug)]
pub(crate) struct MapMark {
    pub(crate) name: String,
    /// Metres.
    pub(crate) east: f64,
    pub(crate) north: f64,
}

impl Map {
    /// Draws it.
    pub(crate) fn to_svg(&self) -> String {
        let points = self.steps.iter().flat_map(|step| step.points.iter().copied());
        let places: Vec<_> =
            points.chain(self.marks.iter().map(|mark| (mark.east, mark.north))).collect();
        let frame = Frame::around(&places);
        let mut svg = Svg::new(WIDTH, HEAD + frame.height + FOOT);
        svg.text(SIDE, 34.0, &self.title, Text::heading());
        svg.text(SIDE, 58.0, &self.subtitle, Text::body());
        let names = self.names();
        let entries =
            names.iter().zip(COLOURS).map(|(name, (_, colour))| Entry::shade(name, colour));
        Legend::new(entries, WIDTH).draw(&mut svg, SIDE, 82.0);
        let mut last: Option<(usize, (f64, f64))> = None;
        for step in &self.steps {
            let inward = (step.lap % LAPS) as f64 * BESIDE;
            let joined = last.filter(|(lap, _)| *lap == step.lap).map(|(_, point)| point);
            let own = step.points.iter().map(|place| frame.inward(*place, inward));
            let line: Vec<_> = joined.into_iter().chain(own).collect();
            svg.polyline(&line, colour(step.value), LINE);
            last = line.last().map(|point| (step.lap, *point)).or(last);
        }
        for mark in &self.marks {
            let (x, y) = frame.pixel((mark.east, mark.north));
            svg.polyline(&[(x, y)], "#111", 5.0);
            svg.text(x, y + 20.0, &mark.name, Text::small("#111").anchored(Anchor::Middle));
        }
        frame.draw_scale(&mut svg, HEAD + frame.height + 30.0);
        svg.finish()
    }

    /// Returns what each colour stands for.
    fn names(&self) -> Vec<String> {
        let mut from = 0.0;
        let name = |(to, _): &(f64, &str)| {
            let name = match *to {
                to if to < 1e-6 => "nothing".to_owned(),
                f64::INFINITY => format!("more than {from} {}", self.unit),
                to => format!("up to {to} {}", self.unit),
            };
            from = *to;
            name
        };
        COLOURS.iter().map(name).collect()
    }
}

fn colour(value: f64) -> &'static str {
    COLOURS.iter().find(|(to, _)| value < *to).map_or(COLOURS[0].1, |(_, colour)| colour)
}

/// Where metres lie in the picture.
struct Frame {
    west: f64,
    north: f64,
    middle: (f64, f64),
    scale: f64,
    height: f64,
}

impl Frame {
    fn around(places: &[(f64, f64)]) -> Self {
        let ends = |of: fn(&(f64, f64)) -> f64| {
            let values = places.iter().map(of);
            values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let ((west, east), (south, north)) = (ends(|place| place.0), ends(|place| place.1));
        let room = LAPS as f64 * BESIDE;
        let width = WIDTH - 2.0 * (SIDE + room);
        let high = HEIGHT_MAX - 2.0 * room;
        let scale = (width / (east - west).max(1.0)).min(high / (north - south).max(1.0));
        let height = ((north - south) * scale + 2.0 * room).max(HEIGHT_MIN);
        Self { west, north, middle: (0.5 * (west + east), 0.5 * (south + north)), scale, height }
    }

    fn pixel(&self, (east, north): (f64, f64)) -> (f64, f64) {
        let room = LAPS as f64 * BESIDE;
        let (x, y) = ((east - self.west) * self.scale, (self.north - north) * self.scale);
        (SIDE + room + x, HEAD + room + y)
    }

    /// Returns where a place is drawn, some pixels nearer to the middle of the picture on both
    /// axes.
    fn inward(&self, place: (f64, f64), pixels: f64) -> (f64, f64) {
        let (x, y) = self.pixel(place);
        let (side, up) = (place.0 - self.middle.0, place.1 - self.middle.1);
        // Of a long course the short axis tells its legs apart: both are moved by their own share.
        let reach = |offset: f64| (offset * self.scale / 40.0).clamp(-1.0, 1.0);
        (x - pixels * reach(side), y + pixels * reach(up))
    }

    fn draw_scale(&self, svg: &mut Svg, y: f64) {
        let most = 250.0 / self.scale;
        let metres = 10.0_f64.powf(most.log10().floor());
        let metres = [5.0, 2.0].into_iter().map(|by| by * metres).find(|by| *by <= most);
        let metres = metres.unwrap_or(10.0_f64.powf(most.log10().floor()));
        svg.line((SIDE, y), (SIDE + metres * self.scale, y), "#444", 2.0);
        let name = format!("{metres} m; north is up");
        svg.text(SIDE + metres * self.scale + 10.0, y + 4.0, &name, Text::small("#444"));
    }
}
