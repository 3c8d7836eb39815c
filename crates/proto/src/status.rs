//! Snapshots for people and scripts: what `fulmar status` shows.

use units::{Duration, Rate};

use crate::delivery::message::MessageOrder;
use crate::delivery::tunnel::TunnelForm;
use crate::event::PathState;
use crate::ids::{InterfaceId, PathId, PeerId};
use crate::path::{Carries, PathUse};
use crate::rejection::Rejections;
use crate::select::{Class, NotForwarded, SelectorCounters};
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
    /// MAVLink frames of our applications that were looked at, and those whose ids no definition knows.
    pub mavlink: SelectorCounters,
    /// What of our applications' MAVLink was not forwarded: by which channel (0 is the tunnel), why,
    /// and how much of it.
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
    /// Times that one left again because a path had lost it; in coded generations, combinations beyond the
    /// first ones.
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
    /// What the path can carry: the rate of its narrowest hop, as seen when something last filled it; none
    /// where nothing has lately.
    pub capacity: Option<Rate>,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes sent and not yet acknowledged or lost.
    pub in_flight: u64,
    /// UDP payload that the path is known to carry, bytes.
    pub mtu: usize,
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
/// Each end chooses the order of what it sends, so that a stream whose ends differ has two rows. What
/// became of the messages sent from here is told by the peer's status.
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

/// Gives the mean parts of the delay of delivered messages, T = T_div + T_e2e + T_dec + T_rec; all zero
/// while nothing was delivered. T_enc of [LRT eq. 1], from division to departure, is missing: symbols
/// are made when they leave.
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
