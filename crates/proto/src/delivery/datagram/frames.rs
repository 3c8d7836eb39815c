//! Which frames of video began to leave, or were broken.
//!
//! What follows from it is the queue's [specs/delivery.md §5] (rule 8).

use std::collections::VecDeque;

use units::{Duration, Instant};

use crate::select::RtpFrame;

/// Frames that are remembered of those that began to leave or were broken: each stream leaves one
/// at a time, and a vehicle has some cameras.
const REMEMBERED_FRAMES: usize = 8;
/// The longest that the pieces of a frame take to be handed in: senders that pace spread one over
/// the time of a frame or two. A sender whose time stands still loses no more than that with one
/// packet.
const FRAME_SPREAD: Duration = Duration::from_millis(100);

/// Remembers some frames, the newest ones, and when a piece of each was handed in.
#[derive(Debug, Default)]
pub(super) struct Frames(VecDeque<(RtpFrame, Instant)>);

impl Frames {
    /// Tells whether a piece that was handed in at `since` belongs to one of them: mostly to the
    /// newest.
    pub(super) fn contains(&self, frame: RtpFrame, since: Instant) -> bool {
        self.0.iter().rev().any(|(known, at)| *known == frame && since.since(*at) < FRAME_SPREAD)
    }

    /// Adds the frame of a piece that was handed in at `since`; false when it was there.
    pub(super) fn insert(&mut self, frame: RtpFrame, since: Instant) -> bool {
        if self.contains(frame, since) {
            return false;
        }
        if self.0.len() >= REMEMBERED_FRAMES {
            self.0.pop_front();
        }
        self.0.push_back((frame, since));
        true
    }
}
