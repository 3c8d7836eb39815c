//! What came in by a path.

use units::{Duration, Instant};

use crate::limits;
use crate::recovery::AckTracker;
use crate::window::SeenWindow;

/// Datagrams of the peer that come in further apart than this show a thin link: 150 bytes at 24
/// kbit/s.
const SLOW: Duration = Duration::from_millis(50);
/// Further apart than this they show nothing: the path is dead. A full datagram takes 2.4 s at 5
/// kbit/s.
const DEAD: Duration = Duration::from_millis(2_500);

/// Which packets of the peer came, and when.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) largest: Option<u64>,
    /// Whether packets of the peer are missing since its last acknowledgement: others may have been
    /// among them.
    pub(super) gap_since_ack: bool,
    pub(super) replay: SeenWindow,
    /// What is to be acknowledged.
    pub(super) acks: AckTracker,
    pub(super) last_at: Option<Instant>,
    /// The time between two datagrams that came in: the longest of the last few.
    pub(super) distance: Duration,
}

impl Default for Incoming {
    fn default() -> Self {
        Self {
            largest: None,
            gap_since_ack: false,
            replay: SeenWindow::new(limits::REPLAY_WINDOW),
            acks: AckTracker::default(),
            last_at: None,
            distance: Duration::ZERO,
        }
    }
}

impl Incoming {
    /// Notes a datagram that came in for the first time; tells whether its number is the largest.
    pub(super) fn on_datagram(&mut self, now: Instant, pn: u64) -> bool {
        self.replay.insert(pn);
        let newest = self.largest.is_none_or(|largest| pn > largest);
        self.gap_since_ack |= self.largest.is_some_and(|largest| pn > largest + 1);
        self.largest = self.largest.max(Some(pn));
        if let Some(last) = self.last_at.replace(now) {
            let gap = Some(now.since(last)).filter(|gap| *gap <= DEAD);
            self.distance = gap.unwrap_or_default().max(self.distance / 2);
        }
        newest
    }

    /// Tells whether datagrams of the peer come in while answers are missing: what is dead or
    /// stands still brings none.
    pub(super) fn comes_in(&self, now: Instant, since: Instant) -> bool {
        self.last_at.is_some_and(|at| at > since && now.since(at) <= DEAD)
    }

    /// Tells whether datagrams of the peer come in, but as slowly as on a thin link.
    pub(super) fn comes_slowly(&self) -> bool {
        self.distance >= SLOW
    }
}
