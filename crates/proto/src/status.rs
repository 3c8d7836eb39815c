//! Snapshots for people and scripts: what `fulmar status` shows.

use units::{Duration, Rate};

use crate::delivery::message::MessageOrder;
use crate::delivery::tunnel::TunnelForm;
use crate::event::{Call, PathState};
use crate::ids::{InterfaceId, PathId, PeerId};
use crate::path::{Carries, PathUse};
use crate::rejection::Rejections;
use crate::select::{Class, NotForwarded, SelectorCounters, Target};
use crate::via::Via;

/// A session at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionStatus {
    /// The peer at its other end.
    pub peer: PeerId,
    /// True once keys are agreed and confirmed.
    pub connected: bool,
    /// Time since the session began.
    pub age: Duration,
    /// Estimated offset of the peer's clock from ours, in microseconds, and its error bound.
    pub clock_offset_us: Option<(i64, u64)>,
    /// Its paths.
    pub paths: Vec<PathStatus>,
    /// Its traffic by class.
    pub classes: Vec<ClassStatus>,
    /// How its targets are kept: of the classes that have one, then of declared endpoints with one
    /// of their own, from the first message on that is under it.
    pub reliability: Vec<ReliabilityStatus>,
    /// Its message delivery.
    pub messages: MessageStatus,
    /// The streams of messages, by channel and number: of each direction the first 1,024.
    pub message_streams: Vec<MessageStreamStatus>,
    /// TCP of its tunnel.
    pub tunnel: TunnelStatus,
    /// Share of the queue that bulk and telemetry wait in which is free, in percent.
    pub queue_free_percent: u8,
    /// What came in and was not taken, and why.
    pub rejected: Rejections,
    /// MAVLink frames of our applications that were looked at, and those whose ids no definition
    /// knows.
    pub mavlink: SelectorCounters,
    /// What of our applications' MAVLink was not forwarded: by which channel (0 is the tunnel),
    /// why, and how much of it.
    pub not_forwarded: Vec<(u8, NotForwarded, u64)>,
}

/// TCP of the tunnel since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelStatus {
    /// How TCP travels that is handed in here.
    pub form: TunnelForm,
    /// Flows of TCP that are known.
    pub flows: u64,
    /// Packets of TCP that left for the first time.
    pub symbols: u64,
    /// Times that one left again because a path had lost it; in coded generations, combinations
    /// beyond the first ones.
    pub again: u64,
    /// Coded generations that they were packed into.
    pub generations: u64,
    /// Combinations of these that left.
    pub combinations: u64,
    /// Coded generations of the peer that were decoded.
    pub decoded: u64,
    /// Copies of SYN, FIN and RST beside the first.
    pub copies: u64,
    /// Repair symbols that left.
    pub repairs: u64,
    /// Packets of the peer that were decoded from repair symbols before they came.
    pub recovered: u64,
    /// Packets that no path could carry any more.
    pub given_up: u64,
    /// Packets that the queue dropped or refused: what TCP takes for congestion.
    pub dropped: u64,
    /// Waits for an earlier packet that ended without it.
    pub expired: u64,
    /// How long packets that came in waited for earlier ones.
    pub wait: DelayPercentiles,
}

/// What of a path is asked for often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathGlance {
    /// Which path.
    pub id: PathId,
    /// Its remote address.
    pub remote: Via,
    /// What it is good for.
    pub state: PathState,
    /// Whether it is a backup in reserve.
    pub rests: bool,
    /// Bytes of the datagrams that were sent on it.
    pub sent_bytes: u64,
    /// Bytes of the datagrams that came by it.
    pub received_bytes: u64,
}

