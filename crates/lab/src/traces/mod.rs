//! Recorded links: what was measured, in sets of links that may be used together, and windows of
//! them as scenarios.
//!
//! ```text
//! shared (a reader per folder) → LinkSet → Combination (1 to 4 links) → window → Scenario
//! your own files → formats → Reading → RecordedLink ┘        write → scenario.toml and its files
//! flight records → flown (a link of each path) ─────────────────┘
//! flight file → synth → slot matrix → predict
//! broadcasts on a radio → heard (`trace record`) → logs ┬ matrices → SlotMatrix → delivery, rate and loss traces
//! your own files, LinkSet ─ slotted ────────────────────┘
//! ```
//! Nothing but `trace record` runs anything. Recordings come from the folder `traces` in the folder
//! that `FULMAR_SHARED` names, by default `../shared` beside the checkout; none is part of the
//! project.

mod command;
mod flown;
mod formats;
mod heard;
mod joined;
mod matrices;
mod ping;
pub(crate) mod predict;
mod reading;
mod shared;
mod slotted;
pub(crate) mod synth;
mod time;
mod window;
mod write;

pub(crate) use command::{TraceCommand, run as run_command};
#[cfg(fuzzing)]
pub(crate) use flown::try_flights;
#[cfg(fuzzing)]
pub(crate) use formats::{HowToRead, read};
#[cfg(fuzzing)]
pub(crate) use heard::try_log;
pub(crate) use joined::operators_joined;
#[cfg(fuzzing)]
pub(crate) use reading::{Assumed, link};
pub(crate) use shared::{folder, link_sets};
#[cfg(fuzzing)]
pub(crate) use synth::try_flight;
pub(crate) use window::{Choice, Combination, Window, WindowOptions, combinations};

use netem::LinkModel;
use units::Duration;

/// A recorded link: both directions as functions of time.
#[derive(Clone, Debug)]
pub(crate) struct RecordedLink {
    /// What scenarios and figures call it.
    pub(crate) name: String,
    /// From the station to the drone.
    pub(crate) to_drone: LinkModel,
    /// From the drone to the station.
    pub(crate) to_station: LinkModel,
    /// How long the recording is; what is played beyond it begins again.
    pub(crate) length: Duration,
    /// When nothing was recorded, in seconds from its start: no window contains any of it.
    pub(crate) gaps: Vec<(f64, f64)>,
    /// What was not recorded but assumed, and what was left out.
    pub(crate) notes: Vec<String>,
}

/// A stretch of time in which links were recorded, or recordings that are taken together.
#[derive(Clone, Debug)]
pub(crate) struct Take {
    /// What tells it from the other takes of its set; empty where there is only one.
    pub(crate) name: String,
    /// The links, their times counted from the same instant where they are simultaneous.
    pub(crate) links: Vec<RecordedLink>,
}

/// A set of links of which any may be used together.
#[derive(Clone, Debug)]
pub(crate) struct LinkSet {
    /// What the command line calls it.
    pub(crate) name: String,
    /// True when the links were recorded at the same time; otherwise any alignment is as good as
    /// another.
    pub(crate) simultaneous: bool,
    /// A link that every combination must have; the others have a set of their own.
    pub(crate) with: Option<String>,
    /// The recordings.
    pub(crate) takes: Vec<Take>,
}

#[cfg(test)]
mod tests;
