//! What a file varies: keys of the file and of its scenario, each through a list of values.

use serde_json::{Map, Value, json};
use toml_keys::{Change, Scalar, Section};

/// The most values of a sweep, and points of a run.
pub(super) const POINTS_MAX: usize = 1_000;

/// The most bytes of a folder's name before a number: file systems take 255 in all.
const FOLDER_MAX: usize = 200;

/// What all points of a run have in common, and what to do in place of varying it.
const FIXED: [(&str, &str); 5] = [
    ("name", ""),
    ("seeds", ": seeds = \"1-20\" runs and pools them all"),
    ("schemes", ": each of schemes is run at every point"),
    ("figures", ""),
    ("sweep", ""),
];

/// One key and the values that it takes, in turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sweep {
    /// As in `seconds`, `link.wifi.loss` and `stream.video.mbps`.
    pub(super) key: String,
    /// At least one.
    pub(super) values: Vec<Scalar>,
    /// What mistakes call it.
    pub(super) name: String,
    /// The lines of its key and of its values.
    pub(super) lines: [usize; 2],
}

impl Sweep {
    /// Returns whether it varies the links, or how much of their outages is seen.
    pub(super) fn is_of_scene(&self) -> bool {
        !self.key.starts_with("stream.")
    }

    /// Returns what is changed for one of the values.
    pub(super) fn change(&self, value: &Scalar) -> Change {
        Change { key: self.key.clone(), value: value.clone() }
    }
}

/// Reads every sweep. Whether its values can be had is seen when they are tried.
pub(super) fn read(root: &Section<'_>) -> Vec<Sweep> {
    let mut sweeps: Vec<Sweep> = Vec::new();
    for (number, section) in root.sections("sweep").into_iter().enumerate() {
        section.require("values");
        let values = section.scalars("values", POINTS_MAX);
        let twice = values.as_deref().and_then(first_twice);
        if let Some(value) = twice {
            section.wrong("values", format!("{value} is there twice"));
        }
        let lines = ["key", "values"].map(|key| section.line(key));
        if let Some(key) = section.required_text("key") {
            let head = key.split('.').next();
            if let Some((_, instead)) = FIXED.iter().find(|(fixed, _)| Some(*fixed) == head) {
                section.wrong("key", format!("{key:?} is the same for the whole run{instead}"));
            } else if sweeps.iter().any(|other| other.key == key) {
                section.wrong("key", format!("another sweep varies {key:?}"));
            } else if let Some(values) = values {
                let name = format!("sweep[{number}]");
                sweeps.push(Sweep { key: key.to_owned(), values, name, lines });
            }
        }
        section.finish();
    }
    let counts = sweeps.iter().map(|sweep| sweep.values.len());
    let count = counts.clone().try_fold(1, usize::checked_mul);
    if count.is_none_or(|count| count > POINTS_MAX) {
        let counts: Vec<String> = counts.map(|count| count.to_string()).collect();
        let what = format!("{} points are more than {POINTS_MAX}", counts.join(" × "));
        root.wrong("sweep", what);
        sweeps.clear();
    }
    sweeps
}

/// One value for each key that is varied.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Point(pub(super) Vec<Change>);

impl Point {
    /// Returns the values by their keys.
    pub(super) fn values(&self) -> Value {
        let values = self.0.iter().map(|change| (change.key.clone(), shown(&change.value)));
        Value::Object(values.collect())
    }

    /// Says where the point is; empty where nothing varies.
    pub(super) fn name(&self) -> String {
        let parts = self.0.iter().map(|change| format!("{}={}", change.key, change.value));
        parts.collect::<Vec<_>>().join(",")
    }

    /// Returns the point's name in letters that a file system takes, however long.
    fn plain_name(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "=,._-".contains(c);
        self.name().replace(|c| !plain(c), "_")
    }
}

/// Returns every combination of the values, the last key's in turn first.
pub(super) fn points(sweeps: &[Sweep]) -> Vec<Point> {
    sweeps.iter().fold(vec![Point::default()], |points, sweep| {
        let with = |point: &Point, value| {
            Point(point.0.iter().cloned().chain([sweep.change(value)]).collect())
        };
        let beside = |point| sweep.values.iter().map(move |value| with(point, value));
        points.iter().flat_map(beside).collect()
    })
}

/// Returns the name of each point's folder for pictures: what it is called, or as much of that as a file system takes,
/// and its number where that does not tell it from the others.
pub(super) fn folders(points: &[Point]) -> Vec<String> {
    let mut folders: Vec<String> = Vec::with_capacity(points.len());
    for (number, point) in points.iter().enumerate() {
        let mut name = point.plain_name();
        if name.len() > FOLDER_MAX || folders.contains(&name) {
            // Letters of one byte alone: it may be cut anywhere.
            name.truncate(FOLDER_MAX);
            name += &format!("-{number}");
        }
        folders.push(name);
    }
    folders
}

/// Returns every sweep with its values, for the report.
pub(super) fn parameters(sweeps: &[Sweep]) -> Value {
    if sweeps.is_empty() {
        return json!({});
    }
    let of =
        |sweep: &Sweep| (sweep.key.clone(), Value::Array(sweep.values.iter().map(shown).collect()));
    json!({"sweep": sweeps.iter().map(of).collect::<Map<_, _>>()})
}

fn first_twice(values: &[Scalar]) -> Option<&Scalar> {
    let is_before = |(number, value): &(usize, &Scalar)| values[..*number].contains(*value);
    values.iter().enumerate().find(is_before).map(|(_, value)| value)
}

fn shown(value: &Scalar) -> Value {
    match value {
        Scalar::Number(number) => json!(number),
        Scalar::Flag(flag) => json!(flag),
        Scalar::Text(text) => json!(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, value: &str) -> Change {
        Change { key: key.to_owned(), value: Scalar::Text(value.to_owned()) }
    }

    #[test]
    fn each_point_has_a_folder_of_its_own_that_a_file_system_takes() {
        let keys: Vec<String> =
            (0..12).map(|i| format!("link.long-name-{i}.from_drone.loss")).collect();
        let long = |value| Point(keys.iter().map(|key| change(key, value)).collect());
        let points = [long("0.25"), long("0.5"), Point(vec![change("scenario", "a b")])];
        let points =
            [&points[..], &[Point(vec![change("scenario", "a_b")]), Point::default()]].concat();
        let names = folders(&points);
        let out = tempfile::tempdir().unwrap();
        for name in names.iter().filter(|name| !name.is_empty()) {
            std::fs::create_dir(out.path().join(name)).unwrap();
        }
        assert!(names[1].starts_with("link.long-name-0.from_drone.loss=0.5,link.long-name-1."));
        assert_eq!(names[2..], ["scenario=a_b", "scenario=a_b-3", ""]);
    }
}
