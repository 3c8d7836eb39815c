//! What is different on a relayed link [specs/paths.md §9]: its relays pull, and nothing there is
//! lost without being told.
//!
//! Datagrams of 200 bytes or less leave at once and overtake those that are coded. So their round
//! trips are the path's, and those alone are lost by time. A coded one is lost when the gateway
//! gives it up, when the gateway says that it came and no acknowledgement follows, or when the path
//! falls silent. While it waits in the relays, younger packets are acknowledged: it makes no path
//! silent.
//!
//! There is no congestion window: two windows, one behind the other, would halve the rate. Where
//! rates are compared, that of the path is what was delivered last, 1 Mbit/s at least.
//!
//! A radio may be thinner than control, and small datagrams show that, as long as they wait for
//! nothing but each other:
//! ```text
//! no coded ones under way                small datagrams show the hop, as on any path
//! coded ones, best radio ≥ 300 kbit/s    they show nothing: they wait for the coded ones
//! coded ones, best radio < 300 kbit/s    thin, at that rate: control may find one radio free
//! ```

use smallvec::{SmallVec, smallvec};
use units::{Duration, Instant, Rate};

use super::control_window::THIN;
use super::{Outcome, Path};
use crate::limits;

/// What it is taken to carry before anything has been delivered.
pub(super) const LEAST_RATE: Rate = Rate::from_bps(1_000_000);

/// What a repair by relays is reckoned with as: where few frames are heard, a generation takes a
/// second or two.
const REPAIR: Duration = Duration::from_millis(350);

/// What a gateway takes now: [`crate::RelayNode::room`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayRoom {
    /// Whether a datagram above 200 bytes would leave.
    pub open: bool,
    /// The longest datagram that it takes, 1,200 bytes at least.
    pub max_datagram: usize,
    /// What the best of its radios carries of those, as far as is known.
    pub carries: Rate,
}

/// The gateway, as a path knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Relayed {
    room: RelayRoom,
}

impl Relayed {
    /// Returns the longest datagram that the link carries.
    pub(super) fn max_datagram(&self) -> usize {
        self.room.max_datagram.clamp(limits::MIN_DATAGRAM, limits::MAX_DATAGRAM)
    }

    /// Tells whether a datagram above 200 bytes may leave.
    pub(super) fn is_open(&self) -> bool {
        self.room.open
    }
}

impl Path {
    /// Learns what the gateway takes; nothing where this is no relayed link.
    pub(crate) fn set_relay_room(&mut self, room: RelayRoom) {
        if let Some(relayed) = &mut self.link.relayed {
            relayed.room = room;
        }
    }

    /// Returns how long a datagram may be now: what leaves at once first, so that packets that fit
    /// into it do not wait together in a longer one; likewise what leaves in one piece.
    pub(crate) fn lengths(&self) -> SmallVec<[usize; 2]> {
        match &self.link.relayed {
            None if self.may_cut() => smallvec![self.max_datagram(), self.longest_datagram()],
            None => smallvec![self.max_datagram()],
            Some(relayed) if relayed.is_open() => {
                smallvec![limits::RELAY_SMALL, self.max_datagram()]
            }
            Some(_) => smallvec![limits::RELAY_SMALL],
        }
    }

    /// Tells whether datagrams may be longer than what it carries in one piece: not before its
    /// address has proved itself.
    fn may_cut(&self) -> bool {
        self.max_datagram() < limits::MAX_DATAGRAM && self.allowance() == u64::MAX
    }

    /// Learns what the gateway says has become of a packet: it has given it up, or relays have
    /// brought it to the other end.
    pub(crate) fn on_relay_fate(&mut self, now: Instant, pn: u64, arrived: bool) -> Outcome {
        let mut outcome = Outcome::default();
        if arrived {
            self.sent.on_landed(now, pn);
            self.detect_lost(now, &mut outcome);
            return outcome;
        }
        let lost = self.sent.give_up(pn);
        self.counters.packets_lost += u64::from(lost.is_some());
        outcome.lost.extend(lost);
        self.look(now, &mut outcome);
        outcome
    }

    /// Returns the round-trip time that whoever misses a packet reckons with: relays repair below,
    /// and small datagrams tell nothing of how long that takes.
    pub(crate) fn awaited(&self) -> Duration {
        let repair = if self.link.relayed.is_some() { REPAIR } else { Duration::ZERO };
        self.srtt_or_initial().max(repair)
    }

    /// Tells whether small datagrams show the hop: they overtake coded ones, but not in a radio.
    /// Where that carries a good deal of coded ones besides, it is not thin, and what small ones
    /// wait there for is not their own queue.
    pub(super) fn shows_hop(&self) -> bool {
        self.link
            .relayed
            .as_ref()
            .is_none_or(|relayed| !self.has_bulk() || relayed.room.carries < THIN)
    }

    /// Returns what the radios carry where all are thin and have coded datagrams to send as well.
    /// Control finds one of them free, so its own datagrams do not show that.
    pub(super) fn thin_radios(&self) -> Option<Rate> {
        let carries = self.link.relayed.as_ref().filter(|_| self.has_bulk())?.room.carries;
        (carries < THIN).then_some(carries)
    }

    /// Tells whether an acknowledgement of a packet of this length gives a round-trip time.
    pub(super) fn is_timed(&self, bytes: u16) -> bool {
        self.link.relayed.is_none() || usize::from(bytes) <= limits::RELAY_SMALL
    }
}
