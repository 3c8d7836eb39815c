//! What a link decided about a packet, and the sums of all that it decided.

use smallvec::SmallVec;
use units::Instant;

/// The fate of one packet, decided when it entered the link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The copies that arrive, the original first; empty when the packet was dropped.
    pub deliveries: SmallVec<[Delivery; 1]>,
    /// Why nothing arrives, if so.
    pub dropped: Option<DropCause>,
}

impl Verdict {
    pub(crate) fn dropped(cause: DropCause) -> Self {
        Self { deliveries: SmallVec::new(), dropped: Some(cause) }
    }
}

/// One copy of a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When its last bit arrives.
    pub at: Instant,
    /// True when the link made this copy.
    pub duplicate: bool,
    /// Random bits that say which bit of the packet arrives inverted; `None` when it is intact.
    pub corrupt: Option<u32>,
}

impl Delivery {
    /// Inverts the bit of `payload` that this delivery damages, if it damages one.
    pub fn damage(&self, payload: &mut [u8]) {
        let bits = payload.len().saturating_mul(8);
        if let Some(random) = self.corrupt
            && bits > 0
        {
            let bit = random as usize % bits;
            payload[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropCause {
    /// The queue in front of the transmitter was full.
    Queue,
    /// It was lost on the link.
    Loss,
    /// It was lost by a channel that the link shares with others of its group.
    SharedLoss,
    /// It was transmitted during an outage.
    Outage,
    /// The transmitter never gets to it: rate zero, or a hold without end.
    NeverServed,
    /// The link lets nothing of its protocol through.
    Blocked,
}

impl DropCause {
    /// All causes, in the order of [`LinkStats::dropped`].
    pub const ALL: [Self; 6] =
        [Self::Queue, Self::Loss, Self::SharedLoss, Self::Outage, Self::NeverServed, Self::Blocked];

    /// Returns the word for logs and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Loss => "loss",
            Self::SharedLoss => "shared_loss",
            Self::Outage => "outage",
            Self::NeverServed => "never_served",
            Self::Blocked => "blocked",
        }
    }
}

/// The steps, in bytes, in which lengths of packets are counted.
const LENGTH_STEP: usize = 64;

/// Counts what went into a link and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets that entered.
    pub packets_in: u64,
    /// Bytes that entered.
    pub bytes_in: u64,
    /// Packets that come out, without the copies that the link made.
    pub packets_out: u64,
    /// Bytes that come out, without the copies that the link made.
    pub bytes_out: u64,
    /// Copies that the link made.
    pub duplicates: u64,
    /// Copies that arrive damaged.
    pub corrupted: u64,
    /// Packets dropped, by cause in the order of [`DropCause::ALL`].
    pub dropped: [u64; DropCause::ALL.len()],
    /// Packets that entered, by length: up to 63 bytes, up to 127, …, and in the last place all
    /// longer ones.
    pub packets_in_by_length: [u64; 32],
    /// Bytes of the packets that found the queue full.
    pub queue_dropped_bytes: u64,
    /// The most packets that ever waited for the transmitter.
    pub queue_packets_max: u64,
    /// The most bytes that ever waited for the transmitter.
    pub queue_bytes_max: u64,
}

impl LinkStats {
    /// Returns how many packets were dropped for `cause`.
    pub fn drops(&self, cause: DropCause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Returns how many packets of at least `bytes` bytes entered, `bytes` rounded down to a
    /// multiple of 64.
    pub fn packets_of_at_least(&self, bytes: usize) -> u64 {
        self.packets_in_by_length.iter().skip(bytes / LENGTH_STEP).sum()
    }

    pub(crate) fn count(&mut self, len: usize, verdict: &Verdict) {
        self.packets_in += 1;
        let longest = self.packets_in_by_length.len() - 1;
        self.packets_in_by_length[(len / LENGTH_STEP).min(longest)] += 1;
        self.bytes_in += len as u64;
        if let Some(cause) = verdict.dropped {
            self.dropped[cause as usize] += 1;
            if cause == DropCause::Queue {
                self.queue_dropped_bytes += len as u64;
            }
        } else {
            self.packets_out += 1;
            self.bytes_out += len as u64;
        }
        for delivery in &verdict.deliveries {
            self.duplicates += u64::from(delivery.duplicate);
            self.corrupted += u64::from(delivery.corrupt.is_some());
        }
    }
}
