//! Runs every scheme over every scene, in virtual time or in real time, and reports: for
//! `bulk-lossy` and `flowcode-recorded`.

use serde_json::Value;

use super::Cc;
use super::comparison::compare;
use super::emu::{Asked, run_scene};
use super::figures::{pooled, row, skipped};
use super::picture::{self, SchemeRun};
use super::point::Scene;
use super::sim::run_flow;
use crate::arguments::{RunArgs, seeds_shown};
use crate::doubt::rankings_in_doubt;
use crate::report::{Mode, Report};
use crate::scheme::Scheme;
use emulator::{Audit, Failure};
use sys::print::tell;

/// The figures by which schemes are ranked.
const RANKED: [(&str, &str); 2] = [("goodput_mbps", ""), ("steady_mbps", "")];

/// What is to run.
pub(super) struct Course<'a> {
    /// The experiment's name.
    pub(super) experiment: &'static str,
    pub(super) run: &'a RunArgs,
    pub(super) schemes: &'a [Scheme],
    pub(super) scenes: &'a [Scene],
    pub(super) cc: &'a [Cc],
    /// How often in real time, with seeds that follow each other.
    pub(super) repetitions: u64,
    /// One scheme after the other in real time, where together they need more than the processors
    /// have.
    pub(super) in_turn: bool,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Ran {
    /// The rows of each scene, congestion control and scheme: one for each seed.
    pub(super) all: Vec<Vec<Value>>,
    /// The machine's accounts.
    audits: Vec<Audit>,
}

impl Course<'_> {
    /// Runs it, and draws the pictures of the first seed where `--out` asks for them.
    ///
    /// # Errors
    /// When something of our own, or of the kernel's, could not be set up; when a picture cannot be
    /// written.
    pub(super) fn run(&self) -> Result<Ran, Failure> {
        let (mut ran, mut drawn) = (Ran::default(), Vec::new());
        for scene in self.scenes {
            let (experiment, mode) = (self.experiment, self.mode());
            tell(format_args!("{experiment} {mode}: {}: {}", scene.name(), scene.ceiling_text()));
            for cc in self.cc {
                let runs = match self.run.mode() {
                    Mode::Sim => self.run_sim(scene, *cc, &mut ran)?,
                    Mode::Emu => self.run_emu(scene, *cc, &mut ran)?,
                };
                drawn.push((scene, cc.name(), runs));
            }
        }
        compare(&mut ran.all);
        if let Some(directory) = &self.run.out {
            picture::write(directory, self.experiment, &drawn)?;
        }
        Ok(ran)
    }

    /// Reports results.
    pub(super) fn report(&self, ran: Ran, parameters: Value, results: Vec<Value>) -> Report {
        match self.run.mode() {
            Mode::Sim => Report::sim(self.experiment, self.run.seeds(), parameters, results),
            Mode::Emu => {
                let doubts = rankings_in_doubt(&results, &RANKED, &["point", "window", "cc"]);
                let seed = self.run.seed();
                Report::emu(self.experiment, seed, parameters, &ran.audits, doubts, results)
            }
        }
    }

    /// Runs one scheme after the other in the world; returns the runs of the first seed.
    fn run_sim(&self, scene: &Scene, cc: Cc, ran: &mut Ran) -> Result<Vec<SchemeRun>, Failure> {
        let (experiment, name) = (self.experiment, scene.name());
        let (first, last) = self.run.seeds();
        let mut of_first = Vec::new();
        for scheme in self.schemes {
            let seeds = seeds_shown((first, last));
            tell(format_args!("{experiment} --sim: {name}, {}, {scheme}, {seeds}", cc.name()));
            let mut rows = Vec::new();
            for seed in first..=last {
                let run = run_flow(scene, *scheme, cc, seed)?;
                rows.push(match &run {
                    Ok(run) => row(*scheme, cc.name(), scene, run, None),
                    Err(why) => skipped(*scheme, cc.name(), Some(scene), why),
                });
                if seed == first {
                    of_first.push((*scheme, run));
                }
            }
            ran.all.push(rows);
        }
        Ok(of_first)
    }

    /// Runs all schemes at once in real time; returns the runs of the first repetition.
    fn run_emu(&self, scene: &Scene, cc: Cc, ran: &mut Ran) -> Result<Vec<SchemeRun>, Failure> {
        let (experiment, name, seconds) = (self.experiment, scene.name(), scene.end());
        let asked: Vec<Asked> =
            self.schemes.iter().map(|scheme| Asked::new(*scheme, cc.name())).collect();
        let mut rows: Vec<Vec<Value>> = vec![Vec::new(); asked.len()];
        let mut of_first = Vec::new();
        for repetition in 0..self.repetitions {
            let seed = self.run.seed() + repetition;
            tell(format_args!(
                "{experiment} --emu: {name}, {}, seed {seed}, {seconds} s",
                cc.name()
            ));
            let mut number = 0;
            let in_turn = self.in_turn || scene.is_of_cables();
            for together in asked.chunks(if in_turn { 1 } else { asked.len() }) {
                let (runs, account) = run_scene(scene, together, cc.name(), seed)?;
                for (asked, run) in together.iter().zip(runs) {
                    rows[number].push(match &run {
                        Ok(run) => row(asked.scheme, cc.name(), scene, run, Some(&account.stalls)),
                        Err(why) => skipped(asked.scheme, cc.name(), Some(scene), why),
                    });
                    number += 1;
                    if repetition == 0 {
                        of_first.push((asked.scheme, run));
                    }
                }
                ran.audits.extend(account.ran);
            }
        }
        ran.all.extend(rows);
        Ok(of_first)
    }

    fn mode(&self) -> &'static str {
        match self.run.mode() {
            Mode::Sim => "--sim",
            Mode::Emu => "--emu",
        }
    }
}

impl Ran {
    /// Pools seeds: means in the world, medians in real time.
    pub(super) fn pooled(&self, course: &Course<'_>) -> Vec<Value> {
        let medians = course.run.mode() == Mode::Emu;
        let first = course.run.seeds().0;
        self.all.iter().map(|rows| pooled(rows, first, medians)).collect()
    }
}