/// A path at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStatus {
    /// Which path.
    pub id: PathId,
    /// The interface that it is bound to.
    pub interface: InterfaceId,
    /// Its remote address.
    pub remote: Via,
    /// What it is good for.
    pub state: PathState,
    /// How the drone's operator wants it to be used.
    pub usage: PathUse,
    /// What goes there now; nothing while it is a backup that nothing calls for.
    pub serves: Option<Carries>,
    /// What a backup is in use for; none while it is in reserve.
    pub call: Option<Call>,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Its variation.
    pub rttvar: Option<Duration>,
    /// The least round-trip time of the last seconds.
    pub min_rtt: Option<Duration>,
    /// Share of our packets that are lost on the way to the peer, 0 to 1.
    pub loss: f64,
    /// Share of the peer's packets that are lost on the way to us, 0 to 1.
    pub loss_in: f64,
    /// Mean number of packets lost in a row.
    pub burst: f64,
    /// Rate at which the peer receives what we send.
    pub delivery_rate: Rate,
    /// What the path can carry: the rate of its narrowest hop, as seen when something last filled
    /// it; none where nothing has lately.
    pub capacity: Option<Rate>,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes sent and not yet acknowledged or lost.
    pub in_flight: u64,
    /// Bytes that are believed to stand before its narrowest hop, where that is known to be thin
    /// [specs/paths.md §6] (rule 9).
    pub believed_queue: Option<u64>,
    /// UDP payload that the path is known to carry, bytes.
    pub mtu: usize,
    /// Whether it drops packets that are marked as control, which go unmarked there.
    pub marks_dropped: bool,
    /// Datagrams that went in pieces, being longer than that.
    pub cut: u64,
    /// Datagrams and UDP payload bytes sent.
    pub sent: (u64, u64),
    /// Datagrams and UDP payload bytes received.
    pub received: (u64, u64),
    /// Packets of ours that the peer has acknowledged.
    pub acked: u64,
    /// Packets of ours that were declared lost.
    pub lost: u64,
    /// Of those, packets that were acknowledged after all.
    pub late: u64,
    /// Acknowledgements that made no sense.
    pub bad_acks: u64,
    /// Times that it was suspected to be silent.
    pub suspicions: u64,
    /// Time since the last datagram came in.
    pub silent_for: Option<Duration>,
    /// Time since the path has been suspected to be silent, while it is.
    pub suspected_for: Option<Duration>,
}

/// The traffic of a class since the session began.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassStatus {
    /// Which class.
    pub class: Class,
    /// Handed in by our applications.
    pub submitted: u64,
    /// Handed in and dropped here: too old, replaced before it could leave, or the queue was full.
    pub dropped: u64,
    /// Sent, and replaced by a newer one before the peer said whether it had arrived.
    pub superseded: u64,
    /// Copies sent, first copies included.
    pub copies_sent: u64,
    /// Of control: acknowledged by the peer, and not said to have been dropped there.
    pub acknowledged: u64,
    /// Of control: under way when the session ended, or dropped there for all that is known.
    pub indeterminate: u64,
    /// Delivered to our applications.
    pub delivered: u64,
    /// Of control: had to wait for an earlier one of its lane.
    pub held: u64,
    /// Copies that came in again and were removed.
    pub duplicates: u64,
    /// Came in beyond its maximum age or after a newer one, and was dropped.
    pub late: u64,
    /// Delay of what was delivered, from submission to delivery.
    pub delay: DelayPercentiles,
}

/// How a target is kept. Shares are of messages or, where the newest one replaces the others, of
/// time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReliabilityStatus {
    /// The class whose messages are under it.
    pub class: Class,
    /// The declared endpoint whose own it is; none where it is the class's.
    pub channel: Option<u8>,
    /// What is asked.
    pub target: Target,
    /// Whether these links give it.
    pub state: ReliabilityState,
    /// Share that was expected to be missed, on average of the last ten minutes; none before there
    /// is evidence.
    pub predicted_miss: Option<f64>,
    /// Share that was missed in the last ten minutes, as far as the peer's acknowledgements tell:
    /// what the error of the clock offset leaves open counts as missed. None before the first was
    /// due.
    pub miss_share: Option<f64>,
    /// What these minutes prove: with 95 % confidence no more than this share is missed; misses of
    /// one outage are one sample.
    pub bound_95: Option<f64>,
    /// Of what was missed, the share that was in time by the estimate of the peer's clock, but not
    /// for certain. None before the first was due.
    pub open_share: Option<f64>,
    /// How far that estimate may be off; none before anything arrived.
    pub clock_error: Option<Duration>,
    /// Messages of these minutes whose fate is known.
    pub messages: u64,
    /// Of those, messages that were missed.
    pub misses: u64,
    /// Outages that they were missed in.
    pub episodes: u64,
    /// Copies that left of each message of these minutes, on average.
    pub copies_per_message: Option<f64>,
    /// Share of the bytes of a copy on every path that did not leave.
    pub saved_share: Option<f64>,
    /// The same in bytes with their headers, since the session began.
    pub saved_bytes: u64,
    /// What keeps these links from more.
    pub limit: ReliabilityLimit,
    /// How many more links that are like the best one, and fail together with the others as the
    /// present ones do, would give the target; none where no number of them would, or too little is
    /// known.
    pub more_links: Option<u32>,
    /// Paths on which the copies of a message leave at once that is handed in now; of four at most.
    pub flight: [Option<PathId>; 4],
}

impl ReliabilityStatus {
    /// Tells whether the uncertainty of the clocks leaves more open than the target allows: then
    /// what was achieved is not known.
    pub fn is_hidden_by_clock(&self) -> bool {
        matches!(self.limit, ReliabilityLimit::Clock { .. })
    }
}

