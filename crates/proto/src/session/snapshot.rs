//! What the status page shows of a session.

use units::Instant;

use super::Session;
use crate::path::{Path, PathSnapshot};
use crate::select::NotForwarded;
use crate::status::{MessageStatus, PathGlance, PathStatus, SessionStatus};

impl Session {
    /// Returns a snapshot for people and scripts.
    pub(crate) fn status(&self, now: Instant) -> SessionStatus {
        let mut status = SessionStatus {
            peer: self.peer,
            connected: self.is_connected(),
            age: now.since(self.started),
            clock_offset_us: self.clock.estimate_us(now),
            paths: self.paths.snapshots(now).iter().map(|path| path_status(now, path)).collect(),
            classes: Vec::new(),
            messages: MessageStatus::default(),
            message_streams: Vec::new(),
            queue_free_percent: 100,
            rejected: self.rejected,
            mavlink: self.selector.counters(),
            not_forwarded: self.not_forwarded().collect(),
        };
        self.deliveries.show(now, &mut status);
        status
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
        acked: counters.packets_acked,
        lost: counters.packets_lost,
        late: counters.packets_late,
        bad_acks: counters.bad_acks,
        suspicions: counters.suspicions,
        silent_for: path.last_received_at.map(|at| now.since(at)),
    }
}
