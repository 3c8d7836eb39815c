//! What one direction of one link is like: plain data, written by hand or read from a scenario.
//!
//! Nothing here has state or behaviour; [`Link`](crate::Link) gives it both.

use crate::trace::{DeliveryTrace, OPPORTUNITY_BYTES, Series, SlotMatrix, SlotTrace};
use core::ops::Range;
use std::sync::Arc;
use units::{Duration, Instant, Rate};

/// Describes one direction of one link. The default is a perfect link: no delay, no limit of rate,
/// no loss.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkModel {
    /// How long a packet travels after its last bit has left the transmitter.
    pub delay: Delay,
    /// What is added to the delay at random.
    pub jitter: Jitter,
    /// True when no packet may arrive before one that was transmitted before it, whatever delay
    /// and jitter say: it then arrives together with that one.
    pub keep_order: bool,
    /// How fast the transmitter is.
    pub rate: LinkRate,
    /// How often a transmitter with a [slot clock](LinkRate::Slots) repeats a packet that the
    /// recording's slots lose: it is held for up to so many slots more than one, until one lets it
    /// through.
    pub retries: u64,
    /// How long one slot of its back-off is before a repeat, as 802.11's DCF has it; zero: it
    /// repeats at once.
    pub backoff: Duration,
    /// How much may wait for the transmitter.
    pub queue: QueueLimit,
    /// Which packets are lost after they were transmitted.
    pub loss: LossModel,
    /// When the link does not work.
    pub outages: Vec<Outage>,
    /// Which packets arrive twice.
    pub duplication: Duplication,
    /// Which packets are overtaken by later ones.
    pub reordering: Reordering,
    /// The probability that one bit of a copy arrives inverted.
    pub corruption: f64,
    /// The groups of the scenario whose losses and outages the link shares.
    pub groups: Vec<String>,
    /// The medium of the scenario on which the transmitter takes turns with others.
    pub medium: Option<String>,
    /// What a filter in front of the link does not let through.
    pub blocks: Vec<Protocol>,
    /// From when to when it does that, counted from the scenario's time zero; always where that
    /// is not said.
    pub blocks_during: Option<Range<Duration>>,
}

impl LinkModel {
    /// Returns the delay, without jitter, of what leaves the transmitter at `at`.
    pub fn delay_at(&self, at: Instant) -> Duration {
        match &self.delay {
            Delay::Fixed(delay) => *delay,
            Delay::File { series, .. } | Delay::Csv { series, .. } => series.at(at),
        }
    }

    /// Returns true when the transmitter can share a medium with others.
    pub(crate) fn takes_turns(&self) -> bool {
        matches!(self.rate, LinkRate::Constant(_) | LinkRate::Slots(_))
    }

    /// Returns true when the transmitter works slot by slot.
    pub(crate) fn has_slot_clock(&self) -> bool {
        matches!(self.rate, LinkRate::Slots(_))
    }

    /// Returns the mean rate of the transmitter; `None` when it has no limit.
    pub fn mean_rate(&self) -> Option<Rate> {
        match &self.rate {
            LinkRate::Unlimited => None,
            LinkRate::Constant(rate) => Some(*rate),
            LinkRate::Csv { series, .. } => Some(series.mean_rate()),
            LinkRate::Deliveries { trace, .. } => Some(trace.mean_rate()),
            LinkRate::Slots(clock) => Some(Rate::from_bytes_in(OPPORTUNITY_BYTES, clock.slot)),
        }
    }
}

impl Default for LinkModel {
    fn default() -> Self {
        Self {
            delay: Delay::Fixed(Duration::ZERO),
            jitter: Jitter::default(),
            keep_order: true,
            rate: LinkRate::Unlimited,
            retries: 0,
            backoff: Duration::ZERO,
            queue: QueueLimit::default(),
            loss: LossModel::default(),
            outages: Vec::new(),
            duplication: Duplication::default(),
            reordering: Reordering::default(),
            corruption: 0.0,
            groups: Vec::new(),
            medium: None,
            blocks: Vec::new(),
            blocks_during: None,
        }
    }
}

