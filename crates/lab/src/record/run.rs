//! Runs the files: side by side in virtual time, one by one on the emulator.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;

use serde_json::Value;

use super::anew::{checked_out, record_anew};
use super::kept::{Kept, inputs_of, write_result};
use super::papers;
use super::progress::{Progress, TOLD_EVERY};
use super::shown::{self, Sum};
use super::{Outcome, Play, Record, ReportArgs};
use crate::parallel;
use crate::report::Mode;
use crate::sweep::{STACK, words_of};
use crate::testbed;
use crate::traces::folder;
use emulator::Failure;
use sys::print::tell;

/// How often a file is run whose audit refuses what came, where results are kept.
const TRIES: u32 = 3;

/// A file of a report.
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) record: Record,
    pub(super) play: Play,
    /// Whether a part is run, whose figures are not those of the file.
    pub(super) is_part: bool,
    /// What was checked out when the report began, where it writes what comes.
    commit: Option<String>,
}

/// What became of a file.
pub(super) enum Came {
    Out(Outcome),
    Skipped(String),
    Failed(String),
}

/// What a thread says of a file.
enum Event {
    Began,
    Ended(Came),
}

/// Runs every file's experiment; true when every figure reaches what it must and is that of its
/// file, and every file could be run.
pub(crate) fn report(args: &ReportArgs) -> Result<bool, Failure> {
    if args.html.is_some() || args.list.is_some() || args.claims.is_some() {
        papers::write(args).map_err(Failure::Usage)?;
        return Ok(true);
    }
    let args = &args.with_all().map_err(Failure::Usage)?;
    let files = open(args).map_err(Failure::Usage)?;
    if files.iter().any(|file| file.play.mode() == Mode::Emu) {
        // Forks: must come before the first thread.
        testbed::prepare()?;
    }
    let kept = args.resume.as_deref().map(Kept::open).transpose().map_err(Failure::Usage)?;
    let jobs = args.jobs.map_or_else(parallel::processors, usize::from);
    let names = files.iter().map(|file| file.path.display().to_string()).collect();
    let recorded: Vec<Option<f64>> = files.iter().map(File::recorded_s).collect();
    let mut all = All {
        args,
        progress: Progress::new(names, &recorded, jobs),
        came: files.iter().map(|_| None).collect(),
        keys: files
            .iter()
            .map(|file| kept.as_ref().map(|kept| kept.key(&file.words(args.quick))))
            .collect(),
        kept,
        files: &files,
        shown: 0,
    };
    let rest = all.spare()?;
    let (sim, emu): (Vec<usize>, Vec<usize>) =
        rest.into_iter().partition(|file| files[*file].play.mode() == Mode::Sim);
    all.run_beside(&all.progress.order(sim), jobs)?;
    for file in emu {
        all.run_alone(file)?;
    }
    all.finish()
}

/// Reads the files, and what each is to run.
fn open(args: &ReportArgs) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for path in &args.files {
        let record = Record::read(path)?;
        if args.quick && !record.is_quick() {
            continue;
        }
        let play = record.play(path, args.quick);
        let play = play.map_err(|why| format!("{}: {why}", path.display()))?;
        let is_part = record.is_part(args.quick);
        let commit = if args.record { checked_out(path, &args.files) } else { None };
        files.push(File { path: path.clone(), record, play, is_part, commit });
    }
    if files.is_empty() {
        return Err(
            "--quick: none of these files says what is run of it in a hurry (`quick`)".to_owned()
        );
    }
    Ok(files)
}

impl File {
    /// Returns how long it took when it was recorded.
    fn recorded_s(&self) -> Option<f64> {
        match &self.play {
            Play::Read(..) => Some(0.1),
            Play::Run(_) => self.record.recorded.as_ref().filter(|_| !self.is_part)?.seconds,
        }
    }

    /// Returns what its outcome depends on, beside the program.
    fn words(&self, is_quick: bool) -> Vec<String> {
        match &self.play {
            Play::Run(_) => self.record.words(is_quick).to_vec(),
            Play::Read(..) => inputs_of(&self.path, &self.record),
        }
    }

    /// Runs the experiment, or reads the table.
    fn run(&self) -> Came {
        let began = Instant::now();
        let outcome = match &self.play {
            Play::Read(table, pairs) => pairs.results(table).map(Outcome::of_table),
            Play::Run(experiment) => {
                // Nothing of the file changes while it runs.
                let ran = catch_unwind(AssertUnwindSafe(|| experiment.run()));
                let ran = ran.unwrap_or_else(|panic| {
                    Err(Failure::Failed(format!("panicked: {}", words_of(panic.as_ref()))))
                });
                ran.map(Outcome::of).map_err(|failure| failure.to_string())
            }
        };
        let seconds = began.elapsed().as_secs_f64();
        let recordings = folder();
        // Without recordings an experiment that plays them fails and names them, or says of its
        // rows why they were skipped. What fails otherwise has failed.
        let lacks =
            |why: &str| !recordings.is_dir() && why.contains(&recordings.display().to_string());
        let is_skipped = |row: &Value| row["skipped"].as_str().is_some_and(lacks);
        match outcome {
            Err(why) if lacks(&why) => Came::Skipped(no_recordings(&recordings)),
            Err(why) => Came::Failed(why),
            Ok(outcome) if outcome.results.iter().any(is_skipped) => {
                Came::Skipped(no_recordings(&recordings))
            }
            Ok(outcome) => Came::Out(Outcome { seconds, ..outcome }),
        }
    }
}

