//! What a sweep runs: points, seeds, schemes, and the hash that tells it from every other.

use std::path::Path;

use blake2::{Blake2s256, Digest};
use serde_json::{Map, Value, json};
use toml_keys::{Change, Scalar};

use crate::experiment::file::{Inputs, Over, Point, Study};
use crate::experiment::streams::detail::Detail;
use crate::scheme::Scheme;

/// The hash of the sources that figures come from.
pub(crate) const CODE: &str = env!("FULMAR_CODE");

/// The most tasks of a sweep.
const TASKS_MAX: u64 = 10_000_000;
/// The most bytes of a file of points.
const POINTS_FILE_MAX: u64 = 64 << 20;
/// Letters of a hash that are shown.
const HASH_LETTERS: usize = 16;

/// A point and a seed: what is run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Task {
    /// The number of the point, from 0.
    pub(crate) point: u64,
    /// The seed of its world.
    pub(crate) seed: u64,
}

/// A sweep, ready to be run.
pub(crate) struct Plan {
    study: Study,
    inputs: Inputs,
    over: Over,
    seeds: (u64, u64),
    hash: String,
}

impl Plan {
    /// Reads a file and what it names, and tries every point.
    ///
    /// # Errors
    /// Every mistake, with file, line and key; too many tasks.
    pub(crate) fn open(
        path: &Path,
        over: Over,
        seeds: Option<(u64, u64)>,
        schemes: &[Scheme],
    ) -> Result<Self, String> {
        let (study, inputs) = Study::open(path, over.clone(), schemes)?;
        Self::new(study, inputs, over, seeds)
    }

    /// Reads an experiment's text, and what it names beside `path`.
    ///
    /// # Errors
    /// As [`Plan::open`].
    pub(crate) fn of_text(
        text: &str,
        path: &Path,
        over: Over,
        seeds: Option<(u64, u64)>,
        schemes: &[Scheme],
    ) -> Result<Self, String> {
        let (study, inputs) = Study::of_text(text, path, over.clone(), schemes)?;
        Self::new(study, inputs, over, seeds)
    }

