//! Which delivery carries what is handed in, and the lanes that two of them carry.
//!
//! ```text
//! coded transfers                        → message delivery
//! lanes of sources that sign             → message delivery; what is control also as control
//! TCP of the tunnel, but ACKs alone      → tunnel delivery, unless its form is plain
//! once, on the best path, in no order    → plain datagrams
//! the rest                               → control delivery
//! ```

use units::{Duration, Instant};

use super::control::{CARRIED_LIFE, Rejected, Submission};
use super::datagram::{Plain, RtpPiece};
use super::message::{self, MessageOrder, MessageStream};
use super::{Delivered, Deliveries};
use crate::event::MessageId;
use crate::recovery::PeerClock;
use crate::rejection::Rejection;
use crate::select::{Class, LaneKey, Order, Policy, Reliability, RtpFrame, Tier};
use crate::wire::{CONTROL_OVERHEAD, Frame, Frames};

/// By which stream the messages of sequenced lanes go: one of the tunnel's channel, where no
/// application has streams, so that they leave in the order in which they came.
const LANES_CHANNEL: u8 = 0;
const LANES_STREAM: MessageStream =
    MessageStream { id: u16::MAX, order: MessageOrder::Unordered, deadline: Some(CARRIED_LIFE) };

/// A packet or message that is handed in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    /// The consumer at the other end.
    pub(crate) channel: u8,
    /// How it is to be delivered.
    pub(crate) policy: Policy,
    /// Whose order it keeps.
    pub(crate) lane: LaneKey,
    /// Whether it is TCP, whose order is restored.
    pub(crate) resequence: bool,
    /// The frame of RTP that it is a piece of.
    pub(crate) rtp: Option<RtpFrame>,
    /// When this host has received it: its age counts from then.
    pub(crate) came: Instant,
    /// The packet.
    pub(crate) payload: &'a [u8],
}

/// Says why something was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too much is in flight or queued.
    Busy,
    /// It is longer than a message may be.
    TooLarge,
    /// It has outlived its time to live already.
    TooOld,
}

impl From<Rejected> for Refused {
    fn from(Rejected::Busy: Rejected) -> Self {
        Self::Busy
    }
}

impl Deliveries {
    /// Makes every step of messages through control delivery an event, if that is asked for.
    pub(crate) fn with_steps(mut self, steps: bool) -> Self {
        if steps {
            self.control.outbox.keep_steps();
        }
        self
    }

    /// Tells whether a reliability target needs backups that nothing else calls for.
    pub(crate) fn needs_backups(&self) -> bool {
        self.control.outbox.needs_backups()
    }

    /// Takes other targets of classes, for what is handed in from now on.
    pub(crate) fn set_reliability(&mut self, reliability: &Reliability) {
        self.control.outbox.set_reliability(reliability);
    }

    /// Gives up control that has left: whether it was delivered nobody knows any more.
    pub(crate) fn give_up_sent(&mut self) {
        self.control.outbox.give_up_sent();
    }

