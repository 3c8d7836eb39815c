//! A slot matrix: which slots of one recording let a packet through, for each pair of transmitter
//! and receiver [FlowCode §IV].
//!
//! ```text
//! # a flight past four masts
//! slot_ms 11.776
//! m1 r1 0111010
//! m1 r2 0011010
//! ```
//!
//! The first line that tells something says how long a slot lasts; each further one has a
//! transmitter, a receiver and a digit for each slot: 1 received, 0 lost. White space among the
//! digits, empty lines and `#` comments mean nothing. All rows have one length. A pair without a
//! row has heard nothing.

use super::{SlotTrace, TraceError, telling_lines};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use units::Duration;

/// The most pairs of a matrix: more than a radio's hosts make (64 · 63).
pub const MATRIX_PAIRS_MAX: usize = 4_096;

/// The most slots of a row: 32 h of slots of 11.776 ms.
pub const MATRIX_SLOTS_MAX: usize = 10_000_000;

/// The longest slot, in ms: beyond a minute it is no packet's time.
const SLOT_MS_MAX: f64 = 60_000.0;

/// The longest name of a transmitter or receiver, as of a host.
const NAME_MAX: usize = 15;

/// Which slots let a packet through, for each pair of transmitter and receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMatrix {
    slot: Duration,
    rows: Vec<SlotRow>,
}

/// What one receiver has heard of one transmitter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRow {
    /// The transmitter.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// What was received, slot by slot.
    pub trace: Arc<SlotTrace>,
}

impl SlotMatrix {
    /// Reads a matrix; `file` is its name for error messages.
    ///
    /// # Errors
    /// No slot length or no row; rows of unequal length; a pair twice, or of one name; a digit that
    /// is neither 0 nor 1; more than [`MATRIX_PAIRS_MAX`] pairs or [`MATRIX_SLOTS_MAX`] slots.
    pub fn parse(text: &str, file: &str) -> Result<Self, TraceError> {
        let mut lines = telling_lines(text);
        let wrong = |line, what: String| TraceError::new(file, line, what);
        let (first, head) = lines.next().unwrap_or((1, ""));
        let slot = head_slot(head).map_err(|what| wrong(first, what))?;
        let mut rows = Rows::default();
        for (line, text) in lines {
            let row = row(text).map_err(|what| wrong(line, what))?;
            rows.add(row, Some(line)).map_err(|what| wrong(line, what))?;
        }
        if rows.rows.is_empty() {
            let what = "a slot matrix needs a row: transmitter, receiver and their digits";
            return Err(wrong(first, what.to_owned()));
        }
        Ok(Self { slot, rows: rows.rows })
    }

    /// Makes a matrix of rows.
    ///
    /// # Errors
    /// As of [`parse`](Self::parse), and names that are not 1 to 15 letters, digits, `-` and `_`.
    pub fn new(slot: Duration, rows: Vec<SlotRow>) -> Result<Self, String> {
        if slot.is_zero() || slot.as_nanos() as f64 > SLOT_MS_MAX * 1e6 {
            return Err(format!("a slot lasts more than 0 and at most {SLOT_MS_MAX} ms"));
        }
        let mut checked = Rows::default();
        for row in rows {
            [&row.from, &row.to].into_iter().try_for_each(|name| check_name(name))?;
            checked.add(row, None)?;
        }
        if checked.rows.is_empty() {
            return Err("a slot matrix needs a row".to_owned());
        }
        Ok(Self { slot, rows: checked.rows })
    }

