//! Where the results of a sweep go.
//!
//! ```text
//! sweep.json                    what is run, with its hash: another sweep is refused
//! points/000012-seed-7.parquet  what a point came to with a seed: whole, or not there
//! failed/000012-seed-7.json     why one failed; it is tried again by the next run
//! ```
//! Several processes, on several machines, may write into one folder: each file is written under a
//! name of its own first, and is on the disk before it gets its place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::plan::{Plan, Task};
use super::table;
use crate::whole_file::{self, UNFINISHED};

const DESCRIPTION: &str = "sweep.json";
const POINTS: &str = "points";
const FAILED: &str = "failed";
/// Older than this they are what a killed process left behind.
const ABANDONED: Duration = Duration::from_secs(3_600);

/// The folder of a sweep.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Opens the folder of a sweep, or makes it.
    ///
    /// # Errors
    /// When it holds another sweep, or cannot be written.
    pub(crate) fn open(path: &Path, plan: &Plan) -> Result<Self, String> {
        let folder = Self { path: path.to_owned() };
        for name in [POINTS, FAILED] {
            let inner = path.join(name);
            std::fs::create_dir_all(&inner)
                .map_err(|error| format!("--out: make {}: {error}", inner.display()))?;
            folder.sweep_out(&inner);
        }
        let place = path.join(DESCRIPTION);
        let text =
            serde_json::to_string_pretty(&plan.description()).map_err(|error| error.to_string())?;
        match std::fs::read_to_string(&place) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                whole_file::write(&place, (text + "\n").as_bytes())?;
            }
            Err(error) => return Err(format!("read {}: {error}", place.display())),
            Ok(there) => {
                let there: Value = serde_json::from_str(&there)
                    .map_err(|error| format!("{}: {error}", place.display()))?;
                if there["sweep"] != json!(plan.hash()) {
                    let what = difference(&there, &plan.description());
                    return Err(format!(
                        "--out {}: holds results of another sweep, {}: {what}; choose another folder, or remove this \
                         one",
                        path.display(),
                        there["sweep"].as_str().unwrap_or("without a hash")
                    ));
                }
            }
        }
        Ok(folder)
    }

    /// Returns those of some tasks whose results are there.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn done(&self, tasks: &[Task]) -> Result<BTreeSet<Task>, String> {
        let points = self.path.join(POINTS);
        let failed = |error| format!("read {}: {error}", points.display());
        let mut names = BTreeSet::new();
        for entry in std::fs::read_dir(&points).map_err(failed)? {
            names.insert(entry.map_err(failed)?.file_name());
        }
        let is_there = |task: &Task| names.contains(std::ffi::OsStr::new(&file_name(*task)));
        Ok(tasks.iter().copied().filter(is_there).collect())
    }

    /// Reads the results of a task, a row for each scheme.
    ///
    /// # Errors
    /// When they are not there, or cannot be read.
    pub(super) fn results(&self, task: Task) -> Result<Vec<Value>, String> {
        let path = self.path.join(POINTS).join(file_name(task));
        let named = |error: String| format!("read {}: {error}", path.display());
        let file = std::fs::File::open(&path).map_err(|error| named(error.to_string()))?;
        table::rows(file).map_err(|error| named(error.to_string()))
    }

    /// Returns where pictures go.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the results of a task in their place.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn keep(&self, task: Task, bytes: &[u8]) -> Result<(), String> {
        whole_file::write(&self.path.join(POINTS).join(file_name(task)), bytes)?;
        // What failed before has not failed now.
        let _ = std::fs::remove_file(self.failure(task));
        Ok(())
    }

    /// Notes why a task failed.
    ///
    /// # Errors
    /// When that cannot be written.
    pub(crate) fn keep_failure(&self, plan: &Plan, task: Task, why: &str) -> Result<(), String> {
        let values = plan.point(task.point).map(|point| point.values());
        let text = json!({
            "sweep": plan.hash(), "code": super::plan::CODE,
            "point": task.point, "values": values, "seed": task.seed, "why": why,
        });
        whole_file::write(&self.failure(task), format!("{text}\n").as_bytes())
    }

    fn failure(&self, task: Task) -> PathBuf {
        self.path.join(FAILED).join(file_name(task)).with_extension("json")
    }

    /// Removes what killed processes have left behind.
    fn sweep_out(&self, inner: &Path) {
        for entry in std::fs::read_dir(inner).into_iter().flatten().flatten() {
            let is_unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
            let age = entry.metadata().and_then(|about| about.modified()).ok();
            let age = age.and_then(|at| at.elapsed().ok());
            if is_unfinished && age.is_some_and(|age| age > ABANDONED) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Returns what the results of a task are called.
pub(super) fn file_name(task: Task) -> String {
    format!("{:06}-seed-{}.parquet", task.point, task.seed)
}

/// Says in which parts two sweeps differ.
fn difference(there: &Value, here: &Value) -> String {
    let parts = ["code", "version", "over", "seeds", "schemes"];
    let mut differ: Vec<String> = parts
        .into_iter()
        .filter(|part| there[part] != here[part])
        .map(|part| format!("{part} {} there, {} here", short(&there[part]), short(&here[part])))
        .collect();
    if there["inputs"] != here["inputs"] {
        differ.push("the file, or one that it names, is not what it was".to_owned());
    }
    differ.join(", ")
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
