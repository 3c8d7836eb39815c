//! The published protocol: coders of bounded size, rank-update ACKs, repair at a constant rate
//! \[LRT\].
//!
//! ```text
//! coder c           symbols c·K … c·K + K − 1 of the session; ids rise, the next begins when c is
//!                   full
//! send now          every source symbol, uncoded, before any repair symbol          [LRT §III-E]
//! repair of c       Σ gᵢ·sᵢ over everything that c holds so far, at any moment       [LRT §III-B]
//! needed while      encoder rank (symbols added) > decoder rank (symbols seen)       [LRT §III-C]
//! seen              received in a combination, innovative, and all before it seen or decoded
//! rank-update ACK   when the decoder has seen more; the rank goes back               [LRT §III-C]
//! filter            lowest id that is not fully decoded; a symbol below it is dropped and answered
//!                   with a full-rank ACK                                             [LRT §III-D]
//! rate              in [src·(1 + r), Bw·β]; what sources leave goes to the coders that need
//!                   repair, in turn                                           [LRT §III-E, eq. 2]
//! ```
//! Source: [LRT §III]. [`Sender`] and [`Receiver`] know nothing of each other's place; division,
//! reconstruction and order are `super`'s. It is here to be compared with `super::elastic`, not to
//! be flown.
//!
//! *Deviations from the paper*:
//! 1. A symbol that tells nothing new of a coder that is not full is answered with its rank too.
//!    The paper answers only those below the filter; where the ACK of a stream's last symbol was
//!    lost, repair would go on for ever.
//! 2. The token bucket counts repair symbols: each source symbol adds r, which is the rate src·r
//!    with src measured over one symbol, and puts the repair symbol beside the source symbol. While
//!    no source symbol comes for twice the mean interval, time adds r per mean interval, which the
//!    bucket takes to be 25 ms at most, so that the last message before a pause is repaired too.
//! 3. r is a constant that the configuration gives, 0.5 unless it says otherwise: a choice. The
//!    paper's "matches the observed packet loss rate" [LRT §III-E, eq. 2] collapses at r = loss
//!    (experiments/lrt/README.md).
//! 4. The paper takes Bw as given, and has no congestion control. Here Bw shows where the path has
//!    a queue: then repair leaves only while what is in flight is below β of the congestion window.
//!    Without a queue the session lets symbols leave up to six times the window.
//! 5. Coders in flight are bounded by what a receiver may be made to hold: a sender whose oldest
//!    coder is so far behind takes no more messages.
//! 6. LRT knows one path. Where a session has several, everything goes by the one that the
//!    scheduler gives new data.

mod bucket;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use units::{Duration, Instant};

use super::{Divider, Feedback, Form, FormCounters, Offer, SymbolFrame};
use crate::ids::PathId;
use crate::limits;
use crate::memory::Held;
use crate::path::PathSnapshot;
use crate::wire::{Frame, RepairFrame, SourceFrame};
use receiver::Receiver;
use sender::Sender;

/// The faithful form of message delivery.
#[derive(Debug)]
pub(super) struct Lrt {
    sender: Sender,
    receiver: Receiver,
}

impl Lrt {
    /// Starts without any coder: K is `k`, r is `redundancy`, β is `beta`; out of their bounds they
    /// are taken to the nearest.
    pub(super) fn new(key: u64, k: u16, redundancy: f64, beta: f64) -> Self {
        let k = u64::from(k).clamp(1, limits::WINDOW_SYMBOLS as u64 / 2);
        Self { sender: Sender::new(key, k, redundancy, beta), receiver: Receiver::new(key, k) }
    }
}

/// Returns how many coders of `k` symbols are alive at most, at either end.
fn coders_alive(k: u64) -> u64 {
    (limits::WINDOW_SYMBOLS as u64 / k).max(2)
}

/// Returns about how many bytes a full coder of `k` symbols takes.
fn coder_bytes(k: u64) -> usize {
    2 * (k as usize).next_power_of_two() * limits::SYMBOL_BYTES
}

impl Form for Lrt {
    fn wants(&self, divider: &Divider) -> bool {
        self.sender.wants(divider)
    }

    fn poll_symbol(
        &mut self,
        now: Instant,
        offer: &Offer<'_>,
        room: usize,
        divider: &mut Divider,
    ) -> Option<SymbolFrame<'_>> {
        self.sender.poll_symbol(now, offer, room, divider)
    }

    fn handle_feedback(
        &mut self,
        _now: Instant,
        feedback: Feedback<'_>,
        _paths: &[PathSnapshot],
    ) -> bool {
        match feedback {
            Feedback::Rank(rank) => self.sender.on_rank(&rank),
            Feedback::Window(_) => false,
        }
    }

    fn handle_source(&mut self, _now: Instant, frame: &SourceFrame<'_>) -> bool {
        self.receiver.on_source(frame)
    }

    fn handle_repair(&mut self, _now: Instant, frame: &RepairFrame<'_>) -> bool {
        self.receiver.on_repair(frame)
    }

    fn poll_decoded(&mut self) -> Option<(Vec<u8>, bool)> {
        self.receiver.poll_decoded()
    }

    fn is_next(&self, frame: &SourceFrame<'_>) -> bool {
        self.receiver.is_next(frame)
    }

    fn may_decode(&self) -> usize {
        self.receiver.may_decode()
    }

    fn held(&self) -> Held {
        Held { ours: self.sender.held(), theirs: self.receiver.held() }
    }

    fn set_room(&mut self, ours: usize, theirs: usize) {
        self.sender.set_room(ours);
        self.receiver.set_room(theirs);
    }

    fn feedback_is_due(&self, _now: Instant, _path: PathId) -> bool {
        self.receiver.ack_is_due()
    }

    fn poll_feedback(&mut self, _path: PathId, room: usize) -> Option<Frame<'static>> {
        self.receiver.poll_ack(room).map(Frame::Rank)
    }

    fn timeout(&self) -> Option<Instant> {
        self.sender.timeout()
    }

    fn handle_timeout(&mut self, now: Instant, _probe: Duration) {
        self.sender.let_time_pass(now);
    }

    fn counters(&self) -> FormCounters {
        let (sent, received) = (self.sender.counters(), self.receiver.counters());
        FormCounters {
            received: received.received,
            decoded: received.decoded,
            redundant: received.redundant,
            ..sent
        }
    }
}
