//! The log that one node of `trace record` writes.
//!
//! ```text
//! time_s,event,node,sender,slot,slot_ms,lat_deg,lon_deg,alt_m
//! 1763500000.123456,received,r1,m1,149754583251,11.776,,,
//! ```
//! Each second what was written goes to the disk: a node that loses its power loses that second.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// The header of a log.
pub(crate) const LOG_HEADER: &str = "time_s,event,node,sender,slot,slot_ms,lat_deg,lon_deg,alt_m";

/// Degrees and metres above the sea.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) latitude: f64,
    pub(super) longitude: f64,
    pub(super) altitude: f64,
}

/// One line: a frame that a node has sent or received.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry<'a> {
    /// Nanoseconds since 1970 on the node's clock.
    pub(super) time_ns: u64,
    pub(super) sent: bool,
    /// Whose log it is.
    pub(super) node: &'a str,
    pub(super) sender: &'a str,
    /// The slot in which it was sent.
    pub(super) slot: u64,
    pub(super) slot_ns: u64,
    /// Where the node was, if it knew.
    pub(super) position: Option<Position>,
}

impl Entry<'_> {
    /// Returns the line, without its end.
    pub(super) fn to_line(&self) -> String {
        let (seconds, micros) =
            (self.time_ns / 1_000_000_000, self.time_ns % 1_000_000_000 / 1_000);
        let event = if self.sent { "sent" } else { "received" };
        let (node, sender, slot) = (self.node, self.sender, self.slot);
        let slot_ms = self.slot_ns as f64 / 1e6;
        let mut line = format!("{seconds}.{micros:06},{event},{node},{sender},{slot},{slot_ms},");
        // Writing to a string cannot fail.
        let _ = match self.position {
            Some(at) => write!(line, "{:.7},{:.7},{:.2}", at.latitude, at.longitude, at.altitude),
            None => write!(line, ",,"),
        };
        line
    }
}

/// The file of a log.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: BufWriter<File>,
    broken: Option<io::Error>,
}

impl LogFile {
    /// Makes the file, which must not be there yet.
    ///
    /// # Errors
    /// Says why it cannot be made, and what to do.
    pub(super) fn create(path: &Path) -> Result<Self, String> {
        let made = OpenOptions::new().write(true).create_new(true).open(path);
        let file = made.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                format!("{}: is there already: move it away, or say another --out", path.display())
            }
            ErrorKind::NotFound => format!("{}: its folder is not there: make it", path.display()),
            _ => format!("write {}: {error}", path.display()),
        })?;
        let mut log = Self { path: path.to_owned(), file: BufWriter::new(file), broken: None };
        log.line(LOG_HEADER);
        log.flush();
        Ok(log)
    }

    pub(super) fn line(&mut self, line: &str) {
        if let Err(error) = writeln!(self.file, "{line}") {
            self.broken.get_or_insert(error);
        }
    }

    /// Hands what was written to the kernel.
    pub(super) fn flush(&mut self) {
        if let Err(error) = self.file.flush() {
            self.broken.get_or_insert(error);
        }
    }

    /// Returns the file itself, to put on the disk what was flushed without keeping writers
    /// waiting; none where the process may open no more files.
    pub(super) fn to_sync(&self) -> Option<File> {
        self.file.get_ref().try_clone().ok()
    }

    /// Returns what went wrong, if anything did.
    ///
    /// # Errors
    /// The first error, with the file.
    pub(super) fn check(&self) -> Result<(), String> {
        match &self.broken {
            Some(error) => Err(format!("write {}: {error}", self.path.display())),
            None => Ok(()),
        }
    }
}
