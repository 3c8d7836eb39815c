//! Plays scenes: each with each seed by itself, several at the same time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::Value;
use sys::print::{quietly, tell};
use toml_keys::{Change, Scalar};

use super::card::{Card, Cell, Key, is_ours};
use super::scenes::{BOUNDS, File, ONLY_POINT, Scene, What};
use crate::experiment::Experiment;
use crate::experiment::file::{Over, Point, Study};
use crate::experiment::lacks_recordings;
use crate::parallel;
use crate::report::field;
use crate::scheme::Scheme;
use crate::sweep::shown_seconds;
use crate::traces;

/// How often is told how far the card is.
const TOLD_EVERY: Duration = Duration::from_secs(3);
/// How much later a fall begins with each seed, seconds: no multiple of anything that is sent or
/// timed.
const LATER_S: f64 = 0.317;
/// When it begins with seed 1.
const FALL_S: f64 = 10.0;

/// What came of one scene with one seed.
type Played = Result<Vec<(Key, f64)>, String>;

/// Plays scenes with every seed.
///
/// # Errors
/// Names the scene and the seed that could not be played, and why; those that need recordings that
/// are not there are left out of the card, which says so.
pub(super) fn play(
    scenes: &[&Scene],
    (first, last): (u64, u64),
    jobs: usize,
    ours: bool,
) -> Result<Card, String> {
    let sets = recordings();
    let lacks: Vec<Option<String>> = scenes.iter().map(|scene| lacks(scene, &sets)).collect();
    let playable = || scenes.iter().zip(&lacks).filter(|(_, lacks)| lacks.is_none());
    let mut tasks: Vec<(&Scene, u64)> = Vec::new();
    for seed in first..=last {
        tasks.extend(playable().map(|(scene, _)| (*scene, seed)));
    }
    // What takes longest begins first: the end is that of short ones.
    tasks.sort_by(|one, other| other.0.seconds.total_cmp(&one.0.seconds));
    let progress = Mutex::new(Progress::new(&tasks));
    let played = parallel::map(&tasks, jobs, |_, (scene, seed)| {
        let outcome = quietly(|| one(scene, *seed, ours));
        progress.lock().unwrap_or_else(PoisonError::into_inner).on_end(scene);
        outcome
    });
    let mut card = Card { seeds: (first, last), ..Card::default() };
    for (scene, lacks) in scenes.iter().zip(lacks) {
        if let Some(why) = lacks {
            card.skipped.push((scene.name.to_owned(), why));
            continue;
        }
        let is_of = |(task, _): &(&(&Scene, u64), &Played)| task.0.name == scene.name;
        let mut of_scene: Vec<(u64, &Played)> = tasks
            .iter()
            .zip(&played)
            .filter(is_of)
            .map(|(task, played)| (task.1, played))
            .collect();
        of_scene.sort_by_key(|(seed, _)| *seed);
        let named = |(seed, played): (u64, &Played)| {
            played.clone().map_err(|why| format!("scene {}, seed {seed}: {why}", scene.name))
        };
        let by_seed = of_scene.into_iter().map(named).collect::<Result<Vec<_>, _>>()?;
        card.cells.extend(together(&by_seed));
    }
    Ok(card)
}

/// Returns the words that run a scene by itself, as one would type them; seeds and `--json` may
/// follow.
pub(super) fn command(scene: &Scene) -> String {
    let schemes = scene.schemes;
    match &scene.what {
        What::Run(words) | What::Fall(words) => {
            format!("fulmar-lab run {words} --sim --schemes {schemes}")
        }
        What::Recorded { set, words } => {
            format!("fulmar-lab run recorded --set {set} {words} --sim --schemes {schemes}")
        }
        What::File(file) => {
            format!("fulmar-lab run experiments/{} --sim --schemes {schemes}", file.name)
        }
    }
}

/// Returns the names of the sets of recordings that are there, or why there are none.
fn recordings() -> Result<Vec<String>, String> {
    match lacks_recordings() {
        Some(why) => Err(why),
        None => Ok(traces::link_sets(&traces::folder())?.into_iter().map(|set| set.name).collect()),
    }
}

/// Says which recordings a scene needs that are not there.
fn lacks(scene: &Scene, sets: &Result<Vec<String>, String>) -> Option<String> {
    let What::Recorded { set, .. } = &scene.what else { return None };
    let name = set.split(':').next().unwrap_or(set);
    match sets {
        Err(why) => Some(why.clone()),
        Ok(sets) if sets.iter().any(|known| known == name) => None,
        Ok(_) => Some(format!("no recordings of {name} in {}", traces::folder().display())),
    }
}

