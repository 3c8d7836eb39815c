//! The picture of a window: its links, where each run missed control, what the video got.

use std::path::Path;

use super::bounds::Bounds;
use super::reachable::{Capacity, capacities};
use super::window::{Played, Window, file_name};
use crate::chart::{Lane, WayChart, WindowChart};
use crate::experiment::streams::figures::{LATE_S, VIDEO_LIMIT_S};
use crate::experiment::streams::ledger::StreamLedger;
use crate::scheme::Scheme;
use crate::testbed::{Direction, Stream};

/// What a link carries is drawn as the mean of this many milliseconds.
const BIN_MS: usize = 500;

impl Window {
    /// Draws the window's runs into a directory, which is made.
    ///
    /// # Errors
    /// Says which path could not be written, and why.
    pub(crate) fn draw(
        &self,
        directory: &Path,
        bounds: &Bounds,
        played: &[Played],
        made: &str,
    ) -> Result<(), String> {
        let way = |direction: Direction| {
            let links = capacities(&self.scenario, direction, self.seconds)?;
            let names = self.scenario.links.iter().map(|pair| pair.name.clone());
            let lanes = played.iter().map(|run| lane(run, direction));
            let bound = Lane {
                name: "no sender".to_owned(),
                scheme: Scheme::BOUND,
                missed: bounds.unreachable(direction).collect(),
            };
            let title = match direction {
                Direction::Up => "Up, station to drone",
                Direction::Down => "Down, drone to station",
            };
            Ok::<_, String>(WayChart {
                title: title.to_owned(),
                alive: bounds.alive_by_second(direction).to_vec(),
                rates: names.zip(links.iter().map(rates)).collect(),
                lanes: lanes.chain([bound]).collect(),
            })
        };
        let video = played.iter().map(|run| {
            let ledger = run.run.ledger(Direction::Down).stream(Stream::Video);
            (run.scheme, shares(ledger, self.seconds))
        });
        let chart = WindowChart {
            title: format!("{}: {} links", self.name(), self.scenario.links.len()),
            subtitle: format!("{made} No sender: missed whatever copies are sent, at any time."),
            seconds: self.seconds,
            ways: vec![way(Direction::Down)?, way(Direction::Up)?],
            video: video.filter(|(_, shares)| !shares.is_empty()).collect(),
        };
        chart.write(directory, &format!("{}.svg", file_name(self.name())))?;
        Ok(())
    }
}

fn lane(played: &Played, direction: Direction) -> Lane {
    let messages = played.run.ledger(direction).stream(Stream::Control).messages();
    let missed = messages.filter(|(_, delay)| delay.is_none_or(|delay| delay > LATE_S));
    Lane {
        name: format!("{} {}", played.scheme, played.case.name()),
        scheme: played.scheme,
        missed: missed.map(|(sent, _)| sent).collect(),
    }
}

/// Returns what a link brings over time: seconds, Mbit/s.
fn rates(capacity: &Capacity) -> Vec<(f64, f64)> {
    let bins = capacity.slots().chunks(BIN_MS).enumerate();
    let rate = |(number, slots): (usize, &[super::reachable::Slot])| {
        let bits: u64 = slots.iter().filter(|slot| slot.arrives).map(|slot| slot.bits).sum();
        ((number * BIN_MS) as f64 / 1e3, bits as f64 / slots.len() as f64 / 1e3)
    };
    bins.map(rate).collect()
}

/// Returns the share of a stream's packets in time, by the second in which they were sent.
fn shares(ledger: &StreamLedger, seconds: f64) -> Vec<(f64, f64)> {
    let mut counts = vec![(0_u32, 0_u32); seconds.ceil() as usize];
    for (sent, delay) in ledger.messages() {
        if let Some((timely, all)) = counts.get_mut(sent as usize) {
            *timely += u32::from(delay.is_some_and(|delay| delay <= VIDEO_LIMIT_S));
            *all += 1;
        }
    }
    let share = |(second, (timely, all)): (usize, (u32, u32))| {
        (all > 0).then(|| (second as f64 + 0.5, f64::from(timely) / f64::from(all)))
    };
    counts.into_iter().enumerate().filter_map(share).collect()
}
