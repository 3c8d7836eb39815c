//! What schedulers, forms of messages and the status report may know of a path: copies that cannot
//! change it. Who asks for one thing about each datagram asks the path.

use units::{Duration, Instant, Rate};

use super::{Carries, Drain, KNOWN_FOR, Path};
use crate::event::PathState;
use crate::ids::PathId;
use crate::limits;
use crate::recovery::INITIAL_RTT;
use crate::status::{PathGlance, PathStatus};
use crate::wire::DATA_OVERHEAD;

/// Shows a path at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PathSnapshot {
    /// Which path.
    pub(crate) id: PathId,
    /// What it is good for.
    pub(crate) state: PathState,
    /// True when a packet is overdue and nothing sent later was acknowledged: it may be silent.
    pub(crate) doubtful: bool,
    /// Bytes of frames in the longest datagram that it carries, be it in pieces.
    pub(crate) carries: usize,
    /// Smoothed round-trip time.
    pub(crate) srtt: Option<Duration>,
    /// Its variation.
    pub(crate) rttvar: Option<Duration>,
    /// Least round-trip time of the last ten seconds.
    pub(crate) min_rtt: Option<Duration>,
    /// Share of our packets that are lost, 0 to 1.
    pub(crate) loss: f64,
    /// Standard deviation of that estimate.
    pub(crate) loss_deviation: f64,
    /// Mean number of packets lost in a row.
    pub(crate) burst: f64,
    /// Congestion window, bytes.
    pub(crate) cwnd: u64,
    /// Bytes in flight.
    pub(crate) in_flight: u64,
    /// Rate at which the congestion controller lets bulk leave: cwnd / srtt.
    pub(crate) send_rate: Rate,
    /// How what is under way drains, as far as is known.
    pub(crate) drain: Drain,
    /// Bytes of bulk that may leave now.
    pub(crate) budget: usize,
    /// Bytes of UDP payload sent so far.
    pub(crate) bytes_sent: u64,
    /// When the last datagram came in.
    pub(crate) last_received_at: Option<Instant>,
    /// What goes there now.
    pub(crate) serves: Carries,
}

impl PathSnapshot {
    /// Tells whether to send symbols here that other paths carry or repair: on a path that works,
    /// and on one that fell silent so recently that it may only be a burst. A symbol that is lost
    /// costs nothing but its bytes, and bursts are what repair symbols are for.
    pub(crate) fn is_worth_symbols(&self, now: Instant) -> bool {
        let heard = self.last_received_at.is_some_and(|at| now.since(at) < limits::LONGEST_BURST);
        self.state == PathState::Active || (self.state == PathState::Suspected && heard)
    }

    /// Tells whether a packet of bulk may leave now.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.budget >= bytes
    }

    /// Returns how long a packet that leaves now will probably be under way.
    pub(crate) fn expected_delay(&self, now: Instant) -> Duration {
        let delay = self.arrival(now, self.bytes_sent).since(now);
        delay.max(self.silence())
    }

    /// Returns how long a packet is under way at least, if what is unanswered waits and is not
    /// lost.
    pub(crate) fn silence(&self) -> Duration {
        self.least_rtt() / 2 + self.drain.overdue
    }

    /// Returns the likely arrival of a packet sent at `sent_at`, behind `position` bytes of the
    /// path.
    pub(crate) fn arrival(&self, sent_at: Instant, position: u64) -> Instant {
        self.drain.arrival(self.least_rtt() / 2, sent_at, position)
    }

    /// Returns the least round-trip time or, before any sample, the initial guess.
    pub(crate) fn least_rtt(&self) -> Duration {
        self.min_rtt.unwrap_or_else(|| self.srtt_or_initial())
    }

    /// Returns the smoothed round-trip time or, before any sample, the initial guess.
    pub(crate) fn srtt_or_initial(&self) -> Duration {
        self.srtt.unwrap_or(INITIAL_RTT)
    }
}

