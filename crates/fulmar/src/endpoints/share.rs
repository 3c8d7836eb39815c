//! What applications of one channel hear of each other, and which frames pass an endpoint.

use std::net::SocketAddr;

use proto::Instant;
use proto::select::{MavlinkFrame, MavlinkFrames};

use super::LocalEndpoint;
use crate::config::{Content, Filter, MavlinkContent};

/// Which of an endpoint's applications sent something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The only one that there is.
    Only,
    /// A client by its place.
    Client(usize),
    /// A client by its address.
    Address(SocketAddr),
}

/// A frame for the other applications of its channel.
pub(crate) struct Shared {
    pub(crate) origin: Origin,
    /// When it came.
    pub(crate) came: Instant,
    pub(crate) frame: Vec<u8>,
}

/// Splits a datagram by a filter: calls `each` with the frames that pass. Returns how many frames were
/// kept back, and what the datagram lost: broken frames, and bytes of no frame.
pub(super) fn filtered(
    filter: &Filter,
    datagram: &[u8],
    mut each: impl FnMut(&MavlinkFrame<'_>),
) -> (u64, (u64, u64)) {
    let mut frames = MavlinkFrames::new(datagram);
    let mut kept_back = 0;
    for frame in frames.by_ref() {
        if filter.passes(&frame) { each(&frame) } else { kept_back += 1 }
    }
    (kept_back, (u64::from(frames.broken()), frames.skipped() as u64))
}

impl LocalEndpoint {
    /// Takes the frames of its applications that others of the channel are to hear.
    pub(crate) fn take_shared(&mut self) -> Vec<Shared> {
        std::mem::take(&mut self.shared)
    }

    /// Tells whether its applications hear others of the channel, and are heard.
    pub(crate) fn shares(&self) -> bool {
        self.mavlink().is_some_and(|content| content.share)
    }

    pub(super) fn mavlink(&self) -> Option<&MavlinkContent> {
        match &self.config.content {
            Content::Mavlink(content) => Some(content),
            Content::Declared(_) | Content::Message(_) => None,
        }
    }
}
