//! The key that two parties share before any handshake: it authenticates the handshake's datagrams.
//!
//! ```text
//! key = BLAKE2s("fulmar peer" ‖ X25519(own secret, public key of the other) ‖ pre-shared key)
//! ```
//!
//! Someone who knows only the two public keys can neither make nor alter a handshake datagram, and
//! so costs a station no Diffie–Hellman, or a single one if it has hundreds of peers. The key
//! encrypts nothing: secrecy comes from the Noise handshake.

use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use zeroize::Zeroizing;

use super::mac::{Code, MacKey};
use super::{PublicKey, StaticSecret};

/// Authenticates handshake datagrams between two parties.
#[derive(Clone)]
pub(crate) struct PeerKey(MacKey);

impl PeerKey {
    /// Agrees with a peer; costs one Diffie–Hellman.
    ///
    /// A weak public key agrees on nothing secret; configurations refuse such keys.
    pub(crate) fn agree(secret: &StaticSecret, peer: &PublicKey, psk: &[u8; 32]) -> Self {
        let mut dh = DefaultResolver
            .resolve_dh(&DHChoice::Curve25519)
            .expect("the default resolver is built with X25519");
        dh.set(secret.as_bytes());
        let mut agreed = Zeroizing::new([0; 64]);
        let (shared, given) = agreed.split_at_mut(32);
        // An error is a weak key: zeros, as the arithmetic says.
        let _ = dh.dh(&peer.0, shared);
        given.copy_from_slice(psk);
        Self(MacKey::derive("fulmar peer", &*agreed))
    }

    /// Computes the code over `parts`; the first begins with the type of a datagram.
    pub(crate) fn code(&self, parts: &[&[u8]]) -> Code {
        self.0.code(parts)
    }

    /// Checks a code in constant time.
    pub(crate) fn verify(&self, parts: &[&[u8]], code: &Code) -> bool {
        self.0.verify(parts, code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parties_agree_and_nobody_else() {
        let [drone, station, other] = [1, 2, 3].map(|seed| StaticSecret::generate([seed; 32]));
        let code = |secret: &StaticSecret, peer: &StaticSecret, psk| {
            PeerKey::agree(secret, &peer.public(), &[psk; 32]).code(&[b"text"])
        };
        let agreed = code(&drone, &station, 0);
        assert_eq!(code(&station, &drone, 0), agreed);
        assert_ne!(code(&station, &drone, 1), agreed, "another pre-shared key");
        assert_ne!(code(&other, &station, 0), agreed);
        assert_ne!(code(&other, &drone, 0), agreed);
    }
}