/// A protocol above IP that a filter may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl Protocol {
    /// All of them, with their words in scenarios.
    pub const ALL: [(&'static str, Self); 2] = [("udp", Self::Udp), ("tcp", Self::Tcp)];

    /// Returns its word in scenarios.
    pub fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// Says how long a packet travels.
#[derive(Clone, Debug, PartialEq)]
pub enum Delay {
    /// Always the same time.
    Fixed(Duration),
    /// As in a delay file: one delay per interval, over and over.
    File {
        /// Where the file is.
        path: String,
        /// How long each line of it holds.
        interval: Duration,
        /// What it says.
        series: Arc<Series<Duration>>,
    },
    /// As in a CSV table of times and delays, over and over.
    Csv {
        /// Where the file is.
        path: String,
        /// What it says.
        series: Arc<Series<Duration>>,
    },
}

/// Says what is added to the delay of each packet at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    /// Which distribution it has.
    pub shape: JitterShape,
    /// How large it is; see [`JitterShape`]. Zero is no jitter.
    pub size: Duration,
}

/// Names the distribution of jitter. A delay never becomes negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JitterShape {
    /// Evenly between minus `size` and plus `size`.
    #[default]
    Uniform,
    /// Normally distributed with the standard deviation `size` and mean zero.
    Normal,
    /// Exponentially distributed with the mean `size`: never less than the delay itself.
    Exponential,
}

/// Says how fast a transmitter is.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkRate {
    /// Transmission takes no time.
    Unlimited,
    /// Always the same rate.
    Constant(Rate),
    /// As in a delivery trace in mahimahi's format, over and over.
    Deliveries {
        /// Where the file is.
        path: String,
        /// What it says.
        trace: Arc<DeliveryTrace>,
    },
    /// As in a CSV table of times and rates, over and over.
    Csv {
        /// Where the file is; empty where the rates stand in the scenario itself.
        path: String,
        /// What it says.
        series: Arc<Series<Rate>>,
    },
    /// One large packet in each slot, from its beginning to its end.
    Slots(SlotClock),
}

/// Packets of at most this many bytes take no slot where nothing else is said: acknowledgements and
/// control, the bound that relays have too [FlowCode §IV].
pub const SMALL_BYTES: u64 = 200;

/// The clock of a transmitter that works slot by slot. Slots begin at the scenario's time zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotClock {
    /// How long a slot lasts; more than zero.
    pub slot: Duration,
    /// Packets of at most this many bytes take no slot: they leave at once, past what waits.
    pub small_bytes: u64,
}

/// Limits what may wait for the transmitter; the packet being transmitted does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// The most packets that wait; `None` is no limit.
    pub packets: Option<u64>,
    /// The most bytes that wait; `None` is no limit.
    pub bytes: Option<u64>,
}

impl QueueLimit {
    /// No limit at all.
    pub const UNLIMITED: Self = Self { packets: None, bytes: None };
}

impl Default for QueueLimit {
    /// 1,000 packets, the length of a Linux interface's queue.
    fn default() -> Self {
        Self { packets: Some(1_000), bytes: None }
    }
}

/// Says which packets are lost; a packet is lost when any of the parts loses it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossModel {
    /// The probability that a packet is lost, whatever happened to the others.
    pub independent: f64,
    /// Losses in bursts.
    pub burst: Option<GilbertElliott>,
    /// Losses as in a recorded string of slots.
    pub slots: Option<SlotLoss>,
    /// The probability of loss over time as in a CSV table.
    pub csv: Option<CsvLoss>,
}

/// A channel that changes between a good and a bad state, after Gilbert and Elliott.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// What makes the state change.
    pub change: StateChange,
    /// The probability that a packet is lost in the good state.
    pub loss_good: f64,
    /// The probability that a packet is lost in the bad state.
    pub loss_bad: f64,
}

