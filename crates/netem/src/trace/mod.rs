//! Recorded behaviour of links, read from text that the caller brings.
//!
//! Nothing here opens a file: a reader takes the text and the name that errors are to show. All
//! traces loop: after the last entry comes the first.

mod delivery;
mod matrix;
mod series;
mod slots;
mod table;

pub use delivery::{DeliveryTrace, OPPORTUNITY_BYTES};
pub use matrix::{MATRIX_PAIRS_MAX, MATRIX_SLOTS_MAX, SlotMatrix, SlotRow};
pub use series::Series;
pub use slots::SlotTrace;
pub use table::Table;

use core::fmt;

/// Says what is wrong with a trace file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The file's name as the caller gave it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl TraceError {
    fn new(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

impl std::error::Error for TraceError {}

/// Yields the lines that are neither empty nor a `#` comment, with their numbers.
fn telling_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}
