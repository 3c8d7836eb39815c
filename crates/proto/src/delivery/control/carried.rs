//! Lanes that message delivery carries: all frames of a source that signs [specs/delivery.md §2]
//! (rule 5).
//!
//! ```text
//! bulk, telemetry, plain  → message delivery alone
//! live, liveness, control → copies on every path, and message delivery as well
//! ```
//! Both ways give a message the same number of the same lane, and the receiver puts them in one
//! order. So a gap in the lane lasts as long as message delivery takes to recover one message,
//! whatever was lost; and a command that overtook bulk waits for it a moment, and no longer than
//! `inbox.rs` says.

use units::Instant;

use super::message::Message;
use super::outbox::{Outbox, Rejected};
use super::plan::Form;
use super::sender_lanes::NoLane;
use super::{CARRIED_LIFE, Submission};
use crate::event::MessageId;
use crate::select::Tier;
use crate::wire::Frame;

impl Outbox {
    /// Takes a message of a sequenced lane in, and writes what message delivery is to carry of it
    /// to `carried`. Only what is control is kept here, and gets an id and an outcome if it is
    /// reliable.
    ///
    /// # Errors
    /// As [`Outbox::submit_late`]; nothing was kept then.
    pub(crate) fn submit_carried(
        &mut self,
        (now, came): (Instant, Instant),
        submission: Submission,
        carried: &mut Vec<u8>,
    ) -> Result<Option<MessageId>, Rejected> {
        if submission.policy.class.tier() != Tier::Control {
            return self.pass_by((now, came), submission, carried).map(|()| None);
        }
        let seq = self.next_seq;
        let id = self.submit_late((now, came), submission)?;
        if let Some(message) = self.messages.get(&seq)
            && let Some(place) = message.place
        {
            self.lanes.carry(now, place, now + CARRIED_LIFE);
            let floor = self.lanes.floor(place.lane);
            Frame::Control(message.frame(seq, floor)).encode(carried);
        }
        Ok(id)
    }

    /// Gives a message that has no copies its number.
    fn pass_by(
        &mut self,
        (now, came): (Instant, Instant),
        submission: Submission,
        carried: &mut Vec<u8>,
    ) -> Result<(), Rejected> {
        let (policy, key) = (submission.policy, submission.lane);
        let is_spare = |lane| !self.floors.contains(lane);
        let expires = now + CARRIED_LIFE;
        let place = self.lanes.enter(&policy, key, self.next_seq, expires, is_spare);
        let Some(place) = place.map_err(|NoLane| Rejected::Busy)? else { return Ok(()) };
        self.lanes.carry(now, place, expires);
        self.lanes.leave(place);
        let floor = self.lanes.floor(place.lane);
        Frame::Control(Message::new(came, submission, Some(place), Form::All).frame(0, floor))
            .encode(carried);
        Ok(())
    }
}
