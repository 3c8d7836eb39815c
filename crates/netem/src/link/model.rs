//! What one direction of one link is like: plain data, written by hand or read from a scenario.
//!
//! Nothing here has state or behaviour; [`Link`](crate::Link) gives it both.

use units::{Duration, Instant, Rate};

/// Describes one direction of one link. The default is a perfect link: no delay, no limit of rate,
/// no loss.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkModel {
    /// How long a packet travels after its last bit has left the transmitter.
    pub delay: Delay,
    /// How fast the transmitter is.
    pub rate: LinkRate,
    /// How much may wait for the transmitter.
    pub queue: QueueLimit,
    /// Which packets are lost after they were transmitted.
    pub loss: LossModel,
    /// When the link does not work.
    pub outages: Vec<Outage>,
}

impl Default for LinkModel {
    fn default() -> Self {
        Self {
            delay: Delay::Fixed(Duration::ZERO),
            rate: LinkRate::Unlimited,
            queue: QueueLimit::default(),
            loss: LossModel::default(),
            outages: Vec::new(),
        }
    }
}

/// Says how long a packet travels.
#[derive(Clone, Debug, PartialEq)]
pub enum Delay {
    /// Always the same time.
    Fixed(Duration),
}

/// Says how fast a transmitter is.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkRate {
    /// Transmission takes no time.
    Unlimited,
    /// Always the same rate.
    Constant(Rate),
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
