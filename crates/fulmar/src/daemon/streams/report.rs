//! What is told of connections.

use proto::{EndpointCounters, Instant, PathRef, PathState, PathStatus, Via};

use super::super::Daemon;
use super::Streams;
use crate::status::{PathReport, StrangersReport};

/// Counts what became of connections, since the daemon began.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct StreamCounts {
    /// Accepted, strangers' included.
    pub(in super::super) accepted: u64,
    /// Of those, the ones at which a session has answered.
    pub(in super::super) known: u64,
    /// Of those, the ones that were closed at once: too many were strangers'.
    pub(in super::super) refused: u64,
    /// Of those, strangers' that were cut off.
    pub(in super::super) cut_off: u64,
    /// Ended by a length that cannot be.
    pub(in super::super) malformed: u64,
    /// Places of those that have ended and are still kept.
    pub(super) ended: Vec<usize>,
}

impl StreamCounts {
    /// Adds them to what is told of strangers' datagrams.
    pub(in super::super) fn told(&self, counters: &EndpointCounters) -> StrangersReport {
        StrangersReport {
            connections: self.accepted,
            connections_of_sessions: self.known,
            connections_refused: self.refused,
            connections_cut_off: self.cut_off,
            connections_malformed: self.malformed,
            ..StrangersReport::from(counters)
        }
    }
}

impl Streams {
    /// Returns what became of connections.
    pub(in super::super) fn counts(&self) -> &StreamCounts {
        &self.counts
    }
}

impl Daemon {
    /// Says how the connection of a path is.
    pub(in super::super) fn report_stream(
        &self,
        now: Instant,
        path: &PathStatus,
        report: &mut PathReport,
    ) {
        let Via::Stream(remote) = path.remote else { return };
        let Some((slot, _)) = self.sockets.place(path.interface) else { return };
        report.connections = self.streams.dials.get(slot).map_or(0, |dial| dial.made);
        let place = self.streams.by_remote.get(&(slot, remote));
        let Some(stream) = place.and_then(|place| self.streams.get(*place)) else { return };
        report.held_bytes = stream.connection.unacknowledged().ok().map(|bytes| bytes as u64);
        report.held_up_ms = Some(stream.stands_for(now).as_secs_f64() * 1e3);
        report.repeated_segments = stream.connection.info().ok().map(|at| at.retransmits.into());
    }

    /// Says why a path over TCP has no connection; nothing where it is to have none, and none where
    /// there is nothing to say.
    pub(in super::super) fn dial_trouble(&self, key: PathRef, path: &PathStatus) -> Option<String> {
        if !self.is_without(path) {
            return None;
        }
        let Some(dial) = self.slot_of(key).and_then(|slot| self.streams.dials.get(slot)) else {
            return Some(String::new());
        };
        if !dial.is_wanted {
            return Some(String::new());
        }
        let remote = path.remote;
        let nothing = format!("no answer from {remote} by TCP: does a firewall block the port?");
        Some(dial.trouble.clone().unwrap_or(nothing))
    }

    /// Tells whether a path is over TCP, and at the station without a connection, which the drone
    /// has ended, or on the drone to be without one: nobody is to be told that it is lost.
    pub(in super::super) fn stands_by(&self, key: PathRef, path: &PathStatus) -> bool {
        let dial = self.slot_of(key).and_then(|slot| self.streams.dials.get(slot));
        self.is_without(path) && dial.is_none_or(|dial| !dial.is_wanted)
    }

    fn is_without(&self, path: &PathStatus) -> bool {
        path.state == PathState::Absent && matches!(path.remote, Via::Stream(_))
    }
}
