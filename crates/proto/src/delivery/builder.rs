//! Builds one datagram: frames until it is full, and the record of what it carries.

use crate::recovery::{Mark, SentFrame, SentFrames};
use crate::wire::{DATA_HEADER, DATA_OVERHEAD, Frame};

/// Collects frames behind the bytes that are reserved for the header.
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    /// The datagram so far.
    pub(crate) buf: &'a mut Vec<u8>,
    limit: usize,
    /// Bytes of what goes along, and nowhere alone.
    preface: usize,
    /// The place of the delivery that adds to it now.
    owner: u8,
    /// What it carries, as far as its fate matters to anyone.
    pub(crate) frames: SentFrames,
    /// Whether the peer must acknowledge it.
    pub(crate) ack_eliciting: bool,
    /// Whether it carries what obeys the congestion window.
    pub(crate) bulk: bool,
    /// Whether it carries control.
    pub(crate) urgent: bool,
    /// Whether nothing depends on a quick acknowledgement of the control that it carries: the same
    /// leaves on another path, too.
    pub(crate) may_wait: bool,
}

impl<'a> Builder<'a> {
    /// Starts a datagram of at most `datagram` bytes of UDP payload.
    pub(crate) fn new(buf: &'a mut Vec<u8>, datagram: usize) -> Self {
        buf.clear();
        buf.resize(DATA_HEADER, 0);
        Self {
            buf,
            limit: datagram.saturating_sub(DATA_OVERHEAD) + DATA_HEADER,
            preface: 0,
            owner: 0,
            frames: SentFrames::new(),
            ack_eliciting: false,
            bulk: false,
            urgent: false,
            may_wait: false,
        }
    }

    /// Returns how many bytes of frames still fit.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.buf.len())
    }

    /// Returns the bytes of header and frames so far.
    pub(crate) fn len(&self) -> usize {
        self.buf.len()
    }

    /// Returns the bytes of the datagram, sealed.
    pub(crate) fn datagram_len(&self) -> usize {
        self.buf.len() + DATA_OVERHEAD - DATA_HEADER
    }

    /// Tells whether it holds nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.buf.len() == DATA_HEADER + self.preface
    }

    /// Begins with a frame for which no datagram leaves.
    pub(crate) fn preface(&mut self, frame: &Frame<'_>) {
        if frame.encoded_len() <= self.room() {
            frame.encode(self.buf);
            self.preface += frame.encoded_len();
        }
    }

    /// Begins with what the peer is to know of the path before all else; no datagram leaves for it
    /// either.
    pub(crate) fn preface_noted(&mut self, frame: &Frame<'_>, sent: SentFrame) {
        if frame.encoded_len() <= self.room() {
            self.preface(frame);
            self.ack_eliciting |= frame.is_ack_eliciting();
            self.frames.push(sent);
        }
    }

    /// Appends a frame if it fits, and tells whether it did.
    pub(crate) fn push(&mut self, frame: &Frame<'_>) -> bool {
        if frame.encoded_len() > self.room() {
            return false;
        }
        self.ack_eliciting |= frame.is_ack_eliciting();
        frame.encode(self.buf);
        true
    }

    /// Notes what the session added.
    pub(crate) fn note_own(&mut self, sent: SentFrame) {
        self.frames.push(sent);
    }

    /// Notes what the delivery added whose turn it is.
    pub(crate) fn note(&mut self, mark: Mark) {
        self.frames.push(SentFrame::Delivery { owner: self.owner, mark });
    }

    /// Tells whether that delivery has noted something of this kind.
    pub(crate) fn has_note(&self, kind: u8) -> bool {
        let is_it = |sent: &SentFrame| {
            matches!(sent, SentFrame::Delivery { owner, mark }
                if *owner == self.owner && mark.kind == kind)
        };
        self.frames.iter().any(is_it)
    }

    /// Tells whether anything was noted beside what every datagram begins with.
    pub(crate) fn is_noted(&self) -> bool {
        self.frames.iter().any(|sent| !matches!(sent, SentFrame::PathUse { .. }))
    }

    /// Gives the delivery at this place its turn.
    pub(super) fn set_owner(&mut self, place: u8) {
        self.owner = place;
    }
}
