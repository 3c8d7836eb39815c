//! The peers that an endpoint knows: nobody else is answered by more than a refusal.

use std::collections::BTreeMap;

use crate::crypto::{Asked, PeerKey, PublicKey, StaticSecret};
use crate::ids::PeerId;

/// Holds what identifies a peer.
pub(super) struct Peer {
    /// Its public key.
    pub(super) key: PublicKey,
    /// What both were given beforehand; zeros without.
    pub(super) psk: [u8; 32],
    /// What both share: it authenticates handshakes.
    pub(super) shared: PeerKey,
}

/// Holds the peers by name and by key.
#[derive(Default)]
pub(super) struct Peers {
    peers: Vec<Peer>,
    names: BTreeMap<PublicKey, PeerId>,
}

impl Peers {
    /// Adds a peer, or gives a known one another pre-shared key; `secret` is our own.
    pub(super) fn add(
        &mut self,
        secret: &StaticSecret,
        key: PublicKey,
        psk: Option<[u8; 32]>,
    ) -> PeerId {
        let psk = psk.unwrap_or_default();
        let peer = Peer { key, psk, shared: PeerKey::agree(secret, &key, &psk) };
        if let Some(known) = self.names.get(&key) {
            self.peers[known.0 as usize] = peer;
            return *known;
        }
        let name = PeerId(self.peers.len() as u32);
        self.peers.push(peer);
        self.names.insert(key, name);
        name
    }

    /// Returns a peer.
    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.peers.get(peer.0 as usize)
    }

    /// Returns who made an Initiation: the codes of all are tried, at 0.3 µs each.
    pub(super) fn find(&self, asked: &Asked<'_>) -> Option<(PeerId, &Peer)> {
        let named = self.peers.iter().enumerate().map(|(place, peer)| (PeerId(place as u32), peer));
        named.into_iter().find(|(_, peer)| asked.is_of(&peer.shared))
    }
}
