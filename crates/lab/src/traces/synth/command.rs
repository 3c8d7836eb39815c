//! What `fulmar-lab trace synth` takes, writes and prints.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use netem::{MATRIX_SLOTS_MAX, SlotMatrix};
use serde::Serialize;
use sys::print::{print, tell};

use super::channel::{Way, render};
use super::course::Fix;
use super::flight::Flight;
use super::passes::{Pass, Row, heard, passes, rows};
use super::picture;
use crate::traces::shared;

/// The most of pairs times slots: a minute or so of work, and as many bytes.
const WORK_MAX: usize = 100_000_000;

const AFTER_HELP: &str = "\
A flight file says where an aircraft flies, and past which radios; docs/traces.md has every key:
  name = \"pass\"
  [course]                     # around its waypoints, as often as laps says
  airspeed_mps = 20
  [wind]
  from_deg = 270               # a compass: 0 is north, 90 east
  speed_mps = 5
  [[waypoint]]                 # at least two; the leg from here on is in region A
  east_m = -500
  north_m = 60
  height_m = 50
  region = \"A\"
  [air]
  extra_loss_db = 15           # beside the path loss: cables, bodies
  capture_db = 4               # how far a frame must be above all others together
  rice_k_db = 6                # steady over scattered power
  coherence_m = 4              # way after which fading has forgotten itself
  [[antenna]]
  name = \"whip\"
  pattern = \"dipole\"
  [[transmitter]]              # on the ground
  name = \"m1\"
  antenna = \"whip\"
  east_m = 0
  north_m = 0
  height_m = 2
  [[receiver]]                 # aboard
  name = \"r1\"
  antenna = \"whip\"

From a flight file to a scenario's recording, with a look at where the flight is heard:
  fulmar-lab trace synth flights/circuit.toml --seed 1 --out circuit.slots --picture circuit.svg

One transmitter alone, which is not disturbed by the others:
  fulmar-lab trace synth flights/circuit.toml --seed 1 --alone m2 --out alone.slots

One file and seed make the same matrix, byte for byte.";

/// The arguments of `trace synth`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SynthArgs {
    /// The flight file.
    #[arg(value_name = "FLIGHT.toml")]
    flight: PathBuf,
    /// What wind, fading and frames are drawn with.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Where the slot matrix goes; without it the flight is only told about.
    #[arg(long, value_name = "MATRIX")]
    out: Option<PathBuf>,
    /// Let this transmitter send alone.
    #[arg(long, value_name = "NAME")]
    alone: Option<String>,
    /// Where a table of positions goes: time, place and what is heard, second by second.
    #[arg(long, value_name = "FILE.csv")]
    course: Option<PathBuf>,
    /// Where a picture goes: the course, coloured by what is heard.
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// A flight that was flown.
#[derive(Clone, Debug)]
pub(crate) struct Flown {
    pub(crate) flight: Flight,
    pub(crate) course: Vec<Fix>,
    pub(crate) seed: u64,
}

/// What is told about a flight.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) flight: String,
    pub(crate) seed: u64,
    /// Over ground.
    pub(crate) seconds: f64,
    pub(crate) way_m: f64,
    pub(crate) slots: usize,
    pub(crate) slot_ms: f64,
    /// All transmitters and all receivers.
    pub(crate) all: Trace,
    /// The pair that hears most, its transmitter sending alone.
    pub(crate) best: Trace,
}

/// What some transmitters and receivers achieve.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Trace {
    /// Whose.
    pub(crate) links: String,
    /// Packets that were heard, each once.
    pub(crate) heard: u64,
    pub(crate) rows: Vec<Row>,
    pub(crate) passes: Vec<Pass>,
}

