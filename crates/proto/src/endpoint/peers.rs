//! The peers that an endpoint knows: nobody else gets an answer beyond a cookie.

use std::collections::BTreeMap;

use crate::crypto::PublicKey;
use crate::ids::PeerId;

/// Holds what identifies a peer.
pub(super) struct Peer {
    /// Its public key.
    pub(super) key: PublicKey,
    /// What both were given beforehand; zeros without.
    pub(super) psk: [u8; 32],
}

/// Holds the peers by name and by key.
#[derive(Default)]
pub(super) struct Peers {
    peers: Vec<Peer>,
    names: BTreeMap<PublicKey, PeerId>,
}

impl Peers {
    /// Adds a peer, or gives a known one another pre-shared key.
    pub(super) fn add(&mut self, key: PublicKey, psk: Option<[u8; 32]>) -> PeerId {
        let psk = psk.unwrap_or_default();
        if let Some(known) = self.find(&key) {
            self.peers[known.0 as usize].psk = psk;
            return known;
        }
        let peer = PeerId(self.peers.len() as u32);
        self.peers.push(Peer { key, psk });
        self.names.insert(key, peer);
        peer
    }

    /// Returns a peer.
    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.peers.get(peer.0 as usize)
    }

    /// Returns the name of the peer that has this key.
    pub(super) fn find(&self, key: &PublicKey) -> Option<PeerId> {
        self.names.get(key).copied()
    }
}
