//! The course of one fall: what stands in the hop's queue, what the session believes to stand
//! there, what it has sent.
//!
//! ```text
//! standing(t + Δ) = max(0, standing(t) − what the hop carries in Δ) + what entered the hop in Δ
//! ```
//! which is what an emulated link does with bytes: it carries them in their order, and is never
//! idle while any stand there. Of the cell's first link that falls, from the drone to the station.

use std::fmt::Write;
use std::path::Path;

use netem::{Interface, LinkEnd, World};

use super::cell::Cell;
use super::figures::seconds_of;
use super::links::{Hop, Times, scenario};
use crate::chart::{Panel, TimeChart, TimeCurve};
use crate::experiment::streams::sim::run_stepwise;
use crate::scheme::Scheme;
use crate::testbed::end::End;
use crate::testbed::world::Places;
use crate::testbed::{Direction, Recording};
use sys::print::tell;

/// From one row to the next.
const STEP_S: f64 = 0.05;

/// What is true and what is believed at one instant.
#[derive(Clone, Copy, Debug)]
struct Row {
    at_s: f64,
    /// Bytes that stand in the hop's queue, and in its transmitter.
    standing: f64,
    /// Bytes handed to the hop since the workload began.
    sent: u64,
    /// Bytes that the session has sent and neither acknowledged nor given up.
    in_flight: Option<u64>,
    /// Bytes that the session believes to stand in the hop's queue.
    believed: Option<u64>,
}

/// Watches one direction of a link.
struct Watch {
    host: usize,
    interface: Interface,
    /// The interface's place at its host.
    place: usize,
    hop: Hop,
    rows: Vec<Row>,
    at_s: f64,
    standing: f64,
    /// Bytes that had entered the hop when it was last looked at.
    entered: u64,
    /// Bytes that had been handed to it when the workload began, and those of them that had entered
    /// it.
    before: Option<(u64, u64)>,
}

/// Plays a cell with the product, writes the course and draws it.
///
/// # Errors
/// When a file cannot be written.
pub(super) fn write(
    cell: &Cell,
    times: Times,
    recording: &Recording,
    seed: u64,
    csv: &Path,
    directory: Option<&Path>,
) -> Result<(), String> {
    let hops = Hop::all(cell, times);
    let links = scenario(cell, &hops, times, Scheme::FULMAR);
    let place = (0..hops.len()).find(|link| cell.links.falls(*link)).unwrap_or(0);
    let host = Places::of(&links)?.sender(Direction::Down);
    let interface = links.interfaces(host)[place];
    let mut watch = Watch::new(host, (place, interface), hops[place].clone());
    let workload = cell.load.workload(times.seconds);
    let scheme = (Scheme::FULMAR, None);
    run_stepwise(&links, scheme, &workload, recording, seed, |_| {}, |world| watch.step(world))?;
    std::fs::write(csv, table(&watch.rows))
        .map_err(|error| format!("write {}: {error}", csv.display()))?;
    tell(format_args!("course: {}", csv.display()));
    let Some(directory) = directory else { return Ok(()) };
    let picture = chart(cell, times, &watch.rows).write(directory, "fall-course.svg")?;
    tell(format_args!("picture: {}", picture.display()));
    Ok(())
}

impl Watch {
    fn new(host: usize, (place, interface): (usize, Interface), hop: Hop) -> Self {
        let (rows, before) = (Vec::new(), None);
        Self { host, interface, place, hop, rows, at_s: 0.0, standing: 0.0, entered: 0, before }
    }

    fn step(&mut self, world: &World<End>) {
        let end = LinkEnd { link: self.interface.link, direction: self.interface.sends };
        let (at_s, stats) = (seconds_of(world), world.net().stats(end));
        let entered = stats.bytes_in - stats.queue_dropped_bytes;
        // What sessions said to each other before the workload is out of the hop.
        let before = *self.before.get_or_insert((stats.bytes_in, entered));
        let came = entered - self.entered.max(before.1);
        let left = self.standing - self.hop.carries((self.at_s, at_s));
        self.standing = left.max(0.0) + came as f64;
        (self.at_s, self.entered) = (at_s, entered);
        if at_s < STEP_S * self.rows.len() as f64 {
            return;
        }
        let status = world.host(self.host).status(world.host_now(self.host));
        let paths = status.map_or_else(Vec::new, |status| status.paths);
        let path = paths.iter().find(|path| path.interface.0 as usize == self.place);
        self.rows.push(Row {
            at_s,
            standing: self.standing,
            sent: stats.bytes_in - before.0,
            in_flight: path.map(|path| path.in_flight),
            believed: path.and_then(|path| path.believed_queue),
        });
    }
}

fn table(rows: &[Row]) -> String {
    let mut text =
        "time_s,queue_bytes,sent_bytes,in_flight_bytes,believed_queue_bytes\n".to_owned();
    let shown = |bytes: Option<u64>| bytes.map_or_else(String::new, |bytes| bytes.to_string());
    for row in rows {
        let (in_flight, believed) = (shown(row.in_flight), shown(row.believed));
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "{:.3},{:.0},{},{in_flight},{believed}",
            row.at_s, row.standing, row.sent
        );
    }
    text
}

fn chart(cell: &Cell, times: Times, rows: &[Row]) -> TimeChart {
    let curve = |name: &str, colour, value: &dyn Fn(&Row) -> Option<f64>| TimeCurve {
        name: name.to_owned(),
        colour,
        points: rows.iter().filter_map(|row| Some((row.at_s, value(row)? / 1e3))).collect(),
    };
    let stands = curve("stands there", "#0a4fd1", &|row| Some(row.standing));
    let believed =
        curve("is believed to", "#d97706", &|row| row.believed.map(|bytes| bytes as f64));
    let in_flight = curve("in flight", "#1b8a3a", &|row| row.in_flight.map(|bytes| bytes as f64));
    let sent = curve("sent", "#a21d75", &|row| Some(row.sent as f64));
    let queue = [stands, believed, in_flight];
    TimeChart {
        title: "What stands in the hop's queue through one fall".to_owned(),
        subtitle: format!(
            "{cell}: the first link that falls, drone to station; in the deterministic world"
        ),
        seconds: times.seconds,
        spans: vec![times.fall],
        panels: vec![
            Panel {
                title: "kB in the hop's queue".to_owned(),
                curves: queue.into_iter().filter(|curve| !curve.points.is_empty()).collect(),
            },
            Panel { title: "kB sent since the beginning".to_owned(), curves: vec![sent] },
        ],
    }
}
