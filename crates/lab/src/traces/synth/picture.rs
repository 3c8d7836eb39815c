//! The picture of a flight and its table of positions: where the aircraft was, second by second,
//! and what was heard there.

use std::fmt::Write as _;

use super::command::Flown;
use crate::chart::{Map, MapMark, MapStep};

/// The most seconds that a picture has; of longer flights each step is longer.
const STEPS_MAX: usize = 4_000;

/// Draws the course, coloured by the goodput that was achievable in each second.
pub(crate) fn draw(flown: &Flown, heard: &[u16], of: &str) -> String {
    let flight = &flown.flight;
    let bits = flight.air.packet_bytes as f64 * 8.0;
    let slots: Vec<f64> = heard.iter().map(|&count| f64::from(count) * bits).collect();
    let title = format!("Where {} is heard{of}", toml_keys::one_line(&flight.name));
    map(flown, &slots, title, "achievable goodput of each second").to_svg()
}

/// Makes the picture of a course, coloured by the bits of each slot.
pub(crate) fn map(flown: &Flown, bits: &[f64], title: String, what: &str) -> Map {
    let Flown { flight, course, seed } = flown;
    let slot_s = flight.air.slot_s();
    let wind = &flight.course.wind;
    let per_step = ((1.0 / slot_s).ceil() as usize).max(course.len().div_ceil(STEPS_MAX)).max(1);
    let steps = course.chunks(per_step).zip(bits.chunks(per_step)).map(|(fixes, bits)| MapStep {
        points: fixes.iter().step_by(16).map(|fix| (fix.east_m, fix.north_m)).collect(),
        lap: fixes[0].lap,
        value: bits.iter().sum::<f64>() / (bits.len() as f64 * slot_s) / 1e6,
    });
    let mark =
        |(name, east, north): (&str, f64, f64)| MapMark { name: name.to_owned(), east, north };
    let marks = flight.transmitters.iter().map(|one| (one.name.as_str(), one.at[0], one.at[1]));
    Map {
        title,
        subtitle: format!(
            "{what}, seed {seed}; {} laps at {} m/s, wind {} m/s from {}°",
            flight.course.laps, flight.course.airspeed_mps, wind.speed_mps, wind.from_deg
        ),
        unit: "Mbit/s".to_owned(),
        steps: steps.collect(),
        marks: marks.map(mark).collect(),
    }
}

/// Returns the positions as CSV, one row for each second.
pub(crate) fn positions(flown: &Flown, heard: &[u16]) -> String {
    let Flown { flight, course, .. } = flown;
    let slot_s = flight.air.slot_s();
    let mut text =
        "time_s,east_m,north_m,height_m,ground_speed_mps,region,achievable_mbps\n".to_owned();
    let mut from = 0;
    for second in 0.. {
        if from >= course.len() {
            break;
        }
        let to =
            (((f64::from(second) + 1.0) / slot_s).ceil() as usize).clamp(from + 1, course.len());
        let packets: u64 = heard[from..to].iter().map(|&count| u64::from(count)).sum();
        let bits = packets as f64 * flight.air.packet_bytes as f64 * 8.0;
        let mbps = bits / ((to - from) as f64 * slot_s) / 1e6;
        let fix = &course[from];
        let region = flight.course.waypoints[fix.leg].region.as_deref().unwrap_or_default();
        // A region's name may be anything; a field of CSV may not.
        let region: String = region.chars().filter(|c| c.is_alphanumeric()).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:.3},{:.1},{:.1},{:.1},{:.2},{region},{mbps:.3}",
            from as f64 * slot_s,
            fix.east_m,
            fix.north_m,
            fix.height_m,
            fix.speed_mps
        );
        from = to;
    }
    text
}
