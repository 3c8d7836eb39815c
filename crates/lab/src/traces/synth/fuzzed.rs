//! The door for the fuzz target of flight files; not part of the program otherwise.

use netem::SlotMatrix;

use super::channel::{Way, render};
use super::command::{Flown, Summary};
use super::passes::heard;
use super::picture;

/// Pairs times slots that a flight may have: some thousand flights in a second.
const WORK: usize = 20_000;

/// Flies a text as if it were a file, and makes all that can be made of the flight.
///
/// # Errors
/// Every mistake of the file.
///
/// # Panics
/// When the flight is none: a place that is nowhere, a matrix that cannot be read again.
pub(crate) fn try_flight(text: &str) -> Result<(), String> {
    let flown = Flown::of_text(text, "fuzz.toml", 1, WORK)?;
    for fix in &flown.course {
        let numbers = [fix.east_m, fix.north_m, fix.height_m, fix.heading, fix.speed_mps];
        assert!(numbers.iter().all(|number| number.is_finite()) && fix.speed_mps > 0.0, "{fix:?}");
    }
    let matrix = render(&flown.flight, &flown.course, Way::Up, None, 1);
    assert_eq!(matrix.slots(), flown.course.len());
    assert_eq!(SlotMatrix::parse(&matrix.to_text(), "again").as_ref(), Ok(&matrix));
    let counts = heard(&matrix);
    let summary = Summary::of(&flown, &matrix);
    for pass in summary.all.passes.iter().chain(&summary.best.passes) {
        let numbers = [pass.from_s, pass.to_s, pass.achievable_mbps, pass.range_m];
        assert!(numbers.iter().all(|number| number.is_finite() && *number >= 0.0), "{pass:?}");
    }
    summary.table();
    let picture = picture::draw(&flown, &counts, "");
    assert!(!picture.contains("NaN") && !picture.contains("inf"));
    picture::positions(&flown, &counts);
    Ok(())
}
