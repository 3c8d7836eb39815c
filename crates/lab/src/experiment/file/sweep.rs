//! What a file varies: keys of the file and of its scenario, each through a list of values.

use serde_json::{Map, Value, json};
use toml_keys::{Change, Scalar, Section};

use crate::chart::Sample;

/// The most values of a sweep in a file, and points of a run.
pub(super) const POINTS_MAX: usize = 1_000;
/// The most points where some are said beside the file: each is tried before any is run, some 0.1
/// ms.
const POINTS_BESIDE_MAX: usize = 10_000;

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

    /// Says what is wrong with its key or its values, beside those before it.
    fn mistakes(&self, others: &[Self]) -> Vec<(&'static str, String)> {
        let key = &self.key;
        let head = key.split('.').next();
        let fixed = FIXED.iter().find(|(fixed, _)| Some(*fixed) == head);
        let of_key = fixed
            .map(|(_, instead)| format!("{key:?} is the same for the whole run{instead}"))
            .or_else(|| {
                let is_twice = others.iter().any(|other| other.key == *key);
                is_twice.then(|| format!("another sweep varies {key:?}"))
            });
        let of_values = match &self.values[..] {
            [] => Some("there are none".to_owned()),
            values => first_twice(values).map(|value| format!("{value} is there twice")),
        };
        let of = |part, what: Option<String>| what.map(|what| (part, what));
        [of("values", of_values), of("key", of_key)].into_iter().flatten().collect()
    }
}

/// What varies, said beside a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Over {
    /// Keys and their values, of which every combination is run; they go before what the file says
    /// of the same keys.
    Product(Vec<(String, Vec<Scalar>)>),
    /// Points, one by one, in place of the file's sweeps.
    Points(Vec<Point>),
}

impl Default for Over {
    fn default() -> Self {
        Self::Product(Vec::new())
    }
}

impl Over {
    /// Returns where is run what varies like this.
    pub(super) fn points(&self, sweeps: &[Sweep]) -> Vec<Point> {
        match self {
            Self::Product(_) => points(sweeps),
            Self::Points(points) => points.clone(),
        }
    }

    /// Returns what is varied, each key with its values.
    fn sweeps(&self) -> Vec<(String, Vec<Scalar>)> {
        let points = match self {
            Self::Product(sweeps) => return sweeps.clone(),
            Self::Points(points) => points,
        };
        let mut sweeps: Vec<(String, Vec<Scalar>)> = Vec::new();
        for Change { key, value } in points.iter().flat_map(|point| &point.0) {
            match sweeps.iter_mut().find(|(other, _)| other == key) {
                Some((_, values)) if values.contains(value) => {}
                Some((_, values)) => values.push(value.clone()),
                None => sweeps.push((key.clone(), vec![value.clone()])),
            }
        }
        sweeps
    }
}

/// Reads every sweep. Whether its values can be had is seen when they are tried.
pub(super) fn read(root: &Section<'_>, over: &Over) -> Vec<Sweep> {
    let beside = over.sweeps();
    let mut sweeps: Vec<Sweep> = Vec::new();
    for (number, section) in root.sections("sweep").into_iter().enumerate() {
        section.require("values");
        let values = section.scalars("values", POINTS_MAX);
        let lines = ["key", "values"].map(|key| section.line(key));
        let key = section.required_text("key");
        if let (Some(key), Some(values)) = (key, values) {
            let name = format!("sweep[{number}]");
            let sweep = Sweep { key: key.to_owned(), values, name, lines };
            let mistakes = sweep.mistakes(&sweeps);
            for (part, what) in &mistakes {
                section.wrong(part, what);
            }
            let is_overridden = beside.iter().any(|(other, _)| other == key);
            if mistakes.is_empty() && !is_overridden && matches!(over, Over::Product(_)) {
                sweeps.push(sweep);
            }
        }
        section.finish();
    }
    for (key, values) in beside {
        let sweep = Sweep { key, values, name: "over".to_owned(), lines: [1; 2] };
        let mistakes = sweep.mistakes(&sweeps);
        for (_, what) in &mistakes {
            root.wrong("over", format!("{}: {what}", sweep.key));
        }
        if mistakes.is_empty() {
            sweeps.push(sweep);
        }
    }
    let counts: Vec<usize> = match over {
        Over::Product(_) => sweeps.iter().map(|sweep| sweep.values.len()).collect(),
        Over::Points(points) => vec![points.len()],
    };
    let most = if *over == Over::default() { POINTS_MAX } else { POINTS_BESIDE_MAX };
    let count = counts.iter().try_fold(1_usize, |all, count| all.checked_mul(*count));
    if count.is_none_or(|count| count > most) {
        let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
        let what = format!("{} points are more than {most}", counts.join(" × "));
        root.wrong("sweep", what);
        sweeps.clear();
    }
    sweeps
}

/// One value for each key that is varied.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Point(pub(crate) Vec<Change>);

impl Point {
    /// Returns the values by their keys.
    pub(crate) fn values(&self) -> Value {
        let values = self.0.iter().map(|change| (change.key.clone(), shown(&change.value)));
        Value::Object(values.collect())
    }

    /// Returns the keys that vary.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.0.iter().map(|change| change.key.clone()).collect()
    }

    /// Returns what a picture is drawn of: a result here, or each of its seeds.
    pub(crate) fn samples(&self, result: &Value) -> Vec<Sample> {
        let point: Vec<String> = self.0.iter().map(|change| change.value.to_string()).collect();
        let scheme = result["scheme"].as_str().unwrap_or_default().to_owned();
        let one = |figures: &Value| {
            let (scheme, point) = (scheme.clone(), point.clone());
            Sample { scheme, point, figures: figures.clone() }
        };
        match result["by_seed"].as_array() {
            Some(seeds) => seeds.iter().map(one).collect(),
            None => vec![one(result)],
        }
    }

    /// Says where the point is; empty where nothing varies.
    pub(crate) fn name(&self) -> String {
        let parts = self.0.iter().map(|change| format!("{}={}", change.key, change.value));
        parts.collect::<Vec<_>>().join(",")
    }

    /// Returns the point's name in letters that a file system takes, however long.
    fn plain_name(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "=,._-".contains(c);
        self.name().replace(|c| !plain(c), "_")
    }
}

/// Returns the name of each point's folder for pictures: what it is called, or as much of that as a
/// file system takes, and its number where that does not tell it from the others.
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

/// Returns every combination of the values, the last key's in turn first.
fn points(sweeps: &[Sweep]) -> Vec<Point> {
    sweeps.iter().fold(vec![Point::default()], |points, sweep| {
        let with = |point: &Point, value| {
            Point(point.0.iter().cloned().chain([sweep.change(value)]).collect())
        };
        let beside = |point| sweep.values.iter().map(move |value| with(point, value));
        points.iter().flat_map(beside).collect()
    })
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
