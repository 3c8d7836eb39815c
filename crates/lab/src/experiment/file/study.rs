//! The experiment of a file, read once, of which any point can be run by itself: on any thread, and
//! on a machine that has none of the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::read::{Plan, ReadFile, Source, read_file};
use super::sweep::{Over, Point};
use super::{DESCRIPTION, at_point};
use crate::experiment::streams::detail::{Detail, run_detailed};
use crate::experiment::streams::play::play_quietly;
use crate::report::Mode;
use crate::scheme::Scheme;
use crate::testbed::Recording;

/// A file and what it names, as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inputs {
    /// What mistakes call the file; those that it names are relative to it.
    pub(crate) name: String,
    /// Its text.
    pub(crate) text: String,
    /// The texts of scenarios and traces by their paths from the file's folder.
    pub(crate) beside: BTreeMap<String, String>,
}

/// An experiment in the world, whose points can be run in any order.
pub(crate) struct Study {
    source: Source,
    plan: Plan,
    points: Vec<Point>,
    schemes: Vec<Scheme>,
    recording: Recording,
}

impl Study {
    /// Reads a file and all that its points name, and tries every point.
    ///
    /// # Errors
    /// Every mistake in the file, in what it names, and in what varies, a line each.
    pub(crate) fn open(
        path: &Path,
        over: Over,
        schemes: &[Scheme],
    ) -> Result<(Self, Inputs), String> {
        Self::of_text(&read_file(path)?, path, over, schemes)
    }

    /// Reads an experiment's text, and what it names beside `path`.
    ///
    /// # Errors
    /// As [`Study::open`].
    pub(crate) fn of_text(
        text: &str,
        path: &Path,
        over: Over,
        schemes: &[Scheme],
    ) -> Result<(Self, Inputs), String> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let seen: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let note = Arc::clone(&seen);
        let files: ReadFile = Arc::new(move |beside: &Path| {
            let text = read_file(beside)?;
            let name = beside.strip_prefix(&folder).unwrap_or(beside);
            let mut seen = note.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(name.display().to_string(), text.clone());
            Ok(text)
        });
        Self::new(text, path, files, over.clone(), schemes)?;
        let beside = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let inputs = Inputs { name: path.display().to_string(), text: text.to_owned(), beside };
        // From here on what is run is what was read, whatever becomes of the files.
        Ok((Self::of(&inputs, over, schemes)?, inputs))
    }

    /// Reads the same from texts.
    ///
    /// # Errors
    /// As [`Study::open`].
    pub(crate) fn of(inputs: &Inputs, over: Over, schemes: &[Scheme]) -> Result<Self, String> {
        let path = PathBuf::from(&inputs.name);
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let beside = inputs.beside.clone();
        let files: ReadFile = Arc::new(move |wanted: &Path| {
            let name = wanted.strip_prefix(&folder).unwrap_or(wanted).display().to_string();
            let text = beside.get(&name).cloned();
            text.ok_or_else(|| format!("read {name}: it was not there when the sweep began"))
        });
        Self::new(&inputs.text, &path, files, over, schemes)
    }

    fn new(
        text: &str,
        path: &Path,
        files: ReadFile,
        over: Over,
        schemes: &[Scheme],
    ) -> Result<Self, String> {
        let life = schemes.is_empty().then_some(Mode::Sim);
        let source = Source::new(text.to_owned(), path, life, files).over(over);
        let plan = source.plan()?;
        let schemes = match (schemes, &plan.schemes[..]) {
            ([], []) => DESCRIPTION.sim.unasked.to_vec(),
            ([], of_file) => of_file.to_vec(),
            (given, _) => given.to_vec(),
        };
        let points = plan.points();
        Ok(Self { source, plan, points, schemes, recording: Recording::load()? })
    }

    /// Returns what the file calls the experiment.
    pub(crate) fn name(&self) -> &str {
        &self.plan.name
    }

    /// Returns the first and the last seed, where the file has any.
    pub(crate) fn seeds(&self) -> Option<(u64, u64)> {
        self.plan.seeds
    }

    /// Returns the schemes that run at every point.
    pub(crate) fn schemes(&self) -> &[Scheme] {
        &self.schemes
    }

    /// Returns keys and titles of the table.
    pub(crate) fn columns(&self) -> &[(String, String)] {
        &self.plan.columns
    }

    /// Returns the points.
    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Runs a point with seeds from the first to the last, whose samples are pooled; returns one
    /// object per scheme.
    ///
    /// # Errors
    /// When a scheme cannot be had in the world.
    ///
    /// # Panics
    /// When there is no such point.
    pub(crate) fn run(&self, number: usize, seeds: (u64, u64)) -> Result<Vec<Value>, String> {
        let point = &self.points[number];
        let here = self.source.at(point)?;
        let results = play_quietly(&here.scene(), &self.schemes, &self.recording, seeds)?;
        let finish = |result| at_point(point, self.plan.with_asked(here.without_absent(result)));
        Ok(results.into_iter().map(finish).collect())
    }

    /// Runs a point with a seed under one scheme; returns what became of each message and each
    /// packet.
    ///
    /// # Errors
    /// When the scheme cannot be had in the world.
    ///
    /// # Panics
    /// When there is no such point.
    pub(crate) fn detail(
        &self,
        number: usize,
        seed: u64,
        scheme: Scheme,
    ) -> Result<Detail, String> {
        let scene = self.source.at(&self.points[number])?.scene();
        run_detailed(&scene, scheme, &self.recording, seed)
    }
}
