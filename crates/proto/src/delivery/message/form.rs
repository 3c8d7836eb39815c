//! The trait of the two forms: how symbols travel so that every one arrives in time.
//!
//! A form gets symbols from the [`Divider`] at the moment when it puts them on a path, and hands
//! decoded ones out for reconstruction. What it sends goes where the session offers a path; it
//! knows no key, no packet number and no other traffic.

use core::fmt::Debug;

use units::{Duration, Instant};

use super::Divider;
use crate::ids::PathId;
use crate::memory::Held;
use crate::path::PathSnapshot;
use crate::wire::{FeedbackFrame, Frame, RankFrame, RepairFrame, SourceFrame};

/// A symbol that is to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolFrame<'a> {
    /// As it was divided.
    Source(SourceFrame<'a>),
    /// A combination.
    Repair(RepairFrame<'a>),
}

impl<'a> SymbolFrame<'a> {
    /// Returns it as a frame.
    pub(crate) fn frame(self) -> Frame<'a> {
        match self {
            Self::Source(source) => Frame::Source(source),
            Self::Repair(repair) => Frame::Repair(repair),
        }
    }
}

/// Feedback that came in, of either form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feedback<'a> {
    /// Of the elastic window.
    Window(&'a FeedbackFrame),
    /// Of a coder of the faithful form.
    Rank(RankFrame),
}

/// Offers one path to a form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    /// The path that the datagram will go by.
    pub(crate) path: PathId,
    /// Whether the scheduler gives new data to this path.
    pub(crate) is_best: bool,
    /// Whether the congestion window and pacing let bulk leave on it; where they do not, source
    /// symbols may leave nevertheless because the path has no queue.
    pub(crate) has_budget: bool,
    /// Every path of the session.
    pub(crate) paths: &'a [PathSnapshot],
}

/// What became of symbols since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FormCounters {
    /// Symbols divided and sent.
    pub(crate) source: u64,
    /// Combinations sent.
    pub(crate) repair: u64,
    /// Symbols sent again as they were divided.
    pub(crate) resent: u64,
    /// Symbols that came in as they were divided.
    pub(crate) received: u64,
    /// Symbols that had to be decoded.
    pub(crate) decoded: u64,
    /// Symbols and combinations that came in and told nothing new.
    pub(crate) redundant: u64,
    /// Symbols that were given up because their deadlines had passed.
    pub(crate) given_up: u64,
}

/// Carries symbols: \[LRT\] as published, or the elastic window.
///
/// ```text
/// sender    if form.wants(…)  { form.poll_symbol(…) until none }    on every path that has room
///           form.handle_feedback(…), form.on_acked(…), form.on_lost(…)
/// receiver  form.handle_source(…) | form.handle_repair(…);  form.poll_decoded() until none
///           if form.feedback_is_due(…) { form.poll_feedback(…) until none }
/// ```
pub(crate) trait Form: Debug + Send {
    /// Tells whether [`Form::poll_symbol`] may have something for the path: cheap, may err on the
    /// side of true.
    fn wants(&self, divider: &Divider) -> bool;

    /// Returns what goes next on the path that is offered, at most `room` bytes of frame; a new
    /// symbol comes from the divider.
    fn poll_symbol(
        &mut self,
        now: Instant,
        offer: &Offer<'_>,
        room: usize,
        divider: &mut Divider,
    ) -> Option<SymbolFrame<'_>>;

    /// Tells whether [`Form::follow_paths`] does anything now.
    fn follows_paths(&self) -> bool {
        false
    }

    /// Learns what became of the paths, after anything that changes them.
    fn follow_paths(&mut self, _now: Instant, _paths: &[PathSnapshot]) {}

    /// Learns that a packet with a symbol arrived.
    fn on_acked(&mut self, _path: PathId) {}

    /// Learns that a packet with a symbol was lost; `congested` when the path had a queue, so
    /// that sending more would not have helped.
    fn on_lost(&mut self, _path: PathId, _congested: bool) {}

    /// Takes feedback; false when it makes no sense.
    fn handle_feedback(
        &mut self,
        now: Instant,
        feedback: Feedback<'_>,
        paths: &[PathSnapshot],
    ) -> bool;

    /// Takes a symbol that came in; false when it makes no sense.
    fn handle_source(&mut self, now: Instant, frame: &SourceFrame<'_>) -> bool;

    /// Takes a combination that came in; false when it makes no sense.
    fn handle_repair(&mut self, now: Instant, frame: &RepairFrame<'_>) -> bool;

    /// Returns the next symbol that became known, and whether it had to be decoded.
    fn poll_decoded(&mut self) -> Option<(Vec<u8>, bool)>;

    /// Tells whether nothing is missing before a symbol that came in.
    fn is_next(&self, frame: &SourceFrame<'_>) -> bool;

    /// Learns that symbols below `end` came for which there was no room: they are missing.
    fn on_refused(&mut self, _now: Instant, _end: u64) {}

    /// Returns how many symbols one that comes in can make known.
    fn may_decode(&self) -> usize;

    /// Returns how many bytes the coders take.
    fn held(&self) -> Held;

    /// Notes how many bytes more they may take: what they need to go on at all they take
    /// nevertheless.
    fn set_room(&mut self, ours: usize, theirs: usize);

    /// Tells whether feedback must leave on the path now although nothing else does.
    fn feedback_is_due(&self, now: Instant, path: PathId) -> bool;

    /// Returns the next feedback for a datagram that leaves on the path: due or not, it costs
    /// little. None when the path's peer was told, or it needs more than `room` bytes.
    fn poll_feedback(&mut self, path: PathId, room: usize) -> Option<Frame<'static>>;

    /// Returns when [`Form::handle_timeout`] wants to be called.
    fn timeout(&self) -> Option<Instant>;

    /// Lets time pass; `probe` is the time after which the peer's answer is overdue.
    fn handle_timeout(&mut self, now: Instant, probe: Duration);

    /// Returns what was counted.
    fn counters(&self) -> FormCounters;
}
