//! Which cells are run: all of a grid, or some that are drawn from it.

use clap::{Args, ValueEnum};
use units::Rng;

use super::cell::{Cell, Links, Load, Scene};
use crate::arguments::{loss, positive};

const FROM_MBPS: [f64; 6] = [0.1, 0.3, 1.0, 3.0, 10.0, 50.0];
const TO_KBPS: [f64; 9] = [2.0, 5.0, 10.0, 20.0, 50.0, 64.0, 100.0, 200.0, 500.0];
const FALL_S: [f64; 4] = [1.0, 5.0, 30.0, 60.0];
const QUEUE_KB: [f64; 4] = [16.0, 64.0, 500.0, 1_000.0];
const LOSS: [f64; 2] = [0.0, 0.05];

/// The options that say which cells are run.
#[derive(Clone, Debug, Args)]
pub(super) struct GridArgs {
    /// Rates before and after the fall, Mbit/s; 0.1 to 50 unless said.
    #[arg(long, value_delimiter = ',', value_name = "MBPS,...", value_parser = positive)]
    from_mbps: Vec<f64>,
    /// Rates during the fall, kbit/s; 2 to 500 unless said. Cells without a fall are left out.
    #[arg(long, value_delimiter = ',', value_name = "KBPS,...", value_parser = positive)]
    to_kbps: Vec<f64>,
    /// Which links there are, and which fall; `both` unless said.
    #[arg(long, value_delimiter = ',', value_name = "LINKS,...")]
    links: Vec<Links>,
    /// How long the fall lasts, seconds; 30 unless said.
    #[arg(long, value_delimiter = ',', value_name = "S,...", value_parser = positive)]
    fall_s: Vec<f64>,
    /// What each queue holds, kB; 500 unless said.
    #[arg(long, value_delimiter = ',', value_name = "KB,...", value_parser = positive)]
    queue_kb: Vec<f64>,
    /// What is sent; `counted` unless said.
    #[arg(long, value_delimiter = ',', value_name = "LOAD,...")]
    load: Vec<Load>,
    /// Random losses of all links, each 0 to below 1; 0 unless said.
    #[arg(long, value_delimiter = ',', value_name = "P,...", value_parser = loss)]
    loss: Vec<f64>,
    /// Scenes beside the grid; all of them unless one of the lists above is given.
    #[arg(long, value_delimiter = ',', value_name = "SCENE,...")]
    scenes: Vec<Scene>,
    /// Draw so many cells, with the run's seed, from the grid of every value of every list; what a
    /// list above names is all that is drawn of it.
    #[arg(long, value_name = "N", conflicts_with = "all")]
    cells: Option<usize>,
    /// Run the grid of every value of every list: tens of thousands of cells.
    #[arg(long)]
    all: bool,
    /// Run the cells of these names alone, as the table writes them.
    #[arg(long, value_delimiter = ',', value_name = "CELL,...", conflicts_with_all = [
        "from_mbps", "to_kbps", "links", "fall_s", "queue_kb", "load", "loss", "scenes", "cells", "all"])]
    only: Vec<Cell>,
}

impl GridArgs {
    /// Returns the cells to run.
    pub(super) fn chosen(&self, seed: u64) -> Vec<Cell> {
        if !self.only.is_empty() {
            return self.only.clone();
        }
        let axes = self.axes();
        let mut cells = match self.cells {
            Some(count) => axes.drawn(count, &mut Rng::stream(seed, "cells of falls")),
            None => axes.product(),
        };
        let no_lists = self.from_mbps.is_empty()
            && self.to_kbps.is_empty()
            && self.links.is_empty()
            && self.fall_s.is_empty()
            && self.queue_kb.is_empty()
            && self.load.is_empty()
            && self.loss.is_empty();
        let every = if no_lists { Scene::value_variants() } else { &[] };
        let scenes = if self.scenes.is_empty() { every } else { &self.scenes };
        cells.extend(scenes.iter().copied().map(Cell::scene));
        cells
    }

    fn axes(&self) -> Axes {
        let wide = self.all || self.cells.is_some();
        Axes {
            from_mbps: values(&self.from_mbps, &FROM_MBPS),
            to_kbps: values(&self.to_kbps, &TO_KBPS),
            links: values(&self.links, if wide { Links::value_variants() } else { &[Links::Both] }),
            fall_s: values(&self.fall_s, if wide { &FALL_S } else { &[30.0] }),
            queue_kb: values(&self.queue_kb, if wide { &QUEUE_KB } else { &[500.0] }),
            load: values(&self.load, if wide { Load::value_variants() } else { &[Load::Counted] }),
            loss: values(&self.loss, if wide { &LOSS } else { &[0.0] }),
        }
    }
}

/// The values of each axis of the grid.
struct Axes {
    from_mbps: Vec<f64>,
    to_kbps: Vec<f64>,
    links: Vec<Links>,
    fall_s: Vec<f64>,
    queue_kb: Vec<f64>,
    load: Vec<Load>,
    loss: Vec<f64>,
}