    /// Reads the `sweep.json` of another folder, which has the texts of all files in it.
    ///
    /// # Errors
    /// When it does not read; as [`Plan::of_description`].
    pub(super) fn open_description(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("read {shown}: {error}"))?;
        let description =
            serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
        Self::of_description(&description).map_err(|what| format!("{shown}: {what}"))
    }

    /// Makes the plan of a description that [`Plan::description`] gave, with texts in place of
    /// files.
    ///
    /// # Errors
    /// As [`Plan::open`]; when other code made the description, or what comes of it has another
    /// hash.
    pub(crate) fn of_description(description: &Value) -> Result<Self, String> {
        let code = description["code"].as_str().unwrap_or_default();
        if code != CODE {
            return Err(format!(
                "the sweep is by code {code}, this is code {CODE}: results of both cannot be put together; \
                 install the same version everywhere"
            ));
        }
        let broken = |error: serde_json::Error| format!("description of a sweep: {error}");
        let inputs: Inputs =
            serde_json::from_value(description["inputs"].clone()).map_err(broken)?;
        let seeds: (u64, u64) =
            serde_json::from_value(description["seeds"].clone()).map_err(broken)?;
        let names: Vec<String> =
            serde_json::from_value(description["schemes"].clone()).map_err(broken)?;
        let scheme = |name: &String| <Scheme as clap::ValueEnum>::from_str(name, false);
        let schemes: Vec<Scheme> = names.iter().map(scheme).collect::<Result<_, _>>()?;
        let over = over_of_json(&description["over"])?;
        let study = Study::of(&inputs, over.clone(), &schemes)?;
        let plan = Self::new(study, inputs, over, Some(seeds))?;
        match description["sweep"].as_str() {
            Some(hash) if hash == plan.hash => Ok(plan),
            _ => Err("description of a sweep: its hash is another one".to_owned()),
        }
    }

    fn find(&self, task: Task) -> Result<(), String> {
        let points = self.point_count();
        if task.point < points {
            return Ok(());
        }
        Err(format!("there is no point {}: they are numbered from 0 to {}", task.point, points - 1))
    }

    fn new(
        study: Study,
        inputs: Inputs,
        over: Over,
        seeds: Option<(u64, u64)>,
    ) -> Result<Self, String> {
        let seeds = seeds.or(study.seeds()).unwrap_or((1, 1));
        let (points, count) = (study.points().len() as u64, seeds.1 - seeds.0);
        if count
            .checked_add(1)
            .and_then(|count| count.checked_mul(points))
            .is_none_or(|all| all > TASKS_MAX)
        {
            return Err(format!(
                "{}: {points} points with seeds {}-{} are more than {TASKS_MAX} tasks",
                inputs.name, seeds.0, seeds.1
            ));
        }
        let mut plan = Self { study, inputs, over, seeds, hash: String::new() };
        plan.hash = shown_hash(&plan.what_is_run().to_string());
        Ok(plan)
    }

    /// Returns what the file calls the experiment.
    pub(crate) fn name(&self) -> &str {
        self.study.name()
    }

    /// Returns what tells this sweep from every other: by what is run, and by which code.
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns how many points there are.
    pub(crate) fn point_count(&self) -> u64 {
        self.study.points().len() as u64
    }

    /// Returns the first and the last seed.
    pub(crate) fn seeds(&self) -> (u64, u64) {
        self.seeds
    }

    /// Returns the schemes that run at every point.
    pub(crate) fn schemes(&self) -> &[Scheme] {
        self.study.schemes()
    }

    /// Returns keys and titles of the table.
    pub(crate) fn columns(&self) -> &[(String, String)] {
        self.study.columns()
    }

    /// Returns with how many seeds each of them is run.
    pub(crate) fn seed_count(&self) -> u64 {
        self.seeds.1 - self.seeds.0 + 1
    }

    /// Returns a point.
    pub(crate) fn point(&self, number: u64) -> Option<&Point> {
        self.study.points().get(usize::try_from(number).ok()?)
    }

    /// Returns every task, in the order of points, then seeds.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = Task> + use<> {
        let (points, (first, last)) = (self.point_count(), self.seeds);
        (0..points).flat_map(move |point| (first..=last).map(move |seed| Task { point, seed }))
    }

    /// Returns the tasks of a share: each `count`th, from the `index`th on, counted from 1.
    pub(crate) fn shard(&self, (index, count): (u64, u64)) -> impl Iterator<Item = Task> + use<> {
        self.tasks().skip(index as usize - 1).step_by(count as usize)
    }

    /// Runs a task; returns one object per scheme.
    ///
    /// # Errors
    /// When there is no such task, or it cannot be run.
    pub(crate) fn run(&self, task: Task) -> Result<Vec<Value>, String> {
        self.find(task)?;
        self.study.run(task.point as usize, (task.seed, task.seed))
    }

    /// Runs a point, or all of them, with a seed or with all, whose samples are pooled; returns the
    /// figures of each point, an object for each scheme.
    ///
    /// # Errors
    /// As [`Plan::run`].
    pub(crate) fn run_pooled(
        &self,
        point: Option<u64>,
        seed: Option<u64>,
    ) -> Result<Vec<Value>, String> {
        let (first, last) = self.seeds();
        let seeds = seed.map_or((first, last), |seed| (seed, seed));
        let mut results = Vec::new();
        let last = self.point_count().saturating_sub(1);
        for number in point.map_or(0..=last, |point| point..=point) {
            self.find(Task { point: number, seed: seeds.0 })?;
            results.extend(self.study.run(number as usize, seeds)?);
        }
        Ok(results)
    }

    /// Runs a task under one scheme; returns what became of each message and each packet.
    ///
    /// # Errors
    /// As [`Plan::run`].
    pub(crate) fn detail(&self, task: Task, scheme: Scheme) -> Result<Detail, String> {
        self.find(task)?;
        self.study.detail(task.point as usize, task.seed, scheme)
    }

    /// Returns the keys that vary, each with whether all of its values are numbers, or all flags.
    pub(crate) fn kinds(&self) -> Vec<(String, Kind)> {
        let mut kinds: Vec<(String, Kind)> = Vec::new();
        for Change { key, value } in self.study.points().iter().flat_map(|point| &point.0) {
            let kind = Kind::of(value);
            match kinds.iter_mut().find(|(other, _)| other == key) {
                Some((_, known)) if *known == kind => {}
                Some((_, known)) => *known = Kind::Text,
                None => kinds.push((key.clone(), kind)),
            }
        }
        kinds
    }

    /// Returns all that is needed to run it elsewhere, and to tell it from another.
    pub(crate) fn description(&self) -> Value {
        let Value::Object(mut description) = self.what_is_run() else { return Value::Null };
        description.insert("sweep".to_owned(), json!(self.hash));
        description.insert("name".to_owned(), json!(self.name()));
        Value::Object(description)
    }

    /// Returns what the hash is of.
    fn what_is_run(&self) -> Value {
        let schemes: Vec<&str> = self.study.schemes().iter().map(|scheme| scheme.name()).collect();
        // Where the file lies is nothing that figures depend on.
        let file = Path::new(&self.inputs.name).file_name().map(|name| name.to_string_lossy());
        let inputs = Inputs { name: file.unwrap_or_default().into_owned(), ..self.inputs.clone() };
        json!({
            "code": CODE,
            "version": env!("CARGO_PKG_VERSION"),
            "inputs": inputs,
            "over": over_to_json(&self.over),
            "seeds": self.seeds,
            "schemes": schemes,
        })
    }
}

/// What the values of a key are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Flag,
    /// Texts, or not all of one kind.
    Text,
}

