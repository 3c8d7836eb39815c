//! What of the old file is in the new one: peers, and the endpoints that belong to them.

use std::collections::BTreeMap;

use crate::config::{EndpointConfig, Peer};

/// Where each peer of the old file is in the new one.
pub(super) struct Moves(Vec<Option<usize>>);

impl Moves {
    /// A peer is its key: with another key, or another pre-shared one, it is another peer.
    pub(super) fn between(old: &[Peer], new: &[Peer]) -> Self {
        let places: BTreeMap<_, usize> =
            new.iter().enumerate().map(|(place, peer)| (peer.key, place)).collect();
        let moved = |peer: &Peer| {
            let place = *places.get(&peer.key)?;
            (new[place].preshared_key == peer.preshared_key).then_some(place)
        };
        Self(old.iter().map(moved).collect())
    }

    /// Returns the place of an old peer in the new file; none when it is gone.
    pub(super) fn peer(&self, old: usize) -> Option<usize> {
        self.0.get(old).copied().flatten()
    }

    /// Walks the old peers: their places in the new file.
    pub(super) fn iter(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        self.0.iter().copied()
    }

    /// Tells whether an endpoint of the new file is an old one, unchanged.
    pub(super) fn is_same(&self, old: &EndpointConfig, new: &EndpointConfig) -> bool {
        self.peer(old.peer).is_some_and(|peer| EndpointConfig { peer, ..old.clone() } == *new)
    }
}