impl Axes {
    /// Returns the number of values of each axis.
    fn lengths(&self) -> [usize; 7] {
        [
            self.from_mbps.len(),
            self.to_kbps.len(),
            self.links.len(),
            self.fall_s.len(),
            self.queue_kb.len(),
            self.load.len(),
            self.loss.len(),
        ]
    }

    /// Returns the cell at these places of the axes.
    fn at(&self, [from, to, links, fall, queue, load, loss]: [usize; 7]) -> Cell {
        Cell {
            scene: None,
            links: self.links[links],
            from_mbps: self.from_mbps[from],
            to_kbps: self.to_kbps[to],
            fall_s: self.fall_s[fall],
            queue_kb: self.queue_kb[queue],
            load: self.load[load],
            loss: self.loss[loss],
        }
    }

    /// Returns every cell that is a fall.
    fn product(&self) -> Vec<Cell> {
        let lengths = self.lengths();
        let count: usize = lengths.iter().product();
        let places = |number: usize| {
            let mut rest = number;
            let mut places = [0; 7];
            for (place, length) in places.iter_mut().zip(lengths).rev() {
                (*place, rest) = (rest % length, rest / length);
            }
            places
        };
        (0..count).map(|number| self.at(places(number))).filter(Cell::is_fall).collect()
    }

    /// Draws cells so that of each axis every value comes up equally often, as in a Latin
    /// hypercube; where that makes no fall, another rate to fall to is drawn.
    fn drawn(&self, count: usize, rng: &mut Rng) -> Vec<Cell> {
        let mut decks = self.lengths().map(|length| deck(length, count, rng).into_iter());
        let mut cells = Vec::new();
        for _ in 0..count {
            let mut cell = self.at(decks.each_mut().map(|deck| deck.next().unwrap_or(0)));
            if !cell.is_fall() {
                let lower = self.to_kbps.iter().filter(|kbps| **kbps < cell.from_mbps * 1e3);
                let lower: Vec<f64> = lower.copied().collect();
                if lower.is_empty() {
                    continue;
                }
                cell.to_kbps = lower[rng.below(lower.len() as u64) as usize];
            }
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }
}

/// Returns what was asked for, or what is usual.
fn values<T: Copy>(given: &[T], usual: &[T]) -> Vec<T> {
    if given.is_empty() { usual.to_vec() } else { given.to_vec() }
}

/// Returns places below `length`, each equally often, in an order of chance.
fn deck(length: usize, count: usize, rng: &mut Rng) -> Vec<usize> {
    let first = rng.below(length as u64) as usize;
    let mut deck: Vec<usize> = (0..count).map(|number| (first + number) % length).collect();
    for last in (1..count).rev() {
        deck.swap(last, rng.below(last as u64 + 1) as usize);
    }
    deck
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        grid: GridArgs,
    }

    fn chosen(words: &str, seed: u64) -> Vec<Cell> {
        let words = core::iter::once("falls").chain(words.split_whitespace());
        Line::try_parse_from(words).expect("a sound command line").grid.chosen(seed)
    }

    #[test]
    fn a_draw_has_every_value_of_every_axis_and_no_cell_that_is_no_fall() {
        let cells = chosen("--cells 40", 1);
        assert_eq!(cells.len(), 40 + 5);
        assert!(cells.iter().filter(|cell| cell.scene.is_none()).all(Cell::is_fall));
        let names: Vec<String> = cells[..40].iter().map(Cell::to_string).collect();
        let counts: Vec<usize> = (0..6)
            .map(|word| names.iter().filter_map(move |name| name.split('_').nth(word)))
            .map(|words| words.collect::<BTreeSet<_>>().len())
            .collect();
        assert_eq!(counts, [5, 6, 9, 4, 4, 4]);
        assert_eq!(names.iter().filter(|name| name.ends_with("_loss0.05")).count(), 20);
        assert_eq!(chosen("--cells 40", 1), cells, "the same seed draws the same");
        assert_ne!(chosen("--cells 40", 2), cells);
    }

    #[test]
    fn lists_and_names_choose_cells() {
        assert_eq!(chosen("", 1).len(), 50 + 5);
        assert_eq!(chosen("--from-mbps 0.1,1 --to-kbps 64,100,200", 1).len(), 1 + 3);
        assert_eq!(chosen("--cells 0 --scenes flap,jump", 1).len(), 2);
        assert!(chosen("--cells 9 --from-mbps 0.1 --to-kbps 200", 1).is_empty());
        let cells = chosen("--only flap,both_10M_50k_30s_500kB_counted", 1);
        assert_eq!((cells[0].scene, cells[1].to_kbps), (Some(Scene::Flap), 50.0));
        assert_eq!(chosen("--all", 1).len(), 5 * 50 * 4 * 4 * 4 * 2 + 5);
    }
}