    /// Takes a packet in.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        packet: Packet<'_>,
    ) -> Result<Option<MessageId>, Refused> {
        let Packet { channel, policy, lane, resequence, came, .. } = packet;
        let class = policy.class;
        // The queue of bulk bounds its age, and TCP sends again whatever is missing.
        if class != Class::Bulk && now.since(came) >= policy.ttl {
            let account = self.accounts.of(class);
            (account.submitted, account.dropped) = (account.submitted + 1, account.dropped + 1);
            return Err(Refused::TooOld);
        }
        // Its receiver waits a while for what was lost.
        let rtp = packet.rtp.filter(|_| !self.rtp_life.is_zero());
        if rtp.is_none() && self.coded_transfers && policy.is_coded() {
            return self.submit_message((now, came), channel, transfer(policy.ttl), packet.payload);
        }
        let payload = packet.payload.to_vec();
        if rtp.is_none() && self.coded_transfers && policy.order == Order::Sequenced {
            let submission = Submission { channel, policy, lane, payload };
            return self.submit_carried((now, came), submission);
        }
        self.accounts.of(class).submitted += 1;
        if rtp.is_some() || policy.is_plain() {
            let coded = resequence && self.tunnel.carries_tcp();
            let payload = if coded { self.tunnel.submit(now, payload) } else { Some(payload) };
            let Some(payload) = payload else { return Ok(None) };
            // What is left of TCP then are its ACKs: cumulative, they have no order to keep.
            let resequence = resequence && !coded;
            let rtp = rtp.map(|frame| RtpPiece { frame, life: self.rtp_life });
            let since = if resequence { now } else { came };
            self.datagram.submit(since, Plain { channel, class, resequence, rtp, payload });
            return Ok(None);
        }
        let submission = Submission { channel, policy, lane, payload };
        let taken = self.control.outbox.submit_late((now, came), submission);
        self.accounts.of(class).dropped += u64::from(taken.is_err());
        Ok(taken?)
    }

    /// Tells whether a packet of the tunnel would be a symbol of its TCP.
    pub(crate) fn is_symbol(&self, packet: &[u8]) -> bool {
        self.tunnel.carries_tcp() && self.tunnel.is_symbol(packet)
    }

    /// Returns how many bytes less such a packet may have than one that is control.
    pub(crate) fn beyond_control(&self) -> usize {
        self.tunnel.beyond_control()
    }

    /// Takes a message of message delivery in, which came a while ago.
    pub(crate) fn submit_message(
        &mut self,
        (now, came): (Instant, Instant),
        channel: u8,
        stream: MessageStream,
        bytes: &[u8],
    ) -> Result<Option<MessageId>, Refused> {
        let account = self.accounts.of(Class::Message);
        account.submitted += 1;
        if stream.deadline.is_some_and(|deadline| now.since(came) >= deadline) {
            account.dropped += 1;
            return Err(Refused::TooOld);
        }
        let taken = self.message.divider.submit(came, channel, stream, bytes);
        account.dropped += u64::from(taken.is_err());
        taken.map(|()| None).map_err(|refused| match refused {
            message::Refused::Busy => Refused::Busy,
            message::Refused::TooLarge => Refused::TooLarge,
        })
    }

    /// Counts a packet that no delivery is to carry.
    pub(crate) fn on_withheld(&mut self, class: Class) {
        self.accounts.of(class).dropped += 1;
    }

    /// Takes a message of a sequenced lane in: message delivery carries it, and control is copied
    /// as well.
    fn submit_carried(
        &mut self,
        (now, came): (Instant, Instant),
        submission: Submission,
    ) -> Result<Option<MessageId>, Refused> {
        let class = submission.policy.class;
        self.accounts.of(class).submitted += 1;
        let longest = submission.payload.len() + CONTROL_OVERHEAD;
        let has_room = self.message.divider.has_room(longest);
        let mut carried = Vec::with_capacity(longest);
        let taken = if has_room || class.tier() == Tier::Control {
            self.control.outbox.submit_carried((now, came), submission, &mut carried)
        } else {
            Err(Rejected::Busy)
        };
        if taken.is_err() {
            self.accounts.of(class).dropped += 1;
        } else if has_room {
            // Whatever is refused all the same is a loss like others: the lane gives it up.
            let _ = self.message.divider.submit(came, LANES_CHANNEL, LANES_STREAM, &carried);
        }
        Ok(taken?)
    }

    /// Takes in what [`Deliveries::submit_carried`] handed to message delivery at the other end.
    pub(super) fn handle_carried(&mut self, now: Instant, clock: PeerClock<'_>, bytes: &[u8]) {
        let taken = match Frames::new(bytes).next() {
            Some(Ok(Frame::Control(control))) if control.order == Order::Sequenced => {
                let age = clock.age(now, control.submitted_us);
                self.control.handle_carried(now, &control, age)
            }
            _ => false,
        };
        if !taken {
            self.rejected.count(Rejection::Malformed);
        }
    }
}

/// Tells whether a message is one of a lane that message delivery carries.
pub(super) fn is_carried(delivered: &Delivered) -> bool {
    (delivered.channel, delivered.stream) == (LANES_CHANNEL, Some(LANES_STREAM.id))
}

/// Returns the stream of a transfer: frames of one time to live expire in the order in which they
/// came.
fn transfer(ttl: Duration) -> MessageStream {
    let id = u16::try_from(ttl.as_secs()).unwrap_or(u16::MAX);
    MessageStream { id, order: MessageOrder::Unordered, deadline: Some(ttl) }
}