impl Path {
    /// Shows the path to schedulers and to forms of messages; `budget` is [`Path::bulk_budget`].
    pub(crate) fn snapshot(&self, now: Instant, budget: usize) -> PathSnapshot {
        PathSnapshot {
            id: self.id,
            state: self.health.state,
            doubtful: self.health.doubtful,
            carries: self.longest_datagram().saturating_sub(DATA_OVERHEAD),
            srtt: self.link.rtt.srtt(),
            rttvar: self.link.rtt.rttvar(),
            min_rtt: self.link.rtt.min_rtt(),
            loss: self.sent.loss().loss(),
            loss_deviation: self.sent.loss().deviation(),
            burst: self.sent.loss().burst(),
            cwnd: self.bulk.congestion.cwnd(),
            in_flight: self.sent.in_flight(),
            send_rate: self.send_rate(),
            drain: self.drain(now),
            budget,
            bytes_sent: self.counters.bytes_sent,
            last_received_at: self.incoming.last_at,
            serves: self.service.serves,
        }
    }

    /// Shows the least of the path.
    pub(crate) fn glance(&self) -> PathGlance {
        PathGlance {
            id: self.id,
            remote: self.address.route().remote,
            state: self.health.state,
            rests: self.rests(),
            sent_bytes: self.counters.bytes_sent,
            received_bytes: self.counters.bytes_received,
        }
    }

    /// Shows the path to people and scripts.
    pub(crate) fn status(&self, now: Instant) -> PathStatus {
        let (route, counters, lost) = (self.route(), &self.counters, self.sent.loss());
        PathStatus {
            id: self.id,
            interface: route.interface,
            remote: route.remote,
            state: self.health.state,
            usage: self.usage(),
            serves: self.serving(),
            call: self.call(),
            srtt: self.link.rtt.srtt(),
            rttvar: self.link.rtt.rttvar(),
            min_rtt: self.link.rtt.min_rtt(),
            loss: lost.loss_at(now),
            loss_in: self.incoming.acks.loss().loss_at(now),
            burst: lost.burst(),
            delivery_rate: self.link.delivery_rate,
            capacity: self.link.hop.rate_within(now, KNOWN_FOR).and(self.link.hop.calm_rate()),
            cwnd: self.bulk.congestion.cwnd(),
            in_flight: self.sent.in_flight(),
            believed_queue: self.believed_queue(now),
            mtu: self.max_datagram(),
            cut: counters.datagrams_cut,
            marks_dropped: self.marks.are_dropped(),
            sent: (counters.datagrams_sent, counters.bytes_sent),
            received: (counters.datagrams_received, counters.bytes_received),
            acked: counters.packets_acked,
            lost: counters.packets_lost,
            late: counters.packets_late,
            bad_acks: counters.bad_acks,
            suspicions: counters.suspicions,
            silent_for: self.incoming.last_at.map(|at| now.since(at)),
            suspected_for: self.health.suspicion.as_ref().map(|suspicion| suspicion.lasts(now)),
        }
    }
}

/// Counts a path's datagrams and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Datagrams sent.
    pub(crate) datagrams_sent: u64,
    /// Bytes of UDP payload sent.
    pub(crate) bytes_sent: u64,
    /// Datagrams that went in pieces; each piece counts as sent.
    pub(crate) datagrams_cut: u64,
    /// Datagrams received.
    pub(crate) datagrams_received: u64,
    /// Bytes of UDP payload received.
    pub(crate) bytes_received: u64,
    /// Packets acknowledged.
    pub(crate) packets_acked: u64,
    /// Packets declared lost, of those whose loss says something of the path.
    pub(crate) packets_lost: u64,
    /// Packets acknowledged after they had been declared lost.
    pub(crate) packets_late: u64,
    /// ACK frames that made no sense.
    pub(crate) bad_acks: u64,
    /// Times that the path was suspected.
    pub(crate) suspicions: u64,
}
