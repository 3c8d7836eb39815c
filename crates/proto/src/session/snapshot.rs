//! What the status page shows of a session.

use units::Instant;

use super::Session;
use crate::path::PathSnapshot;
use crate::select::{Class, NotForwarded};
use crate::status::{ClassStatus, PathStatus, SessionStatus};

impl Session {
    /// Returns a snapshot for people and scripts.
    pub(crate) fn status(&self, now: Instant) -> SessionStatus {
        SessionStatus {
            peer: self.peer,
            connected: self.is_connected(),
            age: now.since(self.started),
            clock_offset_us: self.clock.estimate_us(now),
            paths: self.snapshots(now).iter().map(|path| path_status(now, path)).collect(),
            classes: self.classes(),
            messages: self.messages.status(),
            message_streams: self.messages.stream_status(),
            queue_free_percent: self.bulk.free_percent(now).min(self.telemetry.free_percent(now)),
            rejected_datagrams: self.rejected,
            not_forwarded: self.not_forwarded().collect(),
        }
    }

    /// Lists what of MAVLink was not forwarded: by which channel, why, and how much of it.
    pub(crate) fn not_forwarded(&self) -> impl Iterator<Item = (u8, NotForwarded, u64)> + '_ {
        self.selector.not_forwarded()
    }

    fn classes(&self) -> Vec<ClassStatus> {
        let mut rows = self.accounts.status(&self.outbox, &self.inbox);
        for row in &mut rows {
            match row.class {
                Class::Telemetry => row.dropped += self.telemetry.dropped(),
                Class::Bulk => {
                    row.dropped += self.bulk.dropped();
                    row.duplicates += self.resequencer.duplicates();
                }
                _ => {}
            }
        }
        rows
    }
}

fn path_status(now: Instant, path: &PathSnapshot) -> PathStatus {
    let counters = &path.counters;
    PathStatus {
        id: path.id,
        interface: path.route.interface,
        remote: path.route.remote,
        state: path.state,
        srtt: path.srtt,
        rttvar: path.rttvar,
        min_rtt: path.min_rtt,
        loss: path.loss,
        loss_in: path.loss_in,
        burst: path.burst,
        delivery_rate: path.delivery_rate,
        capacity: path.capacity,
        cwnd: path.cwnd,
        in_flight: path.in_flight,
        mtu: path.mtu,
        sent: (counters.datagrams_sent, counters.bytes_sent),
        received: (counters.datagrams_received, counters.bytes_received),
        suspicions: counters.suspicions,
        silent_for: path.last_received_at.map(|at| now.since(at)),
    }
}
