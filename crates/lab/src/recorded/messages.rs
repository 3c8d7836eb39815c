//! `--out` keeps every message of a run: one CSV file per window, case and scheme.

use std::fmt::Write;
use std::path::Path;

use super::{Played, file_name};
use crate::workload::{Direction, Stream};

/// Writes what became of every message into a directory, which is made.
///
/// # Errors
/// Says which path could not be written, and why.
pub(crate) fn write_messages(
    directory: &Path,
    window: &str,
    played: &Played,
) -> Result<(), String> {
    let (case, scheme) = (played.case.name(), played.scheme);
    let path = directory.join(format!("{}-{case}-{scheme}.csv", file_name(window)));
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, csv(played)))
        .map_err(|error| format!("write {}: {error}", path.display()))
}

/// Returns the table: a line per message, empty fields for what was not delivered.
fn csv(played: &Played) -> String {
    let mut text = "stream,direction,sequence,sent_s,delivered_s,delay_ms\n".to_owned();
    for direction in Direction::BOTH {
        for stream in Stream::ALL {
            let ledger = played.run.ledger(direction).stream(stream);
            for (sequence, (sent, delivered)) in
                ledger.sent.iter().zip(&ledger.delivered).enumerate()
            {
                let Some(sent) = sent else { continue };
                let sent_s = sent.as_secs_f64();
                let outcome = delivered.map_or_else(
                    || ",".to_owned(),
                    |at| {
                        let at = at.as_secs_f64();
                        format!("{at:.6},{:.3}", (at - sent_s) * 1e3)
                    },
                );
                let (stream, direction) = (stream.name(), direction.name());
                // Writing into a String cannot fail.
                let _ = writeln!(text, "{stream},{direction},{sequence},{sent_s:.6},{outcome}");
            }
        }
    }
    text
}