/// Says what makes a [`GilbertElliott`] channel change its state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StateChange {
    /// Each packet, as in the papers: bursts are counted in packets, whatever the rate.
    PerPacket {
        /// The probability that the state goes from good to bad before a packet.
        to_bad: f64,
        /// The probability that the state goes from bad to good before a packet.
        to_good: f64,
    },
    /// Time: how long a burst lasts does not depend on what is sent. Both states last for
    /// exponentially distributed times, never less than 10 µs.
    OverTime {
        /// The mean length of the good state.
        good: Duration,
        /// The mean length of the bad state.
        bad: Duration,
    },
}

impl GilbertElliott {
    /// Returns the share of packets (or of the time) in the bad state in the long run.
    pub fn bad_share(&self) -> f64 {
        let (to_bad, to_good) = match self.change {
            StateChange::PerPacket { to_bad, to_good } => (to_bad, to_good),
            StateChange::OverTime { good, bad } => (bad.as_secs_f64(), good.as_secs_f64()),
        };
        if to_bad + to_good > 0.0 { to_bad / (to_bad + to_good) } else { 0.0 }
    }

    /// Returns the share of packets that is lost in the long run.
    pub fn mean_loss(&self) -> f64 {
        let bad = self.bad_share();
        bad * self.loss_bad + (1.0 - bad) * self.loss_good
    }
}

/// Losses as in a recorded string of slots.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotLoss {
    /// Where the file is.
    pub path: String,
    /// The matrix that the file holds, if it is one.
    pub matrix: Option<MatrixRow>,
    /// What it says of this link.
    pub trace: Arc<SlotTrace>,
    /// How long a slot lasts: the packet time of the recording.
    pub slot: Duration,
    /// Packets of at most this many bytes are not lost slot by slot: they pass wherever the link is
    /// connected at all [FlowCode §IV]. Zero means that there are none. Links with a
    /// [slot clock](LinkRate::Slots) are connected where any of them is.
    pub small_bytes: u64,
    /// How far from a received slot the link counts as connected.
    pub region: Duration,
}

impl SlotLoss {
    /// Takes what a matrix says of a pair; of none, that no large packet gets through.
    pub fn of_matrix(path: &str, matrix: &Arc<SlotMatrix>, pair: Option<(&str, &str)>) -> Self {
        let row = pair.and_then(|(from, to)| matrix.row(from, to).map(Arc::clone));
        let pair = pair.map(|(from, to)| (from.to_owned(), to.to_owned()));
        Self {
            path: path.to_owned(),
            matrix: Some(MatrixRow { matrix: Arc::clone(matrix), pair }),
            trace: row.unwrap_or_else(|| Arc::new(SlotTrace::new(vec![false]))),
            slot: matrix.slot(),
            small_bytes: SMALL_BYTES,
            region: Duration::ZERO,
        }
    }
}

/// The row of a matrix that a link has.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixRow {
    /// The whole matrix: small packets pass where any of its pairs is connected.
    pub matrix: Arc<SlotMatrix>,
    /// Transmitter and receiver; `None` for a way on which nothing was recorded.
    pub pair: Option<(String, String)>,
}

/// The probability of loss over time.
#[derive(Clone, Debug, PartialEq)]
pub struct CsvLoss {
    /// Where the file is.
    pub path: String,
    /// What it says.
    pub series: Arc<Series<f64>>,
}

/// A time in which the link does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it begins.
    pub start: Instant,
    /// How long it lasts; it ends just before `start + duration`.
    pub duration: Duration,
    /// What becomes of the packets.
    pub mode: OutageMode,
}

/// Says what becomes of packets during an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageMode {
    /// The transmitter works and nothing arrives: what leaves it during the outage is lost.
    Drop,
    /// The transmitter stands still: packets wait, and leave in order at link rate afterwards.
    Hold {
        /// Replaces the limit of the queue for packets that come in during the outage.
        queue: Option<QueueLimit>,
    },
}

/// Says which packets arrive twice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Duplication {
    /// The probability that a packet arrives twice.
    pub probability: f64,
    /// How much later the second copy arrives.
    pub lag: Duration,
}

/// Says which packets are overtaken by later ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reordering {
    /// The probability that a packet is held back.
    pub probability: f64,
    /// For how long: packets transmitted within this time after it arrive before it.
    pub lag: Duration,
}