    /// Returns the matrix as text that reads back as the same matrix.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "slot_ms {}", self.slot.as_nanos() as f64 / 1e6);
        for row in &self.rows {
            let _ = write!(text, "{} {} ", row.from, row.to);
            text.extend(row.trace.slots().iter().map(|&slot| if slot { '1' } else { '0' }));
            text.push('\n');
        }
        text
    }

    /// Returns how long a slot lasts.
    pub fn slot(&self) -> Duration {
        self.slot
    }

    /// Returns the rows, in the order of the file.
    pub fn rows(&self) -> &[SlotRow] {
        &self.rows
    }

    /// Returns how many slots each row has.
    pub fn slots(&self) -> usize {
        self.rows.first().map_or(0, |row| row.trace.slots().len())
    }

    /// Returns what `to` has heard of `from`; `None` when there is no such row.
    pub fn row(&self, from: &str, to: &str) -> Option<&Arc<SlotTrace>> {
        self.rows.iter().find(|row| row.from == from && row.to == to).map(|row| &row.trace)
    }

    /// Returns the transmitters and receivers, each once, in the order of the file.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.rows.iter().flat_map(|row| [&row.from, &row.to]) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }
}

/// Rows that fit together, and where they stand.
#[derive(Default)]
struct Rows {
    rows: Vec<SlotRow>,
    /// The line of each pair, where there are lines.
    places: BTreeMap<(String, String), Option<usize>>,
}

impl Rows {
    fn add(&mut self, row: SlotRow, line: Option<usize>) -> Result<(), String> {
        let SlotRow { from, to, trace } = &row;
        let len = trace.slots().len();
        if let Some(first) = self.rows.first()
            && first.trace.slots().len() != len
        {
            let (other, slots) = (format!("{} {}", first.from, first.to), first.trace.slots());
            return Err(format!("{from} {to} has {len} slots, but {other} has {}", slots.len()));
        }
        if len > MATRIX_SLOTS_MAX {
            return Err(format!("{from} {to} has more than {MATRIX_SLOTS_MAX} slots"));
        }
        if from == to {
            return Err(format!("{from} {to}: nobody hears its own transmission"));
        }
        let place = self.places.entry((from.clone(), to.clone()));
        if let std::collections::btree_map::Entry::Occupied(first) = &place {
            let line = first.get().map_or(String::new(), |line| format!(", first in line {line}"));
            return Err(format!("{from} {to} is there twice{line}"));
        }
        place.or_insert(line);
        if self.rows.len() == MATRIX_PAIRS_MAX {
            return Err(format!("more than {MATRIX_PAIRS_MAX} pairs"));
        }
        self.rows.push(row);
        Ok(())
    }
}

fn head_slot(head: &str) -> Result<Duration, String> {
    let mut words = head.split('#').next().unwrap_or_default().split_whitespace();
    let (Some("slot_ms"), Some(ms), None) = (words.next(), words.next(), words.next()) else {
        return Err("a slot matrix begins with how long a slot lasts, as in slot_ms 11.776".into());
    };
    let number = ms.parse().ok().filter(|ms: &f64| *ms > 0.0 && *ms <= SLOT_MS_MAX);
    let slot = number.map(|ms| Duration::from_nanos((ms * 1e6).round() as u64));
    slot.filter(|slot| !slot.is_zero())
        .ok_or_else(|| format!("slot_ms must be above 0 and at most {SLOT_MS_MAX}, is {ms:?}"))
}

fn row(line: &str) -> Result<SlotRow, String> {
    let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
    let (from, to) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    [from, to].into_iter().try_for_each(check_name)?;
    let mut received = Vec::new();
    for digit in words.flat_map(str::chars) {
        received.push(match digit {
            '0' => false,
            '1' => true,
            other => {
                let number = received.len() + 1;
                return Err(format!("{from} {to}: slot {number} must be 0 or 1, is {other:?}"));
            }
        });
    }
    if received.is_empty() {
        return Err(format!("{from} {to} has no slots: digits 0 and 1 must follow"));
    }
    let trace = Arc::new(SlotTrace::new(received));
    Ok(SlotRow { from: from.to_owned(), to: to.to_owned(), trace })
}

fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(allowed) {
        let what = "a row begins with transmitter and receiver";
        return Err(format!("{what}: {name:?} is not 1 to {NAME_MAX} letters, digits, - or _"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLIGHT: &str = "# a flight\nslot_ms 11.776\n\nm1 r1 0110\nm1 r2 00 11 # a fade\n";

    #[test]
    fn a_matrix_reads_back_as_it_was_written() {
        let matrix = SlotMatrix::parse(FLIGHT, "f").unwrap();
        assert_eq!(matrix.slot(), Duration::from_micros(11_776));
        assert_eq!((matrix.slots(), matrix.names()), (4, vec!["m1", "r1", "r2"]));
        assert_eq!(matrix.row("m1", "r2").unwrap().slots(), [false, false, true, true]);
        assert_eq!(matrix.row("r2", "m1"), None);
        let text = matrix.to_text();
        assert_eq!(text, "slot_ms 11.776\nm1 r1 0110\nm1 r2 0011\n");
        assert_eq!(SlotMatrix::parse(&text, "f").unwrap(), matrix);
        assert_eq!(SlotMatrix::new(matrix.slot(), matrix.rows().to_vec()), Ok(matrix));
    }

    #[test]
    fn slots_are_kept_to_the_nanosecond() {
        for nanos in (1..3_000).chain([1_234_567_891, 59_999_999_999]) {
            let slot = Duration::from_nanos(nanos);
            let trace = Arc::new(SlotTrace::new(vec![true]));
            let row = SlotRow { from: "a".to_owned(), to: "b".to_owned(), trace };
            let matrix = SlotMatrix::new(slot, vec![row]).unwrap();
            assert_eq!(SlotMatrix::parse(&matrix.to_text(), "f").unwrap().slot(), slot);
        }
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let cases = [
            ("", "f:1: a slot matrix begins with how long a slot lasts, as in slot_ms 11.776"),
            ("\nm1 r1 01", "f:2: a slot matrix begins with how long a slot lasts"),
            ("slot_ms 0\n", "f:1: slot_ms must be above 0 and at most 60000, is \"0\""),
            ("slot_ms 1e-9\n", "f:1: slot_ms must be above 0"),
            ("slot_ms nan\n", "f:1: slot_ms must be above 0"),
            ("#\nslot_ms 1\n", "f:2: a slot matrix needs a row"),
            ("slot_ms 1\nm1 r1\n", "f:2: m1 r1 has no slots"),
            ("slot_ms 1\nm1\n", "f:2: a row begins with transmitter and receiver: \"\" is not"),
            ("slot_ms 1\nm1 r/1 0\n", "f:2: a row begins with transmitter and receiver: \"r/1\""),
            ("slot_ms 1\nm1 r1 0120\n", "f:2: m1 r1: slot 3 must be 0 or 1, is '2'"),
            ("slot_ms 1\nm1 r1 01\nm1 r2 011", "f:3: m1 r2 has 3 slots, but m1 r1 has 2"),
            ("slot_ms 1\na b 01\nb a 01\na b 01", "f:4: a b is there twice, first in line 2"),
            ("slot_ms 1\nm1 m1 01\n", "f:2: m1 m1: nobody hears its own transmission"),
        ];
        for (text, expected) in cases {
            let error = SlotMatrix::parse(text, "f").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_a_matrix_holds_is_bounded() {
        let mut text = "slot_ms 1\n".to_owned();
        for pair in 0..=MATRIX_PAIRS_MAX {
            let _ = writeln!(text, "a b{pair} 1");
        }
        let error = SlotMatrix::parse(&text, "f").unwrap_err();
        assert_eq!((error.line, error.what.as_str()), (4_098, "more than 4096 pairs"));
        let long = format!("slot_ms 1\na b {}\n", "0".repeat(MATRIX_SLOTS_MAX + 1));
        let error = SlotMatrix::parse(&long, "f").unwrap_err();
        assert_eq!(error.to_string(), "f:2: a b has more than 10000000 slots");
    }
}
