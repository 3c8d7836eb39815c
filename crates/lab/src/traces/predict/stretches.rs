//! Which parts of a recording are passes, and what each of them had.
//!
//! As a table of positions says: rows of one region that follow each other. Without one a pass is a
//! stretch with nothing heard for some seconds before and after it. Its seconds are counted from
//! its beginning, as those of `synth` are.

use netem::{SlotMatrix, Table};
use serde::Serialize;

/// A part of a recording.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// Its region, or its number.
    pub(crate) region: String,
    /// The first slot, and the one after the last.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Where an aircraft was: rows of a table of positions.
#[derive(Clone, Debug)]
pub(crate) struct Positions {
    /// When a row begins, its region, and the speed over ground, m/s, where that was told.
    rows: Vec<(f64, String, Option<f64>)>,
}

/// What arrived in a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Arrived {
    pub(crate) bytes: u64,
    /// The seconds in which anything did.
    pub(crate) seconds: f64,
    /// Way over ground in these seconds, metres, where it is known.
    pub(crate) range_m: Option<f64>,
}

impl Positions {
    /// Reads a table with columns `time_s` and `region`, and `ground_speed_mps` if there is one.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub(crate) fn parse(text: &str, file: &str) -> Result<Self, String> {
        let table = Table::from_csv(text, file).map_err(|error| error.to_string())?;
        let numbers = |column| table.numbers(column).map_err(|error| error.to_string());
        let times = numbers("time_s")?;
        let regions = table.texts("region").map_err(|error| error.to_string())?;
        let speeds = match table.has("ground_speed_mps") {
            true => Some(numbers("ground_speed_mps")?),
            false => None,
        };
        let mut rows: Vec<(f64, String, Option<f64>)> = Vec::new();
        for (place, ((line, time), (_, region))) in times.iter().zip(&regions).enumerate() {
            if *time < 0.0 || rows.last().is_some_and(|(before, ..)| time <= before) {
                let what = "must be 0 or later, and later than in the row before";
                return Err(format!("{file}:{line}: time_s: {time} {what}"));
            }
            let speed = speeds.as_ref().map(|speeds| speeds[place].1);
            if speed.is_some_and(|speed| speed < 0.0) {
                return Err(format!("{file}:{line}: ground_speed_mps: is below 0"));
            }
            rows.push((*time, (*region).to_owned(), speed));
        }
        Ok(Self { rows })
    }

    /// Returns the passes: stretches of rows of one region, as far as the recording goes.
    pub(crate) fn passes(&self, matrix: &SlotMatrix) -> Vec<Stretch> {
        let slot_s = matrix.slot().as_secs_f64();
        let slot = |at_s: f64| ((at_s / slot_s).round() as usize).min(matrix.slots());
        let mut passes = Vec::new();
        let mut rows = &self.rows[..];
        while let Some((from_s, region, _)) = rows.first() {
            let own = rows.iter().take_while(|(_, other, _)| other == region).count();
            let to = rows.get(own).map_or(matrix.slots(), |(to_s, ..)| slot(*to_s));
            let from = slot(*from_s);
            if !region.is_empty() && from < to {
                passes.push(Stretch { region: region.clone(), from, to });
            }
            rows = &rows[own..];
        }
        passes
    }

    /// Returns the speed over ground at a time.
    fn speed_at(&self, at_s: f64) -> Option<f64> {
        let rows = self.rows.partition_point(|(from_s, ..)| *from_s <= at_s);
        self.rows[..rows].last().and_then(|(.., speed)| *speed)
    }
}

/// Returns the stretches in which packets were heard, with `gap` slots of silence between them at
/// least.
pub(crate) fn stretches(heard: &[u16], gap: usize) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    for (slot, _) in heard.iter().enumerate().filter(|(_, count)| **count > 0) {
        match all.last_mut().filter(|last| slot - last.to < gap) {
            Some(last) => last.to = slot + 1,
            None => {
                let region = (all.len() + 1).to_string();
                all.push(Stretch { region, from: slot, to: slot + 1 });
            }
        }
    }
    all
}

/// Returns what arrived in a pass, of bytes in each slot of the recording.
pub(crate) fn arrived(
    bytes: impl Fn(usize) -> u64,
    pass: &Stretch,
    slot_s: f64,
    positions: Option<&Positions>,
) -> Arrived {
    let mut sum = Arrived { range_m: positions.map(|_| 0.0), ..Arrived::default() };
    let second = |slot: usize| ((slot - pass.from) as f64 * slot_s) as u64;
    let mut from = pass.from;
    while from < pass.to {
        let to = (from..pass.to).find(|slot| second(*slot) > second(from)).unwrap_or(pass.to);
        let count: u64 = (from..to).map(&bytes).sum();
        if count > 0 {
            let seconds = (to - from) as f64 * slot_s;
            sum.bytes += count;
            sum.seconds += seconds;
            let speed = positions.and_then(|known| known.speed_at(from as f64 * slot_s));
            sum.range_m = sum.range_m.zip(speed).map(|(way, speed)| way + speed * seconds);
        }
        from = to;
    }
    sum
}
