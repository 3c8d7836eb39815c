//! What a path's link has shown of itself: how long packets take, and how fast they pass.

use units::{Duration, Instant, Rate};

use super::bottleneck::Bottleneck;
use super::relayed::Relayed;
use crate::recovery::{DeliveryRate, RttEstimator};

/// What is known of the link of a path.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) rtt: RttEstimator,
    pub(super) rate: DeliveryRate,
    pub(super) delivery_rate: Rate,
    /// What the narrowest hop is.
    pub(super) hop: Bottleneck,
    /// The longest that the peer holds acknowledgements of control back.
    pub(super) peer_holds: Duration,
    /// When a datagram left last whose acknowledgement may wait for another.
    pub(super) let_wait_at: Option<Instant>,
    /// When the newest packet whose queue is known was sent, and the bytes in flight then.
    pub(super) known: (Instant, u64),
    /// The same of control: when it was sent, and its own bytes with all headers.
    pub(super) seen: (Instant, usize),
    /// Whether it was thin, or of unknown rate, when it fell silent.
    pub(super) was_thin: bool,
    /// Twice the bytes that it has had under way without a queue since it was new or revived.
    pub(super) proved: u64,
    /// What its gateway takes, where it is a relayed link.
    pub(super) relayed: Option<Relayed>,
}

impl Link {
    /// Begins with nothing known.
    pub(super) fn new(now: Instant, relayed: Option<Relayed>) -> Self {
        Self {
            rtt: RttEstimator::new(),
            rate: DeliveryRate::default(),
            delivery_rate: Rate::ZERO,
            hop: Bottleneck::default(),
            peer_holds: Duration::ZERO,
            let_wait_at: None,
            known: (now, 0),
            seen: (now, 0),
            was_thin: true,
            proved: 0,
            relayed,
        }
    }
}
