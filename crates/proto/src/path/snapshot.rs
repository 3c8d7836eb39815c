//! What schedulers and the status page may know of a path: a copy that cannot change it.

use units::{Duration, Instant, Rate};

use super::{Drain, Route};
use crate::event::PathState;
use crate::ids::PathId;
use crate::limits;
use crate::recovery::INITIAL_RTT;

/// Shows a path at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathSnapshot {
    /// Which path.
    pub(crate) id: PathId,
    /// Where its datagrams leave and go.
    pub(crate) route: Route,
    /// What it is good for.
    pub(crate) state: PathState,
    /// True when a packet is overdue and nothing sent later was acknowledged: it may be silent.
    pub(crate) doubtful: bool,
    /// Smoothed round-trip time.
    pub(crate) srtt: Option<Duration>,
    /// Its variation.
    pub(crate) rttvar: Option<Duration>,
    /// Least round-trip time of the last ten seconds.
    pub(crate) min_rtt: Option<Duration>,
    /// Age at which an unanswered packet is overdue: srtt + 4·rttvar.
    pub(crate) probe_timeout: Duration,
    /// Share of our packets that are lost, 0 to 1.
    pub(crate) loss: f64,
    /// Standard deviation of that estimate.
    pub(crate) loss_deviation: f64,
    /// Share of the peer's packets that are lost, 0 to 1.
    pub(crate) loss_in: f64,
    /// Mean number of packets lost in a row.
    pub(crate) burst: f64,
    /// Congestion window, bytes.
    pub(crate) cwnd: u64,
    /// Bytes in flight.
    pub(crate) in_flight: u64,
    /// Rate at which the congestion controller lets bulk leave: cwnd / srtt.
    pub(crate) send_rate: Rate,
    /// Rate at which the peer receives, as last measured.
    pub(crate) delivery_rate: Rate,
    /// Rate of its narrowest hop; none where nothing has filled it lately.
    pub(crate) capacity: Option<Rate>,
    /// Age at which a copy of control that is under way may be repeated on this path.
    pub(crate) repeat_after: Duration,
    /// How what is under way drains, as far as is known.
    pub(crate) drain: Drain,
    /// Bytes of bulk that may leave now.
    pub(crate) budget: usize,
    /// The largest datagram.
    pub(crate) mtu: usize,
    /// What was sent and received.
    pub(crate) counters: Counters,
    /// When the last datagram came in.
    pub(crate) last_received_at: Option<Instant>,
}

/// What a path is good for, from much to little.
impl PathSnapshot {
    /// Tells whether what is sent now may be expected to arrive: it works, and no answer is overdue.
    /// *Usable* always means this.
    pub(crate) fn is_usable(&self) -> bool {
        self.state == PathState::Active && !self.doubtful
    }

    /// Tells whether it is worth a symbol that other paths carry or repair: it works, or fell silent
    /// so short a time ago that it may be a burst. A symbol in vain costs its bytes and nothing else,
    /// and a burst is what repair symbols are for.
    pub(crate) fn is_worth_symbols(&self, now: Instant) -> bool {
        let heard = self.last_received_at.is_some_and(|at| now.since(at) < limits::LONGEST_BURST);
        self.state == PathState::Active || (self.state == PathState::Suspected && heard)
    }

    /// Tells whether it has proved its address: a copy of control goes by every such path, however
    /// long it has been silent, because one may get through.
    pub(crate) fn takes_control(&self) -> bool {
        matches!(self.state, PathState::Active | PathState::Suspected)
    }
}

impl PathSnapshot {
    /// Tells whether a packet of bulk may leave now.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.budget >= bytes
    }

    /// Returns how long a packet that leaves now will probably be under way.
    pub(crate) fn expected_delay(&self, now: Instant) -> Duration {
        let delay = self.arrival(now, self.counters.bytes_sent).since(now);
        delay.max(self.least_rtt() / 2 + self.drain.overdue)
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

/// Counts a path's datagrams and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Datagrams sent.
    pub(crate) datagrams_sent: u64,
    /// Bytes of UDP payload sent.
    pub(crate) bytes_sent: u64,
    /// Datagrams received.
    pub(crate) datagrams_received: u64,
    /// Bytes of UDP payload received.
    pub(crate) bytes_received: u64,
    /// Packets acknowledged.
    pub(crate) packets_acked: u64,
    /// Packets declared lost.
    pub(crate) packets_lost: u64,
    /// Packets acknowledged after they had been declared lost.
    pub(crate) packets_late: u64,
    /// ACK frames that made no sense.
    pub(crate) bad_acks: u64,
    /// Times that the path was suspected.
    pub(crate) suspicions: u64,
}