/// Says whether a target is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReliabilityState {
    /// Too little is known so far: every path has a copy.
    Learning,
    /// On average it is.
    Met,
    /// On average these links do not give it, whatever is sent: every path has a copy.
    NotReachable,
}

/// Says what keeps links from more reliability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReliabilityLimit {
    /// Nothing is known to.
    Unknown,
    /// The uncertainty of the clocks leaves more open than the target allows, and what it leaves
    /// open counts as missed.
    Clock {
        /// How far the peer's clock may be off its estimate.
        error: Duration,
    },
    /// One path alone carries control, and of its messages this share is missed.
    Alone {
        /// The path.
        path: PathId,
        /// The share.
        share: f64,
        /// Messages that this was seen of; none where it is assumed.
        samples: u64,
    },
    /// Copies on a path come after the deadline.
    TooSlow {
        /// The path.
        path: PathId,
        /// By so much at least.
        by: Duration,
    },
    /// When a copy on the one path fails, one on the other often does as well.
    Together {
        /// The paths.
        paths: [PathId; 2],
        /// In this share of the cases.
        share: f64,
        /// Cases that this was seen in. While these are fewer than ten, most of the share is
        /// assumed.
        samples: u64,
    },
    /// The deadline leaves no time for a second try.
    NoRetry {
        /// The path on which a second try is there first; where that is the best one, which may
        /// lose it again in the same burst, the best of the others.
        path: PathId,
        /// The delay after which a second try on it is there; where the newest message counts, how
        /// old the one before is then.
        needs: Duration,
    },
}

/// Message delivery since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageStatus {
    /// Messages handed in by our applications.
    pub submitted: u64,
    /// Messages dropped because their deadline passed before a path had room.
    pub expired: u64,
    /// Bytes of messages that wait for a path.
    pub waiting_bytes: usize,
    /// Symbols sent for the first time.
    pub source_symbols: u64,
    /// Combinations of symbols sent.
    pub repair_symbols: u64,
    /// Symbols sent again.
    pub resent_symbols: u64,
    /// Symbols given up because their deadlines had passed.
    pub given_up_symbols: u64,
    /// Symbols that came in as they were sent.
    pub received_symbols: u64,
    /// Symbols that were decoded from combinations.
    pub decoded_symbols: u64,
    /// Symbols and combinations that came in and told nothing new.
    pub redundant_symbols: u64,
    /// Messages delivered to our applications.
    pub delivered: u64,
    /// Messages that came too late or not whole and were dropped.
    pub late: u64,
    /// Pieces that made no sense or were beyond the bounds.
    pub refused: u64,
    /// The delay of what was delivered here, of all streams.
    pub delay: MessageDelay,
}

/// One stream of messages since the session began: what it has sent from here, and what it
/// has delivered here.
///
/// Each end chooses the order of what it sends, so that a stream whose ends differ has two rows.
/// What became of the messages sent from here is told by the peer's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageStreamStatus {
    /// The consumer.
    pub channel: u8,
    /// The stream's number.
    pub stream: u16,
    /// Whether its messages keep their order.
    pub order: MessageOrder,
    /// Messages handed in by our applications.
    pub submitted: u64,
    /// Of those, messages whose last piece has left.
    pub sent: u64,
    /// Of those, messages dropped because their deadline passed before a path had room.
    pub expired: u64,
    /// Bytes of messages that wait for a path.
    pub waiting_bytes: usize,
    /// Messages delivered to our applications.
    pub delivered: u64,
    /// Messages that came too late or not whole and were dropped.
    pub late: u64,
    /// The delay of what was delivered here.
    pub delay: MessageDelay,
}

/// Gives the mean parts of the delay of delivered messages, T = T_div + T_e2e + T_dec + T_rec; all
/// zero while nothing was delivered. T_enc of [LRT eq. 1], from division to departure, is missing:
/// symbols are made when they leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageDelay {
    /// T_div: from handing in to division into symbols, which is the wait for a path.
    pub division: Duration,
    /// T_e2e: the way over the network.
    pub end_to_end: Duration,
    /// T_dec: what decoding took longer than the way.
    pub decoding: Duration,
    /// T_rec: from the last piece to delivery, which is the wait for earlier messages of the
    /// same stream.
    pub reconstruction: Duration,
}

/// Gives percentiles of a delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayPercentiles {
    /// Median.
    pub p50: Duration,
    /// 95th percentile.
    pub p95: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// Maximum.
    pub max: Duration,
}
