//! Which MAVLink frames pass an endpoint, in either direction.

use std::str::FromStr;

use proto::select::{MavlinkFrame, message_id};
use toml_keys::Section;

/// What passes an endpoint in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Message ids that pass; none listed: all.
    allow_messages: Vec<u32>,
    block_messages: Vec<u32>,
    /// Sending systems that pass; none listed: all.
    allow_systems: Vec<u8>,
    block_systems: Vec<u8>,
}

/// Both directions, seen from the endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    /// What is taken from the endpoint's applications.
    pub(crate) incoming: Filter,
    /// What they are given.
    pub(crate) outgoing: Filter,
}

impl Filter {
    /// Tells whether everything passes.
    pub(crate) fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Tells whether frames of a system pass.
    pub(crate) fn passes_system(&self, system: u8) -> bool {
        (self.allow_systems.is_empty() || self.allow_systems.contains(&system))
            && !self.block_systems.contains(&system)
    }

    /// Tells whether a frame passes.
    pub(crate) fn passes(&self, frame: &MavlinkFrame<'_>) -> bool {
        let is_allowed = |list: &[u32], id| list.is_empty() || list.contains(&id);
        is_allowed(&self.allow_messages, frame.message)
            && !self.block_messages.contains(&frame.message)
            && self.passes_system(frame.system)
    }
}

/// Reads the filters of a `[[mavlink]]` section.
pub(super) fn filters(section: &Section<'_>) -> Filters {
    Filters {
        incoming: Filter {
            allow_messages: messages(section, "allow_messages_in"),
            block_messages: messages(section, "block_messages_in"),
            allow_systems: systems(section, "allow_systems_in"),
            block_systems: systems(section, "block_systems_in"),
        },
        outgoing: Filter {
            allow_messages: messages(section, "allow_messages_out"),
            block_messages: messages(section, "block_messages_out"),
            allow_systems: systems(section, "allow_systems_out"),
            block_systems: systems(section, "block_systems_out"),
        },
    }
}

/// A message that is written as its name or its number.
struct Named(u32);

impl FromStr for Named {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        message_id(text).map(Self).ok_or(())
    }
}

fn messages(section: &Section<'_>, key: &'static str) -> Vec<u32> {
    let named = section.list::<Named>(key, "a MAVLink message such as \"HEARTBEAT\" or \"30\"");
    named.into_iter().map(|Named(id)| id).collect()
}

fn systems(section: &Section<'_>, key: &'static str) -> Vec<u8> {
    if !section.has(key) {
        return Vec::new();
    }
    let listed = section.numbers(key, 1..=255).unwrap_or_default();
    listed.into_iter().map(|system| system as u8).collect()
}
