//! The relays between two daemons, which are gateways then: what all their files say.
//!
//! ```text
//! station ═ ground ═ g1 g2 … ┄ radio ┄ a1 a2 … ═ air ═ drone
//! ```
//! Hosts and networks of the scenario have these names. One key, of this run alone, is the group's.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use units::Rate;

use super::daemon::socket_path;
use super::links::{Copy, Side};

/// What a group of relays is like.
#[derive(Clone, Debug)]
pub(crate) struct RelayPlan {
    /// The lines of a gateway's `[[relay]]` that say how it sends.
    pub(crate) form: String,
    /// What each radio carries, headers of UDP and below not counted.
    pub(crate) rate: Rate,
    /// How many relays are at each side: on the ground, in the air.
    pub(crate) relays: [usize; 2],
}

/// Returns what a side is called, also its wire, and the letter that its relays' names begin with.
const fn names(side: Side) -> (&'static str, char) {
    match side {
        Side::Station => ("ground", 'g'),
        Side::Drone => ("air", 'a'),
    }
}

impl RelayPlan {
    /// Returns where the group's key is to be.
    pub(super) fn key_file(&self, directory: &Path) -> PathBuf {
        directory.join("relay.key")
    }

    /// Returns the sections of a gateway's file: its place in the group, and its way to the other
    /// one.
    pub(super) fn gateway_sections(&self, side: Side, copy: &Copy<'_>, directory: &Path) -> String {
        let (wire, key) = (copy.named(names(side).0), self.key_file(directory));
        let way = match side {
            Side::Station => "listen",
            Side::Drone => "path",
        };
        format!(
            "[[relay]]\nname = \"radio\"\ngroup_key_file = {:?}\n\
             wire = {{ interface = \"{wire}\" }}\n{}\n[[{way}]]\nrelay = \"radio\"\n",
            key.display().to_string(),
            self.form,
        )
    }

    /// Returns each relay's host, and its file.
    pub(super) fn files(
        &self,
        realtime: bool,
        copy: &Copy<'_>,
        directory: &Path,
    ) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for (side, count) in Side::BOTH.into_iter().zip(self.relays) {
            let (name, letter) = names(side);
            for node in 1..=count {
                let host = format!("{letter}{node}");
                let mut text = format!("role = \"relay\"\nrealtime = {realtime}\n\n[relay]\n");
                // Writing to a string cannot fail.
                let _ = write!(
                    text,
                    "side = \"{name}\"\nnode = {node}\ngroup_key_file = {:?}\n\
                     wire = {{ interface = \"{}\" }}\n\
                     radio = {{ interface = \"{}\", rate_mbps = {} }}\n\n[status]\nsocket = {:?}\n",
                    self.key_file(directory).display().to_string(),
                    copy.named(name),
                    copy.named("radio"),
                    self.rate.as_mbps(),
                    socket_path(directory, &host).display().to_string(),
                );
                files.push((host, text));
            }
        }
        files
    }
}
