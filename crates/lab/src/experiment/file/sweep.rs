//! What a file varies: a key of a link or of a stream, through a list of values.

use std::ops::RangeInclusive;

use netem::{Delay, LinkModel, LinkRate, QueueLimit, Scenario};
use serde_json::{Value, json};
use units::{Duration, Rate};

use crate::experiment::streams::workload::Workload;
use crate::testbed::STAMP_BYTES;

/// Sets one number of a run.
type Set = fn(&mut LinkModel, f64);
/// Sets one number of what is sent.
type SetStream = fn(&mut Workload, f64);

/// The values that a key may take.
type Range = RangeInclusive<f64>;

/// What can be varied of a link, in both of its directions.
const OF_LINK: [(&str, Range, Set); 4] = [
    ("loss", 0.0..=0.99, |model, value| model.loss.independent = value),
    ("delay_ms", 0.0..=10_000.0, |model, value| {
        model.delay = Delay::Fixed(Duration::from_secs_f64(value / 1e3));
    }),
    ("rate_mbps", 0.001..=10_000.0, |model, value| model.rate = LinkRate::Constant(rate(value))),
    ("queue_bytes", 0.0..=1e9, |model, value| {
        model.queue = QueueLimit { packets: None, bytes: Some(value as u64) };
    }),
];

/// What can be varied of a stream, by kind and key; a rate of none leaves the stream out.
const OF_STREAM: [(&str, Range, SetStream); 4] = [
    ("control.rate_hz", 0.0..=1_000.0, |workload, value| workload.control_hz = value),
    ("control.bytes", STAMP_BYTES as f64..=1_200.0, |workload, value| {
        workload.control_bytes = value as usize
    }),
    ("live.rate_hz", 0.0..=1_000.0, |workload, value| workload.live_hz = value),
    ("video.mbps", 0.0..=1_000.0, |workload, value| workload.video_mbps = value),
];

/// One key and the values that it takes, in turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sweep {
    /// As in `link.wifi.loss` and `stream.video.mbps`.
    pub(super) key: String,
    /// At least one.
    pub(super) values: Vec<f64>,
}

impl Sweep {
    /// Says what is wrong with the sweep, for a scenario; none when it can be run.
    pub(super) fn mistake(&self, scenario: &Scenario) -> Option<String> {
        let within = |range: &Range| {
            let whole = self.key.ends_with("bytes");
            let fits = |value: &&f64| range.contains(*value) && !(whole && value.fract() != 0.0);
            let wrong = self.values.iter().find(|value| !fits(value))?;
            let what = if whole { "whole numbers from " } else { "" };
            Some(format!(
                "{} takes {what}{} to {}, not {wrong}",
                self.key,
                range.start(),
                range.end()
            ))
        };
        if let Some(key) = self.key.strip_prefix("stream.") {
            return match OF_STREAM.iter().find(|(known, ..)| *known == key) {
                Some((_, range, _)) => within(range),
                None => Some(format!("{:?} is none of {}", self.key, streams())),
            };
        }
        let Some((link, key)) = self.link() else {
            return Some(format!("{:?} is neither link.NAME.KEY nor stream.KIND.KEY", self.key));
        };
        if scenario.links.iter().all(|pair| pair.name != link) {
            let names: Vec<&str> = scenario.links.iter().map(|pair| pair.name.as_str()).collect();
            return Some(format!("no link {link:?}; the links are {}", names.join(", ")));
        }
        match OF_LINK.iter().find(|(known, ..)| *known == key) {
            Some((_, range, _)) => within(range),
            None => {
                let known = OF_LINK.map(|(known, ..)| known).join(", ");
                Some(format!("{key:?} of a link cannot be varied; what can is {known}"))
            }
        }
    }

    /// Returns the name of the link and the key of it.
    fn link(&self) -> Option<(&str, &str)> {
        self.key.strip_prefix("link.")?.rsplit_once('.')
    }
}

/// One value for each key that is varied.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Point(Vec<(Sweep, f64)>);

impl Point {
    /// Puts the values into what is run.
    pub(super) fn apply(&self, scenario: &mut Scenario, workload: &mut Workload) {
        for (sweep, value) in &self.0 {
            let stream = sweep.key.strip_prefix("stream.");
            if let Some((_, _, set)) = OF_STREAM.iter().find(|(key, ..)| Some(*key) == stream) {
                set(workload, *value);
            }
            let Some((name, key)) = sweep.link() else { continue };
            let Some((_, _, set)) = OF_LINK.iter().find(|(known, ..)| *known == key) else {
                continue;
            };
            for pair in scenario.links.iter_mut().filter(|pair| pair.name == name) {
                set(&mut pair.up, *value);
                set(&mut pair.down, *value);
            }
        }
    }

    /// Returns the values by their keys.
    pub(super) fn values(&self) -> Value {
        Value::Object(
            self.0.iter().map(|(sweep, value)| (sweep.key.clone(), json!(value))).collect(),
        )
    }

    /// Returns the name of the folder for the pictures of this point; empty where nothing varies.
    pub(super) fn folder(&self) -> String {
        let parts = self.0.iter().map(|(sweep, value)| format!("{}={value}", sweep.key));
        parts.collect::<Vec<_>>().join(",")
    }
}

/// Returns every combination of the values, the last key's in turn first.
pub(super) fn points(sweeps: &[Sweep]) -> Vec<Point> {
    sweeps.iter().fold(vec![Point::default()], |points, sweep| {
        let with = |point: &Point, value: f64| {
            Point(point.0.iter().cloned().chain([(sweep.clone(), value)]).collect())
        };
        points
            .iter()
            .flat_map(|point| sweep.values.iter().map(move |value| with(point, *value)))
            .collect()
    })
}

fn streams() -> String {
    OF_STREAM.map(|(key, ..)| format!("stream.{key}")).join(", ")
}

fn rate(mbps: f64) -> Rate {
    Rate::from_bps((mbps * 1e6) as u64)
}
