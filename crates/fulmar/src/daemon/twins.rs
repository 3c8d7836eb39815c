//! Vehicles of several drones that have one number, and one ground station that is given them all:
//! it takes them for one vehicle, and what it tells that one, each of them does.
//!
//! Only endpoints that speak to one address are known to be one ground station's.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use proto::{Duration, Instant};

use super::Daemon;
use crate::config::{Content, EndpointKind};

/// A vehicle that has been silent for longer is gone: heartbeats come once a second.
const SPEAKS: Duration = Duration::from_secs(5);

/// A vehicle's number, and the peer that has one of that number as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Twin {
    pub(super) system: u8,
    pub(super) other: usize,
}

impl Daemon {
    /// Looks which peers' vehicles one ground station cannot tell apart.
    pub(super) fn find_twins(&mut self, now: Instant) {
        let mut first = BTreeMap::new();
        let mut twins = BTreeMap::new();
        for (_, local) in self.locals.iter() {
            let config = &local.config;
            let (EndpointKind::UdpClient(remote), Content::Mavlink(content)) =
                (&config.kind, &config.content)
            else {
                continue;
            };
            for (system, vehicle) in self.peers[config.peer].sources.vehicles().iter() {
                let speaks = now.since(vehicle.heard) < SPEAKS;
                if !speaks || !content.filters.outgoing.passes_system(system) {
                    continue;
                }
                match first.entry((remote.to_string(), system)) {
                    Entry::Vacant(free) => _ = free.insert(config.peer),
                    Entry::Occupied(known) if *known.get() == config.peer => {}
                    Entry::Occupied(known) => {
                        let (one, other) = (*known.get(), config.peer);
                        twins.entry(one).or_insert(Twin { system, other });
                        twins.insert(other, Twin { system, other: one });
                    }
                }
            }
        }
        for (place, twin) in &twins {
            if self.twins.get(place) != Some(twin) {
                let peer = &self.config.peers[*place].name;
                tracing::warn!(%peer, "{}", self.twin_words(*twin));
            }
        }
        self.twins = twins;
    }

    /// Says which other peer has a vehicle of the number of one of this peer's, and what that
    /// means.
    pub(super) fn twin_trouble(&self, place: usize) -> Option<String> {
        self.twins.get(&place).map(|twin| self.twin_words(*twin))
    }

    /// Says the same to a pilot: the number, and the other peer's name.
    pub(super) fn twin_of(&self, place: usize) -> Option<(u8, String)> {
        let twin = self.twins.get(&place)?;
        Some((twin.system, self.config.peers[twin.other].name.clone()))
    }

    fn twin_words(&self, Twin { system, other }: Twin) -> String {
        let other = &self.config.peers[other].name;
        format!(
            "vehicle {system} is {other}'s number too, and one ground station is given both: what it tells one, both do; \
             each needs a number of its own (MAV_SYSID, MAV_SYS_ID)"
        )
    }
}