/// Flies and tells.
pub(crate) fn run(args: &SynthArgs) -> Result<(), String> {
    let flown = Flown::read(&args.flight, args.seed)?;
    let alone = args.alone.as_deref().map(|name| flown.transmitter(name)).transpose()?;
    let all = render(&flown.flight, &flown.course, Way::Up, None, args.seed);
    let own = match alone {
        Some(_) => render(&flown.flight, &flown.course, Way::Up, alone, args.seed),
        None => all.clone(),
    };
    let counts = heard(&own);
    if let Some(file) = &args.out {
        write(file, &own.to_text())?;
    }
    if let Some(file) = &args.course {
        write(file, &picture::positions(&flown, &counts))?;
    }
    if let Some(file) = &args.picture {
        let of = args.alone.as_ref().map_or(String::new(), |name| format!(", {name} alone"));
        write(file, &picture::draw(&flown, &counts, &of))?;
    }
    let summary = Summary::of(&flown, &all);
    if args.json {
        let text =
            serde_json::to_string(&summary).map_err(|error| format!("write JSON: {error}"))?;
        return print(text);
    }
    print(summary.table().trim_end())?;
    if let Some(file) = &args.out {
        tell(format_args!("slot matrix: {}", file.display()));
    }
    Ok(())
}

impl Flown {
    /// Reads a flight file and flies its course.
    ///
    /// # Errors
    /// Every mistake of the file, with line and key; a flight of no slot, or of too many.
    pub(crate) fn read(file: &Path, seed: u64) -> Result<Self, String> {
        let text = shared::text(file)?;
        Self::of_text(&text, &file.display().to_string(), seed, WORK_MAX)
    }

    /// Flies a file that was read, of at most so many pairs times slots.
    pub(super) fn of_text(text: &str, file: &str, seed: u64, work: usize) -> Result<Self, String> {
        let flight = Flight::parse(text, file).map_err(|error| error.to_string())?;
        Self::of_flight(flight, file, seed, work)
    }

    /// Flies a file that was read; so many laps, where the caller says it.
    ///
    /// # Errors
    /// As [`Flown::read`].
    pub(crate) fn with_laps(
        text: &str,
        file: &str,
        seed: u64,
        laps: Option<f64>,
    ) -> Result<Self, String> {
        let mut flight = Flight::parse(text, file).map_err(|error| error.to_string())?;
        flight.course.laps = laps.unwrap_or(flight.course.laps);
        Self::of_flight(flight, file, seed, WORK_MAX)
    }

    fn of_flight(flight: Flight, file: &str, seed: u64, work: usize) -> Result<Self, String> {
        let pairs = flight.transmitters.len() * flight.receivers.len();
        let most = (work / pairs).min(MATRIX_SLOTS_MAX);
        let course = flight.course.fly(flight.air.slot_s(), seed, most);
        let line = flight.course.line;
        let course = course.map_err(|what| format!("{file}:{line}: course.laps: {what}"))?;
        if course.is_empty() {
            return Err(format!("{file}:{line}: course.laps: the flight is shorter than a slot"));
        }
        Ok(Self { flight, course, seed })
    }

    /// Returns which transmitter has a name.
    pub(crate) fn transmitter(&self, name: &str) -> Result<usize, String> {
        let names: Vec<&str> =
            self.flight.transmitters.iter().map(|one| one.name.as_str()).collect();
        names.iter().position(|known| *known == name).ok_or_else(|| {
            format!("--alone {name}: no such transmitter; there are {}", names.join(", "))
        })
    }

    /// Returns the matrix of each transmitter alone, and of the pair that hears most of all of
    /// them.
    pub(crate) fn best_alone(&self, way: Way) -> (SlotMatrix, String, String) {
        let senders = match way {
            Way::Up => self.flight.transmitters.len(),
            Way::Down => self.flight.receivers.len(),
        };
        let alone = (0..senders)
            .map(|number| render(&self.flight, &self.course, way, Some(number), self.seed));
        let mut best: Option<(usize, SlotMatrix, String, String)> = None;
        for matrix in alone {
            for row in matrix.rows() {
                let heard = row.trace.slots().iter().filter(|heard| **heard).count();
                if best.as_ref().is_none_or(|(most, ..)| heard > *most) {
                    let single = SlotMatrix::new(matrix.slot(), vec![row.clone()]);
                    let single = single.expect("a row of a matrix is a matrix");
                    best = Some((heard, single, row.from.clone(), row.to.clone()));
                }
            }
        }
        let (_, matrix, from, to) = best.expect("a flight has a transmitter and a receiver");
        (matrix, from, to)
    }