impl Kind {
    fn of(value: &Scalar) -> Self {
        match value {
            Scalar::Number(_) => Self::Number,
            Scalar::Flag(_) => Self::Flag,
            Scalar::Text(_) => Self::Text,
        }
    }
}

/// Reads a file of points: a JSON object of keys and values on each line.
///
/// # Errors
/// Says which line is wrong, and why.
pub(super) fn read_points(path: &Path) -> Result<Over, String> {
    let shown = path.display();
    let read = || -> std::io::Result<String> {
        if std::fs::metadata(path)?.len() > POINTS_FILE_MAX {
            return Err(std::io::Error::other(format!("is larger than {POINTS_FILE_MAX} bytes")));
        }
        std::fs::read_to_string(path)
    };
    let text = read().map_err(|error| format!("read {shown}: {error}"))?;
    let mut points = Vec::new();
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let object: Map<String, Value> = serde_json::from_str(line).map_err(|error| {
            format!("{shown}:{number}: {error}: write one JSON object, such as {{\"link.lte.loss\": 0.05}}")
        })?;
        points.push(point(&object).map_err(|what| format!("{shown}:{number}: {what}"))?);
    }
    points_alike(points).map_err(|what| format!("{shown}: {what}"))
}

/// Takes points as objects of keys and values.
///
/// # Errors
/// Says which one is wrong, and why.
pub(crate) fn points_of(objects: &[Map<String, Value>]) -> Result<Over, String> {
    let numbered = objects.iter().zip(1..);
    let each = numbered
        .map(|(object, number)| point(object).map_err(|what| format!("point {number}: {what}")));
    points_alike(each.collect::<Result<_, _>>()?)
}

/// Takes a number, a text or a flag; none where it is something else.
pub(crate) fn scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::Number(number) => number.as_f64().map(Scalar::Number),
        Value::String(text) => Some(Scalar::Text(text.clone())),
        Value::Bool(flag) => Some(Scalar::Flag(*flag)),
        _ => None,
    }
}

/// Takes points that set the same keys.
fn points_alike(points: Vec<Point>) -> Result<Over, String> {
    let Some(first) = points.first() else { return Err("there are no points".to_owned()) };
    let keys = |point: &Point| point.0.iter().map(|change| change.key.clone()).collect::<Vec<_>>();
    let wanted = keys(first);
    match points.iter().position(|point| keys(point) != wanted) {
        Some(other) => Err(format!(
            "point {} sets {}, the first one {}: every point sets the same keys",
            other + 1,
            keys(&points[other]).join(", "),
            wanted.join(", ")
        )),
        None => Ok(Over::Points(points)),
    }
}

fn point(object: &Map<String, Value>) -> Result<Point, String> {
    let change = |(key, value): (&String, &Value)| {
        let value =
            scalar(value).ok_or_else(|| format!("{key}: {value} is no number, text or flag"))?;
        Ok(Change { key: key.clone(), value })
    };
    Ok(Point(object.iter().map(change).collect::<Result<_, String>>()?))
}

fn to_json(value: &Scalar) -> Value {
    match value {
        Scalar::Number(number) => json!(number),
        Scalar::Flag(flag) => json!(flag),
        Scalar::Text(text) => json!(text),
    }
}

/// Writes what varies as a list of points, or as a list of keys and values, whose order is that of
/// points.
fn over_to_json(over: &Over) -> Value {
    match over {
        Over::Product(sweeps) => {
            let values = |values: &[Scalar]| values.iter().map(to_json).collect::<Value>();
            let each = sweeps.iter().map(|(key, all)| json!([key, values(all)]));
            json!({"product": each.collect::<Value>()})
        }
        Over::Points(points) => {
            json!({"points": points.iter().map(Point::values).collect::<Value>()})
        }
    }
}

/// Reads what varies, as [`over_to_json`] writes it.
///
/// # Errors
/// When it is something else.
fn over_of_json(over: &Value) -> Result<Over, String> {
    if let Some(points) = over["points"].as_array() {
        let each = points
            .iter()
            .map(|one| one.as_object().ok_or_else(|| format!("{one} is no point")).and_then(point));
        return points_alike(each.collect::<Result<_, String>>()?);
    }
    let product =
        over["product"].as_array().ok_or("what varies is neither points nor a product")?;
    let sweep = |one: &Value| {
        let values = one[1].as_array().ok_or_else(|| format!("{}: no list of values", one[0]))?;
        let each = values.iter().map(|value| {
            scalar(value).ok_or_else(|| format!("{}: {value} is no number, text or flag", one[0]))
        });
        Ok((one[0].as_str().unwrap_or_default().to_owned(), each.collect::<Result<_, String>>()?))
    };
    Ok(Over::Product(product.iter().map(sweep).collect::<Result<_, String>>()?))
}

fn shown_hash(text: &str) -> String {
    let hash = Blake2s256::digest(text.as_bytes());
    let mut letters: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    letters.truncate(HASH_LETTERS);
    letters
}
