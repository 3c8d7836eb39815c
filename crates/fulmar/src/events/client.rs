//! The other end of the socket of events: a client that follows a daemon.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use super::{EventReport, socket_beside};
use crate::status::make_harmless;

/// The longest line that can be a daemon's.
const LONGEST: u64 = 64 << 10;

/// Follows the events of the daemon at a socket, from the oldest that it has kept.
pub(crate) struct Follower {
    lines: BufReader<UnixStream>,
}

impl Follower {
    /// Connects to the daemon whose status socket is at `status`.
    ///
    /// # Errors
    /// Those of `connect`.
    pub(crate) fn connect(status: &Path) -> io::Result<Self> {
        Ok(Self { lines: BufReader::new(UnixStream::connect(socket_beside(status))?) })
    }

    /// Waits for the next event; none when the daemon has ended, or has hung up on one client too
    /// many.
    ///
    /// # Errors
    /// Those of the socket; `InvalidData` where no daemon speaks.
    pub(crate) fn next(&mut self) -> io::Result<Option<EventReport>> {
        let mut line = Vec::new();
        self.lines.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let mut value: Value = serde_json::from_slice(&line)?;
        // What others have named could move a terminal's cursor.
        make_harmless(&mut value, false);
        Ok(Some(serde_json::from_value(value)?))
    }
}
