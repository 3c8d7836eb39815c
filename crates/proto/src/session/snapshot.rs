//! What the status report says of a session.

use units::Instant;

use super::Session;
use crate::path::Path;
use crate::select::NotForwarded;
use crate::status::{MessageStatus, PathGlance, PathStatus, SessionStatus, TunnelStatus};

impl Session {
    /// Returns a snapshot for people and scripts.
    pub(crate) fn status(&self, now: Instant) -> SessionStatus {
        let mut status = SessionStatus {
            peer: self.peer,
            connected: self.is_connected(),
            age: now.since(self.started),
            clock_offset_us: self.clock.estimate_us(now),
            paths: self.paths.iter().map(|path| path.status(now)).collect(),
            classes: Vec::new(),
            reliability: Vec::new(),
            messages: MessageStatus::default(),
            message_streams: Vec::new(),
            tunnel: TunnelStatus::default(),
            queue_free_percent: 100,
            rejected: self.rejected,
            mavlink: self.selector.counters(),
            not_forwarded: self.not_forwarded().collect(),
        };
        self.deliveries.show(now, &mut status);
        status
    }

    /// Shows each path.
    pub(crate) fn path_statuses(&self, now: Instant) -> impl Iterator<Item = PathStatus> + '_ {
        self.paths.iter().map(move |path| path.status(now))
    }

    /// Shows the least of each path.
    pub(crate) fn glances(&self) -> impl Iterator<Item = PathGlance> + '_ {
        self.paths.iter().map(Path::glance)
    }

    /// Lists what of MAVLink was not forwarded: by which channel, why, and how much of it.
    pub(crate) fn not_forwarded(&self) -> impl Iterator<Item = (u8, NotForwarded, u64)> + '_ {
        self.selector.not_forwarded()
    }
}
