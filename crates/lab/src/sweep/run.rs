//! Runs the tasks of a sweep on threads.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::folder::Folder;
use super::plan::{Plan, Task};
use super::table;
use sys::print::tell;

/// How often is told how far a sweep is.
const TOLD_EVERY: Duration = Duration::from_secs(5);
/// The stack of a thread: that of a program's first.
const STACK: usize = 8 << 20;

/// Runs tasks, and keeps what each came to; returns how many failed.
///
/// # Errors
/// When results cannot be written: what follows could not be either.
pub(super) fn all(
    plan: &Plan,
    folder: &Folder,
    tasks: &[Task],
    jobs: usize,
    mut on_end: impl FnMut(Task, &Result<(), String>),
) -> Result<usize, String> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let (ended, ends) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(tasks.len()) {
            let (ended, next, stop) = (ended.clone(), &next, &stop);
            let work = move || {
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let outcome = one(plan, *task);
                    let kept = match &outcome {
                        Ok(bytes) => folder.keep(*task, bytes),
                        Err(why) => folder.keep_failure(plan, *task, why),
                    };
                    if ended.send((*task, outcome.map(|_| ()), kept)).is_err() {
                        return;
                    }
                }
            };
            std::thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, work)
                .map_err(|error| format!("start a thread: {error}"))?;
        }
        drop(ended);
        let mut failed = 0;
        for (task, outcome, kept) in ends {
            if let Err(error) = kept {
                stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
            failed += usize::from(outcome.is_err());
            on_end(task, &outcome);
        }
        Ok(failed)
    })
}

/// Returns the file of a task's results; a panic is a failure of its own.
pub(crate) fn one(plan: &Plan, task: Task) -> Result<Vec<u8>, String> {
    // Nothing of the plan changes while a task runs.
    let ran = catch_unwind(AssertUnwindSafe(|| plan.run(task)));
    let results =
        ran.unwrap_or_else(|panic| Err(format!("panicked: {}", words_of(panic.as_ref()))))?;
    table::parquet(plan, task, &results)
}

/// Returns what a panic says.
pub(crate) fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
    words.unwrap_or_else(|| "without words".to_owned())
}

/// Tells how far a sweep is, and what failed.
pub(super) struct Progress {
    tasks: usize,
    ended: usize,
    failed: usize,
    began: Instant,
    told: Instant,
}

impl Progress {
    pub(super) fn new(tasks: usize) -> Self {
        let now = Instant::now();
        Self { tasks, ended: 0, failed: 0, began: now, told: now }
    }

    /// Notes that a task has ended.
    pub(super) fn on_end(&mut self, plan: &Plan, task: Task, outcome: &Result<(), String>) {
        self.ended += 1;
        if let Err(why) = outcome {
            self.failed += 1;
            let point = plan.point(task.point).map(|point| point.name()).unwrap_or_default();
            tell(format_args!("point {} ({point}) seed {}: {why}", task.point, task.seed));
        }
        let (now, rest) = (Instant::now(), self.tasks - self.ended);
        if now.duration_since(self.told) >= TOLD_EVERY || rest == 0 {
            self.told = now;
            let each = now.duration_since(self.began).as_secs_f64() / self.ended as f64;
            tell(format_args!(
                "{} of {} tasks, {} failed, {} left",
                self.ended,
                self.tasks,
                self.failed,
                shown_seconds(each * rest as f64)
            ));
        }
    }
}

/// Writes a time for people.
pub(crate) fn shown_seconds(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}