fn no_recordings(folder: &Path) -> String {
    format!("no recordings in {}: FULMAR_SHARED names the folder above", folder.display())
}

/// A report under way.
struct All<'a> {
    args: &'a ReportArgs,
    files: &'a [File],
    came: Vec<Option<Came>>,
    keys: Vec<Option<String>>,
    kept: Option<Kept>,
    progress: Progress,
    /// Files that were printed: all before are.
    shown: usize,
}

impl All<'_> {
    /// Takes what is kept; returns what is to be run.
    fn spare(&mut self) -> Result<Vec<usize>, String> {
        let mut rest = Vec::new();
        for (number, file) in self.files.iter().enumerate() {
            let kept = self.kept.as_ref().zip(self.keys[number].as_ref());
            match kept.and_then(|(kept, key)| kept.get(&file.path, key)) {
                None => rest.push(number),
                Some(outcome) => {
                    self.progress.on_spared(number, "kept from before, by the same program");
                    self.settle(number, Came::Out(outcome))?;
                }
            }
        }
        Ok(rest)
    }

    /// Runs files at the same time.
    fn run_beside(&mut self, order: &[usize], jobs: usize) -> Result<(), String> {
        let files = self.files;
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (said, says) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..jobs.min(order.len()) {
                let (said, next, stop) = (said.clone(), &next, &stop);
                let work = move || {
                    while let Some(file) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let gone = said.send((*file, Event::Began)).is_err();
                        if gone || stop.load(Ordering::Relaxed) {
                            return;
                        }
                        // Where nobody listens any more, the next one notices.
                        let _ = said.send((*file, Event::Ended(files[*file].run())));
                    }
                };
                std::thread::Builder::new()
                    .stack_size(STACK)
                    .spawn_scoped(scope, work)
                    .map_err(|error| format!("start a thread: {error}"))?;
            }
            drop(said);
            loop {
                let done = match says.recv_timeout(TOLD_EVERY) {
                    Ok((file, Event::Began)) => {
                        self.progress.on_begin(file);
                        Ok(())
                    }
                    Ok((file, Event::Ended(came))) => self.on_end(file, came),
                    Err(RecvTimeoutError::Timeout) => {
                        self.progress.tell();
                        Ok(())
                    }
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                };
                if let Err(why) = done {
                    stop.store(true, Ordering::Relaxed);
                    return Err(why);
                }
            }
        })
    }

    /// Runs a file by itself; again where the audit refuses what came and it would be kept.
    fn run_alone(&mut self, number: usize) -> Result<(), String> {
        let file = &self.files[number];
        for left in (0..TRIES).rev() {
            self.progress.on_begin(number);
            let came = file.run();
            let is_refused = match &came {
                Came::Out(outcome) => {
                    !shown::is_valid(outcome, &file.record.rows(outcome, file.is_part))
                }
                Came::Skipped(_) | Came::Failed(_) => false,
            };
            if left == 0 || !is_refused || self.kept.is_none() {
                return self.on_end(number, came);
            }
            tell(format_args!("{}: INVALID: run again, at most {left} times", file.path.display()));
        }
        Ok(())
    }

    /// Notes what came of a file that was run, and keeps it.
    fn on_end(&mut self, number: usize, came: Came) -> Result<(), String> {
        let file = &self.files[number];
        match &came {
            Came::Out(outcome) => {
                let rows = file.record.rows(outcome, file.is_part);
                let is_valid = shown::is_valid(outcome, &rows);
                if let Some((kept, key)) =
                    self.kept.as_ref().zip(self.keys[number].as_ref()).filter(|_| is_valid)
                {
                    kept.put(&file.path, key, outcome)?;
                }
                self.progress.on_end(number, outcome.seconds, &shown::in_short(outcome, &rows));
            }
            Came::Skipped(why) => self.progress.on_spared(number, &format!("SKIPPED: {why}")),
            Came::Failed(why) => self.progress.on_spared(number, &format!("FAILED: {why}")),
        }
        self.settle(number, came)
    }

    /// Writes what came into the file, where that is wanted, and prints what can be printed in the
    /// order of the files.
    fn settle(&mut self, number: usize, came: Came) -> Result<(), String> {
        let file = &self.files[number];
        if let (true, Came::Out(outcome)) = (self.args.record, &came) {
            let rows = file.record.rows(outcome, file.is_part);
            if shown::is_valid(outcome, &rows) {
                record_anew(&file.path, outcome, &rows, file.commit.as_deref())?;
                write_result(&file.path, file.commit.as_deref(), outcome)?;
            }
        }
        self.came[number] = Some(came);
        while let Some(Some(came)) = self.came.get(self.shown) {
            if let (Came::Out(outcome), false) = (came, self.args.json) {
                shown::print_rows(&self.files[self.shown], outcome, self.args)?;
            }
            self.shown += 1;
        }
        Ok(())
    }

    /// Prints the summary; true where nothing is to be said against any file.
    fn finish(self) -> Result<bool, Failure> {
        let came: Vec<(&File, Came)> =
            self.files.iter().zip(self.came.into_iter().flatten()).collect();
        let sum = Sum::of(&came, self.args.record);
        if self.args.json {
            shown::print_json(&came, &sum)?;
        } else if came.len() > 1 {
            shown::print_summary(&came, &sum, self.args)?;
        }
        let left_out = self.args.files.len() - came.len();
        if left_out > 0 {
            tell(format_args!(
                "{left_out} other files say nothing of what is run of them in a hurry"
            ));
        }
        Ok(sum.is_met())
    }
}