    /// Returns the matrix of one pair, its transmitter sending alone.
    ///
    /// # Panics
    /// When the flight has no such radios.
    pub(crate) fn alone(&self, way: Way, from: &str, to: &str) -> SlotMatrix {
        let is_sender = |name: &String| name == from;
        let number = match way {
            Way::Up => self.flight.transmitters.iter().position(|one| is_sender(&one.name)),
            Way::Down => self.flight.receivers.iter().position(|one| is_sender(&one.name)),
        };
        let number = number.expect("a transmitter of the flight");
        let matrix = render(&self.flight, &self.course, way, Some(number), self.seed);
        let row = matrix.rows().iter().find(|row| row.to == to).expect("a receiver of the flight");
        SlotMatrix::new(matrix.slot(), vec![row.clone()]).expect("a row of a matrix is a matrix")
    }
}

impl Summary {
    /// Tells about a flight, of which all that is heard is known.
    pub(crate) fn of(flown: &Flown, all: &SlotMatrix) -> Self {
        let Flown { flight, course, seed } = flown;
        let slot_s = flight.air.slot_s();
        let trace = |links: String, matrix: &SlotMatrix| {
            let heard = heard(matrix);
            let passes = passes(flight, course, &heard);
            let heard = heard.iter().map(|&count| u64::from(count)).sum();
            Trace { links, heard, rows: rows(&passes), passes }
        };
        let (single, from, to) = flown.best_alone(Way::Up);
        let links = format!("{} × {}", flight.transmitters.len(), flight.receivers.len());
        Self {
            flight: flight.name.clone(),
            seed: *seed,
            seconds: course.len() as f64 * slot_s,
            way_m: course.iter().map(|fix| fix.speed_mps * slot_s).sum(),
            slots: course.len(),
            slot_ms: slot_s * 1e3,
            all: trace(links, all),
            best: trace(format!("{from} to {to} alone"), &single),
        }
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "{}, seed {}: {:.1} s, {:.0} m, {} slots of {:.3} ms\n\n",
            toml_keys::one_line(&self.flight),
            self.seed,
            self.seconds,
            self.way_m,
            self.slots,
            self.slot_ms
        );
        let heading = ["region", "links", "passes", "achievable Mbit/s", "range m"];
        let mut lines = vec![heading.map(str::to_owned).to_vec()];
        for trace in [&self.all, &self.best] {
            for row in &trace.rows {
                let spread = |mean: f64, deviation: Option<f64>, digits: usize| match deviation {
                    Some(deviation) => format!("{mean:.digits$} ± {deviation:.digits$}"),
                    None => format!("{mean:.digits$}"),
                };
                lines.push(vec![
                    toml_keys::one_line(&row.region),
                    trace.links.clone(),
                    row.passes.to_string(),
                    spread(row.achievable_mbps, row.achievable_mbps_sd, 3),
                    spread(row.range_m, row.range_m_sd, 1),
                ]);
            }
        }
        if lines.len() == 1 {
            text.push_str("no waypoint begins a region: region = \"A\" at a [[waypoint]]\n");
            return text;
        }
        text + &aligned(&lines)
    }
}

/// Puts the cells of lines under each other.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let long =
        |line: &Vec<String>, column: usize| line.get(column).map_or(0, |cell| cell.chars().count());
    let width = |column| lines.iter().map(|line| long(line, column)).max();
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("write {}: {error}", file.display()))
}
