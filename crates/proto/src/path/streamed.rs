//! What is different on a connection of TCP [specs/paths.md §10]: it keeps order, and brings all
//! that was written, as long as it lasts.
//!
//! ```text
//! no answer yet        late, not lost: the kernel repeats it, and nothing here does so as well
//! three after it have  the peer has dropped it
//! nothing answered     doubtful, suspected: as any path, but nothing is given up
//! it ends              the path is absent, and what is not answered is lost
//! another one          likewise, and the path goes on by that
//! how much leaves      what the kernel takes: the driver says when it takes no more
//! ```
//! One datagram that is lost below holds up all that came after it. Nothing can be done about that
//! within the connection; so a link has two, and control is copied on both.

use units::{Duration, Instant};

use super::health::MOST_UNANSWERED;
use super::{Outcome, Path, Route};
use crate::event::PathState;
use crate::limits;

impl Path {
    /// Tells whether its datagrams go by a connection.
    pub(crate) fn is_stream(&self) -> bool {
        self.address.route().remote.is_stream()
    }

    /// Learns that the connection has ended: until the peer comes by another one, there is no way.
    pub(crate) fn on_stream_ended(&mut self, now: Instant) -> Outcome {
        self.set_present(now, false)
    }

    /// Tells whether the peer comes by a connection to a path that had lost its own.
    pub(crate) fn rejoins(&self, from: Route) -> bool {
        self.state() == PathState::Absent && !self.config.initiator && from.remote.is_stream()
    }

    /// Takes that connection for the path's; its address has to prove itself.
    pub(crate) fn rejoin(&mut self, now: Instant, from: Route) -> Outcome {
        self.address.rejoin(from);
        self.set_present(now, true)
    }

    /// Tells whether what is under way on a connection will answer as well as a probe would: as
    /// much as any suspicion takes, and a probe comes after it. A second later one leaves all the
    /// same: the peer may have dropped what it had no room for.
    pub(super) fn answers_for_probes(&self) -> bool {
        let is_recent =
            || self.looked_at.since(self.probes.last_eliciting_at) < limits::LONGEST_SIGN_OF_LIFE;
        self.is_stream() && self.sent.unanswered().nth(MOST_UNANSWERED - 1).is_some() && is_recent()
    }

    /// Returns the time after which a packet of a connection counts as lost since it is not
    /// answered: longer than any connection stands still. One that is missing among others that are
    /// answered came in order, and the peer has dropped it.
    pub(super) fn patience_of_stream(&self) -> Option<Duration> {
        self.is_stream().then_some(limits::KEYS_OPEN_FOR)
    }

    /// Returns how long a connection is silent because the kernel sends again what was lost below,
    /// which it notices after two round trips at the latest where others follow. That is no reason
    /// to suspect it.
    pub(super) fn repeat_of_stream(&self, srtt: Duration) -> Duration {
        if self.is_stream() { srtt * 2 } else { Duration::ZERO }
    }

    /// Gives up what went by another connection: nothing more comes of that, whether or not it has
    /// arrived. It is no loss of the link.
    pub(super) fn leave_stream(&mut self, now: Instant, outcome: &mut Outcome) {
        if self.is_stream() {
            self.give_up_before(Instant::ZERO + Duration::MAX, now, outcome);
        }
    }
}
