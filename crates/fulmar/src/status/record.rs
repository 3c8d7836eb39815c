//! What the report says of the flight record.

use serde::{Deserialize, Serialize};

use super::field::Kind::{Counter, Text};
use super::field::{Field, Section, section};

section! {
    /// The flight record, where `[record]` asks for one.
    RecordReport;

    /// The file that grows; empty while it pauses.
    file: String, Text;
    /// Bytes that were written since the daemon started.
    written_bytes: u64, Counter("bytes");
    /// Notes that were not recorded: the disk was full, or did not keep up.
    dropped: u64, Counter("notes");
    /// Why it pauses; empty while it does not.
    trouble: String, Text;
}

impl RecordReport {
    /// Returns its line in the table.
    pub(super) fn line(&self) -> String {
        let mark = if self.trouble.is_empty() { "" } else { "! " };
        let what = if self.trouble.is_empty() { &self.file } else { &self.trouble };
        let dropped = match self.dropped {
            0 => String::new(),
            count => format!(", {count} notes dropped"),
        };
        let mib = self.written_bytes as f64 / f64::from(1 << 20);
        format!("{mark}record: {what}, {mib:.1} MiB written{dropped}\n")
    }
}
