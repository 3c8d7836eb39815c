//! What applications of one channel hear of each other.

use std::net::SocketAddr;

use proto::Instant;

use super::LocalEndpoint;
use super::sources::Program;
use crate::config::{Content, MavlinkContent};

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
    pub(crate) from: Program,
    /// When it came.
    pub(crate) came: Instant,
    pub(crate) frame: Vec<u8>,
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
