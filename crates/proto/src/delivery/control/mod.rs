//! Control delivery: control messages copied to every path, the first copy wins [ConClone §3.3].
//!
//! [`Outbox`] is the sender's half, [`Inbox`] the receiver's. Neither sees datagrams, keys or
//! sockets: the session polls the one when a path has room and hands the other what was opened.
//! Packets that are sent once on one path are `delivery/datagram/`. The rules are
//! specs/delivery.md.

mod carried;
mod delivery;
mod dropped;
mod floors;
mod inbox;
mod message;
mod outbox;
mod pending;
mod plan;
mod receiver_lane;
mod rounds;
mod sender_lanes;
mod steps;
#[cfg(test)]
mod tests;

pub(crate) use delivery::Control;
pub(crate) use inbox::{Inbox, Reception};
pub(crate) use outbox::{Ended, Outbox, Rejected};

use units::Duration;

use crate::ids::PathId;
#[cfg(test)]
use crate::path::PathUse;
use crate::path::{Carries, Cost};
use crate::select::{Class, LaneKey, Policy, Tier};

/// A message that has waited for so long is late for every autopilot and ground station: of those
/// the first gives up waiting for an answer after 250 ms.
const LATE: Duration = Duration::from_millis(200);

/// How long message delivery may take over a message of a lane: beyond this age it brings nothing
/// of it any more.
pub(crate) const CARRIED_LIFE: Duration = Policy::TRANSACTIONAL.ttl;

/// Hands a message to [`Outbox::submit_late`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Submission {
    /// The consumer at the other end.
    pub(crate) channel: u8,
    /// How it is to be delivered.
    pub(crate) policy: Policy,
    /// Whose order it keeps.
    pub(crate) lane: LaneKey,
    /// The message.
    pub(crate) payload: Vec<u8>,
}

/// Tells that messages of a lane below `floor` will not come any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneFloor {
    /// The lane.
    pub(crate) lane: u16,
    /// Its lowest number that is still alive, low 32 bits.
    pub(crate) floor: u32,
}

/// What the outbox, and the plan of its copies, have to know of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlPath {
    /// Which path.
    pub(crate) id: PathId,
    /// True when it is believed to work; a suspected path still gets its copies of control.
    pub(crate) usable: bool,
    /// Age at which a copy that is under way there may be repeated there; [`Duration::MAX`] on a
    /// connection, which repeats by itself.
    pub(crate) repeat_after: Duration,
    /// How long a copy takes that is sent now.
    pub(crate) transit: Duration,
    /// Age at which the answer to a copy is overdue that is answered at once.
    pub(crate) answer_after: Duration,
    /// How much longer answers to what is under way may be held back.
    pub(crate) held: Duration,
    /// What a byte costs there, relative to other paths.
    pub(crate) cost: Cost,
    /// What it may carry.
    pub(crate) carries: Carries,
    /// True while it is a backup to which nothing calls control: it gets a copy only where a plan
    /// names it because a target cannot be reached without.
    pub(crate) backup: bool,
}

impl ControlPath {
    /// Tells whether copies of this class go there as a matter of course. Whether other tiers than
    /// control call for a backup is found out when the path has room.
    pub(crate) fn takes(&self, class: Class) -> bool {
        let tier = class.tier();
        self.carries.has(tier) && !(self.backup && tier == Tier::Control)
    }

    /// Tells whether what was sent there is late at worst, and never lost.
    pub(crate) fn keeps(&self) -> bool {
        self.repeat_after == Duration::MAX
    }

    /// Makes a path of which the operator has said nothing.
    #[cfg(test)]
    pub(crate) fn plain(id: PathId, usable: bool, repeat_after: Duration) -> Self {
        let PathUse { cost, backup, carries } = PathUse::default();
        let (transit, answer_after) = (Duration::ZERO, Duration::from_millis(25));
        let held = Duration::ZERO;
        Self { id, usable, repeat_after, transit, answer_after, held, cost, carries, backup }
    }
}

/// A message that the receiver passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControlDelivery {
    /// The consumer: 0 is the tunnel.
    pub(crate) channel: u8,
    /// The class that the sender's selector gave it.
    pub(crate) class: Class,
    /// Estimated time since it was submitted, at the moment of delivery.
    pub(crate) age: Duration,
    /// What is left of its time to live then, for certain.
    pub(crate) life: Duration,
    /// The message.
    pub(crate) payload: Vec<u8>,
}
