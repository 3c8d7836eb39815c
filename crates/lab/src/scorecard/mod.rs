//! `fulmar-lab scorecard`: what each scheme reaches in every scene, as one card; what moved between
//! two of them.
//!
//! ```text
//! scenes → play (each with each seed, in virtual time) → card → its file, tables
//!                                                        card, older card → compare → what moved
//! ```
//! The instrument by which the engine is changed. It measures nothing itself: scenes are
//! experiments with parameters.

mod card;
mod compare;
mod figures;
mod play;
mod scenes;
mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use emulator::Failure;
use serde_json::json;

use crate::arguments::{parse_seeds, seeds_shown};
use crate::parallel;
use card::Card;
use compare::{Difference, Verdict, behind};
use scenes::Scene;
use sys::print::{print, tell};

/// The seeds of a card unless said.
const SEEDS: (u64, u64) = (1, 3);

/// More than these nobody waits for.
const SEEDS_MAX: u64 = 1_000;

/// The arguments of the scorecard.
#[derive(Clone, Debug, Args)]
pub(crate) struct ScorecardArgs {
    /// Say which scenes there are, what each is for and the command that runs it by itself; play
    /// none.
    #[arg(long, conflicts_with_all = ["card", "against", "out", "json"])]
    list: bool,
    /// Play these scenes alone.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    scenes: Vec<String>,
    /// Seeds that each scene is played with; 1-3 unless said, and with --card those of the card.
    #[arg(long, value_name = "A-B", value_parser = parse_seeds)]
    seeds: Option<(u64, u64)>,
    /// Runs at the same time; as many as there are processors unless said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: Option<u64>,
    /// Play our schemes alone, in about a third of the time; with a card, show and compare those
    /// alone.
    #[arg(long)]
    ours: bool,
    /// Show the card in this file in place of playing one.
    #[arg(long, value_name = "FILE", conflicts_with = "jobs")]
    card: Option<PathBuf>,
    /// Show what moved since the card in this file, by more than the span of the seeds of either:
    /// exit code 1 where anything of ours is worse.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Show every figure that has another value: exit code 1 where there is one.
    #[arg(long, requires = "against")]
    exact: bool,
    /// Write the card into this file: one line for each figure, in an order that does not change.
    #[arg(long, value_name = "FILE", conflicts_with = "card")]
    out: Option<PathBuf>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

/// Where somebody is better than we are: the cell, ours, who, theirs.
pub(crate) type BehindRow = (String, String, &'static str, String);

/// Returns how many figures of ours the card of a file has, and in which of them somebody that does
/// nothing clever is better.
///
/// # Errors
/// Names the file, and what is wrong with it.
pub(crate) fn behind_of(path: &Path) -> Result<(usize, Vec<BehindRow>), String> {
    let card = Card::read(path)?;
    let count = card.cells.iter().filter(|cell| card::is_ours(&cell.key.scheme)).count();
    let row = |one: compare::Behind| {
        let (ours, theirs) = (show::summary(one.ours), show::summary(one.theirs));
        (one.key.to_string(), ours, one.rival.name(), theirs)
    };
    Ok((count, behind(&card).into_iter().map(row).collect()))
}

/// Plays or reads a card, shows it, and compares it where that is asked for.
pub(crate) fn run_command(args: &ScorecardArgs) -> Result<ExitCode, Failure> {
    if args.list {
        print(show::list())?;
        return Ok(ExitCode::SUCCESS);
    }
    let scenes = chosen(&args.scenes).map_err(Failure::Usage)?;
    let names: Vec<&str> = scenes.iter().map(|scene| scene.name).collect();
    if let Some((first, last)) = args.seeds.filter(|(first, last)| last - first >= SEEDS_MAX) {
        let count = u128::from(last - first) + 1;
        return Err(Failure::Usage(format!("--seeds: {count} are more than {SEEDS_MAX}")));
    }
    let then = args.against.as_deref().map(Card::read).transpose().map_err(Failure::Usage)?;
    let card = match &args.card {
        Some(path) => {
            let card = Card::read(path).map_err(Failure::Usage)?;
            let seeds = args.seeds.unwrap_or(card.seeds);
            card.only(seeds, &names, args.ours).map_err(|what| of_seeds(path, &what))?
        }
        None => {
            let jobs = args.jobs.map_or_else(parallel::processors, |jobs| jobs as usize);
            play::play(&scenes, args.seeds.unwrap_or(SEEDS), jobs, args.ours)?
        }
    };
    for (scene, why) in &card.skipped {
        tell(format_args!("SKIPPED: {scene}: {why}"));
    }
    if let Some(path) = &args.out {
        card.write(path)?;
        tell(format_args!(
            "scorecard: {} figures of {} scenes, {}, {} scenes skipped: {}",
            card.cells.len(),
            scenes.len() - card.skipped.len(),
            seeds_shown(card.seeds),
            card.skipped.len(),
            path.display()
        ));
    }
    let difference = match (then, &args.against) {
        (Some(then), Some(path)) => {
            let is_played = |name: &&str| !card.skipped.iter().any(|(skipped, _)| skipped == name);
            let played: Vec<&str> = names.iter().copied().filter(is_played).collect();
            let then = then.only(card.seeds, &played, args.ours);
            let then = then.map_err(|what| of_seeds(path, &what))?;
            Some(Difference::between(&then, &card))
        }
        _ => None,
    };
    told(args, &card, difference.as_ref())?;
    let is_well = difference.is_none_or(|difference| match args.exact {
        true => difference.is_none(),
        false => difference.of(Verdict::Worse).next().is_none(),
    });
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Prints what was asked for.
fn told(args: &ScorecardArgs, card: &Card, difference: Option<&Difference>) -> Result<(), String> {
    let behind = behind(card);
    if args.json {
        let mut all = card.to_json();
        all["behind"] = behind.iter().map(compare::Behind::to_json).collect();
        if let Some(difference) = difference {
            all["against"] = difference.to_json();
        }
        return print(json!(all));
    }
    match difference {
        Some(difference) => print(show::difference(difference, args.exact)),
        None => print(format_args!("{}\n\n{}", show::card(card), show::behind(&behind))),
    }
}

/// Returns the scenes of these names; all of them where there are none.
fn chosen(names: &[String]) -> Result<Vec<&'static Scene>, String> {
    let known = || scenes::ALL.iter().map(|scene| scene.name).collect::<Vec<_>>().join(", ");
    for name in names {
        if !scenes::ALL.iter().any(|scene| scene.name == name) {
            return Err(format!("--scenes: there is no {name:?}; there are {}", known()));
        }
    }
    let is_wanted =
        |scene: &&Scene| names.is_empty() || names.iter().any(|name| name == scene.name);
    Ok(scenes::ALL.iter().filter(is_wanted).collect())
}

fn of_seeds(path: &std::path::Path, what: &str) -> Failure {
    Failure::Usage(format!("{}: {what}: say --seeds", path.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::experiment::Experiment;
    use crate::experiment::file::{Over, Study};
    use crate::scheme::Scheme;

    #[test]
    fn every_scene_has_a_name_of_its_own_and_an_experiment_that_reads() {
        let names: BTreeSet<&str> = scenes::ALL.iter().map(|scene| scene.name).collect();
        assert_eq!(names.len(), scenes::ALL.len());
        for scene in scenes::ALL {
            if let scenes::What::File(file) = &scene.what {
                Study::of(&file.inputs(), Over::default(), &[Scheme::FULMAR])
                    .unwrap_or_else(|why| panic!("{}: {why}", scene.name));
                continue;
            }
            let command = play::command(scene);
            let words: Vec<String> =
                command.split_whitespace().skip(2).map(str::to_owned).collect();
            Experiment::parse(&words).unwrap_or_else(|why| panic!("{}: {why}", scene.name));
            let figures: BTreeSet<&str> = scene.figures.iter().map(|figure| figure.name).collect();
            assert_eq!(figures.len(), scene.figures.len(), "{}", scene.name);
        }
    }

    #[test]
    fn scenes_are_chosen_by_name_and_a_wrong_one_names_all() {
        let all = chosen(&[]).expect("all");
        assert_eq!(all.len(), scenes::ALL.len());
        let two = chosen(&["thin".to_owned(), "blackout".to_owned()]).expect("two");
        assert_eq!(two.iter().map(|scene| scene.name).collect::<Vec<_>>(), ["blackout", "thin"]);
        assert!(chosen(&["thick".to_owned()]).is_err_and(|why| why.contains("messages-bursts")));
    }
}
