//! Builds one datagram: frames until it is full, and the record of what it carries.

use crate::recovery::{SentFrame, SentFrames};
use crate::wire::{DATA_HEADER, DATA_OVERHEAD, Frame};

/// Collects frames behind the bytes that are reserved for the header.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    /// The datagram so far.
    pub(super) buf: &'a mut Vec<u8>,
    limit: usize,
    /// Bytes of what goes along, and nowhere alone.
    preface: usize,
    /// What it carries, as far as its fate matters to anyone.
    pub(super) frames: SentFrames,
    /// Whether the peer must acknowledge it.
    pub(super) ack_eliciting: bool,
    /// Whether it carries what obeys the congestion window.
    pub(super) bulk: bool,
    /// Whether it carries control.
    pub(super) urgent: bool,
}

impl<'a> Builder<'a> {
    /// Starts a datagram of at most `datagram` bytes of UDP payload.
    pub(super) fn new(buf: &'a mut Vec<u8>, datagram: usize) -> Self {
        buf.clear();
        buf.resize(DATA_HEADER, 0);
        Self {
            buf,
            limit: datagram.saturating_sub(DATA_OVERHEAD) + DATA_HEADER,
            preface: 0,
            frames: SentFrames::new(),
            ack_eliciting: false,
            bulk: false,
            urgent: false,
        }
    }

    /// Returns how many bytes of frames still fit.
    pub(super) fn room(&self) -> usize {
        self.limit.saturating_sub(self.buf.len())
    }

    /// Returns the bytes of header and frames so far.
    pub(super) fn len(&self) -> usize {
        self.buf.len()
    }

    /// Tells whether it holds nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.buf.len() == DATA_HEADER + self.preface
    }

    /// Begins with a frame for which no datagram leaves.
    pub(super) fn preface(&mut self, frame: &Frame<'_>) {
        if frame.encoded_len() <= self.room() {
            frame.encode(self.buf);
            self.preface = frame.encoded_len();
        }
    }

    /// Appends a frame if it fits, and tells whether it did.
    pub(super) fn push(&mut self, frame: &Frame<'_>) -> bool {
        if frame.encoded_len() > self.room() {
            return false;
        }
        self.ack_eliciting |= frame.is_ack_eliciting();
        frame.encode(self.buf);
        true
    }

    /// Notes what a frame carried that was appended.
    pub(super) fn note(&mut self, sent: SentFrame) {
        self.frames.push(sent);
    }
}