/// Plays one scene with one seed, with all its schemes or with ours.
fn one(scene: &Scene, seed: u64, ours: bool) -> Played {
    let seed_text = seed.to_string();
    let wanted = |name: &&str| !ours || is_ours(name);
    let schemes = scene.schemes.split(',').filter(wanted).collect::<Vec<_>>().join(",");
    let run = |words: &str, more: &[&str]| -> Result<Vec<Value>, String> {
        let given = ["--sim", "--schemes", &schemes, "--seed", &seed_text];
        let words = words.split_whitespace().chain(given).chain(more.iter().copied());
        let words: Vec<String> = words.map(str::to_owned).collect();
        let experiment = Experiment::parse(&words)?;
        Ok(experiment.run().map_err(|failure| failure.to_string())?.results)
    };
    let results = match &scene.what {
        What::Run(words) => named(scene, run(words, &[])?),
        What::Recorded { set, words } => {
            named(scene, run(&format!("recorded --set {set} {words}"), &[])?)
        }
        What::Fall(words) => {
            let start = FALL_S + LATER_S * seed.saturating_sub(1) as f64;
            named(scene, run(words, &["--start-s", &start.to_string(), "--jobs", "1"])?)
        }
        What::File(file) => of_file(file, &schemes, seed)?,
    };
    let mut cells = Vec::new();
    for (point, result) in results {
        let scheme = result["scheme"].as_str().filter(|scheme| !ours || is_ours(scheme));
        let Some(scheme) = scheme else { continue };
        for figure in scene.figures {
            let Some(value) = figure.of(&result) else { continue };
            let key = Key {
                scene: scene.name.to_owned(),
                point: point.clone(),
                scheme: scheme.to_owned(),
                figure: figure.name.to_owned(),
            };
            cells.push((key, value));
        }
    }
    Ok(cells)
}

/// Runs every point of a file.
fn of_file(file: &File, schemes: &str, seed: u64) -> Result<Vec<(String, Value)>, String> {
    let change = |(key, value): &(&str, f64)| Change {
        key: (*key).to_owned(),
        value: Scalar::Number(*value),
    };
    let schemes = schemes.split(',').map(|name| Scheme::from_str(name, false));
    let schemes: Vec<Scheme> = schemes.collect::<Result<_, _>>()?;
    let mut results = Vec::new();
    for (name, changes) in file.points {
        let over = Over::Points(vec![Point(changes.iter().map(change).collect())]);
        let study = Study::of(&file.inputs(), over, &schemes)?;
        let of_point = study.run(0, (seed, seed))?;
        results.extend(of_point.into_iter().map(|result| ((*name).to_owned(), result)));
    }
    Ok(results)
}

/// Returns the results that a scene looks at, with the names of their points.
fn named(scene: &Scene, results: Vec<Value>) -> Vec<(String, Value)> {
    let is_wanted = |result: &Value| scene.only.is_none_or(|(key, value)| result[key] == value);
    let point = |result: &Value| -> Option<String> {
        if result["scheme"] == Scheme::BOUND.name() && !result["case"].is_null() {
            let bound = BOUNDS.iter().find(|(case, _)| result["case"] == *case);
            return bound.map(|(_, point)| (*point).to_owned());
        }
        let words: Vec<String> = scene.by.iter().map(|key| word(field(result, key))).collect();
        Some(if words.is_empty() { ONLY_POINT.to_owned() } else { words.join("-") })
    };
    let wanted = results.into_iter().filter(is_wanted);
    wanted.filter_map(|result| Some((point(&result)?, result))).collect()
}

/// Writes a key's value as part of a name: numbers without a point where they are whole.
fn word(value: &Value) -> String {
    match (value, value.as_f64()) {
        (_, Some(number)) => number.to_string(),
        (Value::String(text), _) => text.clone(),
        (value, _) => value.to_string(),
    }
}

/// Puts the seeds of each figure together, in the order of the first; what one of them lacks cannot
/// be compared.
fn together(by_seed: &[Vec<(Key, f64)>]) -> Vec<Cell> {
    let Some((first, others)) = by_seed.split_first() else { return Vec::new() };
    let cell = |(key, value): &(Key, f64)| {
        let of = |seed: &Vec<(Key, f64)>| {
            seed.iter().find(|(other, _)| other == key).map(|(_, value)| *value)
        };
        let rest: Option<Vec<f64>> = others.iter().map(of).collect();
        let Some(rest) = rest else {
            tell(format_args!("scorecard: {key} is there with some seeds alone, and left out"));
            return None;
        };
        Some(Cell { key: key.clone(), values: [vec![*value], rest].concat() })
    };
    first.iter().filter_map(cell).collect()
}

/// Tells how far the card is.
struct Progress {
    runs: usize,
    ended: usize,
    /// Processor time that is to be spent, and was.
    cost: f64,
    spent: f64,
    began: Instant,
    told: Instant,
}

impl Progress {
    fn new(tasks: &[(&Scene, u64)]) -> Self {
        let now = Instant::now();
        let cost = tasks.iter().map(|(scene, _)| scene.seconds).sum();
        Self { runs: tasks.len(), ended: 0, cost, spent: 0.0, began: now, told: now }
    }

    fn on_end(&mut self, scene: &Scene) {
        self.ended += 1;
        self.spent += scene.seconds;
        let now = Instant::now();
        if now.duration_since(self.told) >= TOLD_EVERY || self.ended == self.runs {
            self.told = now;
            let so_far = now.duration_since(self.began).as_secs_f64();
            let left = so_far * (self.cost - self.spent).max(0.0) / self.spent;
            let left = shown_seconds(left);
            tell(format_args!(
                "scorecard: {} of {} runs, {left} left ({})",
                self.ended, self.runs, scene.name
            ));
        }
    }
}
