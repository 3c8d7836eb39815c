//! The peers that an endpoint knows: nobody else is answered by more than a refusal.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use crate::crypto::{Asked, PeerKey, PublicKey, StaticSecret};
use crate::ids::PeerId;
use crate::limits;

/// Holds what identifies a peer.
pub(super) struct Peer {
    /// Its public key.
    pub(super) key: PublicKey,
    /// What both were given beforehand; zeros without.
    pub(super) psk: Zeroizing<[u8; 32]>,
    /// What both share: it authenticates handshakes.
    pub(super) shared: PeerKey,
}

/// Holds the peers by name and by key.
#[derive(Default)]
pub(super) struct Peers {
    peers: BTreeMap<PeerId, Peer>,
    names: BTreeMap<PublicKey, PeerId>,
    /// Names are not used again.
    next: u32,
}

impl Peers {
    /// Adds a peer, or gives a known one another pre-shared key; `secret` is our own.
    pub(super) fn add(
        &mut self,
        secret: &StaticSecret,
        key: PublicKey,
        psk: Option<&[u8; 32]>,
    ) -> PeerId {
        let psk = Zeroizing::new(psk.copied().unwrap_or_default());
        let shared = PeerKey::agree(secret, &key, &psk);
        let peer = Peer { key, psk, shared };
        let name = self.names.get(&key).copied().unwrap_or_else(|| {
            self.next += 1;
            PeerId(self.next - 1)
        });
        self.peers.insert(name, peer);
        self.names.insert(key, name);
        name
    }

    /// Forgets a peer.
    pub(super) fn remove(&mut self, peer: PeerId) {
        if let Some(peer) = self.peers.remove(&peer) {
            self.names.remove(&peer.key);
        }
    }

    /// Returns the name of the peer of a key.
    #[cfg(test)]
    pub(super) fn named(&self, key: &PublicKey) -> Option<PeerId> {
        self.names.get(key).copied()
    }

    /// Returns a peer.
    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.peers.get(&peer)
    }

    /// Returns who made an Initiation; `own` is our own key.
    ///
    /// The codes of all are tried, at 0.3 µs each. Where there are so many that this costs more
    /// than a Diffie–Hellman, one of those says whose code it must be.
    pub(super) fn find(
        &self,
        asked: &Asked<'_>,
        own: (&StaticSecret, &PublicKey),
    ) -> Option<(PeerId, &Peer)> {
        let mut named = self.peers.iter().map(|(name, peer)| (*name, peer));
        let is_of = |(_, peer): &(PeerId, &Peer)| asked.is_of(&peer.shared);
        if self.peers.len() <= limits::CODES_TRIED {
            return named.find(is_of);
        }
        let name = self.names.get(&asked.claimed_key(own)?)?;
        Some((*name, self.peers.get(name)?)).filter(is_of)
    }
}
